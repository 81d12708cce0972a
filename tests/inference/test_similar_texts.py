"""Clusters of texts against a topic that is known, and against the formula of their vectors."""

import numpy as np
import pytest
import torch

from hf_echo.inference.similar_texts import text_clusters
from hf_echo.steps.recipe import read_training

TOPICS = ["cat dog bird", "red blue green", "one two three"]
FREQUENT = "the a of"


def words(texts, add_special_tokens):
    """A tokenizer of words: ids in the order of the vocabulary."""
    assert not add_special_tokens
    return {"input_ids": [[vocabulary.index(word) for word in text.split()] for text in texts]}


vocabulary = " ".join([FREQUENT, *TOPICS]).split()


def test_texts_of_a_topic_share_a_cluster_whatever_frequent_words_they_have():
    rng = np.random.default_rng(0)
    topics = rng.integers(3, size=600)
    texts = [f"the a of {' '.join(rng.permutation(TOPICS[t].split())[:2])} the" for t in topics]
    vectors = torch.randn(len(vocabulary), 16, generator=torch.Generator().manual_seed(0))
    for topic in range(3):  # words of a topic are near each other
        vectors[3 + 3 * topic : 6 + 3 * topic] += 4 * torch.eye(16)[topic]
    clusters = text_clusters(texts, words, vectors, 3)
    assert len(set(zip(topics, clusters))) == 3
    assert (clusters == text_clusters(texts, words, vectors, 3)).all()
    same = {text: cluster for text, cluster in zip(texts, clusters)}
    assert [same[text] for text in texts] == clusters.tolist()


def test_a_text_without_tokens_has_a_cluster_too():
    vectors = torch.eye(len(vocabulary), 16)
    assert len(text_clusters(["cat dog", "", "red blue", ""], words, vectors, 2)) == 4


def test_what_is_missing_is_said(tmp_path):
    values = {
        "stage": "contrastive",
        "train_data": "builtin",
        "batch_by": "similarity",
        "output_dir": str(tmp_path),
    }
    pytest.raises(ValueError, read_training, tmp_path / "a.yaml", values).match(
        "needs token vectors: name a start"
    )
