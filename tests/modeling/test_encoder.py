"""EchoEncoder of Llama layers: outputs, pieces of a text, precision (padding and pooling: test_backbones.py)."""

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


def test_compiles_without_graph_breaks(make_model, batch):
    encoder = make_model().encoder
    torch._dynamo.reset()
    compiled = torch.compile(encoder, fullgraph=True, backend="eager")
    torch.testing.assert_close(embed(compiled, **batch), embed(encoder, **batch))
    unpadded = {"input_ids": batch["input_ids"][:2, :9]}
    torch.testing.assert_close(embed(compiled, **unpadded), embed(encoder, **unpadded))
