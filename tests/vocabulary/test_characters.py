"""A vocabulary of whole characters: tokens that stay, tokens that are learned again, tokenized texts."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from hf_echo.modeling import EchoTokenizer
from hf_echo.vocabulary import split_words, train_tokenizer
from hf_echo.vocabulary.characters import in_blocks, whole_characters

LATIN = [
    "the cat sat on the mat in 2019",
    "these cats are not the other ones",
    "l'été à la forêt, où ?",
    "Việt Nam",
]
HEBREW = ["שלום לכולם מירושלים", "ירושלים היא עיר שלום", "הם שלמו על הלחם"]
CHINESE = ["你好世界，你好北京", "世界很大，北京也很大"]
OTHERS = [*HEBREW, *CHINESE]
SIZE = 335


def counted(texts: list[str]) -> Counter[str]:
    return Counter(word for text in texts for word in split_words(text) for _ in range(3))


@pytest.fixture(scope="module")
def old() -> EchoTokenizer:
    return train_tokenizer([*LATIN, *OTHERS * 3] * 5, 330, progress=False)


@pytest.fixture(scope="module")
def new(old) -> EchoTokenizer:
    return whole_characters(old, counted(OTHERS), SIZE, progress=False)


def pieces(tokenizer, text: str) -> list[str]:
    return [tokenizer.decode([i]) for i in tokenizer(text, add_special_tokens=False).input_ids]


def test_half_a_letter_goes_with_the_space_only_in_the_old_vocabulary(old, new):
    half = "\u0120\u00d7"  # a space and the first byte of all Hebrew letters
    assert half in old.get_vocab() and half not in new.get_vocab()


@pytest.mark.parametrize("text", OTHERS)
def test_tokens_are_whole_characters(new, text):
    assert not any("\ufffd" in piece for piece in pieces(new, text))
    assert new.decode(new(text, add_special_tokens=False).input_ids) == text


@pytest.mark.parametrize("text", LATIN)
def test_latin_text_is_cut_as_before(old, new, text):
    assert pieces(new, text) == pieces(old, text)


def test_what_stays_is_in_its_old_order(old, new):
    names = old.convert_ids_to_tokens(range(len(old)))
    latin = [name for name in names if name.lstrip("\u0120").isascii()]
    places = [new.get_vocab()[name] for name in latin]
    assert places == sorted(places) and len(latin) > 90  # ASCII has 95 signs
    assert len(new) == SIZE


def test_kept_ids_stay_whatever_they_spell(old):
    keep = 300  # some beyond the 256 bytes and 5 special tokens, in Hebrew too
    new = whole_characters(old, counted(OTHERS), 345, keep=keep, progress=False)
    ids = list(range(keep))
    assert new.convert_ids_to_tokens(ids) == old.convert_ids_to_tokens(ids)


def test_rare_characters_stay_bytes_and_unknown_ones_come_back(old):
    counts = counted(OTHERS) + Counter(split_words("龘"))  # once, the others three times or more
    new = whole_characters(old, counts, 335, min_count=3, progress=False)
    assert all("\ufffd" in piece for piece in pieces(new, "龘") if piece.strip())
    for text in ("龘", "Ω и ქ", "🙂 ok"):
        ids = new(text, add_special_tokens=False).input_ids
        assert new.decode(ids).strip() == text


def test_every_character_of_the_counts_is_a_token(new):
    want = {c for text in OTHERS for c in text if in_blocks(c)}
    have = {new.decode([i]).strip() for i in range(len(new))}
    assert want <= have


def test_digits_of_all_scripts_are_the_same_numbers(new):
    want = new("in 2019, 45").input_ids
    for text in ("in ٢٠١٩, ٤٥", "in ২০১৯, ৪৫", "in २०१९, ४५", "in ２０１９, ４５"):
        assert new(text).input_ids == want
    assert new.decode(new("٢٠١٩", add_special_tokens=False).input_ids) == "2019"


def test_ids_of_many_texts_are_those_of_the_call(new):
    """Texts without such digits are read without the rules for them, in one batch with texts that have some."""
    texts = [
        "in ٢٠١٩, ٤٥",
        "in 2019, 45",
        *OTHERS,
        "২০১৯",
        "  ",
        *LATIN,
        "a９b",
        "½ ² ⅷ 三 𝟗",
        "<SEP> १",
        "क\u093c",
    ]
    before = new.backend_tokenizer.normalizer.__getstate__()
    names = [None] * len(texts)
    have = new.pair_ids(*new.with_prompts(texts, names))
    assert have == [new(text).input_ids for text in texts]
    assert have[0] == have[1]
    assert new.backend_tokenizer.normalizer.__getstate__() == before
    with pytest.raises(TypeError):
        new.text_ids(["a", "٢", 3])
    assert new.backend_tokenizer.normalizer.__getstate__() == before


def test_saved_and_opened_again(new, tmp_path):
    new.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert isinstance(again, EchoTokenizer)
    for text in [*LATIN, *OTHERS]:
        assert again(text, lang="heb_Hebr").input_ids == new(text, lang="heb_Hebr").input_ids


def test_the_merges_are_those_that_continued_training_finds(old, new):
    """After the characters, the most frequent pair of neighbours is the first merge."""
    merges = [tuple(m) for m in json.loads(new.backend_tokenizer.to_str())["model"]["merges"]]
    vocabulary = list(new.get_vocab())
    signs = {
        c: "".join(p for p, _ in new.backend_tokenizer.pre_tokenizer.pre_tokenize_str(c)) for t in OTHERS for c in t
    }
    words = [[signs[c] for c in word] for text in OTHERS for word in split_words(text)]
    pairs = Counter(pair for word in words for pair in zip(word, word[1:]))
    first = [m for m in merges if m in pairs][0]
    assert pairs[first] == max(pairs.values()) and "".join(first) in vocabulary


def test_no_room(old):
    with pytest.raises(ValueError, match=r"vocab_size must be above \d+ .*characters.*not 270"):
        whole_characters(old, counted(OTHERS), 270, progress=False)


def test_too_little_text(old):
    with pytest.raises(ValueError, match=r"the counts allow 3\d\d tokens, not 1,000"):
        whole_characters(old, counted(OTHERS), 1000, progress=False)


def test_only_byte_level():
    from tokenizers import models

    plain = EchoTokenizer.from_backend(Tokenizer(models.BPE(vocab={"a": 0, "<s>": 1, "</s>": 2}, merges=[])))
    with pytest.raises(ValueError, match="byte-level"):
        whole_characters(plain, {"a": 1}, 10)
