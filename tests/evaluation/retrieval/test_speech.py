"""Speech measures on embeddings that are known, against counts by hand; the command with a tiny random encoder."""

import json
import re

import datasets
import numpy as np
import pytest

from hf_echo.evaluation import evaluate_speech

from ...speech_toy import save_random_encoder

COMMAND = "evaluate"
MEANINGS = ["sun", "rain", "snow", "wind"]
WORDS = {
    "eng_Latn": MEANINGS,
    "deu_Latn": ["Sonne", "Regen", "Schnee", "Wind"],
    "cat_Latn": ["sol", "pluja", "neu", "vent"],
}
AXES = np.eye(8)


def encode(texts, lang):
    """Each meaning is an axis, in every language. The Catalan text of snow is at rain. Negatives are at axis 4 on."""
    vectors = []
    for text in texts:
        if text.startswith("not "):
            vectors.append(AXES[4 + MEANINGS.index(text[4:])])
        else:
            at = WORDS[lang].index(text)
            vectors.append(AXES[1] if (lang, at) == ("cat_Latn", 2) else AXES[at])
    return np.stack(vectors)


def row(lang: str, meaning: int, at: int, source: str = "one", speaker: str = "v", english: bool = True):
    """(row, embedding): speech of a meaning that the encoder puts on axis `at`."""
    text = {"english": MEANINGS[meaning]} if english and lang != "eng_Latn" else {}
    return {"text": WORDS[lang][meaning], "lang": lang, "source": source, "speaker": speaker} | text, AXES[at] * 2.5


SPEECH = [
    row("eng_Latn", 0, 0),
    row("eng_Latn", 0, 1, "two"),  # a second recording of sun, heard as rain
    row("eng_Latn", 1, 1),
    row("eng_Latn", 2, 2, "two", "w"),
    row("deu_Latn", 0, 0),
    row("deu_Latn", 3, 3, "two", "w"),
    row("cat_Latn", 2, 2),  # its text is wrong, its speech is right
    row("cat_Latn", 1, 0, "two"),  # heard as sun, which no Catalan row is
    row("cat_Latn", 1, 1, "two", english=False),
]
ROWS, VECTORS = [r for r, _ in SPEECH], np.stack([v for _, v in SPEECH])


def test_by_language_against_counts_by_hand():
    """Candidates of Catalan are snow and rain. Speech on the axis of sun has cosine 0 with both, and equal scores go to
    the first, snow. In its own text, snow and rain are both on axis 1: the first one, snow, is found for all."""
    report = evaluate_speech(ROWS, VECTORS, encode, unheard=["cat_Latn"])
    columns = ("count", "heard", "candidates", "xsim", "text_xsim", "own_xsim")
    assert {row["lang"]: tuple(row[name] for name in columns) for row in report.rows} == {
        "eng_Latn": (4, True, 3, 25.0, 0.0, 25.0),
        "deu_Latn": (2, True, 2, 0.0, 0.0, 0.0),
        "cat_Latn": (3, False, 2, 50.0, 50.0, pytest.approx(200 / 3)),
    }
    assert report.average["xsim"] == 25.0
    assert [report.notes[f"average_{kind}"]["xsim"] for kind in ("heard", "unheard")] == [12.5, 50.0]


def test_hard_negatives_are_candidates():
    """English speech of rain lies a little nearer to a negative of snow; without negatives it is right."""
    vectors = VECTORS.copy()
    vectors[2] = AXES[1] + 1.1 * AXES[6]
    negatives = {text: [(f"not {text}", "negation")] for text in MEANINGS}
    report = evaluate_speech(ROWS, vectors, encode, negatives=negatives).rows[0]
    assert report["xsim"] == 25.0 and report["xsimpp"] == 50.0


def test_translation_scores():
    """A decoder that reads the axis: the scores of sacrebleu for these words."""
    from sacrebleu.metrics import BLEU, CHRF

    def translate(inputs, source, target):
        assert target == "eng_Latn"
        return [MEANINGS[int(np.argmax(v))] if not isinstance(v, str) else "sun" for v in inputs]

    report = evaluate_speech(ROWS, VECTORS, encode, translate=translate)
    english, german, _ = report.rows
    assert german["chrf"] == 100 and german["text_chrf"] < 60
    texts = ["sun", "rain", "rain", "snow"], [["sun", "sun", "rain", "snow"]]
    chrf, bleu = (metric.corpus_score(*texts).score for metric in (CHRF(word_order=2), BLEU()))
    assert (english["chrf"], english["bleu"]) == pytest.approx((chrf, bleu))
    assert report.average["chrf"] < 100


@pytest.mark.parametrize(
    "rows, vectors, options, message",
    [
        (ROWS, VECTORS[:3], {}, "9 rows need one each"),
        ([{"lang": "deu_Latn", "text": "Sonne"}], AXES[:1], {}, "no row has an English translation"),
        (ROWS, VECTORS * np.where(np.arange(9) == 4, np.nan, 1)[:, None], {}, r"speech embedding of row 5 \('Sonne'\)"),
    ],
)
def test_wrong_input(rows, vectors, options, message):
    with pytest.raises(ValueError, match=message):
        evaluate_speech(rows, vectors, encode, **options)


@pytest.fixture
def speech_folder(tmp_path, monkeypatch):
    """A tiny random speech encoder with the embedding size of echo-nano, and a corpus of tones."""
    soundfile = pytest.importorskip("soundfile")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    save_random_encoder(tmp_path / "model", languages=["eng_Latn"])
    lines = ["audio\ttext\tlang\tenglish\tsource"]
    for n, (text, lang) in enumerate([("We saw 12 ships.", "eng_Latn"), ("Ja", "deu_Latn"), ("Nein", "deu_Latn")] * 2):
        tone = 0.3 * np.sin(2 * np.pi * (200 + 50 * n) * np.arange(8000 + 800 * n) / 16_000)
        soundfile.write(tmp_path / f"{n}.wav", tone, 16_000)
        lines.append(f"{n}.wav\t{text}\t{lang}\t{ {'Ja': 'Yes', 'Nein': 'No'}.get(text, '') }\tespeak-ng")
    (tmp_path / "speech.tsv").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_command(run, answer, refused, speech_folder, monkeypatch):
    arguments = ["speech", "--model", speech_folder / "model", "--data", speech_folder / "speech.tsv"]
    arguments += ["--text-model", "echo-nano"]
    report = answer(*arguments, "--hard-negatives", "--decoder", "echo-nano")
    table = {row["lang"]: row for row in report["rows"]}
    assert table["eng_Latn"]["heard"] and not table["deu_Latn"]["heard"]  # the model names English
    assert table["deu_Latn"]["count"] == 4 and table["deu_Latn"]["candidates"] == 2
    assert 0 <= table["deu_Latn"]["chrf"] < 60 and table["deu_Latn"]["text_xsim"] <= 50
    assert report["hours"] == pytest.approx(sum(8000 + 800 * n for n in range(6)) / 16_000 / 3600)

    (speech_folder / "2.wav").write_text("not audio")
    refused("2.wav: not a readable wav", *arguments)
    code, out, err = run(*arguments, "--on-bad-row", "skip")
    assert code == 0 and json.loads(out)["skipped"] == 1 and "skipped 1 of 6 audio files, the first:" in err
    other = "hf_echo.inference.any_encoder.any_encoder"
    monkeypatch.setattr(other, lambda name: lambda texts, lang: np.ones((len(texts), 24)))
    code, _, err = run(*arguments, "--on-bad-row", "skip")
    assert code == 2 and re.search("embeddings of size 384 and .*echo-nano of size 24: give", err)
