"""Measures of Spectrum against counts by hand, sacrebleu and torch's FLOP counter."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from flops import Stack, decoder_flops, tower_flops
from torch.utils.flop_counter import FlopCounterMode

from hf_echo.evaluation.spectrum import (
    Choice,
    choice_accuracy,
    next_sentence_retrieval,
    rebuild_bleu,
    tower_predictions,
)
from hf_echo.modeling import EchoDecoder, EchoDecoderConfig, SpectrumConfig, SpectrumForCausalLM, SpectrumModel

from ..refusals import refuses


def make_model() -> SpectrumForCausalLM:
    torch.manual_seed(0)
    shape = dict(intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
    tower = SpectrumModel(SpectrumConfig(hidden_size=16, embedding_size=12, **shape))
    tower.set_boe(torch.randn(12))
    ids = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0)
    ids |= dict(vocab_size=130, hidden_size=24, embedding_size=16, bottleneck=False, initializer_range=0.3)
    decoder = EchoDecoderConfig(**shape, **ids)
    return SpectrumForCausalLM.from_parts(tower, EchoDecoder(decoder)).eval()


def test_next_sentence_counts_by_hand():
    a, b, c, d = np.eye(4)
    document = np.stack([a, b, c, d])
    right = np.stack([a, b, c, d])  # row i is the prediction of sentence i+1
    assert next_sentence_retrieval([document], [right])["prediction"] == 100
    wrong = np.stack([a, c, d, d])
    found = next_sentence_retrieval([document], [wrong])
    assert found["prediction"] == 0 and found["questions"] == 2
    assert found["chance"] == pytest.approx(100 / 3)  # three other sentences at both places
    blind = next_sentence_retrieval([document], [np.zeros((4, 4))])  # equal scores share the point
    assert blind["prediction"] == pytest.approx(blind["chance"])
    expected = 100 * (1 / 3 + 1 / 2) / 2  # three, then two sentences that were not read yet
    assert next_sentence_retrieval([document], [right], candidates="unread")["chance"] == pytest.approx(expected)
    read = np.stack([a, b, 2 * a + c, c])  # after a and b: a again, which is among the others, and then c, the next
    assert next_sentence_retrieval([document], [read])["prediction"] == 50
    assert next_sentence_retrieval([document], [read], candidates="unread")["prediction"] == 100


def test_tower_predictions_do_not_see_what_they_predict():
    tower = make_model().tower
    vectors = np.random.default_rng(0).normal(size=(4, 12)).astype(np.float32)
    other = vectors.copy()
    other[2] += 1
    before, after = (tower_predictions(tower, [v])[0] for v in (vectors, other))
    assert before.shape == (4, 12)
    np.testing.assert_allclose(before[:3], after[:3], atol=1e-6)
    assert np.abs(before[3] - after[3]).max() > 1e-3


def test_rebuilt_documents_by_length():
    references = ["the cat sat on the mat today", "a b c d e f g h"]
    table = rebuild_bleu(references, references, [2, 6])
    assert [row["sentences"] for row in table.rows] == ["all", "1 to 4", "5 to 8"]
    assert all(row[f"bleu{n}"] == pytest.approx(100) for row in table.rows for n in range(1, 5))
    half = rebuild_bleu(["the cat sat on a rug today"], references[:1], [2]).rows[0]
    assert half["bleu1"] == pytest.approx(100 * 5 / 7) and half["bleu2"] == pytest.approx(100 * 3 / 6)
    refuses("at least one", rebuild_bleu, [], [], [])


def test_table_20_prints_precisions_without_the_brevity_penalty():
    # Written: 4 of the 5 words of the reference, all of them right. Precisions are 100, exp(1 - 5/4) is the penalty.
    row = rebuild_bleu(["a b c d"], ["a b c d e"], [1]).rows[0]
    precisions = [row[f"bleu{n}"] for n in range(1, 5)]
    assert precisions == pytest.approx([100, 100, 100, 100])
    assert row["brevity_penalty"] == pytest.approx(np.exp(1 - 5 / 4))
    assert row["bleu"] == pytest.approx(100 * np.exp(1 - 5 / 4))


def test_printed_row_of_table_20_fits_these_columns():
    # 99.9, 99.8, 99.7, 99.6 and 99.71: the geometric mean, within rounding, and a penalty of at most 1.
    low = np.exp(np.mean(np.log([99.85, 99.75, 99.65, 99.55])))
    high = np.exp(np.mean(np.log([99.95, 99.85, 99.75, 99.65])))
    assert low < 99.71 < high
    assert not 99.55 <= 99.71 <= 99.65  # cumulative BLEU-4 would be BLEU


class Letters:
    def text_ids(self, texts):
        return [[3 + ord(c) % 120 for c in text] for text in texts]


def embed(texts, lang):
    return np.stack([np.random.default_rng(sum(map(ord, text + lang))).normal(size=12) for text in texts]).astype("f4")


def test_choices_are_those_of_the_model_alone():
    model = make_model()
    choices = [Choice(["a", "b"], "fra_Latn", "Q", ["no", "yes", "some"], 1)]
    choices.append(Choice(["c"], "fra_Latn", "Which", ["one", "t", "three"], 0))
    choices.append(Choice(["d"], "eng_Latn", "", ["x", "yyyy", "zz"], 2))
    table = choice_accuracy(model, Letters(), embed, choices)
    right = []
    for choice in choices:
        losses = []
        for option in choice.options:
            prompt = [1, *Letters().text_ids([choice.prompt])[0]]
            ids = torch.tensor([[*prompt, *Letters().text_ids([option])[0], 2]])
            document = model.encode_document(torch.tensor(embed(choice.sentences, choice.lang)))
            states = document.states
            with torch.no_grad():
                hidden = model.decoder.model(ids[:, :-1], memory=states, use_cache=False).last_hidden_state
                logits = model.decoder.lm_head(hidden).log_softmax(-1)
            picked = logits[0].gather(1, ids[0, 1:, None])[len(prompt) - 1 :]
            losses.append(-picked.sum().item())
        right.append(int(np.argmin(losses) == choice.answer))
    assert [row["accuracy"] for row in table.rows] == [50 * (right[0] + right[1]), 100 * right[2]]
    assert [row["count"] for row in table.rows] == [2, 1] and table.rows[0]["chance"] == pytest.approx(100 / 3)
    as_ids = [replace(choice, prompt=Letters().text_ids([choice.prompt])[0]) for choice in choices]
    assert choice_accuracy(model, Letters(), embed, as_ids).rows == table.rows
    refuses("no questions", lambda: choice_accuracy(model, Letters(), embed, []))


def test_flops_of_figure_8_are_those_that_torch_counts():
    """`flops.py` counts from shapes; this is the model itself."""
    model = make_model()
    model.config._attn_implementation = model.decoder.config._attn_implementation = "eager"
    sentences, written = 5, 3
    slots, tower, decoder = sentences + 1, Stack.of(model.config), Stack.of(model.decoder.config)
    counted = tower_flops(tower, sentences) + decoder_flops(decoder, written, memory=slots)
    heads = 2 * slots * 16 * (12 + 24)  # the predicted next embedding, and the states at the decoder's width
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        document = model.encode_document(torch.randn(sentences, 12))
        model.generate(document, torch.tensor([[1]]), max_new_tokens=written, min_new_tokens=written, do_sample=False)
    assert counter.get_total_flops() == pytest.approx(counted + heads, rel=2e-3)  # torch counts rotary angles too
