"""Speech readers: small layouts of tables, Common Voice, FLEURS and `datasets` give one schema; errors name the row."""

import json

import numpy as np
import pytest
from datasets import Audio, Dataset

from hf_echo.data import load_speech
from hf_echo.data.speech import kept_for_measuring, read_audio, refuse_kept

from ...refusals import refusals, refuses

soundfile = pytest.importorskip("soundfile")
RATE = 16_000


def tone(pitch: float, seconds: float = 0.1, rate: int = RATE) -> np.ndarray:
    return (0.3 * np.sin(2 * np.pi * pitch * np.arange(int(seconds * rate)) / rate)).astype(
        np.float32
    )


def write(path, pitch: float = 200.0, rate: int = RATE, **options) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, tone(pitch, rate=rate), rate, **options)
    return str(path)


def table(path, header: str, rows: list[tuple]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ([header] if header else []) + ["\t".join(map(str, row)) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def pitch_of(audio) -> float:
    samples = read_audio(audio, RATE)
    return float(np.abs(np.fft.rfft(samples)).argmax() * RATE / len(samples))


def test_table_of_paths(tmp_path):
    """Relative paths beside the table and in wavs/, absolute ones, other names of columns, language names."""
    write(tmp_path / "a.wav", 200)
    write(tmp_path / "wavs" / "b.flac", 400)
    there = write(tmp_path / "elsewhere" / "c.wav", 800)
    rows = [
        ("a.wav", "one", "fr", "v1"),
        ("b.flac", "two", "deu_Latn", ""),
        (there, "three", "English", "v3"),
    ]
    table(tmp_path / "t.tsv", "path\tsentence\tlanguage\tvoice", rows)
    speech = load_speech(tmp_path / "t.tsv")
    assert speech.column_names == ["audio", "text", "lang", "speaker"]
    assert speech["text"][:] == ["one", "two", "three"]
    assert speech["speaker"][:] == [
        "v1",
        None,
        "v3",
    ]
    assert speech["lang"][:] == ["fra_Latn", "deu_Latn", "eng_Latn"]
    assert [pitch_of(row["audio"]) for row in speech] == pytest.approx([200, 400, 800])
    same = load_speech(
        tmp_path / "t.tsv", columns={"text": "voice"}, on_bad_row="skip", limit=1, source="mine"
    )
    assert same["text"][:] == ["v1"]
    assert same["source"][:] == ["mine"]


def test_splits_of_a_folder_of_json_lines(tmp_path):
    write(tmp_path / "audio" / "x.wav")
    for split in ("train", "test"):
        row = {"audio": "x.wav", "text": split, "english": "hello", "lang": "swh_Latn"}
        (tmp_path / f"{split}.jsonl").write_text(json.dumps(row) + "\n")

    assert load_speech(tmp_path, split="test")["text"][:] == ["test"]
    assert load_speech(tmp_path, split=None)["english"][:] == ["hello"] * 2
    refuses("no file of split 'dev'", load_speech, tmp_path, split="dev", error=FileNotFoundError)


def test_a_column_split_selects_rows(tmp_path):
    path = write(tmp_path / "x.wav")
    rows = {
        "audio": [path] * 3,
        "text": ["a", "b", "c"],
        "lang": ["zh-HK", "fr", "fr"],
        "split": ["train", "test", "test"],
    }
    table(tmp_path / "t.tsv", "\t".join(rows), zip(*rows.values()))
    Dataset.from_dict(rows).to_parquet(tmp_path / "t.parquet")
    for name in ("t.tsv", "t.parquet"):
        found = {
            split: load_speech(tmp_path / name, split=split)["text"][:]
            for split in ("train", "test", None)
        }
        assert found == {"train": ["a"], "test": ["b", "c"], None: ["a", "b", "c"]}
        refuses(
            "of split 'dev'|no split 'dev'",
            load_speech,
            tmp_path / name,
            split="dev",
            error=(ValueError, OSError),
        )
    assert load_speech(tmp_path / "t.tsv")["lang"][:] == ["yue_Hant"]  # Common Voice's code


def test_common_voice(tmp_path):
    """Two languages under one folder; `other.tsv` and `clip_durations.tsv` are not training data."""
    header = "client_id\tpath\tsentence\tup_votes\tlocale\tsegment"
    for locale, pitch in (("de", 200), ("sw", 400)):
        write(tmp_path / locale / "clips" / f"{locale}1.mp3", pitch)
        for split in ("train", "dev", "other"):
            row = ("c1", f"{locale}1.mp3", f'"{split}" {locale}', 2, locale, "")
            table(tmp_path / locale / f"{split}.tsv", header, [row])
        table(tmp_path / locale / "clip_durations.tsv", "clip\tduration[ms]", [("de1.mp3", 100)])
    speech = load_speech(tmp_path)
    assert speech["text"][:] == ['"train" de', '"train" sw']
    assert speech["lang"][:] == [
        "deu_Latn",
        "swh_Latn",
    ]
    assert speech["source"][:] == ["common_voice"] * 2
    assert speech["speaker"][:] == ["c1", "c1"]
    assert pitch_of(speech[1]["audio"]) == pytest.approx(400, abs=20)
    assert load_speech(tmp_path / "sw", split="validation")["text"][:] == ['"dev" sw']
    assert len(load_speech(tmp_path, split=None)) == 4
    assert len(load_speech(tmp_path, split="other")) == 2
    with pytest.raises(FileNotFoundError, match="a Common Voice folder without validated.tsv"):
        load_speech(tmp_path, split="validated")


def test_fleurs(tmp_path):
    """No header, a sentence twice by two speakers, languages by folder, English by number."""
    french = [
        (7, "b.wav", "Bonjour.", "bonjour"),
        (7, "c.wav", "Bonjour.", "bonjour"),
        (9, "d.wav", "Oui", "oui"),
    ]
    rows = {"fr_fr": french, "en_us": [(7, "e.wav", "Good morning.", "good morning")]}
    for folder, lines in rows.items():
        for _, file, *_ in lines:
            write(tmp_path / folder / "audio" / "train" / file)
        table(
            tmp_path / folder / "train.tsv", "", [(*line, "b | o", 1600, "MALE") for line in lines]
        )
    speech = load_speech(tmp_path)
    english = {(row["lang"], row["text"]): row["english"] for row in speech}
    assert english.pop(("fra_Latn", "Oui")) is None
    assert set(english.values()) == {"Good morning."}
    assert set(english) == {("eng_Latn", "Good morning."), ("fra_Latn", "Bonjour.")}
    assert set(speech["source"]) == {"fleurs"}
    assert len(speech) == 4
    assert speech["audio"][1]["path"].endswith(
        ("fr_fr/audio/train/b.wav", "en_us/audio/train/e.wav")
    )


def test_datasets_audio_columns(tmp_path):
    """An Audio column with bytes, through Parquet, save_to_disk and an audiofolder; audio is not decoded."""
    path = write(tmp_path / "x.wav", 300)
    content = (tmp_path / "x.wav").read_bytes()
    data = Dataset.from_dict(
        {"audio": [{"bytes": content, "path": "x.wav"}] * 3, "transcription": ["a", "", "c"]}
    )
    data = data.cast_column("audio", Audio(decode=False))
    data.to_parquet(tmp_path / "p" / "train.parquet")
    data.save_to_disk(str(tmp_path / "disk"))
    for place in (tmp_path / "p", tmp_path / "p" / "train.parquet", tmp_path / "disk", data):
        speech = load_speech(place, lang="eng_Latn", on_bad_row="skip")
        assert speech.features["audio"] == Audio(decode=False)
        assert speech["text"][:] == ["a", "c"]
        assert pitch_of(speech[1]["audio"]) == pytest.approx(300)
        assert speech["audio"][0]["bytes"] == content
    refuses("the dataset:2: text is empty", load_speech, data, lang="eng_Latn")
    # later rows are not checked
    assert load_speech(data, lang="eng_Latn", limit=1)["text"][:] == ["a"]
    decoded = data.cast_column("audio", Audio(sampling_rate=RATE))
    assert load_speech(decoded, lang="eng_Latn", limit=1)["audio"][0]["bytes"] == content
    paths = Dataset.from_dict({"audio": [path], "text": ["a"], "lang": ["fr"]})
    assert pitch_of(load_speech(paths)[0]["audio"]) == pytest.approx(300)


def test_parquet_files_of_other_columns(tmp_path):
    """A folder may hold corpora of different columns, and links to others; what a file does not have is None."""
    write(tmp_path / "x.wav", 300)
    audio = {"bytes": (tmp_path / "x.wav").read_bytes(), "path": "x.wav"}
    row = {"audio": [audio], "lang": ["eng_Latn"]}
    for name, columns in (
        ("a", {"text": ["a"], "speaker": ["s"]}),
        ("b", {"text": ["b"], "seconds": [0.1]}),
    ):
        data = Dataset.from_dict(row | columns)
        data.cast_column("audio", Audio(decode=False)).to_parquet(
            tmp_path / "all" / name / "clips.parquet"
        )
    (tmp_path / "all" / "b").rename(tmp_path / "elsewhere")
    (tmp_path / "all" / "b").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "circle").symlink_to(tmp_path / "all")
    speech = load_speech(tmp_path / "all")
    assert speech["text"][:] == ["a", "b"]
    assert speech["speaker"][:] == ["s", None]
    assert [pitch_of(clip) for clip in speech["audio"]] == pytest.approx([300, 300])


def test_metadata_csv(tmp_path):
    """Of an audiofolder, with quotes, and of LJSpeech, without header and suffix."""
    write(tmp_path / "folder" / "y.wav", 500)
    (tmp_path / "folder" / "metadata.csv").write_text(
        'file_name,text,lang\ny.wav,"hello, you",eng_Latn\ny.wav\n'
    )
    speech = load_speech(tmp_path / "folder", on_bad_row="skip")
    assert pitch_of(speech[0]["audio"]) == pytest.approx(500)
    assert speech["text"][:] == ["hello, you"]
    refuses("metadata.csv:3: 1 fields instead of 3", load_speech, tmp_path / "folder")
    write(tmp_path / "lj" / "wavs" / "a1.wav", 700)
    (tmp_path / "lj" / "metadata.csv").write_text('a1|Er sagte "ja"|er sagte ja\n')
    speech = load_speech(tmp_path / "lj", lang="de", source="kerstin")
    assert pitch_of(speech[0]["audio"]) == pytest.approx(700)
    assert speech["text"][:] == ['Er sagte "ja"']


def test_arrays_need_a_rate():
    clips = {"text": ["a"], "lang": ["fr"]}
    with pytest.raises(ValueError, match="'audio' holds samples without a sampling rate"):
        load_speech(Dataset.from_dict(clips | {"audio": [[0.1, 0.2]]}))
    whole = Dataset.from_dict(
        clips | {"audio": [{"array": tone(250).tolist(), "sampling_rate": RATE}]}
    )
    assert pitch_of(load_speech(whole)[0]["audio"]) == pytest.approx(250)


BAD_ROWS = {("none.wav", "a", "fr"): "no audio file none.wav", ("", "a", "fr"): "audio is missing"}
BAD_ROWS |= {("a.wav", " ", "fr"): "text is empty", ("a.wav", "a", "qqq"): "unknown language 'qqq'"}


@pytest.mark.parametrize("row", [*BAD_ROWS, ("a.wav", "a", "")])
def test_bad_rows(tmp_path, row):
    write(tmp_path / "a.wav")
    table(tmp_path / "t.tsv", "audio\ttext\tlang", [("a.wav", "good", "fr"), row])
    refuses(f"t.tsv:3: {BAD_ROWS.get(row, 'lang is missing')}", load_speech, tmp_path / "t.tsv")
    assert load_speech(tmp_path / "t.tsv", on_bad_row="skip")["text"][:] == ["good"]


@pytest.fixture
def without_language(tmp_path):
    write(tmp_path / "a.wav")
    table(tmp_path / "t.tsv", "audio\ttext", [("a.wav", "a")])
    return tmp_path / "t.tsv"


test_missing_columns_and_files = refusals(
    ({}, "no column for lang; found: audio, text; give lang, such as fra_Latn"),
    (dict(lang="fr", columns={"audio": "wav"}), "no column 'wav' "),
    (dict(columns={"x": "wav"}), "columns names 'x'"),
    (dict(limit=0), "limit=0"),
    (dict(path_or_name="no/such.tsv"), "no/such.tsv: no such file or folder", FileNotFoundError),
    (dict(path_or_name=__file__), "test_readers.py: is not a table of audio", FileNotFoundError),
    call=lambda options, without_language: load_speech(
        **{"path_or_name": without_language} | options
    ),
)


def test_a_file_that_appears_is_read(tmp_path):
    """The cache notices a new audio file, though the table did not change."""
    write(tmp_path / "wavs" / "a.wav")
    table(tmp_path / "t.tsv", "audio\ttext\tlang", [("a.wav", "a", "fr"), ("b.wav", "b", "fr")])
    assert len(load_speech(tmp_path / "t.tsv", on_bad_row="skip")) == 1
    write(tmp_path / "wavs" / "b.wav")
    assert len(load_speech(tmp_path / "t.tsv", on_bad_row="skip")) == 2


def test_kept_voices():
    assert kept_for_measuring("espeak-ng", "en-us+f5") == "espeak-ng voice f5 is kept for measuring"
    assert kept_for_measuring("espeak-ng", "de+Michael")
    assert kept_for_measuring("flite", "cmu_us_slt")
    assert kept_for_measuring("Asterisk sounds", None)
    assert kept_for_measuring("laser tatoeba", None)
    assert kept_for_measuring("espeak-ng", "en-us+f2") is None
    assert kept_for_measuring("flite", "rms") is None
    assert kept_for_measuring("common_voice", "slt") is None
    assert kept_for_measuring(None, None) is None
    good = {"source": "flite", "speaker": "kal16"}
    kept = {"source": "flite", "speaker": "slt"}
    refuse_kept(Dataset.from_list([good, {"source": None, "speaker": None}]))
    refuse_kept(Dataset.from_dict({"text": ["a"]}))
    refuses(
        "train.tsv, row 2: flite voice slt",
        lambda: refuse_kept(Dataset.from_list([good, kept]), "train.tsv"),
    )


def load_damaged(name, content, tmp_path):
    write(tmp_path / "data" / "a.wav")
    (tmp_path / "data" / name).write_bytes(content)
    load_speech(tmp_path / "data", lang="fr")


test_damaged_tables = refusals(
    ("metadata.csv", b"file_name,text\n\xff\xfe,a\n", "metadata.csv:2: not UTF-8"),
    ("metadata.csv", b"", "metadata.csv: the first line is empty"),
    ("train.tsv", b"", "train.tsv: the first line is empty"),
    ("train.tsv", b"audio\ttext\n\xff\xfe\ta\n", "train.tsv:2: not UTF-8"),
    (
        "train.jsonl",
        b'{"audio": "a.wav", "text": "b"}\n{"audio"\n',
        "train.jsonl:2: not valid JSON",
    ),
    ("train.parquet", b"PAR1 and more that is not Parquet", "not a readable speech dataset"),
    ("a.arrow", b"", "no table of audio in this folder", FileNotFoundError),
    ("b.wav", b"", "no file of a known type", FileNotFoundError),
    call=load_damaged,
)
