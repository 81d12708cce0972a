"""The memory that a dry run computes, against the bytes that autograd keeps."""

import weakref
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from hf_echo.checkpoints.pruning.layout import layer_list
from hf_echo.losses import translation_loss
from hf_echo.modeling import (
    EchoConfig,
    EchoDecoderConfig,
    EchoEncoder,
    EchoForTranslation,
    SpectrumConfig,
    SpectrumForCausalLM,
    SpectrumModel,
)
from hf_echo.modeling.packed_echo import train_packed
from hf_echo.modeling.packing_spectrum import PackedDocument, pack, sentence_segments
from hf_echo.stages.core.adapter import AdapterSettings, add_adapter, freeze_base
from hf_echo.stages.core.plan import Stack, activation_memory
from hf_echo.stages.spectrum.dry_run_size import (
    READS_TOWER,
    PlannedBatch,
    mark_what_learns,
    stack_of_tower,
    stacks_of_spectrum,
)
from hf_echo.stages.spectrum.sentences import STAGE as SENTENCES

HIDDEN = 128
INNER = 320
TOKENS = (128, 256)
ROW = 32  # slots of a row of Spectrum's tower, tokens of a row of its token decoder
READ = 8  # slots that a row of tokens reads
SHAPE = dict(
    vocab_size=100, hidden_size=HIDDEN, intermediate_size=INNER, num_attention_heads=4, head_dim=32
)
SHAPE |= dict(num_key_value_heads=4)
BERT = {"model_type": "bert", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


ADAPTERS = {
    "lora": AdapterSettings(r=8, alpha=16),
    "queries": AdapterSettings(r=8, alpha=16, target_modules=["q_proj", "v_proj", "query"]),
    "dropout": AdapterSettings(r=8, alpha=16, dropout=0.1),
    "dora": AdapterSettings(r=8, alpha=16, use_dora=True),
}


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


def add(model: torch.nn.Module, block: str, adapter: AdapterSettings) -> None:
    """The adapter of a block that is not the decoder's; a decoder is frozen, and hands gradients on
    to the encoder."""
    names = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    modules = adapter.target_modules
    if modules is not None:
        modules = [name for name in modules if name in names]
    add_adapter(model, replace(adapter, target_modules=modules), "base")
    freeze_base(model)


def kept_of_texts(model: torch.nn.Module, tokens: int, is_half: bool) -> int:
    """Bytes that autograd keeps for the backward pass of texts of 32 tokens."""
    train_packed(model)
    ids = torch.randint(5, 100, (tokens // 32, 32))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if isinstance(model, EchoForTranslation):
        inputs |= {"decoder_input_ids": ids, "labels": ids}
    return kept_bytes(model, inputs, is_half)


def kept_of_documents(tower: SpectrumModel, slots: int, is_half: bool) -> int:
    """Bytes that autograd keeps for the backward pass of documents, each in a row of `ROW` slots."""
    positions = torch.arange(ROW).expand(slots // ROW, ROW)
    nothing = torch.zeros_like(positions)
    vectors = torch.randn(*positions.shape, tower.config.embedding_size)
    inputs = {"embeddings": vectors, "document_ids": nothing, "prefix": nothing}
    return kept_bytes(tower, inputs | {"positions": positions}, is_half)


def make_spectrum(layers: int, key_value_heads: int = 4) -> SpectrumForCausalLM:
    """A tower of one block, with so many blocks of a token decoder."""
    shape = SHAPE | {"num_key_value_heads": key_value_heads, "embedding_size": HIDDEN}
    decoder = EchoDecoderConfig(**shape, num_hidden_layers=layers, bottleneck=False)
    del shape["vocab_size"]
    return SpectrumForCausalLM(SpectrumConfig(**shape, num_hidden_layers=1, decoder=decoder))


def kept_of_written(model: SpectrumForCausalLM, tokens: int, is_half: bool) -> int:
    """Bytes that autograd keeps for the backward pass of documents of `READ` slots, each in a row
    of `ROW` tokens that read all of them."""
    rows = tokens // ROW
    positions = torch.arange(READ).expand(rows, READ)
    no_slots = torch.zeros_like(positions)
    ids = torch.randint(5, 100, (rows, ROW))
    inputs = {
        "embeddings": torch.randn(rows, READ, HIDDEN),
        "document_ids": no_slots,
        "positions": positions,
        "prefix": no_slots,
        "input_ids": ids,
        "token_documents": torch.zeros_like(ids),
        "segment_ids": torch.zeros_like(ids),
        "reads": torch.full_like(ids, READ),
        "position_ids": torch.arange(ROW).expand(rows, ROW),
        "labels": ids,
        "loss_function": translation_loss,
    }
    return kept_bytes(model.train(), inputs, is_half)


def kept_bytes(model: torch.nn.Module, inputs: dict[str, Any], is_half: bool) -> int:
    """Bytes that autograd keeps for the backward pass of a batch, without the parameters."""
    parameters = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept = weakref.WeakSet()  # what the graph drops before the backward pass is not counted

    class Kept:
        def __init__(self, tensor):
            self.tensor = tensor

    def keep(tensor):
        held = Kept(tensor.detach())  # a result would hold its own graph
        kept.add(held)
        return held

    hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda held: held.tensor)
    with hooks, torch.autocast("cpu", torch.bfloat16, enabled=is_half):
        output = model(**inputs)
    sizes = {}
    for held in kept:
        storage = held.tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            sizes[storage.data_ptr()] = storage.nbytes()
    del output
    return sum(sizes.values())


@pytest.mark.parametrize("is_half", [False, True])
@pytest.mark.parametrize(
    ("block", "adapter"),
    [
        ("llama", None),
        ("bert", None),
        ("decoder", None),
        ("llama", "lora"),
        ("bert", "lora"),
        ("decoder", "lora"),  # of the encoder; gradients go through a decoder that stays
        ("llama", "queries"),
        ("bert", "queries"),
        ("llama", "dropout"),
        ("bert", "dora"),
    ],
)
def test_activations_are_what_autograd_keeps(block, adapter, is_half):
    # Of two more blocks and of more tokens: embeddings, pooling and the copies of weights that autocast makes stay out.
    torch.manual_seed(0)
    of_blocks = []
    models = [make_model(block, layers) for layers in (1, 3)]
    for model in models:
        if adapter is not None:
            add(model, block, ADAPTERS[adapter])
    for tokens in TOKENS:
        small, large = (kept_of_texts(model, tokens, is_half) for model in models)
        of_blocks.append(large - small)
    kept = (of_blocks[1] - of_blocks[0]) / 2

    layers = models[0].decoder.model.layers if block == "decoder" else layer_list(models[0])
    args = SimpleNamespace(bf16=is_half, fp16=False, gradient_checkpointing=False)
    stack = Stack(TOKENS[1] - TOKENS[0], layers, HIDDEN, INNER, block)
    computed = activation_memory(args, [stack])

    assert computed == pytest.approx(kept, rel=0.03)


@pytest.mark.parametrize("is_half", [False, True])
@pytest.mark.parametrize("key_value_heads", [4, 2])  # two are repeated for the four of the queries
def test_activations_of_a_tower_are_what_autograd_keeps(key_value_heads, is_half):
    # As above: two more blocks, and more slots.
    of_shape = SHAPE | {"embedding_size": HIDDEN, "num_key_value_heads": key_value_heads}
    del of_shape["vocab_size"]
    towers = []
    for layers in (1, 3):
        towers.append(SpectrumModel(SpectrumConfig(**of_shape, num_hidden_layers=layers)).train())
    of_blocks = []
    for slots in TOKENS:
        small, large = (kept_of_documents(tower, slots, is_half) for tower in towers)
        of_blocks.append(large - small)
    kept = (of_blocks[1] - of_blocks[0]) / 2

    args = SimpleNamespace(bf16=is_half, fp16=False, gradient_checkpointing=False)
    stack = stack_of_tower(towers[0], TOKENS[1] - TOKENS[0], ROW)
    computed = activation_memory(args, [stack])

    assert computed == pytest.approx(kept, rel=0.03)


@pytest.mark.parametrize("is_half", [False, True])
@pytest.mark.parametrize(
    ("learns", "key_value_heads"),
    [("cross-attention", 4), ("cross-attention", 2), ("whole", 4), ("lora", 4), ("dropout", 4)],
)
def test_activations_of_a_token_decoder_are_what_autograd_keeps(learns, key_value_heads, is_half):
    # As above: two more blocks of the token decoder, and more documents.
    of_blocks = []
    models = [make_spectrum(layers, key_value_heads) for layers in (1, 3)]
    for model in models:
        mark_what_learns(model, train_decoder=learns == "whole")
        if learns in ADAPTERS:
            add_adapter(model.decoder, ADAPTERS[learns], "base", beside=READS_TOWER)
            freeze_base(model, READS_TOWER)
    for tokens in TOKENS:
        small, large = (kept_of_written(model, tokens, is_half) for model in models)
        of_blocks.append(large - small)
    kept = (of_blocks[1] - of_blocks[0]) / 2

    args = SimpleNamespace(bf16=is_half, fp16=False, gradient_checkpointing=False)
    tokens = TOKENS[1] - TOKENS[0]
    batch = PlannedBatch(slots=tokens // ROW * READ, tokens=tokens, row=ROW)
    _, of_decoder = stacks_of_spectrum(models[0], batch)
    computed = activation_memory(args, [of_decoder])

    assert computed == pytest.approx(kept, rel=0.03)


@pytest.mark.parametrize("is_half", [False, True])
def test_activations_of_a_whole_spectrum_are_what_autograd_keeps(is_half):
    """Tower, token decoder, embeddings and loss; the copies of weights that autocast makes do not
    grow with the documents."""
    model = make_spectrum(layers=6)
    mark_what_learns(model, train_decoder=False)
    small, large = (kept_of_written(model, tokens, is_half) for tokens in TOKENS)

    args = SimpleNamespace(bf16=is_half, fp16=False, gradient_checkpointing=False)
    tokens = TOKENS[1] - TOKENS[0]
    batch = PlannedBatch(slots=tokens // ROW * READ, tokens=tokens, row=ROW)
    computed = activation_memory(args, stacks_of_spectrum(model, batch))

    assert computed == pytest.approx(large - small, rel=0.15)


def test_a_planned_batch_of_sentences_has_the_tokens_of_a_packed_one():
    """Sixteen sentences of 32 tokens, which is what the plan assumes."""
    planned = make_spectrum(layers=1).config
    config = SimpleNamespace(max_length=64, max_tokens=17, max_sentences=16, row_length=0)
    batch = SENTENCES.planned_batch(planned, config)

    sentences = [[5] * 32] * 16
    segments = sentence_segments(sentences, planned.prompt_ids, end=2)
    packed = pack([PackedDocument(torch.zeros(16, HIDDEN), segments=segments)])

    assert batch.slots == packed["embeddings"].shape[1]
    assert batch.tokens == pytest.approx(packed["input_ids"].shape[1], rel=0.1)
    assert batch.row == pytest.approx(packed["input_ids"].shape[1], rel=0.1)
