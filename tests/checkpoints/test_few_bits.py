"""Weights in 8 and 4 bits: near the float32 weights, in the smallest files, opened like any others."""

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


def numpy_4_bits(stored: np.ndarray, scale: np.ndarray) -> np.ndarray:
    values = np.empty((stored.shape[0], 2 * stored.shape[1]))
    values[:, ::2], values[:, 1::2] = stored % 16, stored // 16
    return (values - 8) * np.repeat(scale.astype(np.float64), values.shape[1] // scale.shape[1], axis=1)


@pytest.mark.parametrize(("bits", "error"), [(8, 0.012), (4, 0.085)])
def test_a_matrix_comes_back_with_the_error_of_its_bits(bits, error):
    matrix = torch.randn(50, 96, generator=torch.Generator().manual_seed(0)) * torch.logspace(-3, 1, 50)[:, None]
    matrix[7] = 0
    values, scale = pack(matrix, bits)
    assert values.numel() * values.element_size() == 50 * 96 * bits // 8
    assert scale.shape == (50, 1 if bits == 8 else 3)
    after = unpack(values, scale)
    relative = (after - matrix).norm(dim=1) / matrix.norm(dim=1).clamp(min=1e-9)
    assert float(relative.mean()) < error and not after[7].any()
    if bits == 4:
        np.testing.assert_allclose(after, numpy_4_bits(values.numpy(), scale.numpy()), rtol=1e-6)
        blocks = matrix.unflatten(1, (3, 32))
        step = blocks.abs().amax(2, keepdim=True).clamp(min=1e-9) / 7  # the plain rule errs more
        assert float((after - matrix).norm()) < 0.97 * float(((blocks / step).round() * step - blocks).norm())


def test_what_is_on_the_grid_is_kept():
    grid = torch.randint(-8, 8, (40, 64), generator=torch.Generator().manual_seed(1)).float()
    grid[:, ::32] = -8
    assert torch.equal(unpack(*pack(grid * 0.25, 4)), grid * 0.25)


@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_a_release_in_few_bits_opens_like_any_other(toy, toy_tokenizer, tmp_path, kind):
    model = toy.make_model(toy_tokenizer)
    if kind == "bert":
        shape = backbone("bert", vocab_size=len(toy_tokenizer))
        torch.manual_seed(0)
        model = EchoEncoder(EchoConfig(backbone=shape, embedding_size=model.config.embedding_size))
    toy.save(tmp_path / "model", model, toy_tokenizer)
    small = release_checkpoint(tmp_path / "model", tmp_path / "small", matrix_dtype="int8", token_dtype="int4")
    assert len({file.stat().st_mode for file in small.rglob("*.*") if file.is_file()}) == 1
    stored = load_file(small / "model.safetensors")
    kinds = {name.rpartition(".")[2]: tensor.dtype for name, tensor in stored.items() if "scale" not in name}
    assert kinds["int8"] == torch.int8 and kinds["int4"] == torch.uint8
    assert not [name for name, tensor in stored.items() if name.endswith("weight") and tensor.ndim == 2]
    tokenizer = AutoTokenizer.from_pretrained(small)
    plain, opened = (AutoModel.from_pretrained(folder) for folder in (tmp_path / "model", small))
    plain = getattr(plain, "encoder", plain)
    assert {parameter.dtype for parameter in opened.parameters()} == {torch.float32}
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        before, after = (encoder.eval()(**inputs).sentence_embedding for encoder in (plain, opened))
    assert 0.98 < float(torch.nn.functional.cosine_similarity(before, after).min()) and not torch.equal(before, after)
    opened.save_pretrained(tmp_path / "again")  # plain weights, the same embeddings
    toy.assert_same(AutoModel.from_pretrained(tmp_path / "again"), opened)
    half = AutoModel.from_pretrained(small, dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in half.parameters()} == {torch.bfloat16}
    if kind == "llama":
        assert translate(*load_translator(small, dtype="fp32"), TEXTS, "eng_Latn", max_new_tokens=4)
        decoder = EchoDecoder.from_pretrained(small)
        assert torch.equal(decoder.lm_head.weight, decoder.model.embed_tokens.weight)
    else:
        assert not (small / "decoder").exists()


def test_what_a_release_in_few_bits_refuses(toy, toy_tokenizer, tmp_path):
    folders = toy.save(tmp_path / "model", toy.make_model(toy_tokenizer).encoder, toy_tokenizer), tmp_path / "out"
    with pytest.raises(ValueError, match="token_dtype is 'int2'; it must be one of int8, int4"):
        release_checkpoint(*folders, token_dtype="int2")
    with pytest.raises(ValueError, match="holds an encoder only: leave generation={'num_beams': 2} out"):
        release_checkpoint(*folders, generation={"num_beams": 2})
    small = release_checkpoint(*folders, matrix_dtype="int4")
    stored = load_file(small / "model.safetensors")
    missing = next(name for name in stored if name.endswith(".scale"))
    save_file({name: tensor for name, tensor in stored.items() if name != missing}, small / "model.safetensors")
    with pytest.raises(ValueError, match=f"the weights lack the tensor {missing.removesuffix('.scale')}"):
        AutoModel.from_pretrained(small)
