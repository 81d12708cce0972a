"""FLOPs against torch's own counter on real models, the papers' parameter counts and figures; the speed's sums."""

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

SIZES = dict(vocab_size=50, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=6)
SIZES |= dict(num_key_value_heads=2, head_dim=8, pad_token_id=0, attn_implementation="eager")


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
    want = counted(lambda: model(batch, attention_mask=torch.ones_like(batch)))
    assert 2 * flops.encoder_flops(Stack.of(config), tokens) == want


def generate(model, prompt: int, output: int, ids: str = "decoder_input_ids", **memory) -> None:
    """Greedy decoding by hand: one token at a time, with a cache, the head at written tokens only."""
    cache = None
    for i in range(prompt + output - 1):
        keep = torch.tensor([0] if i >= prompt - 1 else [], dtype=torch.long)
        step = {ids: torch.ones(1, 1, dtype=torch.long), "logits_to_keep": keep, **memory}
        cache = model(**step, past_key_values=cache, use_cache=True).past_key_values


def test_decoders_are_what_torch_counts():
    config = EchoDecoderConfig(**SIZES, embedding_size=40, bottleneck=False)
    model = EchoDecoder(config).eval()
    memory = BaseModelOutput(last_hidden_state=torch.randn(1, 11, 48))
    want = counted(lambda: generate(model, 3, 6, encoder_outputs=memory))
    assert flops.decoder_flops(Stack.of(config), 6, prompt=3, memory=11) == want
    # without cross-attention
    config = LlamaConfig(**SIZES)
    model = LlamaForCausalLM(config).eval()
    want = counted(lambda: generate(model, 5, 4, "input_ids"))
    assert flops.decoder_flops(Stack.of(config), 4, prompt=5) == want


def test_layer_weights_give_the_published_sizes():
    """OS Table 36's shapes with the parameters that OS 6 names, the tower's 5B, and those of Llama."""
    small = Stack(14, 1792, 7168, 28, 7, 64, 128_232, 1024), Stack(12, 1536, 6144, 24, 6, 64, 64_232, 1024)
    small += Stack(10, 1152, 4608, 18, 6, 64, 32_232, 1024), Stack(8, 512, 2048, 16, 4, 32, 16_232, 1024)
    for stack, millions, digits in zip((OMNISONAR, *small), (1500, 884, 511, 233, 39), (30, 1, 1, 1, 1)):
        weights = stack.layers * stack.layer_weights + stack.hidden * (stack.vocabulary + stack.embedding)
        assert weights / 1e6 == pytest.approx(millions, abs=digits)
    assert SPECTRUM_TOWER.layers * SPECTRUM_TOWER.layer_weights / 1e9 == pytest.approx(5, abs=0.2)
    assert (28 * LLAMA_3B.layer_weights + 3072 * 128_256) / 1e9 == pytest.approx(3.21, abs=0.01)  # tied head
    assert (32 * LLAMA_8B.layer_weights + 2 * 4096 * 128_256) / 1e9 == pytest.approx(8.03, abs=0.01)


def test_figure_8_two_to_six_times_fewer_on_long_documents():
    """OS 9.1: 2-6x fewer for long documents with moderate outputs, more with length, 3B about even on short ones."""
    for stack, low, high in ((LLAMA_3B, 1.9, 3.0), (LLAMA_8B, 4.5, 6.5)):
        grid = cost_grid([2048, 4096, 8192], [64, 128, 256], baseline=stack)
        assert low < grid.ratio.min() and grid.ratio.max() < high
        assert (np.diff(grid.ratio, axis=0) > 0).all() and (np.diff(grid.ratio, axis=1) < 0).all()
    assert cost_grid([128], [512]).ratio[0, 0] == pytest.approx(1, abs=0.05)
    np.testing.assert_allclose(grid.ratio, grid.decoder_only / grid.spectrum)


def test_speed_is_texts_over_the_median_round(monkeypatch):
    clock = iter([0.0, 4.0, 10.0, 12.0, 20.0, 21.0])  # rounds of 4, 2 and 1 seconds
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    calls = []
    options = dict(count_tokens=lambda texts, lang: 30, warm_up=2)
    found = measure_speed(lambda texts, lang: calls.append((len(texts), lang)), [*"abc"], "fra_Latn", **options)
    assert calls == [(3, "fra_Latn")] * 5
    assert (found.seconds, found.fastest, found.slowest) == (2, 1, 4)
    assert (found.sentences_per_second, found.tokens_per_second) == (1.5, 15)
    assert json.loads(found.to_json())["tokens"] == 30
    monkeypatch.undo()  # memory is that of the process
    found = measure_speed(lambda texts, lang: np.ones(2**23).sum(), ["a"], rounds=1, warm_up=0)
    assert 64 <= found.peak_memory <= peak_memory() / MEBIBYTE + 1
    assert found.tokens_per_second is None and found.tokens is None


test_bad_input_is_one_line = refusals(
    (lambda: Stack.of(BertConfig()), "BertConfig has no num_key_value_heads"),
    (lambda: flops.encoder_flops(OMNISONAR, 0), "tokens is 0"),
    (lambda: flops.spectrum_flops(0, 1), "document is 0"),
    (lambda: measure_speed(len, []), "at least one text"),
    (lambda: measure_speed(len, ["a"], rounds=0), "rounds is 0"),
)
