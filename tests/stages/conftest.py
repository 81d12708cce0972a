from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import pytest
import torch
import yaml
from datasets import Dataset
from transformers import BertConfig, BertModel, TrainerCallback

import hf_echo.steps.training as training

from ..toy import QUIET, SHAPE, word_pieces


@pytest.fixture(scope="session")
def tiny_bert():
    """tiny_bert(folder, texts, vocab_size): a BERT with random weights and word pieces of the
    texts."""

    def make(folder: Path, texts: Iterable[str], vocab_size: int) -> Path:
        tokenizer = word_pieces(texts, vocab_size)
        tokenizer.save_pretrained(folder)
        torch.manual_seed(0)
        shape = dict(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
        )
        BertModel(BertConfig(vocab_size=len(tokenizer), **shape)).save_pretrained(folder)
        return folder

    return make


def new_trainer(
    stage: str, model, data, tokenizer, folder: Path, extra: dict | None = None, **fields
):
    """The trainer of a stage with fields of its Config:
    64 rows a batch, 7 batches an epoch of the toy world."""
    module = import_module(f"hf_echo.stages.{stage}")
    name = "Seq2Seq" if stage == "seq2seq" else stage.title().replace("_", "")
    defaults = dict(
        output_dir=str(folder / stage),
        max_steps=40,
        learning_rate=1e-2,
        warmup_steps=4,
        logging_steps=5,
        max_tokens=10**6,
        max_rows=64,
    )
    config = getattr(module, f"{name}Config")(**defaults | QUIET | fields)
    trainer = getattr(module, f"{name}Trainer")
    return trainer(model, config, train_dataset=data, tokenizer=tokenizer, **extra or {})


@pytest.fixture
def make_trainer(toy, toy_tokenizer, toy_data, tmp_path):
    """make_trainer(stage, model=, data=, tokenizer=, extra=, **fields of its Config) on the toy
    world."""

    def make(stage, *, model=None, data=toy_data, tokenizer=toy_tokenizer, **fields):
        if model is None:
            model = toy.make_model(toy_tokenizer)
        return new_trainer(stage, model, data, tokenizer, tmp_path, **fields)

    return make


SMALL = dict(
    vocab_size=400,
    shape=SHAPE,
    max_length=32,
    max_tokens=2000,
    learning_rate=1e-2,
    warmup_steps=2,
    max_steps=6,
    logging_steps=2,
    save_steps=3,
    dev_negatives=2,
    disable_tqdm=True,
)


@pytest.fixture
def place(toy, tmp_path):
    """A folder with train.tsv, dev.parquet and recipe(...), which writes a YAML file."""
    columns = ["source", "source_lang", "target", "target_lang", "provenance"]
    lines = ["\t".join(columns)] + [
        "\t".join(row[c] for c in columns) for row in toy.parallel_rows()
    ]
    (tmp_path / "train.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    dev = [row | {"id": str(row["id"])} for row in toy.nway_rows()]
    Dataset.from_list(dev).to_parquet(tmp_path / "dev.parquet")
    return tmp_path


@pytest.fixture
def recipe(place):
    def write(name: str = "a", stage: str = "seq2seq", **values):
        data = dict(
            train_data=str(place / "train.tsv"), dev_data={"toy": str(place / "dev.parquet")}
        )
        where = dict(output_dir=str(place / name), cache_dir=str(place / "cache"))
        path = place / f"{name}.yaml"
        values = {"stage": stage} | data | where | SMALL | values
        path.write_text(yaml.safe_dump(values))
        return path

    return write


@pytest.fixture
def write_recipe(tmp_path):
    """write_recipe(name, **fields) -> path of a recipe that trains into tmp_path / name;
    None leaves a field out."""

    def write(name: str, **fields):
        where = dict(output_dir=str(tmp_path / name), cache_dir=str(tmp_path / "cache"))
        common = dict(logging_steps=1, bf16=False, use_cpu=True, disable_tqdm=True) | where
        path = tmp_path / f"{name}.yaml"
        path.write_text(
            yaml.safe_dump({k: v for k, v in (common | fields).items() if v is not None})
        )
        return path

    return write


@pytest.fixture
def pairs(toy, tmp_path):
    path = tmp_path / "pairs.parquet"
    toy.dataset().remove_columns("hard_negatives").to_parquet(path)
    return str(path)


class Stop(TrainerCallback):
    """Dies as by Ctrl-C in step `step` + 1, when the checkpoint of step `step` is written."""

    def __init__(self, step: int):
        self.step = step

    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            raise KeyboardInterrupt


@pytest.fixture
def train_with(monkeypatch):
    """train_with(recipe, callback) trains with one more callback."""

    def train(path, callback):
        train_to_the_end = training._train

        def train_watched(trainer, resume, name):
            trainer.add_callback(callback)
            return train_to_the_end(trainer, resume, name)

        with monkeypatch.context() as patch:
            patch.setattr(training, "_train", train_watched)
            training.train_recipe(path)

    return train


@pytest.fixture
def train_stopped(train_with):
    """train_stopped(recipe, step) trains until `step` steps are made and then dies as by Ctrl-C."""

    def train(path, step: int):
        with pytest.raises(KeyboardInterrupt):
            train_with(path, Stop(step))

    return train


@pytest.fixture
def caught(monkeypatch):
    """caught(recipe): the trainer of a recipe, which is not trained."""

    def catch(path):
        trainers = []

        def keep(trainer, resume, name):
            trainers.append(trainer)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(training, "_train", keep)
            training.train_recipe(path, fresh=True)
        return trainers[0]

    return catch
