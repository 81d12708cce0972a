"""Llama -> Echo: with causal attention and without prefix the parts compute what the Llama computes."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
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
    AutoModel,
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
WHITE_SPACE = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
ROPE = dict(
    rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0
)
ROPE["original_max_position_embeddings"] = 16
# Two Llamas that differ in all a config may say: the second has biases, a head size and a head of its own.
PLAIN = {"tie_word_embeddings": True}
RICH = dict(tie_word_embeddings=False, attention_bias=True, mlp_bias=True, head_dim=16)
RICH |= dict(rope_parameters=ROPE, rms_norm_eps=1e-5, hidden_act="gelu")


def byte_level_tokenizer(**names: str) -> FastTokenizer:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = list(dict.fromkeys(names.values()))
    options = dict(initial_alphabet=alphabet, special_tokens=special, show_progress=False)
    backend.train_from_iterator(TEXTS * 5, trainers.BpeTrainer(vocab_size=340, **options))
    return FastTokenizer(tokenizer_object=backend, **names)


def nano_llama(
    folder: Path, tokenizer: FastTokenizer, dtype=torch.float32, rows=0, **changes
) -> Path:
    """A random Llama with a spread of weights that leaves no part without effect."""
    torch.manual_seed(5)
    shape = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4)
    shape["num_key_value_heads"] = 2
    ids = {
        f"{role}_token_id": getattr(tokenizer, f"{role}_token_id") for role in ("bos", "eos", "pad")
    }
    config = LlamaConfig(
        vocab_size=len(tokenizer) + rows, max_position_embeddings=64, **shape, **ids, **changes
    )
    llama = LlamaForCausalLM(config)
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


def raw_batch(source: Path) -> dict[str, torch.Tensor]:
    """Ids of the Llama's own tokenizer, no prefix, one length a text, padded on the right."""
    tokenizer = AutoTokenizer.from_pretrained(source)
    tokenizer.pad_token = tokenizer.eos_token
    return dict(tokenizer(TEXTS, padding=True, return_tensors="pt", return_token_type_ids=False))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_causal_encoder_is_the_llama(source, attention):
    llama = LlamaForCausalLM.from_pretrained(source, attn_implementation=attention).eval()
    model, _ = convert_llama(source)
    encoder = model.encoder
    encoder.set_attn_implementation(attention)
    encoder.config.is_causal = True
    padded = raw_batch(source)
    row = {"input_ids": padded["input_ids"][:1, : padded["attention_mask"][0].sum()]}
    for batch in (padded, row):
        keep = batch.get("attention_mask", torch.ones_like(batch["input_ids"])).bool()
        with torch.no_grad():
            want = llama.model(**batch, output_hidden_states=True)
            have = encoder(**batch, output_hidden_states=True)
        assert len(have.hidden_states) == len(want.hidden_states) == 4
        states = zip(have.hidden_states, want.hidden_states, strict=True)
        for h, w in [*states, (have.last_hidden_state, want.last_hidden_state)]:
            torch.testing.assert_close(h[keep], w[keep], atol=1e-4, rtol=0)
    encoder.config.is_causal = False
    with torch.no_grad():
        both_sides = encoder(**padded).last_hidden_state[:, 0]
        first = llama.model(**padded).last_hidden_state[:, 0]
    assert (both_sides - first).abs().max() > 0.1


@pytest.mark.parametrize("bottleneck", [False, True])
@pytest.mark.parametrize("cross_attention", ["copy", "random"])
def test_decoder_with_silent_cross_attention_is_the_llama(source, cross_attention, bottleneck):
    llama = LlamaForCausalLM.from_pretrained(source).eval()
    model, _ = convert_llama(
        source, embedding_size=40, cross_attention=cross_attention, bottleneck=bottleneck
    )
    batch = raw_batch(source)
    memory = torch.randn(len(TEXTS), 1, 40) if bottleneck else torch.randn(len(TEXTS), 5, 64)
    hidden = dict(
        decoder_input_ids=batch["input_ids"], decoder_attention_mask=batch["attention_mask"]
    )
    hidden["encoder_outputs"] = BaseModelOutput(last_hidden_state=memory)
    known = len(AutoTokenizer.from_pretrained(source))
    keep = batch["attention_mask"].bool()
    with torch.no_grad():
        want = llama(**batch).logits[keep][:, :known]
        loud = model.decoder(**hidden).logits[keep][:, :known]
        for layer in model.decoder.model.layers:
            for parameter in layer.cross_attn.o_proj.parameters():
                parameter.zero_()
        silent = model.decoder(**hidden).logits[keep][:, :known]
    torch.testing.assert_close(silent, want, atol=1e-4, rtol=0)
    assert (loud - want).abs().max() > 0.01


def test_copied_cross_attention_is_the_self_attention(rich):
    copied, _ = convert_llama(rich)
    for layer in copied.decoder.model.layers:
        for name, weight in layer.self_attn.named_parameters():
            torch.testing.assert_close(layer.cross_attn.get_parameter(name), weight, atol=0, rtol=0)
            assert layer.cross_attn.get_parameter(name).data_ptr() != weight.data_ptr()
        assert torch.equal(layer.cross_attention_layernorm.weight, layer.input_layernorm.weight)


def test_cross_attention_of_output_zero_leaves_the_llama(rich):
    silent, _ = convert_llama(rich, cross_attention="zero")
    batch = raw_batch(rich)
    memory = BaseModelOutput(last_hidden_state=torch.randn(len(TEXTS), 5, 64))
    logits = silent.decoder(decoder_input_ids=batch["input_ids"], encoder_outputs=memory).logits
    known = len(AutoTokenizer.from_pretrained(rich))
    with torch.no_grad():
        want = (
            LlamaForCausalLM.from_pretrained(rich)
            .eval()(input_ids=batch["input_ids"])
            .logits[..., :known]
        )
    torch.testing.assert_close(logits[..., :known], want, atol=1e-4, rtol=0)
    logits.square().mean().backward()
    for layer in silent.decoder.model.layers:
        assert torch.equal(layer.cross_attn.v_proj.weight, layer.self_attn.v_proj.weight)
        # the other matrices follow from the second step
        assert layer.cross_attn.o_proj.weight.grad.abs().max() > 0


def test_only_the_head_shares_weights_as_before(source):
    llama = LlamaForCausalLM.from_pretrained(source)
    model, _ = convert_llama(source)
    tied = model.decoder.lm_head.weight is model.decoder.model.embed_tokens.weight
    assert tied == llama.config.tie_word_embeddings
    encoder, decoder = (
        {p.data_ptr() for p in part.parameters()} for part in (model.encoder, model.decoder)
    )
    assert not encoder & decoder


def test_new_rows_are_the_mean_of_the_known_ones(source):
    llama = LlamaForCausalLM.from_pretrained(source)
    known = len(AutoTokenizer.from_pretrained(source))
    model, tokenizer = convert_llama(source)
    assert model.config.vocab_size % 8 == 0
    assert model.config.vocab_size >= len(tokenizer) > known
    for part, old in (
        (model.encoder.backbone.embed_tokens, llama.get_input_embeddings()),
        (model.decoder.model.embed_tokens, llama.get_input_embeddings()),
        (model.decoder.lm_head, llama.lm_head),
    ):
        rows = old.weight[:known]
        assert torch.equal(part.weight[:known], rows)
        mean = rows.mean(0).expand(part.weight.shape[0] - known, -1)
        torch.testing.assert_close(part.weight[known:], mean)


@pytest.mark.parametrize("cross_attention", ["copy", "random"])
def test_reload_from_disk_is_equal(source, tmp_path, cross_attention):
    options = dict(embedding_size=48, pooling="mean", cross_attention=cross_attention)
    model, tokenizer = convert_llama(source, tmp_path, **options)
    batch = tokenizer(TEXTS, lang="eng_Latn", padding=True, return_tensors="pt")
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    toy.assert_same(again, model)
    with torch.no_grad():
        want = model(**batch, decoder_input_ids=batch["input_ids"])
        have = again(**batch, decoder_input_ids=batch["input_ids"])
        alone = AutoModel.from_pretrained(tmp_path)(**batch).sentence_embedding
    assert want.sentence_embedding.shape == (len(TEXTS), 48)
    assert torch.equal(have.logits, want.logits)
    assert torch.equal(alone, want.sentence_embedding)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded(TEXTS, lang="eng_Latn").input_ids == tokenizer(TEXTS, lang="eng_Latn").input_ids
    assert loaded.model_max_length == 512


def test_a_failed_conversion_leaves_nothing(plain, tmp_path, monkeypatch):
    """An earlier conversion stays; another folder is not written to."""
    convert_llama(plain, out := tmp_path / "out", embedding_size=48)
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").write_text("a")
    with pytest.raises(ValueError, match="letters is not empty and holds no checkpoint of hf-echo"):
        convert_llama(plain, tmp_path / "letters")

    def full(*args, **kwargs):
        raise OSError("no space left on device")

    monkeypatch.setattr("hf_echo.modeling.EchoTokenizer.save_pretrained", full)
    for place in (out, tmp_path / "new"):
        pytest.raises(OSError, convert_llama, plain, place, embedding_size=32).match(
            "no space left"
        )
    assert AutoModel.from_pretrained(out).config.embedding_size == 48
    assert sorted(path.name for path in tmp_path.iterdir()) == ["letters", "out"]


def test_dtype_is_kept_or_asked_for(tmp_path):
    half = nano_llama(tmp_path, byte_level_tokenizer(eos_token="</s>"), dtype=torch.bfloat16)
    for asked, want in (
        (None, torch.bfloat16),
        ("float32", torch.float32),
        (torch.float16, torch.float16),
    ):
        model, _ = convert_llama(half, dtype=asked)
        assert {p.dtype for p in model.parameters()} == {want}


def test_old_ids_stay(source):
    old = AutoTokenizer.from_pretrained(source)
    _, new = convert_llama(source)
    assert old.get_vocab().items() <= new.get_vocab().items()
    added = set(new.get_vocab()) - set(old.get_vocab())
    assert {"<CLS>", "<SEP>", "<pad>"} <= added <= {"<CLS>", "<SEP>", "<pad>", "<s>"}
    # The text that the new one sees starts with a space, as the template prints it.
    assert new.encode("The cat, 12", add_special_tokens=False) == old.encode(
        " The cat, 12", add_special_tokens=False
    )


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
    want = clean_text().normalize_str(text).strip(WHITE_SPACE)
    assert rich_tokenizer.decode(ids, skip_special_tokens=True) == want


@pytest.mark.parametrize("spelling", ["<SEP>", "<CLS>", "<s>", "</s>", "<pad>", "<|endoftext|>"])
def test_text_that_spells_a_special_token_is_text(source, spelling):
    _, tokenizer = convert_llama(source)
    text = f"a {spelling}b{spelling}"
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert not set(ids) & set(tokenizer.all_special_ids)
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    prompted = tokenizer(text, lang="fra_Latn").input_ids
    prefix = tokenizer("", lang="fra_Latn").input_ids
    assert prompted == prefix[:-1] + ids + prefix[-1:]


def test_sentencepiece_vocabulary_with_a_merge_that_spells_eos(tmp_path, caplog):
    """Llama 2's kind: spaces are in the pieces, bytes a fallback, and `</` + `s>` merge into the token."""
    pieces = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{b:02X}>" for b in range(256)),
        *"▁</s>a",
        "</",
        "s>",
        "▁a",
    ]
    merges = [("<", "/"), ("s", ">"), ("</", "s>"), ("▁", "a")]
    numbers = {p: i for i, p in enumerate(pieces)}
    backend = Tokenizer(
        models.BPE(numbers, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    strip = decoders.Strip(" ", 1, 0)
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), strip]
    )
    backend.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in pieces[:3]])
    names = dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    source = nano_llama(tmp_path, FastTokenizer(tokenizer_object=backend, **names))
    _, tokenizer = convert_llama(source)
    assert not caplog.records
    text = "a </s> a é"
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.convert_ids_to_tokens(ids)[:5] == ["▁a", "▁", "</", "s>", "▁a"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert tokenizer("a", lang="fra_Latn").input_ids[:2] == [tokenizer.cls_token_id, 1]


def test_wrong_sources_are_named_in_one_line(plain, tmp_path):
    (tmp_path / "gpt").mkdir()
    (tmp_path / "gpt" / "config.json").write_text(
        json.dumps({"model_type": "gpt2", "vocab_size": 8})
    )
    pytest.raises(ValueError, convert_llama, tmp_path / "gpt").match("is a model of type 'gpt2'")
    (tmp_path / "empty").mkdir()
    pytest.raises(FileNotFoundError, convert_llama, tmp_path / "empty").match(
        "holds no config.json and 0 GGUF files"
    )
    pytest.raises(FileNotFoundError, convert_llama, "nowhere.gguf").match(
        "nowhere.gguf does not exist"
    )
    shutil.copytree(plain, tmp_path / "headless")
    body = LlamaForCausalLM.from_pretrained(plain).model
    (torn := body.state_dict()).pop("layers.1.mlp.up_proj.weight")
    body.save_pretrained(tmp_path / "headless", state_dict=torn)
    with pytest.raises(ValueError, match="1 weights missing, as model.layers.1.mlp.up_proj.weight"):
        convert_llama(tmp_path / "headless")
    config = json.loads((plain / "config.json").read_text()) | {
        "quantization_config": {"quant_method": "awq"}
    }
    shutil.copytree(plain, tmp_path / "packed")
    (tmp_path / "packed" / "config.json").write_text(json.dumps(config))
    pytest.raises(ValueError, convert_llama, tmp_path / "packed").match("is quantised \\(awq\\)")
    shutil.copytree(plain, tmp_path / "mute", ignore=shutil.ignore_patterns("tokenizer*"))
    pytest.raises((ValueError, FileNotFoundError), convert_llama, tmp_path / "mute").match(
        "AutoTokenizer cannot read"
    )
