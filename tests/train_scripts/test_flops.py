"""FLOPs against torch's own counter on real models, the papers' parameter counts and figures;
the speed's sums."""

import json
import time

import flops
import numpy as np
import pytest
import torch
from flops import LLAMA_3B, LLAMA_8B, OMNISONAR, SPECTRUM_TOWER, Stack, cost_grid
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, LlamaConfig, LlamaForCausalLM
from transformers.modeling_outputs import BaseModelOutput

from hf_echo.evaluation.benchmarks.speed import MEBIBYTE, measure_speed, peak_memory
from hf_echo.modeling import EchoConfig, EchoDecoder, EchoDecoderConfig, EchoEncoder

from ..refusals import refusals

SIZES = dict(
    vocab_size=50,
    hidden_size=48,
    intermediate_size=80,
    num_hidden_layers=3,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=8,
    pad_token_id=0,
    attn_implementation="eager",
)


def counted(call) -> int:
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        call()
    return counter.get_total_flops()


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("tokens", [1, 17])
def test_encoder_is_what_torch_counts(tokens, pooling):
    config = EchoConfig(**SIZES, embedding_size=40, pooling=pooling)
    model = EchoEncoder(config).eval()
    batch = torch.ones(2, tokens, dtype=torch.long)
    expected = counted(lambda: model(batch, attention_mask=torch.ones_like(batch)))
    assert 2 * flops.encoder_flops(Stack.of(config), tokens) == expected


def generate(model, prompt: int, output: int, ids: str = "decoder_input_ids", **memory) -> None:
    """Greedy decoding by hand: one token at a time, with a cache,
    the head at written tokens only."""
    cache = None
    for i in range(prompt + output - 1):
        keep = torch.tensor([0] if i >= prompt - 1 else [], dtype=torch.long)
        step = {ids: torch.ones(1, 1, dtype=torch.long), "logits_to_keep": keep, **memory}
        cache = model(**step, past_key_values=cache, use_cache=True).past_key_values


def test_the_decoder_is_what_torch_counts():
    config = EchoDecoderConfig(**SIZES, embedding_size=40, bottleneck=False)
    model = EchoDecoder(config).eval()
    memory = BaseModelOutput(last_hidden_state=torch.randn(1, 11, 48))

    flops_of_torch = counted(lambda: generate(model, 3, 6, encoder_outputs=memory))

    assert flops.decoder_flops(Stack.of(config), 6, prompt=3, memory=11) == flops_of_torch


def test_a_decoder_without_memory_is_what_torch_counts():
    config = LlamaConfig(**SIZES)
    model = LlamaForCausalLM(config).eval()

    flops_of_torch = counted(lambda: generate(model, 5, 4, "input_ids"))

    assert flops.decoder_flops(Stack.of(config), 4, prompt=5) == flops_of_torch


@pytest.mark.parametrize(
    "stack, millions, digits",
    [
        (OMNISONAR, 1500, 30),
        (Stack(14, 1792, 7168, 28, 7, 64, 128_232, 1024), 884, 1),
        (Stack(12, 1536, 6144, 24, 6, 64, 64_232, 1024), 511, 1),
        (Stack(10, 1152, 4608, 18, 6, 64, 32_232, 1024), 233, 1),
        (Stack(8, 512, 2048, 16, 4, 32, 16_232, 1024), 39, 1),
    ],
)
def test_shapes_of_table_36_have_the_parameters_that_os_6_names(stack, millions, digits):
    weights = stack.layers * stack.layer_weights + stack.hidden * (
        stack.vocabulary + stack.embedding
    )
    assert weights / 1e6 == pytest.approx(millions, abs=digits)


def test_the_tower_has_five_billion_parameters():
    assert SPECTRUM_TOWER.layers * SPECTRUM_TOWER.layer_weights / 1e9 == pytest.approx(5, abs=0.2)


@pytest.mark.parametrize(
    "stack, heads, billions", [(LLAMA_3B, 1, 3.21), (LLAMA_8B, 2, 8.03)]
)  # the head of 3B is tied
def test_llamas_have_their_parameters(stack, heads, billions):
    weights = stack.layers * stack.layer_weights + heads * stack.hidden * stack.vocabulary
    assert weights / 1e9 == pytest.approx(billions, abs=0.01)


@pytest.fixture(
    scope="module", params=[(LLAMA_3B, 1.9, 3.0), (LLAMA_8B, 4.5, 6.5)], ids=["3B", "8B"]
)
def long_documents(request):
    """The grid of long documents with moderate outputs, and between which ratios it lies."""
    stack, low, high = request.param
    return cost_grid([2048, 4096, 8192], [64, 128, 256], baseline=stack), low, high


def test_figure_8_two_to_six_times_fewer_on_long_documents(long_documents):
    grid, low, high = long_documents
    assert low < grid.ratio.min()
    assert grid.ratio.max() < high


def test_the_gain_grows_with_the_document(long_documents):
    assert (np.diff(long_documents[0].ratio, axis=0) > 0).all()


def test_the_gain_falls_with_the_output(long_documents):
    assert (np.diff(long_documents[0].ratio, axis=1) < 0).all()


def test_the_ratio_is_that_of_the_two_grids(long_documents):
    grid, _, _ = long_documents
    np.testing.assert_allclose(grid.ratio, grid.decoder_only / grid.spectrum)


def test_llama_3b_is_about_even_on_short_documents():
    assert cost_grid([128], [512]).ratio[0, 0] == pytest.approx(1, abs=0.05)


class Timed:
    """Three texts measured in rounds of 4, 2 and 1 seconds, after one round that does not count."""

    def __init__(self, monkeypatch):
        clock = iter([0.0, 4.0, 10.0, 12.0, 20.0, 21.0])
        monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
        self.calls = []
        self.result = measure_speed(
            self.run, [*"abc"], "fra_Latn", count_tokens=lambda texts, lang: 30
        )
        monkeypatch.undo()

    def run(self, texts, lang):
        self.calls.append((len(texts), lang))


@pytest.fixture
def timed(monkeypatch):
    return Timed(monkeypatch)


def test_every_round_has_all_texts(timed):
    assert timed.calls == [(3, "fra_Latn")] * 4


def test_seconds_are_those_of_the_median_round(timed):
    result = timed.result
    assert (result.seconds, result.fastest, result.slowest) == (2, 1, 4)


def test_speed_is_texts_over_the_median_round(timed):
    assert timed.result.sentences_per_second == 1.5
    assert timed.result.tokens_per_second == 15


def test_the_json_has_the_tokens(timed):
    assert json.loads(timed.result.to_json())["tokens"] == 30


@pytest.fixture(scope="module")
def large_array():
    """A run that needs 64 MiB."""
    return measure_speed(lambda texts, lang: np.ones(2**23).sum(), ["a"], rounds=1)


def test_memory_is_that_of_the_process(large_array):
    assert 64 <= large_array.peak_memory <= peak_memory() / MEBIBYTE + 1


def test_without_a_counter_there_are_no_tokens(large_array):
    assert large_array.tokens_per_second is None
    assert large_array.tokens is None


test_bad_input_is_one_line = refusals(
    (lambda: Stack.of(BertConfig()), "BertConfig has no num_key_value_heads"),
    (lambda: flops.encoder_flops(OMNISONAR, 0), "tokens is 0"),
    (lambda: flops.spectrum_flops(0, 1), "document is 0"),
)
