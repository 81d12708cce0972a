"""Boundary F1 of a segmenter by language, on FLORES and NTREX sentences put together. Needs hf-echo[segment].

    python train_scripts/studies/segmentation_report.py CORPORA --out outputs/segmentation.json
    python train_scripts/studies/segmentation_report.py CORPORA --model sat-12l-sm

Documents are 3 to 8 sentences in the order of the table, the same in every language. Some "sentences" of FLORES and
NTREX are two, which costs every segmenter the same few points of precision. Without known boundaries, OS A.1 measures
the spread of sentence counts over languages (`count_consistency`) and BLEU of a round trip (`round_trip_bleu`).

A segmenter is a callable (texts, lang) -> pieces of each text; see `hf_echo.data.segmentation`.
"""

import argparse
import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from hf_echo.data.segmentation import rule_segmenter, sat_segmenter, trimmed
from hf_echo.evaluation.translation import translation_scores
from hf_echo.languages import is_language
from hf_echo.utils.results import Result, Table

sys.path.append(str(Path(__file__).parents[1] / "corpora"))
from segmenter import join_sentences, separator

Segment = Callable[[Sequence[str], str], list[list[str]]]
TABLES = {"flores": ("flores_sib.parquet", "index_id"), "ntrex": ("ntrex.parquet", "id")}


@dataclass(frozen=True)
class BoundaryResult(Result):
    """Precision, recall and F1 (0 to 100) of the sentence boundaries inside texts."""

    lang: str
    texts: int
    boundaries: int
    precision: float
    recall: float
    f1: float


def boundary_scores(documents: Sequence[Sequence[str]], segment: Segment, lang: str) -> BoundaryResult:
    """Join documents given as sentences, segment them, and compare the ends of the pieces, ignoring white space.

    Raises:
        ValueError: no documents, or a document without text.
    """
    if not documents:
        raise ValueError(f"no documents of {lang}; give at least one")
    texts = [join_sentences(document, lang)[0] for document in documents]
    hits = predicted = true = 0
    for document, pieces in zip(documents, segment(texts, lang), strict=True):
        gold, ours = _inner_ends(document), _inner_ends(pieces)
        hits, predicted, true = hits + len(gold & ours), predicted + len(ours), true + len(gold)
    precision, recall = hits / max(predicted, 1), hits / max(true, 1)
    f1 = 2 * hits / max(predicted + true, 1)
    return BoundaryResult(lang, len(texts), true, 100 * precision, 100 * recall, 100 * f1)


def _inner_ends(pieces: Sequence[str]) -> set[int]:
    ends = np.cumsum([len("".join(piece.split())) for piece in pieces if piece.strip()])
    return set(ends[:-1].tolist())


@dataclass(frozen=True)
class ConsistencyResult(Result):
    """Sentences per paragraph minus the mean over languages: `mean` by language, `std` over all paragraphs."""

    std: float
    paragraphs: int
    mean: dict[str, float]


def count_consistency(paragraphs: Mapping[str, Sequence[str]], segment: Segment) -> ConsistencyResult:
    """Standard deviation of the sentence counts of parallel paragraphs; 0 is perfect (OS A.1, Figure 12).

    Args:
        paragraphs: language -> texts; texts with the same index are translations.

    Raises:
        ValueError: fewer than two languages, or different numbers of paragraphs.
    """
    if len(paragraphs) < 2:
        raise ValueError(f"{len(paragraphs)} language: count_consistency needs at least two")
    sizes = {lang: len(texts) for lang, texts in paragraphs.items()}
    first, size = next(iter(sizes.items()))
    if unequal := [lang for lang in sizes if sizes[lang] != size or not size]:
        raise ValueError(f"{unequal[0]} has {sizes[unequal[0]]} paragraphs and {first} {size}: they must be parallel")
    counts = np.array([[len(trimmed(pieces)) for pieces in segment(texts, lang)] for lang, texts in paragraphs.items()])
    difference = counts - counts.mean(axis=0)
    return ConsistencyResult(float(difference.std()), size, dict(zip(paragraphs, difference.mean(axis=1).tolist())))


def round_trip_bleu(
    paragraphs: Mapping[str, Sequence[str]],
    segment: Segment,
    translate: Callable[[list[str], str, str], Sequence[str]],
    *,
    pivot: str = "eng_Latn",
) -> Table:
    """BLEU of paragraphs after segmentation, translation to the pivot and back, and joining (OS A.1).

    Args:
        paragraphs: language -> texts.
        translate: (sentences, source_lang, target_lang) -> one translation per sentence.

    Returns:
        One row per language: `lang`, `paragraphs`, `sentences`, `bleu` (0 to 100), `tokenizer`; and the mean BLEU.

    Raises:
        ValueError: no paragraphs, the pivot among the languages, a translator that loses lines.
    """
    if not paragraphs or pivot in paragraphs:
        raise ValueError(
            f"a round trip through {pivot} needs paragraphs in other languages only, got "
            f"{', '.join(paragraphs) or 'none'}"
        )
    rows = []
    for lang, texts in paragraphs.items():
        pieces = [trimmed(p) for p in segment(texts, lang)]
        sentences = [sentence for piece in pieces for sentence in piece]
        there = _same_number(translate(sentences, lang, pivot), sentences, pivot)
        back = iter(_same_number(translate(there, pivot, lang), sentences, lang))
        joined = [separator(lang).join(next(back).strip() for _ in piece) for piece in pieces]
        score = translation_scores(joined, list(texts), target_lang=lang, spbleu=False)
        rows.append(
            {
                "lang": lang,
                "paragraphs": len(texts),
                "sentences": len(sentences),
                "bleu": score.bleu,
                "tokenizer": score.bleu_tokenizer,
            }
        )
    return Table(rows).with_average(["bleu"])


def _same_number(translations: Sequence[str], sentences: Sequence[str], lang: str) -> list[str]:
    if len(translations) != len(sentences):
        raise ValueError(
            f"the translator returned {len(translations)} lines for {len(sentences)} sentences into {lang}"
        )
    return list(translations)


def documents(path: Path, key: str, sentences: int) -> dict[str, list[list[str]]]:
    """Language -> documents; the same ids, cut at the same places, in each."""
    table = pq.read_table(path, columns=[key, "lang", "text"]).to_pylist()
    by_lang: dict[str, dict] = {}
    for row in table:
        if is_language(row["lang"]):
            by_lang.setdefault(row["lang"], {})[row[key]] = row["text"]
    ids = sorted(set.intersection(*(set(texts) for texts in by_lang.values())))[:sentences]
    cuts, rng = [0], random.Random(0)
    while cuts[-1] < len(ids):
        cuts.append(cuts[-1] + rng.randint(3, 8))
    parts = [ids[start:stop] for start, stop in zip(cuts, cuts[1:], strict=False)]
    return {lang: [[texts[i] for i in part] for part in parts] for lang, texts in sorted(by_lang.items())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--model", help="SaT model; the rules by default")
    parser.add_argument("--sentences", type=int, default=100, help="of each language")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    segment = sat_segmenter(args.model) if args.model else rule_segmenter

    report = {}
    for name, (file, key) in TABLES.items():
        found = documents(args.corpora / file, key, args.sentences)
        table = Table.of(
            [boundary_scores(parts, segment, lang) for lang, parts in found.items()], ["precision", "recall", "f1"]
        )
        paragraphs = {lang: [join_sentences(part, lang)[0] for part in parts] for lang, parts in found.items()}
        spread = count_consistency(paragraphs, segment)
        worst = sorted(table.rows, key=lambda row: row["f1"])[:15]
        print(f"{name}: {len(found)} languages, standard deviation of counts {spread.std:.2f}")
        print(Table(worst, table.average).to_markdown(["lang", "precision", "recall", "f1"], 1), end="\n\n")
        report[name] = {"rows": table.rows, "average": table.average, "count_std": spread.std}
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
