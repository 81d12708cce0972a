"""Spoken corpora: the same bytes by seed, resumed after an interruption, in the schema,
with the voices wanted."""

import json

import numpy as np
import pytest

from hf_echo.data import load_speech
from hf_echo.data.speech import read_audio, refuse_kept, spoken_corpus
from hf_echo.data.speech.spoken_corpus import SpeechPlan, speak_corpus
from hf_echo.data.speech.spoken_sentences import (
    Effects,
    Sentence,
    apply_effects,
    read_sentences,
)

from ...refusals import refusals, refuses

pytest.importorskip("soundfile")
COMMAND = "data speak"
QUIET = Effects(room=0, noise=0, band=0)
SENTENCES = []
for number in range(4):
    for lang in ("eng_Latn", "deu_Latn"):
        SENTENCES.append(Sentence(f"sentence {number}", lang, f"english {number}"))


@pytest.fixture
def engines(fake_engines):
    return [fake_engines["espeak-ng"], fake_engines["flite"]]


def content(folder) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.glob("*.parquet"))}


class Spoken:
    """Three clips of each sentence without effects: the report and the rows."""

    def __init__(self, engines, folder):
        self.report = speak_corpus(SENTENCES, folder, engines, SpeechPlan(copies=3, effects=QUIET))
        self.speech = load_speech(folder)
        self.rows = list(self.speech)


@pytest.fixture
def spoken(engines, tmp_path):
    return Spoken(engines, tmp_path / "out")


def test_a_corpus_has_the_columns_of_speech(spoken):
    assert spoken.speech.column_names == ["audio", "text", "lang", "english", "source", "speaker"]


def test_every_sentence_is_spoken_by_several_voices(spoken):
    texts = [(row["text"], row["lang"], row["english"]) for row in spoken.rows]
    assert sorted(texts) == sorted(tuple(sentence) for sentence in SENTENCES * 3)
    assert len({row["speaker"] for row in spoken.rows}) > 5


def test_an_engine_speaks_its_languages(spoken):
    languages = {(row["source"], row["lang"]) for row in spoken.rows}
    assert languages == {
        ("espeak-ng", "eng_Latn"),
        ("espeak-ng", "deu_Latn"),
        ("flite", "eng_Latn"),
    }


def test_no_voice_is_kept_for_measuring(spoken):
    refuse_kept(spoken.speech)


PITCHES = {"f2": 400, "m3": 200, "kal16": 500, "rms": 600}


def pitches_of(spoken, engine: str) -> np.ndarray:
    """(clips of an engine, 2): the measured pitch, and that of the voice."""
    pitches = []
    for row in spoken.rows:
        if row["source"] == engine:
            measured = np.abs(np.fft.rfft(read_audio(row["audio"]), 16_000)).argmax()
            voice = row["speaker"].split("+")[-1]
            pitches.append([measured, PITCHES.get(voice, 300)])
    return np.array(pitches)


def test_a_clip_has_the_pitch_of_its_voice(spoken):
    """The fake engine ignores the plan."""
    measured, of_voice = pitches_of(spoken, "espeak-ng").T

    np.testing.assert_allclose(measured, of_voice, atol=6)


def test_the_plan_changes_the_pitch_of_a_voice(spoken):
    measured, of_voice = pitches_of(spoken, "flite").T

    change = measured / of_voice
    assert change.min() > 0.84
    assert change.max() < 1.21


def test_the_report_counts_clips(spoken):
    assert spoken.report["clips"] == 24
    clips = {lang: group["clips"] for lang, group in spoken.report["languages"].items()}
    assert clips == {"eng_Latn": 12, "deu_Latn": 12}


def test_the_report_counts_hours(spoken):
    seconds = sum(len(read_audio(row["audio"])) for row in spoken.rows) / 16_000
    assert spoken.report["hours"] == pytest.approx(seconds / 3600, abs=1e-3)


def test_the_same_seed_gives_the_same_bytes(engines, tmp_path):
    """With one worker or with four."""
    speak_corpus(SENTENCES, tmp_path / "one", engines, workers=1)
    speak_corpus(SENTENCES, tmp_path / "four", engines, workers=4)

    assert content(tmp_path / "one") == content(tmp_path / "four")


def test_another_seed_gives_other_bytes(engines, tmp_path):
    speak_corpus(SENTENCES, tmp_path / "0", engines, SpeechPlan(seed=0))
    speak_corpus(SENTENCES, tmp_path / "1", engines, SpeechPlan(seed=1))

    assert content(tmp_path / "0") != content(tmp_path / "1")


def clips_of(folder) -> dict[tuple, bytes]:
    rows = load_speech(folder)
    return {(row["text"], row["lang"]): row["audio"]["bytes"] for row in rows}


def test_a_clip_does_not_depend_on_the_order(engines, tmp_path):
    speak_corpus(SENTENCES, tmp_path / "forward", engines)
    speak_corpus(SENTENCES[::-1], tmp_path / "backward", engines)

    assert clips_of(tmp_path / "forward") == clips_of(tmp_path / "backward")


@pytest.fixture
def interrupted(engines, tmp_path, monkeypatch):
    """A folder with one finished file of three clips; the run was stopped in the second one."""
    monkeypatch.setattr(spoken_corpus, "SHARD", 3)
    spoken_clips = []

    def stops(clip, *, speak_clip=spoken_corpus._spoken, **options):
        spoken_clips.append(clip)
        if len(spoken_clips) > 4:
            raise KeyboardInterrupt
        return speak_clip(clip, **options)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(spoken_corpus, "_spoken", stops)
        speak_corpus(SENTENCES, tmp_path / "part", engines, workers=1)
    assert list(content(tmp_path / "part")) == ["000000.parquet"]
    return tmp_path / "part"


def test_an_interrupted_run_resumes_to_the_same_bytes(engines, interrupted, tmp_path):
    speak_corpus(SENTENCES, tmp_path / "whole", engines)

    speak_corpus(SENTENCES, interrupted, engines)

    assert content(interrupted) == content(tmp_path / "whole")


def test_a_resumed_run_speaks_only_what_is_missing(engines, interrupted, monkeypatch):
    resumed = []

    def counts(clip, *, speak_clip=spoken_corpus._spoken, **options):
        resumed.append(clip)
        return speak_clip(clip, **options)

    monkeypatch.setattr(spoken_corpus, "_spoken", counts)
    speak_corpus(SENTENCES, interrupted, engines)

    assert len(resumed) == len(SENTENCES) - 3


def test_a_folder_of_another_plan_is_refused(engines, interrupted):
    refuses("another plan", speak_corpus, SENTENCES, interrupted, engines, SpeechPlan(seed=3))


def test_a_folder_of_other_sentences_is_refused(engines, interrupted):
    refuses(
        "another sentences, engines or voices", speak_corpus, SENTENCES[:-1], interrupted, engines
    )


FAILING = [Sentence("crash", "deu_Latn"), Sentence("nothing", "deu_Latn")]


def test_sentences_that_fail_are_counted(engines, tmp_path, caplog):
    report = speak_corpus([*SENTENCES, *FAILING], tmp_path / "out", engines)

    assert report["clips"] == len(SENTENCES)
    assert sum(report["failed"].values()) == 2
    assert "left out: espeak-ng -voice" in caplog.text


def test_a_later_run_counts_what_failed(engines, tmp_path):
    first = speak_corpus([*SENTENCES, *FAILING], tmp_path / "out", engines)
    assert speak_corpus([*SENTENCES, *FAILING], tmp_path / "out", engines) == first


def test_a_run_in_which_most_fails_ends(engines, tmp_path):
    refuses(
        "2 of 2 clips failed, .* espeak-ng .*'crash'",
        speak_corpus,
        FAILING,
        tmp_path / "out",
        engines,
    )


@pytest.fixture
def measured(engines, tmp_path):
    """A corpus of two voices that are kept for measuring."""
    plan = SpeechPlan(measure=True, copies=2, voices=("espeak-ng:de+f5", "espeak-ng:en-us+f5"))
    speak_corpus(SENTENCES, tmp_path / "test", engines, plan)
    return load_speech(tmp_path / "test")


def test_only_the_chosen_voices_speak(measured):
    assert set(measured["speaker"]) == {"de+f5", "en-us+f5"}


def test_training_refuses_voices_kept_for_measuring(measured):
    refuses("espeak-ng voice f5 is kept for measuring", refuse_kept, measured)


@pytest.mark.parametrize(
    "voice, message",
    [("espeak-ng:de+f5", "kept for measuring"), ("espeak-ng:de+x", "no installed engine has it")],
)
def test_a_voice_that_may_not_speak_is_refused(engines, tmp_path, voice, message):
    refuses(
        rf"voice .*: .*{message}",
        speak_corpus,
        SENTENCES,
        tmp_path,
        engines,
        SpeechPlan(voices=(voice,)),
    )


def test_a_language_without_a_voice_is_refused(engines, tmp_path):
    refuses(
        "no voice speaks swh_Latn",
        speak_corpus,
        [Sentence("habari", "swh_Latn")],
        tmp_path,
        engines,
    )


RATE = 16_000


@pytest.fixture(scope="module")
def tone():
    """Half a second of 150 and 1,000 Hz, half a second of silence."""
    time = np.arange(RATE // 2) / RATE
    samples = np.zeros(RATE, np.float32)
    samples[: RATE // 2] = 0.3 * np.sin(2 * np.pi * 150 * time) + 0.3 * np.sin(
        2 * np.pi * 1000 * time
    )
    return samples


def with_effects(tone, effects: Effects, seed: int) -> tuple[np.ndarray, list[str]]:
    return apply_effects(tone, RATE, effects, np.random.default_rng(seed))


def power(samples: np.ndarray, low: int, high: int) -> float:
    """Of these frequencies: a hertz a bin."""
    return float((np.abs(np.fft.rfft(samples)) ** 2)[low:high].sum())


@pytest.fixture(scope="module")
def bands(tone):
    """Name of a band -> clips with it."""
    clips: dict[str, list] = {}
    for seed in range(12):
        samples, (name,) = with_effects(tone, Effects(0, 0, 1), seed)
        clips.setdefault(name, []).append(samples)
    return clips


def test_there_are_three_bands(bands):
    assert len(bands) == 3


def test_a_telephone_has_no_low_frequencies(bands):
    shares = []
    for samples in bands["band 300-3400 Hz"]:
        shares.append(power(samples, 100, 200) / power(samples, 950, 1050))

    assert max(shares) < 1e-3


@pytest.mark.parametrize("seed", range(5))
def test_noise_has_its_ratio(tone, seed):
    samples, (name,) = with_effects(tone, Effects(0, 1, 0), seed)
    # The part of the sound along the tone is the speech; the rest is noise.
    pure = samples @ tone / (tone @ tone) * tone

    ratio = 10 * np.log10((pure**2).mean() / ((samples - pure) ** 2).mean())

    assert ratio == pytest.approx(float(name.split()[1]), abs=1)


@pytest.mark.parametrize("seed", range(5))
def test_a_room_has_a_tail(tone, seed):
    samples, (name,) = with_effects(tone, Effects(1, 0, 0), seed)
    tail = samples[RATE // 2 :]
    end = int(float(name.split()[1]) * RATE)
    assert (tail[: int(0.02 * RATE)] ** 2).mean() > 1e-6
    assert np.abs(tail[end:]).max() < 1e-4


@pytest.mark.parametrize("seed", range(5))
def test_without_effects_only_the_loudness_changes(tone, seed):
    samples, names = with_effects(tone, QUIET, seed)
    assert names == []
    assert samples @ tone / np.linalg.norm(samples) / np.linalg.norm(tone) == pytest.approx(1)
    assert 0.2 <= np.abs(samples).max() <= 0.9


test_wrong_settings_are_named = refusals(
    ({"speed": (1.2, 0.9)}, "speed is 1.2 to 0.9"),
    ({"pitch": (0, 1)}, "pitch is 0"),
    call=lambda values: SpeechPlan(**values),
)

JA = Sentence("Ja", "deu_Latn", "Yes")
YES = Sentence("Yes", "eng_Latn", "Yes")
OUI = Sentence("Oui", "fra_Latn")


@pytest.fixture
def files(tmp_path):
    """Sentences as lines, as an n-way table, as pairs, and as a table of texts with a bad row."""
    (tmp_path / "lines.txt").write_text("Guten Tag\n\nJa\nGuten Tag\n")
    (tmp_path / "nway.tsv").write_text(
        "id\tlang\ttext\n1\tdeu_Latn\tJa\n1\teng_Latn\tYes\n2\tdeu_Latn\tNein\n"
    )
    pairs = "source\ttarget\tsource_lang\ttarget_lang\nJa\tYes\tdeu_Latn\teng_Latn\nOui\tJa\tfra_Latn\tdeu_Latn\n"
    (tmp_path / "pairs.tsv").write_text(pairs)
    (tmp_path / "table.jsonl").write_text(
        json.dumps({"text": "Ja", "lang": "de", "english": "Yes"}) + "\n{}\n"
    )
    (tmp_path / "many.txt").write_text("".join(f"Satz {number}\n" for number in range(100)))
    return tmp_path


@pytest.mark.parametrize(
    "name, options, sentences",
    [
        (
            "lines.txt",
            {"lang": "de"},
            [Sentence("Guten Tag", "deu_Latn"), Sentence("Ja", "deu_Latn")],
        ),
        ("nway.tsv", {}, [JA, YES, Sentence("Nein", "deu_Latn")]),
        ("pairs.tsv", {}, [JA, YES, OUI]),
        ("pairs.tsv", {"langs": ["fr"]}, [OUI]),
        ("pairs.tsv", {"exclude": ["Yes"]}, [OUI, Sentence("Ja", "deu_Latn")]),
        ("table.jsonl", {"on_bad_row": "skip"}, [JA]),
    ],
)
def test_sentences_of_every_kind_of_file(files, name, options, sentences):
    assert read_sentences(files / name, **options) == sentences


def test_a_limit_draws_sentences_by_seed(files):
    first = read_sentences(files / "many.txt", lang="de", limit=20, seed=0)
    other = read_sentences(files / "many.txt", lang="de", limit=20, seed=1)

    numbers = [int(sentence.text.split()[1]) for sentence in first]

    assert len(set(numbers)) == 20
    assert numbers == sorted(numbers)
    assert max(numbers) > 50
    assert first != other


test_files_that_cannot_be_read = refusals(
    ("table.jsonl", {}, "table.jsonl:2: text is missing"),
    ("lines.txt", {}, "lines have no language"),
    ("nway.tsv", {"lang": "fr"}, "nway.tsv has a column lang: leave lang='fra_Latn' out"),
    ("lines.txt", {"lang": "de", "longest": 1}, "no sentence to speak"),
    call=lambda name, options, files: read_sentences(files / name, **options),
)


def test_the_command_leaves_out_a_test_set(engines, files, answer):
    (files / "test.txt").write_text("Guten Tag\n")
    words = [files / "lines.txt", files / "out", "--lang", "de", "--copies", 2, "--noise", 0]

    report = answer(*words, "--exclude", files / "test.txt")

    assert report["clips"] == 2
    assert load_speech(files / "out")["text"][:] == ["Ja", "Ja"]


def test_the_same_command_speaks_nothing_again(engines, files, answer):
    words = [files / "lines.txt", files / "out", "--lang", "de"]
    first = answer(*words)
    before = content(files / "out")

    assert answer(*words) == first
    assert content(files / "out") == before


def test_the_command_says_how_to_install_an_engine(no_engines, files, refused):
    words = [files / "lines.txt", files / "out", "--lang", "de", "--engine", "flite"]
    refused("flite is not installed: apt-get install flite", *words)


def test_a_range_has_two_ends(engines, files, refused):
    words = [files / "lines.txt", files / "out", "--lang", "de", "--speed", 0.9]
    refused("speed is [0.9]: give the lowest and the highest", *words)


def test_most_draws_of_each_language(files):
    rows = [
        {"text": f"{lang} {number}", "lang": lang} for lang in ("de", "fr") for number in range(9)
    ]
    (files / "two.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    sentences = read_sentences(files / "two.jsonl", most=4)

    assert [sentence.lang for sentence in sentences] == ["deu_Latn"] * 4 + ["fra_Latn"] * 4


@pytest.mark.parametrize(
    "text, is_plain",
    [
        ("Press the red button.", True),
        ("Run apt-get --help first.", False),
        ("Open notes.txt in the editor.", False),
        ("Öffne die rote Tür.", False),
        ("Two words", False),
    ],
)
def test_plain_sentences_have_no_code(files, text, is_plain):
    (files / "manual.txt").write_text(f"This sentence is plain.\n{text}\n")
    texts = [
        sentence.text for sentence in read_sentences(files / "manual.txt", lang="en", plain=True)
    ]
    assert (text in texts) == is_plain
