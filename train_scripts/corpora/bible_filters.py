"""Filters of the Bible builder (OS A.8): language labels, verse lengths, the quality of a
language's editions.

Labels: the language of most verses instead of the file name. A callable predicts it (GlotLID in the
paper); Unicode gives the script. The declared language stays without a callable, without a
prediction for half of the sample, and if the prediction does not contradict it
(identifiers know fewer languages than there are Bibles).

Lengths: for editions of one language the paper says "deviate significantly" without a number; the
tolerance here is a share of the mean. Across languages it gives three standard deviations. A
deviation among n values is at most (n - 1) / sqrt(n) standard deviations, so this filter never
removes a verse that fewer than eleven editions have.

Quality: good translations of the same verses are more similar to each other than to a bad one. An
edition's score is its mean chrF++ against the other editions of its language, divided by the best
such mean.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import regex
from tqdm.auto import tqdm

from hf_echo.languages import SCRIPTS, find_language

# Why a verse is left out, in the order of the steps.
REASONS = (
    "empty",
    "merged",
    "monolingual length",
    "crosslingual length",
    "quality",
    "not the best source",
)


@dataclass(eq=False)
class Edition:
    """What is known of one source; its verses are rows of the corpus.

    Attributes:
        lang: code with script, after relabelling; ``declared`` is the code that the file gave.
        facts: file, format, predicted language and its share.
        quality: mean chrF++ against the other sources of the language, divided by the best such
            mean; None without other sources.
        completeness: mean over the splits of the share of the language's verses that this source
            has.
    """

    lang: str
    name: str
    declared: str | None
    facts: dict[str, Any]
    chrf: float | None = None
    quality: float | None = None
    completeness: float = 0.0
    best: bool = False

    @property
    def merit(self) -> float:
        """Score for choosing the best source: quality * completeness.

        OS A.8 picks "the source with highest quality/completeness score". A quotient would reward
        gaps, so this is read as a product.
        """
        return (1.0 if self.quality is None else self.quality) * self.completeness


@dataclass
class Corpus:
    """All verses of all editions.

    Attributes:
        rows: a row a verse of an edition, with the numbers of its `edition`, `lang`, `verse` and
            `split`, its `length` in characters, and the `reason` why it is left out (NaN: it is
            kept). The index is its row in `texts`.
        languages: codes, in order. verses: names of the verses.
        texts: mapped from disk.
    """

    editions: list[Edition]
    rows: pd.DataFrame
    languages: list[str]
    verses: np.ndarray
    texts: pa.ChunkedArray

    @property
    def kept(self) -> pd.DataFrame:
        return self.rows[self.rows.reason.isna()]

    def remove(self, rows: pd.Index, reason: str) -> None:
        self.rows.loc[rows, "reason"] = reason

    def texts_at(self, rows: pd.Index) -> pa.ChunkedArray:
        return self.texts.take(pa.array(rows.to_numpy()))


LanguageId = Callable[[list[str]], Sequence[str | None]]  # texts -> codes ("fra_Latn" or "fra")

# (declared code, predicted code) -> whether they contradict each other.
Contradicts = Callable[[str, str], bool]

# ISO 15924 codes of Unicode scripts: those of our languages, and a few that occur only in Bibles
_MIXED = {"Hans": "Hani", "Hant": "Hani", "Jpan": "Hira Kana"}
UNICODE_SCRIPTS = " ".join(
    [*(_MIXED.get(s, s) for s in SCRIPTS), "Lisu Java Limb Lepc Tale Kali Osge Goth Cham Bali"]
)
KANA_SHARE = 0.05  # of Han and Kana letters; Japanese has far more, Chinese none


class Label(NamedTuple):
    lang: str | None  # code with script; None if unknown
    predicted: str | None  # the most frequent prediction
    share: float | None  # its share of the sample


MINIMUM_SHARE = 0.5  # a smaller majority of predictions changes nothing


def label_of(
    texts: Sequence[str],
    declared: str | None,
    lid: LanguageId | None = None,
    *,
    contradicts: Contradicts | None = None,
) -> Label:
    """Determine the language code of texts in one language.

    Args:
        declared: a code with or without script, or None.
        lid: predicts a code for each text, or None if it cannot.
        contradicts: whether a prediction contradicts a declared code; None: every other language
            does.
    """
    language, declared_script = split_code(declared)
    script = script_of(texts) or declared_script
    predicted = None
    predicted_script = None
    share = None
    if lid is not None and texts:
        votes = Counter(lid(list(texts)))
        predicted, count = min(votes.items(), key=lambda item: (-item[1], str(item[0])))
        share = count / len(texts)
        if predicted is not None and share >= MINIMUM_SHARE:
            predicted_language, _ = split_code(predicted)
            predicted_script = next((name for name in ("Hans", "Hant") if name in predicted), None)
            # A prediction replaces the declared language only if it contradicts it.
            agrees = language and contradicts and not contradicts(f"{language}_{script}", predicted)
            if predicted_language and not agrees:
                language = predicted_language
    if script == "Hani":  # Unicode does not distinguish Hans and Hant
        chinese = [name for name in (predicted_script, declared_script) if name in ("Hans", "Hant")]
        script = chinese[0] if chinese else "Hans"
    code = f"{language}_{script}" if language and script else None
    return Label(code, predicted, share)


def split_code(code: str | None) -> tuple[str | None, str | None]:
    """(ISO 639-3, script or None). An unknown code is returned unchanged."""
    if not code:
        return None, None
    language, *rest = re.split("[-_]", code)
    script = next((part for part in rest if len(part) == 4), None)
    # The whole code first: it may name a script that the language alone has not.
    for spelling in (code, language):
        with suppress(ValueError):
            language, *rest = find_language(spelling).split("_")
            return language, script or next(iter(rest), None)
    return (language if re.fullmatch("[a-z]{3}", language) else None), script


def script_of(texts: Sequence[str]) -> str | None:
    """ISO 15924 code of the script of most letters; None without a letter of a known script."""
    scripts: Counter[str] = Counter()
    for character, count in Counter("".join(texts)).items():
        scripts[_script(character)] += count
    scripts.pop("", None)
    if not scripts:
        return None
    # Kana make a text Japanese, and its Han characters with it.
    scripts["Jpan"] = scripts.pop("Hira", 0) + scripts.pop("Kana", 0)
    if scripts["Jpan"] > KANA_SHARE * (scripts["Jpan"] + scripts["Hani"]):
        scripts["Jpan"] += scripts.pop("Hani", 0)
    return min(scripts.items(), key=lambda item: (-item[1], item[0]))[0]


@cache
def _script(character: str) -> str:
    """Empty for what is no letter of a known script."""
    if character.isalpha():
        for script in UNICODE_SCRIPTS.split():
            if _is_in(script).match(character):
                return script
    return ""


@cache
def _is_in(script: str) -> regex.Pattern:
    return regex.compile(rf"\p{{Script={script}}}")


ROUNDS = 4  # of fitting language factors and verse means in turn; two or three suffice


def drop_outliers(corpus: Corpus, tolerance: float, sigmas: float) -> None:
    """Remove the verses that are too long or too short, first within a language,
    then across languages."""
    kept = corpus.kept
    same_verse = kept.groupby(["lang", "verse"]).ngroup().to_numpy()
    outliers = monolingual_outliers(same_verse, kept.length.to_numpy(), tolerance)
    corpus.remove(kept.index[outliers], "monolingual length")
    kept = corpus.kept
    outliers = crosslingual_outliers(
        kept.lang.to_numpy(), kept.verse.to_numpy(), kept.length.to_numpy(), sigmas
    )
    corpus.remove(kept.index[outliers], "crosslingual length")


def monolingual_outliers(verse: np.ndarray, length: np.ndarray, tolerance: float) -> np.ndarray:
    """Rows of one language whose length differs from the mean of their verse by more than
    ``tolerance`` times the mean.

    Args:
        verse: (rows,) verse numbers; a verse occurs once per source.
        length: (rows,) in characters.

    Returns:
        (rows,) bool. With two sources, both rows of a verse are outliers or neither, because no
        majority exists.
    """
    mean = _mean(verse, length)[verse]
    return np.abs(length - mean) > tolerance * mean


def crosslingual_outliers(
    lang: np.ndarray, verse: np.ndarray, length: np.ndarray, sigmas: float = 3.0
) -> np.ndarray:
    """Rows that deviate from the mean of their verse over all languages by more than ``sigmas``
    standard deviations.

    Each length is first divided by its language's factor (`language_factors`). Returns (rows,)
    bool.
    """
    scaled = length / language_factors(lang, verse, length)[lang]
    mean = _mean(verse, scaled)[verse]
    spread = np.sqrt(_mean(verse, (scaled - mean) ** 2))[verse]
    return np.abs(scaled - mean) > sigmas * spread


def language_factors(lang: np.ndarray, verse: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Length of each language's verses relative to the mean verse: Chinese 0.3, Tamil 1.3.

    Languages have different sets of books, so a language is compared on the same verses with the
    others, after scaling these to a common length: factors and verse means are fitted in turn.
    """
    factors = np.ones(lang.max(initial=-1) + 1)
    total = np.bincount(lang, length, minlength=len(factors))
    for _ in range(ROUNDS):
        # Length of a verse in the common scale, then the scale of each language.
        mean = _mean(verse, length / factors[lang])
        factors = total / np.maximum(np.bincount(lang, mean[verse], minlength=len(factors)), 1e-9)
        factors[total == 0] = 1.0
    return factors


def _mean(group: np.ndarray, value: np.ndarray) -> np.ndarray:
    count = np.bincount(group)
    return np.bincount(group, value) / np.maximum(count, 1)


MINIMUM = 0.75


def judge(corpus: Corpus, *, sample: int | None, minimum: float, seed: int, progress: bool) -> None:
    """Set chrf, quality, completeness and best of all editions; remove the bad ones, and sort them,
    the best first.

    Completeness: share of the verses that any source of the language has, averaged over train, dev
    and test.

    Args:
        sample: number of verses for comparing two sources, the first ones of a fixed random order
            that both have; None: all.
        minimum: sources with a lower quality lose all their verses.
    """
    kept = corpus.kept
    comparisons = tqdm(desc="source pairs (chrF++)", disable=not progress)
    for _, of_language in kept.groupby("lang"):
        numbers = []
        texts = []
        for number, rows in of_language.groupby("edition"):
            numbers.append(number)
            texts.append(pd.Series(corpus.texts_at(rows.index).to_pylist(), index=rows.verse))
        scores = mutual_chrf(texts, sample=sample, seed=seed, on_pair=comparisons.update)
        top = max((score for score in scores if score is not None), default=0.0)
        # A source is bad beside the best of its language, not beside a fixed score.
        for number, score in zip(numbers, scores, strict=True):
            edition = corpus.editions[number]
            edition.chrf = score
            if score is not None and top > 0:
                edition.quality = score / top
                if edition.quality < minimum:
                    corpus.remove(of_language.index[of_language.edition == number], "quality")
    comparisons.close()
    # Completeness is a share of what is left, so it comes after the bad sources have gone.
    shares = completeness(corpus.kept)
    best: dict[str, Edition] = {}
    for number, share in shares.items():
        edition = corpus.editions[number]
        edition.completeness = share
        best[edition.lang] = min(
            edition, best.get(edition.lang, edition), key=lambda e: (-e.merit, e.name)
        )
    for edition in best.values():
        edition.best = True
    _sort(corpus)


def _sort(corpus: Corpus) -> None:
    """By language, the best edition first."""
    old_order = corpus.editions
    corpus.editions = sorted(old_order, key=lambda e: (e.lang, -e.best, -e.merit, e.name))
    # Old number -> new number.
    new_number = np.array([corpus.editions.index(edition) for edition in old_order])
    corpus.rows["edition"] = new_number[corpus.rows.edition]
    corpus.rows = corpus.rows.sort_values("edition", kind="stable")


def mutual_chrf(
    editions: Sequence[pd.Series],
    *,
    sample: int | None = 500,
    seed: int = 0,
    on_pair: Callable[[], object] = lambda: None,
) -> list[float | None]:
    """Mean chrF++ (0-100) of each source against the others as references; None for a source
    without common verses.

    Args:
        editions: number of a verse -> its text.
    """
    from sacrebleu.metrics import CHRF

    chrf = CHRF(word_order=2)
    scores: list[list[float]] = [[] for _ in editions]
    last = max(edition.index.max() for edition in editions)
    order = np.random.default_rng(seed).permutation(last + 1)  # rank of each verse
    for i, j in combinations(range(len(editions)), 2):
        shared = editions[i].index.intersection(editions[j].index)
        if len(shared):
            # The same verses for all pairs, as far as both have them.
            shared = shared[np.argsort(order[shared])][:sample]
            first = editions[i][shared].tolist()
            second = editions[j][shared].tolist()
            scores[i].append(chrf.corpus_score(first, [second]).score)
            scores[j].append(chrf.corpus_score(second, [first]).score)
        on_pair()
    return [float(np.mean(of_edition)) if of_edition else None for of_edition in scores]


def completeness(kept: pd.DataFrame) -> dict[int, float]:
    """Number of an edition -> share of its language's verses that it has, mean over the splits."""
    # Rows (language, edition), a column for each split.
    counts = kept.groupby(["lang", "edition", "split"]).size().unstack("split", fill_value=0)
    totals = (
        kept.drop_duplicates(["lang", "verse"]).groupby(["lang", "split"]).size().unstack("split")
    )
    shares = counts.div(totals, level="lang").mean(axis=1)  # a split that the language lacks is NaN
    return shares.droplevel("lang").to_dict()
