"""Speech on the command line and in the pipeline:
encode, translate, mine and release agree with the library."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from transformers import pipeline

import hf_echo
from hf_echo.hub.release import release_speech
from hf_echo.inference import load_translator, translate
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.inference.encode_speech import encode_speech, load_speech_encoder
from hf_echo.search import mine
from hf_echo.utils.speech_data import write_speech_data
from hf_echo.utils.vectors import unit_length

from ..processes import SCRIPTS, WITHOUT_PACKAGE, python
from ..speech_toy import RATE, save_random_encoder, say

soundfile = pytest.importorskip("soundfile")
TEXTS = ["a b c", "d e", "f g h a", "b b", "c"]


@pytest.fixture(scope="module")
def space(toy_folders, tmp_path_factory):
    """A folder of `text`, the release of the toy model, `speech`, an encoder of random weights,
    and recordings."""
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
    options = dict(decoder=space / "text", license="apache-2.0")
    return release_speech(space / "speech", space / "release", **options)


@pytest.fixture(scope="module")
def translator_of_texts(space):
    """The model and the tokenizer whose decoder the releases have."""
    return load_translator(space / "text", dtype="fp32")


def test_encode_writes_the_vectors_of_the_library(space, vectors, succeeds, tmp_path):
    out = tmp_path / "out.npy"
    options = ["--model", space / "speech", "--dtype", "fp32"]

    succeeds("encode", "--audio", space / "files.tsv", out, *options)

    # `vectors` are those of `encode_speech`.
    np.testing.assert_allclose(np.load(out), vectors, atol=1e-5)


def test_one_recording_is_encoded_to_length_1(space, vectors, succeeds, tmp_path):
    out = tmp_path / "out.npy"

    succeeds("encode", "--audio", space / "1.flac", out, "--model", space / "speech", "--normalize")

    np.testing.assert_allclose(np.load(out), unit_length(vectors[1:2]), atol=1e-2)


TO_ENGLISH = ["--to", "eng_Latn", "--dtype", "fp32"]


def test_translate_by_the_decoder_of_the_text_model(space, vectors, succeeds, translator_of_texts):
    models = ["--model", space / "speech", "--decoder", space / "text"]

    out = succeeds("translate", "--audio", space / "files.tsv", *TO_ENGLISH, *models)

    translations = translate(*translator_of_texts, vectors, target_lang="eng_Latn")
    assert out.splitlines() == [" ".join(text.split()) for text in translations]


def test_translate_by_the_decoder_of_a_release(
    space, vectors, succeeds, release, translator_of_texts
):
    out = succeeds("translate", "--audio", space / "2.flac", *TO_ENGLISH, "--model", release)

    (translation,) = translate(*translator_of_texts, vectors[2:3], target_lang="eng_Latn")
    assert out.split() == translation.split()


@pytest.mark.parametrize("words", [["translate", "-"], ["encode", "-", "out.npy"]])
@pytest.mark.parametrize("kind", ["release", "speech"])
def test_a_speech_encoder_reads_no_text(refused, space, release, words, kind):
    model = space / kind
    refused(f"{model} reads audio, not text: give --audio", *words, "--model", model)


def test_translations_of_a_speech_encoder_need_embeddings(release):
    message = "reads audio, not text: give the embeddings that encode_speech makes"
    with pytest.raises(ValueError, match=message):
        translate(*load_translator(release), ["Bonjour"], "fra_Latn")


@pytest.fixture(scope="module")
def speech_pipeline(release):
    return pipeline("sonar-translation", model=str(release), device="cpu")


def french_of(speech_pipeline, inputs) -> list[str]:
    return [row["translation_text"] for row in speech_pipeline(inputs, tgt_lang="fra_Latn")]


def test_the_pipeline_translates_audio_of_any_container(
    space, vectors, speech_pipeline, translator_of_texts
):
    array = {"array": say(TEXTS[2]), "sampling_rate": RATE}
    audio = [str(space / "0.flac"), (space / "1.flac").read_bytes(), array]

    translations = french_of(speech_pipeline, audio)

    assert translations == translate(*translator_of_texts, vectors[:3], target_lang="fra_Latn")


def test_the_pipeline_translates_one_recording(
    space, vectors, speech_pipeline, translator_of_texts
):
    translations = french_of(speech_pipeline, str(space / "3.flac"))

    assert translations == translate(*translator_of_texts, vectors[3:4], target_lang="fra_Latn")


def test_the_pipeline_translates_a_vector(vectors, speech_pipeline, translator_of_texts):
    translations = french_of(speech_pipeline, vectors[4])

    assert translations == translate(*translator_of_texts, vectors[4:], target_lang="fra_Latn")


def test_the_pipeline_takes_a_text_for_a_file(speech_pipeline):
    with pytest.raises(FileNotFoundError, match="no audio file"):
        speech_pipeline("Bonjour", tgt_lang="fra_Latn")


def test_sentence_transformers_opens_a_release(files, vectors, release):
    model = SentenceTransformer(str(release), device="cpu")

    np.testing.assert_allclose(model.encode(files), vectors, atol=1e-4)


def test_the_card_of_a_release_says_what_was_heard(release):
    card = (release / "README.md").read_text()

    assert "license: apache-2.0" in card
    assert "| eng_Latn | flite | 1 | 3 | 0.50 |" in card
    assert "flite: kal16." in card


def test_a_release_knows_its_parents(release):
    lineage = json.loads((release / "recipe.json").read_text())

    assert set(lineage["parents"]) == {"model", "decoder"}


@pytest.fixture
def packaged(tmp_path, succeeds, monkeypatch):
    """A release of 8 bits beside echo-nano, as the package holds it,
    and the student that it was made of."""
    package = tmp_path / "pretrained"
    package.mkdir()
    (package / "echo-nano").symlink_to(hf_echo.pretrained("echo-nano"))
    student = save_random_encoder(tmp_path / "student")
    options = ["--matrix-dtype", "int8", "--code", "installed"]
    succeeds("release", student, package / "echo-nano-speech", *options)
    monkeypatch.setattr(hf_echo, "__file__", str(tmp_path / "__init__.py"))
    monkeypatch.setattr("hf_echo.modeling.translation_echo_speech.PACKAGED", package)
    return Path(hf_echo.pretrained("echo-nano-speech")), student


@pytest.fixture
def recording(tmp_path):
    soundfile.write(tmp_path / "a.wav", say("a b c d e"), RATE)
    return tmp_path / "a.wav"


@pytest.fixture
def packaged_vectors(packaged, recording):
    folder, _ = packaged
    return encode_speech(*load_speech_encoder(folder), [recording])


def test_encode_takes_the_speech_encoder_of_the_package(
    packaged_vectors, recording, succeeds, tmp_path
):
    succeeds("encode", "--audio", recording, tmp_path / "a.npy")

    np.testing.assert_allclose(np.load(tmp_path / "a.npy"), packaged_vectors, atol=1e-5)


def test_translate_takes_the_speech_encoder_of_the_package(packaged_vectors, recording, succeeds):
    out = succeeds("translate", "--audio", recording)

    echo_nano = load_translator(hf_echo.pretrained("echo-nano"))
    (translation,) = translate(*echo_nano, packaged_vectors, target_lang="eng_Latn")
    assert out.split() == translation.split()


def test_the_pipeline_gives_the_speech_encoder_of_the_package_its_decoder(packaged, recording):
    """As echo-nano translates the same vector."""
    folder, _ = packaged
    vectors = SentenceTransformer(str(folder), device="cpu").encode([str(recording)])

    of_audio = pipeline("sonar-translation", model=str(folder), device="cpu")([str(recording)])

    echo_nano = pipeline("sonar-translation", model=hf_echo.pretrained("echo-nano"), device="cpu")
    assert of_audio == echo_nano(vectors, rerank_weight=0.0)


def test_a_release_of_8_bits_is_small(packaged):
    """All convolutions are stored as int8. The query of the pooler stays as it is,
    because it is a vector."""
    folder, student = packaged

    sizes = [(place / "model.safetensors").stat().st_size for place in (folder, student)]
    assert sizes[0] < 0.6 * sizes[1]
    wide = set()
    for name, tensor in load_file(folder / "model.safetensors").items():
        if tensor.ndim == 3:
            wide.add(name.rpartition(".")[2])
    assert wide == {"int8", "query"}


def test_a_release_of_8_bits_is_near_its_student(packaged, packaged_vectors, recording):
    _, student = packaged

    vectors = encode_speech(*load_speech_encoder(student), [recording])

    cosine = (unit_length(vectors) * unit_length(packaged_vectors)).sum()
    assert cosine > 0.99


@pytest.mark.slow
def test_a_release_translates_without_the_package(
    space, vectors, release, tmp_path, translator_of_texts
):
    audio = str(space / "0.flac")
    out = tmp_path / "out.npy"
    environment = os.environ | {"HF_HOME": str(tmp_path / "home")}

    script = ["-I", WITHOUT_PACKAGE, SCRIPTS / "open_speech_release.py"]
    written = python(*script, release, audio, out, cwd=tmp_path, env=environment)

    # The library translates the same vector, in this process.
    (translation,) = translate(*translator_of_texts, vectors[:1], target_lang="fra_Latn")
    assert written.strip() == translation.strip()
    np.testing.assert_allclose(np.load(out), vectors[:1], atol=1e-4)


def pairs_of(path) -> list[list[str]]:
    """Source and target of each line behind the header."""
    _, *lines = path.read_text().splitlines()
    return sorted(line.split("\t")[1:] for line in lines)


@pytest.fixture
def mining(space, tmp_path):
    """A command that mines recordings against their texts in another order."""
    (tmp_path / "text.txt").write_text("\n".join(reversed(TEXTS)) + "\n")
    words = ["mine", "--audio", space / "files.tsv", tmp_path / "text.txt"]
    options = ["--out", tmp_path / "pairs.tsv", "--k", 2]
    return [*words, *options, "--model", space / "speech", "--text-model", space / "text"]


def test_mine_pairs_recordings_with_texts_as_the_library(space, files, mining, succeeds, tmp_path):
    succeeds(*mining)

    # The library's functions, step by step.
    texts = list(reversed(TEXTS))
    recordings = encode_speech(*load_speech_encoder(space / "speech"), files)
    expected = mine(recordings, any_encoder(str(space / "text"))(texts, None), k=2)
    assert pairs_of(tmp_path / "pairs.tsv") == sorted(
        [files[i], texts[j]] for i, j in expected.pairs()
    )


def test_mine_reads_again_what_it_wrote(mining, succeeds, tmp_path):
    succeeds(*mining)
    before = pairs_of(tmp_path / "pairs.tsv")

    succeeds(*mining)

    assert pairs_of(tmp_path / "pairs.tsv") == before


def test_mine_pairs_recordings_with_themselves(space, succeeds, tmp_path):
    files = [space / "files.tsv", space / "files.tsv", "--out", tmp_path / "pairs.tsv"]
    options = ["--model", space / "speech", "--margin", "cosine", "--audio-target"]

    succeeds("mine", "--audio", *files, *options)

    pairs = pairs_of(tmp_path / "pairs.tsv")
    sources, targets = zip(*pairs, strict=True)
    assert len(pairs) == len(TEXTS)
    assert sources == targets


@pytest.mark.parametrize(
    "message, words",
    [
        ("not a speech encoder", "encode --audio files.tsv out.npy --model text"),
        ("no file", "encode --audio none.wav out.npy --model speech"),
        ("list.tsv:1: no audio file a.wav", "encode --audio list.tsv out.npy --model speech"),
        ("without decoder/: add", "translate --audio 0.flac --model speech"),
        ("--decoder needs --audio", "translate --decoder x files.tsv --model text"),
        (
            "does not go with --audio",
            "encode --audio files.tsv o.npy --model speech --lang fra_Latn",
        ),
        (
            "does not go with --audio",
            "encode --audio files.tsv o.npy --model speech --max-tokens 3",
        ),
        (
            "--from does not go with --audio",
            "translate --audio files.tsv --model speech --from fra_Latn",
        ),
        (
            "--source-lang does not go with --audio",
            "mine --audio files.tsv files.tsv -o out.tsv --model speech --source-lang fra_Latn",
        ),
        (
            "--text-model does not go with --audio-target",
            "mine --audio files.tsv files.tsv -o out.tsv --model speech --audio-target --text-model text",
        ),
        (
            "needs --margin ratio or distance",
            "evaluate speech --model speech --k 2 --data files.tsv",
        ),
        (
            "--audio-target needs --audio",
            "mine --audio-target files.tsv files.tsv -o out.tsv --model speech",
        ),
        ("of a speech encoder", "release text r --decoder x"),
    ],
)
def test_what_does_not_go_together_is_refused(
    space, tmp_path, refused, monkeypatch, message, words
):
    """In a folder that shows the models and the recordings; nothing is written."""
    for file in space.iterdir():
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / "list.tsv").write_text("a.wav\n")
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())

    refused(message, *words.split())

    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "words", ["encode a.tsv out.npy", "translate a.tsv", "mine a.tsv a.tsv -o out.tsv"]
)
def test_a_package_without_speech_encoder_says_how_to_make_one(
    refused, tmp_path, monkeypatch, words
):
    (tmp_path / "pretrained").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hf_echo, "__file__", str(tmp_path / "__init__.py"))
    message = "the package has no echo-nano-speech: hf-echo train echo-nano-speech makes"
    refused(message, *words.split(), "--audio")


def test_a_file_that_is_no_audio_is_refused(space, run, tmp_path):
    (tmp_path / "bad.wav").write_text("no audio")
    words = ["--audio", tmp_path / "bad.wav", tmp_path / "out.npy", "--model", space / "speech"]

    code, _, err = run("encode", *words)

    assert code == 2
    assert "not a readable wav" in err.splitlines()[-1]
    assert not (tmp_path / "out.npy").exists()


def test_a_decoder_of_another_space_is_not_released(space, run, tmp_path):
    nano = hf_echo.pretrained("echo-nano")

    code, _, err = run("release", space / "speech", tmp_path / "r", "--decoder", nano)

    assert code == 2
    assert "dimensions and the decoder of" in err.splitlines()[-1]
    assert not (tmp_path / "r").exists()
