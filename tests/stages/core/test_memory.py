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
    EchoSpeechConfig,
    EchoSpeechEncoder,
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
from hf_echo.stages.speech.speech_shape import freeze_layers, kept_of_audio, new_config

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


# Speech. Attention without dropout keeps no scores on a processor, as with dropout on a GPU.

LAYERS = dict(hidden_size=64, intermediate_size=128, num_attention_heads=4, attention_dropout=0.0)
WAV2VEC2 = LAYERS | dict(model_type="wav2vec2", layerdrop=0.0, apply_spec_augment=False)
WAV2VEC2 |= dict(conv_dim=[32] * 7, num_conv_pos_embedding_groups=4)
STABLE = dict(do_stable_layer_norm=True, feat_extract_norm="layer", conv_bias=True)
CONFORMER = dict(model_type="seamless_m4t", hidden_size=64, speech_encoder_intermediate_size=128)
CONFORMER |= dict(speech_encoder_attention_heads=4, speech_encoder_layerdrop=0.0)
WHISPER = dict(model_type="whisper", d_model=64, encoder_ffn_dim=128, encoder_attention_heads=4)
W2V_BERT = LAYERS | dict(model_type="wav2vec2-bert", layerdrop=0.0, apply_spec_augment=False)
# (audio model, field of its layers, what it reads of two seconds: shape of a row)
AUDIO_MODELS = {
    "wav2vec2": (WAV2VEC2, "num_hidden_layers", (32_000,)),
    "wav2vec2 stable": (WAV2VEC2 | STABLE, "num_hidden_layers", (32_000,)),
    "wav2vec2-bert": (W2V_BERT, "num_hidden_layers", (100, 160)),
    "conformer": (CONFORMER, "speech_encoder_layers", (100, 160)),
    "whisper": (WHISPER | dict(attention_dropout=0.0), "encoder_layers", (200, 80)),
}


def speech_config(kind: str, layers: int) -> EchoSpeechConfig:
    audio, field, _ = AUDIO_MODELS[kind]
    pooler = dict(pooler_layers=1, pooler_heads=4, pooler_intermediate_size=128)
    return new_config({"audio_config": dict(audio) | {field: layers}} | pooler)


def computed_of_speech(kind: str, layers: int, frozen_layers: int, **fields) -> float:
    """Of 8 seconds, in four rows of two."""
    with torch.device("meta"):
        model = EchoSpeechEncoder(speech_config(kind, layers))
    freeze_layers(model, frozen_layers)
    args = dict(bf16=False, fp16=False, gradient_checkpointing=False)
    args |= dict(max_seconds=8.0, longest=2.0, max_rows=None)
    return kept_of_audio(model, SimpleNamespace(**args | fields))


@pytest.mark.parametrize("is_half", [False, True])
@pytest.mark.parametrize("frozen_layers", [0, 2, -1])
@pytest.mark.parametrize("kind", AUDIO_MODELS)
def test_activations_of_speech_are_what_autograd_keeps(kind, frozen_layers, is_half):
    model = EchoSpeechEncoder(speech_config(kind, layers=3)).train()
    freeze_layers(model, frozen_layers)
    for part in model.modules():  # as training does
        learns = [parameter.requires_grad for parameter in part.parameters()]
        if learns and not any(learns):
            part.eval()
    row = AUDIO_MODELS[kind][2]
    name = "input_values" if len(row) == 1 else "input_features"
    inputs = {name: torch.zeros(4, *row), "attention_mask": torch.ones(4, row[0]).long()}
    kept = kept_bytes(model, inputs, is_half)

    computed = computed_of_speech(kind, 3, frozen_layers, bf16=is_half)

    assert computed == pytest.approx(kept, rel=0.15)


@pytest.mark.parametrize("kind", AUDIO_MODELS)
def test_checkpointed_layers_of_speech_keep_their_inputs(kind):
    """Of each further layer one vector of 64 numbers in float32 for each of the frames."""
    frames = 4 * (99 if len(AUDIO_MODELS[kind][2]) == 1 else 100)
    checkpointed = [
        computed_of_speech(kind, layers, 0, gradient_checkpointing=True) for layers in (2, 4)
    ]
    plain = computed_of_speech(kind, 4, 0)

    assert checkpointed[1] - checkpointed[0] == pytest.approx(2 * 4 * 64 * frames, rel=0.01)
    assert checkpointed[1] < plain
