"""The table of poolings against loops in numpy;
one entry of the table makes a new pooling known everywhere."""

import json

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from hf_echo.checkpoints import convert_encoder
from hf_echo.export import export_checkpoint
from hf_echo.modeling import EchoConfig, packed_echo
from hf_echo.modeling.packed_echo import packed_encoder
from hf_echo.modeling.pooling_echo import POOLINGS, Pooling, check_pooling
from hf_echo.stages.core.model_shape import new_config

LENGTHS = [3, 5, 1]


def by_hand(name: str, states: np.ndarray) -> np.ndarray:
    """The pooling of one text's states (tokens, width), without padding."""
    if name == "cls":
        return states[0]
    if name == "last":
        return states[-1]
    if name == "mean":
        return sum(states) / len(states)
    if name == "weighted_mean":
        weights = np.arange(1, len(states) + 1, dtype=np.float32)
        return sum(weight * state for weight, state in zip(weights, states)) / weights.sum()
    return states.max(axis=0)  # "max", the new pooling of these tests


@pytest.fixture
def max_pooling(monkeypatch):
    """One new entry of the table: the largest value of each dimension."""

    def largest(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        is_padding = ~mask.bool()[..., None]
        return states.masked_fill(is_padding, -torch.inf).amax(1)

    monkeypatch.setitem(POOLINGS, "max", Pooling(largest, "max", "pooling_mode_max_tokens"))


@pytest.fixture
def packs_few_tokens(monkeypatch):
    monkeypatch.setattr(packed_echo, "MIN_TOKENS", 1)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", POOLINGS)
def test_pooling_reads_no_padding(name, side):
    rng = np.random.default_rng(0)
    states = rng.normal(size=(3, 5, 4)).astype(np.float32)
    mask = np.arange(5) < np.array(LENGTHS)[:, None]
    if side == "left":
        mask = mask[:, ::-1].copy()

    pooled = POOLINGS[name].pool(torch.from_numpy(states), torch.from_numpy(mask).long())

    # Only the tokens of the text, in NumPy.
    for text in range(3):
        expected = by_hand(name, states[text][mask[text]])
        np.testing.assert_allclose(pooled[text].numpy(), expected, atol=1e-6)


def test_mean_of_a_text_without_tokens_is_zero():
    pooled = POOLINGS["mean"].pool(torch.ones(1, 3, 4), torch.zeros(1, 3, dtype=torch.long))

    assert not pooled.any()


def test_mean_of_bfloat16_states_is_summed_in_float32():
    states = torch.ones(1, 1000, 2, dtype=torch.bfloat16)  # a sum in bfloat16 would stop at 256

    pooled = POOLINGS["mean"].pool(states, torch.ones(1, 1000, dtype=torch.long))

    assert pooled.dtype == torch.float32
    assert pooled.tolist() == [[1.0, 1.0]]


def test_unknown_pooling_is_named():
    with pytest.raises(ValueError, match="shape.pooling must be one of 'cls', .*, not 'max'"):
        check_pooling("max", "shape.pooling")


@pytest.mark.parametrize("name", [*POOLINGS, "max"])
def test_packed_path_pools_as_the_encoder_does(
    make_model, batch, max_pooling, packs_few_tokens, name
):
    encoder = make_model(pooling=name).encoder
    states = encoder(**batch).last_hidden_state.detach()  # with gradients nothing is packed
    rows = [
        ids[mask.bool()].tolist() for ids, mask in zip(batch["input_ids"], batch["attention_mask"])
    ]
    expected = []
    for text_states, mask in zip(states.numpy(), batch["attention_mask"].bool().numpy()):
        pooled = torch.from_numpy(by_hand(name, text_states[mask]))
        expected.append(encoder.projection(pooled).detach())

    with torch.no_grad():
        packed = packed_encoder(encoder).embed(rows)
        padded = encoder(**batch).sentence_embedding

    torch.testing.assert_close(packed, torch.stack(expected), atol=1e-5, rtol=0)
    torch.testing.assert_close(padded, torch.stack(expected), atol=1e-5, rtol=0)


def test_new_pooling_is_exported_under_the_name_of_sentence_transformers(
    toy, max_pooling, tmp_path
):
    tokenizer = toy.plain_tokenizer()
    plain = toy.save(
        tmp_path / "plain", toy.plain_encoder(tokenizer, initializer_range=0.3), tokenizer
    )
    convert_encoder(plain, tmp_path / "echo", pooling="max")
    texts = ["the cat sleeps", "a dog"]

    export_checkpoint(tmp_path / "echo", tmp_path / "stock", to="stock")

    settings = json.loads((tmp_path / "stock" / "1_Pooling" / "config.json").read_text())
    assert settings["pooling_mode"] == "max"
    assert settings["pooling_mode_max_tokens"] is True
    assert settings["pooling_mode_mean_tokens"] is False
    # sentence-transformers opens both folders.
    ours = SentenceTransformer(str(tmp_path / "echo"), device="cpu").encode(texts)
    stock = SentenceTransformer(str(tmp_path / "stock"), device="cpu").encode(texts)
    np.testing.assert_allclose(stock, ours, atol=1e-5)


def test_new_pooling_of_a_sentence_transformer_is_read(toy, max_pooling, tmp_path):
    tokenizer = toy.plain_tokenizer()
    plain = toy.save(
        tmp_path / "plain", toy.plain_encoder(tokenizer, initializer_range=0.3), tokenizer
    )
    convert_encoder(plain, tmp_path / "echo", pooling="max")
    export_checkpoint(tmp_path / "echo", tmp_path / "stock", to="stock")

    convert_encoder(tmp_path / "stock", tmp_path / "again")

    assert EchoConfig.from_pretrained(tmp_path / "again").pooling == "max"


def test_a_new_pooling_is_a_value_of_every_recipe(max_pooling, toy_tokenizer):
    from hf_echo.steps.conversions import ConvertEncoder, ConvertLlama

    shape = {"hidden_size": 32, "num_attention_heads": 4, "pooling": "max"}
    config = new_config(shape, toy_tokenizer, [])

    assert config.pooling == "max"
    assert ConvertEncoder(source="a", output_dir="b", pooling="max").pooling == "max"
    assert ConvertLlama(source="a", output_dir="b", pooling="max").pooling == "max"


def test_pooling_of_a_command_is_checked():
    from hf_echo.steps.conversions import ConvertLlama

    with pytest.raises(
        ValueError, match="pooling must be one of 'cls', 'mean', 'last', 'weighted_mean', not 'max'"
    ):
        ConvertLlama(source="a", output_dir="b", pooling="max")
