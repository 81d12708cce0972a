"""The recipes of docs/mining.md on real text: own pairs, a classifier over embeddings, duplicates
across languages.

    python benchmarks/recipes.py CORPORA [--model MODEL]
    python benchmarks/recipes.py CORPORA --pairs pairs.tsv [--model MODEL]

CORPORA holds flores_sib.parquet (index_id, lang, category, text, split). The classifier learns the
topics of SIB-200 from the English sentences of the split train; printed is the share that it has
right in the split dev. For the duplicates, 450 sentences stand in one language by seed, and every
third of them in a second one; printed are precision and recall of "the nearest other text has a
higher cosine than this".

With --pairs the pairs of GNOME's help in Ukrainian are written to a file, 500 excepted
(docs_parallel.parquet), and the errors of search among these are printed: run it again with the
model that was trained on the file.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from parallel_texts import gnome_help
from sklearn.linear_model import LogisticRegression

from hf_echo.inference import encode, load_encoder
from hf_echo.languages import ENGLISH
from hf_echo.search import nearest_neighbours
from hf_echo.steps.public_text import add_corpora, corpora_of
from hf_echo.utils.hub import packaged_model

Embed = Callable[..., np.ndarray]  # (texts, language or languages) -> (texts, dimensions)

LANGUAGES = [ENGLISH, "fra_Latn", "deu_Latn", "zho_Hans", "hin_Deva", "swh_Latn"]
SEARCHED = 500  # pairs of the help that are not written


def classify(embed: Embed, rows: pd.DataFrame) -> None:
    """Recipe "classify": topics by a classifier that was taught on English."""
    english = rows[(rows.lang == ENGLISH) & (rows.split == "train")]
    classifier = LogisticRegression(C=100).fit(
        embed(english.text.tolist(), ENGLISH), english.category
    )
    for lang in LANGUAGES:
        dev = rows[(rows.lang == lang) & (rows.split == "dev")]
        accuracy = classifier.score(embed(dev.text.tolist(), lang), dev.category)
        commonest = dev.category.value_counts(normalize=True).max()
        print(f"{lang} {accuracy:.3f} of {len(dev)}; always the commonest topic {commonest:.3f}")


def find_duplicates(embed: Embed, rows: pd.DataFrame) -> None:
    """Recipe "duplicates": sentences whose nearest neighbour is a translation."""
    rows = rows[rows.split == "train"].drop_duplicates(["index_id", "lang"])
    table = rows.pivot(index="index_id", columns="lang", values="text").dropna()[:450]
    rng = np.random.default_rng(0)
    texts = []
    langs = []
    ids = []
    for number, row in enumerate(table.itertuples()):
        for lang in rng.permutation(LANGUAGES)[: 1 if number % 3 else 2].tolist():
            texts.append(getattr(row, lang))
            langs.append(lang)
            ids.append(number)
    vectors = embed(texts, langs)
    cosines, nearest = nearest_neighbours(vectors, vectors, 2)  # the first is the text itself
    right = np.array(ids)[nearest[:, 1]] == ids
    # Both texts of a duplicate should find each other.
    duplicates = 2 * (len(ids) - len(table))
    for threshold in (0.5, 0.6, 0.65, 0.7):
        is_above = cosines[:, 1] > threshold
        precision = right[is_above].mean()
        recall = right[is_above].sum() / duplicates
        print(
            f"above {threshold}: precision {precision:.3f}, recall {recall:.3f}, {len(texts)} texts"
        )


def own_pairs(embed: Embed, rows: pd.DataFrame, file: Path) -> None:
    """Recipe "own pairs": searches in both directions on pairs that are held out."""
    table = pd.DataFrame(
        {"source": rows.tgt, "source_lang": "ukr_Cyrl", "target": rows.src, "target_lang": ENGLISH}
    )
    table = table.replace(r"\s+", " ", regex=True)
    table[SEARCHED:].to_csv(file, sep="\t", index=False, quoting=csv.QUOTE_NONE, escapechar="\\")
    source = embed(table.source[:SEARCHED].tolist(), "ukr_Cyrl")
    target = embed(table.target[:SEARCHED].tolist(), ENGLISH)
    to_english = wrong_searches(source, target)
    from_english = wrong_searches(target, source)
    print(f"{len(table) - SEARCHED} pairs in {file}; {to_english} and {from_english} of {SEARCHED} searches wrong, "
          "to and from English")  # fmt: skip


def wrong_searches(x: np.ndarray, y: np.ndarray) -> int:
    return int((nearest_neighbours(x, y, 1).indices[:, 0] != np.arange(len(x))).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    add_corpora(parser)
    parser.add_argument("--model", default="echo-nano")
    parser.add_argument("--pairs", type=Path)
    arguments = parser.parse_args()
    embed = partial(encode, *load_encoder(packaged_model(arguments.model)))
    if arguments.pairs:
        own_pairs(
            embed, gnome_help(corpora_of(arguments, "docs_parallel"), "ukr_Cyrl"), arguments.pairs
        )
        return
    rows = pd.read_parquet(
        corpora_of(arguments, "flores_sib") / "flores_sib.parquet",
        filters=[("lang", "in", LANGUAGES)],
    )
    classify(embed, rows)
    find_duplicates(embed, rows)


if __name__ == "__main__":
    main()
