"""Recipes of operations on a small world of checkpoints and texts;
recipes of stages as in tests/stages."""

import shutil
from pathlib import Path

import pytest
import yaml

from hf_echo.stages.modular import add_language, modular_backbone
from hf_echo.vocabulary import train_tokenizer

from ..stages.conftest import *  # noqa: F403  (its fixtures)

FLAT = {"pooling": "mean"}


def step(place: Path, name: str, **values) -> Path:
    """A recipe that writes place/NAME."""
    path = place / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"output_dir": str(place / name)} | values))
    return path


@pytest.fixture(scope="session")
def world_files(toy, toy_tokenizer, tiny_bert, tmp_path_factory):
    """Two training checkpoints, another tokenizer, a modular encoder, texts and pairs,
    in one folder."""
    folder = tmp_path_factory.mktemp("world")
    for seed, name in enumerate(("model", "other")):
        toy.save(folder / name, toy.make_model(toy_tokenizer, seed=seed, **FLAT), toy_tokenizer)
    # A tokenizer of two other languages.
    foreign = [toy.say(m, lang) for m in toy.MEANINGS for lang in ("fra_Latn", "rus_Cyrl")]
    tokenizer = train_tokenizer(foreign, 320, max_length=64, progress=False)
    tokenizer.save_pretrained(folder / "tokenizer")
    # Texts and pairs, and an encoder made of a BERT.
    english = []
    pairs = []
    for meaning in toy.split("train")[:40]:
        sentence = toy.say(meaning, "eng_Latn")
        english.append(f"{sentence}\n")
        pairs.append(f"{sentence}\t{toy.say(meaning, 'fra_Latn')}\n")
    (folder / "texts.txt").write_text("".join(english))
    (folder / "en-fr.tsv").write_text("".join(pairs))
    tiny_bert(folder / "bert", english, 120)
    modular_backbone(folder / "bert", folder / "modular")
    add_language(folder / "modular", "eng_Latn")
    return folder


@pytest.fixture
def world(place, world_files):
    """A copy of the files, which a test may change."""
    shutil.copytree(world_files, place, dirs_exist_ok=True)
    return place
