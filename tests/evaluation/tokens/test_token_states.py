"""Token states against the model's own hidden states, cut out by hand."""

import numpy as np
import pytest
import torch

from hf_echo.evaluation.tokens.token_states import join_words, owners, token_states

TEXTS = ["one red cat sleeps.", "  four old fish  ", "un chat", "два красный пёс ест."]
LANGS = ["eng_Latn", None, "fra_Latn", "rus_Cyrl"]


@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_states_are_the_models_without_the_layout(encoder, toy_tokenizer, number):
    ids = toy_tokenizer([TEXTS[number]], lang=LANGS[number], return_tensors="pt")["input_ids"]
    first = ids[0].tolist().index(toy_tokenizer.sep_token_id) + 1
    with torch.no_grad():
        hidden_states = encoder(ids, output_hidden_states=True).hidden_states

    tokens = list(token_states(encoder, toy_tokenizer, TEXTS, LANGS, max_tokens=40))[number]

    # The model alone on this text, without prompt and end.
    expected = torch.stack(hidden_states)[:, 0, first:-1]
    np.testing.assert_allclose(tokens.states, expected, rtol=1e-4, atol=1e-5)
    assert tokens.states.dtype == np.float32
    assert tokens.ids.tolist() == ids[0, first:-1].tolist()


@pytest.mark.parametrize("text", TEXTS)
def test_offsets_cover_the_text(encoder, toy_tokenizer, text):
    (tokens,) = token_states(encoder, toy_tokenizer, [text])

    covered = "".join(text[start:end] for start, end in tokens.offsets)
    assert covered.strip() == text.strip()


@pytest.fixture(scope="module")
def states_of_many_texts(encoder, toy_tokenizer):
    """More texts than a window has."""
    texts = [text for text in TEXTS for _ in range(40)]
    return list(token_states(encoder, toy_tokenizer, texts, "eng_Latn", layers=[-1, 0]))


@pytest.mark.parametrize("row", [0, 63, 64, 159])
def test_batches_do_not_change_states(encoder, toy_tokenizer, states_of_many_texts, row):
    (alone,) = token_states(encoder, toy_tokenizer, [TEXTS[row // 40]], "eng_Latn")

    np.testing.assert_allclose(
        states_of_many_texts[row].states, alone.states[[2, 0]], rtol=1e-4, atol=1e-5
    )


def test_a_model_in_training_stays_so(encoder, toy_tokenizer):
    encoder.train()

    list(token_states(encoder, toy_tokenizer, TEXTS))

    assert encoder.training
    encoder.eval()


def test_any_encoder_of_transformers_will_do(toy):
    tokenizer = toy.plain_tokenizer()
    model = toy.plain_encoder(tokenizer).eval()
    text = "cat sleeps dog"
    with torch.no_grad():
        last = model(torch.tensor([tokenizer(text).input_ids])).last_hidden_state[0, 1:-1]

    (tokens,) = token_states(model, tokenizer, [text], ["eng_Latn"])

    # The states of transformers, without the special tokens.
    np.testing.assert_allclose(tokens.states[1], last, rtol=1e-4, atol=1e-5)
    assert tokens.offsets.tolist() == [[0, 3], [4, 10], [11, 14]]


LONG = "one red cat " * 30


def test_a_long_text_may_be_skipped(encoder, toy_tokenizer):
    first, second = token_states(encoder, toy_tokenizer, ["one cat.", LONG], on_long="skip")

    assert first is not None
    assert second is None


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["one cat.", LONG], {}, r"text 2 has \d+ tokens, more than the model's limit of 64"),
        ("one", {}, "texts is one string"),
        (["one"], {"layers": [3]}, r"no layer 3: this model has layers 0 \(embeddings\) to 2"),
    ],
)
def test_bad_input_is_refused_in_one_line(encoder, toy_tokenizer, texts, options, message):
    with pytest.raises(ValueError, match=message):
        list(token_states(encoder, toy_tokenizer, texts, **options))


def test_joined_words_are_found_in_the_text():
    words = ["der", "1 000", "ü"]

    text, places = join_words(words)

    assert text == "der 1 000 ü"
    assert [text[start:end] for start, end in places] == words


@pytest.mark.parametrize(
    ("words", "message"),
    [(["a", " "], "row 3: word 1 .* is ' '"), ([], "at least one word"), ("a b", "not 'a b'")],
)
def test_words_that_are_none_are_refused(words, message):
    with pytest.raises(ValueError, match=message):
        join_words(words, "row 3")


@pytest.mark.parametrize(
    ("token", "segment"),
    [
        ((0, 2), 0),
        ((3, 8), 1),  # 1 character in 0, 3 in 1
        ((4, 5), -1),  # a space
        ((7, 9), 1),  # 1 in each
        ((6, 12), 2),
        ((12, 14), -1),
        ((0, 0), -1),
    ],
)
def test_owner_is_the_earliest_of_the_largest_overlaps(token, segment):
    segments = np.array([[0, 4], [5, 8], [8, 12]])

    assert owners(np.array([token]), segments).tolist() == [segment]


def test_without_segments_no_token_has_an_owner():
    assert owners(np.array([[0, 2], [3, 8]]), np.zeros((0, 2))).tolist() == [-1, -1]
