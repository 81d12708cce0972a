"""Neighbour kinds against counting them one by one."""

import numpy as np
import pytest
from token_neighbours import KINDS, neighbour_shares, token_neighbours

from hf_echo.evaluation.tokens.token_states import token_states

from ..refusals import refusals


def count(states: np.ndarray, facts: np.ndarray, queries: np.ndarray, k: int) -> dict[str, float]:
    """Table 9 by loops: of each query the k best tokens but itself."""
    unit = states / np.linalg.norm(states, axis=1, keepdims=True)
    counts = dict.fromkeys(KINDS, 0)
    for query in queries:
        scores = (unit @ unit[query].astype(np.float64)).astype(np.float32)
        others = [token for token in np.argsort(-scores, kind="stable") if token != query]
        for token in others[:k]:
            same_id, same_lang, same_token = facts[token] == facts[query]
            if same_lang:
                counts["same_sentence" if same_id else "same_language"] += 1
                counts["same_token"] += int(not same_id and same_token)
            else:
                counts["translation" if same_id else "other"] += 1
    return {kind: 100 * number / (k * len(queries)) for kind, number in counts.items()}


@pytest.fixture(scope="module")
def tokens():
    """States, facts and queries of 300 random tokens; a query has more copies than neighbours are asked for."""
    rng = np.random.default_rng(0)
    states = rng.normal(size=(300, 6)).astype(np.float32)
    states[100:140] = states[3]
    facts = np.stack([rng.integers(0, size, 300) for size in (12, 3, 9)], axis=1)
    return states, facts, np.array([3, 50, 120, 200, 299])


def test_kinds_are_those_of_a_loop(tokens):
    assert neighbour_shares(*tokens, 5) == pytest.approx(count(*tokens, 5))


def test_four_kinds_are_all_neighbours(tokens):
    shares = neighbour_shares(*tokens, 5)
    assert sum(shares[kind] for kind in KINDS[:4]) == pytest.approx(100)


@pytest.fixture(scope="module")
def model(toy, toy_tokenizer):
    return toy.make_model(toy_tokenizer).encoder.eval(), toy_tokenizer


@pytest.fixture(scope="module")
def rows(toy):
    return [row for row in toy.nway_rows() if row["id"] < 8]


def test_shares_of_a_model_are_those_of_its_states(model, rows):
    """By hand: all tokens of the first four English sentences ask."""
    langs = [row["lang"] for row in rows]
    of_texts = list(token_states(*model, [row["text"] for row in rows], langs, layers=[-1]))
    numbers = {lang: number for number, lang in enumerate(dict.fromkeys(langs))}
    facts = []
    for row, states in zip(rows, of_texts):
        facts += [(row["id"], numbers[row["lang"]], token) for token in states.ids]
    facts = np.array(facts)
    queries = np.flatnonzero((facts[:, 1] == numbers["eng_Latn"]) & (facts[:, 0] < 4))
    all_states = np.concatenate([states.states[0] for states in of_texts])

    shares = token_neighbours(*model, rows, query_sentences=4, tokens_each=100, k=3)

    by_hand = count(all_states, facts, queries, 3)
    assert shares == pytest.approx(by_hand | {"queries": len(queries), "pool": len(facts)}, abs=1.0)


def test_queries_are_drawn_by_seed(model, rows):
    first, again, other = [
        token_neighbours(*model, rows, tokens_each=2, seed=seed) for seed in (0, 0, 1)
    ]
    assert first["queries"] == 16
    assert first == again != other


test_rows_that_cannot_be_measured = refusals(
    (slice(0, 1), {}, "and in another language; found eng_Latn"),
    (slice(1, 3), {}, "give sentences in 'eng_Latn' and .*found fra_Latn, rus_Cyrl"),
    (slice(0, 6), {"k": 500}, "a smaller k than 500"),
    (np.array([0, 0]), {}, "id 0 has two texts in 'eng_Latn'"),
    call=lambda part, options, model, rows: token_neighbours(
        *model, list(np.array(rows)[part]), **options
    ),
)
