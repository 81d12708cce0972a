"""Speech on the command line and in the pipeline: encode, translate, mine and release agree with the library."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from transformers import AutoFeatureExtractor, pipeline

import hf_echo
from hf_echo.hub.release import release_speech
from hf_echo.inference import load_translator, translate
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.inference.encode_speech import encode_speech, load_speech_encoder
from hf_echo.modeling import EchoAudioFeatureExtractor
from hf_echo.search import mine
from hf_echo.utils.speech_data import write_speech_data

from ..processes import python
from ..speech_toy import RATE, save_random_encoder, say

soundfile = pytest.importorskip("soundfile")
TEXTS = ["a b c", "d e", "f g h a", "b b", "c"]


@pytest.fixture(scope="module")
def space(toy_folders, tmp_path_factory):
    """A folder of `text`, the release of the toy model, `speech`, an encoder of random weights, and recordings."""
    place = tmp_path_factory.mktemp("space")
    (place / "text").symlink_to(toy_folders["release"])
    save_random_encoder(place / "speech", 32)
    lines = ["audio\ttext"]
    for number, text in enumerate(TEXTS):
        soundfile.write(place / f"{number}.flac", say(text), RATE)
        lines.append(f"{number}.flac\t{text}")
    (place / "files.tsv").write_text("\n".join(lines) + "\n")
    return place


@pytest.fixture(scope="module")
def files(space):
    return [str(space / f"{number}.flac") for number in range(len(TEXTS))]


@pytest.fixture(scope="module")
def vectors(space, files):
    return encode_speech(*load_speech_encoder(space / "speech", dtype="fp32"), files)


@pytest.fixture(scope="module")
def release(space):
    row = {"lang": "eng_Latn", "source": "flite", "voices": 1, "recordings": 3, "hours": 0.5}
    write_speech_data(space / "speech", {"rows": [row], "voices": {"flite": ["kal16"]}})
    return release_speech(
        space / "speech", space / "release", decoder=space / "text", license="apache-2.0"
    )


def test_encode(space, vectors, run, tmp_path):
    out = tmp_path / "out.npy"
    code, _, err = run(
        "encode",
        "--audio",
        space / "files.tsv",
        out,
        "--model",
        space / "speech",
        "--dtype",
        "fp32",
    )
    assert code == 0, err
    np.testing.assert_allclose(np.load(out), vectors, atol=1e-5)
    again = ("--normalize", "--overwrite")
    run("encode", "--audio", space / "1.flac", out, "--model", space / "speech", *again)
    np.testing.assert_allclose(np.load(out)[0], vectors[1] / np.linalg.norm(vectors[1]), atol=1e-2)


def test_translate(space, vectors, run, release):
    """By the decoder of the text model, and by a release's own."""
    text = load_translator(space / "text", dtype="fp32")
    want = [" ".join(line.split()) for line in translate(*text, vectors, target_lang="eng_Latn")]
    options = ("--to", "eng_Latn", "--dtype", "fp32")
    other = ("--model", space / "speech", "--decoder", space / "text")
    assert (
        run("translate", "--audio", space / "files.tsv", *options, *other)[1].splitlines() == want
    )
    own = run("translate", "--audio", space / "2.flac", *options, "--model", release)[1]
    assert own.splitlines() == want[2:3]


def test_a_speech_encoder_reads_no_text(refused, space, release, tmp_path):
    for words in (["translate", "-"], ["encode", "-", tmp_path / "out.npy"]):
        for model in (release, space / "speech"):
            refused(f"{model} reads audio, not text: give --audio", *words, "--model", model)
    with pytest.raises(
        ValueError, match="reads audio, not text: give the embeddings that encode_speech makes"
    ):
        translate(*load_translator(release), ["Bonjour"], "fra_Latn")


def test_pipeline(space, vectors, release):
    translator = pipeline("sonar-translation", model=str(release), device="cpu")
    want = translate(
        *load_translator(space / "text", dtype="fp32"), vectors, target_lang="fra_Latn"
    )
    audio = [
        str(space / "0.flac"),
        (space / "1.flac").read_bytes(),
        {"array": say(TEXTS[2]), "sampling_rate": RATE},
    ]
    have = [row["translation_text"] for row in translator(audio, tgt_lang="fra_Latn")]
    assert have == want[:3]
    assert translator(str(space / "3.flac"), tgt_lang="fra_Latn")[0]["translation_text"] == want[3]
    assert translator(vectors[4], tgt_lang="fra_Latn")[0]["translation_text"] == want[4]
    pytest.raises(FileNotFoundError, translator, "Bonjour", tgt_lang="fra_Latn").match(
        "no audio file"
    )


def test_a_release_opens_everywhere(files, vectors, release):
    model = SentenceTransformer(str(release), device="cpu")
    np.testing.assert_allclose(model.encode(files), vectors, atol=1e-4)
    assert isinstance(AutoFeatureExtractor.from_pretrained(release), EchoAudioFeatureExtractor)
    card = (release / "README.md").read_text()
    assert "license: apache-2.0" in card
    assert "| eng_Latn | flite | 1 | 3 | 0.50 |" in card
    assert "flite: kal16." in card
    lineage = json.loads((release / "recipe.json").read_text())
    assert set(lineage["parents"]) == {"model", "decoder"}


def test_the_speech_encoder_of_the_package(tmp_path, run, monkeypatch):
    """A release of 8 bits that is put beside echo-nano is the default of everything that reads audio."""
    nano = hf_echo.pretrained("echo-nano")
    package = tmp_path / "pretrained"
    package.mkdir()
    (package / "echo-nano").symlink_to(nano)
    save_random_encoder(tmp_path / "student")
    release = (
        "release",
        tmp_path / "student",
        package / "echo-nano-speech",
        "--matrix-dtype",
        "int8",
    )
    assert run(*release, "--code", "installed")[0] == 0
    monkeypatch.setattr(hf_echo, "__file__", str(tmp_path / "__init__.py"))
    monkeypatch.setattr("hf_echo.modeling.translation_echo_speech.PACKAGED", package)
    soundfile.write(tmp_path / "a.wav", say("a b c d e"), RATE)
    folder = Path(hf_echo.pretrained("echo-nano-speech"))
    want = encode_speech(*load_speech_encoder(folder), [tmp_path / "a.wav"])
    assert run("encode", "--audio", tmp_path / "a.wav", tmp_path / "a.npy")[0] == 0
    np.testing.assert_allclose(np.load(tmp_path / "a.npy"), want, atol=1e-5)
    text = run("translate", "--audio", tmp_path / "a.wav")[1].strip()
    assert text == translate(*load_translator(nano), want, target_lang="eng_Latn")[0].strip()
    vector = SentenceTransformer(str(folder), device="cpu").encode([str(tmp_path / "a.wav")])
    np.testing.assert_allclose(vector, want, atol=0.05)
    (row,) = pipeline("sonar-translation", model=str(folder), device="cpu")(
        [str(tmp_path / "a.wav")]
    )
    of_text = pipeline("sonar-translation", model=str(nano), device="cpu")(
        vector, rerank_weight=0.0
    )
    assert row == of_text[0]
    whole, small = (
        (tmp_path / name / "model.safetensors").stat().st_size for name in ("student", folder)
    )
    assert small < 0.6 * whole
    stored = load_file(folder / "model.safetensors").items()
    wide = {name.rpartition(".")[2] for name, tensor in stored if tensor.ndim == 3}
    assert wide == {"int8", "query"}  # convolutions, and the pooler's query, which is no matrix
    (plain,) = encode_speech(*load_speech_encoder(tmp_path / "student"), [tmp_path / "a.wav"])
    assert plain @ want[0] > 0.99 * np.linalg.norm(plain) * np.linalg.norm(want[0])


OPEN = """
import sys
sys.modules["hf_echo"] = None  # as where it is not installed
import numpy as np
from sentence_transformers import SentenceTransformer
from transformers import AutoModelForSeq2SeqLM, pipeline
release, audio, out = sys.argv[1:]
model = AutoModelForSeq2SeqLM.from_pretrained(release, trust_remote_code=True)
assert type(model).__name__ == "EchoSpeechForTranslation", type(model)
translator = pipeline("sonar-translation", model=release, device="cpu", trust_remote_code=True)
np.save(out, SentenceTransformer(release, device="cpu", trust_remote_code=True).encode([audio]))
print(translator(audio, tgt_lang="fra_Latn")[0]["translation_text"])
"""


@pytest.mark.slow
def test_a_release_translates_without_the_package(space, vectors, release, tmp_path):
    audio = str(space / "0.flac")
    out = tmp_path / "out.npy"
    environment = os.environ | {"HF_HOME": str(tmp_path / "home")}
    written = python("-I", "-c", OPEN, release, audio, out, cwd=tmp_path, env=environment)
    text = load_translator(space / "text", dtype="fp32")
    assert written.strip() == translate(*text, vectors[:1], target_lang="fra_Latn")[0].strip()
    np.testing.assert_allclose(np.load(out), vectors[:1], atol=1e-4)


def test_mine_speech_with_text_and_with_itself(space, files, run, tmp_path):
    """The pairs are those of `mine` on the same embeddings, and a second run reads what the first wrote."""
    (tmp_path / "text.txt").write_text("\n".join(TEXTS[::-1]) + "\n")
    out = tmp_path / "pairs.tsv"
    options = ("--model", space / "speech", "--text-model", space / "text", "--k", 2)
    command = (
        "mine",
        "--audio",
        space / "files.tsv",
        tmp_path / "text.txt",
        "--out",
        out,
        *options,
    )
    assert run(*command)[0] == 0
    rows = [line.split("\t") for line in out.read_text().splitlines()[1:]]
    x = encode_speech(*load_speech_encoder(space / "speech"), files)
    found = mine(x, any_encoder(str(space / "text"))(TEXTS[::-1], None), k=2)
    want = [(files[i], TEXTS[::-1][j]) for i, j in zip(found.sources, found.targets)]
    assert sorted((source, target) for _, source, target in rows) == sorted(want)
    assert run(*command)[0] == 0
    out = tmp_path / "itself.tsv"
    options = ("--model", space / "speech", "--margin", "cosine", "--audio-target")
    code, _, err = run("mine", "--audio", *[space / "files.tsv"] * 2, "--out", out, *options)
    assert code == 0, err
    rows = [line.split("\t") for line in out.read_text().splitlines()[1:]]
    assert len(rows) == len(TEXTS)
    assert all(source == target for _, source, target in rows)


def test_refusals(space, refused, run, tmp_path, monkeypatch):
    out = tmp_path / "out.npy"
    files = space / "files.tsv"
    speech = ("--model", space / "speech")
    text = ("--model", space / "text")
    refused("not a speech encoder", "encode", "--audio", files, out, *text)
    refused("no file", "encode", "--audio", space / "none.wav", out, *speech)
    (tmp_path / "list.tsv").write_text("a.wav\n")
    refused(
        "list.tsv:1: no audio file a.wav", "encode", "--audio", tmp_path / "list.tsv", out, *speech
    )
    (tmp_path / "bad.wav").write_text("no audio")
    code, _, err = run("encode", "--audio", tmp_path / "bad.wav", out, *speech)
    assert code == 2
    assert "not a readable wav" in err.splitlines()[-1]
    assert not out.exists()
    refused("without decoder/: add", "translate", "--audio", space / "0.flac", *speech)
    refused("--decoder needs --audio", "translate", "--decoder", "x", files, *text)
    for words in (("--lang", "fra_Latn"), ("--max-tokens", 3)):
        refused("does not go with --audio", "encode", "--audio", files, out, *speech, *words)
    (tmp_path / "pretrained").mkdir()
    with monkeypatch.context() as without:
        without.setattr(hf_echo, "__file__", str(tmp_path / "__init__.py"))
        for words in (
            ("encode", files, out),
            ("translate", files),
            ("mine", files, files, "-o", out),
        ):
            refused(
                "the package has no echo-nano-speech: hf-echo train echo-nano-speech makes",
                *words,
                "--audio",
            )
    refused(
        "--from does not go with --audio",
        "translate",
        "--audio",
        files,
        *speech,
        "--from",
        "fra_Latn",
    )
    both = ("mine", "--audio", files, files, "-o", out, *speech)
    refused("--source-lang does not go with --audio", *both, "--source-lang", "fra_Latn")
    refused(
        "--text-model does not go with --audio-target",
        *both,
        "--audio-target",
        "--text-model",
        space / "text",
    )
    refused(
        "needs --margin ratio or distance", "evaluate", "speech", *speech, "--k", 2, "--data", files
    )
    refused(
        "--audio-target needs --audio", "mine", "--audio-target", files, files, "-o", out, *speech
    )
    refused("of a speech encoder", "release", space / "text", tmp_path / "r", "--decoder", "x")
    nano = hf_echo.pretrained("echo-nano")
    code, _, err = run("release", space / "speech", tmp_path / "r", "--decoder", nano)
    assert code == 2
    assert "dimensions and the decoder of" in err.splitlines()[-1]
    assert not (tmp_path / "r").exists()
