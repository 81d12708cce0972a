"""A seed shift changes what training starts from; the run on imitated processors reports what failed."""

from __future__ import annotations

import pytest
import torch

from . import processors, seed_shift


@pytest.fixture
def start(toy, toy_tokenizer, toy_data, tmp_path, monkeypatch):
    """start(shift) -> (initial weights, rows of the batches of the first epoch) of a contrastive stage."""
    from hf_echo.stages import ContrastiveConfig, ContrastiveTrainer

    def make(shift):
        with monkeypatch.context() as patch:
            seed_shift.apply(shift, patch.setattr)
            args = ContrastiveConfig(str(tmp_path), max_tokens=10**6, max_rows=64, use_cpu=True, report_to="none")
            model = toy.make_model(toy_tokenizer)
            trainer = ContrastiveTrainer(model, args, train_dataset=toy_data, tokenizer=toy_tokenizer)
            batches = [batch["index"].tolist() for batch in trainer.get_train_dataloader()]
            return model.encoder.backbone.embed_tokens.weight.detach().clone(), batches

    return make


def test_a_shift_changes_weights_and_order(start):
    weights, batches = zip(*(start(shift) for shift in (0, 1, 2)))
    again = start(1)
    assert torch.equal(again[0], weights[1]) and again[1] == batches[1]
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert not torch.equal(weights[a], weights[b]) and batches[a] != batches[b]
        # Independent draws: the correlation of 12,800 pairs is within 0.01 in two of three cases.
        assert torch.corrcoef(torch.stack([weights[a].flatten(), weights[b].flatten()]))[0, 1].abs() < 0.1


def test_report_of_a_run(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="tests.a" name="one"/>'
        '<testcase classname="tests.a" name="two"><failure>no</failure></testcase>'
        '<testcase classname="tests.b" name="three"><error>no</error></testcase>'
        '<testcase classname="tests.b" name="four"><skipped/></testcase></testsuite></testsuites>'
    )
    passed, failures = processors.read_report(report)
    assert passed == 1 and failures == ["tests.a::two", "tests.b::three"]
    setting = processors.Setting("avx2", 2, 1)
    line = processors.row(setting, processors.Result(passed, 2, 61.4, failures))
    assert line.split() == "avx2, threads 2, seeds +1 1 2 61 tests.a::two tests.b::three".split()
    assert processors.row(setting, None).endswith("not on this processor")
