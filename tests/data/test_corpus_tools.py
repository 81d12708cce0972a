"""Folders that mtdata and opustools leave, read by `data filter` and mixed by `collect_data`."""

import gzip
import json

import pytest
import yaml

from hf_echo.data import load_parallel
from hf_echo.data.pipeline.data_recipe import read_recipe
from hf_echo.data.pipeline.runner import run as run_pipeline
from hf_echo.steps.run import run_operation

GERMAN = [
    "Guten Morgen, alle zusammen.",
    "Wir sehen uns morgen wieder.",
    "Das Wetter ist heute sehr gut.",
]
ENGLISH = [
    "Good morning, everybody.",
    "We will meet again tomorrow.",
    "The weather is very good today.",
]


def lines(texts):
    return "".join(f"{text}\n" for text in texts)


def mtdata_folder(folder):
    """`mtdata get -l deu-eng -tr Group-name-1-deu-eng -o FOLDER`:
    a pair in train-parts, merged files, a signature."""
    (folder / "train-parts").mkdir(parents=True)
    for language, texts in (("deu", GERMAN), ("eng", ENGLISH)):
        (folder / "train-parts" / f"Group-news_talk-1-deu-eng.{language}").write_text(lines(texts))
        (folder / f"train.{language}").write_text(lines(texts))
    (folder / "mtdata.signature.txt").write_text("mtdata get -l deu-eng\n")
    return folder / "train-parts"


def opus_folder(folder):
    """A Moses archive of OPUS, unpacked: two texts, ids, README and licence."""
    folder.mkdir()
    (folder / "Books.de-en.de").write_text(lines(GERMAN))
    (folder / "Books.de-en.en").write_text(lines(ENGLISH))
    (folder / "Books.de-en.ids").write_text("a\tb\t1\t1\n" * 3)
    (folder / "README").write_text("Corpus name: Books\n")
    (folder / "LICENSE").write_text("free\n")
    return folder


def opus_tmx(folder):
    """de-en.tmx.gz as OPUS has it."""
    folder.mkdir()
    units = "".join(
        f'<tu><tuv xml:lang="de"><seg>{german}</seg></tuv><tuv xml:lang="en"><seg>{english}</seg></tuv></tu>'
        for german, english in zip(GERMAN, ENGLISH, strict=True)
    )
    text = (
        f'<?xml version="1.0"?><tmx version="1.4"><header srclang="de"/><body>{units}</body></tmx>'
    )
    (folder / "de-en.tmx.gz").write_bytes(gzip.compress(text.encode()))
    return folder


LAYOUTS = {"mtdata": mtdata_folder, "opus": opus_folder, "tmx": opus_tmx}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_pairs_of_a_folder_are_read(layout, tmp_path):
    folder = LAYOUTS[layout](tmp_path / layout)
    rows = load_parallel(folder, source_lang="deu_Latn", target_lang="eng_Latn")
    assert rows["source"][:] == GERMAN
    assert rows["target"][:] == ENGLISH


@pytest.fixture
def filtered(tmp_path):
    """The result of a data recipe on a folder of mtdata."""
    source = {
        "path": str(mtdata_folder(tmp_path / "mtdata")),
        "source_lang": "deu_Latn",
        "target_lang": "eng_Latn",
    }
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        yaml.safe_dump({"sources": [source | {"label": "mtdata"}], "steps": [{"filter": "sanity"}]})
    )
    run_pipeline(read_recipe(recipe), tmp_path / "corpora" / "mine")
    return tmp_path / "corpora"


def test_a_filtered_folder_is_mixed(filtered, tmp_path):
    recipe = tmp_path / "mix.yaml"
    mix = {
        "operation": "collect_data",
        "output_dir": str(tmp_path / "mix"),
        "languages": ["deu_Latn"],
    }
    recipe.write_text(json.dumps(mix | {"corpora": str(filtered), "tables": {"mine/data": {}}}))
    report = run_operation(recipe)
    assert report["train"] == 3
    assert sorted(load_parallel(tmp_path / "mix" / "train.parquet")["target"][:]) == sorted(ENGLISH)
