"""Weights in 8 and 4 bits: near the float32 weights, in the smallest files,
opened like any others."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer

from hf_echo.checkpoints.few_bits import pack
from hf_echo.hub.release import release_checkpoint
from hf_echo.inference import load_translator, translate
from hf_echo.modeling import EchoConfig, EchoDecoder, EchoEncoder
from hf_echo.modeling.few_bits_echo import unpack

from ..modeling.test_backbones import backbone

TEXTS = ["the cat sleeps", "a dog", "two small birds"]


def random_matrix() -> torch.Tensor:
    """(50, 96): rows of very different sizes, and one of zeros."""
    values = torch.randn(50, 96, generator=torch.Generator().manual_seed(0))
    matrix = values * torch.logspace(-3, 1, 50)[:, None]
    matrix[7] = 0
    return matrix


def numpy_4_bits(stored: np.ndarray, scale: np.ndarray) -> np.ndarray:
    values = np.empty((stored.shape[0], 2 * stored.shape[1]))
    values[:, ::2] = stored % 16
    values[:, 1::2] = stored // 16
    scale_of_value = np.repeat(scale.astype(np.float64), values.shape[1] // scale.shape[1], axis=1)
    return (values - 8) * scale_of_value


@pytest.mark.parametrize(("bits", "error"), [(8, 0.012), (4, 0.085)])
def test_a_matrix_comes_back_with_the_error_of_its_bits(bits, error):
    matrix = random_matrix()

    unpacked = unpack(*pack(matrix, bits))

    relative = (unpacked - matrix).norm(dim=1) / matrix.norm(dim=1).clamp(min=1e-9)
    assert float(relative.mean()) < error
    assert not unpacked[7].any()


@pytest.mark.parametrize(("bits", "blocks"), [(8, 1), (4, 3)])
def test_a_value_takes_its_bits(bits, blocks):
    values, scale = pack(random_matrix(), bits)

    assert values.numel() * values.element_size() == 50 * 96 * bits // 8
    assert scale.shape == (50, blocks)


def test_4_bits_are_low_half_then_high_half_of_a_byte():
    values, scale = pack(random_matrix(), 4)

    expected = numpy_4_bits(values.numpy(), scale.numpy())
    np.testing.assert_allclose(unpack(values, scale), expected, rtol=1e-6)


def test_the_scale_errs_less_than_that_of_the_largest_value():
    matrix = random_matrix()
    blocks = matrix.unflatten(1, (3, 32))
    step = blocks.abs().amax(2, keepdim=True).clamp(min=1e-9) / 7
    plain_error = ((blocks / step).round() * step - blocks).norm()

    error = (unpack(*pack(matrix, 4)) - matrix).norm()

    assert float(error) < 0.97 * float(plain_error)


def test_what_is_on_the_grid_is_kept():
    grid = torch.randint(-8, 8, (40, 64), generator=torch.Generator().manual_seed(1)).float()
    grid[:, ::32] = -8
    assert torch.equal(unpack(*pack(grid * 0.25, 4)), grid * 0.25)


@pytest.fixture(params=["llama", "bert"])
def released(request, toy, toy_tokenizer, tmp_path):
    """(folder of a model, of its release with matrices in 8 and token vectors in 4 bits)."""
    model = toy.make_model(toy_tokenizer)
    if request.param == "bert":
        shape = backbone("bert", vocab_size=len(toy_tokenizer))
        torch.manual_seed(0)
        model = EchoEncoder(EchoConfig(backbone=shape, embedding_size=model.config.embedding_size))
    folder = toy.save(tmp_path / "model", model, toy_tokenizer)
    small = release_checkpoint(folder, tmp_path / "small", matrix_dtype="int8", token_dtype="int4")
    return folder, small


def test_a_release_stores_every_matrix_in_few_bits(released):
    _, small = released
    dtypes = {"int8": set(), "int4": set()}
    for name, tensor in load_file(small / "model.safetensors").items():
        suffix = name.rpartition(".")[2]
        if suffix in dtypes:
            dtypes[suffix].add(tensor.dtype)
        else:
            assert tensor.ndim < 2 or suffix == "scale"
    assert dtypes == {"int8": {torch.int8}, "int4": {torch.uint8}}


def test_all_files_of_a_release_have_the_same_rights(released):
    _, small = released
    assert len({file.stat().st_mode for file in small.rglob("*.*") if file.is_file()}) == 1


def test_a_release_in_few_bits_encodes_nearly_as_its_model(released):
    folder, small = released
    plain = AutoModel.from_pretrained(folder)
    plain = getattr(plain, "encoder", plain).eval()
    opened = AutoModel.from_pretrained(small).eval()
    inputs = AutoTokenizer.from_pretrained(small)(TEXTS, padding=True, return_tensors="pt")

    with torch.no_grad():
        before = plain(**inputs).sentence_embedding
        after = opened(**inputs).sentence_embedding

    assert float(torch.nn.functional.cosine_similarity(before, after).min()) > 0.98
    assert not torch.equal(before, after)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_release_in_few_bits_opens_in_any_precision(released, dtype):
    _, small = released
    opened = AutoModel.from_pretrained(small, dtype=dtype)
    assert {parameter.dtype for parameter in opened.parameters()} == {dtype}


def test_a_release_in_few_bits_is_saved_as_plain_weights(released, toy, tmp_path):
    _, small = released
    opened = AutoModel.from_pretrained(small)

    opened.save_pretrained(tmp_path / "again")

    toy.assert_same(AutoModel.from_pretrained(tmp_path / "again"), opened)


@pytest.mark.parametrize("released", ["llama"], indirect=True)
def test_the_decoder_of_a_release_in_few_bits_writes(released):
    _, small = released
    assert translate(*load_translator(small, dtype="fp32"), TEXTS, "eng_Latn", max_new_tokens=4)
    decoder = EchoDecoder.from_pretrained(small)
    assert torch.equal(decoder.lm_head.weight, decoder.model.embed_tokens.weight)


@pytest.mark.parametrize("released", ["bert"], indirect=True)
def test_an_encoder_in_few_bits_has_no_decoder(released):
    _, small = released
    assert not (small / "decoder").exists()


@pytest.fixture
def encoder_folder(toy, toy_tokenizer, tmp_path):
    return toy.save(tmp_path / "model", toy.make_model(toy_tokenizer).encoder, toy_tokenizer)


def test_generation_of_an_encoder_is_refused(encoder_folder, tmp_path):
    message = "holds an encoder only: leave generation={'num_beams': 2} out"
    with pytest.raises(ValueError, match=message):
        release_checkpoint(encoder_folder, tmp_path / "out", generation={"num_beams": 2})


def test_a_file_without_a_scale_is_refused(encoder_folder, tmp_path):
    small = release_checkpoint(encoder_folder, tmp_path / "out", matrix_dtype="int4")
    tensors = load_file(small / "model.safetensors")
    missing = next(name for name in tensors if name.endswith(".scale"))
    del tensors[missing]
    save_file(tensors, small / "model.safetensors")
    with pytest.raises(
        ValueError, match=f"the weights lack the tensor {missing.removesuffix('.scale')}"
    ):
        AutoModel.from_pretrained(small)
