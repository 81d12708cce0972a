"""Steps on tokenizers: count words, extend, train and compare.
As in `operations`, nothing heavy is imported."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..utils.choices import OnBadRow
from ..utils.settings import CHECKPOINT, DATA, DefaultOf, Step, setting, step
from .step import Operation, language_code, language_tag, output

SKIP_BAD = "what happens with bad rows: stop with an error, or skip them with a warning"


@step(
    "vocabulary count",
    example="hf-echo vocabulary count corpus.tsv fra_Latn.txt --out counts.parquet",
)
class CountWords(Step):
    """Count words by language, separately for parallel and monolingual text."""

    reports = True
    opens_models = False

    files: list[str] = setting(
        "files or folders: Parquet, TSV, JSONL, or .txt with a language code in the name",
        reads=DATA,
        argument=True,
    )
    out: str = setting("output file of the counts (Parquet)", writes="file")
    pattern: Literal["echo", "llama3"] = setting(
        "pre-tokenization pattern (echo: ECHO D)", DefaultOf("vocabulary.counts.count_words")
    )
    kind: Literal["parallel", "monolingual"] | None = setting(
        "kind of data; default: decided by the columns", None
    )
    lang: str | None = setting(
        "language of text without a language column or code", None, convert=language_code
    )
    source_lang: str | None = setting(
        "language of the sources of pairs without a column for it", None, convert=language_tag
    )
    target_lang: str | None = setting(
        "language of the targets of pairs without a column for it", None, convert=language_tag
    )
    split: str = setting(
        "split to count, in files that have splits; all counts every split",
        DefaultOf("vocabulary.counts.count_words"),
    )
    on_bad_row: OnBadRow = setting(SKIP_BAD, DefaultOf("vocabulary.counts.count_words"))

    def run(self) -> dict[str, Any]:
        """Count the words of the texts; returns the totals."""
        from ..vocabulary.counts import count_words

        split = None if self.split == "all" else self.split
        counts = self.call(count_words, split=split, langs=(self.source_lang, self.target_lang))
        figures = ("sentences", "words", "characters", "distinct")
        totals = {name: sum(getattr(entry, name) for entry in counts.entries) for name in figures}
        return {
            "out": self.out,
            "pattern": self.pattern,
            "languages": len(counts.languages),
            **totals,
        }


@dataclass(kw_only=True)
class OnCounts(Operation):
    """A tokenizer made from word counts, in which the languages are balanced (UniMax)."""

    counts: str | None = setting(
        "word counts: a file written by `hf-echo vocabulary count`", None, reads=DATA
    )
    texts: str | None = setting(
        "instead of counts: training text, whose words are counted first",
        None,
        reads=DATA,
        unless="counts",
    )
    pattern: Literal["echo", "llama3"] | None = setting(
        "pre-tokenization pattern; default: that of the counts", None
    )
    top_languages: int = setting(
        "number of largest languages that get equal shares (UniMax)",
        DefaultOf("vocabulary.counts.WordCounts.balanced", "top_n"),
        least=1,
    )
    max_upsampling: float = setting(
        "largest repetition factor of the smaller languages",
        DefaultOf("vocabulary.counts.WordCounts.balanced"),
        least=1,
    )
    language_weight: dict[str, float] = setting(
        "factors of the shares of languages, such as ell_Grek=2", dict
    )
    min_count: int = setting(
        "smallest count of a word in a language; rarer words are left out",
        DefaultOf("vocabulary.counts.WordCounts.balanced"),
        least=1,
    )

    def is_whole(self) -> bool:
        return (Path(self.output_dir) / "tokenizer.json").is_file()

    def balanced(self) -> tuple[str, dict[str, int]]:
        """(pattern, {word: frequency}) of the counts after the balancing."""
        from tempfile import TemporaryDirectory

        from ..utils.folders import holds_model
        from ..vocabulary.counts import WordCounts, count_words

        if holds_model(Path(self.output_dir)):
            raise ValueError(
                f"{self.output_dir} holds a model: name another folder, and swap the model's tokenizer"
            )
        if not self.counts and not self.texts:
            raise ValueError(f"give {self.spelled('counts')}, or {self.spelled('texts')} to count")
        with TemporaryDirectory() as folder:  # of the counts of texts, which are read from there
            if self.counts:
                loaded = WordCounts.load(self.counts)
            else:
                out = Path(folder) / "counts.parquet"
                loaded = count_words(self.texts, out, pattern=self.pattern or "echo", split=None)
            pattern = self.pattern or loaded.pattern
            loaded.check_pattern(pattern)
            return pattern, loaded.balanced(
                top_n=self.top_languages,
                max_upsampling=self.max_upsampling,
                language_weights=self.language_weight,
                min_count=self.min_count,
            )

    def save(self, tokenizer: Any, results: dict[str, Any]) -> dict[str, Any]:
        """Write the folder whole, with its lineage; returns the report."""
        from ..utils.folders import write_folder
        from ..utils.lineage import write_lineage

        parents = self.names(CHECKPOINT)
        data = self.names(DATA)
        with write_folder(self.output_dir) as folder:
            tokenizer.save_pretrained(folder)
            values = self.names(None)
            options = dict(parents=parents, data=data, output_dir=self.output_dir, results=results)
            write_lineage(folder, str(self.operation), values, **options)
        return {"output_dir": self.output_dir, **results}


@step(
    "vocabulary extend",
    operation="extend_tokenizer",
    example="hf-echo vocabulary extend meta-llama/Meta-Llama-3-8B outputs/tokens --counts c.parquet --merges 128000",
)
class ExtendTokenizer(OnCounts):
    """Extend a BPE tokenizer with new merges (ECHO D); every old token keeps its id."""

    tokenizer: str = setting(
        "byte-level BPE tokenizer: folder, tokenizer.json, GGUF, Hub name or echo-nano",
        reads=CHECKPOINT,
        argument=True,
    )
    output_dir: str = output("folder of the extended tokenizer")
    merges: int | None = setting("number of merges to add; or vocab_size", None, least=1)
    vocab_size: int | None = setting(
        "vocabulary size to reach, in tokens; or merges", None, least=1, unless="merges"
    )

    def make(self) -> dict[str, Any]:
        """Extend a tokenizer by merges of its words, and save it."""
        from ..vocabulary.extend import extend_tokenizer
        from ..vocabulary.loading import load_tokenizer

        if self.merges is None and self.vocab_size is None:
            raise ValueError(
                f"give either {self.spelled('merges')} or {self.spelled('vocab_size')}"
            )
        old = load_tokenizer(self.tokenizer)
        pattern, words = self.balanced()
        new = extend_tokenizer(old, words, self.merges, vocab_size=self.vocab_size, pattern=pattern)
        return self.save(
            new, {"old_tokens": len(old), "tokens": len(new), "distinct_words": len(words)}
        )


@step(
    "vocabulary train",
    operation="train_tokenizer",
    example="hf-echo vocabulary train outputs/tokenizer --counts counts.parquet --vocab-size 32000",
)
class TrainTokenizer(OnCounts):
    """Train a byte-level BPE tokenizer from scratch (as the omnilingual tokenizer of OS 4.1)."""

    output_dir: str = output("folder of the tokenizer")
    vocab_size: int = setting(
        "vocabulary size in tokens, special and reserved tokens included", least=1
    )
    reserved: int = setting("number of reserved tokens", 16, least=0)
    max_length: int = setting(
        "longest text, in tokens (model_max_length)",
        DefaultOf("vocabulary.train.train_from_counts"),
        least=8,
    )

    def make(self) -> dict[str, Any]:
        from ..vocabulary.train import train_from_counts

        pattern, words = self.balanced()
        options = dict(n_reserved=self.reserved, pattern=pattern, max_length=self.max_length)
        new = train_from_counts(words, self.vocab_size, **options)
        return self.save(new, {"tokens": len(new), "distinct_words": len(words)})


@step(
    "vocabulary report",
    example="hf-echo vocabulary report meta-llama/Meta-Llama-3-8B outputs/tokenizer --data dev.parquet --json out.json",
)
class CompareTokenizers(Step):
    """Compare tokenizers: tokens per sentence and related measures, by language and script."""

    tokenizers: list[str] = setting(
        "tokenizers: folder, tokenizer.json, GGUF, Hub name or echo-nano; the first is the baseline",
        reads=CHECKPOINT,
        argument=True,
    )
    data: list[str] = setting("table with the columns lang and text; repeatable", reads=DATA)
    split: str | None = setting("use only this split of the data; default: all", None)
    on_bad_row: OnBadRow = setting(SKIP_BAD, DefaultOf("vocabulary.report.vocabulary_report"))
    json: str | None = setting("write the full report to this JSON file", None, writes="file")
    markdown: str | None = setting(
        "write tables by script and language to this Markdown file", None, writes="file"
    )

    def run(self) -> None:
        """Compare tokenizers on the same texts, on the screen and in files."""
        from ..utils.files import write_text
        from ..vocabulary.loading import load_tokenizer
        from ..vocabulary.report import vocabulary_report

        names = [Path(t).stem if Path(t).is_file() else Path(t).name for t in self.tokenizers]
        # Short names in the tables, unless two are equal.
        names = self.tokenizers if len(set(names)) < len(names) else names
        if len(set(names)) < len(names):
            raise ValueError(
                f"two tokenizers have one name ({', '.join(names)}): give each tokenizer once"
            )
        loaded = {
            name: load_tokenizer(source)
            for name, source in zip(names, self.tokenizers, strict=True)
        }
        comparison = vocabulary_report(
            loaded, self.data, split=self.split, on_bad_row=self.on_bad_row
        )
        print(f"{comparison.to_markdown('all')}\n\n{comparison.to_markdown()}")
        pages = {self.json: comparison.to_json()}
        pages[self.markdown] = "\n\n".join(
            comparison.to_markdown(by) for by in ("all", "script", "language")
        )
        for file, text in pages.items():
            if file:
                write_text(file, text + "\n")
