"""Clusters of texts against a topic that is known, and against the formula of their vectors."""

import numpy as np
import pytest
import torch

from hf_echo.inference.similar_texts import text_clusters
from hf_echo.steps.recipe import read_training

TOPICS = ["cat dog bird", "red blue green", "one two three"]
FREQUENT = "the a of"


VOCABULARY = " ".join([FREQUENT, *TOPICS]).split()


def word_ids(texts, add_special_tokens):
    """A tokenizer of words: ids in the order of the vocabulary."""
    assert not add_special_tokens
    ids = []
    for text in texts:
        ids.append([VOCABULARY.index(word) for word in text.split()])
    return {"input_ids": ids}


@pytest.fixture
def topics_with_texts():
    """(600,) topics, and texts of two words of the topic among frequent words."""
    rng = np.random.default_rng(0)
    topics = rng.integers(3, size=600)
    texts = []
    for topic in topics:
        first, second = rng.permutation(TOPICS[topic].split())[:2]
        texts.append(f"the a of {first} {second} the")
    return topics, texts


@pytest.fixture
def word_vectors():
    """(words, 16); the three words of a topic are near each other."""
    vectors = torch.randn(len(VOCABULARY), 16, generator=torch.Generator().manual_seed(0))
    for topic in range(3):
        first = 3 + 3 * topic
        vectors[first : first + 3, topic] += 4
    return vectors


def test_texts_of_a_topic_share_a_cluster(topics_with_texts, word_vectors):
    """Whatever frequent words they have."""
    topics, texts = topics_with_texts

    clusters = text_clusters(texts, word_ids, word_vectors, 3)

    assert len(set(zip(topics, clusters))) == 3


def test_clusters_are_the_same_in_each_run(topics_with_texts, word_vectors):
    _, texts = topics_with_texts
    clusters = text_clusters(texts, word_ids, word_vectors, 3)

    again = text_clusters(texts, word_ids, word_vectors, 3)

    np.testing.assert_array_equal(again, clusters)


def test_equal_texts_share_a_cluster(topics_with_texts, word_vectors):
    _, texts = topics_with_texts

    clusters = text_clusters(texts, word_ids, word_vectors, 3)

    assert len(set(zip(texts, clusters))) == len(set(texts))


def test_a_text_without_tokens_has_a_cluster_too():
    vectors = torch.eye(len(VOCABULARY), 16)

    clusters = text_clusters(["cat dog", "", "red blue", ""], word_ids, vectors, 2)

    assert len(clusters) == 4


def test_clusters_need_token_vectors(tmp_path):
    recipe = {
        "stage": "contrastive",
        "train_data": "builtin",
        "batch_by": "similarity",
        "output_dir": str(tmp_path),
    }
    with pytest.raises(ValueError, match="needs token vectors: name a start"):
        read_training(tmp_path / "a.yaml", recipe)
