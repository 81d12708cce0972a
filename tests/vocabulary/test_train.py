"""Tokenizers from scratch: the Rust trainer's own merges, fixed places, what cannot be."""

import json
import random
from collections import Counter

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from hf_echo.modeling import EchoTokenizer
from hf_echo.vocabulary import split_words, train_from_counts, train_tokenizer
from hf_echo.vocabulary.pretokenizer import ECHO_PATTERN, LLAMA3_PATTERN, pre_tokenizer

from ..refusals import refusals

TEXTS = ["the cat sat on the mat", "हिन्दी में लिखी किताब", "བོད་ཡིག་ནི།", "it's 2024, isn't it?"]
SPECIAL = ["<CLS>", "<s>", "<SEP>", "</s>", "<pad>"]


def word_counts(seed: int) -> dict[str, int]:
    """Words of a few syllables of several scripts."""
    rng = random.Random(seed)
    syllables = ["ka", "to", "ri", "ह", "िन", "ོད་", "s", "é"]
    words = [" " + "".join(rng.choices(syllables, k=rng.randint(1, 5))) for _ in range(120)]
    return {word: rng.randint(1, 40) for word in words}


def merges_of(tokenizer: Tokenizer) -> list[tuple[str, str]]:
    return [tuple(merge) for merge in json.loads(tokenizer.to_str())["model"]["merges"]]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("pattern", ["llama3", "echo"])
def test_merges_are_those_of_the_rust_trainer(seed, pattern):
    counts = word_counts(seed)
    rust = Tokenizer(models.BPE())
    rust.pre_tokenizer = pre_tokenizer(pattern)
    options = dict(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    trainer = trainers.BpeTrainer(vocab_size=256 + 60, min_frequency=2, **options)
    rust.train_from_iterator(
        (word for word, count in counts.items() for _ in range(count)), trainer
    )
    ours = train_from_counts(counts, 5 + 256 + 60, pattern=pattern, progress=False)
    assert merges_of(ours.backend_tokenizer) == merges_of(rust)
    assert ours.convert_ids_to_tokens(range(321)) == [*SPECIAL, *map(rust.id_to_token, range(316))]


@pytest.fixture(scope="module", params=[(263, 0), (320, 0), (320, 16), (300, 3)], ids=str)
def sized(request, tmp_path_factory):
    """(size, reserved tokens, a tokenizer of that size as trained, the same as saved)."""
    size, reserved = request.param
    tokenizer = train_from_counts(
        word_counts(0), size, n_reserved=reserved, max_length=77, progress=False
    )
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save_pretrained(folder)
    return size, reserved, tokenizer, EchoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("saved", [False, True])
def test_a_tokenizer_has_the_size_that_was_asked_for(sized, saved):
    size, _, *tokenizers = sized
    tokenizer = tokenizers[saved]

    assert len(tokenizer) == size
    assert max(tokenizer.get_vocab().values()) == size - 1
    assert tokenizer.model_max_length == 77


@pytest.mark.parametrize("saved", [False, True])
def test_reserved_tokens_follow_the_special_ones(sized, saved):
    _, reserved, *tokenizers = sized

    first_tokens = tokenizers[saved].convert_ids_to_tokens(range(5 + reserved))

    assert first_tokens == SPECIAL + [f"<reserved_{i}>" for i in range(reserved)]


@pytest.mark.parametrize("saved", [False, True])
def test_the_bytes_follow_the_reserved_tokens(sized, saved):
    _, reserved, *tokenizers = sized
    first_byte = 5 + reserved

    tokens = tokenizers[saved].convert_ids_to_tokens([first_byte, first_byte + 255])

    assert tokens == ["!", "Ń"]


@pytest.mark.parametrize("saved", [False, True])
def test_roles_have_the_first_ids(sized, saved):
    _, _, *tokenizers = sized
    tokenizer = tokenizers[saved]
    roles = ("cls", "bos", "sep", "eos", "pad")

    assert [getattr(tokenizer, f"{role}_token_id") for role in roles] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("text", [*TEXTS, "<reserved_0><SEP> </s>", "\U0010ffff\x00é🐈"])
def test_every_text_comes_back(sized, saved, text):
    """Special tokens that are spelt in a text are text."""
    _, reserved, *tokenizers = sized
    ids = tokenizers[saved].encode(text, add_special_tokens=False)
    assert tokenizers[saved].decode(ids) == text
    assert min(ids) >= 5 + reserved


def test_texts_give_what_their_counts_give():
    counts = Counter(word for text in TEXTS * 3 for word in split_words(text))
    by_texts = train_tokenizer(iter(TEXTS * 3), 300, max_length=64, progress=False)
    by_counts = train_from_counts(counts, 300, max_length=64, progress=False)
    assert by_texts.backend_tokenizer.to_str() == by_counts.backend_tokenizer.to_str()


@pytest.mark.parametrize("pattern, regex", [("echo", ECHO_PATTERN), ("llama3", LLAMA3_PATTERN)])
def test_the_pattern_of_words(pattern, regex):
    tokenizer = train_tokenizer(TEXTS * 3, 300, pattern=pattern, progress=False)
    steps = json.loads(tokenizer.backend_tokenizer.pre_tokenizer.__getstate__())["pretokenizers"]
    assert steps[0]["pattern"]["Regex"] == regex


def test_little_text_gives_a_small_vocabulary_with_a_warning(caplog):
    tokenizer = train_tokenizer(["a b ab ab"], 400, progress=False)
    assert len(tokenizer) == 263  # "ab" and " ab"
    assert "the texts allow a vocabulary of 263, not 400" in caplog.text


test_bad_input = refusals(
    (
        {" ab": 2},
        400,
        {},
        "the counts allow a vocabulary of 263, not 400: ask for 263 or count more text",
    ),
    (
        {" ab": 2},
        277,
        {"n_reserved": 16},
        r"must be above 277 \(256 bytes, 5 special and 16 reserved",
    ),
    call=lambda counts, size, options: train_from_counts(counts, size, progress=False, **options),
)
