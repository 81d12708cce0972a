"""Neighbour kinds against counting them one by one."""

import numpy as np
import pytest
from token_neighbours import KINDS, neighbour_shares, token_neighbours

from hf_echo.evaluation.tokens.token_states import token_states


def count(states: np.ndarray, facts: np.ndarray, queries: np.ndarray, k: int) -> dict[str, float]:
    """Table 9 by loops: of each query the k best tokens but itself."""
    unit = states / np.linalg.norm(states, axis=1, keepdims=True)
    counts = dict.fromkeys(KINDS, 0)
    for query in queries:
        scores = (unit @ unit[query].astype(np.float64)).astype(np.float32)
        scores[query] = -np.inf
        for token in np.argsort(-scores, kind="stable")[:k]:
            same_id, same_lang, same_token = facts[token] == facts[query]
            if not same_lang:
                counts["translation" if same_id else "other"] += 1
            elif same_id:
                counts["same_sentence"] += 1
            else:
                counts["same_language"] += 1
                counts["same_token"] += int(same_token)
    percent = 100 / (k * len(queries))
    return {kind: percent * number for kind, number in counts.items()}


@pytest.fixture(scope="module")
def tokens():
    """States, facts and queries of 300 random tokens;
    a query has more copies than neighbours are asked for."""
    rng = np.random.default_rng(0)
    states = rng.normal(size=(300, 6)).astype(np.float32)
    states[100:140] = states[3]
    facts = np.stack([rng.integers(0, size, 300) for size in (12, 3, 9)], axis=1)
    return states, facts, np.array([3, 50, 120, 200, 299])


def test_kinds_are_those_of_a_loop(tokens):
    assert neighbour_shares(*tokens, 5) == pytest.approx(count(*tokens, 5))


def test_four_kinds_are_all_neighbours(tokens):
    shares = neighbour_shares(*tokens, 5)

    assert sum(map(shares.get, KINDS[:4])) == pytest.approx(100)


@pytest.fixture(scope="module")
def model(toy, toy_tokenizer):
    return toy.make_model(toy_tokenizer).encoder.eval(), toy_tokenizer


@pytest.fixture(scope="module")
def rows(toy):
    return [row for row in toy.nway_rows() if row["id"] < 8]


@pytest.fixture(scope="module")
def tokens_of_rows(model, rows):
    """(states, facts) of the last layer; a fact is (sentence, language, token id)."""
    langs = [row["lang"] for row in rows]
    texts = [row["text"] for row in rows]
    states = []
    facts = []
    for row, sentence in zip(rows, token_states(*model, texts, langs, layers=[-1]), strict=True):
        states.append(sentence.states[0])
        for token_id in sentence.ids:
            facts.append((row["id"], langs.index(row["lang"]), token_id))
    return np.concatenate(states), np.array(facts)


def test_shares_of_a_model_are_those_of_its_states(model, rows, tokens_of_rows):
    """By hand: all tokens of the first four English sentences ask."""
    shares = token_neighbours(*model, rows, query_sentences=4, tokens_each=100, k=3)

    states, facts = tokens_of_rows
    sentences, langs, _ = facts.T
    english = [row["lang"] for row in rows].index("eng_Latn")
    queries = np.flatnonzero((langs == english) & (sentences < 4))
    by_hand = count(states, facts, queries, 3)
    assert shares == pytest.approx(by_hand | {"queries": len(queries), "pool": len(facts)}, abs=1.0)


def test_queries_are_drawn_by_seed(model, rows):
    """Two of each of eight sentences."""
    first = token_neighbours(*model, rows, tokens_each=2, seed=0)

    assert first["queries"] == 16
    assert token_neighbours(*model, rows, tokens_each=2, seed=0) == first
    assert token_neighbours(*model, rows, tokens_each=2, seed=1) != first


@pytest.mark.parametrize(
    "numbers, options, message",
    [
        ([0], {}, "and in another language; found eng_Latn"),
        ([1, 2], {}, "give sentences in 'eng_Latn' and .*found fra_Latn, rus_Cyrl"),
        (range(6), {"k": 500}, "a smaller k than 500"),
        ([0, 0], {}, "id 0 has two texts in 'eng_Latn'"),
    ],
)
def test_rows_that_cannot_be_measured(model, rows, numbers, options, message):
    with pytest.raises(ValueError, match=message):
        token_neighbours(*model, [rows[number] for number in numbers], **options)
