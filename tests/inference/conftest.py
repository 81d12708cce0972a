import pytest
import torch


@pytest.fixture(scope="session")
def make_untrained(toy, toy_tokenizer):
    """make_untrained(spread): three encoder and two decoder layers with so much noise on the
    weights."""

    def make(spread: float):
        model = toy.make_model(toy_tokenizer, num_hidden_layers=3, decoder={"num_hidden_layers": 2})
        torch.manual_seed(2)
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight) * spread)
        return model.eval()

    return make


@pytest.fixture(scope="session")
def toy_untrained(make_untrained):
    """A spread that leaves no part without effect, and embeddings small enough for absolute
    tolerances."""
    return make_untrained(0.1)


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)
