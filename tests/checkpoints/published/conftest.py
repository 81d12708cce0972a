"""What tests of conversions share."""

import pytest
import torch


@pytest.fixture
def unfit(refused, tmp_path):
    """unfit(message, source, *options): the command refuses a source and writes nothing."""

    def call(message: str, source, *options) -> None:
        refused(message, source, tmp_path / "out", *options)
        assert not (tmp_path / "out").exists()

    return call


@pytest.fixture
def unfit_weights(unfit, tmp_path):
    """unfit_weights(message, weights, *options): the command refuses a file of fairseq2."""

    def call(message: str, weights: dict, *options) -> None:
        torch.save({"model": weights}, tmp_path / "weights.pt")
        unfit(message, tmp_path / "weights.pt", *options)

    return call
