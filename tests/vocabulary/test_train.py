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


def made_words(seed: int) -> dict[str, int]:
    r = random.Random(seed)
    syllables = ["ka", "to", "ri", "ह", "िन", "ོད་", "s", "é"]
    words = (" " + "".join(r.choices(syllables, k=r.randint(1, 5))) for _ in range(120))
    return {word: r.randint(1, 40) for word in words}


def merges_of(tokenizer: Tokenizer) -> list[tuple[str, str]]:
    return [tuple(merge) for merge in json.loads(tokenizer.to_str())["model"]["merges"]]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("pattern", ["llama3", "echo"])
def test_merges_are_those_of_the_rust_trainer(seed, pattern):
    counts = made_words(seed)
    rust = Tokenizer(models.BPE())
    rust.pre_tokenizer = pre_tokenizer(pattern)
    options = dict(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    trainer = trainers.BpeTrainer(vocab_size=256 + 60, min_frequency=2, **options)
    rust.train_from_iterator((word for word, count in counts.items() for _ in range(count)), trainer)
    ours = train_from_counts(counts, 5 + 256 + 60, pattern=pattern, progress=False)
    assert merges_of(ours.backend_tokenizer) == merges_of(rust)
    assert ours.convert_ids_to_tokens(range(321)) == [*SPECIAL, *map(rust.id_to_token, range(316))]


@pytest.mark.parametrize(("size", "n_reserved"), [(263, 0), (320, 0), (320, 16), (300, 3)])
def test_fixed_places(size, n_reserved, tmp_path):
    tokenizer = train_from_counts(made_words(0), size, n_reserved=n_reserved, max_length=77, progress=False)
    reserved = [f"<reserved_{i}>" for i in range(n_reserved)]
    tokenizer.save_pretrained(tmp_path)
    for each in (tokenizer, EchoTokenizer.from_pretrained(tmp_path)):
        assert len(each) == size == max(each.get_vocab().values()) + 1
        assert each.convert_ids_to_tokens(range(5 + n_reserved)) == SPECIAL + reserved
        assert [getattr(each, f"{name}_token_id") for name in ("cls", "bos", "sep", "eos", "pad")] == [*range(5)]
        assert each.convert_ids_to_tokens([5 + n_reserved, 5 + n_reserved + 255]) == ["!", "Ń"]
        assert each.model_max_length == 77
        for text in [*TEXTS, "<reserved_0><SEP> </s>", "\U0010ffff\x00é🐈"]:  # spelt in a text, they are text
            ids = each.encode(text, add_special_tokens=False)
            assert each.decode(ids) == text and min(ids) >= 5 + n_reserved


def test_texts_and_their_counts_give_the_same():
    counts = Counter(word for text in TEXTS * 3 for word in split_words(text))
    by_texts = train_tokenizer(iter(TEXTS * 3), 300, max_length=64, progress=False)
    by_counts = train_from_counts(counts, 300, max_length=64, progress=False)
    assert by_texts.backend_tokenizer.to_str() == by_counts.backend_tokenizer.to_str()
    llama3 = train_tokenizer(TEXTS * 3, 300, pattern="llama3", progress=False)
    patterns = [json.loads(each.backend_tokenizer.pre_tokenizer.__getstate__()) for each in (by_texts, llama3)]
    patterns = [each["pretokenizers"][0]["pattern"]["Regex"] for each in patterns]
    assert patterns == [ECHO_PATTERN, LLAMA3_PATTERN]


def test_little_text_gives_a_small_vocabulary_and_a_warning(caplog):
    tokenizer = train_tokenizer(["a b ab ab"], 400, progress=False)
    assert len(tokenizer) == 263  # "ab" and " ab"
    assert "the texts allow a vocabulary of 263, not 400" in caplog.text
    with pytest.raises(ValueError, match="texts is one string, 'texts.txt'"):
        train_tokenizer("texts.txt", 400)


test_bad_input = refusals(
    ({" ab": 2}, 400, {}, "the counts allow a vocabulary of 263, not 400: ask for 263 or count more text"),
    ({" ab": 2}, 277, {"n_reserved": 16}, r"must be above 277 \(256 bytes, 5 special and 16 reserved"),
    ({" ab": 2}, 300, {"n_reserved": -1}, "n_reserved must be 0 or more, not -1"),
    call=lambda counts, size, options: train_from_counts(counts, size, progress=False, **options),
)
