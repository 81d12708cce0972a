"""Nearest neighbours of tokens by the sentence that they come from (MEXMA 5.5, Table 9).

Contract: sentences in many languages in, shares of four kinds of neighbours out, by the neighbour's sentence: the same
sentence; another sentence of the same language; a translation (same id, another language); other. The paper calls the
second kind "the same token" and the third "its equivalent", and groups "based on the sentence they belong to"; the
data only tells the sentence. `same_token` is the share of the second kind with the same vocabulary id.

The pool is read in chunks: memory holds the states of one chunk, for any number of languages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ...search.neighbours import Neighbours, nearest_neighbours
from ...utils.results import Result
from .token_states import token_states


class Tokens(NamedTuple):
    """`states` (n, d); integers (n,) per token: id of its sentence, language, vocabulary id."""

    states: np.ndarray
    sentence: np.ndarray
    lang: np.ndarray
    token: np.ndarray


@dataclass(frozen=True)
class TokenNeighbourResult(Result):
    """Percent of all neighbours; the first four sum to 100. `same_token`: neighbours of the kind `same_language` with
    the query's vocabulary id."""

    same_language: float
    same_sentence: float
    translation: float
    other: float
    same_token: float
    queries: int
    pool: int
    k: int


def neighbour_shares(queries: Tokens, own: np.ndarray, chunks: Iterable[Tokens], *, k: int = 5) -> TokenNeighbourResult:
    """Shares of the kinds of the k nearest neighbours (by cosine) of query tokens in a pool read in chunks.

    Args:
        own: (queries,) index of each query in the pool; it is not its own neighbour.
        chunks: the pool, in order; of equal cosines the first in the pool wins.

    Raises:
        ValueError: no queries, k or fewer tokens in the pool.
    """
    n = len(queries.states)
    if not n or len(own) != n:
        raise ValueError(f"{n} queries and {len(own)} indices: give at least one, and equally many")
    best, facts, pool = Neighbours.none_yet(n, k + 1), [], 0
    for chunk in chunks:
        best = best.merged(nearest_neighbours(queries.states, chunk.states, min(k + 1, len(chunk.states))), pool)
        facts.append(np.stack([chunk.sentence, chunk.lang, chunk.token], 1))
        pool += len(chunk.states)
    if pool <= k:
        raise ValueError(
            f"a pool of {pool} tokens has fewer than {k} neighbours besides the query: give more text or a smaller k"
        )
    # Move the query itself to the end. If more than k tokens equal it, it may not be among those kept.
    own_last = np.argsort(best.indices == own[:, None], axis=1, kind="stable")[:, :k]
    place = np.take_along_axis(best.indices, own_last, 1)
    return _shares(queries, np.concatenate(facts)[place], pool, k)


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
    shares = [100 * float(kind.mean()) for kind in kinds]
    return TokenNeighbourResult(*shares, queries=len(facts), pool=pool, k=k)


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
    """Kinds of nearest neighbours of random tokens of one language among all tokens (MEXMA 5.5; its defaults).

    The queries are `tokens_each` random tokens of each of the first `query_sentences` sentences in `query_lang`.

    Args:
        rows: dicts with `id` (the same for translations), `lang`, `text`; texts longer than the model's limit are
            left out.
        chunk_tokens: tokens of the pool in memory at a time.

    Raises:
        ValueError: a row without these columns, a second row for one id and language, fewer than two languages, no
            sentence in `query_lang`.
    """
    rows = _checked(rows)
    if len({row["lang"] for row in rows}) < 2:
        raise ValueError(f"all {len(rows)} sentences are in one language: give translations too")
    asked = [row for row in rows if row["lang"] == query_lang][:query_sentences]
    if not asked:
        raise ValueError(f"no sentence in {query_lang}; found {', '.join(sorted({r['lang'] for r in rows}))}")
    langs = {lang: i for i, lang in enumerate(dict.fromkeys(row["lang"] for row in rows))}
    ids = {key: i for i, key in enumerate(dict.fromkeys(row["id"] for row in rows))}
    # The query sentences come first in the pool, so that the index of a drawn token is known.
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
    for row, token in zip(rows, token_states(model, tokenizer, texts, codes, on_long="skip", **options)):
        if token is not None and len(token.ids):
            n = len(token.ids)
            yield Tokens(token.states[0], np.full(n, ids[row["id"]]), np.full(n, langs[row["lang"]]), token.ids)


def _draw(sentences: Sequence[Tokens], each: int, rng: np.random.Generator) -> tuple[Tokens, np.ndarray]:
    """(drawn tokens, their indices in the pool); a sentence with fewer than `each` tokens gives all."""
    if not sentences:
        raise ValueError("no query sentence has tokens, or all are longer than the model's limit")
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
