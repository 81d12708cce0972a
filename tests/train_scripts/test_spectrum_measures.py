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
from hf_echo.modeling import (
    EchoDecoder,
    EchoDecoderConfig,
    SpectrumConfig,
    SpectrumForCausalLM,
    SpectrumModel,
)


def make_model() -> SpectrumForCausalLM:
    torch.manual_seed(0)
    shape = dict(
        intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2
    )
    tower = SpectrumModel(SpectrumConfig(hidden_size=16, embedding_size=12, **shape))
    tower.set_boe(torch.randn(12))
    ids = dict(
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        vocab_size=130,
        hidden_size=24,
        embedding_size=16,
        bottleneck=False,
        initializer_range=0.3,
    )
    decoder = EchoDecoderConfig(**shape, **ids)
    return SpectrumForCausalLM.from_parts(tower, EchoDecoder(decoder)).eval()


A, B, C, D = np.eye(4)
DOCUMENT = np.stack([A, B, C, D])
# after a and b: a again, which is among the others, and then c, the next
READ = np.stack([A, B, 2 * A + C, C])


def retrieved(predictions: np.ndarray) -> dict[str, float]:
    """Row i of the predictions is the one of sentence i + 1."""
    return next_sentence_retrieval([DOCUMENT], [predictions])


def test_right_predictions_find_every_sentence():
    assert retrieved(DOCUMENT)["prediction"] == 100


def test_wrong_predictions_find_none():
    table = retrieved(np.stack([A, C, D, D]))
    assert table["prediction"] == 0
    assert table["questions"] == 2


def test_chance_is_one_of_the_other_sentences():
    # three other sentences at both places
    assert retrieved(DOCUMENT)["chance"] == pytest.approx(100 / 3)


def test_equal_scores_share_the_point():
    table = retrieved(np.zeros((4, 4)))
    assert table["prediction"] == pytest.approx(table["chance"])


def test_a_sentence_that_was_read_misleads():
    assert retrieved(READ)["prediction"] == 50


@pytest.fixture(scope="module")
def predictions_of_changed():
    """Of a document, and of the same with another third sentence."""
    tower = make_model().tower
    vectors = np.random.default_rng(0).normal(size=(4, 12)).astype(np.float32)
    changed = vectors.copy()
    changed[2] += 1
    return tower_predictions(tower, [vectors])[0], tower_predictions(tower, [changed])[0]


def test_a_prediction_does_not_see_the_sentence(predictions_of_changed):
    before, after = predictions_of_changed
    assert before.shape == (4, 12)
    np.testing.assert_allclose(before[:3], after[:3], atol=1e-6)


def test_a_prediction_sees_the_sentence_before(predictions_of_changed):
    before, after = predictions_of_changed
    assert np.abs(before[3] - after[3]).max() > 1e-3


def test_a_perfect_rebuild_has_full_marks():
    references = ["the cat sat on the mat today", "a b c d e f g h"]

    row = rebuild_bleu(references, references)

    assert row["documents"] == 2
    assert row["bleu4"] == pytest.approx(100)
    assert row["bleu"] == pytest.approx(100)


def test_precisions_of_a_rebuild_by_hand():
    written = ["the cat sat on a rug today"]
    references = ["the cat sat on the mat today"]

    row = rebuild_bleu(written, references)

    # Five of seven words and three of six pairs of words stand in the reference.
    assert row["bleu1"] == pytest.approx(100 * 5 / 7)
    assert row["bleu2"] == pytest.approx(100 * 3 / 6)


def test_table_20_prints_precisions_without_the_brevity_penalty():
    """Written: 4 of the 5 words of the reference, all of them right.
    exp(1 - 5/4) is the penalty."""
    row = rebuild_bleu(["a b c d"], ["a b c d e"])

    assert row["bleu1"] == pytest.approx(100)
    assert row["bleu2"] == pytest.approx(100)
    assert row["bleu3"] == pytest.approx(100)
    assert row["bleu4"] == pytest.approx(100)
    assert row["brevity_penalty"] == pytest.approx(np.exp(1 - 5 / 4))
    assert row["bleu"] == pytest.approx(100 * np.exp(1 - 5 / 4))


def test_printed_row_of_table_20_fits_these_columns():
    """99.9, 99.8, 99.7, 99.6 and 99.71: the geometric mean, within rounding,
    and a penalty of at most 1."""
    low = np.exp(np.mean(np.log([99.85, 99.75, 99.65, 99.55])))
    high = np.exp(np.mean(np.log([99.95, 99.85, 99.75, 99.65])))
    assert low < 99.71 < high
    assert not 99.55 <= 99.71 <= 99.65  # cumulative BLEU-4 would be BLEU


class Letters:
    """A tokenizer: a letter is a token."""

    def text_ids(self, texts: list[str]) -> list[list[int]]:
        return [[3 + ord(letter) % 120 for letter in text] for text in texts]


def embed(texts: list[str], lang: str) -> np.ndarray:
    """A random vector that the letters of a text decide."""
    seeds = [sum(map(ord, text + lang)) for text in texts]
    return np.stack([np.random.default_rng(seed).normal(size=12) for seed in seeds]).astype(
        np.float32
    )


CHOICES = [
    Choice(["a", "b"], "fra_Latn", "Q", ["no", "yes", "some"], 1),
    Choice(["c"], "fra_Latn", "Which", ["one", "t", "three"], 0),
    Choice(["d"], "eng_Latn", "", ["x", "yyyy", "zz"], 2),
]


@pytest.fixture(scope="module")
def model():
    return make_model()


@pytest.fixture(scope="module")
def accuracies(model):
    return choice_accuracy(model, Letters(), embed, CHOICES)


@torch.no_grad()
def option_loss(model: SpectrumForCausalLM, choice: Choice, option: str) -> float:
    """By the model alone: the loss of the option's tokens and of the end behind them."""
    prompt = [1, *Letters().text_ids([choice.prompt])[0]]
    ids = torch.tensor([[*prompt, *Letters().text_ids([option])[0], 2]])
    document = model.encode_document(torch.tensor(embed(choice.sentences, choice.lang)))
    hidden = model.decoder.model(
        ids[:, :-1], memory=document.states, use_cache=False
    ).last_hidden_state
    log_probabilities = model.decoder.lm_head(hidden).log_softmax(-1)
    picked = log_probabilities[0].gather(1, ids[0, 1:, None])
    return -picked[len(prompt) - 1 :].sum().item()


def test_the_choice_is_the_likeliest_option(model, accuracies):
    right = []
    for choice in CHOICES:
        losses = [option_loss(model, choice, option) for option in choice.options]
        right.append(int(np.argmin(losses) == choice.answer))
    assert [row["accuracy"] for row in accuracies.rows] == [
        50 * (right[0] + right[1]),
        100 * right[2],
    ]


def test_choices_are_counted_by_language(accuracies):
    assert [row["count"] for row in accuracies.rows] == [2, 1]
    assert accuracies.rows[0]["chance"] == pytest.approx(100 / 3)


def test_a_prompt_may_be_ids(model, accuracies):
    as_ids = [replace(choice, prompt=Letters().text_ids([choice.prompt])[0]) for choice in CHOICES]
    assert choice_accuracy(model, Letters(), embed, as_ids).rows == accuracies.rows


def test_flops_of_figure_8_are_those_that_torch_counts():
    """`flops.py` counts from shapes; this is the model itself."""
    model = make_model()
    model.config._attn_implementation = "eager"
    model.decoder.config._attn_implementation = "eager"
    sentences = 5
    written = 3
    slots = sentences + 1
    counted = tower_flops(Stack.of(model.config), sentences)
    counted += decoder_flops(Stack.of(model.decoder.config), written, memory=slots)
    # the predicted next embedding, and the states at the decoder's width
    heads = 2 * slots * 16 * (12 + 24)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        document = model.encode_document(torch.randn(sentences, 12))
        model.generate(
            document,
            torch.tensor([[1]]),
            max_new_tokens=written,
            min_new_tokens=written,
            do_sample=False,
        )
    # torch counts rotary angles too
    assert counter.get_total_flops() == pytest.approx(counted + heads, rel=2e-3)
