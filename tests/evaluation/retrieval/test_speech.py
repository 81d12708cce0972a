"""Speech measures on embeddings that are known, against counts by hand;
the command with a tiny random encoder."""

import json

import datasets
import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF

from hf_echo.evaluation import evaluate_speech

from ...speech_toy import save_random_encoder

COMMAND = "evaluate speech"
MEANINGS = ["sun", "rain", "snow", "wind"]
WORDS = {
    "eng_Latn": MEANINGS,
    "deu_Latn": ["Sonne", "Regen", "Schnee", "Wind"],
    "cat_Latn": ["sol", "pluja", "neu", "vent"],
}
AXES = np.eye(8)


def encode(texts, lang):
    """Each meaning is an axis, in every language. The Catalan text of snow is at rain.
    Negatives are at axis 4 on."""
    axis_of = {word: axis for axis, word in enumerate(WORDS[lang])}
    for axis, word in enumerate(MEANINGS):
        axis_of[f"not {word}"] = axis + 4
    axis_of["neu"] = 1
    return AXES[[axis_of[text] for text in texts]]


# Language, meaning, and the meaning that the encoder hears.
HEARD = [
    ("eng_Latn", 0, 0),
    ("eng_Latn", 0, 1),  # a second recording of sun, heard as rain
    ("eng_Latn", 1, 1),
    ("eng_Latn", 2, 2),
    ("deu_Latn", 0, 0),
    ("deu_Latn", 3, 3),
    ("cat_Latn", 2, 2),  # its text is wrong, its speech is right
    ("cat_Latn", 1, 0),  # heard as sun, which no Catalan row is
    ("cat_Latn", 1, 1),
]
ROWS = []
for lang, meaning, _ in HEARD:
    ROWS.append({"text": WORDS[lang][meaning], "lang": lang, "english": MEANINGS[meaning]})
ROWS[-1]["english"] = None
VECTORS = 2.5 * AXES[[heard for _, _, heard in HEARD]]


@pytest.mark.parametrize(
    ("lang", "count", "candidates", "xsim", "text_xsim", "own_xsim"),
    [
        ("eng_Latn", 4, 3, 25.0, 0.0, 25.0),
        ("deu_Latn", 2, 2, 0.0, 0.0, 0.0),
        ("cat_Latn", 3, 2, 50.0, 50.0, pytest.approx(200 / 3)),
    ],
)
def test_figures_of_a_language_are_counted_by_hand(
    lang, count, candidates, xsim, text_xsim, own_xsim
):
    """Candidates of Catalan are snow and rain. Speech on the axis of sun has cosine 0 with both,
    and equal scores go to the first, snow. In its own text, snow and rain are both on axis 1: the
    first one, snow, is found for all."""
    table = evaluate_speech(ROWS, VECTORS, encode)

    (row,) = [row for row in table.rows if row["lang"] == lang]
    assert row["count"] == count
    assert row["candidates"] == candidates
    assert row["xsim"] == xsim
    assert row["text_xsim"] == text_xsim
    assert row["own_xsim"] == own_xsim


def test_unheard_languages_have_an_average_of_their_own():
    table = evaluate_speech(ROWS, VECTORS, encode, unheard=["cat_Latn"])

    assert [row["heard"] for row in table.rows] == [True, True, False]
    assert table.average["xsim"] == 25.0
    assert table.notes["average_heard"]["xsim"] == 12.5
    assert table.notes["average_unheard"]["xsim"] == 50.0


def test_hard_negatives_are_candidates():
    """English speech of rain lies a little nearer to a negative of snow;
    without negatives it is right."""
    vectors = VECTORS.copy()
    vectors[2] = AXES[1] + 1.1 * AXES[6]
    negatives = {text: [(f"not {text}", "negation")] for text in MEANINGS}

    english = evaluate_speech(ROWS, vectors, encode, negatives=negatives).rows[0]

    assert english["xsim"] == 25.0
    assert english["xsimpp"] == 50.0


def test_translation_scores_are_sacrebleus():
    """The decoder reads the meaning of a vector, and of any text "sun"."""

    def translate(inputs, source, target):
        if isinstance(inputs[0], str):
            return ["sun"] * len(inputs)
        return [MEANINGS[vector.argmax()] for vector in inputs]

    english, german, _ = evaluate_speech(ROWS, VECTORS, encode, translate=translate).rows

    references = [["sun", "sun", "rain", "snow"]]
    from_speech = ["sun", "rain", "rain", "snow"]
    assert english["chrf"] == pytest.approx(
        CHRF(word_order=2).corpus_score(from_speech, references).score
    )
    assert english["bleu"] == pytest.approx(BLEU().corpus_score(from_speech, references).score)
    from_text = CHRF(word_order=2).corpus_score(["sun"] * 4, references).score
    assert english["text_chrf"] == pytest.approx(from_text)
    assert german["chrf"] == 100


@pytest.mark.parametrize(
    "rows, vectors, message",
    [
        ([{"lang": "deu_Latn", "text": "Sonne"}], AXES[:1], "no row has an English translation"),
        (
            ROWS,
            np.where(np.arange(9) == 4, np.nan, VECTORS.T).T,
            r"speech embedding of row 5 \('Sonne'\)",
        ),
    ],
)
def test_wrong_input(rows, vectors, message):
    with pytest.raises(ValueError, match=message):
        evaluate_speech(rows, vectors, encode)


@pytest.fixture(scope="module")
def speech_folder(tmp_path_factory):
    """A tiny random speech encoder with the embedding size of echo-nano,
    and three recordings of tones."""
    soundfile = pytest.importorskip("soundfile")
    folder = tmp_path_factory.mktemp("speech")
    save_random_encoder(folder / "model", languages=["eng_Latn"])
    rows = [
        "audio\ttext\tlang\tenglish",
        "0.wav\tWe saw 12 ships.\teng_Latn\t",
        "1.wav\tJa\tdeu_Latn\tYes",
        "2.wav\tNein\tdeu_Latn\tNo",
    ]
    for number in range(3):
        seconds = np.arange(8000 + 800 * number) / 16_000
        tone = np.sin(2 * np.pi * (200 + 50 * number) * seconds)
        soundfile.write(folder / f"{number}.wav", 0.3 * tone, 16_000)
    (folder / "speech.tsv").write_text("\n".join(rows) + "\n")
    return folder


@pytest.fixture
def arguments(speech_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    files = ["--model", speech_folder / "model", "--data", speech_folder / "speech.tsv"]
    return [*files, "--text-model", "echo-nano"]


def test_command_measures_each_language(answer, arguments):
    report = answer(*arguments, "--hard-negatives")

    german, english = sorted(report["rows"], key=lambda row: row["lang"])
    assert english["heard"]  # the model names English
    assert not german["heard"]
    assert german["count"] == german["candidates"] == 2
    assert german["text_xsim"] <= 50
    assert english["xsimpp"] is not None
    assert report["hours"] == pytest.approx((8000 + 8800 + 9600) / 16_000 / 3600)


@pytest.mark.slow
def test_command_translates_with_a_decoder(answer, arguments):
    """echo-nano writes until its limit, since the vectors are random."""
    report = answer(*arguments, "--decoder", "echo-nano")

    for row in report["rows"]:
        assert 0 <= row["chrf"] < 60
        assert 0 <= row["text_chrf"] <= 100


@pytest.fixture
def data_with_a_broken_file(speech_folder, tmp_path):
    for file in speech_folder.glob("*.*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "2.wav").write_text("not audio")
    return ["--data", tmp_path / "speech.tsv"]


def test_a_file_that_is_no_audio_is_named(refused, arguments, data_with_a_broken_file):
    refused("2.wav: not a readable wav", *arguments, *data_with_a_broken_file)


def test_a_file_that_is_no_audio_may_be_skipped(run, arguments, data_with_a_broken_file):
    code, out, err = run(*arguments, *data_with_a_broken_file, "--on-bad-row", "skip")

    assert code == 0
    assert json.loads(out)["skipped"] == 1
    assert "skipped 1 of 3 audio files, the first:" in err


def test_a_text_model_of_another_space_is_refused(run, arguments, monkeypatch):
    other_space = "hf_echo.inference.any_encoder.any_encoder"
    monkeypatch.setattr(other_space, lambda name: lambda texts, lang: np.ones((len(texts), 24)))

    code, _, error = run(*arguments)

    assert code == 2
    assert "embeddings of size 384" in error
    assert "echo-nano of size 24: give" in error
