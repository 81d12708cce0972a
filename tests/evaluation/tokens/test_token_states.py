"""Token states against the model's own hidden states, cut out by hand."""

import numpy as np
import pytest
import torch

from hf_echo.evaluation.tokens.token_states import join_words, owners, token_states

TEXTS = ["one red cat sleeps.", "  four old fish  ", "un chat", "два красный пёс ест."]
LANGS = ["eng_Latn", None, "fra_Latn", "rus_Cyrl"]


def test_states_are_the_models_without_the_layout(encoder, toy_tokenizer):
    found = list(token_states(encoder, toy_tokenizer, TEXTS, LANGS, max_tokens=40))
    for text, lang, one in zip(TEXTS, LANGS, found, strict=True):
        ids = toy_tokenizer([text], lang=lang, return_tensors="pt")["input_ids"]
        head = ids[0].tolist().index(toy_tokenizer.sep_token_id) + 1
        with torch.no_grad():
            want = encoder(ids, output_hidden_states=True).hidden_states
        assert one.states.shape[0] == 3 and one.states.dtype == np.float32
        for layer in range(3):
            np.testing.assert_allclose(one.states[layer], want[layer][0, head:-1], rtol=1e-4, atol=1e-5)
        assert one.ids.tolist() == ids[0, head:-1].tolist() == toy_tokenizer.text_ids([text])[0]
        covered = "".join(text[a:b] for a, b in one.offsets)
        assert covered.strip() == text.strip()


def test_batches_do_not_change_states_and_layers_are_chosen(encoder, toy_tokenizer):
    texts = [t for t in TEXTS for _ in range(40)]  # more than one window
    encoder.train()
    many = list(token_states(encoder, toy_tokenizer, texts, "eng_Latn", layers=[-1, 0]))
    assert encoder.training
    encoder.eval()
    for i in (0, 63, 64, 159):
        (alone,) = token_states(encoder, toy_tokenizer, [texts[i]], "eng_Latn")
        np.testing.assert_allclose(many[i].states, alone.states[[2, 0]], rtol=1e-4, atol=1e-5)


def test_any_encoder_of_transformers_will_do(toy):
    tokenizer = toy.plain_tokenizer()
    model, text = toy.plain_encoder(tokenizer).eval(), "cat sleeps dog"
    one, other = token_states(model, tokenizer, [text, "cat"], ["eng_Latn", "fra_Latn"])
    with torch.no_grad():
        want = model(torch.tensor([tokenizer(text).input_ids])).last_hidden_state[0, 1:-1]
    np.testing.assert_allclose(one.states[1], want, rtol=1e-4, atol=1e-5)
    assert one.offsets.tolist() == [[0, 3], [4, 10], [11, 14]] and other.ids.tolist() == one.ids.tolist()[:1]


def test_long_text_is_refused_or_skipped(encoder, toy_tokenizer):
    texts = ["one cat.", "one red cat " * 30]
    first, second = token_states(encoder, toy_tokenizer, texts, on_long="skip")
    assert first is not None and second is None
    for options, message in (
        (dict(texts=texts), r"text 2 has \d+ tokens, more than the model's limit of 64"),
        (dict(texts="one"), "texts is one string"),
        (dict(texts=["one"], on_long="split"), "it must be 'error' or 'skip'"),
        (dict(texts=["one"], layers=[3]), r"no layer 3: this model has layers 0 \(embeddings\) to 2"),
    ):
        with pytest.raises(ValueError, match=message):
            list(token_states(encoder, toy_tokenizer, **options))


def test_join_words():
    text, places = join_words(["der", "1 000", "ü"])
    assert text == "der 1 000 ü" and [text[a:b] for a, b in places] == ["der", "1 000", "ü"]
    with pytest.raises(ValueError, match="row 3: word 1 .* is ' '"):
        join_words(["a", " "], "row 3")
    with pytest.raises(ValueError, match="at least one word"):
        join_words([])


def test_owner_is_the_largest_overlap_and_the_earliest_of_equals():
    segments = np.array([[0, 4], [5, 8], [8, 12]])
    tokens = np.array([[0, 2], [3, 8], [4, 5], [7, 9], [6, 12], [12, 14], [0, 0]])
    #                  in 0    1: 3>1  space   tie     2: 4>2   beyond    empty
    assert owners(tokens, segments).tolist() == [0, 1, -1, 1, 2, -1, -1]
    assert owners(tokens, np.zeros((0, 2))).tolist() == [-1] * 7
