from __future__ import annotations

import pytest
import torch


@pytest.fixture(scope="session")
def toy_untrained(toy, toy_tokenizer):
    """Three encoder and two decoder layers with a spread of weights that leaves no part without effect."""
    model = toy.make_model(toy_tokenizer, num_hidden_layers=3, decoder={"num_hidden_layers": 2})
    torch.manual_seed(2)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.3)
    return model.eval()
