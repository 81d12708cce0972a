"""Character n-grams of tokens against a loop over spelt-out words."""

from __future__ import annotations

from collections import Counter

import pytest

from hf_echo.vocabulary import train_tokenizer
from hf_echo.vocabulary.ngrams import token_ngrams

WORDS = ["Trump", "trumps", "Трамп", "trumpet", "кот", "коты", "猫", "大猫", "été", "12", "no"]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer([f"{word} x{word}" for word in WORDS] * 20, 420, max_length=64, progress=False)


@pytest.fixture(scope="module")
def ngrams(tokenizer):
    return token_ngrams(tokenizer)


def ids_of(tokenizer, *words):
    found = [tokenizer.encode(word, add_special_tokens=False) for word in words]
    assert all(len(ids) == 1 for ids in found), found
    return [ids[0] for ids in found]


def test_against_a_loop(tokenizer, ngrams):
    """Latin tokens: all pieces of 3 to 5 letters of the lower-case word with its mark that another token has too."""
    special, spelt = set(tokenizer.all_special_ids), {}
    for i, name in enumerate(tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))):
        if i not in special and name.isascii() or name[0] == "Ġ" and name[1:].isascii():
            spelt[i] = name.replace("Ġ", "_").lower()
    assert sum("trump" in word for word in spelt.values()) >= 4
    pieces = {
        i: {word[a:b] for a in range(len(word)) for b in range(a + 3, min(a + 5, len(word)) + 1)}
        for i, word in spelt.items()
    }
    by_number: dict[int, Counter] = {}
    for i, found in pieces.items():
        for number in ngrams[i]:
            by_number.setdefault(number, Counter()).update(found)
    shared = Counter(piece for found in pieces.values() for piece in found)
    for i, found in pieces.items():
        assert len(ngrams[i]) >= sum(shared[piece] > 1 for piece in found)  # a piece may also meet Cyrillic
        assert len(ngrams[i]) <= len(found)
    for j in pieces:
        for i in pieces:  # two tokens have as many numbers in common as pieces
            if i != j:
                assert len(set(ngrams[i]) & set(ngrams[j])) == len(pieces[i] & pieces[j]), (
                    spelt[i],
                    spelt[j],
                )


def test_names_meet_across_scripts(tokenizer, ngrams):
    latin, other, cat = ids_of(tokenizer, "Trump", "Трамп", "кот")
    assert not set(ngrams[latin]) & set(ngrams[cat])
    assert not set(ngrams[other]) & set(ngrams[cat])
    # anyascii: Трамп -> tramp; of "_tramp" and "_trump" only "_tr" is the same
    assert len(set(ngrams[latin]) & set(ngrams[other])) == 1


def test_single_characters_of_other_scripts(tokenizer, ngrams):
    cat, big_cat = ids_of(tokenizer, "猫", "大猫")
    assert set(ngrams[cat]) & set(ngrams[big_cat])


def test_tokens_without(tokenizer, ngrams):
    assert len(ngrams) == len(tokenizer)
    assert all(not ngrams[i] for i in tokenizer.all_special_ids)
    half = [i for i in range(5, len(tokenizer)) if "\ufffd" in tokenizer.decode([i])]
    assert len(half) > 100 and all(not ngrams[i] for i in half)  # bytes
    counts = Counter(number for row in ngrams for number in row)
    assert set(counts) == set(range(len(counts))) and min(counts.values()) > 1  # numbered without gaps
    assert all(row == sorted(set(row)) for row in ngrams)
