"""EchoDecoder and EchoForTranslation: attention to one vector or all states, with and without cache."""

import pytest
import torch
from transformers.modeling_outputs import BaseModelOutput

from hf_echo.modeling import EchoDecoder, EchoDecoderConfig, EchoForTranslation
from hf_echo.modeling.modeling_echo_decoder import EchoCrossAttention

from .conftest import LANGUAGES, TEXTS

pytestmark = pytest.mark.trains

CLOSE = dict(atol=2e-5, rtol=0)
NEW_TOKENS = 8


@pytest.fixture
def seq2seq(make_model) -> EchoForTranslation:
    return make_model({"bottleneck": False})


@pytest.fixture
def prompts(tokenizer) -> dict[str, torch.Tensor]:
    """Decoder prompts of different lengths, padded on the left as generate() wants them."""
    ids = [tokenizer.decoder_prompt_ids(code) for code in LANGUAGES]
    padded = tokenizer.pad({"input_ids": ids}, padding_side="left", return_tensors="pt")
    assert not padded["attention_mask"].all()
    return {
        "decoder_input_ids": padded["input_ids"],
        "decoder_attention_mask": padded["attention_mask"],
    }


def generate(model, **kwargs) -> torch.Tensor:
    return model.generate(max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS, **kwargs)


def test_loss_by_hand(model, batch):
    targets = batch["input_ids"]
    labels = targets.masked_fill(batch["attention_mask"] == 0, -100)
    output = model(**batch, decoder_input_ids=targets, labels=labels)
    logs = output.logits.double().log_softmax(-1)
    picked = [logs[i, j, labels[i, j]] for i, j in (labels != -100).nonzero().tolist()]
    assert output.loss.item() == pytest.approx(-torch.stack(picked).mean().item(), abs=1e-5)
    bare = model(**batch, decoder_input_ids=targets, labels=labels, compute_logits=False)
    assert bare.logits is None
    assert bare.loss is None
    torch.testing.assert_close(model.decoder.lm_head(bare.decoder_hidden_state), output.logits)
    assert model(**batch).decoder_hidden_state is None


def torch_attention(short) -> torch.nn.MultiheadAttention:
    """torch's own attention with the same weights, each of the two key heads repeated for its two query heads."""

    def groups(weight: torch.Tensor) -> torch.Tensor:
        return weight.view(2, 8, -1).repeat_interleave(2, 0).flatten(0, 1)

    bias = short.q_proj.bias is not None
    full = torch.nn.MultiheadAttention(32, 4, bias=bias, batch_first=True)
    key = short.k_proj
    value = short.v_proj
    full.in_proj_weight.data = torch.cat(
        [short.q_proj.weight, groups(key.weight), groups(value.weight)]
    )
    full.out_proj.weight.data = short.o_proj.weight.data
    if bias:
        full.in_proj_bias.data = torch.cat(
            [short.q_proj.bias, *(groups(p.bias).flatten() for p in (key, value))]
        )
        full.out_proj.bias.data = short.o_proj.bias.data
    return full


def test_one_key_makes_attention_a_constant(make_model):
    """The bottleneck's shortcut equals torch's attention over a memory of one state."""
    short = (
        make_model({"bottleneck": False, "attention_bias": True}).decoder.model.layers[0].cross_attn
    )
    memory = torch.randn(5, 1, 32)
    states = torch.randn(5, 7, 32)
    want, _ = torch_attention(short)(states, memory, memory, need_weights=False)
    torch.testing.assert_close(short.constant(memory).expand(-1, 7, -1), want, **CLOSE)
    for short.config.bottleneck in (False, True):
        torch.testing.assert_close(short(states, memory)[0], want, **CLOSE)


def test_cross_attention_over_many_keys_by_hand(make_model):
    short = make_model({"bottleneck": False}).decoder.model.layers[1].cross_attn
    memory = torch.randn(2, 6, 32)
    states = torch.randn(2, 4, 32)
    padding = torch.tensor([[False] * 6, [False] * 3 + [True] * 3])
    want, _ = torch_attention(short)(
        states, memory, memory, key_padding_mask=padding, need_weights=False
    )
    torch.testing.assert_close(short(states, memory, ~padding[:, None, None])[0], want, **CLOSE)


def test_projections_start_as_inverses(make_config):
    for size in (32, 48):
        model = EchoForTranslation(make_config(embedding_size=size))
        into = model.encoder.projection.weight
        out = model.decoder.model.embedding_projection.weight
        states = torch.randn(4, 32)
        torch.testing.assert_close(states @ into.T @ out.T, states)
        torch.testing.assert_close((states @ into.T).norm(dim=1), states.norm(dim=1))
    smaller = EchoForTranslation(make_config(embedding_size=8))
    embedding = torch.randn(4, 8)
    round_trip = (
        embedding
        @ smaller.decoder.model.embedding_projection.weight.T
        @ smaller.encoder.projection.weight.T
    )
    torch.testing.assert_close(round_trip, embedding)


@pytest.mark.parametrize("beams", [1, 3])
def test_generate_from_embeddings(model, batch, prompts, beams):
    """By the whole model and by the decoder alone, the tokens that come from the ids of texts."""
    embedding = model.encoder(**batch).sentence_embedding
    ids = generate(model, **batch, **prompts, num_beams=beams)
    assert ids.shape == (len(TEXTS), prompts["decoder_input_ids"].shape[1] + NEW_TOKENS)
    assert len({tuple(row[-NEW_TOKENS:]) for row in ids.tolist()}) > 1
    for part in (model, model.decoder):
        same = generate(part, sentence_embedding=embedding, **prompts, num_beams=beams)
        assert torch.equal(same, ids)


@pytest.mark.parametrize("beams", [1, 3])
def test_generate_without_cache(model, batch, prompts, beams):
    ids = generate(model, **batch, **prompts, num_beams=beams)
    uncached = generate(model, **batch, **prompts, num_beams=beams, use_cache=False)
    assert torch.equal(uncached, ids)


@pytest.mark.parametrize("beams", [1, 3])
def test_generate_over_padded_states(seq2seq, tokenizer, batch, prompts, beams):
    ids = generate(seq2seq, **batch, **prompts, num_beams=beams)
    assert torch.equal(generate(seq2seq, **batch, **prompts, num_beams=beams, use_cache=False), ids)
    for row, (text, code) in enumerate(zip(TEXTS, LANGUAGES, strict=True)):
        alone = tokenizer(text, lang=code, return_tensors="pt")
        prompt = torch.tensor([tokenizer.decoder_prompt_ids(code)])
        one = generate(seq2seq, **alone, decoder_input_ids=prompt, num_beams=beams)
        assert torch.equal(one[0, -NEW_TOKENS:], ids[row, -NEW_TOKENS:])


def test_generate_step_by_step(model, batch):
    embedding = model.encoder(**batch).sentence_embedding
    ids = torch.full((len(TEXTS), 1), model.config.bos_token_id)
    for _ in range(NEW_TOKENS):
        logits = model.decoder(
            decoder_input_ids=ids, sentence_embedding=embedding, use_cache=False
        ).logits[:, -1]
        logits[:, model.config.eos_token_id] = -torch.inf
        ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], 1)
    start = torch.full((len(TEXTS), 1), model.config.bos_token_id)
    assert torch.equal(generate(model, sentence_embedding=embedding, decoder_input_ids=start), ids)


def test_attentions_are_recorded(seq2seq, batch):
    seq2seq.set_attn_implementation("eager")
    memory = BaseModelOutput(last_hidden_state=seq2seq.encoder(**batch).last_hidden_state)
    target = batch["input_ids"][:, :6]
    read = dict(encoder_outputs=memory, attention_mask=batch["attention_mask"])
    output = seq2seq.decoder(target, **read, output_attentions=True, output_hidden_states=True)
    assert [a.shape for a in output.decoder_attentions] == [(len(TEXTS), 4, 6, 6)] * 3
    assert [a.shape[-2:] for a in output.cross_attentions] == [(6, batch["input_ids"].shape[1])] * 3
    assert not output.cross_attentions[0].transpose(1, 3)[batch["attention_mask"] == 0].any()
    assert len(output.decoder_hidden_states) == 4


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_attention_kernels_agree(make_model, batch, attention):
    for bottleneck in (True, False):
        model = make_model({"bottleneck": bottleneck})
        want = model(**batch, decoder_input_ids=batch["input_ids"]).logits
        model.set_attn_implementation(attention)
        assert model.decoder.model.config._attn_implementation == attention
        torch.testing.assert_close(
            model(**batch, decoder_input_ids=batch["input_ids"]).logits, want, **CLOSE
        )


def test_wrong_parts(model, seq2seq, make_config):
    ids = torch.zeros(2, 3, dtype=torch.long)
    decoder = model.decoder
    many = BaseModelOutput(last_hidden_state=torch.zeros(2, 5, 24))
    other = EchoDecoder(EchoDecoderConfig(**make_config(embedding_size=16).decoder.to_dict()))
    alone = make_config()
    alone.decoder = None
    for call, message in (
        (
            lambda: decoder(ids, sentence_embedding=torch.zeros(2, 32)),
            r"=True\) reads .*, 1, 24\), .* \(2, 1, 32\)",
        ),
        (
            lambda: decoder(ids, encoder_outputs=many),
            r"reads \(batch, 1, 24\), but was given \(2, 5, 24\)",
        ),
        (
            lambda: seq2seq.decoder(ids, sentence_embedding=torch.zeros(2, 24)),
            r"=False\) reads \(batch, seq, 32\)",
        ),
        (
            lambda: EchoForTranslation.from_parts(model.encoder, other),
            "writes 24 dimensions, the decoder reads 16",
        ),
        (lambda: EchoForTranslation(alone), "needs config.decoder"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_any_encoder_with_any_decoder_of_a_space(model, make_model, batch, prompts):
    tiny = make_model(hidden_size=16, num_hidden_layers=1).encoder
    joined = EchoForTranslation.from_parts(tiny, model.decoder).eval()
    assert joined.encoder is tiny
    assert joined.decoder is model.decoder
    embedding = tiny(**batch).sentence_embedding
    assert torch.equal(
        generate(joined, **batch, **prompts),
        generate(model, sentence_embedding=embedding, **prompts),
    )
    assert not any(p.is_meta for p in joined.parameters())


def test_bottleneck_can_be_switched(model, batch, prompts):
    """Stage 1 to stage 2: the same weights with another attention mode."""
    one = generate(model, **batch, **prompts)
    model.bottleneck = False
    assert not model.decoder.model.layers[0].cross_attn.config.bottleneck
    assert not torch.equal(generate(model, **batch, **prompts), one)
    model.bottleneck = True
    assert torch.equal(generate(model, **batch, **prompts), one)
    assert isinstance(model.decoder.model.layers[0].cross_attn, EchoCrossAttention)
