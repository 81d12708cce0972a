"""Nearest neighbours of tokens by the sentence that they come from (MEXMA 5.5, Table 9).

    python train_scripts/studies/token_neighbours.py MODEL NWAY.parquet

The four kinds, by the neighbour's sentence: the same sentence; another sentence of the same
language; a translation (same id, another language); other. The paper calls the second kind "the
same token" and the third "its equivalent", and groups "based on the sentence they belong to"; the
data only tells the sentence.
"""

import json
import sys
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from hf_echo.data import load_nway
from hf_echo.evaluation.nway_texts import texts_by_language
from hf_echo.evaluation.tokens.token_states import token_states
from hf_echo.inference import load_encoder
from hf_echo.languages import ENGLISH
from hf_echo.search import nearest_neighbours

KINDS = ("same_language", "same_sentence", "translation", "other", "same_token")


def token_neighbours(
    model: Any,
    tokenizer: Any,
    rows: Iterable[Mapping[str, Any]],
    *,
    query_sentences: int = 250,
    tokens_each: int = 3,
    k: int = 5,
    seed: int = 0,
) -> dict[str, float]:
    """Kinds of nearest neighbours (by cosine) of random English tokens among all tokens, last
    layer.

    The queries are `tokens_each` random tokens of each of the first `query_sentences` English
    sentences. The states of all tokens are in memory. Texts longer than the model's limit are left
    out.

    Returns:
        Percent of all neighbours by `KINDS`; the first four sum to 100, and `same_token` are those
        of `same_language` with the query's vocabulary id. Numbers of queries and of tokens (pool).

    Raises:
        ValueError: a second row for one id and language, no English sentence or none in another
            language, k tokens or fewer.
    """
    texts = texts_by_language(rows)
    if ENGLISH not in texts or len(texts) < 2:
        raise ValueError(
            f"give sentences in {ENGLISH!r} and in another language; found {', '.join(texts)}"
        )
    keys: list[Hashable] = []
    langs: list[str] = []
    sentences: list[str] = []
    for lang, of_language in texts.items():
        keys += of_language
        langs += [lang] * len(of_language)
        sentences += of_language.values()
    key_numbers, _ = pd.factorize(pd.Series(keys))
    lang_numbers, _ = pd.factorize(pd.Series(langs))
    query_keys = list(texts[ENGLISH])[:query_sentences]
    rng = np.random.default_rng(seed)
    states = []  # (tokens, d) of each sentence
    facts = []  # (tokens, 3): numbers of id, language and token
    queries = []  # rows of the queries among all tokens
    pool = 0
    all_states = token_states(model, tokenizer, sentences, langs, layers=[-1], on_long="skip")
    for place, of_sentence in enumerate(all_states):
        count = 0 if of_sentence is None else len(of_sentence.ids)
        if not count:
            continue
        states.append(of_sentence.states[0])
        key_column = np.full(count, key_numbers[place])
        lang_column = np.full(count, lang_numbers[place])
        facts.append(np.stack([key_column, lang_column, of_sentence.ids], axis=1))
        if langs[place] == ENGLISH and keys[place] in query_keys:
            drawn = rng.choice(count, min(tokens_each, count), replace=False)
            queries.extend(pool + np.sort(drawn))
        pool += count
    if not queries or pool <= k:
        raise ValueError(
            f"{pool} tokens, of which {len(queries)} queries: give more text or a smaller k than {k}"
        )
    shares = neighbour_shares(np.concatenate(states), np.concatenate(facts), np.array(queries), k)
    return shares | {"queries": len(queries), "pool": pool}


def neighbour_shares(
    states: np.ndarray, facts: np.ndarray, queries: np.ndarray, k: int
) -> dict[str, float]:
    """Shares of the kinds of the k nearest tokens of some tokens; of equal cosines the first wins.

    Args:
        states: (n, d). facts: (n, 3) integers: id of the sentence, language, vocabulary id.
        queries: (queries,) rows of the queries; none is its own neighbour.
    """
    indices = nearest_neighbours(states[queries], states, min(k + 1, len(states))).indices
    # Move the query itself to the end. If more than k tokens equal it, it may not be among those
    # found.
    query_last = np.argsort(indices == queries[:, None], axis=1, kind="stable")[:, :k]
    neighbours = np.take_along_axis(indices, query_last, axis=1)  # (queries, k)
    same = facts[neighbours] == facts[queries][:, None]  # (queries, k, 3)
    sentence, lang, token = np.moveaxis(same, 2, 0)
    kinds = (
        lang & ~sentence,
        lang & sentence,
        sentence & ~lang,
        ~lang & ~sentence,
        lang & ~sentence & token,
    )
    return {name: 100 * float(kind.mean()) for name, kind in zip(KINDS, kinds, strict=True)}


if __name__ == "__main__":
    print(
        json.dumps(
            token_neighbours(*load_encoder(sys.argv[1]), load_nway(sys.argv[2], split=None)),
            indent=2,
        )
    )
