"""Spoken corpora: the same bytes by seed, resumed after an interruption, in the schema, with the voices wanted."""

import json

import datasets
import numpy as np
import pytest
import speak
from speak import Effects, Sentence, SpeechPlan, apply_effects, read_sentences, speak_corpus

from hf_echo.data import load_speech
from hf_echo.data.speech import read_audio, refuse_kept

from ..refusals import refuses

pytest.importorskip("soundfile")
QUIET = Effects(room=0, noise=0, band=0)
SENTENCES = [Sentence(f"sentence {n}", lang, f"english {n}") for n in range(4) for lang in ("eng_Latn", "deu_Latn")]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def engines(fake_engines):
    return [fake_engines["espeak-ng"], fake_engines["flite"]]


def content(folder) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.glob("*.parquet"))}


def test_corpus_in_the_schema(engines, tmp_path):
    report = speak_corpus(SENTENCES, tmp_path / "out", engines, SpeechPlan(copies=3, effects=QUIET))
    speech = load_speech(tmp_path / "out")
    assert speech.column_names == ["audio", "text", "lang", "english", "source", "speaker"] and len(speech) == 24
    spoken = set(zip(speech["text"], speech["lang"], speech["english"]))
    assert spoken == {(s.text, s.lang, s.english) for s in SENTENCES}
    assert set(speech["source"]) == {"espeak-ng", "flite"}
    assert {row["lang"] for row in speech if row["source"] == "flite"} == {"eng_Latn"}
    assert len(set(speech["speaker"])) > 5
    refuse_kept(speech)
    pitches = {"f2": 400, "m3": 200, "kal16": 500, "rms": 600}
    for row in speech:
        samples = read_audio(row["audio"])
        pitch = pitches.get(row["speaker"].partition("+")[2] or row["speaker"], 300)
        found = np.abs(np.fft.rfft(samples, 16_000)).argmax()
        ratio = found / pitch  # flite's pitch is changed by the plan, espeak-ng's fake ignores it
        assert 0.84 < ratio < 1.21 if row["source"] == "flite" else abs(found - pitch) < 6
    seconds = sum(len(read_audio(row["audio"])) for row in speech) / 16_000
    assert report["clips"] == 24 and report["hours"] == pytest.approx(seconds / 3600, abs=1e-3)
    assert {lang: group["clips"] for lang, group in report["languages"].items()} == {"eng_Latn": 12, "deu_Latn": 12}


def test_same_seed_same_bytes_and_order_does_not_matter(engines, tmp_path):
    for name, seed, workers in (("a", 0, 1), ("b", 0, 4), ("c", 1, 1)):
        speak_corpus(SENTENCES, tmp_path / name, engines, SpeechPlan(seed=seed), workers=workers)
    assert content(tmp_path / "a") == content(tmp_path / "b") != content(tmp_path / "c")
    speak_corpus(SENTENCES[::-1], tmp_path / "d", engines, SpeechPlan())
    clips = [{row["text"] + row["lang"]: row["audio"]["bytes"] for row in load_speech(tmp_path / n)} for n in "ad"]
    assert clips[0] == clips[1]


def test_interrupted_run_resumes(engines, tmp_path, monkeypatch):
    monkeypatch.setattr(speak, "SHARD", 3)
    speak_corpus(SENTENCES, tmp_path / "whole", engines)
    spoken, made = speak._spoken, []

    def stops(clip, **options):
        made.append(clip)
        if len(made) > 4:
            raise KeyboardInterrupt
        return spoken(clip, **options)

    monkeypatch.setattr(speak, "_spoken", stops)
    with pytest.raises(KeyboardInterrupt):
        speak_corpus(SENTENCES, tmp_path / "part", engines, workers=1)
    assert list(content(tmp_path / "part")) == ["000000.parquet"]
    resumed = []
    monkeypatch.setattr(speak, "_spoken", lambda clip, **options: resumed.append(clip) or spoken(clip, **options))
    speak_corpus(SENTENCES, tmp_path / "part", engines)
    assert content(tmp_path / "part") == content(tmp_path / "whole") and len(resumed) == len(SENTENCES) - 3
    refuses("another plan", speak_corpus, SENTENCES, tmp_path / "part", engines, SpeechPlan(seed=3))
    refuses("another sentences, engines or voices", speak_corpus, SENTENCES[:-1], tmp_path / "part", engines)


def test_sentences_that_fail_are_counted(engines, tmp_path, caplog):
    sentences = [*SENTENCES, Sentence("crash", "deu_Latn"), Sentence("nothing", "deu_Latn")]
    report = speak_corpus(sentences, tmp_path / "out", engines)
    assert report["clips"] == len(SENTENCES) and sum(report["failed"].values()) == 2
    assert "left out: espeak-ng -voice" in caplog.text
    assert speak_corpus(sentences, tmp_path / "out", engines) == report  # a later run counts them too
    refuses("2 of 2 clips failed, .* espeak-ng .*'crash'", speak_corpus, sentences[-2:], tmp_path / "bad", engines)


def test_voices_kept_for_measuring(engines, tmp_path):
    plan = SpeechPlan(measure=True, copies=2, voices=("espeak-ng:de+f5", "espeak-ng:en-us+f5"))
    speak_corpus(SENTENCES, tmp_path / "test", engines, plan)
    kept = load_speech(tmp_path / "test")
    assert set(kept["speaker"]) == {"de+f5", "en-us+f5"}
    refuses("espeak-ng voice f5 is kept for measuring", refuse_kept, kept)
    for voice, message in (("espeak-ng:de+f5", "kept for measuring"), ("espeak-ng:de+x", "no installed engine has it")):
        refuses(rf"voice .*: .*{message}", speak_corpus, SENTENCES, tmp_path, engines, SpeechPlan(voices=(voice,)))
    refuses("no voice speaks swh_Latn", speak_corpus, [Sentence("habari", "swh_Latn")], tmp_path / "no", engines)


def test_effects():
    """Each effect against what it should do: a band has no low frequencies, noise its ratio, a room a tail."""
    rate = 16_000
    tone = np.zeros(rate, np.float32)
    tone[: rate // 2] = 0.3 * np.sin(2 * np.pi * 150 * np.arange(rate // 2) / rate)
    tone[: rate // 2] += 0.3 * np.sin(2 * np.pi * 1000 * np.arange(rate // 2) / rate)

    def power(samples, low, high):
        spectrum = np.abs(np.fft.rfft(samples)) ** 2
        return spectrum[low:high].sum()  # a hertz a bin

    draws = [apply_effects(tone, rate, Effects(0, 0, 1), np.random.default_rng(seed)) for seed in range(12)]
    telephone = [samples for samples, names in draws if names == ["band 300-3400 Hz"]]
    assert telephone and len({names[0] for _, names in draws}) == 3
    for samples in telephone:
        assert power(samples, 100, 200) < 1e-3 * power(samples, 950, 1050)
    for seed in range(5):
        samples, names = apply_effects(tone, rate, Effects(0, 1, 0), np.random.default_rng(seed))
        decibel = float(names[0].split()[1])
        pure = samples @ tone / (tone @ tone) * tone
        assert 10 * np.log10((pure**2).mean() / ((samples - pure) ** 2).mean()) == pytest.approx(decibel, abs=1)
        samples, names = apply_effects(tone, rate, Effects(1, 0, 0), np.random.default_rng(seed))
        seconds = float(names[0].split()[1])
        tail = samples[rate // 2 :]
        near, far = int(0.02 * rate), int(seconds * rate)
        assert (tail[:near] ** 2).mean() > 1e-6 and np.abs(tail[far:]).max() < 1e-4
        plain, names = apply_effects(tone, rate, QUIET, np.random.default_rng(seed))
        assert names == [] and plain @ tone / np.linalg.norm(plain) / np.linalg.norm(tone) == pytest.approx(1)
        assert 0.2 <= np.abs(plain).max() <= 0.9
    wrong = [(Effects, "noise", 2, "noise is 2"), (SpeechPlan, "copies", 0, "copies is 0")]
    wrong += [(SpeechPlan, "speed", (1.2, 0.9), "speed is 1.2 to 0.9"), (SpeechPlan, "pitch", (0, 1), "pitch is 0")]
    for kind, name, value, message in wrong:
        refuses(message, kind, **{name: value})


def test_sentences_of_every_kind(tmp_path):
    (tmp_path / "lines.txt").write_text("Guten Tag\n\nJa\nGuten Tag\n")
    lines = [Sentence("Guten Tag", "deu_Latn"), Sentence("Ja", "deu_Latn")]
    assert read_sentences(tmp_path / "lines.txt", lang="de") == lines
    (tmp_path / "nway.tsv").write_text("id\tlang\ttext\n1\tdeu_Latn\tJa\n1\teng_Latn\tYes\n2\tdeu_Latn\tNein\n")
    both, oui = [Sentence("Ja", "deu_Latn", "Yes"), Sentence("Yes", "eng_Latn", "Yes")], Sentence("Oui", "fra_Latn")
    assert read_sentences(tmp_path / "nway.tsv") == [*both, Sentence("Nein", "deu_Latn")]
    pairs = "source\ttarget\tsource_lang\ttarget_lang\nJa\tYes\tdeu_Latn\teng_Latn\nOui\tJa\tfra_Latn\tdeu_Latn\n"
    (tmp_path / "pairs.tsv").write_text(pairs)
    assert read_sentences(tmp_path / "pairs.tsv") == [*both, oui]
    assert read_sentences(tmp_path / "pairs.tsv", langs=["fr"]) == [oui]
    assert read_sentences(tmp_path / "pairs.tsv", exclude=["Yes"]) == [oui, Sentence("Ja", "deu_Latn")]
    (tmp_path / "many.txt").write_text("".join(f"Satz {n}\n" for n in range(100)))
    some, other = (read_sentences(tmp_path / "many.txt", lang="de", limit=20, seed=seed) for seed in (0, 1))
    numbers = [int(sentence.text.split()[1]) for sentence in some]
    assert len(set(numbers)) == 20 and numbers == sorted(numbers) and max(numbers) > 50 and some != other
    (tmp_path / "t.jsonl").write_text(json.dumps({"text": "Ja", "lang": "de", "english": "Yes"}) + "\n{}\n")
    assert read_sentences(tmp_path / "t.jsonl", on_bad_row="skip") == [Sentence("Ja", "deu_Latn", "Yes")]
    for file, options, message in (
        ("t.jsonl", {}, "t.jsonl:2: text is missing"),
        ("lines.txt", {}, "lines have no language"),
        ("nway.tsv", {"lang": "fr"}, "nway.tsv has a column lang: leave lang='fra_Latn' out"),
        ("lines.txt", {"lang": "de", "longest": 1}, "no sentence to speak"),
    ):
        refuses(message, read_sentences, tmp_path / file, **options)


def test_command(engines, tmp_path, run_main, monkeypatch):
    (tmp_path / "lines.txt").write_text("Guten Tag\nJa\nNein\n")
    (tmp_path / "test.txt").write_text("Nein\n")
    arguments = [str(tmp_path / "lines.txt"), str(tmp_path / "out"), "--lang", "de", "--copies", "2", "--noise", "0"]
    arguments += ["--exclude", str(tmp_path / "test.txt")]
    code, out, _ = run_main(speak.main, *arguments)
    assert code == 0 and json.loads(out)["clips"] == 4
    assert sorted(load_speech(tmp_path / "out")["text"]) == ["Guten Tag", "Guten Tag", "Ja", "Ja"]
    monkeypatch.setenv("PATH", "")
    code, _, err = run_main(speak.main, *arguments, "--engine", "flite")
    assert code == 2 and err.strip().endswith("flite is not installed: apt-get install flite")
