"""Llama -> Echo: with causal attention and without prefix the parts compute what the Llama
computes."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
)
from transformers import PreTrainedTokenizerFast as FastTokenizer
from transformers.modeling_outputs import BaseModelOutput

from hf_echo.checkpoints import convert_llama
from hf_echo.vocabulary.normalization import clean_text

from .. import toy

TEXTS = [
    "The cat sat on the mat.",
    "Le chat dort, et le chien aussi : il est tard !",
    "Katze",
    "네 고양이 12 345",
]
WHITE_SPACE = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"
WHITE_SPACE += "".join(chr(code) for code in range(0x2000, 0x200B))
ROPE = dict(
    rope_type="llama3",
    rope_theta=500000.0,
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=16,
)
# Two Llamas that differ in all a config may say: the second has biases, a head size and a head of
# its own.
PLAIN = {"tie_word_embeddings": True}
RICH = dict(
    tie_word_embeddings=False,
    attention_bias=True,
    mlp_bias=True,
    head_dim=16,
    rope_parameters=ROPE,
    rms_norm_eps=1e-5,
    hidden_act="gelu",
)
CLOSE = dict(atol=1e-4, rtol=0)


def byte_level_tokenizer(**names: str) -> FastTokenizer:
    """A small byte-level BPE with these special tokens."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = list(dict.fromkeys(names.values()))
    options = dict(initial_alphabet=alphabet, special_tokens=special, show_progress=False)
    backend.train_from_iterator(TEXTS * 5, trainers.BpeTrainer(vocab_size=340, **options))
    return FastTokenizer(tokenizer_object=backend, **names)


def nano_llama(
    folder: Path, tokenizer: FastTokenizer, dtype=torch.float32, rows: int = 0, **changes
) -> Path:
    """A random Llama with a spread of weights that leaves no part without effect,
    and `rows` that no token has."""
    torch.manual_seed(5)
    config = LlamaConfig(
        vocab_size=len(tokenizer) + rows,
        max_position_embeddings=64,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **changes,
    )
    llama = LlamaForCausalLM(config)
    # Larger weights than the usual ones, so that every part changes the result.
    with torch.no_grad():
        for weight in llama.parameters():
            weight.add_(torch.randn_like(weight) * 0.1)
    return toy.save(folder, llama.to(dtype), tokenizer)


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Path:
    # Its bos and eos are one token, and it has more rows than its tokenizer has tokens.
    tokenizer = byte_level_tokenizer(bos_token="<|endoftext|>", eos_token="<|endoftext|>")
    return nano_llama(tmp_path_factory.mktemp("plain"), tokenizer, rows=24, **PLAIN)


@pytest.fixture(scope="module")
def rich(tmp_path_factory) -> Path:
    # It has no bos at all.
    return nano_llama(
        tmp_path_factory.mktemp("rich"), byte_level_tokenizer(eos_token="</s>"), **RICH
    )


@pytest.fixture(params=["plain", "rich"])
def source(request) -> Path:
    return request.getfixturevalue(request.param)


@pytest.fixture
def known(source) -> int:
    """The number of tokens of the Llama."""
    return len(AutoTokenizer.from_pretrained(source))


@pytest.fixture
def batch(source) -> dict[str, torch.Tensor]:
    """Ids of the Llama's own tokenizer, no prefix, padded on the right."""
    tokenizer = AutoTokenizer.from_pretrained(source)
    tokenizer.pad_token = tokenizer.eos_token
    return dict(tokenizer(TEXTS, padding=True, return_tensors="pt", return_token_type_ids=False))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_causal_encoder_is_the_llama(source, batch, attention):
    """The states of all layers."""
    llama = LlamaForCausalLM.from_pretrained(source, attn_implementation=attention).eval()
    encoder = convert_llama(source)[0].encoder
    encoder.set_attn_implementation(attention)
    encoder.config.is_causal = True

    with torch.no_grad():
        states = encoder(**batch, output_hidden_states=True).hidden_states
        expected = llama.model(**batch, output_hidden_states=True).hidden_states

    is_token = batch["attention_mask"].bool()
    assert len(states) == 4
    for state, llama_state in zip(states, expected, strict=True):
        torch.testing.assert_close(state[is_token], llama_state[is_token], **CLOSE)


def test_a_converted_encoder_sees_both_sides(source, batch):
    """The first state of a Llama has seen the first token alone."""
    llama = LlamaForCausalLM.from_pretrained(source).eval()
    encoder = convert_llama(source)[0].encoder
    with torch.no_grad():
        first = encoder(**batch).last_hidden_state[:, 0]
        causal = llama.model(**batch).last_hidden_state[:, 0]
    assert (first - causal).abs().max() > 0.1


@pytest.fixture(params=[False, True], ids=["states", "bottleneck"])
def decode(request, source, batch, known):
    """decode(cross-attention) ->
    (decoder, function of nothing that gives its logits over random memory)"""

    def convert(cross_attention: str):
        bottleneck = request.param
        options = dict(embedding_size=40, cross_attention=cross_attention, bottleneck=bottleneck)
        decoder = convert_llama(source, **options)[0].decoder
        memory = torch.randn(len(TEXTS), 1, 40) if bottleneck else torch.randn(len(TEXTS), 5, 64)
        inputs = dict(
            decoder_input_ids=batch["input_ids"],
            decoder_attention_mask=batch["attention_mask"],
            encoder_outputs=BaseModelOutput(last_hidden_state=memory),
        )
        is_token = batch["attention_mask"].bool()
        return decoder, lambda: decoder(**inputs).logits[is_token][:, :known]

    return convert


@torch.no_grad()
@pytest.mark.parametrize("cross_attention", ["copy", "random"])
def test_decoder_with_silent_cross_attention_is_the_llama(
    decode, source, batch, known, cross_attention
):
    decoder, logits = decode(cross_attention)
    loud = logits()
    for layer in decoder.model.layers:
        for parameter in layer.cross_attn.o_proj.parameters():
            parameter.zero_()

    silent = logits()

    # Without cross-attention a decoder is the language model: transformers computes the truth.
    llama = LlamaForCausalLM.from_pretrained(source).eval()
    expected = llama(**batch).logits[batch["attention_mask"].bool()][:, :known]
    torch.testing.assert_close(silent, expected, **CLOSE)
    assert (loud - expected).abs().max() > 0.01


def test_copied_cross_attention_is_the_self_attention(rich):
    """In memory of its own."""
    copied, _ = convert_llama(rich)
    for layer in copied.decoder.model.layers:
        assert torch.equal(layer.cross_attention_layernorm.weight, layer.input_layernorm.weight)
        for name, weight in layer.self_attn.named_parameters():
            cross_weight = layer.cross_attn.get_parameter(name)
            assert torch.equal(cross_weight, weight)
            assert cross_weight.data_ptr() != weight.data_ptr()


@pytest.fixture(scope="module")
def silent(rich):
    """A converted Llama whose cross-attention says nothing."""
    return convert_llama(rich, cross_attention="zero")[0]


def logits_of(model, ids: torch.Tensor) -> torch.Tensor:
    memory = BaseModelOutput(last_hidden_state=torch.randn(len(ids), 5, 64))
    return model.decoder(decoder_input_ids=ids, encoder_outputs=memory).logits


IDS = torch.tensor([[1, 50, 60, 70, 80]])


def test_cross_attention_of_output_zero_leaves_the_llama(silent, rich):
    with torch.no_grad():
        logits = logits_of(silent, IDS)
        expected = LlamaForCausalLM.from_pretrained(rich).eval()(input_ids=IDS).logits
    torch.testing.assert_close(logits[..., : expected.shape[-1]], expected, **CLOSE)


def test_cross_attention_of_output_zero_learns(silent):
    """Its output matrix at the first step, the other ones, which are copies, from the second."""
    logits_of(silent, IDS).square().mean().backward()
    for layer in silent.decoder.model.layers:
        assert torch.equal(layer.cross_attn.v_proj.weight, layer.self_attn.v_proj.weight)
        assert layer.cross_attn.o_proj.weight.grad.any()


def addresses(part) -> set[int]:
    return {parameter.data_ptr() for parameter in part.parameters()}


def test_encoder_shares_no_weight_with_the_decoder(source):
    model, _ = convert_llama(source)
    assert not addresses(model.encoder) & addresses(model.decoder)


def test_the_head_is_tied_as_before(source):
    llama = LlamaForCausalLM.from_pretrained(source)
    decoder = convert_llama(source)[0].decoder
    is_tied = decoder.lm_head.weight is decoder.model.embed_tokens.weight
    assert is_tied == llama.config.tie_word_embeddings


def test_rows_are_a_multiple_of_8(source, known):
    model, tokenizer = convert_llama(source)
    assert model.config.vocab_size % 8 == 0
    assert model.config.vocab_size >= len(tokenizer) > known


@pytest.mark.parametrize(
    ("part", "of_llama"),
    [
        ("encoder.backbone.embed_tokens", "model.embed_tokens"),
        ("decoder.model.embed_tokens", "model.embed_tokens"),
        ("decoder.lm_head", "lm_head"),
    ],
)
def test_new_rows_are_the_mean_of_the_known_ones(source, known, part, of_llama):
    llama = LlamaForCausalLM.from_pretrained(source)
    model, _ = convert_llama(source)
    old_rows = llama.get_submodule(of_llama).weight[:known]
    rows = model.get_submodule(part).weight
    # The old rows are those of the Llama; a new one starts at their mean.
    assert torch.equal(rows[:known], old_rows)
    torch.testing.assert_close(rows[known:], old_rows.mean(0).expand_as(rows[known:]))


def test_a_saved_conversion_is_that_in_memory(source, tmp_path):
    model, tokenizer = convert_llama(source, tmp_path, embedding_size=48, pooling="mean")
    opened = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    toy.assert_same(opened, model)
    assert opened.config.embedding_size == 48
    reloaded = AutoTokenizer.from_pretrained(tmp_path)
    assert reloaded(TEXTS, lang="eng_Latn").input_ids == tokenizer(TEXTS, lang="eng_Latn").input_ids
    assert reloaded.model_max_length == 512


@pytest.fixture
def full_disk(monkeypatch):
    def full(*args, **kwargs):
        raise OSError("no space left on device")

    monkeypatch.setattr("hf_echo.modeling.EchoTokenizer.save_pretrained", full)


def test_a_failed_conversion_leaves_nothing(plain, tmp_path, full_disk):
    with pytest.raises(OSError, match="no space left"):
        convert_llama(plain, tmp_path / "new", embedding_size=32)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def half(tmp_path_factory) -> Path:
    tokenizer = byte_level_tokenizer(eos_token="</s>")
    return nano_llama(tmp_path_factory.mktemp("half"), tokenizer, dtype=torch.bfloat16)


@pytest.mark.parametrize(
    ("asked", "dtype"),
    [(None, torch.bfloat16), ("float32", torch.float32), (torch.float16, torch.float16)],
)
def test_dtype_is_kept_or_asked_for(half, asked, dtype):
    model, _ = convert_llama(half, dtype=asked)
    assert {parameter.dtype for parameter in model.parameters()} == {dtype}


def test_old_ids_stay(source):
    old = AutoTokenizer.from_pretrained(source)
    _, new = convert_llama(source)
    assert old.get_vocab().items() <= new.get_vocab().items()
    added = new.get_vocab().keys() - old.get_vocab().keys()
    assert {"<CLS>", "<SEP>", "<pad>"} <= added <= {"<CLS>", "<SEP>", "<pad>", "<s>"}


def test_a_text_starts_with_a_space(source):
    """As the template prints it."""
    old = AutoTokenizer.from_pretrained(source)
    _, new = convert_llama(source)
    ids = old.encode(" The cat, 12", add_special_tokens=False)
    assert new.encode("The cat, 12", add_special_tokens=False) == ids


def test_a_llama_without_bos_begins_with_its_end(plain):
    _, tokenizer = convert_llama(plain)
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<|endoftext|>", "<|endoftext|>")


def test_ends_of_texts_are_the_llamas_own(rich):
    model, tokenizer = convert_llama(rich)
    ends = (tokenizer.bos_token_id, tokenizer.eos_token_id)
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<s>", "</s>")
    for config in (model.config, model.config.decoder, model.decoder.generation_config):
        assert (config.bos_token_id, config.eos_token_id) == ends
        assert config.pad_token_id == tokenizer.pad_token_id
    assert model.decoder.generation_config.decoder_start_token_id == tokenizer.bos_token_id


@pytest.fixture(scope="module")
def rich_tokenizer(rich):
    return convert_llama(rich)[1]


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=60))
def test_any_unicode_comes_back(rich_tokenizer, text):
    ids = rich_tokenizer.encode(text, add_special_tokens=False)
    cleaned = clean_text().normalize_str(text).strip(WHITE_SPACE)
    assert rich_tokenizer.decode(ids, skip_special_tokens=True) == cleaned


@pytest.mark.parametrize("spelling", ["<SEP>", "<CLS>", "<s>", "</s>", "<pad>", "<|endoftext|>"])
def test_text_that_spells_a_special_token_is_text(source, spelling):
    _, tokenizer = convert_llama(source)
    text = f"a {spelling}b{spelling}"
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert not set(ids) & set(tokenizer.all_special_ids)
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    *prefix, end = tokenizer("", lang="fra_Latn").input_ids
    assert tokenizer(text, lang="fra_Latn").input_ids == [*prefix, *ids, end]


@pytest.fixture(scope="module")
def llama_2(tmp_path_factory) -> Path:
    """Llama 2's kind: spaces are in the pieces, bytes a fallback,
    and `</` + `s>` merge into the token."""
    # `</` and `s>` are tokens and merge into the special one.
    special = ["<unk>", "<s>", "</s>"]
    pieces = [*special, *(f"<0x{byte:02X}>" for byte in range(256)), *"▁</s>a", "</", "s>", "▁a"]
    merges = [("<", "/"), ("s", ">"), ("</", "s>"), ("▁", "a")]
    numbers = {piece: number for number, piece in enumerate(pieces)}
    options = dict(unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    backend = Tokenizer(models.BPE(numbers, merges, **options))
    # A space becomes the mark of SentencePiece, and back.
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    backend.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in special]
    )
    names = dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    tokenizer = FastTokenizer(tokenizer_object=backend, **names)
    return nano_llama(tmp_path_factory.mktemp("llama_2"), tokenizer)


def test_a_merge_that_spells_eos_stays_text(llama_2, caplog):
    _, tokenizer = convert_llama(llama_2)
    text = "a </s> a é"
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.convert_ids_to_tokens(ids)[:5] == ["▁a", "▁", "</", "s>", "▁a"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert not caplog.records


def test_a_text_of_llama_2_begins_with_its_bos(llama_2):
    _, tokenizer = convert_llama(llama_2)
    assert tokenizer("a", lang="fra_Latn").input_ids[:2] == [tokenizer.cls_token_id, 1]


@pytest.fixture
def copy(plain, tmp_path) -> Path:
    return Path(shutil.copytree(plain, tmp_path / "copy"))


def change_config(folder: Path, **values) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def test_a_model_of_another_type_is_refused(copy):
    change_config(copy, model_type="gpt2")
    with pytest.raises(ValueError, match="is a model of type 'gpt2'"):
        convert_llama(copy)


def test_quantised_weights_are_refused(copy):
    change_config(copy, quantization_config={"quant_method": "awq"})
    with pytest.raises(ValueError, match=r"is quantised \(awq\)"):
        convert_llama(copy)


def test_a_missing_tensor_is_named(copy):
    name = "model.layers.1.mlp.up_proj.weight"
    weights = load_file(copy / "model.safetensors")
    del weights[name]
    save_file(weights, copy / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=f"1 weights missing, as {name}"):
        convert_llama(copy)


def test_a_folder_without_a_tokenizer_is_refused(copy):
    for file in copy.glob("tokenizer*"):
        file.unlink()
    with pytest.raises((ValueError, FileNotFoundError), match="AutoTokenizer cannot read"):
        convert_llama(copy)


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no config.json and 0 GGUF files"):
        convert_llama(tmp_path)


@pytest.mark.parametrize("name", ["./nowhere", "~/nowhere", "no/such/folder"])
def test_a_missing_folder_is_named(name):
    with pytest.raises(FileNotFoundError, match=f"{name} does not exist; give a folder"):
        convert_llama(name)


def test_a_file_of_another_kind_is_named(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("notes")
    with pytest.raises(ValueError, match="notes.txt is a file, and no GGUF file"):
        convert_llama(file)


def test_a_missing_file_is_named():
    with pytest.raises(FileNotFoundError, match="nowhere.gguf does not exist"):
        convert_llama("nowhere.gguf")
