"""`evaluate.load` of the metric folders gives the figures of our own functions, and of a count by hand."""

from __future__ import annotations

import numpy as np
import pytest

evaluate = pytest.importorskip("evaluate")

from hf_echo.evaluation import xsim, xsimpp  # noqa: E402
from hf_echo.hub import metric_folder  # noqa: E402


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    cache = str(tmp_path_factory.mktemp("evaluate"))
    return lambda name: evaluate.load(str(metric_folder(name)), cache_dir=cache)


@pytest.fixture
def space():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(40, 8)).astype(np.float32)
    return y + rng.normal(size=y.shape).astype(np.float32), y, rng.normal(size=(80, 8)).astype(np.float32)


@pytest.mark.parametrize("margin", ["cosine", "ratio"])
def test_xsim(load, space, margin):
    x, y, _ = space
    found = load("xsim").compute(predictions=x, references=y, margin=margin)
    assert found["xsim"] == xsim(x, y, margin=margin).error_rate
    if margin == "cosine":
        cosine = (x / np.linalg.norm(x, axis=1, keepdims=True)) @ (y / np.linalg.norm(y, axis=1, keepdims=True)).T
        assert found["errors"] == (cosine.argmax(1) != np.arange(40)).sum() > 0


def test_xsimpp(load, space):
    x, y, negatives = space
    owner = [i // 2 for i in range(80)]
    kinds = ["number" if i % 2 else "entity" for i in range(80)]
    found = load("xsimpp").compute(
        predictions=x, references=y, negatives=negatives, negative_owner=owner, negative_kind=kinds
    )
    ours = xsimpp(x, y, negatives, owner, negative_kind=kinds)
    assert (found["xsimpp"], found["pool"], found["errors_by_kind"]) == (ours.error_rate, 120, ours.errors_by_kind)


def test_unknown_metric():
    with pytest.raises(ValueError, match="no metric 'bleu'; choose from xsim, xsimpp"):
        metric_folder("bleu")
