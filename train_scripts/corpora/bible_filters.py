"""Filters of the Bible builder (OS A.8): language labels, verse lengths, the quality of a language's editions.

Labels: the language of most verses instead of the file name. A callable predicts it (GlotLID in the paper); Unicode
gives the script. The declared language stays without a callable, without a prediction for half of the sample, and if
the prediction does not contradict it (identifiers know fewer languages than there are Bibles).

Lengths: for editions of one language the paper says "deviate significantly" without a number; the tolerance here is a
share of the mean. Across languages it gives three standard deviations. A deviation among n values is at most
(n - 1) / sqrt(n) standard deviations, so this filter never removes a verse that fewer than eleven editions have.

Quality: good translations of the same verses are more similar to each other than to a bad one. An edition's score is
its mean chrF++ against the other editions of its language, divided by the best such mean.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import regex
from bible_sources import SPLITS, split_of

from hf_echo.languages import SCRIPTS, find_language


class VerseNumbers:
    """Maps verse names to small integers, with the split of each."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.splits: list[int] = []
        self._number: dict[str, int] = {}

    def __call__(self, names: Iterable[str]) -> np.ndarray:
        return np.fromiter(map(self._one, names), np.int32)

    def _one(self, name: str) -> int:
        number = self._number.get(name)
        if number is None:
            number = self._number[name] = len(self.names)
            self.names.append(name)
            self.splits.append(SPLITS.index(split_of(name)))
        return number

    def split(self, verse: np.ndarray) -> np.ndarray:
        """(verses,) index of each verse's split in ``SPLITS``."""
        return np.asarray(self.splits, np.int8)[verse]


@dataclass(eq=False)
class Edition:
    """The verses of one source.

    Attributes:
        lang: code with script, after relabelling; ``declared`` is the code that the file gave.
        verse: (rows,) verse numbers, each once, in the order of the Bible.
        length: (rows,) characters.
        texts: (rows,) mapped from disk.
        keep: (rows,) False for a verse that a filter removed.
        quality: mean chrF++ against the other sources of the language, divided by the best such mean; None
            without other sources.
        completeness: mean over the splits of the share of the language's verses that this source has.
    """

    lang: str
    name: str
    declared: str | None
    verse: np.ndarray
    length: np.ndarray
    texts: pa.ChunkedArray
    keep: np.ndarray
    chrf: float | None = None
    quality: float | None = None
    completeness: float = 0.0
    best: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    facts: dict = field(default_factory=dict)

    @property
    def merit(self) -> float:
        """Score for choosing the best source: quality * completeness.

        OS A.8 picks "the source with highest quality/completeness score". A quotient would reward gaps, so this is
        read as a product.
        """
        return (1.0 if self.quality is None else self.quality) * self.completeness

    def kept_verses(self) -> np.ndarray:
        return self.verse[self.keep]

    def at(self, verses: np.ndarray) -> list[str]:
        """The texts of the given verses; all of them must exist."""
        order = np.argsort(self.verse, kind="stable")
        rows = order[np.searchsorted(self.verse, verses, sorter=order)]
        return self.texts.take(pa.array(rows)).to_pylist()

    def drop(self, mask: np.ndarray, reason: str) -> None:
        """Remove the rows of a mask that are not yet removed, and count them."""
        mask = mask & self.keep
        self.counts[reason] = self.counts.get(reason, 0) + int(mask.sum())
        self.keep = self.keep & ~mask


def spool(texts: list[str], path: Path) -> tuple[pa.ChunkedArray, np.ndarray]:
    """Write texts to disk; return them memory-mapped, and their lengths."""
    column = pa.chunked_array([pa.array(texts, pa.large_string())])
    with pa.OSFile(str(path), "wb") as sink:
        table = pa.table({"text": column})
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    mapped = pa.ipc.open_file(pa.memory_map(str(path))).read_all()["text"]
    return mapped, pc.utf8_length(column).combine_chunks().to_numpy(zero_copy_only=False).astype(np.int32)


LanguageId = Callable[[list[str]], Sequence[str | None]]  # texts -> codes ("fra_Latn" or "fra")

Contradicts = Callable[[str, str], bool]  # (declared code, predicted code) -> whether they contradict each other

# ISO 15924 codes of Unicode scripts: those of our languages, and a few that occur only in Bibles
_MIXED = {"Hans": "Hani", "Hant": "Hani", "Jpan": "Hira Kana"}
UNICODE_SCRIPTS = " ".join([*(_MIXED.get(s, s) for s in SCRIPTS), "Lisu Java Limb Lepc Tale Kali Osge Goth Cham Bali"])
KANA_SHARE = 0.05  # of Han and Kana letters; Japanese has far more, Chinese none


class Label(NamedTuple):
    lang: str | None  # code with script; None if unknown
    predicted: str | None  # the most frequent prediction
    share: float | None  # its share of the sample


def label_of(
    texts: Sequence[str],
    declared: str | None,
    lid: LanguageId | None = None,
    *,
    contradicts: Contradicts | None = None,
    minimum_share: float = 0.5,
) -> Label:
    """Determine the language code of texts in one language.

    Args:
        declared: a code with or without script, or None.
        lid: predicts a code for each text, or None if it cannot.
        contradicts: whether a prediction contradicts a declared code; None: every other language does.
        minimum_share: a smaller majority changes nothing.
    """
    language, declared_script = split_code(declared)
    script = script_of(texts) or declared_script
    predicted, share, lid_script = None, None, None
    if lid is not None and texts:
        votes = Counter(lid(list(texts)))
        predicted, count = min(votes.items(), key=lambda item: (-item[1], str(item[0])))
        share = count / len(texts)
        if predicted is not None and share >= minimum_share:
            iso = split_code(predicted)[0]
            lid_script = next((s for s in ("Hans", "Hant") if s in predicted), None)
            if iso and not (language and contradicts and not contradicts(f"{language}_{script}", predicted)):
                language = iso
    if script == "Hani":  # Unicode does not distinguish Hans and Hant
        script = next((s for s in (lid_script, declared_script) if s in ("Hans", "Hant")), "Hans")
    return Label(f"{language}_{script}" if language and script else None, predicted, share)


def split_code(code: str | None) -> tuple[str | None, str | None]:
    """(ISO 639-3, script or None). An unknown code is returned unchanged."""
    if not code:
        return None, None
    parts = re.split("[-_]", code)
    script = next((part for part in parts[1:] if len(part) == 4), None)
    try:
        known = find_language(code)
    except ValueError:
        try:
            known = find_language(parts[0])
        except ValueError:
            return (parts[0], script) if re.fullmatch("[a-z]{3}", parts[0]) else (None, script)
    return known.split("_")[0], script or (known.split("_")[1] if "_" in known else None)


def script_of(texts: Sequence[str]) -> str | None:
    """ISO 15924 code of the script of most letters; None without a letter of a known script."""
    characters = Counter()
    for text in texts:
        characters.update(text)
    scripts: Counter[str] = Counter()
    for character, count in characters.items():
        if script := _script(character):
            scripts[script] += count
    if not scripts:
        return None
    scripts["Jpan"] = scripts.pop("Hira", 0) + scripts.pop("Kana", 0)
    if scripts["Jpan"] > KANA_SHARE * (scripts["Jpan"] + scripts["Hani"]):
        scripts["Jpan"] += scripts.pop("Hani", 0)
    return min(scripts.items(), key=lambda item: (-item[1], item[0]))[0]


@cache
def _script(character: str) -> str | None:
    if not character.isalpha():
        return None
    return next((s for s in UNICODE_SCRIPTS.split() if _is_in(s).match(character)), None)


@cache
def _is_in(script: str) -> regex.Pattern:
    return regex.compile(rf"\p{{Script={script}}}")


ROUNDS = 4  # of fitting language factors and verse means in turn; two or three suffice


def monolingual_outliers(verse: np.ndarray, length: np.ndarray, tolerance: float) -> np.ndarray:
    """Rows of one language whose length differs from the mean of their verse by more than ``tolerance`` times the mean.

    Args:
        verse: (rows,) verse numbers; a verse occurs once per source.
        length: (rows,) in characters.

    Returns:
        (rows,) bool. With two sources, both rows of a verse are outliers or neither, because no majority exists.
    """
    mean = _mean(verse, length)[verse]
    return np.abs(length - mean) > tolerance * mean


def crosslingual_outliers(lang: np.ndarray, verse: np.ndarray, length: np.ndarray, sigmas: float = 3.0) -> np.ndarray:
    """Rows that deviate from the mean of their verse over all languages by more than ``sigmas`` standard deviations.

    Each length is first divided by its language's factor (`language_factors`). Returns (rows,) bool.
    """
    scaled = length / language_factors(lang, verse, length)[lang]
    mean = _mean(verse, scaled)[verse]
    spread = np.sqrt(_mean(verse, (scaled - mean) ** 2))[verse]
    return np.abs(scaled - mean) > sigmas * spread


def language_factors(lang: np.ndarray, verse: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Length of each language's verses relative to the mean verse: Chinese 0.3, Tamil 1.3.

    Languages have different sets of books, so a language is compared on the same verses with the others, after scaling
    these to a common length: factors and verse means are fitted in turn.
    """
    factors = np.ones(lang.max(initial=-1) + 1)
    total = np.bincount(lang, length, minlength=len(factors))
    for _ in range(ROUNDS):
        mean = _mean(verse, length / factors[lang])
        factors = total / np.maximum(np.bincount(lang, mean[verse], minlength=len(factors)), 1e-9)
        factors[total == 0] = 1.0
    return factors


def _mean(group: np.ndarray, value: np.ndarray) -> np.ndarray:
    count = np.bincount(group)
    return np.bincount(group, value) / np.maximum(count, 1)


MINIMUM = 0.75


def judge(
    editions: Sequence[Edition],
    numbers: VerseNumbers,
    *,
    sample: int | None = 500,
    minimum: float = MINIMUM,
    seed: int = 0,
    on_pair: Callable[[], object] = lambda: None,
) -> None:
    """Set chrf, quality, completeness and best of the sources of one language; remove the bad ones.

    Completeness: share of the verses that any source of the language has, averaged over train, dev and test.

    Args:
        sample: number of verses for comparing two sources, the first ones of a fixed random order that both have;
            None: all.
        minimum: sources with a lower quality lose all their verses.
    """
    for edition, score in zip(editions, mutual_chrf(editions, sample=sample, seed=seed, on_pair=on_pair)):
        edition.chrf = score
    top = max((e.chrf for e in editions if e.chrf is not None), default=0.0)
    for edition in editions:
        edition.quality = edition.chrf / top if edition.chrf is not None and top > 0 else None
        if edition.quality is not None and edition.quality < minimum:
            edition.drop(np.ones(len(edition.verse), bool), "quality")
    for edition, share in zip(editions, completeness(editions, numbers)):
        edition.completeness = share
    left = [e for e in editions if e.keep.any()]
    if left:
        min(left, key=lambda e: (-e.merit, e.name)).best = True


def mutual_chrf(
    editions: Sequence[Edition],
    *,
    sample: int | None = 500,
    seed: int = 0,
    on_pair: Callable[[], object] = lambda: None,
) -> list[float | None]:
    """Mean chrF++ (0-100) of each source against the others as references; None for a source without common verses."""
    from sacrebleu.metrics import CHRF

    chrf = CHRF(word_order=2)
    scores: list[list[float]] = [[] for _ in editions]
    kept = [e.kept_verses() for e in editions]
    last = max((int(v.max(initial=0)) for v in kept), default=0)
    order = np.random.default_rng(seed).permutation(last + 1)  # rank of each verse
    for i, first in enumerate(editions):
        for j in range(i + 1, len(editions)):
            shared = np.intersect1d(kept[i], kept[j])
            if len(shared):
                shared = shared[np.argsort(order[shared])][:sample]
                a, b = first.at(shared), editions[j].at(shared)
                scores[i].append(chrf.corpus_score(a, [b]).score)
                scores[j].append(chrf.corpus_score(b, [a]).score)
            on_pair()
    return [float(np.mean(s)) if s else None for s in scores]


def completeness(editions: Sequence[Edition], numbers: VerseNumbers) -> list[float]:
    kept = [e.kept_verses() for e in editions]
    every = np.unique(np.concatenate(kept)) if kept else np.zeros(0, np.int32)
    total = np.bincount(numbers.split(every), minlength=len(SPLITS))
    there = total > 0
    return [
        float((np.bincount(numbers.split(v), minlength=len(SPLITS))[there] / total[there]).mean())
        if there.any()
        else 0.0
        for v in kept
    ]
