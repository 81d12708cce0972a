"""Static embeddings of the toy world."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hf_echo.stages import DevSet, StaticConfig, StaticTrainer


@pytest.fixture
def make_trainer(toy, toy_data, toy_tokenizer, tmp_path):
    def make(start=None, **fields):
        defaults = dict(
            output_dir=str(tmp_path / "static"),
            rows=64,
            dim=16,
            max_steps=60,
            learning_rate=2e-2,
            logging_steps=5,
            save_strategy="no",
            use_cpu=True,
            report_to="none",
            disable_tqdm=True,
        )
        torch.manual_seed(0)
        dev = {"toy": DevSet(toy.nway_rows())}
        args = StaticConfig(**defaults | fields)
        return StaticTrainer(args, train_dataset=toy_data, tokenizer=toy_tokenizer, dev_sets=dev, start=start)

    return make


@pytest.fixture(scope="module")
def static(toy_tokenizer):
    """Untrained static embeddings with weights other than one."""
    from hf_echo.stages.static_embeddings import StaticEmbeddings

    torch.manual_seed(4)
    static = StaticEmbeddings(len(toy_tokenizer), 16)
    static.log_weight.data.normal_()
    return static


@pytest.fixture
def teacher(toy_data):
    """Embeddings of the targets by a frozen encoder: equal texts have equal vectors."""
    from hf_echo.inference.embedding_store import StoredRows

    keys, index = np.unique(toy_data.labels["target_key"], return_inverse=True)
    matrix = np.random.default_rng(3).normal(size=(len(keys), 16)).astype(np.float16)
    return (StoredRows(matrix, index),)
