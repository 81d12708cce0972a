from __future__ import annotations

import pytest

import hf_echo.stages as stages

NAMES = {
    "seq2seq": "Seq2Seq",
    "contrastive": "Contrastive",
    "hard_negatives": "HardNegatives",
    "decoder": "Decoder",
    "distillation": "Distillation",
    "extension": "Extension",
    "token": "Token",
    "long_context": "LongContext",
}


@pytest.fixture
def make_trainer(toy, toy_tokenizer, toy_data, tmp_path):
    """make_trainer(stage, **fields of its Config) on the toy world; 64 rows a batch, 7 batches an epoch."""

    def make(stage, *, model=None, data=toy_data, tokenizer=toy_tokenizer, extra=None, **fields):
        config = getattr(stages, f"{NAMES[stage]}Config")
        defaults = dict(
            output_dir=str(tmp_path / stage),
            max_steps=40,
            learning_rate=1e-2,
            warmup_steps=4,
            max_tokens=10**6,
            max_rows=64,
            logging_steps=5,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
        )
        model = toy.make_model(toy_tokenizer) if model is None else model
        return getattr(stages, f"{NAMES[stage]}Trainer")(
            model, config(**defaults | fields), train_dataset=data, tokenizer=tokenizer, **extra or {}
        )

    return make
