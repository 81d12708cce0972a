"""Neighbour kinds against counting them one by one."""

from __future__ import annotations

import numpy as np
import pytest

from hf_echo.evaluation.tokens.token_neighbours import Tokens, neighbour_shares, token_neighbours
from hf_echo.evaluation.tokens.token_states import token_states

KINDS = ("same_language", "same_sentence", "translation", "other", "same_token")


def count(pool: Tokens, own: np.ndarray, k: int) -> dict[str, float]:
    """Table 9 by loops: of each query the k best of the pool but itself."""
    x = pool.states / np.linalg.norm(pool.states, axis=1, keepdims=True)
    counts = dict.fromkeys(KINDS, 0)
    for q in own:
        scores = (x @ x[q].astype(np.float64)).astype(np.float32)
        near = [i for i in np.argsort(-scores, kind="stable") if i != q][:k]
        for i in near:
            same_id, same_lang = pool.sentence[i] == pool.sentence[q], pool.lang[i] == pool.lang[q]
            if same_lang:
                counts["same_sentence" if same_id else "same_language"] += 1
                counts["same_token"] += int(not same_id and pool.token[i] == pool.token[q])
            else:
                counts["translation" if same_id else "other"] += 1
    return {kind: 100 * n / (k * len(own)) for kind, n in counts.items()}


def pick(tokens: Tokens, at) -> Tokens:
    return Tokens(*(part[at] for part in tokens))


def test_each_kind_by_hand():
    # the query points along the first axis; its neighbours follow by angle
    angles = np.array([0, 0.1, 0.2, 0.3, 0.4, 0.5])
    pool = Tokens(
        np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32),
        np.array([7, 7, 7, 8, 8, 9]),  # query; own sentence; its translation; another of its language; other; other
        np.array([0, 0, 1, 0, 1, 1]),
        np.array([3, 4, 5, 3, 3, 3]),
    )
    found = neighbour_shares(pick(pool, [0]), np.array([0]), [pool], k=5)
    assert [getattr(found, kind) for kind in KINDS] == [20, 20, 20, 40, 20]
    assert (found.queries, found.pool, found.k) == (1, 6, 5)
    near = neighbour_shares(pick(pool, [0]), np.array([0]), [pool], k=1)
    assert [getattr(near, kind) for kind in KINDS] == [0, 100, 0, 0, 0]


@pytest.mark.parametrize("chunk", [7, 40, 300])
def test_chunks_do_not_change_the_count(chunk):
    rng = np.random.default_rng(0)
    states = rng.normal(size=(300, 6)).astype(np.float32)
    states[100:140] = states[3]  # more copies of a query than it has neighbours
    pool = Tokens(states, rng.integers(0, 12, 300), rng.integers(0, 3, 300), rng.integers(0, 9, 300))
    own = np.array([3, 50, 120, 200, 299])
    chunks = (pick(pool, slice(i, i + chunk)) for i in range(0, 300, chunk))
    found = neighbour_shares(pick(pool, own), own, chunks, k=5)
    want = count(pool, own, 5)
    assert {kind: getattr(found, kind) for kind in KINDS} == pytest.approx(want)
    assert sum(getattr(found, kind) for kind in KINDS[:4]) == pytest.approx(100)


def test_a_model_end_to_end(toy, toy_tokenizer):
    encoder = toy.make_model(toy_tokenizer).encoder.eval()
    rows = [row for row in toy.nway_rows() if row["id"] < 8]
    found = token_neighbours(encoder, toy_tokenizer, rows, query_sentences=4, tokens_each=100, k=3, chunk_tokens=30)
    # the same pool, in the rows' own order, every token of the first four English sentences a query
    states = list(
        token_states(encoder, toy_tokenizer, [r["text"] for r in rows], [r["lang"] for r in rows], layers=[-1])
    )
    langs = list(dict.fromkeys(r["lang"] for r in rows))
    columns = [
        (np.full(len(s.ids), r["id"]), np.full(len(s.ids), langs.index(r["lang"])), s.ids) for r, s in zip(rows, states)
    ]
    pool = Tokens(np.concatenate([s.states[0] for s in states]), *(np.concatenate(c) for c in zip(*columns)))
    own = np.flatnonzero((pool.lang == langs.index("eng_Latn")) & (pool.sentence < 4))
    assert {kind: getattr(found, kind) for kind in KINDS} == pytest.approx(count(pool, own, 3), abs=1.0)
    assert (found.queries, found.pool) == (len(own), len(pool.token))
    few = [token_neighbours(encoder, toy_tokenizer, rows, tokens_each=2, seed=s) for s in (0, 0, 1)]
    assert few[0].queries == 16 and few[0] == few[1] != few[2]


def test_bad_input(toy, toy_tokenizer):
    encoder = toy.make_model(toy_tokenizer).encoder.eval()
    rows = toy.nway_rows()[:6]
    for bad, message in (
        ([rows[0], rows[0]], "row 2: a second text for id 0 in eng_Latn"),
        ([rows[0], {"id": 1, "lang": "fra_Latn"}], "row 2: no text; the columns are id, lang"),
        (rows[:1], "all 1 sentences are in one language"),
        (rows[1:3], "no sentence in eng_Latn; found fra_Latn, rus_Cyrl"),
    ):
        with pytest.raises(ValueError, match=message):
            token_neighbours(encoder, toy_tokenizer, bad)
    with pytest.raises(ValueError, match="fewer than 500 neighbours"):
        token_neighbours(encoder, toy_tokenizer, rows, k=500)
    with pytest.raises(ValueError, match="at least one"):
        neighbour_shares(Tokens(*(np.zeros((0, 1)),) * 4), np.zeros(0), [])
