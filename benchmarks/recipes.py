"""The recipes of docs/mining.md on real text: own pairs, a classifier over embeddings, duplicates across languages.

    python benchmarks/recipes.py CORPORA [--model MODEL]
    python benchmarks/recipes.py CORPORA --pairs pairs.tsv [--model MODEL]

CORPORA holds flores_sib.parquet (index_id, lang, category, text, split). The classifier learns the topics of SIB-200
from the English sentences of the split train; printed is the share that it has right in the split dev. For the
duplicates, 450 sentences stand in one language by seed, and every third of them in a second one; printed are precision
and recall of "the nearest other text has a higher cosine than this".

With --pairs the pairs of GNOME's help in Ukrainian are written to a file, 500 excepted (docs_parallel.parquet), and the
errors of search among these are printed: run it again with the model that was trained on the file.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from hf_echo.inference import encode, load_encoder
from hf_echo.search import nearest_neighbours
from hf_echo.utils.hub import packaged_model

LANGUAGES = ["eng_Latn", "fra_Latn", "deu_Latn", "zho_Hans", "hin_Deva", "swh_Latn"]


def classify(echo, rows: pd.DataFrame) -> None:
    english = rows[(rows.lang == "eng_Latn") & (rows.split == "train")]
    classifier = LogisticRegression(C=100).fit(encode(*echo, english.text.tolist(), "eng_Latn"), english.category)
    for lang in LANGUAGES:
        dev = rows[(rows.lang == lang) & (rows.split == "dev")]
        right = classifier.predict(encode(*echo, dev.text.tolist(), lang)) == dev.category
        print(f"{lang} {right.mean():.3f} of {len(dev)}; always the commonest topic "
              f"{dev.category.value_counts(normalize=True).max():.3f}")  # fmt: skip


def find_duplicates(echo, rows: pd.DataFrame) -> None:
    rows = rows[rows.split == "train"].drop_duplicates(["index_id", "lang"])
    table = rows.pivot(index="index_id", columns="lang", values="text").dropna()[:450]
    rng, texts, langs, ids = np.random.default_rng(0), [], [], []
    for number, (name, row) in enumerate(table.iterrows()):
        for lang in rng.permutation(LANGUAGES)[: 1 if number % 3 else 2].tolist():
            texts.append(row[lang])
            langs.append(lang)
            ids.append(name)
    vectors = encode(*echo, texts, langs)
    cosines, nearest = nearest_neighbours(vectors, vectors, 2)
    right = np.array([ids[int(row[1])] == ids[i] for i, row in enumerate(nearest)])
    for threshold in (0.5, 0.6, 0.65, 0.7):
        found = cosines[:, 1] > threshold
        precision, recall = right[found].mean(), right[found].sum() / (2 * (len(ids) - len(table)))
        print(f"above {threshold}: precision {precision:.3f}, recall {recall:.3f}, {len(texts)} texts")


def own_pairs(echo, rows: pd.DataFrame, file: Path) -> None:
    rows = rows.drop_duplicates("src").drop_duplicates("tgt").sample(frac=1, random_state=3)
    rows = rows.assign(source=rows.tgt, target=rows.src, source_lang="ukr_Cyrl", target_lang="eng_Latn")
    rows = rows[["source", "source_lang", "target", "target_lang"]].replace(r"\s+", " ", regex=True)
    rows[500:].to_csv(file, sep="\t", index=False, quoting=csv.QUOTE_NONE, escapechar="\\")
    source, target = (
        encode(*echo, rows[:500][side].tolist(), *rows[:1][f"{side}_lang"]) for side in ("source", "target")
    )
    wrong = [
        (nearest_neighbours(*way, 1).indices[:, 0] != np.arange(500)).sum()
        for way in ((source, target), (target, source))
    ]
    print(f"{len(rows) - 500} pairs in {file}; {wrong[0]} and {wrong[1]} of 500 searches wrong, to and from English")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--model", default="echo-nano")
    parser.add_argument("--pairs", type=Path)
    arguments = parser.parse_args()
    if arguments.pairs:
        wanted = [("tgt_lang", "==", "ukr_Cyrl"), ("source", "==", "GNOME/gnome-user-docs")]
        rows = pd.read_parquet(arguments.corpora / "docs_parallel.parquet", filters=wanted)
        return own_pairs(load_encoder(packaged_model(arguments.model)), rows, arguments.pairs)
    rows = pd.read_parquet(arguments.corpora / "flores_sib.parquet", filters=[("lang", "in", LANGUAGES)])
    echo = load_encoder(packaged_model(arguments.model))
    classify(echo, rows)
    find_duplicates(echo, rows)


if __name__ == "__main__":
    main()
