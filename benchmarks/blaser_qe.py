"""Train a small head of the form of BLASER 2.0 QE on damaged translations, for `hf-echo score
--score blaser-qe`.

    python benchmarks/blaser_qe.py CORPORA OUT [--model MODEL]
    hf-echo score OUT/test.tsv --score blaser-qe --blaser OUT/blaser --out OUT/scores.txt
    python benchmarks/blaser_qe.py CORPORA OUT --compare

These are not human ratings. A rating is 1 + 4 times the share of English words that are left of a
translation: the others are deleted, or replaced by words of other sentences. Trained is on NTREX
(ntrex.parquet: id, lang, text), tested on FLORES (flores_sib.parquet: index_id, lang, text), with
two languages that the training has and two that it has not. Printed is Spearman's correlation of
rating and score, beside that of the cosine.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from parallel_texts import nway
from scipy.stats import spearmanr
from torch import nn

from hf_echo.inference import EchoScorer
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.languages import ENGLISH
from hf_echo.modeling import BlaserConfig, BlaserModel
from hf_echo.steps.public_text import add_corpora, corpora_of
from hf_echo.utils.hub import packaged_model

SEEN = ("fra_Latn", "rus_Cyrl", "kor_Hang", "tur_Latn")
UNSEEN = ("deu_Latn", "hin_Deva")
TRAINED = 400  # sentences of each language
TESTED = 200


def damaged(english: list[str], rng: np.random.Generator) -> tuple[list[str], np.ndarray]:
    """Damaged sentences and their ratings, 1 to 5.
    In every second one words are deleted, in the others replaced."""
    others = " ".join(english).split()
    texts = []
    ratings = []
    for number, text in enumerate(english):
        words = text.split()
        replaces = number % 2 == 1
        draws = rng.random(len(words))
        share = rng.choice([0, 0.2, 0.4, 0.6, 0.8])
        is_lost = draws < share
        is_lost[rng.integers(len(words))] &= replaces  # a deletion leaves one word
        left = []
        for word, lost in zip(words, is_lost):
            if not lost:
                left.append(word)
            elif replaces:
                left.append(rng.choice(others))
        texts.append(" ".join(left))
        ratings.append(5 - 4 * is_lost.mean())
    return texts, np.array(ratings)


def trained_head(x: np.ndarray, y: np.ndarray, ratings: np.ndarray) -> BlaserModel:
    """BLASER's network, trained to give these ratings."""
    torch.manual_seed(0)
    config = BlaserConfig(kind="qe", embedding_size=x.shape[1], hidden_sizes=[256, 64])
    model = BlaserModel(config)
    # What the first layer reads is small: parts of unit rows.
    gains = {1: 8, 4: 1, 7: 1}
    for number, gain in gains.items():
        nn.init.xavier_normal_(model.mlp[number].weight, gain)
    model.train()
    sources = torch.tensor(x, dtype=torch.float32)
    translations = torch.tensor(y, dtype=torch.float32)
    truth = torch.tensor(ratings, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    for _ in range(20):
        for rows in torch.randperm(len(x)).split(64):
            scores = model(sources[rows], translations[rows]).scores
            loss = (scores - truth[rows]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()


def prepare(corpora: Path, out: Path, model: str) -> None:
    """Train a head on damaged translations of some languages; write test pairs of these and
    others."""
    rng = np.random.default_rng(0)
    encode = any_encoder(packaged_model(model))
    # Embeddings of sources and of damaged translations, with their ratings.
    table = sentences(corpora / "ntrex.parquet", "id", SEEN)[:TRAINED]
    sources = []
    translations = []
    ratings = []
    for lang in SEEN:
        texts, rated = damaged(table[ENGLISH].tolist(), rng)
        sources.append(encode(table[lang].tolist(), lang))
        translations.append(encode(texts, ENGLISH))
        ratings.append(rated)
    head = trained_head(
        np.concatenate(sources), np.concatenate(translations), np.concatenate(ratings)
    )
    head.save_pretrained(out / "blaser")

    # Test pairs of other sentences.
    tested = (*SEEN[:2], *UNSEEN)
    table = sentences(corpora / "flores_sib.parquet", "index_id", tested)[:TESTED]
    parts = []
    for lang in tested:
        texts, rated = damaged(table[ENGLISH].tolist(), rng)
        columns = {
            "source": table[lang],
            "source_lang": lang,
            "target": texts,
            "target_lang": ENGLISH,
        }
        parts.append(pd.DataFrame(columns | {"rating": rated}))
    pd.concat(parts).to_csv(out / "test.tsv", sep="\t", index=False, quoting=csv.QUOTE_NONE)


def sentences(file: Path, key: str, langs: Sequence[str]) -> pd.DataFrame:
    """A column of sentences of each language and of English, each on one line."""
    table = nway(file, key, [*langs, ENGLISH])
    return table.replace(r"\s+", " ", regex=True)


def compare(out: Path, model: str) -> None:
    """Print how the scores of the command and the cosine correlate with the ratings (Spearman)."""
    table = pd.read_csv(out / "test.tsv", sep="\t", quoting=csv.QUOTE_NONE, keep_default_na=False)
    table["blaser"] = np.loadtxt(out / "scores.txt")
    scorer = EchoScorer(packaged_model(model))
    columns = table[["source", "target", "source_lang", "target_lang"]]
    table["cosine"] = scorer(*(columns[name].tolist() for name in columns))
    for lang, rows in table.groupby("source_lang"):
        print_correlations(lang, rows)
    print_correlations("all", table)


def print_correlations(name: str, rows: pd.DataFrame) -> None:
    blaser = spearmanr(rows.rating, rows.blaser).statistic
    cosine = spearmanr(rows.rating, rows.cosine).statistic
    print(f"{name} blaser {blaser:.3f} cosine {cosine:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    add_corpora(parser)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", default="echo-nano")
    parser.add_argument("--compare", action="store_true", help="read OUT/scores.txt")
    arguments = parser.parse_args()
    if arguments.compare:
        compare(arguments.out, arguments.model)
    else:
        arguments.out.mkdir(parents=True, exist_ok=True)
        prepare(corpora_of(arguments, "ntrex", "flores_sib"), arguments.out, arguments.model)


if __name__ == "__main__":
    main()
