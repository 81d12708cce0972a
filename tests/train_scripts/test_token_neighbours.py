"""Neighbour kinds against counting them one by one."""

import numpy as np
import pytest
from token_neighbours import KINDS, neighbour_shares, token_neighbours

from hf_echo.evaluation.tokens.token_states import token_states

from ..refusals import refuses


def count(states, facts, own, k: int) -> dict[str, float]:
    """Table 9 by loops: of each query the k best tokens but itself."""
    x = states / np.linalg.norm(states, axis=1, keepdims=True)
    counts = dict.fromkeys(KINDS, 0)
    for q in own:
        scores = (x @ x[q].astype(np.float64)).astype(np.float32)
        for i in [i for i in np.argsort(-scores, kind="stable") if i != q][:k]:
            same_id, same_lang, same_token = facts[i] == facts[q]
            if same_lang:
                counts["same_sentence" if same_id else "same_language"] += 1
                counts["same_token"] += int(not same_id and same_token)
            else:
                counts["translation" if same_id else "other"] += 1
    return {kind: 100 * n / (k * len(own)) for kind, n in counts.items()}


def test_kinds_are_those_of_a_loop():
    rng = np.random.default_rng(0)
    states = rng.normal(size=(300, 6)).astype(np.float32)
    states[100:140] = states[3]  # more copies of a query than it has neighbours
    facts = np.stack([rng.integers(0, n, 300) for n in (12, 3, 9)], 1)
    own = np.array([3, 50, 120, 200, 299])
    found = neighbour_shares(states, facts, own, 5)
    assert found == pytest.approx(count(states, facts, own, 5))
    assert sum(found[kind] for kind in KINDS[:4]) == pytest.approx(100)


def test_a_model_end_to_end(toy, toy_tokenizer):
    encoder = toy.make_model(toy_tokenizer).encoder.eval()
    rows = [row for row in toy.nway_rows() if row["id"] < 8]
    found = token_neighbours(encoder, toy_tokenizer, rows, query_sentences=4, tokens_each=100, k=3)
    texts, codes = [row["text"] for row in rows], [row["lang"] for row in rows]
    states = list(token_states(encoder, toy_tokenizer, texts, codes, layers=[-1]))
    langs = list(dict.fromkeys(codes))
    facts = np.array([(r["id"], langs.index(r["lang"]), t) for r, s in zip(rows, states) for t in s.ids])
    own = np.flatnonzero((facts[:, 1] == langs.index("eng_Latn")) & (facts[:, 0] < 4))
    want = count(np.concatenate([s.states[0] for s in states]), facts, own, 3)
    assert found == pytest.approx(want | {"queries": len(own), "pool": len(facts)}, abs=1.0)
    few = [token_neighbours(encoder, toy_tokenizer, rows, tokens_each=2, seed=s) for s in (0, 0, 1)]
    assert few[0]["queries"] == 16 and few[0] == few[1] != few[2]
    for bad, options, message in (
        ([rows[0], rows[0]], {}, "id 0 has two texts in 'eng_Latn'"),
        (rows[:1], {}, "and in another language; found eng_Latn"),
        (rows[1:3], {}, "give sentences in 'eng_Latn' and .*found fra_Latn, rus_Cyrl"),
        (rows[:6], {"k": 500}, "a smaller k than 500"),
    ):
        refuses(message, token_neighbours, encoder, toy_tokenizer, bad, **options)
