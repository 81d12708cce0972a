"""How well `hf-echo match` pairs documents, beside the means of their sentences alone.

    python benchmarks/match.py CORPORA [--documents 100] [--kinds bible ntrex manuals] [--languages fra_Latn zho_Hans]

Chapters of the Bible, news of NTREX and pieces of LibreOffice's help, English and another language. Their names are
gone, a fifth of the sentences of each side is deleted by seed, and a third of the documents of each side has no
partner. Prints recall (of the pairs that there are) and precision (of as many pairs as there are, the best first).
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hf_echo.inference import encode, load_encoder
from hf_echo.search.matching import CANDIDATES, document_means, match_documents, one_to_one
from hf_echo.search.neighbours import unit_neighbours
from hf_echo.steps.public_text import add_corpora, corpora_of
from hf_echo.utils.results import markdown_table
from hf_echo.utils.vectors import unit_length

ENGLISH = "eng_Latn"


Documents = dict[str, list[str]]  # name -> sentences


def bible(corpora: Path, lang: str) -> tuple[Documents, Documents]:
    """The chapters of a language and of English."""
    return tuple(
        _by_name(corpora / "bible.parquet", "verse_id", code, chapters=True)
        for code in (lang, ENGLISH)
    )


def ntrex(corpora: Path, lang: str) -> tuple[Documents, Documents]:
    """The documents of a language and of English."""
    return tuple(_by_name(corpora / "ntrex.parquet", "document", code) for code in (lang, ENGLISH))


def _by_name(file: Path, column: str, lang: str, *, chapters: bool = False) -> Documents:
    table = pq.read_table(file, columns=[column, "lang", "text"])
    table = table.filter(pc.equal(table["lang"], lang))
    documents = defaultdict(list)
    for name, text in zip(table[column].to_pylist(), table["text"].to_pylist(), strict=True):
        documents[name.rpartition(".")[0] if chapters else name].append(text)
    return dict(documents)


def manuals(corpora: Path, lang: str) -> tuple[Documents, Documents]:
    """Eight neighbouring rows of LibreOffice's help are a document: all are about one program."""
    table = pq.read_table(
        corpora / "docs_parallel.parquet", columns=["src", "tgt_lang", "tgt", "source"]
    )
    table = table.filter(
        pc.and_(pc.equal(table["tgt_lang"], lang), pc.equal(table["source"], "libreoffice-help"))
    )
    source: Documents = defaultdict(list)
    english: Documents = defaultdict(list)
    for row, (text, translation) in enumerate(
        zip(table["src"].to_pylist(), table["tgt"].to_pylist(), strict=True)
    ):
        name = f"{row // 8:06}"
        english[name].append(text)
        source[name].append(translation)
    return dict(source), dict(english)


KINDS = {"bible": bible, "ntrex": ntrex, "manuals": manuals}
SOURCES = {"bible": "bible", "ntrex": "ntrex", "manuals": "docs_parallel"}  # the table of each


def two_sides(
    source: Documents, target: Documents, largest: int, rng: np.random.Generator
) -> list[Documents]:
    """Documents of both sides, of which two thirds have a partner; a fifth of the sentences is gone."""
    names = sorted(source.keys() & target.keys())
    names = [names[i] for i in rng.permutation(len(names))[: largest * 4 // 3]]
    third = len(names) // 4
    chosen = [names[:-third], names[third:]]
    sides = []
    for documents, own in zip((source, target), chosen, strict=True):
        side = {}
        for i in rng.permutation(len(own)):
            sentences = documents[own[i]]
            kept = rng.random(len(sentences)) >= 0.2
            kept[0] = True
            side[own[i]] = [text for text, stays in zip(sentences, kept, strict=True) if stays]
        sides.append(side)
    return sides


def scores_of(pairs: Iterable[tuple[str, str]], names: list[list[str]]) -> tuple[float, float]:
    """(recall, precision) in percent of the first pairs, as many as there are."""
    gold = len(set(names[0]) & set(names[1]))
    rows = list(zip(pairs.sources, pairs.targets, strict=True))
    right = sum(names[0][source] == names[1][target] for source, target in rows)
    first = sum(names[0][source] == names[1][target] for source, target in rows[:gold])
    return 100 * right / gold, 100 * first / gold


def by_means(readers: list, counts: list[int]) -> list[tuple[int, int]]:
    """One-to-one pairs by the cosines of the centred means."""
    x, _ = document_means(readers[0], counts[0], "source")
    y, _ = document_means(readers[1], counts[1], "target")
    nearest = unit_neighbours(x, y, min(CANDIDATES, len(y)))
    sources = np.repeat(np.arange(len(x)), nearest.indices.shape[1])
    return one_to_one(sources, nearest.indices.ravel(), nearest.scores.ravel())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_corpora(parser)
    parser.add_argument("--model", default="echo-nano")
    parser.add_argument("--documents", type=int, default=100, help="of each side")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--languages", nargs="+", default=["fra_Latn", "zho_Hans"])
    given = parser.parse_args()
    corpora = corpora_of(given, *[SOURCES[kind] for kind in given.kinds])
    model, tokenizer = load_encoder(given.model)
    rows = []
    for kind in given.kinds:
        for lang in given.languages:
            source, english = KINDS[kind](corpora, lang)
            if not source:
                continue
            sides = two_sides(source, english, given.documents, np.random.default_rng(0))
            names = [list(side) for side in sides]
            readers = []
            for side, code in zip(sides, (lang, ENGLISH), strict=True):
                texts = [text for sentences in side.values() for text in sentences]
                vectors = unit_length(encode(model, tokenizer, texts, code))
                ends = np.cumsum([len(sentences) for sentences in side.values()])
                parts = np.split(vectors, ends[:-1])
                readers.append(parts.__getitem__)
            counts = [len(side) for side in sides]
            means = scores_of(by_means(readers, counts), names)
            bimax = scores_of(match_documents(readers[0], counts[0], readers[1], counts[1]), names)
            figures = [f"{value:.1f}" for value in (*means, *bimax)]
            rows.append([kind, lang, f"{counts[0]} / {counts[1]}", *figures])
            print(rows[-1], flush=True)
    header = [
        "documents",
        "language",
        "sides",
        "means: recall",
        "precision",
        "match: recall",
        "precision",
    ]
    print(markdown_table(header, rows))


if __name__ == "__main__":
    main()
