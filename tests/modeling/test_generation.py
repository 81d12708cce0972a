"""`greedy_decode` and `beam_decode` give the tokens of transformers' `generate`,
wherever each row ends."""

from collections import Counter
from itertools import chain, compress, takewhile

import pytest
import torch

from hf_echo.modeling.beams_echo import beam_candidates, beam_decode
from hf_echo.modeling.generation_echo import greedy_decode


@pytest.fixture
def embeddings():
    torch.manual_seed(3)
    return torch.randn(40, 24) * 2


def by_generate(model, embeddings, prompt, **options) -> list[list[int]]:
    """New ids of each row up to the end of sentence, from transformers."""
    ends = options.get("eos_token_id", model.decoder.config.eos_token_id)
    if isinstance(ends, int):
        ends = [ends]
    prompts = torch.tensor([prompt] * len(embeddings))
    ids = model.generate(
        sentence_embedding=embeddings, decoder_input_ids=prompts, do_sample=False, **options
    )
    rows = []
    for row in ids[:, len(prompt) :].tolist():
        rows.append(list(takewhile(lambda token: token not in ends, row)))
    return rows


def most_frequent(rows: list[list[int]], count: int) -> list[int]:
    """Tokens of the rows, the most frequent one first."""
    return [token for token, _ in Counter(chain(*rows)).most_common(count)]


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
    expected = by_generate(model, embeddings, prompt, max_new_tokens=12)
    assert greedy_decode(model.decoder, embeddings, prompt, max_new_tokens=12) == expected
    assert len({tuple(row) for row in expected}) > 10


@pytest.fixture
def restless(make_model):
    """A model without training that does not write one token for ever."""
    model = make_model()
    with torch.no_grad():
        for weight in model.decoder.parameters():
            weight.mul_(3)
    return model


@pytest.fixture
def often(restless, embeddings, prompt) -> list[int]:
    """The tokens that it writes most."""
    return most_frequent(by_generate(restless, embeddings, prompt, max_new_tokens=20), 40)


@pytest.mark.parametrize("count", [1, 10, 40])
def test_rows_that_end_at_different_times(restless, embeddings, prompt, often, count):
    """Any token may be the end of sentence, or several, as in Llama 3."""
    options = dict(max_new_tokens=20, eos_token_id=often[:count])
    rows = greedy_decode(restless.decoder, embeddings, prompt, **options)
    assert rows == by_generate(restless, embeddings, prompt, **options)
    assert len({len(row) for row in rows}) > 2


def test_the_end_of_sentence_is_that_of_the_checkpoint(restless, embeddings, prompt, often):
    restless.decoder.generation_config.eos_token_id = often[:10]
    rows = greedy_decode(restless.decoder, embeddings, prompt, max_new_tokens=20)
    options = dict(max_new_tokens=20, eos_token_id=often[:10])
    assert rows == greedy_decode(restless.decoder, embeddings, prompt, **options)


def test_rows_may_end_at_once(restless, embeddings, prompt):
    every_token = list(range(restless.config.vocab_size))
    rows = greedy_decode(restless.decoder, embeddings, prompt, eos_token_id=every_token)
    assert rows == [[]] * len(embeddings)


DECODERS = [(greedy_decode, {}), (beam_decode, {"num_beams": 3})]


@pytest.mark.parametrize(("decode", "options"), DECODERS)
def test_rows_do_not_depend_on_their_company(make_model, embeddings, prompt, decode, options):
    decoder = make_model().double().decoder
    options = options | {"max_new_tokens": 10}
    rows = embeddings.double()
    alone = [decode(decoder, row[None], prompt, **options)[0] for row in rows]
    assert decode(decoder, rows, prompt, **options) == alone


@pytest.mark.parametrize(("decode", "options"), DECODERS)
def test_no_rows_are_no_translations(make_model, embeddings, prompt, decode, options):
    assert decode(make_model().decoder, embeddings[:0], prompt, **options) == []


@pytest.mark.parametrize(("tokens", "times"), [(1, 1), (None, 5)])
def test_prompts_of_any_length(make_model, embeddings, prompt, tokens, times):
    """One token; of 40 rows a long prompt is read in several parts."""
    model = make_model()
    sized_prompt = prompt[:tokens] * times
    rows = greedy_decode(model.decoder, embeddings, sized_prompt, max_new_tokens=5)
    assert rows == by_generate(model, embeddings, sized_prompt, max_new_tokens=5)


@pytest.fixture(params=[1, 2, 3])
def without_repetition(request, make_model, embeddings, prompt):
    """(model, size of n-grams that come once, rows of transformers)"""
    model = make_model()
    options = dict(max_new_tokens=20, no_repeat_ngram_size=request.param)
    return model, request.param, by_generate(model, embeddings, prompt, **options)


def test_no_ngram_twice(without_repetition, embeddings, prompt):
    model, size, expected = without_repetition
    options = dict(max_new_tokens=20, no_repeat_ngram_size=size)
    assert greedy_decode(model.decoder, embeddings, prompt, **options) == expected


def test_no_ngram_twice_by_the_generation_config(without_repetition, embeddings, prompt):
    model, size, expected = without_repetition
    model.generation_config.no_repeat_ngram_size = size
    assert greedy_decode(model.decoder, embeddings, prompt, max_new_tokens=20) == expected


def test_a_call_may_repeat_ngrams(without_repetition, embeddings, prompt):
    model, size, expected = without_repetition
    # The model's own setting off, then a call that turns it off.
    free = greedy_decode(model.decoder, embeddings, prompt, max_new_tokens=20)
    assert free != expected
    model.generation_config.no_repeat_ngram_size = size
    options = dict(max_new_tokens=20, no_repeat_ngram_size=0)
    assert greedy_decode(model.decoder, embeddings, prompt, **options) == free


def test_a_decoder_that_reads_tokens_is_refused(make_model, embeddings, prompt):
    model = make_model()
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
@pytest.mark.parametrize("count", [1, 8])
def test_beams_are_those_of_generate(restless, embeddings, prompt, num_beams, settings, count):
    """With frequent ends of sentence, so that beams finish at all steps;
    weights in float64 round alike in both."""
    model = restless.double()
    embeddings = embeddings[:16].double()
    model.generation_config.update(**settings)
    ends = most_frequent(by_generate(model, embeddings, prompt, max_new_tokens=15), count)
    options = dict(max_new_tokens=15, num_beams=num_beams, eos_token_id=ends)

    best = beam_decode(model.decoder, embeddings, prompt, **options)

    assert best == by_generate(model, embeddings, prompt, **options)
    # Every beam, not the best one alone; some may not exist where decoding stops early.
    beams, scores = beam_candidates(model.decoder, embeddings, prompt, **options)
    expected = by_generate(model, embeddings, prompt, num_return_sequences=num_beams, **options)
    exists = scores.flatten().isfinite().tolist()
    assert list(compress(chain(*beams), exists)) == list(compress(expected, exists))
    assert settings.get("early_stopping") is True or all(exists)
