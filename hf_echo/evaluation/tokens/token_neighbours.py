"""Whose tokens are a token's nearest neighbours (MEXMA 5.5, Table 9).

Contract: sentences in many languages in, the shares of four kinds of neighbour out, by the sentence that the
neighbour stands in: the same sentence; another sentence of the same language; a translation (the same id in another
language); other. The paper's words say "the same token" of the second and "its equivalent" of the third kind, and
group "based on the sentence they belong to": what can be known from the data is the sentence. How many neighbours of
the second kind are the same token of the vocabulary is given beside it.

The pool is read in chunks: memory holds one of them, whatever the number of languages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ...search.neighbours import nearest_neighbours
from ..results import Result
from .token_states import token_states


class Tokens(NamedTuple):
    """`states` (n, d); of each token, as whole numbers: its sentence's id, its language, its vocabulary id."""

    states: np.ndarray
    sentence: np.ndarray
    lang: np.ndarray
    token: np.ndarray


@dataclass(frozen=True)
class TokenNeighbourResult(Result):
    """Percent of all neighbours; the first four sum to 100. `same_token`: neighbours of the kind `same_language` that
    are the query's own token of the vocabulary."""

    same_language: float
    same_sentence: float
    translation: float
    other: float
    same_token: float
    queries: int
    pool: int
    k: int


def neighbour_shares(queries: Tokens, own: np.ndarray, chunks: Iterable[Tokens], *, k: int = 5) -> TokenNeighbourResult:
    """
    Args:
        own: (queries,) each query's number in the pool, which is no neighbour of its own.
        chunks: the pool, in order; k neighbours by cosine are taken of all of it, of equals the first in the pool.

    Raises:
        ValueError: no queries, no more than k tokens in the pool.
    """
    n = len(queries.states)
    if not n or len(own) != n:
        raise ValueError(f"{n} queries and {len(own)} numbers: at least one, and as many of each, are needed")
    scores, place = np.full((n, 0), -np.inf, np.float32), np.zeros((n, 0), np.int64)
    facts = np.zeros((n, 0, 3), np.int64)  # sentence, lang, token of each neighbour kept
    pool = 0
    for chunk in chunks:
        found = nearest_neighbours(queries.states, chunk.states, min(k + 1, len(chunk.states)))
        of_chunk = np.stack([chunk.sentence, chunk.lang, chunk.token], 1)
        scores = np.concatenate([scores, found.scores], 1)
        place = np.concatenate([place, found.indices + pool], 1)
        facts = np.concatenate([facts, of_chunk[found.indices]], 1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, : k + 1]
        scores, place = np.take_along_axis(scores, best, 1), np.take_along_axis(place, best, 1)
        facts = np.take_along_axis(facts, best[..., None], 1)
        pool += len(chunk.states)
    if pool <= k:
        raise ValueError(f"a pool of {pool} tokens has no {k} neighbours beside the query itself")
    # The query itself goes to the end. Where more than k tokens equal it, it may not be among those kept at all.
    rest = np.arange(n)[:, None], np.argsort(place == own[:, None], axis=1, kind="stable")[:, :k]
    return _shares(queries, facts[rest], pool, k)


def _shares(queries: Tokens, facts: np.ndarray, pool: int, k: int) -> TokenNeighbourResult:
    sentence, lang, token = np.moveaxis(facts, 2, 0)
    same_id, same_lang = sentence == queries.sentence[:, None], lang == queries.lang[:, None]
    same_token = same_lang & ~same_id & (token == queries.token[:, None])
    kinds = (
        same_lang & ~same_id,
        same_lang & same_id,
        same_id & ~same_lang,
        ~same_lang & ~same_id,
        same_token,
    )
    return TokenNeighbourResult(*(100 * float(kind.mean()) for kind in kinds), len(facts), pool, k)


def token_neighbours(
    model: Any,
    tokenizer: Any,
    rows: Iterable[Mapping[str, Any]],
    *,
    layer: int = -1,
    query_lang: str = "eng_Latn",
    query_sentences: int = 250,
    tokens_each: int = 3,
    k: int = 5,
    seed: int = 0,
    chunk_tokens: int = 50_000,
    max_tokens: int | None = None,
    progress: bool = False,
) -> TokenNeighbourResult:
    """Random tokens of the first sentences of one language against all tokens of all languages (defaults: MEXMA).

    Args:
        rows: dicts with `id` (the same for translations of each other), `lang`, `text`; texts too long for the model
            are left out.
        chunk_tokens: tokens of the pool held at a time.

    Raises:
        ValueError: a row without these columns or a second one for an id and language, fewer than two languages, no
            sentence in `query_lang`.
    """
    rows = _checked(rows)
    if len({row["lang"] for row in rows}) < 2:
        raise ValueError(f"all {len(rows)} sentences are of one language: translations are needed")
    asked = [row for row in rows if row["lang"] == query_lang][:query_sentences]
    if not asked:
        raise ValueError(f"no sentence in {query_lang}; there are {', '.join(sorted({r['lang'] for r in rows}))}")
    langs = {lang: i for i, lang in enumerate(dict.fromkeys(row["lang"] for row in rows))}
    ids = {key: i for i, key in enumerate(dict.fromkeys(row["id"] for row in rows))}
    # The sentences that are asked come first: a token's number in the pool is then known as it is drawn.
    rest = [row for row in rows if row["lang"] != query_lang] + [row for row in rows if row["lang"] == query_lang][
        query_sentences:
    ]
    options = {"layers": [layer], "max_tokens": max_tokens}
    first = list(_tokens(model, tokenizer, asked, langs, ids, **options))
    queries, own = _draw(first, tokens_each, np.random.default_rng(seed))
    others = _tokens(model, tokenizer, rest, langs, ids, **options, progress=progress)
    return neighbour_shares(queries, own, _chunks(chain(first, others), chunk_tokens), k=k)


def _tokens(model, tokenizer, rows, langs, ids, **options) -> Iterator[Tokens]:
    texts, codes = [row["text"] for row in rows], [row["lang"] for row in rows]
    for row, found in zip(rows, token_states(model, tokenizer, texts, codes, on_long="skip", **options)):
        if found is not None and len(found.ids):
            n = len(found.ids)
            yield Tokens(found.states[0], np.full(n, ids[row["id"]]), np.full(n, langs[row["lang"]]), found.ids)


def _draw(sentences: Sequence[Tokens], each: int, rng: np.random.Generator) -> tuple[Tokens, np.ndarray]:
    """(the drawn tokens, their numbers); a short sentence gives all it has."""
    if not sentences:
        raise ValueError("no query sentence has tokens, or all are too long for the model")
    drawn, numbers, before = [], [], 0
    for tokens in sentences:
        n = len(tokens.token)
        at = np.sort(rng.choice(n, min(each, n), replace=False))
        drawn.append(Tokens(*(part[at] for part in tokens)))
        numbers.append(at + before)
        before += n
    return _join(drawn), np.concatenate(numbers)


def _join(parts: Sequence[Tokens]) -> Tokens:
    return Tokens(*(np.concatenate(column) for column in zip(*parts)))


def _chunks(sentences: Iterable[Tokens], size: int) -> Iterator[Tokens]:
    held: list[Tokens] = []
    for tokens in sentences:
        held.append(tokens)
        if sum(len(part.token) for part in held) >= size:
            yield _join(held)
            held = []
    if held:
        yield _join(held)


def _checked(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    checked, seen = [], set()
    for number, row in enumerate(rows, 1):
        missing = [name for name in ("id", "lang", "text") if row.get(name) is None]
        if missing:
            raise ValueError(f"row {number}: no {', '.join(missing)}; the columns are {', '.join(row)}")
        if (row["id"], row["lang"]) in seen:
            raise ValueError(f"row {number}: a second text for id {row['id']!r} in {row['lang']}")
        seen.add((row["id"], row["lang"]))
        checked.append(row)
    return checked
