"""Token vectors in 8 bits: the same embeddings but for rounding, and they load in the dtype of the other weights."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer

from hf_echo.checkpoints.eight_bits import scale_tokens, store_tokens
from hf_echo.hub.release import release_checkpoint
from hf_echo.inference import load_translator
from hf_echo.modeling import EchoConfig, EchoEncoder

from ..modeling.test_backbones import backbone

TEXTS = ["the cat sleeps", "a dog", "two small birds"]


def embeddings(encoder, tokenizer):
    with torch.no_grad():
        return encoder.eval()(**tokenizer(TEXTS, padding=True, return_tensors="pt")).sentence_embedding.float()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("final_norm", [False, True])
def test_scaling_changes_no_embedding(toy, toy_tokenizer, final_norm, bias):
    encoder = toy.make_model(toy_tokenizer, final_norm=final_norm, attention_bias=bias, mlp_bias=bias).encoder
    for name, weight in encoder.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(weight, std=0.02)
    before = embeddings(encoder, toy_tokenizer)
    scale = scale_tokens(encoder)
    assert scale > 1 and 2 <= float(encoder.backbone.embed_tokens.weight.detach().square().mean().sqrt()) <= 4
    after = embeddings(encoder, toy_tokenizer)
    # not equal: the norms add an epsilon to the mean square, which was small before
    assert float(torch.nn.functional.cosine_similarity(after, before).min()) > 0.999


@pytest.mark.parametrize("kind", ["bert", "xlm-roberta", "qwen3"])
def test_scaling_on_other_backbones(kind):
    torch.manual_seed(0)
    encoder = EchoEncoder(EchoConfig(backbone=backbone(kind), pooling="mean", embedding_size=16)).eval()
    ids = torch.tensor([[0, 5, 6, 7, 2], [0, 8, 9, 2, 1]])
    with torch.no_grad():
        before = encoder(ids, (ids != 1).long()).sentence_embedding
        assert scale_tokens(encoder) > 1
        after = encoder(ids, (ids != 1).long()).sentence_embedding
    assert float(torch.nn.functional.cosine_similarity(after, before).min()) > 0.999


def test_release_with_8_bit_token_vectors(toy, toy_tokenizer, tmp_path):
    model = toy.make_model(toy_tokenizer)
    model.save_pretrained(tmp_path / "model")
    toy_tokenizer.save_pretrained(tmp_path / "model")
    plain = release_checkpoint(tmp_path / "model", tmp_path / "plain")
    small = release_checkpoint(tmp_path / "model", tmp_path / "small", token_dtype="fp8")
    for folder in (small, small / "decoder"):
        stored = load_file(folder / "model.safetensors")
        kinds = {name.endswith("embed_tokens.weight"): tensor.dtype for name, tensor in stored.items()}
        assert kinds == {True: torch.float8_e4m3fn, False: torch.float32}
    tokenizer = AutoTokenizer.from_pretrained(small)
    opened = [AutoModel.from_pretrained(folder) for folder in (plain, small)]
    assert {p.dtype for p in opened[1].parameters()} == {torch.float32}
    before, after = (embeddings(encoder, tokenizer) for encoder in opened)
    cosine = torch.nn.functional.cosine_similarity(before, after)
    assert float(cosine.min()) > 0.998  # rounding errors of 2.5 % in each value give about 0.9997
    assert not torch.equal(before, after)
    translator, _ = load_translator(small, dtype="fp32")
    assert {p.dtype for p in translator.parameters()} == {torch.float32}


def test_values_too_large_and_unknown_formats_are_refused(toy, toy_tokenizer, tmp_path):
    save_file({"embed_tokens.weight": torch.full((2, 2), 1000.0)}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"embed_tokens.weight holds 1000, and 8 bits end at 448"):
        store_tokens(tmp_path)
    modern = EchoEncoder(EchoConfig(backbone=backbone("modernbert"), pooling="mean"))
    with pytest.raises(ValueError, match="token vectors of a backbone of type 'modernbert' cannot be scaled"):
        scale_tokens(modern)
    toy.make_model(toy_tokenizer).save_pretrained(tmp_path / "model")
    with pytest.raises(ValueError, match="token_dtype is 'int4'; it must be one of fp8"):
        release_checkpoint(tmp_path / "model", tmp_path / "out", token_dtype="int4")
