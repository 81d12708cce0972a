"""The small commands of docs/reproduce.md, from a mirror of repositories that are written by hand
here."""

import dataclasses
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from hf_echo.data import sources as public
from hf_echo.data.sources import downloading, table

from ..data.sources.clones import commit_files
from ..data.sources.test_layouts import tatoeba

pytestmark = pytest.mark.slow  # two scripts in processes of their own

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
NUMBERS = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]
NOMBRES = [
    "un",
    "deux",
    "trois",
    "quatre",
    "cinq",
    "six",
    "sept",
    "huit",
    "neuf",
    "dix",
    "onze",
    "douze",
]
TEXTS = {
    "eng": [f"The {number} dogs sleep here." for number in NUMBERS],
    "fra": [f"Les {number} chiens dorment ici." for number in NOMBRES],
}
NEWS = {
    "eng": [f"They paid {number} coins today." for number in NUMBERS],
    "fra": [f"Ils ont donné {number} sous ce matin." for number in NOMBRES],
}
PAIRS = [(french, english) for french, english in zip(TEXTS["fra"], NEWS["eng"], strict=True)]


def lines(texts):
    return "".join(f"{text}\n" for text in texts)


def sib(texts, first):
    rows = [f"{number}\tsports\t{text}" for number, text in enumerate(texts, first)]
    return lines(["index_id\tcategory\ttext", *rows])


def repositories():
    """Name -> files, in the layouts of the origins."""
    news = {"DOCUMENT_IDS.tsv": lines(f"news.{number}" for number in range(24))}
    for code, name in (("eng", "src.eng"), ("fra", "ref.fra")):
        twice = [*NEWS[code], *(text.replace(".", " again.") for text in NEWS[code])]
        news[f"NTREX-128/newstest2019-{name}.txt"] = lines(twice)
    topics = {}
    for code in ("eng", "fra"):
        folder = f"data/annotated/{code}_Latn"
        topics[f"{folder}/train.tsv"] = sib(TEXTS[code], 0)
        topics[f"{folder}/dev.tsv"] = sib([f"{text} Ja." for text in TEXTS[code][:3]], 100)
        topics[f"{folder}/test.tsv"] = sib([f"{text} Nein." for text in TEXTS[code][:3]], 200)
    opus = tatoeba("fra-eng", "v2021-08-07", PAIRS)
    devtest = "datasets/facebook/flores/flores200_dataset/devtest"
    # A sentence of the test split stands in SIB's training split, too.
    opus[f"{devtest}/eng_Latn.devtest"] = lines(["THE ONE DOGS sleep here", "Nobody else has it."])
    opus[f"{devtest}/fra_Latn.devtest"] = lines(["Les chiens.", "Personne ne l'a."])
    laser = {
        "data/tatoeba/v1/tatoeba.fra-eng.eng": "A third test.\n",
        "data/tatoeba/v1/tatoeba.fra-eng.fra": "Un troisième test.\n",
    }
    return {
        "MicrosoftTranslator/NTREX": news,
        "dadelani/sib-200": topics,
        "Helsinki-NLP/OPUS-MT-testsets": opus,
        "facebookresearch/LASER": laser,
    }


SMALL = ("ntrex", "flores_sib", "flores_devtest", "tatoeba_challenge", "tatoeba_laser")


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """The folder of the clones; the sources are pinned to their commits,
    and no others are there."""
    commits = {}
    for name, files in repositories().items():
        place = tmp_path / "mirror" / name.replace("/", "+") / "repo"
        commits[name] = commit_files(place, files)
    small = {}
    for name in SMALL:
        source = public.SOURCES[name]
        (origin,) = source.origins
        pinned = dataclasses.replace(origin, commit=commits[origin.name])
        small[name] = dataclasses.replace(source, origins=(pinned,))
    for module in (table, downloading, public):
        monkeypatch.setattr(module, "SOURCES", small)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mirror"


@pytest.fixture
def corpora(mirror, hf_echo_cli, tmp_path):
    """The folder `corpora` of the page."""
    command = "hf-echo data download corpora"
    assert f"    {command}\n" in PAGE
    code, out, err = hf_echo_cli(*shlex.split(command)[1:], "--mirror", mirror)
    assert code == 0, err
    assert json.loads(out)["held_out"]["flores_sib"] == 2  # in both languages
    return tmp_path / "corpora"


def test_the_downloaded_text_has_no_test_sentence(corpora, hf_echo_cli):
    command = "hf-echo data leaks corpora corpora/test"
    assert f"`{command}`" in PAGE
    code, out, err = hf_echo_cli(*shlex.split(command)[1:])
    assert code == 0, err
    report = json.loads(out)
    assert report["leaks"] == 0
    assert report["test_texts"] > 10


def test_sentences_are_segmented(corpora, tmp_path):
    command = "python train_scripts/studies/segmentation_report.py CORPORA"
    assert f"`{command}`" in PAGE
    script = ROOT / command.split()[1]
    arguments = [sys.executable, script, corpora, "--out", tmp_path / "report.json"]
    process = subprocess.run(arguments, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    # Each sentence ends with a full stop, and no other one is there.
    assert report["ntrex"]["average"]["f1"] == 100


def test_a_script_without_a_folder_says_what_it_would_download(tmp_path):
    script = ROOT / "train_scripts" / "studies" / "segmentation_report.py"
    process = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 1
    assert "MicrosoftTranslator/NTREX" in process.stderr
    assert process.stderr.splitlines()[-1].endswith("add --yes to download it, or give CORPORA")
