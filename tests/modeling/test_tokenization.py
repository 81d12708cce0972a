"""EchoTokenizer and the prompts: the layout of OS Table 40, languages, long,
empty and awkward texts."""

import logging
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from hf_echo.modeling import EchoTokenizer
from hf_echo.modeling.prompting_echo import (
    decoder_prompt,
    encoder_prompt,
    language_name,
    split_prompt,
)
from hf_echo.modeling.sentence_transformer_echo import sentence_transformer_prompts

from .conftest import LANGUAGES, TEXTS

# What Unicode calls White_Space; Python's strip() also takes the four separators from U+001C to
# U+001F.
WHITE_SPACE = "".join(
    c for c in map(chr, range(0x3001)) if c.isspace() and not "\x1c" <= c <= "\x1f"
)


@pytest.fixture
def own(tokenizer, tmp_path) -> EchoTokenizer:
    """A copy whose options a test may change."""
    tokenizer.save_pretrained(tmp_path)
    return EchoTokenizer.from_pretrained(tmp_path)


def pieces(tokenizer, *args, **kwargs) -> list[str]:
    return tokenizer.convert_ids_to_tokens(tokenizer(*args, **kwargs).input_ids)


# Layout and prompts


def test_the_encoder_reads_the_layout_of_table_40(tokenizer):
    tokens = pieces(tokenizer, "Le chat", lang="fra_Latn")

    middle = tokens.index("<SEP>")
    assert tokens[:2] == ["<CLS>", "<s>"]
    assert tokenizer.convert_tokens_to_string(tokens[2:middle]) == "French:"
    assert tokenizer.convert_tokens_to_string(tokens[middle + 1 : -1]) == "Le chat"
    assert tokens[-1] == "</s>"


def test_the_encoder_layout_as_text(tokenizer):
    ids = tokenizer("Le chat", lang="fra_Latn").input_ids

    assert tokenizer.decode(ids) == "<CLS><s> French:<SEP> Le chat</s>"


def test_the_decoder_reads_the_layout_of_table_40(tokenizer):
    ids = tokenizer.decoder_prompt_ids("deu_Latn", "mined")

    assert tokenizer.decode(ids) == "<s> This is a possible mined translation in German:<SEP>"
    assert ids[0] == tokenizer.bos_token_id
    assert ids[-1] == tokenizer.sep_token_id


@pytest.mark.parametrize(
    ("prompt", "want"),
    [
        (decoder_prompt("fra_Latn"), "This is a possible translation in French:"),
        (decoder_prompt("fra_Latn", "primary"), "This is a possible translation in French:"),
        (decoder_prompt("fra_Latn", "mined"), "This is a possible mined translation in French:"),
        (
            decoder_prompt("fra_Latn", "back_translation"),
            "This is a possible back-translation in French:",
        ),
        (
            decoder_prompt("python", "code", "eng_Latn"),
            "This is a corresponding code snippet in Python:",
        ),
        (decoder_prompt("cpp", "code"), "This is a corresponding code snippet in C++:"),
        (decoder_prompt("latex", "math", "eng_Latn"), "This is a corresponding math formula:"),
        (
            decoder_prompt("eng_Latn", "code", "python"),
            "This is a possible natural language explanation in English:",
        ),
        (
            decoder_prompt("eng_Latn", "math", "latex"),
            "This is a possible natural language explanation in English:",
        ),
        (encoder_prompt("fra_Latn"), "French:"),
        (encoder_prompt("python"), "Python:"),
        (encoder_prompt(), "Unspecified language:"),
    ],
)
def test_prompts_are_table_40(prompt, want):
    assert prompt == want


def test_unknown_names_are_named_with_their_neighbours(tokenizer):
    with pytest.raises(ValueError, match="unknown language code 'fra_Ltn'.*fra_Latn"):
        language_name("fra_Ltn")
    with pytest.raises(ValueError, match="unknown language code 'french'"):
        tokenizer("Bonjour", lang="french")
    with pytest.raises(
        ValueError, match="unknown provenance 'stolen'; use one of primary, .*mined.*math"
    ):
        decoder_prompt("fra_Latn", "stolen")


# Languages


def test_one_language_for_all_or_one_each(tokenizer):
    each = tokenizer(TEXTS, lang=LANGUAGES).input_ids
    assert each == [
        tokenizer(text, lang=code).input_ids for text, code in zip(TEXTS, LANGUAGES, strict=True)
    ]
    assert (
        tokenizer(TEXTS, lang="fra_Latn").input_ids[1]
        == tokenizer(TEXTS[1], lang="fra_Latn").input_ids
    )
    some = tokenizer(TEXTS[:2], lang=["fra_Latn", None]).input_ids
    assert some == [tokenizer(TEXTS[0], lang="fra_Latn").input_ids, tokenizer(TEXTS[1]).input_ids]
    with pytest.raises(ValueError, match="5 texts but 2 languages"):
        tokenizer(TEXTS, lang=["fra_Latn", "deu_Latn"])


def test_prompt_in_front_of_the_text(tokenizer):
    french = tokenizer("Le chat", lang="fra_Latn").input_ids
    assert tokenizer("French:<SEP>Le chat").input_ids == french
    # sentence-transformers puts its default prompt before every text, also before one that has its
    # own.
    assert tokenizer("Unspecified language:<SEP>French:<SEP>Le chat").input_ids == french
    assert (
        tokenizer("Unspecified language:<SEP>Le chat").input_ids == tokenizer("Le chat").input_ids
    )
    assert split_prompt("Note: Le chat") == ("Unspecified language:", "Note: Le chat")
    assert split_prompt("no prompt<SEP>Le chat") == (
        "Unspecified language:",
        "no prompt<SEP>Le chat",
    )


# Texts


@pytest.mark.parametrize("spelling", ["<SEP>", "<CLS>", "<s>", "</s>", "<pad>"])
def test_special_tokens_cannot_be_spelt(tokenizer, spelling):
    text = f"{spelling} is {spelling}text"
    ids = tokenizer(text, lang="eng_Latn").input_ids
    prefix = tokenizer("", lang="eng_Latn").input_ids[:-1]
    body = ids[len(prefix) : -1]
    assert ids[: len(prefix)] == prefix
    assert not set(body) & set(tokenizer.all_special_ids)
    assert tokenizer.decode(body) == text
    assert not set(tokenizer.encode(text, add_special_tokens=False)) & set(
        tokenizer.all_special_ids
    )
    assert tokenizer(f"x {spelling}:<SEP>y").input_ids.count(tokenizer.sep_token_id) == 1


BLANKS = ["", " ", "\n\t ", "\u3000\u00a0"]


def test_white_space_is_the_empty_text(tokenizer):
    ids = tokenizer(BLANKS, lang="fra_Latn").input_ids
    assert len({tuple(row) for row in ids}) == 1
    assert tokenizer.decode(ids[0]) == "<CLS><s> French:<SEP></s>"


def test_white_space_around_a_text_is_no_token(tokenizer):
    ids = tokenizer([" Le chat\n", "Le chat"], lang="fra_Latn").input_ids
    assert ids[0] == ids[1]


@settings(max_examples=80, deadline=None)
@given(text=st.text(max_size=80))
def test_any_text_comes_back(tokenizer, text):
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids, skip_special_tokens=True) == text.strip(WHITE_SPACE)
    prompted = tokenizer(text, lang="kor_Hang").input_ids
    assert prompted[prompted.index(tokenizer.sep_token_id) + 1 : -1] == ids


# Long texts


def long_and_short(words: int = 60) -> list[str]:
    return ["chat noir " * words, "chat"]


@pytest.mark.parametrize(("length", "tokens"), [(40, 40), (None, 128)])
def test_long_texts_are_cut(own, length, tokens):
    """Without max_length the model's own length counts."""
    ids = own(long_and_short(), truncation=True, max_length=length).input_ids

    assert own.model_max_length == 128
    assert [len(row) for row in ids] == [tokens, len(own("chat").input_ids)]
    assert ids[0][-1] == own.eos_token_id
    assert ids[0].count(own.sep_token_id) == 1


@pytest.mark.parametrize(("length", "tokens"), [(40, 40), (None, 128)])
def test_texts_that_are_cut_cause_a_warning(own, caplog, length, tokens):
    with caplog.at_level(logging.WARNING):
        own(long_and_short(), truncation=True, max_length=length)

    assert f"1 of 2 texts are longer than {tokens} tokens and were cut" in caplog.text


def test_short_texts_cause_no_warning(own, caplog):
    own(["chat"], truncation=True, max_length=40)

    assert not caplog.text


def test_texts_stay_whole_without_truncation(own):
    assert len(own(long_and_short()).input_ids[0]) > own.model_max_length


def test_long_texts_can_be_refused(own):
    own.on_long = "error"
    with pytest.raises(
        ValueError, match="1 of 2 texts are longer than 40 tokens, the first is row 1; shorten them"
    ):
        own(long_and_short(), truncation=True, max_length=40)


def test_short_texts_are_not_refused(own):
    expected = own(["chat"]).input_ids

    own.on_long = "error"

    assert own(["chat"], truncation=True, max_length=40).input_ids == expected


def test_on_long_is_saved(own, tmp_path):
    own.on_long = "error"
    own.save_pretrained(tmp_path / "error")

    assert EchoTokenizer.from_pretrained(tmp_path / "error").on_long == "error"
    assert AutoTokenizer.from_pretrained(tmp_path / "error", on_long="split").on_long == "split"


def test_an_unknown_on_long_is_refused(own):
    with pytest.raises(ValueError, match="on_long must be one of warn, error, split, not 'cut'"):
        own.on_long = "cut"


@pytest.fixture
def split_texts(own):
    """(texts, their batch in parts of 40 tokens); the second text is long."""
    own.on_long = "split"
    texts = ["chat", *long_and_short(), "noir"]
    batch = own(
        texts, lang="fra_Latn", truncation=True, max_length=40, padding=True, return_tensors="pt"
    )
    return texts, batch


def test_the_parts_of_a_split_text_follow_one_another(split_texts):
    rows = split_texts[1]["overflow_to_sample_mapping"].tolist()

    assert rows == sorted(rows)
    assert set(rows) == {0, 1, 2, 3}
    assert rows.count(1) > 1


def test_the_parts_of_a_split_text_hold_each_token_once(own, split_texts):
    """Each with the prompt in front and the end of sentence behind."""
    texts, batch = split_texts
    prefix = own("", lang="fra_Latn").input_ids[:-1]
    body = []
    masks = batch["attention_mask"].bool()
    rows = batch["overflow_to_sample_mapping"]
    for ids, mask, row in zip(batch["input_ids"], masks, rows, strict=True):
        part = ids[mask].tolist()
        assert len(part) <= 40
        assert part[: len(prefix)] == prefix
        assert part[-1] == own.eos_token_id
        if row == 1:
            body += part[len(prefix) : -1]

    assert body == own(texts[1], lang="fra_Latn").input_ids[len(prefix) : -1]


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_the_vector_of_a_split_text_is_the_mean_of_its_parts(split_texts, make_model, pooling):
    """Weighted by their tokens."""
    _, batch = split_texts
    encoder = make_model(pooling=pooling).encoder
    is_part = batch["overflow_to_sample_mapping"] == 1
    with torch.no_grad():
        vectors = encoder(**batch).sentence_embedding
        parts = encoder(batch["input_ids"], batch["attention_mask"]).sentence_embedding[is_part]

    weight = batch["attention_mask"].sum(1, keepdim=True)[is_part].float()
    assert vectors.shape[0] == 4
    torch.testing.assert_close(vectors[1], (parts * weight).sum(0) / weight.sum())


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_short_texts_beside_a_split_one_keep_their_vectors(own, split_texts, make_model, pooling):
    encoder = make_model(pooling=pooling).encoder
    short = own(["chat", "noir"], lang="fra_Latn", padding=True, return_tensors="pt")
    with torch.no_grad():
        vectors = encoder(**split_texts[1]).sentence_embedding
        expected = encoder(**short).sentence_embedding

    torch.testing.assert_close(vectors[[0, 3]], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("on_long", ["warn", "error", "split"])
@pytest.mark.parametrize("length", [1, 4, 12])
def test_no_room_for_text(own, on_long, length):
    own.on_long = on_long
    with pytest.raises(
        ValueError, match=f"max_length {length} leaves no room for text: 'Unspecified language:'"
    ):
        own(["chat"], truncation=True, max_length=length)


# Saving


def test_a_saved_tokenizer_is_the_same(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    expected = tokenizer(TEXTS, lang=LANGUAGES).input_ids
    awkward = ["</s> <SEP>", "", "French:<SEP>chat"]
    for again in (EchoTokenizer.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)):
        assert isinstance(again, EchoTokenizer)
        assert again(TEXTS, lang=LANGUAGES).input_ids == expected
        assert again(awkward).input_ids == tokenizer(awkward).input_ids
        assert again.decoder_prompt_ids("fra_Latn") == tokenizer.decoder_prompt_ids("fra_Latn")
        assert again.model_max_length == 128
        assert again.on_long == "warn"


def test_pair_ids_are_those_of_the_call(tokenizer):
    """Any text: empty, only spaces, or with a spelled-out special token."""
    texts = ["Le chat", "", "  deux  ", "<SEP> a </s>", "Le chat", "日本"]
    langs = ["fra_Latn", "deu_Latn", "fra_Latn", None, "deu_Latn", "jpn_Jpan"]
    prompts, bodies = tokenizer.with_prompts(texts, langs)
    assert len(set(prompts)) == 4
    expected = [tokenizer(text, lang=lang).input_ids for text, lang in zip(texts, langs)]
    assert tokenizer.pair_ids(prompts, bodies) == expected
    assert tokenizer.pair_ids([], []) == []


def test_threads_share_a_tokenizer(own):
    """Padding, truncation, lists without either, and decoding at the same time."""
    texts = [f"{text} ٢٣ 42" for text in TEXTS] * 4
    prompts, bodies = own.with_prompts(texts, "fra_Latn")
    ids = own(texts[0]).input_ids
    # Calls that set the backend up in different ways.
    calls = [
        lambda: own.pair_ids(prompts, bodies),
        lambda: own(texts, padding=True).input_ids,
        lambda: own(texts, truncation=True, max_length=512).input_ids,
        lambda: own.decode(ids),
    ]
    expected = [call() for call in calls]
    # Threads change as often as possible.
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(len(calls)) as pool:
            for _ in range(50):
                assert [job.result() for job in [pool.submit(call) for call in calls]] == expected
    finally:
        sys.setswitchinterval(before)


# Other tokenizers


def test_a_stock_tokenizer_reads_the_same_prompts(tokenizer):
    """A prompt is plain text and a token: a stock export writes it as a prompt of
    sentence-transformers."""
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    stock = PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>")
    prompts = sentence_transformer_prompts(["fra_Latn", "deu_Latn"])
    for code, text in [
        ("fra_Latn", "Le chat dort."),
        ("deu_Latn", " Die Katze,  schläft "),
        (None, "高い"),
    ]:
        assert (
            stock(prompts[code or "unspecified"] + text).input_ids
            == tokenizer(text, lang=code).input_ids
        )


PLAIN_TEXTS = ["the cat sleeps .", "a dog", ""]


@pytest.fixture
def plain_and_around(toy):
    """(a fast tokenizer of transformers, the EchoTokenizer around it)"""
    plain = toy.plain_tokenizer()
    return plain, EchoTokenizer.around(plain)


def test_languages_change_nothing_around_another_tokenizer(plain_and_around):
    plain, tokenizer = plain_and_around
    expected = plain(PLAIN_TEXTS).input_ids

    assert tokenizer(PLAIN_TEXTS).input_ids == expected
    assert tokenizer(PLAIN_TEXTS, lang="fra_Latn").input_ids == expected
    with_prompts = tokenizer.with_prompts(PLAIN_TEXTS, ["fra_Latn", None, "eng_Latn"])
    assert tokenizer.pair_ids(*with_prompts) == expected


def test_another_tokenizer_cuts_as_before(plain_and_around):
    plain, tokenizer = plain_and_around
    short = dict(truncation=True, max_length=4)

    assert tokenizer(PLAIN_TEXTS, **short).input_ids == plain(PLAIN_TEXTS, **short).input_ids


def test_another_tokenizer_can_refuse_long_texts(plain_and_around):
    _, tokenizer = plain_and_around
    with pytest.raises(ValueError, match="1 of 3 texts are longer than 4 tokens"):
        tokenizer(PLAIN_TEXTS, on_long="error", max_length=4)


def test_special_tokens_of_another_tokenizer_have_the_roles_of_echo(plain_and_around):
    plain, tokenizer = plain_and_around

    assert tokenizer.end_ids == [plain.sep_token_id]
    assert tokenizer.mask_token == "<mask>"
    assert tokenizer.bos_token == "<s>"
    assert tokenizer.decoder_prompt_ids("fra_Latn")[:1] == [plain.cls_token_id]


def test_special_tokens_of_another_tokenizer_spelt_in_a_text_are_text(plain_and_around):
    plain, tokenizer = plain_and_around

    inside = set(tokenizer("<mask> </s>").input_ids[1:-1])

    assert not inside & set(plain.all_special_ids) - {plain.unk_token_id}


def test_a_tokenizer_around_another_comes_back_from_a_folder(plain_and_around, tmp_path):
    plain, tokenizer = plain_and_around
    tokenizer.save_pretrained(tmp_path)

    again = EchoTokenizer.from_pretrained(tmp_path)

    assert again.prompts == "none"
    assert again(PLAIN_TEXTS, lang="deu_Latn").input_ids == plain(PLAIN_TEXTS).input_ids


@pytest.fixture
def words_alone() -> Tokenizer:
    """A backend that puts nothing around a text."""
    backend = Tokenizer(models.WordLevel({"<|end|>": 0, "<unk>": 1, "cat": 2}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return backend


def test_a_tokenizer_without_special_tokens_around_a_text(words_alone):
    plain = PreTrainedTokenizerFast(tokenizer_object=words_alone, eos_token="<|end|>")

    tokenizer = EchoTokenizer.around(plain)

    assert tokenizer("cat cat").input_ids == [2, 2]
    assert tokenizer.end_ids == []
    assert tokenizer.pair_ids([""], ["cat"]) == [[2]]
    assert tokenizer.cls_token_id is None
    assert tokenizer.pad_token == "<|end|>"
    assert tokenizer.sep_token == "<|end|>"
    assert tokenizer.model_max_length == 512


def test_a_tokenizer_without_an_end_is_refused(words_alone):
    with pytest.raises(ValueError, match="has neither an eos nor a SEP token"):
        EchoTokenizer.around(PreTrainedTokenizerFast(tokenizer_object=words_alone))
