"""Compare tokenizers on languages: tokens per sentence (fertility) and related measures, by language and script.

    vocabulary_report({"llama3": old, "ours": new}, "dev.parquet").to_markdown()

A script and "all" are means over their languages, as the papers average over the 200 languages of FLORES (ECHO D: 79 ->
44 tokens per sentence). Only the text itself is counted, without special or layout tokens.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer
from tqdm.auto import tqdm

from ..data.tables import BadRows
from ..data.texts import open_texts
from ..languages import SCRIPTS
from ..utils.results import cell_text, markdown_table
from .trim import bare

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

ALL = "all"
CHUNK = 1000  # texts encoded at once
MEASURES = ("tokens_per_sentence", "tokens_per_word", "unused", "failures", "ratio")
# Scripts without spaces between words (or only between phrases, or after each syllable): no tokens per word.
NO_WORDS = {"Hans", "Hant", "Jpan", "Khmr", "Laoo", "Mymr", "Thai", "Tibt", "Yiii"}


@dataclass
class Fertility:
    """Figures of one tokenizer on one language, one script, or all.

    Attributes:
        level: "language", "script" or "all"; `name` is then the code, the script's English name, or "all".
        tokens_per_sentence: the fertility of ECHO D and OS Table 16; `ratio` to that of the report's first tokenizer.
        tokens_per_word: words are separated by white space; None for scripts without such words.
        unused: share of the vocabulary (without special tokens) that no text of these languages uses.
        failures: texts where decode(encode(text)) differs in NFC and without outer white space.
    """

    tokenizer: str
    level: str
    name: str
    script: str
    languages: int
    sentences: int
    tokens_per_sentence: float
    tokens_per_word: float | None
    unused: float
    failures: int
    ratio: float | None = None


@dataclass
class VocabularyReport:
    """Rows per tokenizer and language, script, and all; `sizes`: vocabulary sizes, the base tokenizer first."""

    sizes: dict[str, int]
    rows: list[Fertility]

    def get(self, tokenizer: str, name: str = ALL) -> Fertility:
        """The row of a tokenizer and a language code, a script's English name, or "all"; ValueError if missing."""
        for row in self.rows:
            if row.tokenizer == tokenizer and row.name == name:
                return row
        raise ValueError(f"no row for tokenizer {tokenizer!r} and {name!r}; give names of the report")

    def to_json(self, indent: int | None = 2) -> str:
        content = {"base": next(iter(self.sizes)), "sizes": self.sizes, "rows": [asdict(row) for row in self.rows]}
        return json.dumps(content, ensure_ascii=False, indent=indent)

    def to_markdown(self, by: str = "script") -> str:
        """Markdown table with a column for each tokenizer, of tokens per sentence by "script" or "language" (falling
        for the base; the last row is over all), or of the measures over "all" languages."""
        base, *others = self.sizes
        if by == ALL:
            rows: list[list[Any]] = [["tokens in all", *self.sizes.values()]]
            for measure in MEASURES:
                values = (getattr(self.get(name), measure) for name in self.sizes)
                rows.append([measure.replace("_", " "), *(cell_text(value, 3) for value in values)])
            return markdown_table(["over all languages", *self.sizes], rows)
        of_base = sorted(
            (row for row in self.rows if row.tokenizer == base and row.level == by),
            key=lambda row: -row.tokens_per_sentence,
        )
        header = [by, "script" if by == "language" else "languages", "sentences", *self.sizes]
        header += [f"{name} / {base}" for name in others]
        rows = []
        for row in [*of_base, self.get(base)]:
            line = [row.name, row.script if by == "language" else row.languages, row.sentences]
            line += [cell_text(self.get(name, row.name).tokens_per_sentence, 1) for name in self.sizes]
            rows.append(line + [cell_text(self.get(name, row.name).ratio, 2) for name in others])
        return markdown_table(header, rows)


def vocabulary_report(
    tokenizers: Mapping[str, PreTrainedTokenizerFast | Tokenizer],
    data: Any,
    *,
    split: str | None = None,
    on_bad_row: str = "error",
    progress: bool = True,
) -> VocabularyReport:
    """Measure tokenizers on the same texts; the first one is the base that ratios refer to.

    Args:
        tokenizers: name -> fast tokenizer of transformers or of `tokenizers`; they are not changed.
        data: what `hf_echo.data.texts.open_texts` reads: files or folders (Parquet, TSV, JSONL, and .txt with the
            language in the name), or an iterable of (lang, text). Both sides of pairs are measured.
        split: value of the column ``split``, or split in the file names of a folder; None reads all.
        on_bad_row: "error", or "skip" with one warning.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: no tokenizer or a slow one, no texts and languages, a bad row, no row.
    """
    if not tokenizers:
        raise ValueError("no tokenizers: give at least one")
    probes = [_Probe(name, tokenizer) for name, tokenizer in tokenizers.items()]
    for lang, texts in texts_by_language(data, split, on_bad_row, progress):
        texts = [unicodedata.normalize("NFC", text.strip()) for text in texts]
        for probe in probes:
            probe.add(lang, texts)
    by_probe = [probe.rows() for probe in probes]
    for rows in by_probe:
        for row, base in zip(rows, by_probe[0], strict=True):
            row.ratio = row.tokens_per_sentence / base.tokens_per_sentence if base.tokens_per_sentence else None
    return VocabularyReport({probe.name: probe.size for probe in probes}, [row for rows in by_probe for row in rows])


def texts_by_language(
    data: Any, split: str | None = None, on_bad_row: str = "error", progress: bool = False
) -> Iterator[tuple[str, list[str]]]:
    """Yield (language, at most CHUNK of its texts) in file order; pairs give both sides."""
    bad, seen = BadRows(on_bad_row), 0
    sources = open_texts(data, split=split)
    with tqdm(desc="Tokenizing", unit=" texts", unit_scale=True, disable=not progress) as bar:
        for table in (table for source in sources for table in source.tables(bad)):
            grouped: dict[str, list[str]] = {}
            for lang, text in zip(table["lang"].to_pylist(), table["text"].to_pylist(), strict=True):
                grouped.setdefault(lang, []).append(text)
            for lang, texts in grouped.items():
                yield from ((lang, texts[i : i + CHUNK]) for i in range(0, len(texts), CHUNK))
            bar.update(len(table))
            seen += len(table)
    bad.report()
    if not seen:
        of_split = f" of split {split!r}" if split else ""
        raise ValueError(f"{sources[0].label}: no row{of_split}; give rows of lang and text")


def _script_of(lang: str) -> str:
    """English name of a language's script; the four letters of its code for an unknown script."""
    code = lang.split("_")[1] if "_" in lang else None
    return SCRIPTS.get(code, code) if code else "none (code)"


class _Probe:
    """A tokenizer and its counts by language; the tokenizer is not changed."""

    def __init__(self, name: str, tokenizer: PreTrainedTokenizerFast | Tokenizer) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        if not isinstance(backend, Tokenizer):
            raise ValueError(f"tokenizer {name!r} is a {type(tokenizer).__name__}; give a fast tokenizer")
        self.name, self.backend = name, bare(backend)
        special = {i for i, token in self.backend.get_added_tokens_decoder().items() if token.special}
        ids = set(self.backend.get_vocab(with_added_tokens=True).values())
        self.size = len(ids)
        self.ordinary = np.zeros(max(ids) + 1, bool)
        self.ordinary[list(ids - special)] = True
        self.counts: dict[str, Counter[str]] = {}
        self.used: dict[str, np.ndarray] = {}  # language -> whether each token occurred

    def add(self, lang: str, texts: list[str]) -> None:
        """Count texts (NFC, stripped) of a language."""
        ids = [encoding.ids for encoding in self.backend.encode_batch_fast(texts, add_special_tokens=False)]
        decoded = self.backend.decode_batch(ids, skip_special_tokens=False)
        backs = (unicodedata.normalize("NFC", back).strip() for back in decoded)
        self.counts.setdefault(lang, Counter()).update(
            sentences=len(texts),
            tokens=sum(map(len, ids)),
            words=sum(len(text.split()) for text in texts),
            failures=sum(text != back for text, back in zip(texts, backs, strict=True)),
        )
        used = self.used.setdefault(lang, np.zeros(len(self.ordinary), bool))
        used[np.fromiter((i for row in ids for i in row), np.int64)] = True

    def rows(self) -> list[Fertility]:
        """Rows of languages by code, then scripts, then all; scripts and all are means over their languages."""
        languages = sorted(self.counts)
        scripts: dict[str, list[str]] = {}
        for lang in languages:
            scripts.setdefault(_script_of(lang), []).append(lang)
        groups = [("language", lang, [lang]) for lang in languages]
        groups += [("script", script, langs) for script, langs in sorted(scripts.items())]
        return [self._row(*group) for group in [*groups, (ALL, ALL, languages)]]

    def _row(self, level: str, name: str, langs: list[str]) -> Fertility:
        counts = {lang: self.counts[lang] for lang in langs}
        words = [c["tokens"] / c["words"] for lang, c in counts.items() if "_" in lang and lang[4:8] not in NO_WORDS]
        used = np.logical_or.reduce([self.used[lang] for lang in langs]) & self.ordinary
        return Fertility(
            *(self.name, level, name, _script_of(name) if level == "language" else name, len(langs)),
            sentences=sum(c["sentences"] for c in counts.values()),
            tokens_per_sentence=sum(c["tokens"] / c["sentences"] for c in counts.values()) / len(langs),
            tokens_per_word=sum(words) / len(words) if words else None,
            unused=1 - int(used.sum()) / max(int(self.ordinary.sum()), 1),
            failures=sum(c["failures"] for c in counts.values()),
        )
