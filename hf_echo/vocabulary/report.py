"""Compare tokenizers on languages: tokens per sentence (fertility) and related measures, by
language and script.

    vocabulary_report({"llama3": old, "ours": new}, "dev.parquet").to_markdown()

A script and "all" are means over their languages, as the papers average over the 200 languages of
FLORES (ECHO D: 79 -> 44 tokens per sentence). Only the text itself is counted, without special or
layout tokens.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer
from tqdm.auto import tqdm

from ..data.tables import BadRows
from ..data.texts import open_texts
from ..languages import SCRIPTS
from ..utils.bars import hidden
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
        level: "language", "script" or "all"; `name` is then the code, the script's English name, or
            "all".
        tokens_per_sentence: the fertility of ECHO D and OS Table 16; `ratio` to that of the
            report's first tokenizer.
        tokens_per_word: words are separated by white space; None for scripts without such words.
        unused: share of the vocabulary (without special tokens) that no text of these languages
            uses.
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
    """Rows per tokenizer and language, script, and all; `sizes`: vocabulary sizes, the base
    tokenizer first."""

    sizes: dict[str, int]
    rows: list[Fertility]

    def get(self, tokenizer: str, name: str = ALL) -> Fertility:
        """The row of a tokenizer and a language code, a script's English name, or "all"."""
        for row in self.rows:
            if row.tokenizer == tokenizer and row.name == name:
                return row
        raise KeyError((tokenizer, name))

    def to_json(self, indent: int | None = 2) -> str:
        content = {
            "base": next(iter(self.sizes)),
            "sizes": self.sizes,
            "rows": [asdict(row) for row in self.rows],
        }
        return json.dumps(content, ensure_ascii=False, indent=indent)

    def to_markdown(self, by: str = "script") -> str:
        """Markdown table with a column for each tokenizer, of tokens per sentence by "script" or
        "language" (falling for the base; the last row is over all), or of the measures over "all"
        languages."""
        names = list(self.sizes)
        if by == ALL:
            lines: list[list[Any]] = [["tokens in all", *self.sizes.values()]]
            for measure in MEASURES:
                cells = [cell_text(getattr(self.get(name), measure), 3) for name in names]
                lines.append([measure.replace("_", " "), *cells])
            return markdown_table(["over all languages", *names], lines)

        base, *others = names
        second_column = "script" if by == "language" else "languages"
        base_rows = [row for row in self.rows if row.tokenizer == base and row.level == by]
        base_rows.sort(key=lambda row: -row.tokens_per_sentence)
        base_rows.append(self.get(base))
        lines = []
        for base_row in base_rows:
            rows = [self.get(name, base_row.name) for name in names]
            line = [base_row.name, getattr(base_row, second_column), base_row.sentences]
            line += [cell_text(row.tokens_per_sentence, 1) for row in rows]
            line += [cell_text(row.ratio, 2) for row in rows[1:]]
            lines.append(line)
        ratios = [f"{name} / {base}" for name in others]
        return markdown_table([by, second_column, "sentences", *names, *ratios], lines)


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
        data: what `hf_echo.data.texts.open_texts` reads: files or folders (Parquet, TSV, JSONL, and
            .txt with the language in the name), or an iterable of (lang, text). Both sides of pairs
            are measured.
        split: value of the column ``split``, or split in the file names of a folder; None reads
            all.
        on_bad_row: "error", or "skip" with one warning.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: no texts and languages, a bad row, no row.
    """
    # All tokenizers read a block before the next one comes: the texts need not fit into memory.
    probes = [_Probe(name, tokenizer) for name, tokenizer in tokenizers.items()]
    for lang, texts in texts_by_language(data, split, on_bad_row, progress):
        normal_texts = [unicodedata.normalize("NFC", text.strip()) for text in texts]
        for probe in probes:
            probe.add(lang, normal_texts)
    base_rows = probes[0].rows()
    rows = []
    for probe in probes:
        for row, base_row in zip(probe.rows(), base_rows, strict=True):
            if base_row.tokens_per_sentence:
                row.ratio = row.tokens_per_sentence / base_row.tokens_per_sentence
            rows.append(row)
    return VocabularyReport({probe.name: probe.size for probe in probes}, rows)


def texts_by_language(
    data: Any, split: str | None = None, on_bad_row: str = "error", progress: bool = False
) -> Iterator[tuple[str, list[str]]]:
    """Yield (language, at most CHUNK of its texts) in file order; pairs give both sides."""
    bad_rows = BadRows(on_bad_row)
    sources = open_texts(data, split=split)
    rows = 0
    with tqdm(desc="Tokenizing", unit=" texts", unit_scale=True, disable=hidden(progress)) as bar:
        for source in sources:
            for table in source.tables(bad_rows):
                texts_of: dict[str, list[str]] = {}
                langs = table["lang"].to_pylist()
                for lang, text in zip(langs, table["text"].to_pylist(), strict=True):
                    texts_of.setdefault(lang, []).append(text)
                for lang, texts in texts_of.items():
                    for start in range(0, len(texts), CHUNK):
                        yield lang, texts[start : start + CHUNK]
                bar.update(len(table))
                rows += len(table)
    bad_rows.report()
    if not rows:
        suffix = f" of split {split!r}" if split else ""
        raise ValueError(f"{sources[0].label}: no row{suffix}; give rows of lang and text")


def _script_of(lang: str) -> str:
    """English name of a language's script; the four letters of its code for an unknown script."""
    code = lang.split("_")[1] if "_" in lang else None
    return SCRIPTS.get(code, code) if code else "none (code)"


class _Probe:
    """A tokenizer and its counts by language; the tokenizer is not changed."""

    def __init__(self, name: str, tokenizer: PreTrainedTokenizerFast | Tokenizer) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        self.name = name
        self.backend = bare(backend)
        ids = list(set(self.backend.get_vocab(with_added_tokens=True).values()))
        self.size = len(ids)
        # by id: a token of the vocabulary that is not special
        self.ordinary = np.zeros(max(ids) + 1, bool)
        self.ordinary[ids] = True
        for token_id, token in self.backend.get_added_tokens_decoder().items():
            if token.special:
                self.ordinary[token_id] = False
        self.counts: dict[str, Counter[str]] = {}
        self.used: dict[str, np.ndarray] = {}  # language -> whether each token occurred

    def add(self, lang: str, texts: list[str]) -> None:
        """Count texts (NFC, stripped) of a language."""
        encodings = self.backend.encode_batch_fast(texts, add_special_tokens=False)
        ids = [encoding.ids for encoding in encodings]
        # A text that does not come back lacks something in the vocabulary.
        decoded_texts = self.backend.decode_batch(ids, skip_special_tokens=False)
        if lang not in self.counts:
            self.counts[lang] = Counter()
            self.used[lang] = np.zeros(len(self.ordinary), bool)
        counts = self.counts[lang]
        for text, text_ids, decoded in zip(texts, ids, decoded_texts, strict=True):
            counts["sentences"] += 1
            counts["tokens"] += len(text_ids)
            counts["words"] += len(text.split())
            counts["failures"] += unicodedata.normalize("NFC", decoded).strip() != text
            self.used[lang][text_ids] = True

    def rows(self) -> list[Fertility]:
        """Rows of languages by code, then scripts, then all; scripts and all are means over their
        languages."""
        languages = sorted(self.counts)
        languages_of: dict[str, list[str]] = {}
        rows = []
        for lang in languages:
            script = _script_of(lang)
            languages_of.setdefault(script, []).append(lang)
            rows.append(self._row("language", lang, script, [lang]))
        for script in sorted(languages_of):
            rows.append(self._row("script", script, script, languages_of[script]))
        rows.append(self._row(ALL, ALL, ALL, languages))
        return rows

    def _row(self, level: str, name: str, script: str, languages: list[str]) -> Fertility:
        """The figures of a group of languages."""
        # Means over languages, so that one with many texts counts as much as one with few.
        sentence_lengths = []
        word_lengths = []
        is_used = np.zeros(len(self.ordinary), bool)
        for lang in languages:
            counts = self.counts[lang]
            sentence_lengths.append(counts["tokens"] / counts["sentences"])
            if "_" in lang and lang[4:8] not in NO_WORDS:
                word_lengths.append(counts["tokens"] / counts["words"])
            is_used |= self.used[lang] & self.ordinary
        return Fertility(
            tokenizer=self.name,
            level=level,
            name=name,
            script=script,
            languages=len(languages),
            sentences=sum(self.counts[lang]["sentences"] for lang in languages),
            tokens_per_sentence=fmean(sentence_lengths),
            tokens_per_word=fmean(word_lengths) if word_lengths else None,
            unused=1 - int(is_used.sum()) / max(int(self.ordinary.sum()), 1),
            failures=sum(self.counts[lang]["failures"] for lang in languages),
        )
