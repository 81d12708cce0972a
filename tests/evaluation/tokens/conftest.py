import pytest


@pytest.fixture(scope="module")
def encoder(toy, toy_tokenizer):
    """Two layers with random weights."""
    return toy.make_model(toy_tokenizer, num_hidden_layers=2).encoder.eval()
