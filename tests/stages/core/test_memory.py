"""The memory that a dry run computes, against the bytes that autograd keeps."""

from types import SimpleNamespace

import pytest
import torch

from hf_echo.modeling import EchoConfig, EchoEncoder, EchoForTranslation
from hf_echo.modeling.packed_echo import train_packed
from hf_echo.stages.core.plan import Stack, activation_memory

HIDDEN = 128
INNER = 320
TOKENS = (128, 256)
SHAPE = dict(
    vocab_size=100, hidden_size=HIDDEN, intermediate_size=INNER, num_attention_heads=4, head_dim=32
)
SHAPE |= dict(num_key_value_heads=4)
BERT = {"model_type": "bert", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def make_model(block: str, layers: int) -> torch.nn.Module:
    shape = SHAPE | {"num_hidden_layers": layers}
    if block == "bert":
        model = EchoEncoder(EchoConfig(backbone=shape | BERT, embedding_size=HIDDEN))
    elif block == "llama":
        model = EchoEncoder(EchoConfig(**shape, embedding_size=HIDDEN))
    else:
        of_encoder = SHAPE | {"num_hidden_layers": 1, "embedding_size": HIDDEN}
        config = EchoConfig(**of_encoder, decoder=shape | {"embedding_size": HIDDEN})
        model = EchoForTranslation(config)
    return model.train()


def kept_bytes(block: str, layers: int, tokens: int, is_half: bool) -> int:
    """Bytes that autograd keeps for the backward pass of a batch, without the parameters."""
    torch.manual_seed(0)
    model = make_model(block, layers)
    train_packed(model)
    parameters = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    sizes = {}
    tensors = []  # as long as they are held, no other tensor gets their address

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            sizes[storage.data_ptr()] = storage.nbytes()
            tensors.append(tensor)
        return tensor

    ids = torch.randint(5, 100, (tokens // 32, 32))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if block == "decoder":
        inputs |= {"decoder_input_ids": ids, "labels": ids}
    hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with hooks, torch.autocast("cpu", torch.bfloat16, enabled=is_half):
        model(**inputs)
    return sum(sizes.values())


@pytest.mark.parametrize("is_half", [False, True])
@pytest.mark.parametrize("block", ["llama", "bert", "decoder"])
def test_activations_are_what_autograd_keeps(block, is_half):
    # Of two more blocks and of more tokens: embeddings, pooling and the copies of weights that autocast makes stay out.
    of_blocks = []
    for tokens in TOKENS:
        small, large = (kept_bytes(block, layers, tokens, is_half) for layers in (1, 3))
        of_blocks.append(large - small)
    kept = (of_blocks[1] - of_blocks[0]) / 2

    args = SimpleNamespace(bf16=is_half, fp16=False, gradient_checkpointing=False)
    computed = activation_memory(args, [Stack(TOKENS[1] - TOKENS[0], 1, HIDDEN, INNER, block)])

    assert computed == pytest.approx(kept, rel=0.03)
