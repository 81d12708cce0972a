"""`adapter: {load_in_4bit: true}`: the base is held in NF4 while low-rank matrices learn
(QLoRA, arXiv:2305.14314)."""

import importlib.util

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel

from hf_echo.hub.release import release_checkpoint
from hf_echo.modeling import EchoEncoder
from hf_echo.stages.core.adapter import read_adapter_settings
from hf_echo.stages.core.plan import NF4_BYTES
from hf_echo.steps.dry_run import dry_run
from hf_echo.steps.training import train_recipe

from .test_adapters import adapter_recipe, base, embeddings  # noqa: F401 fixtures of pytest

# The sixteen values of NF4: appendix E of the paper.
NF4 = np.array(
    [
        -1.0,
        -0.6961928009986877,
        -0.5250730514526367,
        -0.39491748809814453,
        -0.28444138169288635,
        -0.18477343022823334,
        -0.09105003625154495,
        0.0,
        0.07958029955625534,
        0.16093020141124725,
        0.24611230194568634,
        0.33791524171829224,
        0.44070982933044434,
        0.5626170039176941,
        0.7229568362236023,
        1.0,
    ]
)
BLOCK = 64  # weights with one scale (section 3 of the paper)


@pytest.fixture
def qlora_recipe(adapter_recipe):  # noqa: F811
    def write(name="adapted", **adapter):
        return adapter_recipe(name=name, adapter=dict(r=4, alpha=8, load_in_4bit=True, **adapter))

    return write


def nearest_nf4(weights: torch.Tensor) -> np.ndarray:
    """Each block of 64 divided by its largest absolute value,
    and rounded to the nearest of the sixteen values."""
    blocks = weights.detach().numpy().reshape(-1, BLOCK)
    scales = np.abs(blocks).max(axis=1, keepdims=True)
    distances = np.abs((blocks / scales)[:, :, None] - NF4)
    return (NF4[distances.argmin(axis=2)] * scales).reshape(weights.shape)


@pytest.mark.slow
def test_linear_layers_of_the_base_are_in_nf4(qlora_recipe, caught, base):  # noqa: F811
    from bitsandbytes.functional import dequantize_4bit

    encoder = caught(qlora_recipe()).model.encoder
    plain = EchoEncoder.from_pretrained(base, dtype=torch.float32)
    layers = [path for path, module in encoder.named_modules() if hasattr(module, "base_layer")]
    assert len(layers) == 7 * plain.config.num_hidden_layers
    for path in layers:
        weight = encoder.get_submodule(path).base_layer.weight
        held = dequantize_4bit(weight.data, weight.quant_state).float()
        # Each block has the sixteen values alone ...
        np.testing.assert_allclose(held.numpy(), nearest_nf4(held), rtol=1e-4, atol=1e-7)
        # ... and each weight the nearest of them. Two may be as near: distances are compared, not
        # values. Scales are held in 8 bits themselves
        # (double quantization, section 3 of the paper).
        original = plain.get_submodule(path).weight.detach().numpy()
        distance = np.abs(held.numpy() - original)
        nearest = nearest_nf4(plain.get_submodule(path).weight)
        assert (distance <= np.abs(nearest - original) + 0.02 * np.abs(nearest) + 1e-6).all()


@pytest.mark.slow
def test_the_dry_run_counts_the_bytes_of_4_bits():
    from bitsandbytes.nn import Params4bit

    held = Params4bit(torch.randn(512, 1024), requires_grad=False, quant_type="nf4").to("cpu")
    state = held.quant_state
    tensors = [held, state.absmax, state.state2.absmax]

    size = sum(tensor.nbytes for tensor in tensors)

    assert size == pytest.approx(NF4_BYTES * 512 * 1024, rel=0.001)


@pytest.mark.slow
def test_the_dry_run_holds_linear_layers_in_4_bits(qlora_recipe, base):  # noqa: F811
    encoder = EchoEncoder.from_pretrained(base, dtype=torch.float32)
    in_4_bits = sum(w.numel() for name, w in encoder.named_parameters() if "_proj.weight" in name)

    report = dry_run(qlora_recipe())

    rest = report["parameters"]["total"] - in_4_bits
    weights = (4 * rest + NF4_BYTES * in_4_bits) / 2**30
    assert report["memory_gib"]["weights"] == pytest.approx(weights)


@pytest.mark.slow
def test_only_the_adapter_of_a_base_in_4_bits_learns(qlora_recipe, caught):
    model = caught(qlora_recipe()).model
    learning = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert learning
    assert all("lora_" in name for name in learning)


@pytest.mark.slow
@pytest.mark.parametrize("use_dora", [False, True])
def test_a_run_with_4_bits_resumes_exactly(qlora_recipe, train_stopped, tmp_path, use_dora):
    train_recipe(qlora_recipe("whole", dropout=0.2, use_dora=use_dora))
    stopped = qlora_recipe("stopped", dropout=0.2, use_dora=use_dora)
    train_stopped(stopped, 2)
    checkpoint = load_file(tmp_path / "stopped" / "checkpoint-2" / "model.safetensors")
    assert all("lora_" in name for name in checkpoint)
    train_recipe(stopped)
    whole = load_file(tmp_path / "whole" / "adapter_model.safetensors")
    resumed = load_file(tmp_path / "stopped" / "adapter_model.safetensors")
    assert whole.keys() == resumed.keys()
    for name, values in whole.items():
        assert torch.equal(values, resumed[name]), name


@pytest.mark.slow
def test_an_adapter_of_4_bits_is_released_with_its_whole_base(qlora_recipe, tmp_path):
    train_recipe(qlora_recipe())
    adapted = AutoModel.from_pretrained(tmp_path / "adapted", dtype=torch.float32)
    release = release_checkpoint(tmp_path / "adapted", tmp_path / "release")
    merged = AutoModel.from_pretrained(release, dtype=torch.float32)
    # The adapter on its base of 4 bits.
    torch.testing.assert_close(
        embeddings(merged, release), embeddings(adapted, tmp_path / "adapted"), atol=1e-5, rtol=1e-4
    )


def test_4_bits_without_bitsandbytes_are_refused(monkeypatch):
    find_spec = importlib.util.find_spec
    without = {"bitsandbytes": None, "peft": find_spec("json")}
    monkeypatch.setattr("hf_echo.stages.core.adapter.find_spec", without.get)
    with pytest.raises(ValueError, match="adapter.load_in_4bit needs bitsandbytes: pip install"):
        read_adapter_settings({"load_in_4bit": True}, "adapter")
