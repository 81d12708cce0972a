"""EchoDecoder and EchoForTranslation: attention to one vector or all states,
with and without cache."""

import pytest
import torch
from transformers.modeling_outputs import BaseModelOutput

from hf_echo.modeling import EchoDecoder, EchoDecoderConfig, EchoForTranslation

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


@pytest.fixture
def labelled(batch):
    """A batch that is to write its own texts."""
    ids = batch["input_ids"]
    labels = ids.masked_fill(batch["attention_mask"] == 0, -100)
    return batch | {"decoder_input_ids": ids, "labels": labels}


def test_loss_is_the_mean_over_labels(model, labelled):
    output = model(**labelled)
    # Cross-entropy in float64, over the tokens with a label.
    counts = labelled["labels"] != -100
    logits = output.logits.double()[counts]
    labels = labelled["labels"][counts]
    of_labels = logits.gather(1, labels[:, None])[:, 0]
    expected = (logits.exp().sum(1).log() - of_labels).mean()
    assert output.loss.item() == pytest.approx(expected.item(), abs=1e-5)


def test_states_can_be_asked_for_in_place_of_logits(model, labelled):
    logits = model(**labelled).logits
    output = model(**labelled, compute_logits=False)
    assert output.logits is None
    assert output.loss is None
    torch.testing.assert_close(model.decoder.lm_head(output.decoder_hidden_state), logits)


def test_without_a_target_nothing_is_decoded(model, batch):
    assert model(**batch).decoder_hidden_state is None


def for_each_query_head(values: torch.Tensor) -> torch.Tensor:
    """Each of two key heads of 8 dimensions repeated for its two query heads."""
    return values.unflatten(0, (2, 8)).repeat_interleave(2, 0).flatten(0, 1)


def torch_attention(short) -> torch.nn.MultiheadAttention:
    """torch's own attention with the same weights."""
    has_bias = short.q_proj.bias is not None
    full = torch.nn.MultiheadAttention(32, 4, bias=has_bias, batch_first=True)
    keys_values = (short.k_proj, short.v_proj)
    weights = [for_each_query_head(linear.weight) for linear in keys_values]
    full.in_proj_weight.data = torch.cat([short.q_proj.weight, *weights])
    full.out_proj.weight.data = short.o_proj.weight.data
    if has_bias:
        biases = [for_each_query_head(linear.bias) for linear in keys_values]
        full.in_proj_bias.data = torch.cat([short.q_proj.bias, *biases])
        full.out_proj.bias.data = short.o_proj.bias.data
    return full


@pytest.mark.parametrize("bottleneck", [False, True])
def test_one_key_makes_attention_a_constant(make_model, bottleneck):
    """The bottleneck's shortcut equals torch's attention over a memory of one state."""
    decoder = make_model({"bottleneck": bottleneck, "attention_bias": True}).decoder
    attention = decoder.model.layers[0].cross_attn
    memory = torch.randn(5, 1, 32)
    states = torch.randn(5, 7, 32)

    output, _ = attention(states, memory)

    expected, _ = torch_attention(attention)(states, memory, memory, need_weights=False)
    torch.testing.assert_close(output.expand(-1, 7, -1), expected, **CLOSE)


def test_cross_attention_over_many_keys_is_that_of_torch(seq2seq):
    attention = seq2seq.decoder.model.layers[1].cross_attn
    memory = torch.randn(2, 6, 32)
    states = torch.randn(2, 4, 32)
    is_padding = torch.arange(6) >= torch.tensor([[6], [3]])

    output, _ = attention(states, memory, ~is_padding[:, None, None])

    # torch's own module, with the same weights.
    expected, _ = torch_attention(attention)(
        states, memory, memory, key_padding_mask=is_padding, need_weights=False
    )
    torch.testing.assert_close(output, expected, **CLOSE)


def projections(config) -> tuple[torch.Tensor, torch.Tensor]:
    """Of a new model: states -> embedding, embedding -> states."""
    model = EchoForTranslation(config)
    return model.encoder.projection.weight.T, model.decoder.model.embedding_projection.weight.T


@pytest.mark.parametrize("size", [32, 48])
def test_projections_start_as_inverses(make_config, size):
    into, out = projections(make_config(embedding_size=size))
    states = torch.randn(4, 32)
    embedding = states @ into
    torch.testing.assert_close(embedding @ out, states)
    torch.testing.assert_close(embedding.norm(dim=1), states.norm(dim=1))


def test_projections_of_a_smaller_embedding_start_as_its_inverse(make_config):
    into, out = projections(make_config(embedding_size=8))
    embedding = torch.randn(4, 8)
    torch.testing.assert_close(embedding @ out @ into, embedding)


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
@pytest.mark.parametrize("bottleneck", [True, False])
def test_generate_without_cache(make_model, batch, prompts, beams, bottleneck):
    model = make_model({"bottleneck": bottleneck})
    ids = generate(model, **batch, **prompts, num_beams=beams)
    uncached = generate(model, **batch, **prompts, num_beams=beams, use_cache=False)
    assert torch.equal(uncached, ids)


@pytest.mark.parametrize("beams", [1, 3])
def test_generate_over_padded_states(seq2seq, tokenizer, batch, prompts, beams):
    """As each row alone, without padding."""
    ids = generate(seq2seq, **batch, **prompts, num_beams=beams)
    for row, (text, code) in enumerate(zip(TEXTS, LANGUAGES, strict=True)):
        inputs = tokenizer(text, lang=code, return_tensors="pt")
        prompt = torch.tensor([tokenizer.decoder_prompt_ids(code)])
        alone = generate(seq2seq, **inputs, decoder_input_ids=prompt, num_beams=beams)
        assert torch.equal(ids[row, -NEW_TOKENS:], alone[0, -NEW_TOKENS:])


def test_generate_takes_the_likeliest_token_at_each_step(model, batch):
    embedding = model.encoder(**batch).sentence_embedding
    start = torch.full((len(TEXTS), 1), model.config.bos_token_id)
    # The whole decoder again for each token, without a cache.
    expected = start
    for _ in range(NEW_TOKENS):
        output = model.decoder(expected, sentence_embedding=embedding, use_cache=False)
        logits = output.logits[:, -1]
        logits[:, model.config.eos_token_id] = -torch.inf
        expected = torch.cat([expected, logits.argmax(-1, keepdim=True)], 1)

    ids = generate(model, sentence_embedding=embedding, decoder_input_ids=start)

    assert torch.equal(ids, expected)


@pytest.fixture
def recorded(seq2seq, batch):
    """Output of the decoder for targets of six tokens, with attentions and states of all layers."""
    seq2seq.set_attn_implementation("eager")
    return seq2seq.decoder(
        batch["input_ids"][:, :6],
        encoder_outputs=seq2seq.encoder(**batch),
        attention_mask=batch["attention_mask"],
        output_attentions=True,
        output_hidden_states=True,
    )


def test_states_of_all_layers_are_recorded(recorded):
    assert len(recorded.decoder_hidden_states) == 4


def test_attentions_among_targets_are_recorded(recorded):
    shapes = [tuple(attention.shape) for attention in recorded.decoder_attentions]
    assert shapes == [(len(TEXTS), 4, 6, 6)] * 3


def test_recorded_attention_to_padding_is_0(recorded, batch):
    """(texts, heads, targets, sources)"""
    is_padding = batch["attention_mask"] == 0
    assert len(recorded.cross_attentions) == 3
    for attention in recorded.cross_attentions:
        of_sources = attention.transpose(1, 3)
        assert of_sources.shape[:2] == is_padding.shape
        assert not of_sources[is_padding].any()


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("bottleneck", [True, False])
def test_attention_kernels_agree(make_model, labelled, bottleneck, attention):
    model = make_model({"bottleneck": bottleneck})
    # The kernel that the model has by default.
    expected = model(**labelled).logits

    model.set_attn_implementation(attention)

    assert model.decoder.model.config._attn_implementation == attention
    torch.testing.assert_close(model(**labelled).logits, expected, **CLOSE)


IDS = torch.zeros(2, 3, dtype=torch.long)


def test_an_embedding_of_another_size_is_refused(model):
    with pytest.raises(ValueError, match=r"=True\) reads .*, 1, 24\), .* \(2, 1, 32\)"):
        model.decoder(IDS, sentence_embedding=torch.zeros(2, 32))


def test_many_states_in_place_of_an_embedding_are_refused(model):
    states = BaseModelOutput(last_hidden_state=torch.zeros(2, 5, 24))
    message = r"reads \(batch, 1, 24\), but was given \(2, 5, 24\)"
    with pytest.raises(ValueError, match=message):
        model.decoder(IDS, encoder_outputs=states)


def test_an_embedding_in_place_of_states_is_refused(seq2seq):
    with pytest.raises(ValueError, match=r"=False\) reads \(batch, seq, 32\)"):
        seq2seq.decoder(IDS, sentence_embedding=torch.zeros(2, 24))


def test_a_decoder_of_another_space_is_refused(model, make_config):
    config = make_config(embedding_size=16).decoder
    other = EchoDecoder(EchoDecoderConfig(**config.to_dict()))
    with pytest.raises(ValueError, match="writes 24 dimensions, the decoder reads 16"):
        EchoForTranslation.from_parts(model.encoder, other)


def test_a_configuration_without_a_decoder_is_refused(make_config):
    config = make_config()
    config.decoder = None
    with pytest.raises(ValueError, match="needs config.decoder"):
        EchoForTranslation(config)


def test_any_encoder_with_any_decoder_of_a_space(model, make_model, batch, prompts):
    tiny = make_model(hidden_size=16, num_hidden_layers=1).encoder

    joined = EchoForTranslation.from_parts(tiny, model.decoder).eval()

    assert joined.encoder is tiny
    assert joined.decoder is model.decoder
    # The other model reads the embedding of this encoder.
    embedding = tiny(**batch).sentence_embedding
    expected = generate(model, sentence_embedding=embedding, **prompts)
    assert torch.equal(generate(joined, **batch, **prompts), expected)


def test_bottleneck_can_be_switched(model, batch, prompts):
    """Stage 1 to stage 2: the same weights with another attention mode."""
    from_embeddings = generate(model, **batch, **prompts)

    model.bottleneck = False
    from_states = generate(model, **batch, **prompts)
    model.bottleneck = True

    assert not torch.equal(from_states, from_embeddings)
    assert torch.equal(generate(model, **batch, **prompts), from_embeddings)
