"""EchoEncoder of Llama layers: outputs, pieces of a text, precision (padding and pooling: test_backbones.py)."""

from __future__ import annotations

import pytest
import torch

from hf_echo.modeling import EchoEncoder

pytestmark = pytest.mark.trains

CLOSE = dict(atol=2e-5, rtol=0)


@pytest.fixture(params=["cls", "mean"])
def encoder(request, make_model) -> EchoEncoder:
    return make_model(pooling=request.param).encoder


def embed(encoder, **batch) -> torch.Tensor:
    with torch.no_grad():
        return encoder(**batch).sentence_embedding


def test_embeddings_as_input(encoder, batch):
    states = encoder.backbone.embed_tokens(batch["input_ids"])
    again = embed(encoder, inputs_embeds=states, attention_mask=batch["attention_mask"])
    torch.testing.assert_close(again, embed(encoder, **batch))
    for wrong in ({}, {"input_ids": batch["input_ids"], "inputs_embeds": states}):
        with pytest.raises(ValueError, match="exactly one of input_ids and inputs_embeds"):
            encoder(**wrong)


def test_pieces_of_a_text_are_averaged_by_tokens(encoder, batch):
    pieces = embed(encoder, **batch)
    texts = embed(encoder, **batch, overflow_to_sample_mapping=torch.tensor([0, 0, 1, 2, 2]))
    tokens = batch["attention_mask"].sum(1, keepdim=True).float()
    for text, rows in enumerate(([0, 1], [2], [3, 4])):
        want = (pieces[rows] * tokens[rows]).sum(0) / tokens[rows].sum()
        torch.testing.assert_close(texts[text], want)


def test_without_final_norm(make_model, batch):
    """Without final norm, tokens keep their lengths in the mean; without layers it is the mean of token vectors."""
    static = make_model(pooling="mean", final_norm=False, num_hidden_layers=0).encoder
    for row, mask in enumerate(batch["attention_mask"].bool()):
        mean = static.backbone.embed_tokens.weight[batch["input_ids"][row, mask]].mean(0)
        torch.testing.assert_close(embed(static, **batch)[row], static.projection.weight @ mean, **CLOSE)


def test_gradient_checkpointing_gives_the_same_gradients(make_model, batch):
    def gradients(model):
        model.zero_grad()
        output = model(**batch, decoder_input_ids=batch["input_ids"], labels=batch["input_ids"])
        (output.loss + output.sentence_embedding.sum()).backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    for bottleneck in (True, False):
        model = make_model({"bottleneck": bottleneck}).train()
        plain = gradients(model)
        # The second name is that of transformers 5.20, the newest for Python 3.10.
        getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
        assert model.encoder.backbone.gradient_checkpointing and model.decoder.model.gradient_checkpointing
        again = gradients(model)
        assert plain.keys() == again.keys()
        for name in plain:
            torch.testing.assert_close(again[name], plain[name])


def test_compiles_without_graph_breaks(make_model, batch):
    encoder = make_model().encoder
    torch._dynamo.reset()
    compiled = torch.compile(encoder, fullgraph=True, backend="eager")
    torch.testing.assert_close(embed(compiled, **batch), embed(encoder, **batch))
    unpadded = {"input_ids": batch["input_ids"][:2, :9]}
    torch.testing.assert_close(embed(compiled, **unpadded), embed(encoder, **unpadded))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pooling": "max"}, "pooling must be one of 'cls', 'mean', 'last', not 'max'"),
        ({"embedding_size": "big"}, "embedding_size must be a positive integer, not 'big'"),
        ({"decoder": {"embedding_size": -1}}, "embedding_size must be a positive integer, not -1"),
    ],
)
def test_wrong_configurations(make_config, changes, message):
    with pytest.raises(ValueError, match=message):
        make_config(**changes)
