"""The packaged model and the tour do what the first look shows;
in the demo every stage does what it is there for."""

import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, pipeline

import hf_echo
from hf_echo.cli.demo import run_demo
from hf_echo.cli.tour import run_tour
from hf_echo.inference import load_encoder

COMMAND = "encode"


@pytest.fixture(scope="module")
def echo_nano() -> Path:
    return Path(hf_echo.pretrained("echo-nano"))


def test_echo_nano_is_small(echo_nano):
    files = [file for file in echo_nano.rglob("*") if file.is_file()]

    assert sum(file.stat().st_size for file in files) <= 65e6
    assert "echo-nano" in (echo_nano / "README.md").read_text(encoding="utf-8")


def test_echo_nano_holds_no_copy_of_the_code(echo_nano):
    """Inside the package the package is the code; one small file leads trust_remote_code to it."""
    assert [file.name for file in echo_nano.rglob("*.py")] == ["installed_echo.py"]


def test_transformers_opens_echo_nano(echo_nano):
    encoder = AutoModel.from_pretrained(echo_nano, trust_remote_code=True)

    assert encoder.num_parameters() <= 60e6
    prompts = json.loads((echo_nano / "config_sentence_transformers.json").read_text())["prompts"]
    # a language of the first stage, and one of the last
    assert {"fra_Latn", "mkd_Cyrl"} <= set(encoder.config.languages) <= set(prompts)


def test_sentence_transformers_opens_echo_nano(echo_nano):
    """A translation is nearer than another sentence."""
    model = SentenceTransformer(str(echo_nano), device="cpu")

    french, english, other = model.encode(["Bonjour !", "Hello!", "Der Zug ist spät."])

    assert english.shape == (384,)
    assert french @ english > other @ english


@pytest.fixture(scope="module")
def translator(echo_nano):
    return pipeline("sonar-translation", model=str(echo_nano), device="cpu")


@pytest.mark.parametrize("lang", ["xx", "fr", ["xx"]])
def test_the_pipeline_refuses_what_is_no_language(translator, lang):
    with pytest.raises(ValueError, match="unknown language code '(xx|fr)'; codes look like fra_"):
        translator(["Bonjour."], src_lang=lang)


def test_the_pipeline_says_how_embeddings_are_given(translator):
    with pytest.raises(ValueError, match=r"row 1 is a list .*one array: numpy.array\(rows\)"):
        translator([[0.1, 0.2]], src_lang="fra_Latn")


class Tour:
    """The rows of the tour, and what it prints."""

    def __init__(self):
        console = Console(record=True, width=250)
        self.rows = run_tour(console)
        self.text = console.export_text()
        self.right = [row["nearest"] == row["english"] for row in self.rows]


@pytest.fixture(scope="module")
def tour():
    return Tour()


def test_the_tour_asks_twenty_sentences_of_ten_languages(tour):
    """The English of a sentence is the only right answer."""
    assert len(tour.rows) == 20
    assert len({row["lang"] for row in tour.rows}) == 10
    assert len({row["english"] for row in tour.rows}) == 20


def test_the_tour_finds_most_translations(tour):
    assert np.mean(tour.right) >= 0.8


def test_the_tour_shows_what_it_finds(tour):
    not_shown = [row["text"] for row in tour.rows if row["text"] not in tour.text]
    assert not_shown == []
    assert tour.text.count("wrong: ") == tour.right.count(False)
    assert f"{sum(tour.right)} of 20 found" in tour.text


def test_half_of_the_translations_of_the_tour_share_a_word_with_the_english(tour):
    shares = []
    for row in tour.rows:
        english = row["english"].lower().split()
        shares.append(not set(english).isdisjoint(row["written"].lower().split()))
    assert np.mean(shares) >= 0.5


def test_echo_nano_is_used_where_no_model_is_given(run, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("Le chat dort.\nDer Zug ist spät.\n", encoding="utf-8")

    _, _, err = run(texts, tmp_path / "out.npy")

    assert "no --model: using echo-nano, which is included in the package" in err
    # The same command with the name given.
    run("--model", "echo-nano", texts, tmp_path / "named.npy")
    vectors = np.load(tmp_path / "out.npy")
    np.testing.assert_allclose(vectors, np.load(tmp_path / "named.npy"), atol=1e-6)


def test_an_unknown_model_of_the_package_is_refused():
    with pytest.raises(ValueError, match="the package has no checkpoint .*; it has echo-nano"):
        hf_echo.pretrained("echo-micro")


@pytest.mark.trains
@pytest.mark.slow
def test_demo_keeps_its_promises(tmp_path):
    run_demo(tmp_path)

    report = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    first, second, third = report["rows"]
    stages = [first["stage"], second["stage"], third["stage"]]
    assert stages == ["seq2seq", "contrastive", "hard_negatives"]
    assert first["xsim"] > second["xsim"] > third["xsim"]
    assert third["xsim"] < 2
    assert first["xsimpp"] > second["xsimpp"] > third["xsimpp"]
    assert third["xsimpp"] < 30
    assert first["chrf"] < second["chrf"] < third["chrf"]
    assert third["chrf"] > 50
    encoder, _ = load_encoder(report["release"])
    assert encoder.config.decoder is None
    assert "fra_Latn" in encoder.config.languages
    assert run_demo(tmp_path)["rows"] == report["rows"]  # finished stages are not trained again
