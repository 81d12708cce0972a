"""Attention entropy and pooling against loops written out, known distributions and MEXMA's printed
figures."""

import numpy as np
import pytest
import torch
from cls_attention import (
    PlotRow,
    attention_on_words,
    attention_page,
    both_poolings,
    cls_attention_entropy,
    compare_poolings,
    relative_delta,
    words_of,
)
from transformers import BertConfig, BertModel

from hf_echo.evaluation import xsim
from hf_echo.modeling import EchoConfig, EchoEncoder

from ..refusals import refusals

PAD, CLS, EOS = 0, 1, 2


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    shape = dict(
        hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, head_dim=8
    )
    config = EchoConfig(
        vocab_size=40, num_key_value_heads=2, embedding_size=24, pad_token_id=PAD, **shape
    )
    model = EchoEncoder(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    return model.eval()


def batch(*lengths: int, side: str = "right") -> dict[str, torch.Tensor]:
    """CLS, words, EOS in each row, padded."""
    rng = np.random.default_rng(3)
    ids = torch.full((len(lengths), max(lengths)), PAD)
    mask = torch.zeros_like(ids)
    for i, length in enumerate(lengths):
        row = torch.tensor([CLS, *rng.integers(3, 40, length - 2).tolist(), EOS])
        place = slice(0, length) if side == "right" else slice(max(lengths) - length, None)
        ids[i, place] = row
        mask[i, place] = 1
    return {"input_ids": ids, "attention_mask": mask}


@torch.no_grad()
def attentions_of(model, data: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """(batch, heads, seq, seq) of each layer."""
    model.set_attn_implementation("eager")
    attentions = model(**data, output_attentions=True).attentions
    model.set_attn_implementation("sdpa")
    return attentions


LENGTHS = (5, 9, 7)


def test_entropy_is_the_loop_over_texts(model):
    data = batch(*LENGTHS)
    # Entropy head by head and text by text; three texts.
    heads = np.zeros((3, 4))
    for layer, weights in enumerate(attentions_of(model, data)):
        for head in range(4):
            for text, length in enumerate(LENGTHS):
                p = weights[text, head, 0, :length].double().numpy()
                heads[layer, head] -= (p * np.log(p)).sum() / 3

    report = cls_attention_entropy(model, [data])

    np.testing.assert_allclose(report["heads"], heads, rtol=1e-5)
    assert report["entropy"] == pytest.approx(heads[-1].mean(), rel=1e-5)
    assert report["uniform"] == pytest.approx(np.log(LENGTHS).mean())


def test_entropy_does_not_depend_on_batches(model):
    whole = batch(*LENGTHS)
    single = []
    for row, length in enumerate(LENGTHS):
        single.append({name: value[row : row + 1, :length] for name, value in whole.items()})
    one_by_one = cls_attention_entropy(model, iter(single))["heads"]
    # All texts in one batch, with padding.
    np.testing.assert_allclose(
        one_by_one, cls_attention_entropy(model, [whole])["heads"], rtol=1e-5
    )


def test_entropy_does_not_depend_on_the_side_of_padding(model):
    left = cls_attention_entropy(model, [batch(*LENGTHS, side="left")])["heads"]
    right = cls_attention_entropy(model, [batch(*LENGTHS)])["heads"]
    np.testing.assert_allclose(left, right, rtol=1e-5)


def test_the_model_is_left_as_it_was(model):
    model.train()

    cls_attention_entropy(model, [batch(*LENGTHS)])

    assert model.config._attn_implementation == "sdpa"
    assert model.training
    model.eval()


def words(data: dict[str, torch.Tensor]) -> torch.Tensor:
    return data["input_ids"] > EOS


def test_entropy_of_words_is_that_of_the_words_alone(model):
    """MEXMA G: weights of CLS in the last layer without BOS and EOS, summing to 1."""
    data = batch(*LENGTHS)
    last = attentions_of(model, data)[-1]
    entropies = []
    for text, length in enumerate(LENGTHS):
        weights = last[text, :, 0, 1 : length - 1].double().numpy()  # (heads, words)
        weights = weights / weights.sum(1, keepdims=True)
        entropies.append(-(weights * np.log(weights)).sum(1).mean())

    report = cls_attention_entropy(model, [data], words)

    assert report["entropy_of_words"] == pytest.approx(np.mean(entropies), rel=1e-5)
    assert report["uniform_of_words"] == pytest.approx(np.log([3, 7, 5]).mean())


def test_entropy_of_words_needs_a_mask(model):
    assert "entropy_of_words" not in cls_attention_entropy(model, [batch(5)])


def test_a_text_without_words_has_no_entropy_of_words(model):
    """CLS and EOS only; the mean is over the other text."""
    alone = cls_attention_entropy(model, [batch(5)], words)
    both = cls_attention_entropy(model, [batch(5), batch(2)], words)
    assert both["entropy_of_words"] == pytest.approx(alone["entropy_of_words"])
    assert both["entropy"] != pytest.approx(alone["entropy"])


def test_an_eos_that_takes_nearly_all_attention_hides_uniform_words():
    """The dump of MEXMA G: the entropy is near 0 with EOS, and ln(words) without."""

    class Dump(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.config = BertConfig()
            self.device = torch.device("cpu")

        def set_attn_implementation(self, name):
            self.config._attn_implementation = name

        def forward(self, input_ids, attention_mask, **options):
            weights = torch.full((1, 1, 6, 6), 0.001)
            weights[..., -1] = 1 - 5 * 0.001
            return type("Output", (), {"attentions": (weights,)})

    entropy = cls_attention_entropy(Dump(), [batch(6)], words)
    assert entropy["entropy"] < 0.05
    assert entropy["entropy_of_words"] == pytest.approx(np.log(4), rel=1e-6)


@pytest.mark.parametrize("side", ["left", "right"])
def test_weights_of_the_plot_are_the_mean_over_heads_of_the_words(model, side):
    lengths = (5, 9)
    last = attentions_of(model, batch(*lengths, side="right"))[-1]

    weights = attention_on_words(model, [batch(*lengths, side=side)], words)

    for text, length in enumerate(lengths):
        # The attention of the first token to the words, averaged by hand.
        mean = last[text, :, 0, 1 : length - 1].mean(0).numpy()
        np.testing.assert_allclose(weights[text], mean / mean.sum(), rtol=1e-4)


def test_plot_colours_each_token_by_its_weight():
    row = PlotRow("MEXMA eng_Latn", ["nine", "<teen>"], np.array([0.2, 0.8]))
    page = attention_page([[row]])
    assert "<span title='0.200' style='background:rgba(40,90,200,0.25)'>nine</span>" in page
    assert "<span title='0.800' style='background:rgba(40,90,200,1.00)'>&lt;teen&gt;</span>" in page
    assert "MEXMA eng_Latn" in page


def test_words_of_a_text_are_its_own_tokens(toy_tokenizer):
    texts = ["le chat", "la"]
    batch_of_texts = toy_tokenizer(texts, lang="fra_Latn", padding=True, return_tensors="pt")

    masks = words_of(toy_tokenizer, batch_of_texts)

    for ids, mask, text in zip(batch_of_texts["input_ids"], masks, texts, strict=True):
        assert toy_tokenizer.decode(ids[mask]).strip() == text


@pytest.fixture(scope="module")
def bert():
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=40,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=8,
    )
    return BertModel(config).eval()


def test_any_encoder_of_transformers_has_attention(bert):
    assert cls_attention_entropy(bert, [batch(5, 3)])["heads"].shape == (2, 2)


def test_any_encoder_of_transformers_has_two_poolings(bert):
    data = batch(5, 3)
    with torch.no_grad():
        states = bert(**data).last_hidden_state.numpy()

    trained, uniform = both_poolings(bert, [data])

    # The first state, and the mean of the states of the short text.
    np.testing.assert_allclose(trained, states[:, 0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(uniform[1], states[1, :3].mean(0), rtol=1e-5, atol=1e-6)


@torch.no_grad()
def embeddings(model, data: dict[str, torch.Tensor]) -> np.ndarray:
    return model(**data).sentence_embedding.numpy()


@pytest.mark.parametrize("side", ["left", "right"])
def test_trained_pooling_is_the_models(model, side):
    data = batch(*LENGTHS, side=side)
    trained, _ = both_poolings(model, [data])
    np.testing.assert_allclose(trained, embeddings(model, data), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
def test_uniform_pooling_is_the_model_set_to_mean(model, side):
    data = batch(*LENGTHS, side=side)
    # The same weights with the pooling of the configuration.
    mean_model = EchoEncoder(
        EchoConfig.from_dict(model.config.to_dict() | {"pooling": "mean"})
    ).eval()
    mean_model.load_state_dict(model.state_dict())

    _, uniform = both_poolings(model, [data])

    np.testing.assert_allclose(uniform, embeddings(mean_model, data), rtol=1e-4, atol=1e-5)


def test_poolings_are_the_same_at_each_call(model):
    first, _ = both_poolings(model, [batch(*LENGTHS)])
    second, _ = both_poolings(model, [batch(*LENGTHS)])
    np.testing.assert_array_equal(first, second)


class Compared:
    """Sources and targets of two poolings; the second one is blurred."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.x = rng.normal(size=(40, 6))
        self.y = self.x + 0.3 * rng.normal(size=(40, 6))
        self.blurred_x = self.x + rng.normal(size=(40, 6))
        self.blurred_y = self.x + rng.normal(size=(40, 6))
        self.report = compare_poolings((self.x, self.blurred_x), (self.y, self.blurred_y))


@pytest.fixture(scope="module")
def compared():
    return Compared()


def test_poolings_are_compared_by_two_xsims(compared):
    assert compared.report["xsim_trained"] == xsim(compared.x, compared.y).error_rate
    assert (
        compared.report["xsim_uniform"] == xsim(compared.blurred_x, compared.blurred_y).error_rate
    )


def test_a_blurred_pooling_errs_more(compared):
    assert compared.report["xsim_trained"] < compared.report["xsim_uniform"]


def test_delta_is_relative_to_the_trained_pooling(compared):
    ratio = compared.report["xsim_uniform"] / compared.report["xsim_trained"]
    assert compared.report["delta"] == pytest.approx(100 * (1 - ratio))


def test_cosine_is_the_mean_over_texts(compared):
    cosines = []
    for x, y in ((compared.x, compared.blurred_x), (compared.y, compared.blurred_y)):
        cosines += [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(x, y)]
    assert compared.report["cosine"] == pytest.approx(np.mean(cosines))


def test_without_errors_there_is_no_delta(compared):
    x = compared.x
    assert compare_poolings((x, x), (x, x))["delta"] is None


TABLE_10 = [
    (0.92, 2.02, -119.65),
    (0.06, 0.19, -212.50),
    (18.65, 20.73, -11.19),
    (9.60, 18.21, -89.73),
    (64.65, 63.50, 1.78),
    (63.99, 54.24, 15.24),
    (62.77, 58.03, 7.55),
    (65.35, 56.98, 12.81),
]


@pytest.mark.parametrize(("trained", "uniform", "printed"), TABLE_10)
def test_delta_is_table_10s(trained, uniform, printed):
    """Within the rounding of the printed inputs."""
    slack = 0.005 * (1 + uniform / trained) / trained * 100 + 0.005
    assert relative_delta(trained, uniform) == pytest.approx(printed, abs=slack)


ONES = torch.ones(2, 3, dtype=int)
test_bad_input_is_one_line = refusals(
    (lambda model: cls_attention_entropy(model, []), "no batches"),
    (
        lambda model: both_poolings(model, [{"input_ids": ONES, "attention_mask": ONES * 0}]),
        "text 0 .* has no tokens",
    ),
)
