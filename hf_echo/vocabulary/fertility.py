"""Count a tokenizer's tokens, words, characters, bytes, unused entries and round-trip failures by language.

Only the text itself is counted, without special or layout tokens. Texts are read in blocks; memory holds a few sums and
one bit per token for each language. `report` compares tokenizers.
"""

from __future__ import annotations

import copy
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer
from tqdm.auto import tqdm

from ..data.tables import BadRows
from ..language_table import SCRIPTS
from .counts.sources import open_sources, rows_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

ALL = "all"
CHUNK = 1000  # texts encoded at once
EXAMPLES = 3  # failures to keep
MEANS = ("tokens_per_sentence", "tokens_per_word", "tokens_per_character", "bytes_per_token")
# Scripts without spaces between words (or only between phrases, or after each syllable): no tokens per word.
NO_WORDS = {"Hans", "Hant", "Jpan", "Khmr", "Laoo", "Mymr", "Thai", "Tibt", "Yiii"}


@dataclass
class Fertility:
    """Figures of one tokenizer on one language, one script, or all.

    Attributes:
        level: "language", "script" or "all"; `name` is then the code, the script's English name, or "all".
        languages, sentences: numbers counted.
        tokens_per_sentence: the fertility of ECHO D and OS Table 16.
        tokens_per_word: words are separated by white space; None for scripts without such words. For a script or
            all, the mean over languages that have it.
        tokens_per_character: characters are code points of the NFC text, white space included.
        bytes_per_token: UTF-8 bytes of the NFC text per token; 1 for a tokenizer of bytes.
        unused: share of the vocabulary (without special tokens) that no text of these languages uses.
        failures: number of texts where decode(encode(text)) differs from the text, compared in NFC and without outer
            white space, which layouts strip or add.
        ratio: tokens_per_sentence divided by that of the report's first tokenizer.
        examples: the first failures (lang, text, decoded), at most three.
    """

    tokenizer: str
    level: str
    name: str
    script: str
    languages: int
    sentences: int
    tokens_per_sentence: float
    tokens_per_word: float | None
    tokens_per_character: float
    bytes_per_token: float
    unused: float
    failures: int
    ratio: float | None = None
    examples: list[dict[str, str]] = field(default_factory=list)


def texts_by_language(data: Any, split: str | None, on_bad_row: str, progress: bool) -> Iterator[tuple[str, list[str]]]:
    """Yield (language, at most CHUNK of its texts) in file order; pairs give both sides."""
    bad, seen = BadRows(on_bad_row), 0
    sources = open_sources(_sources(data), None, None, split)
    with tqdm(desc="Tokenizing", unit=" texts", unit_scale=True, disable=not progress) as bar:
        for source, block in ((each, block) for each in sources for block in each.blocks()):
            for line, reason in block.bad:
                bad.add(source.label, line, reason)
            for side in source.sides:
                table, bad_rows = rows_of(block, side, source.split)
                for line, reason in bad_rows:
                    bad.add(source.label, line, reason)
                if not bad.skip:
                    bad.report(" so far")
                for lang, texts in _by_language(table):
                    yield lang, texts
                    bar.update(len(texts))
                    seen += len(texts)
    bad.report()
    if not seen:
        of_split = f" of split {split!r}" if split else ""
        raise ValueError(f"{sources[0].label}: no row{of_split}; give rows of lang and text")


def _sources(data: Any) -> list[Any]:
    """Convert Datasets to iterables of (lang, text) for `open_sources`."""
    each = [data] if isinstance(data, (str, PathLike)) or hasattr(data, "features") else list(data)
    for source in each:
        names = getattr(source, "column_names", None) or ("lang", "text")
        if not {"lang", "text"} <= set(names):
            raise ValueError(f"the dataset has no columns lang and text; found: {', '.join(names)}")
    return [((r["lang"], r["text"]) for r in s) if hasattr(s, "features") else s for s in each]


def _by_language(table: pa.Table) -> Iterator[tuple[str, list[str]]]:
    texts: dict[str, list[str]] = {}
    for lang, text in zip(table["lang"].to_pylist(), table["text"].to_pylist(), strict=True):
        texts.setdefault(lang, []).append(text)
    for lang, of_lang in texts.items():
        yield from ((lang, of_lang[i : i + CHUNK]) for i in range(0, len(of_lang), CHUNK))


def script_of(lang: str) -> str:
    """English name of a language's script; the four letters of its code for an unknown script."""
    if "_" not in lang:
        return "none (code)"
    code = lang.split("_")[1]
    return SCRIPTS.get(code, code)


class _Counts:
    """Sums over the texts of one language, and one bit per token that occurred."""

    def __init__(self, size: int) -> None:
        self.sentences = self.tokens = self.words = self.characters = self.bytes = self.failures = 0
        self.used = np.zeros(-(-size // 8), np.uint8)
        self.examples: list[dict[str, str]] = []


class Probe:
    """A tokenizer and its counts by language; the tokenizer is not changed."""

    def __init__(self, name: str, tokenizer: PreTrainedTokenizerFast | Tokenizer) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        if not isinstance(backend, Tokenizer):
            raise ValueError(f"tokenizer {name!r} is a {type(tokenizer).__name__}; give a fast tokenizer")
        self.name, self.backend = name, copy.deepcopy(backend)
        self.backend.no_truncation()
        self.backend.no_padding()
        self.backend.encode_special_tokens = True  # "<s>" in a text is text
        special = {i for i, token in self.backend.get_added_tokens_decoder().items() if token.special}
        ids = set(self.backend.get_vocab(with_added_tokens=True).values())
        self.size = len(ids)
        self.ordinary = np.zeros(max(ids) + 1, bool)
        self.ordinary[list(ids - special)] = True
        self.counts: dict[str, _Counts] = {}

    def add(self, lang: str, texts: list[str]) -> None:
        """Count texts (NFC, stripped) of a language."""
        encodings = self.backend.encode_batch_fast(texts, add_special_tokens=False)
        ids = [encoding.ids for encoding in encodings]
        decoded = self.backend.decode_batch(ids, skip_special_tokens=False)
        counts = self.counts.setdefault(lang, _Counts(len(self.ordinary)))
        counts.sentences += len(texts)
        counts.tokens += sum(map(len, ids))
        counts.words += sum(len(text.split()) for text in texts)
        counts.characters += sum(map(len, texts))
        counts.bytes += sum(len(text.encode()) for text in texts)
        used = np.zeros(len(self.ordinary), bool)
        used[np.fromiter((i for row in ids for i in row), np.int64)] = True
        counts.used |= np.packbits(used)
        for text, back in zip(texts, decoded, strict=True):
            if unicodedata.normalize("NFC", back).strip() != text:
                counts.failures += 1
                if len(counts.examples) < EXAMPLES:
                    counts.examples.append({"lang": lang, "text": text, "decoded": back})

    def rows(self) -> list[Fertility]:
        """Rows of languages by code, then scripts, then all; scripts and all are means over their languages."""
        languages = [self._language(lang, counts) for lang, counts in sorted(self.counts.items())]
        scripts: dict[str, list[Fertility]] = {}
        for row in languages:
            scripts.setdefault(row.script, []).append(row)
        means = [self._mean("script", script, rows) for script, rows in sorted(scripts.items())]
        return [*languages, *means, self._mean(ALL, ALL, languages)]

    def _language(self, lang: str, counts: _Counts) -> Fertility:
        has_words = "_" in lang and lang.split("_")[1] not in NO_WORDS
        return Fertility(
            tokenizer=self.name,
            level="language",
            name=lang,
            script=script_of(lang),
            languages=1,
            sentences=counts.sentences,
            tokens_per_sentence=counts.tokens / counts.sentences,
            tokens_per_word=counts.tokens / counts.words if has_words else None,
            tokens_per_character=counts.tokens / counts.characters,
            bytes_per_token=counts.bytes / max(counts.tokens, 1),  # a lossy tokenizer may produce no token
            unused=self._unused(counts.used),
            failures=counts.failures,
            examples=counts.examples,
        )

    def _mean(self, level: str, name: str, rows: list[Fertility]) -> Fertility:
        means: dict[str, Any] = {}
        for measure in MEANS:
            values = [getattr(row, measure) for row in rows if getattr(row, measure) is not None]
            means[measure] = sum(values) / len(values) if values else None
        return Fertility(
            tokenizer=self.name,
            level=level,
            name=name,
            script=name,
            languages=len(rows),
            sentences=sum(row.sentences for row in rows),
            **means,
            unused=self._unused(np.bitwise_or.reduce([self.counts[row.name].used for row in rows])),
            failures=sum(row.failures for row in rows),
            examples=[example for row in rows for example in row.examples][:EXAMPLES],
        )

    def _unused(self, used: np.ndarray) -> float:
        bits = np.unpackbits(used, count=len(self.ordinary)).astype(bool)
        return 1 - int((bits & self.ordinary).sum()) / max(int(self.ordinary.sum()), 1)
