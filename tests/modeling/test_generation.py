"""`greedy_decode` and `beam_decode` give the tokens of transformers' `generate`, wherever each row ends."""

import pytest
import torch

from hf_echo.modeling.beams_echo import beam_candidates, beam_decode
from hf_echo.modeling.generation_echo import greedy_decode


@pytest.fixture
def embeddings():
    torch.manual_seed(3)
    return torch.randn(40, 24) * 2


def by_generate(model, embeddings, prompt, **options):
    """New ids of each row up to the end of sentence, from transformers."""
    ends = options.get("eos_token_id", model.decoder.config.eos_token_id)
    ends = ends if isinstance(ends, list) else [ends]
    start = torch.tensor([prompt] * len(embeddings))
    ids = model.generate(
        sentence_embedding=embeddings, decoder_input_ids=start, do_sample=False, **options
    )
    rows = []
    for row in ids[:, len(prompt) :].tolist():
        cut = next((i for i, token in enumerate(row) if token in ends), len(row))
        rows.append(row[:cut])
    return rows


@pytest.fixture
def prompt(tokenizer):
    return tokenizer.decoder_prompt_ids("eng_Latn")


LLAMA3_ROPE = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0}
LLAMA3_ROPE |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 64}
ONE_LAYER = {"decoder": {"num_hidden_layers": 1}}
UNTIED = {"decoder": {"tie_word_embeddings": False}}


@pytest.mark.parametrize(
    "changes", [{}, ONE_LAYER, {"num_key_value_heads": 4}, UNTIED, {"rope_parameters": LLAMA3_ROPE}]
)
def test_greedy_is_generate(make_model, embeddings, prompt, changes):
    model = make_model(**changes)
    want = by_generate(model, embeddings, prompt, max_new_tokens=12)
    assert greedy_decode(model.decoder, embeddings, prompt, max_new_tokens=12) == want
    assert len({tuple(row) for row in want}) > 10


def test_rows_that_end_at_different_times(make_model, embeddings, prompt):
    """Any token may be the end of sentence: a dozen tokens in turn, then all of them."""
    model = make_model()
    with torch.no_grad():
        for weight in model.decoder.parameters():
            weight.mul_(3)  # restless: without it an untrained model soon writes one token for ever
    free = by_generate(model, embeddings, prompt, max_new_tokens=20)
    often = torch.tensor(free).flatten().bincount().topk(40).indices.tolist()
    lengths = set()
    for ends in (often[:1], often[:10], often):
        want = by_generate(model, embeddings, prompt, max_new_tokens=20, eos_token_id=ends)
        model.decoder.generation_config.eos_token_id = ends  # Llama 3 has several
        assert greedy_decode(model.decoder, embeddings, prompt, max_new_tokens=20) == want
        lengths |= {len(row) for row in want}
        one = by_generate(model, embeddings, prompt, max_new_tokens=20, eos_token_id=ends[0])
        assert (
            greedy_decode(
                model.decoder, embeddings, prompt, max_new_tokens=20, eos_token_id=ends[0]
            )
            == one
        )
    assert len(lengths) > 6
    assert 20 in lengths
    everything = list(range(model.config.vocab_size))
    assert greedy_decode(model.decoder, embeddings, prompt, eos_token_id=everything) == [[]] * len(
        embeddings
    )


def test_rows_do_not_depend_on_their_company(make_model, embeddings, prompt):
    model = make_model().double()
    embeddings = embeddings.double()
    for decode, options in ((greedy_decode, {}), (beam_decode, {"num_beams": 3})):
        whole = decode(model.decoder, embeddings, prompt, max_new_tokens=10, **options)
        alone = [
            decode(model.decoder, row[None], prompt, max_new_tokens=10, **options)[0]
            for row in embeddings
        ]
        assert whole == alone
        assert decode(model.decoder, embeddings[:0], prompt, **options) == []


def test_prompts_of_any_length(make_model, embeddings, prompt, tokenizer):
    model = make_model()
    long = prompt * 5
    assert len(long) * len(embeddings) > 2048  # read in several parts
    for start in (prompt[:1], tokenizer.decoder_prompt_ids("fra_Latn", "back_translation"), long):
        want = by_generate(model, embeddings, start, max_new_tokens=5)
        assert greedy_decode(model.decoder, embeddings, start, max_new_tokens=5) == want


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_ngram_twice(make_model, embeddings, prompt, size):
    """As in `generate`, by an argument or by the checkpoint's own generation config."""
    model = make_model()
    free = greedy_decode(model.decoder, embeddings, prompt, max_new_tokens=20)
    want = by_generate(model, embeddings, prompt, max_new_tokens=20, no_repeat_ngram_size=size)
    assert want != free
    options = dict(max_new_tokens=20, no_repeat_ngram_size=size)
    assert greedy_decode(model.decoder, embeddings, prompt, **options) == want
    model.generation_config.no_repeat_ngram_size = size
    assert greedy_decode(model.decoder, embeddings, prompt, max_new_tokens=20) == want
    assert (
        greedy_decode(model.decoder, embeddings, prompt, max_new_tokens=20, no_repeat_ngram_size=0)
        == free
    )


def test_what_it_cannot_do(make_model, embeddings, prompt):
    model = make_model()
    with pytest.raises(ValueError, match=r"reads \(batch, 1, 24\), but was given \(40, 1, 23\)"):
        greedy_decode(model.decoder, embeddings[:, 1:], prompt)
    model.bottleneck = False
    with pytest.raises(ValueError, match=r"reads tokens \(stage 1\).*use generate\(\)"):
        greedy_decode(model.decoder, embeddings, prompt)


@pytest.mark.parametrize(
    "num_beams, settings",
    [
        (2, {}),
        (5, {}),
        (5, {"no_repeat_ngram_size": 2}),
        (5, {"length_penalty": 0.2}),
        (5, {"length_penalty": 3.0}),
        (5, {"early_stopping": True}),
        (5, {"early_stopping": "never", "length_penalty": 2.0}),
    ],
)
def test_beams_are_those_of_generate(make_model, embeddings, prompt, num_beams, settings):
    """With frequent ends of sentence, so that beams finish at all steps; weights in float64 round alike in both."""
    model = make_model().double()
    embeddings = embeddings[:16].double()
    model.generation_config.update(**settings)
    with torch.no_grad():
        for weight in model.decoder.parameters():
            weight.mul_(3)
    free = by_generate(model, embeddings, prompt, max_new_tokens=15)
    often = torch.tensor(free).flatten().bincount().topk(8).indices.tolist()
    lengths = set()
    for ends in (often[:1], often):
        common = dict(max_new_tokens=15, num_beams=num_beams, eos_token_id=ends)
        want = by_generate(model, embeddings, prompt, **common)
        assert beam_decode(model.decoder, embeddings, prompt, **common) == want
        all_beams, scores = beam_candidates(model.decoder, embeddings, prompt, **common)
        made = by_generate(model, embeddings, prompt, num_return_sequences=num_beams, **common)
        exists = scores.flatten().isfinite().tolist()
        flat = [beam for row in all_beams for beam in row]
        assert [b for b, there in zip(flat, exists) if there] == [
            b for b, there in zip(made, exists) if there
        ]
        assert settings.get("early_stopping") is True or all(exists)
        lengths |= {len(row) for row in want}
    assert len(lengths) > 3
