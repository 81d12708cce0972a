"""Speech readers: small layouts of tables, Common Voice, FLEURS and `datasets` give one schema;
errors name the row."""

import json
from pathlib import Path

import numpy as np
import pytest
from datasets import Audio, Dataset

from hf_echo.data import load_speech
from hf_echo.data.speech import kept_for_measuring, read_audio, refuse_kept

soundfile = pytest.importorskip("soundfile")
RATE = 16_000


def tone(pitch: float) -> np.ndarray:
    """A tenth of a second."""
    time = np.arange(RATE // 10) / RATE
    return 0.3 * np.sin(2 * np.pi * pitch * time)


def write(path, pitch: float = 200.0) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, tone(pitch), RATE)
    return str(path)


def write_table(path, *rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["\t".join(map(str, row)) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def pitch_of(audio) -> float:
    samples = read_audio(audio, RATE)
    return float(np.abs(np.fft.rfft(samples)).argmax() * RATE / len(samples))


@pytest.fixture
def table_of_paths(tmp_path):
    """Relative paths beside the table and in wavs/, an absolute one, other names of columns,
    language names."""
    write(tmp_path / "a.wav", 200)
    write(tmp_path / "wavs" / "b.flac", 400)
    absolute = write(tmp_path / "elsewhere" / "c.wav", 800)
    write_table(
        tmp_path / "t.tsv",
        ("path", "sentence", "language", "voice"),
        ("a.wav", "one", "fr", "v1"),
        ("b.flac", "two", "deu_Latn", ""),
        (absolute, "three", "English", "v3"),
    )
    return tmp_path / "t.tsv"


def test_table_of_paths(table_of_paths):
    speech = load_speech(table_of_paths)

    assert speech.column_names == ["audio", "text", "lang", "speaker"]
    assert speech["text"][:] == ["one", "two", "three"]
    assert speech["speaker"][:] == ["v1", None, "v3"]
    assert speech["lang"][:] == ["fra_Latn", "deu_Latn", "eng_Latn"]
    # Each clip is a tone of its own pitch, so no clip stands beside another's text.
    assert [pitch_of(row["audio"]) for row in speech] == pytest.approx([200, 400, 800])


def test_columns_of_a_table_can_be_named(table_of_paths):
    speech = load_speech(table_of_paths, columns={"text": "voice"}, limit=1, source="mine")

    assert speech["text"][:] == ["v1"]
    assert speech["source"][:] == ["mine"]


@pytest.fixture
def json_lines(tmp_path):
    """A folder of two splits, a recording each."""
    write(tmp_path / "audio" / "x.wav")
    for split in ("train", "test"):
        row = {"audio": "x.wav", "text": split, "english": "hello", "lang": "swh_Latn"}
        (tmp_path / f"{split}.jsonl").write_text(json.dumps(row) + "\n")
    return tmp_path


def test_splits_of_a_folder_of_json_lines(json_lines):
    assert load_speech(json_lines, split="test")["text"][:] == ["test"]
    assert load_speech(json_lines, split=None)["english"][:] == ["hello", "hello"]


@pytest.fixture(params=["t.tsv", "t.parquet"])
def split_column(request, tmp_path):
    path = write(tmp_path / "x.wav")
    rows = {
        "audio": [path] * 3,
        "text": ["a", "b", "c"],
        "lang": ["zh-HK", "fr", "fr"],
        "split": ["train", "test", "test"],
    }
    if request.param == "t.tsv":
        write_table(tmp_path / "t.tsv", rows, *zip(*rows.values(), strict=True))
    else:
        Dataset.from_dict(rows).to_parquet(tmp_path / "t.parquet")
    return tmp_path / request.param


@pytest.mark.parametrize(
    "split, texts", [("train", ["a"]), ("test", ["b", "c"]), (None, ["a", "b", "c"])]
)
def test_a_column_split_selects_rows(split_column, split, texts):
    assert load_speech(split_column, split=split)["text"][:] == texts


def test_a_split_that_the_column_does_not_hold_is_refused(split_column):
    with pytest.raises((ValueError, OSError), match="of split 'dev'|no split 'dev'"):
        load_speech(split_column, split="dev")


def test_codes_of_common_voice_are_known(split_column):
    assert load_speech(split_column)["lang"][:] == ["yue_Hant"]


@pytest.fixture
def common_voice(tmp_path):
    """Two languages under one folder, with tables of three splits and one of durations."""
    header = ["client_id", "path", "sentence", "up_votes", "locale", "segment"]
    for locale, pitch in (("de", 200), ("sw", 400)):
        write(tmp_path / locale / "clips" / f"{locale}1.mp3", pitch)
        for split in ("train", "dev", "other"):
            row = ("c1", f"{locale}1.mp3", f'"{split}" {locale}', 2, locale, "")
            write_table(tmp_path / locale / f"{split}.tsv", header, row)
        durations = tmp_path / locale / "clip_durations.tsv"
        write_table(durations, ("clip", "duration[ms]"), ("de1.mp3", 100))
    return tmp_path


def test_the_training_data_of_common_voice(common_voice):
    speech = load_speech(common_voice)

    assert speech["text"][:] == ['"train" de', '"train" sw']
    assert speech["lang"][:] == ["deu_Latn", "swh_Latn"]
    assert speech["source"][:] == ["common_voice", "common_voice"]
    assert speech["speaker"][:] == ["c1", "c1"]
    # The second training clip was written with this pitch.
    assert pitch_of(speech[1]["audio"]) == pytest.approx(400, abs=20)


def test_one_language_of_common_voice(common_voice):
    speech = load_speech(common_voice / "sw", split="validation")

    assert speech["text"][:] == ['"dev" sw']


@pytest.mark.parametrize("split, rows", [(None, 4), ("other", 2)])
def test_rows_of_other_are_read_on_request(common_voice, split, rows):
    assert len(load_speech(common_voice, split=split)) == rows


def test_a_missing_table_of_common_voice_is_named(common_voice):
    with pytest.raises(FileNotFoundError, match="a Common Voice folder without validated.tsv"):
        load_speech(common_voice, split="validated")


@pytest.fixture
def fleurs(tmp_path):
    """No header, a French sentence twice by two speakers and one that has no English."""
    rows = {
        "fr_fr": [(7, "b.wav", "Bonjour."), (7, "c.wav", "Bonjour."), (9, "d.wav", "Oui")],
        "en_us": [(7, "e.wav", "Good morning.")],
    }
    for folder, clips in rows.items():
        lines = []
        for number, file, text in clips:
            write(tmp_path / folder / "audio" / "train" / file)
            lines.append((number, file, text, text.lower(), "b | o", 1600, "MALE"))
        write_table(tmp_path / folder / "train.tsv", *lines)
    return load_speech(tmp_path)


def test_sentences_of_fleurs_have_their_english_by_number(fleurs):
    english = {(row["lang"], row["text"]): row["english"] for row in fleurs}

    assert english == {
        ("eng_Latn", "Good morning."): "Good morning.",
        ("fra_Latn", "Bonjour."): "Good morning.",
        ("fra_Latn", "Oui"): None,
    }


def test_every_recording_of_fleurs_is_a_row(fleurs):
    assert len(fleurs) == 4
    assert set(fleurs["source"]) == {"fleurs"}
    names = [Path(audio["path"]).name for audio in fleurs["audio"]]
    assert sorted(names) == ["b.wav", "c.wav", "d.wav", "e.wav"]


@pytest.fixture
def clips(tmp_path):
    """A dataset with an Audio column of bytes; the second text is empty."""
    write(tmp_path / "x.wav", 300)
    audio = {"bytes": (tmp_path / "x.wav").read_bytes(), "path": "x.wav"}
    data = Dataset.from_dict({"audio": [audio] * 3, "transcription": ["a", "", "c"]})
    return data.cast_column("audio", Audio(decode=False))


def of_parquet(data, folder):
    data.to_parquet(folder / "train.parquet")
    return folder


def of_disk(data, folder):
    data.save_to_disk(str(folder))
    return folder


@pytest.mark.parametrize("place", [of_parquet, of_disk, lambda data, folder: data])
def test_datasets_with_audio_columns(clips, tmp_path, place):
    """Audio is not decoded."""
    speech = load_speech(place(clips, tmp_path / "data"), lang="eng_Latn", on_bad_row="skip")

    assert speech.features["audio"] == Audio(decode=False)
    assert speech["text"][:] == ["a", "c"]
    assert pitch_of(speech[1]["audio"]) == pytest.approx(300)
    assert speech["audio"][0]["bytes"] == clips["audio"][0]["bytes"]


def test_a_bad_row_of_a_dataset_is_named(clips):
    with pytest.raises(ValueError, match="the dataset:2: text is empty"):
        load_speech(clips, lang="eng_Latn")


def test_rows_behind_the_limit_are_not_checked(clips):
    assert load_speech(clips, lang="eng_Latn", limit=1)["text"][:] == ["a"]


def test_a_column_that_decodes_keeps_its_bytes(clips):
    decoded = clips.cast_column("audio", Audio(sampling_rate=RATE))

    speech = load_speech(decoded, lang="eng_Latn", limit=1)

    assert speech["audio"][0]["bytes"] == clips["audio"][0]["bytes"]


def test_a_dataset_can_hold_paths(tmp_path):
    path = write(tmp_path / "x.wav", 300)

    speech = load_speech(Dataset.from_dict({"audio": [path], "text": ["a"], "lang": ["fr"]}))

    assert pitch_of(speech[0]["audio"]) == pytest.approx(300)


@pytest.fixture
def two_corpora(tmp_path):
    """A folder of two corpora of different columns, one of them a link, with a circle of links."""
    write(tmp_path / "x.wav", 300)
    audio = {"bytes": (tmp_path / "x.wav").read_bytes(), "path": "x.wav"}
    row = {"audio": [audio], "lang": ["eng_Latn"]}
    first = Dataset.from_dict(row | {"text": ["a"], "speaker": ["s"]})
    second = Dataset.from_dict(row | {"text": ["b"], "seconds": [0.1]})
    for place, data in (("all/a", first), ("elsewhere", second)):
        clips = data.cast_column("audio", Audio(decode=False))
        clips.to_parquet(tmp_path / place / "clips.parquet")
    (tmp_path / "all" / "b").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "circle").symlink_to(tmp_path / "all")
    return tmp_path / "all"


def test_parquet_files_of_other_columns(two_corpora):
    """What a file does not have is None."""
    speech = load_speech(two_corpora)

    assert speech["text"][:] == ["a", "b"]
    assert speech["speaker"][:] == ["s", None]
    assert [pitch_of(clip) for clip in speech["audio"]] == pytest.approx([300, 300])


@pytest.fixture
def audiofolder(tmp_path):
    """Quotes around a text, and a row that is too short."""
    write(tmp_path / "y.wav", 500)
    table = 'file_name,text,lang\ny.wav,"hello, you",eng_Latn\ny.wav\n'
    (tmp_path / "metadata.csv").write_text(table)
    return tmp_path


def test_the_metadata_of_an_audiofolder(audiofolder):
    speech = load_speech(audiofolder, on_bad_row="skip")

    assert pitch_of(speech[0]["audio"]) == pytest.approx(500)
    assert speech["text"][:] == ["hello, you"]


def test_a_short_row_of_metadata_is_named(audiofolder):
    with pytest.raises(ValueError, match="metadata.csv:3: 1 fields instead of 3"):
        load_speech(audiofolder)


def test_the_metadata_of_ljspeech(tmp_path):
    """Without header and suffix."""
    write(tmp_path / "wavs" / "a1.wav", 700)
    (tmp_path / "metadata.csv").write_text('a1|Er sagte "ja"|er sagte ja\n')

    speech = load_speech(tmp_path, lang="de", source="kerstin")

    assert pitch_of(speech[0]["audio"]) == pytest.approx(700)
    assert speech["text"][:] == ['Er sagte "ja"']


def clip_of(audio) -> Dataset:
    return Dataset.from_dict({"text": ["a"], "lang": ["fr"], "audio": [audio]})


def test_arrays_with_a_rate_are_audio():
    audio = {"array": tone(250).tolist(), "sampling_rate": RATE}

    speech = load_speech(clip_of(audio))

    assert pitch_of(speech[0]["audio"]) == pytest.approx(250)


def test_arrays_need_a_rate():
    with pytest.raises(ValueError, match="'audio' holds samples without a sampling rate"):
        load_speech(clip_of([0.1, 0.2]))


@pytest.fixture
def with_bad_row(tmp_path):
    """with_bad_row(fields): a table whose second row has these fields."""

    def make(*fields):
        write(tmp_path / "a.wav")
        write_table(tmp_path / "t.tsv", ("audio", "text", "lang"), ("a.wav", "good", "fr"), fields)
        return tmp_path / "t.tsv"

    return make


@pytest.mark.parametrize(
    "fields, reason",
    [
        (("none.wav", "a", "fr"), "no audio file none.wav"),
        (("", "a", "fr"), "audio is missing"),
        (("a.wav", " ", "fr"), "text is empty"),
        (("a.wav", "a", "qqq"), "unknown language 'qqq'"),
        (("a.wav", "a", ""), "lang is missing"),
    ],
)
def test_a_bad_row_is_named(with_bad_row, fields, reason):
    with pytest.raises(ValueError, match=f"t.tsv:3: {reason}"):
        load_speech(with_bad_row(*fields))


def test_a_bad_row_can_be_skipped(with_bad_row):
    speech = load_speech(with_bad_row("none.wav", "a", "fr"), on_bad_row="skip")

    assert speech["text"][:] == ["good"]


@pytest.fixture
def without_language(tmp_path):
    write(tmp_path / "a.wav")
    write_table(tmp_path / "t.tsv", ("audio", "text"), ("a.wav", "a"))
    return tmp_path / "t.tsv"


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, "no column for lang; found: audio, text; give lang, such as fra_Latn"),
        (dict(lang="fr", columns={"audio": "wav"}), "no column 'wav' "),
        (dict(columns={"x": "wav"}), "columns names 'x'"),
        (dict(limit=0), "limit=0"),
    ],
)
def test_columns_that_are_missing_are_named(without_language, options, message):
    with pytest.raises(ValueError, match=message):
        load_speech(without_language, **options)


@pytest.mark.parametrize(
    "path, message",
    [
        ("no/such.tsv", "no/such.tsv: no such file or folder"),
        (__file__, "test_readers.py: is not a table of audio"),
    ],
)
def test_what_is_no_table_of_audio_is_named(path, message):
    with pytest.raises(FileNotFoundError, match=message):
        load_speech(path)


def test_a_file_that_appears_is_read(tmp_path):
    """The cache notices a new audio file, though the table did not change."""
    table = tmp_path / "t.tsv"
    rows = [("a.wav", "a", "fr"), ("b.wav", "b", "fr")]
    write(tmp_path / "wavs" / "a.wav")
    write_table(table, ("audio", "text", "lang"), *rows)
    assert len(load_speech(table, on_bad_row="skip")) == 1

    write(tmp_path / "wavs" / "b.wav")

    assert len(load_speech(table, on_bad_row="skip")) == 2


@pytest.mark.parametrize(
    "source, speaker",
    [
        ("espeak-ng", "en-us+f5"),
        ("espeak-ng", "de+Michael"),
        ("flite", "cmu_us_slt"),
        ("Asterisk sounds", None),
        ("laser tatoeba", None),
    ],
)
def test_a_voice_that_is_kept_for_measuring(source, speaker):
    assert kept_for_measuring(source, speaker).endswith("kept for measuring")


@pytest.mark.parametrize(
    "source, speaker",
    [("espeak-ng", "en-us+f2"), ("flite", "rms"), ("common_voice", "slt"), (None, None)],
)
def test_a_voice_that_may_be_trained_on(source, speaker):
    assert kept_for_measuring(source, speaker) is None


GOOD_VOICE = {"source": "flite", "speaker": "kal16"}


def test_a_row_of_a_kept_voice_is_named():
    data = Dataset.from_list([GOOD_VOICE, {"source": "flite", "speaker": "slt"}])
    with pytest.raises(ValueError, match="train.tsv, row 2: flite voice slt"):
        refuse_kept(data, "train.tsv")


@pytest.mark.parametrize("rows", [[GOOD_VOICE, {"source": None, "speaker": None}], [{"text": "a"}]])
def test_rows_without_a_kept_voice_are_trained_on(rows):
    refuse_kept(Dataset.from_list(rows))


@pytest.mark.parametrize(
    "name, content, error, message",
    [
        (
            "metadata.csv",
            b"file_name,text\n\xff\xfe,a\n",
            ValueError,
            "metadata.csv:2: not UTF-8",
        ),
        ("metadata.csv", b"", ValueError, "metadata.csv is empty"),
        ("train.tsv", b"", ValueError, "train.tsv is empty"),
        ("train.tsv", b"audio\ttext\n\xff\xfe\ta\n", ValueError, "train.tsv:2: not UTF-8"),
        ("train.jsonl", b'{"audio": "a.wav", "text": "b"}\n{"audio"\n', ValueError, "jsonl:2: not"),
        ("train.parquet", b"PAR1 no Parquet", ValueError, "not a readable speech dataset"),
        ("a.arrow", b"", FileNotFoundError, "no table of audio in this folder"),
        ("b.wav", b"", FileNotFoundError, "no file of a known type"),
    ],
)
def test_a_damaged_table_is_named(tmp_path, name, content, error, message):
    write(tmp_path / "a.wav")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=message):
        load_speech(tmp_path, lang="fr")
