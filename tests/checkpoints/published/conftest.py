"""What tests of conversions share."""

import pytest


@pytest.fixture
def unfit(refused, tmp_path):
    """unfit(message, source, *options): the command refuses a source and writes nothing."""

    def call(message: str, source, *options) -> None:
        refused(message, source, tmp_path / "out", *options)
        assert not (tmp_path / "out").exists()

    return call
