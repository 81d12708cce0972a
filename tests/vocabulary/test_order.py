"""Other numbers for the same tokens: texts are cut as before, and one language has the first ids."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hf_echo.modeling import EchoTokenizer
from hf_echo.vocabulary import order, train_tokenizer
from hf_echo.vocabulary.extend import byte_characters

ROLES = ("cls", "sep", "bos", "eos", "pad")
STRANGE = [
    "",
    "  a  b ",
    "<SEP> in a text</s>",
    "zebra ∑ éèê 猫 👩‍👩‍👧",
    "e\u0301t\u00e9",
    "Кот!\nспит\t12345",
]


@pytest.fixture(scope="module")
def english(toy):
    return [toy.say(m, "eng_Latn") for m in toy.split("train")]


@pytest.fixture(scope="module")
def moved(toy_tokenizer, english):
    return order.used_first(toy_tokenizer, iter(english), "eng_Latn")


def test_texts_are_cut_as_before(toy, toy_tokenizer, moved, english):
    rng = np.random.default_rng(0)
    noise = ["".join(map(chr, rng.integers(32, 0x3000, size=20))) for _ in range(50)]
    texts = [*english, *(row["text"] for row in toy.nway_rows()), *STRANGE, *noise]
    tokenizer, _ = moved
    place = {toy_tokenizer.get_vocab()[token]: i for token, i in tokenizer.get_vocab().items()}
    assert sorted(place) == sorted(place.values()) == list(range(len(toy_tokenizer)))
    for lang in (None, "rus_Cyrl"):
        have, want = (t(texts, lang=lang)["input_ids"] for t in (tokenizer, toy_tokenizer))
        assert have == [[place[i] for i in ids] for ids in want] and have != want
        assert tokenizer.batch_decode(have) == toy_tokenizer.batch_decode(want)
    assert tokenizer.text_ids(texts) == [[place[i] for i in ids] for ids in toy_tokenizer.text_ids(texts)]
    assert tokenizer.model_max_length == toy_tokenizer.model_max_length


def test_english_and_its_prompts_come_first(toy, toy_tokenizer, moved, english):
    tokenizer, used = moved
    assert 261 < used < len(tokenizer)
    assert max(i for ids in tokenizer.text_ids(english) for i in ids) < used
    for provenance in (
        "primary",
        "dictionary",
        "forward_translation",
        "mined",
        "back_translation",
        "code",
        "math",
    ):
        assert max(tokenizer.decoder_prompt_ids("eng_Latn", provenance)) < used
    russian = [toy.say(m, "rus_Cyrl") for m in toy.MEANINGS]
    assert max(i for ids in tokenizer.text_ids(russian) for i in ids) >= used
    # No more than that: each of the first ids is special, a byte, of a prompt, or of a text, and these by frequency.
    counts = np.bincount([i for ids in tokenizer.text_ids(english) for i in ids], minlength=len(tokenizer))
    prompts = {i for p in order.PROVENANCES for i in tokenizer.decoder_prompt_ids("eng_Latn", p)}
    rest = [i for i in range(261, used) if i not in prompts]
    assert (counts[rest] > 0).all() and (np.diff(counts[rest]) <= 0).all()
    assert not counts[used:].any()


def test_special_ids_and_bytes_stay(toy_tokenizer, moved):
    tokenizer, _ = moved
    for role in ROLES:
        assert getattr(tokenizer, f"{role}_token_id") == getattr(toy_tokenizer, f"{role}_token_id")
    names = toy_tokenizer.convert_ids_to_tokens(list(range(261)))
    assert tokenizer.convert_ids_to_tokens(list(range(261))) == names


def test_reserved_tokens(toy, english):
    """They lie before the bytes, all of which stay where they are: a decoder can write any text."""
    old = train_tokenizer(english, 320, n_reserved=9, max_length=64, progress=False)
    tokenizer, used = order.used_first(old, english[:3], "eng_Latn")
    places = [tokenizer.convert_tokens_to_ids(c) for c in byte_characters().values()]
    assert sorted(places) == list(range(14, 270)) and used > 270
    assert tokenizer.convert_ids_to_tokens(5) == "<reserved_0>"


def test_saved_and_opened(moved, english, tmp_path):
    tokenizer, _ = moved
    tokenizer.save_pretrained(tmp_path)
    again = EchoTokenizer.from_pretrained(tmp_path)
    assert again(english + STRANGE, lang="eng_Latn") == tokenizer(english + STRANGE, lang="eng_Latn")
    vocab = json.loads((tmp_path / "tokenizer.json").read_text())["model"]["vocab"]
    assert list(vocab.values()) == sorted(vocab.values())


def test_in_batches(toy_tokenizer, moved, english, monkeypatch):
    monkeypatch.setattr(order, "BATCH", 7)
    tokenizer, used = order.used_first(toy_tokenizer, iter(english), "eng_Latn")
    assert used == moved[1] and tokenizer.get_vocab() == moved[0].get_vocab()
