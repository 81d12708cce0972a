"""Pairs of the monolithic baselines and of all-pair alignment;
a tiny Full_mc, all of whose weights move."""

from collections import Counter

import modular_trial
import numpy as np
import pandas as pd
import pytest
import torch
from full_models import cross_lingual_pairs, train_full
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import BertConfig, BertModel, BertTokenizer

MEANINGS = [
    {"eng_Latn": ["cat"], "deu_Latn": ["katze"], "tur_Latn": ["kedi"]},
    {"eng_Latn": ["dog"], "deu_Latn": ["hund", "köter"]},
    {"eng_Latn": ["alone"]},
]
LANGUAGE_OF = {}
MEANING_OF = {}
for number, meaning in enumerate(MEANINGS):
    for lang, texts in meaning.items():
        for text in texts:
            LANGUAGE_OF[text] = lang
            MEANING_OF[text] = number


@pytest.fixture(scope="module")
def pairs():
    return cross_lingual_pairs(MEANINGS, 1200)


def test_so_many_pairs_are_made(pairs):
    assert len(pairs) == 1200


def test_both_sentences_of_a_pair_mean_the_same(pairs):
    assert all(MEANING_OF[first] == MEANING_OF[second] for first, second in pairs)


def test_the_sentences_of_a_pair_differ(pairs):
    assert all(first != second for first, second in pairs)


def test_the_languages_of_a_pair_are_drawn_evenly(pairs):
    """Of the first meaning, six ordered pairs of languages."""
    counts = Counter((LANGUAGE_OF[a], LANGUAGE_OF[b]) for a, b in pairs if MEANING_OF[a] == 0)
    assert len(counts) == 6
    assert all(60 < count < 140 for count in counts.values())  # 100 expected, standard deviation 9


def test_a_language_may_be_paired_with_itself(pairs):
    assert ("hund", "köter") in pairs


def test_meanings_with_one_sentence_give_no_pairs():
    assert cross_lingual_pairs(MEANINGS[2:], 5) == []


def test_all_pairs_are_with_english_or_a_language_before(monkeypatch):
    monkeypatch.setattr(modular_trial, "LANGUAGES", ["deu_Latn", "tur_Latn"])
    rows = [("katze", "deu_Latn", "cat"), ("kedi", "tur_Latn", "cat"), ("hund", "deu_Latn", "dog")]
    meanings = modular_trial.meanings_of(
        pd.DataFrame(rows, columns=["source", "source_lang", "target"])
    )

    pairs = modular_trial.all_pairs(meanings, "tur_Latn", 10)

    assert pairs.to_numpy().tolist() == [
        ["cat", "eng_Latn", "kedi", "tur_Latn"],
        ["katze", "deu_Latn", "kedi", "tur_Latn"],
    ]


WORDS = ["a", "b", "c", "d", "e", "f"]


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A small BERT that knows six words; its mean embedding. Returns the model and its folder."""
    folder = tmp_path_factory.mktemp("start")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    torch.manual_seed(0)
    shape = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
    BertModel(BertConfig(vocab_size=len(vocabulary), **shape)).save_pretrained(folder / "bert")
    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder / "bert")
    model = SentenceTransformer(
        modules=[Transformer(str(folder / "bert")), Pooling(32)], device="cpu"
    )
    model.save(str(folder / "model"), create_model_card=False)
    return model, folder / "model"


@pytest.fixture(scope="module")
def full(start, tmp_path_factory):
    """Trained on pairs of the words a and b, then of b and c."""
    monolingual = {"one": [("a", "b"), ("d", "e")] * 8, "two": [("e", "f"), ("a", "b")] * 8}
    cross_lingual = {"pairs": [("b", "c"), ("e", "f")] * 8}
    folder = tmp_path_factory.mktemp("full")
    train_full(
        start[1], folder, [monolingual, cross_lingual], epochs=3, learning_rate=1e-2, batch_size=4
    )
    return SentenceTransformer(str(folder), device="cpu")


@pytest.mark.trains
def test_all_weights_of_a_full_model_learn(start, full):
    unmoved = []
    for (name, before), after in zip(start[0].named_parameters(), full.parameters(), strict=True):
        if "pooler" not in name and "bias" not in name and torch.equal(before, after):
            unmoved.append(name)
    assert unmoved == []


def similarity_gap(model: SentenceTransformer) -> float:
    """How much nearer c is to a than e is."""
    vectors = model.encode(WORDS, normalize_embeddings=True)
    return float(np.dot(vectors[0], vectors[2]) - np.dot(vectors[0], vectors[4]))


@pytest.mark.trains
def test_a_full_model_learns_from_both_parts(start, full):
    """a and c are near only by b: one part has a and b, the other b and c."""
    assert similarity_gap(full) > similarity_gap(start[0])
