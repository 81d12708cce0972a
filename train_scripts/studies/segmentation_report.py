"""Boundary F1 of a segmenter by language, on FLORES and NTREX sentences put together. Needs
hf-echo[segment].

    python train_scripts/studies/segmentation_report.py CORPORA --out outputs/segmentation.json
    python train_scripts/studies/segmentation_report.py CORPORA --model sat-12l-sm

Documents are 3 to 8 sentences in the order of the table, the same in every language. Some
"sentences" of FLORES and NTREX are two, which costs every segmenter the same few points of
precision. Without known boundaries, OS A.1 measures the spread of sentence counts over languages
(`count_consistency`) and BLEU of a round trip (`round_trip_bleu`).

A segmenter is a callable (texts, lang) -> pieces of each text; see `hf_echo.data.segmentation`.
"""

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from study_parts import command_line

from hf_echo.data.segmentation import rule_segmenter, sat_segmenter, trimmed
from hf_echo.evaluation.translation import translation_scores
from hf_echo.languages import ENGLISH, is_language
from hf_echo.steps.public_text import add_corpora, corpora_of
from hf_echo.utils.files import write_json
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


def boundary_scores(
    documents: Sequence[Sequence[str]], segment: Segment, lang: str
) -> BoundaryResult:
    """Join documents given as sentences, segment them, and compare the ends of the pieces, ignoring
    white space.

    Raises:
        ValueError: no documents, or a document without text.
    """
    if not documents:
        raise ValueError(f"no documents of {lang}; give at least one")
    texts = [join_sentences(document, lang)[0] for document in documents]
    hits = 0
    predicted = 0
    true = 0
    for document, pieces in zip(documents, segment(texts, lang), strict=True):
        true_ends = _inner_ends(document)
        ends = _inner_ends(pieces)
        hits += len(true_ends & ends)
        predicted += len(ends)
        true += len(true_ends)
    precision = 100 * hits / max(predicted, 1)
    recall = 100 * hits / max(true, 1)
    f1 = 200 * hits / max(predicted + true, 1)
    return BoundaryResult(lang, len(texts), true, precision, recall, f1)


def _inner_ends(pieces: Sequence[str]) -> set[int]:
    ends = np.cumsum([len("".join(piece.split())) for piece in pieces if piece.strip()])
    return set(ends[:-1].tolist())


@dataclass(frozen=True)
class ConsistencyResult(Result):
    """Sentences per paragraph minus the mean over languages:
    `mean` by language, `std` over all paragraphs."""

    std: float
    paragraphs: int
    mean: dict[str, float]


def count_consistency(
    paragraphs: Mapping[str, Sequence[str]], segment: Segment
) -> ConsistencyResult:
    """Standard deviation of the sentence counts of parallel paragraphs; 0 is perfect
    (OS A.1, Figure 12).

    Args:
        paragraphs: language -> texts; texts with the same index are translations.

    Raises:
        ValueError: different numbers of paragraphs.
    """
    first, *others = paragraphs
    size = len(paragraphs[first])
    for lang in others:
        if len(paragraphs[lang]) != size:
            raise ValueError(
                f"{lang} has {len(paragraphs[lang])} paragraphs and {first} {size}: they must be parallel"
            )
    counts = []  # (languages, paragraphs)
    for lang, texts in paragraphs.items():
        counts.append([len(trimmed(pieces)) for pieces in segment(texts, lang)])
    difference = counts - np.mean(counts, axis=0)
    means = dict(zip(paragraphs, difference.mean(axis=1).tolist()))
    return ConsistencyResult(float(difference.std()), size, means)


def round_trip_bleu(
    paragraphs: Mapping[str, Sequence[str]],
    segment: Segment,
    translate: Callable[[list[str], str, str], Sequence[str]],
) -> Table:
    """BLEU of paragraphs after segmentation, translation to English and back, and joining
    (OS A.1).

    Args:
        paragraphs: language -> texts.
        translate: (sentences, source_lang, target_lang) -> one translation per sentence.

    Returns:
        One row per language: `lang`, `paragraphs`, `sentences`, `bleu` (0 to 100), `tokenizer`; and
            the mean BLEU.

    Raises:
        ValueError: no paragraphs, English among the languages, a translator that loses lines.
    """
    if not paragraphs or ENGLISH in paragraphs:
        languages = ", ".join(paragraphs) or "none"
        raise ValueError(
            f"a round trip through {ENGLISH} needs paragraphs in other languages only, got {languages}"
        )
    rows = []
    for lang, texts in paragraphs.items():
        pieces = [trimmed(of_text) for of_text in segment(texts, lang)]
        sentences = list(chain.from_iterable(pieces))
        english = _same_number(translate(sentences, lang, ENGLISH), sentences, ENGLISH)
        returned = _same_number(translate(english, ENGLISH, lang), sentences, lang)
        joined = []
        remaining = iter(returned)
        for of_text in pieces:
            translations = islice(remaining, len(of_text))
            joined.append(separator(lang).join(sentence.strip() for sentence in translations))
        score = translation_scores(joined, list(texts), target_lang=lang, spbleu=False)
        row = {"lang": lang, "paragraphs": len(texts), "sentences": len(sentences)}
        rows.append(row | {"bleu": score.bleu, "tokenizer": score.bleu_tokenizer})
    return Table(rows).with_average(["bleu"])


def _same_number(translations: Sequence[str], sentences: Sequence[str], lang: str) -> list[str]:
    if len(translations) != len(sentences):
        counts = f"{len(translations)} lines for {len(sentences)} sentences"
        raise ValueError(f"the translator returned {counts} into {lang}")
    return list(translations)


def documents(path: Path, key: str, sentences: int) -> dict[str, list[list[str]]]:
    """Language -> documents; the same ids, cut at the same places, in each."""
    rows = pd.read_parquet(path, columns=[key, "lang", "text"])
    texts = rows[rows.lang.map(is_language)].pivot(index=key, columns="lang", values="text")
    # A sentence counts only if every language has it: documents are then parallel.
    texts = texts.dropna()[:sentences]  # (ids in order, languages)
    cuts = [0]
    rng = random.Random(0)
    while cuts[-1] < len(texts):
        cuts.append(cuts[-1] + rng.randint(3, 8))
    documents_of = {}
    for lang in texts:
        sentences_of_lang = texts[lang].tolist()
        documents_of[lang] = [sentences_of_lang[start:stop] for start, stop in pairwise(cuts)]
    return documents_of


def main() -> None:
    parser = command_line(__doc__)
    add_corpora(parser)
    parser.add_argument("--model", help="SaT model; the rules by default")
    parser.add_argument("--sentences", type=int, default=100, help="of each language")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    corpora = corpora_of(args, "flores_sib", "ntrex")
    segment = sat_segmenter(args.model) if args.model else rule_segmenter

    report = {}
    for name, (file, key) in TABLES.items():
        documents_of = documents(corpora / file, key, args.sentences)
        results = []
        paragraphs = {}
        for lang, parts in documents_of.items():
            results.append(boundary_scores(parts, segment, lang))
            paragraphs[lang] = [join_sentences(part, lang)[0] for part in parts]
        table = Table.of(results, ["precision", "recall", "f1"])
        spread = count_consistency(paragraphs, segment)
        worst = sorted(table.rows, key=lambda row: row["f1"])[:15]
        print(f"{name}: {len(results)} languages, standard deviation of counts {spread.std:.2f}")
        columns = ["lang", "precision", "recall", "f1"]
        print(Table(worst, table.average).to_markdown(columns), end="\n\n")
        report[name] = {"rows": table.rows, "average": table.average, "count_std": spread.std}
    if args.out:
        write_json(args.out, report)


if __name__ == "__main__":
    main()
