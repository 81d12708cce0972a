"""How well `hf-echo match` pairs documents, beside the means of their sentences alone and TF-IDF.

    python benchmarks/match.py CORPORA [--documents 100] [--kinds bible ntrex manuals] [--languages fra_Latn zho_Hans]
    python benchmarks/match.py CORPORA --documents 50 --kinds gospels --languages fra_Latn deu_Latn --boilerplate 0.5
    python benchmarks/match.py CORPORA --documents 40 --kinds ntrex --languages fra_Latn deu_Latn --shared 0.8

Chapters of the Bible (gospels: of Matthew, Mark and Luke, which tell the same), news of NTREX and
pieces of LibreOffice's help, English and another language. Their names are gone, a fifth of the
sentences of each side is deleted by seed, and a third of the documents of each side has no partner.
--boilerplate: this share of each document are sentences of a pool of its side, which translate
nothing of the other side. --shared: families of four documents have this share of their sentences
in common.

TF-IDF: the words of the other language become all English words that the dictionaries of CORPORA
give for them, or stay as they are; then cosines of TF-IDF. All three pair one to one, the best
first. Prints recall (of the pairs that there are) and precision
(of as many pairs as there are, the best first), in percent.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from itertools import chain, compress
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from hf_echo.inference import encode, load_encoder
from hf_echo.languages import ENGLISH
from hf_echo.search.matching import (
    CANDIDATES,
    Matches,
    Read,
    document_means,
    match_documents,
    one_to_one,
)
from hf_echo.search.neighbours import unit_neighbours
from hf_echo.steps.public_text import add_corpora, corpora_of
from hf_echo.utils.results import markdown_table

Documents = dict[str, list[str]]  # name -> sentences


def bible(corpora: Path, lang: str) -> tuple[Documents, Documents]:
    """The chapters of a language and of English."""
    file = corpora / "bible.parquet"
    source = _by_name(file, "verse_id", lang, chapters=True)
    english = _by_name(file, "verse_id", ENGLISH, chapters=True)
    return source, english


def gospels(corpora: Path, lang: str) -> tuple[Documents, Documents]:
    """The chapters of Matthew, Mark and Luke."""
    source, english = bible(corpora, lang)
    return _gospels_of(source), _gospels_of(english)


def _gospels_of(side: Documents) -> Documents:
    chapters = {}
    for name, verses in side.items():
        book = name.split(".")[1]
        if book in ("MAT", "MAR", "LUK"):
            chapters[name] = verses
    return chapters


def ntrex(corpora: Path, lang: str) -> tuple[Documents, Documents]:
    """The documents of a language and of English."""
    file = corpora / "ntrex.parquet"
    return _by_name(file, "document", lang), _by_name(file, "document", ENGLISH)


def _by_name(file: Path, column: str, lang: str, *, chapters: bool = False) -> Documents:
    """{document: its sentences} in one language; `chapters`: a document is a chapter of verses."""
    table = pq.read_table(file, columns=[column, "text"], filters=[("lang", "==", lang)])
    names = table[column].to_pylist()
    texts = table["text"].to_pylist()
    documents = defaultdict(list)
    for name, text in zip(names, texts, strict=True):
        if chapters:  # b.MAR.2.10 is a verse of b.MAR.2
            name = name.rpartition(".")[0]
        documents[name].append(text)
    return dict(documents)


def manuals(corpora: Path, lang: str) -> tuple[Documents, Documents]:
    """Eight neighbouring rows of LibreOffice's help are a document: all are about one program."""
    is_in_language = ("tgt_lang", "==", lang)
    is_of_help = ("source", "==", "libreoffice-help")
    file = corpora / "docs_parallel.parquet"
    table = pq.read_table(file, columns=["src", "tgt"], filters=[is_in_language, is_of_help])
    english_texts = table["src"].to_pylist()
    texts = table["tgt"].to_pylist()
    source = {}
    english = {}
    for start in range(0, len(texts), 8):
        name = f"{start // 8:06}"
        source[name] = texts[start : start + 8]
        english[name] = english_texts[start : start + 8]
    return source, english


KINDS = {"bible": bible, "gospels": gospels, "ntrex": ntrex, "manuals": manuals}
SOURCES = {  # the table of each
    "bible": "bible",
    "gospels": "bible",
    "ntrex": "ntrex",
    "manuals": "docs_parallel",
}
FAMILY = 4  # documents that share sentences
POOL = 60  # sentences of boilerplate of a side


def sharing(source: Documents, target: Documents, share: float) -> tuple[Documents, Documents]:
    """Documents of which each four have the first `share` of their sentences in common,
    the same on both sides."""
    # Sentence i of a document must translate sentence i of its partner.
    names = []
    for name in sorted(source.keys() & target.keys()):
        length = len(source[name])
        if length >= 8 and length == len(target[name]):
            names.append(name)

    changed_source = {}
    changed_target = {}
    for number, name in enumerate(names):
        first = names[number - number % FAMILY]
        shared_rows = int(share * len(source[name]))
        common = min(shared_rows, len(source[first]))
        changed_source[name] = source[first][:common] + source[name][common:]
        changed_target[name] = target[first][:common] + target[name][common:]
    return changed_source, changed_target


def with_boilerplate(
    side: Documents, pool: list[str], share: float, rng: np.random.Generator
) -> Documents:
    """Documents with sentences of the pool in between, as many as make up `share` of each."""
    noisy = {}
    for name, sentences in side.items():
        count = round(len(sentences) * share / (1 - share))
        mixed = list(sentences)
        for text in rng.choice(pool, size=count):
            place = rng.integers(len(mixed) + 1)
            mixed.insert(place, str(text))
        noisy[name] = mixed
    return noisy


def both_with_boilerplate(
    corpora: Path, lang: str, sides: list[Documents], share: float, rng: np.random.Generator
) -> list[Documents]:
    """Boilerplate from the manuals, from different rows on each side: no sentence of one pool
    translates one of the other."""
    source_manuals, english_manuals = manuals(corpora, lang)
    source_pool = sentences_of(source_manuals)[:POOL]
    english_pool = sentences_of(english_manuals)[POOL : 2 * POOL]
    source, english = sides
    return [
        with_boilerplate(source, source_pool, share, rng),
        with_boilerplate(english, english_pool, share, rng),
    ]


def two_sides(
    source: Documents, target: Documents, largest: int, rng: np.random.Generator
) -> list[Documents]:
    """Documents of both sides, of which two thirds have a partner;
    a fifth of the sentences is gone."""
    common_names = sorted(source.keys() & target.keys())
    order = rng.permutation(len(common_names))
    names = [common_names[i] for i in order[: largest * 4 // 3]]
    # The last quarter is missing on one side, the first on the other.
    quarter = len(names) // 4
    names_of_sides = [names[:-quarter], names[quarter:]]
    sides = []
    for documents, side_names in zip((source, target), names_of_sides, strict=True):
        side = {}
        for i in rng.permutation(len(side_names)):
            name = side_names[i]
            sentences = documents[name]
            is_kept = rng.random(len(sentences)) >= 0.2
            is_kept[0] = True  # no document is empty
            side[name] = list(compress(sentences, is_kept))
        sides.append(side)
    return sides


def scores_of(pairs: Matches, names: list[list[str]]) -> list[str]:
    """Recall, and precision of the first pairs, as many as can be right; in percent."""
    source_names, target_names = names
    gold = len(set(source_names) & set(target_names))
    is_right = []
    for source, target in zip(pairs.sources, pairs.targets, strict=True):
        is_right.append(source_names[source] == target_names[target])
    recall = 100 * sum(is_right) / gold
    precision = 100 * sum(is_right[:gold]) / gold
    return [f"{recall:.1f}", f"{precision:.1f}"]


def by_means(readers: list[Read], counts: list[int]) -> Matches:
    """One-to-one pairs by the cosines of the centred means."""
    x, _ = document_means(readers[0], counts[0], "source")
    y, _ = document_means(readers[1], counts[1], "target")
    k = min(CANDIDATES, len(y))
    nearest = unit_neighbours(x, y, k)
    # A source stands beside each of its k neighbours.
    sources = np.repeat(np.arange(len(x)), k)
    return one_to_one(sources, nearest.indices.ravel(), nearest.scores.ravel())


def dictionary(corpora: Path, lang: str) -> dict[str, list[str]]:
    """Words of a language -> English words."""
    file = corpora / "dictionaries.parquet"
    table = pq.read_table(file, columns=["src", "tgt"], filters=[("tgt_lang", "==", lang)])
    english_entries = table["src"].to_pylist()
    words = table["tgt"].to_pylist()
    entries = defaultdict(list)
    for english, word in zip(english_entries, words, strict=True):
        entries[word.lower()] += re.findall(r"\w+", english.lower())
    return dict(entries)


def by_words(sides: list[Documents], entries: dict[str, list[str]]) -> Matches:
    """One-to-one pairs by TF-IDF of words, those of the first side translated by a dictionary."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    documents = []
    for side, is_translated in zip(sides, (True, False), strict=True):
        for sentences in side.values():
            text = " ".join(sentences).lower()
            words = re.findall(r"\w+", text)
            if is_translated:
                # A word that the dictionary lacks stays as it is.
                translations = [entries.get(word, [word]) for word in words]
                words = list(chain.from_iterable(translations))
            documents.append(words)
    # The words are there: the vectorizer does not cut texts.
    vectorizer = TfidfVectorizer(analyzer=lambda words: words, sublinear_tf=True)
    vectors = vectorizer.fit_transform(documents)
    sources = len(sides[0])
    cosines = (vectors[:sources] @ vectors[sources:].T).toarray()
    rows, columns = np.indices(cosines.shape)
    return one_to_one(rows.ravel(), columns.ravel(), cosines.ravel())


def sentences_of(side: Documents) -> list[str]:
    """The sentences of all documents, one document after the other."""
    return list(chain.from_iterable(side.values()))


def reader_of(side: Documents, vectors: np.ndarray) -> Read:
    """A function that gives the rows of a document."""
    ends = np.cumsum([len(sentences) for sentences in side.values()])
    parts = np.split(vectors, ends[:-1])
    return parts.__getitem__


def figures_of(sides: list[Documents], lang: str, corpora: Path, embed: Callable) -> list[str]:
    """Recall and precision of TF-IDF, of the means and of `match_documents`;
    empty for TF-IDF without a dictionary."""
    names = [list(side) for side in sides]
    counts = [len(side) for side in sides]
    source, english = sides
    source_reader = reader_of(source, embed(sentences_of(source), lang))
    english_reader = reader_of(english, embed(sentences_of(english), ENGLISH))

    cells = ["", ""]
    entries = dictionary(corpora, lang)
    if entries:
        cells = scores_of(by_words(sides, entries), names)
    cells += scores_of(by_means([source_reader, english_reader], counts), names)
    matches = match_documents(source_reader, len(source), english_reader, len(english))
    return cells + scores_of(matches, names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    add_corpora(parser)
    parser.add_argument("--model", default="echo-nano")
    parser.add_argument("--documents", type=int, default=100, help="of each side")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--languages", nargs="+", default=["fra_Latn", "zho_Hans"])
    parser.add_argument("--boilerplate", type=float, default=0.0, help="share of a document")
    parser.add_argument("--shared", type=float, default=0.0, help="share of a document")
    arguments = parser.parse_args()
    tables = {SOURCES[kind] for kind in arguments.kinds} | {"dictionaries"}
    if arguments.boilerplate:
        tables.add("docs_parallel")
    corpora = corpora_of(arguments, *sorted(tables))
    embed = partial(encode, *load_encoder(arguments.model), normalize=True)
    rows = []
    for kind in arguments.kinds:
        for lang in arguments.languages:
            source, english = KINDS[kind](corpora, lang)
            if not source:
                continue
            if arguments.shared:
                source, english = sharing(source, english, arguments.shared)
            rng = np.random.default_rng(0)
            sides = two_sides(source, english, arguments.documents, rng)
            if arguments.boilerplate:
                sides = both_with_boilerplate(corpora, lang, sides, arguments.boilerplate, rng)
            sizes = f"{len(sides[0])} / {len(sides[1])}"
            rows.append([kind, lang, sizes, *figures_of(sides, lang, corpora, embed)])
            print(rows[-1], flush=True)
    header = [
        "documents",
        "language",
        "sides",
        "TF-IDF: recall",
        "precision",
        "means: recall",
        "precision",
        "match: recall",
        "precision",
    ]
    print(markdown_table(header, rows))


if __name__ == "__main__":
    main()
