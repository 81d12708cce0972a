"""Groups of rows that share batches, by the words of their targets."""

from datasets import Dataset
from transformers import AutoTokenizer

import hf_echo
from hf_echo.steps.data import row_groups


def test_similar_targets_are_grouped_by_a_model_that_is_named_as_in_the_package(monkeypatch):
    """Two rows a group: sentences about cats, and sentences about trade."""
    monkeypatch.setattr("hf_echo.steps.data.CLUSTER", 2)
    targets = [
        "The cat sleeps.",
        "The cat sleeps well.",
        "Exports of steel fell.",
        "Exports of steel fell again.",
    ]
    tokenizer = AutoTokenizer.from_pretrained(hf_echo.pretrained("echo-nano"))

    groups = row_groups(
        Dataset.from_dict({"target": targets}), "similarity", "echo-nano", tokenizer
    )

    assert groups[0] == groups[1]
    assert groups[2] == groups[3]
    assert groups[0] != groups[2]
