"""The file of word counts: load, merge, and balance over languages (ECHO D, OS 4.1).

One Parquet file with the columns lang, kind, word, count, ordered by language code, kind, descending count and code
point. Its metadata has the pre-tokenizer and the numbers of characters and sentences of each language. All operations
work language by language; only `balanced` needs memory for all words, because its result has them.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...data.sampling import unimax
from ..pretokenizer import PATTERNS
from .tables import META, SCHEMA, VERSION, Entry, in_order, sum_by_word, summed, write_counts


@dataclass(frozen=True)
class WordCounts:
    """Word counts in a file; words are read from disk on request.

    Attributes:
        path: the file.
        pattern: name of the pre-tokenizer ("echo", "llama3"); `regex`: its expression at that time.
        max_word_length: longer words were divided into pieces of this many characters.
        entries: figures by language and kind.
    """

    path: Path
    pattern: str
    regex: str
    max_word_length: int
    entries: tuple[Entry, ...]

    @classmethod
    def load(cls, path: str | os.PathLike) -> WordCounts:
        """Open a file of counts; raises FileNotFoundError, or ValueError for another file or version."""
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such file of counts (working folder {Path.cwd()})")
        advice = "make one with `hf-echo vocabulary count`"
        try:
            metadata = pq.read_metadata(path).metadata or {}
        except pa.ArrowInvalid as error:
            raise ValueError(f"{path} is not a Parquet file ({error}): {advice}") from None
        if META.encode() not in metadata:
            raise ValueError(f"{path} is a Parquet file, but not of word counts: {advice}")
        meta = json.loads(metadata[META.encode()])
        if meta["version"] != VERSION:
            raise ValueError(f"{path} has version {meta['version']} of the counts, not {VERSION}: {advice}")
        entries = tuple(Entry(**entry) for entry in meta["entries"])
        return cls(path, meta["pattern"], meta["regex"], meta["max_word_length"], entries)

    @property
    def languages(self) -> list[str]:
        return sorted({entry.lang for entry in self.entries})

    @property
    def characters(self) -> dict[str, int]:
        """Number of characters by language, both kinds together."""
        return {lang: sum(e.characters for e in self.entries if e.lang == lang) for lang in self.languages}

    def table(self, lang: str | None = None, kind: str | None = None) -> pa.Table:
        """The rows (lang, kind, word, count), optionally of one language or kind."""
        file = pq.ParquetFile(self.path)
        wanted = [e for e in self.entries if lang in (None, e.lang) and kind in (None, e.kind)]
        groups = [g for e in wanted for g in e.groups]
        return file.read_row_groups(groups) if groups else SCHEMA.empty_table()

    def check_pattern(self, pattern: str, what: str = "the tokenizer") -> None:
        """Raise ValueError unless the words were made with `pattern` (a name or a regular expression)."""
        if PATTERNS.get(pattern, pattern) != self.regex:
            name = next((n for n, r in PATTERNS.items() if r == PATTERNS.get(pattern, pattern)), None)
            fix = f"count again with pattern {name!r}, or use" if name else "use"
            raise ValueError(
                f"{self.path} was counted with the pre-tokenizer {self.pattern!r}{self._outdated()}, {what} has"
                f" {repr(name) if name else 'another'}: {fix} a tokenizer with the counts' pre-tokenizer"
            )

    def _outdated(self) -> str:
        return "" if PATTERNS.get(self.pattern) == self.regex else " (an older form of it)"

    @classmethod
    def merge(
        cls,
        counts: Sequence[WordCounts | str | os.PathLike],
        out: str | os.PathLike,
        *,
        progress: bool = True,
    ) -> WordCounts:
        """Merge several files of counts into `out` by summing.

        Raises:
            ValueError: no files, or files of different pre-tokenizers.
        """
        loaded = [c if isinstance(c, WordCounts) else cls.load(c) for c in counts]
        if not loaded:
            raise ValueError("no counts to merge: give at least one file")
        first, *others = loaded
        for other in others:
            if (other.regex, other.max_word_length) != (first.regex, first.max_word_length):
                raise ValueError(
                    f"{first.path} was counted with {first._counting()}, {other.path} with {other._counting()}:"
                    " count one of them again with the other's settings"
                )
        readers: dict[tuple[str, str], list[Callable[[], pa.Table]]] = {}
        sentences: dict[tuple[str, str], int] = {}
        for each in loaded:
            file = pq.ParquetFile(each.path)
            for entry in each.entries:
                key = entry.lang, entry.kind
                sentences[key] = sentences.get(key, 0) + entry.sentences
                readers.setdefault(key, []).extend(_reader(file, group) for group in entry.groups)
        counting = {"pattern": first.pattern, "regex": first.regex, "max_word_length": first.max_word_length}
        write_counts(Path(out), readers, sentences, counting, progress=progress)
        return cls.load(out)

    def _counting(self) -> str:
        return f"the pre-tokenizer {self.pattern!r}{self._outdated()} and max_word_length={self.max_word_length}"

    def shares(
        self,
        *,
        top_n: int | None = 126,
        max_upsampling: float = 100,
        language_weights: Mapping[str, float] | None = None,
    ) -> dict[str, float]:
        """Share of each language in the balanced sample, in characters, summing to 1.

        UniMax over the characters of a language (both kinds together), times its weight (default 1; weight 0 removes
        the language before UniMax).

        Args:
            top_n: number of largest languages that UniMax treats equally. max_upsampling: largest repetition factor.
            language_weights: language -> factor on its share.

        Raises:
            ValueError: a weight for a language without counts or below 0; a language without a character.
        """
        weights = dict(language_weights or {})
        sizes = self.characters
        for lang, weight in weights.items():
            if lang not in sizes:
                raise ValueError(
                    f"a weight is given for {lang!r}, which {self.path} does not have: count text in this language or "
                    "leave the weight out"
                )
            if not 0 <= weight < math.inf:
                raise ValueError(f"the language {lang} has weight {weight}; it must be a number >= 0")
        sizes = {lang: size for lang, size in sizes.items() if weights.get(lang, 1) > 0}
        if empty := [lang for lang, size in sizes.items() if size <= 0]:
            raise ValueError(
                f"{self.path}: {empty[0]} is empty (no characters): give it text, or the language weight 0"
            )
        if not sizes:
            raise ValueError(f"{self.path}: every language has weight 0: give one a weight above 0")
        shares = unimax(sizes, max_upsampling=max_upsampling, top_n=top_n)
        weighted = {lang: share * weights.get(lang, 1) for lang, share in shares.items()}
        total = math.fsum(weighted.values())
        return {lang: share / total for lang, share in weighted.items()}

    def balanced(
        self,
        *,
        top_n: int | None = 126,
        max_upsampling: float = 100,
        language_weights: Mapping[str, float] | None = None,
        min_count: int = 1,
        total: int = 1_000_000_000,
    ) -> dict[str, int]:
        """Word -> integer frequency in a balanced sample (ECHO D, OS 4.1).

        Each language has the share of characters that `shares` gives, half of it parallel and half monolingual text; a
        language with one kind uses that. A word with count c in a language and kind of C characters gets
        ``share * c / C / kinds``, summed over languages and kinds.

        Args:
            min_count: per language (kinds together), leave out words with a smaller count. In scripts without
                spaces most words occur once: keep 1 for those.
            total: sum of the frequencies, except for rounding. The default keeps all counts of pairs below 2**31,
                where the `BpeTrainer` of tokenizers overflows.

        Returns:
            Frequencies rounded to the nearest integer, halves up, without words of frequency 0; by descending
            frequency, then code point.

        Raises:
            ValueError: as `shares`; no word has min_count.
        """
        shares = self.shares(top_n=top_n, max_upsampling=max_upsampling, language_weights=language_weights)
        words = summed(self._weighted(shares, min_count), "frequency")
        frequency = words["frequency"].to_numpy()
        if not len(frequency):
            raise ValueError(f"{self.path}: no word was seen {min_count} times: lower the smallest count of a word")
        whole = np.floor(frequency * (total / frequency.sum()) + 0.5).astype(np.int64)
        words = pa.table({"word": words["word"], "count": whole}).filter(pa.array(whole > 0))
        words = in_order(words)
        return dict(zip(words["word"].to_pylist(), words["count"].to_pylist(), strict=True))

    def _weighted(self, shares: Mapping[str, float], min_count: int) -> Iterator[pa.Table]:
        """Yield, per language, its words and their share of the sample."""
        file = pq.ParquetFile(self.path)
        for lang, share in shares.items():
            entries = [e for e in self.entries if e.lang == lang and e.characters > 0]
            tables = []
            for entry in entries:
                table = file.read_row_groups(entry.groups, columns=["word", "count"])
                factor = share / entry.characters / len(entries)
                tables.append(table.append_column("frequency", pc.multiply(table["count"].cast(pa.float64()), factor)))
            table = pa.concat_tables(tables)
            if len(entries) > 1:
                table = sum_by_word(table)
            if min_count > 1:
                table = table.filter(pc.greater_equal(table["count"], min_count))
            yield table.select(["word", "frequency"])


def _reader(file: pq.ParquetFile, group: int) -> Callable[[], pa.Table]:
    return lambda: file.read_row_group(group, columns=["word", "count"])
