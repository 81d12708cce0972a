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
UKRAINIAN = "ukr_Cyrl"
SEARCHED = 500  # pairs of the help that are not written


def classify(embed: Embed, rows: pd.DataFrame) -> None:
    """Recipe "classify": topics by a classifier that was taught on English."""
    train = rows[rows.split == "train"]
    dev = rows[rows.split == "dev"]
    english = train[train.lang == ENGLISH]
    classifier = LogisticRegression(C=100)
    classifier.fit(embed(english.text.tolist(), ENGLISH), english.category)
    for lang in LANGUAGES:
        asked = dev[dev.lang == lang]
        vectors = embed(asked.text.tolist(), lang)
        accuracy = classifier.score(vectors, asked.category)
        commonest = asked.category.value_counts(normalize=True).max()
        print(f"{lang} {accuracy:.3f} of {len(asked)}; always the commonest topic {commonest:.3f}")


def find_duplicates(embed: Embed, rows: pd.DataFrame) -> None:
    """Recipe "duplicates": sentences whose nearest neighbour is a translation."""
    rows = rows[rows.split == "train"].drop_duplicates(["index_id", "lang"])
    table = rows.pivot(index="index_id", columns="lang", values="text").dropna()[:450]
    rng = np.random.default_rng(0)
    texts = []
    langs = []
    sentences = []  # the number of the sentence that each text says
    for number, translations in enumerate(table.to_dict("records")):
        order = rng.permutation(LANGUAGES).tolist()
        # Every third sentence stands in two languages.
        languages = order[:1] if number % 3 else order[:2]
        for lang in languages:
            texts.append(translations[lang])
            langs.append(lang)
            sentences.append(number)
    vectors = embed(texts, langs)
    # The nearest text is the text itself: the second one counts.
    cosines, nearest = nearest_neighbours(vectors, vectors, 2)
    is_right = np.array(sentences)[nearest[:, 1]] == sentences
    # Both texts of a duplicate should find each other.
    duplicates = 2 * (len(texts) - len(table))
    for threshold in (0.5, 0.6, 0.65, 0.7):
        right_above = is_right[cosines[:, 1] > threshold]
        precision = right_above.mean()
        recall = right_above.sum() / duplicates
        print(
            f"above {threshold}: precision {precision:.3f}, recall {recall:.3f}, {len(texts)} texts"
        )


def own_pairs(embed: Embed, rows: pd.DataFrame, file: Path) -> None:
    """Recipe "own pairs": searches in both directions on pairs that are held out."""
    columns = {
        "source": rows.tgt,
        "source_lang": UKRAINIAN,
        "target": rows.src,
        "target_lang": ENGLISH,
    }
    table = pd.DataFrame(columns).replace(r"\s+", " ", regex=True)
    searched = table[:SEARCHED]
    written = table[SEARCHED:]
    written.to_csv(file, sep="\t", index=False, quoting=csv.QUOTE_NONE, escapechar="\\")
    source = embed(searched.source.tolist(), UKRAINIAN)
    target = embed(searched.target.tolist(), ENGLISH)
    print(f"{len(written)} pairs in {file}")
    print(f"{wrong_searches(source, target)} of {SEARCHED} searches wrong to English")
    print(f"{wrong_searches(target, source)} of {SEARCHED} searches wrong from English")


def wrong_searches(x: np.ndarray, y: np.ndarray) -> int:
    """How many rows of x have another nearest row of y than their own."""
    nearest = nearest_neighbours(x, y, 1).indices[:, 0]
    return int((nearest != np.arange(len(x))).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    add_corpora(parser)
    parser.add_argument("--model", default="echo-nano")
    parser.add_argument("--pairs", type=Path)
    arguments = parser.parse_args()
    embed = partial(encode, *load_encoder(packaged_model(arguments.model)))
    if arguments.pairs:
        corpora = corpora_of(arguments, "docs_parallel")
        own_pairs(embed, gnome_help(corpora, UKRAINIAN), arguments.pairs)
        return
    file = corpora_of(arguments, "flores_sib") / "flores_sib.parquet"
    rows = pd.read_parquet(file, filters=[("lang", "in", LANGUAGES)])
    classify(embed, rows)
    find_duplicates(embed, rows)


if __name__ == "__main__":
    main()
