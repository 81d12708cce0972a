"""Attention entropy and pooling against loops written out, known distributions and MEXMA's printed figures."""

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
    shape = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, head_dim=8)
    config = EchoConfig(vocab_size=40, num_key_value_heads=2, embedding_size=24, pad_token_id=PAD, **shape)
    model = EchoEncoder(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    return model.eval()


def batch(*lengths: int, side: str = "right", seed: int = 3) -> dict[str, torch.Tensor]:
    """CLS, words, EOS in each row, padded."""
    rng = np.random.default_rng(seed)
    ids = torch.full((len(lengths), max(lengths)), PAD)
    mask = torch.zeros_like(ids)
    for i, length in enumerate(lengths):
        row = torch.tensor([CLS, *rng.integers(3, 40, length - 2).tolist(), EOS])
        place = slice(0, length) if side == "right" else slice(max(lengths) - length, None)
        ids[i, place], mask[i, place] = row, 1
    return {"input_ids": ids, "attention_mask": mask}


def test_entropy_is_the_loop_over_texts_layers_and_heads(model):
    data = batch(5, 9, 7)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        attentions = model(**data, output_attentions=True).attentions
    model.set_attn_implementation("sdpa")
    want = np.zeros((3, 4))
    for layer, weights in enumerate(attentions):
        for head in range(4):
            for i, length in enumerate((5, 9, 7)):
                p = weights[i, head, 0, :length].double().numpy()
                want[layer, head] -= (p * np.log(p)).sum() / 3
    found = cls_attention_entropy(model, [data])
    np.testing.assert_allclose(found["heads"], want, rtol=1e-5)
    assert found["entropy"] == pytest.approx(want[-1].mean(), rel=1e-5)
    assert found["uniform"] == pytest.approx(np.log([5, 9, 7]).mean())


def test_batches_and_padding_do_not_change_it_and_the_model_is_as_before(model):
    lengths = (5, 9, 7, 4)
    whole = batch(*lengths)
    single = [{name: value[i : i + 1, :length] for name, value in whole.items()} for i, length in enumerate(lengths)]
    model.train()
    a = cls_attention_entropy(model, iter(single))
    assert model.config._attn_implementation == "sdpa" and model.training
    model.eval()
    b = cls_attention_entropy(model, [whole])
    c = cls_attention_entropy(model, [batch(*lengths, side="left")])
    np.testing.assert_allclose(a["heads"], b["heads"], rtol=1e-5)
    np.testing.assert_allclose(c["heads"], b["heads"], rtol=1e-5)


def words(data: dict[str, torch.Tensor]) -> torch.Tensor:
    return data["input_ids"] > EOS


def word_weights(model, data, lengths) -> list[np.ndarray]:
    """(heads, words) of each text by hand: weights of CLS in the last layer without BOS and EOS, summing to 1."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        last = model(**data, output_attentions=True).attentions[-1]
    model.set_attn_implementation("sdpa")
    weights = []
    for i, length in enumerate(lengths):
        of_words = last[i, :, 0, 1 : length - 1].double().numpy()
        weights.append(of_words / of_words.sum(1, keepdims=True))
    return weights


def test_entropy_without_bos_and_eos_is_that_of_the_words_alone(model):
    """MEXMA G."""
    lengths = (5, 9, 7)
    data = batch(*lengths)
    entropies = []
    for weights in word_weights(model, data, lengths):
        entropies.append(-(weights * np.log(weights)).sum(1).mean())

    found = cls_attention_entropy(model, [data], words)

    assert found["entropy_of_words"] == pytest.approx(np.mean(entropies), rel=1e-5)
    assert found["uniform_of_words"] == pytest.approx(np.log([3, 7, 5]).mean())
    assert "entropy_of_words" not in cls_attention_entropy(model, [data])


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

    found = cls_attention_entropy(Dump(), [batch(6)], words)
    assert found["entropy"] < 0.05
    assert found["entropy_of_words"] == pytest.approx(np.log(4), rel=1e-6)


@pytest.mark.parametrize("side", ["left", "right"])
def test_weights_of_the_plot_are_the_mean_over_heads_of_the_words(model, side):
    lengths = (5, 9)
    data = batch(*lengths, side="right")
    model.set_attn_implementation("eager")
    with torch.no_grad():
        last = model(**data, output_attentions=True).attentions[-1]
    model.set_attn_implementation("sdpa")
    found = attention_on_words(model, [batch(*lengths, side=side)], words)
    for i, length in enumerate(lengths):
        mean = last[i, :, 0, 1 : length - 1].mean(0).numpy()
        np.testing.assert_allclose(found[i], mean / mean.sum(), rtol=1e-4)


def test_plot_colours_each_token_by_its_weight():
    row = PlotRow("MEXMA eng_Latn", ["nine", "<teen>"], np.array([0.2, 0.8]))
    page = attention_page([[row]])
    assert "<span title='0.200' style='background:rgba(40,90,200,0.25)'>nine</span>" in page
    assert "<span title='0.800' style='background:rgba(40,90,200,1.00)'>&lt;teen&gt;</span>" in page
    assert "MEXMA eng_Latn" in page


def test_words_of_a_text_are_no_prompt_and_no_special_token(toy_tokenizer):
    batch_of_texts = toy_tokenizer(["le chat", "la"], lang="fra_Latn", padding=True, return_tensors="pt")
    mask = words_of(toy_tokenizer, batch_of_texts)
    for ids, of_text, text in zip(batch_of_texts["input_ids"], mask, ["le chat", "la"], strict=True):
        assert toy_tokenizer.decode(ids[of_text]).strip() == text


def test_any_encoder_of_transformers_will_do():
    config = BertConfig(vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8)
    bert = BertModel(config).eval()
    assert cls_attention_entropy(bert, [batch(5, 3)])["heads"].shape == (2, 2)
    trained, uniform = both_poolings(bert, [batch(5, 3)])
    with torch.no_grad():
        states = bert(**batch(5, 3)).last_hidden_state.numpy()
    np.testing.assert_allclose(trained, states[:, 0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(uniform[1], states[1, :3].mean(0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("side", ["left", "right"])
def test_uniform_pooling_is_the_model_set_to_mean(model, side):
    data = batch(5, 9, 7, side=side)
    trained, uniform = both_poolings(model, [data])
    other = EchoEncoder(EchoConfig.from_dict(model.config.to_dict() | {"pooling": "mean"})).eval()
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        np.testing.assert_allclose(trained, model(**data).sentence_embedding, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(uniform, other(**data).sentence_embedding, rtol=1e-4, atol=1e-5)
    again, _ = both_poolings(model, [batch(5, 9, 7, side=side)])
    np.testing.assert_array_equal(trained, again)


def test_compare_poolings_is_two_xsims_and_a_cosine():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 6))
    y, blurred_x, blurred_y = (x + noise * rng.normal(size=x.shape) for noise in (0.3, 1, 1))
    found = compare_poolings((x, blurred_x), (y, blurred_y))
    assert found["xsim_trained"] == xsim(x, y).error_rate < found["xsim_uniform"]
    assert found["xsim_uniform"] == xsim(blurred_x, blurred_y).error_rate
    assert found["delta"] == pytest.approx(100 * (1 - found["xsim_uniform"] / found["xsim_trained"]))
    pairs = zip(np.r_[x, y], np.r_[blurred_x, blurred_y], strict=True)
    cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in pairs]
    assert found["cosine"] == pytest.approx(np.mean(cosines))
    assert compare_poolings((x, x), (x, x))["delta"] is None  # no error to divide by


TABLE_10 = [(0.92, 2.02, -119.65), (0.06, 0.19, -212.50), (18.65, 20.73, -11.19), (9.60, 18.21, -89.73)]
TABLE_10 += [(64.65, 63.50, 1.78), (63.99, 54.24, 15.24), (62.77, 58.03, 7.55), (65.35, 56.98, 12.81)]


@pytest.mark.parametrize(("trained", "uniform", "printed"), TABLE_10)
def test_delta_is_table_10s(trained, uniform, printed):
    """Within the rounding of the printed inputs."""
    slack = 0.005 * (1 + uniform / trained) / trained * 100 + 0.005
    assert relative_delta(trained, uniform) == pytest.approx(printed, abs=slack)


ONES = torch.ones(2, 3, dtype=int)
ZERO_ROW = np.eye(3) * [[1], [0], [1]]
test_bad_input_is_one_line = refusals(
    (lambda model: cls_attention_entropy(model, []), "no batches"),
    (lambda model: both_poolings(model, [{"input_ids": ONES, "attention_mask": ONES * 0}]), "text 0 .* has no tokens"),
    (lambda: compare_poolings((np.eye(3), np.eye(3)), (np.eye(3), ZERO_ROW)), "y, row 1: a NaN, infinite or zero"),
)
