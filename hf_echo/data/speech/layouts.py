"""Layouts of speech corpora: which tables a folder has, where their audio is, and what their
folders say.

Common Voice has `clips/` beside `train.tsv`, in one folder per language. FLEURS has tables without
header in folders named by language. A `metadata.csv` belongs to an audiofolder of `datasets`, or to
LJSpeech and its relatives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path

from ...languages import find_language
from ...utils.files import files_below
from ...utils.lineage import FILE as LINEAGE
from ...utils.text import text_blocks
from ..delimited import each_line
from ..formats import open_file, suffix_of
from ..parts import Part, Unit, blocks_of
from ..tables import SPLIT_WORDS, list_files

TABLES = (".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz", ".json")
METADATA = "metadata.csv"
# Of an audiofolder, whose metadata.csv has a header.
AUDIO_COLUMNS = frozenset(["file_name", "audio"])
SAVED = ("state.json", "dataset_dict.json")  # of `Dataset.save_to_disk`
FLEURS = [
    "id",
    "file_name",
    "raw_transcription",
    "transcription",
    "characters",
    "num_samples",
    "gender",
]
ENGLISH_FLEURS = "en_us"
REGION = re.compile(r"_([a-z]{2}|\d{3})$")  # of the folders fr_fr, es_419, cmn_hans_cn
COMMON_VOICE_SPLITS = ("train", "dev", "test")


Extra = dict[str, Callable[[Mapping[str, Sequence]], list]]


def speech_tables(path: Path, split: str | None) -> list[Path]:
    """The tables of paths of a file or folder; none where `datasets` reads the folder."""
    if path.is_file():
        return [path] if suffix_of(path) in TABLES or path.name == METADATA else []
    if any((path / file).exists() for file in SAVED):
        return []
    if (path / METADATA).exists():
        return [path / METADATA]
    clips = [folder for folder in (*path.glob("clips"), *path.glob("*/clips")) if folder.is_dir()]
    if clips:
        return _common_voice_tables(path, sorted(folder.parent for folder in clips), split)
    if not any(_is_table(file) for file in files_below(path)):
        return []
    return [file for file in list_files(path, split) if _is_table(file)]


def _common_voice_tables(path: Path, folders: Sequence[Path], split: str | None) -> list[Path]:
    """One table a language and split."""
    # A split is a table of this name in each folder of a language.
    stems: tuple[str, ...] = COMMON_VOICE_SPLITS
    if split is not None:
        stems = ("dev" if SPLIT_WORDS.get(split) == "validation" else split,)
    tables = []
    for folder in folders:
        for stem in stems:
            table = folder / f"{stem}.tsv"
            if table.exists():
                tables.append(table)
    if not tables:
        raise FileNotFoundError(f"{path}: a Common Voice folder without {split or 'train'}.tsv")
    return tables


def _is_table(file: Path) -> bool:
    """The record of the step that made a corpus lies beside its clips."""
    return suffix_of(file) in TABLES and file.name != LINEAGE


def open_table(file: Path) -> Part:
    """A table of paths; LJSpeech's and those of FLEURS have no header."""
    if file.name == METADATA:
        head = next(each_line(text_blocks(file)), (0, "", None))[1]
        if "|" in head and AUDIO_COLUMNS.isdisjoint(re.split("[,|]", head)):
            columns = ["audio", "text"]
            return Part(
                str(file),
                columns,
                lambda names: blocks_of(_ljspeech_rows(file), columns, names),
                file,
            )
    part = open_file(file)
    fields = part.columns
    # FLEURS: a number, then the name of a wav file.
    if len(fields) == len(FLEURS) and fields[0].isdigit() and fields[1].endswith(".wav"):
        part = open_file(file, is_header=lambda fields: False, without_header=FLEURS)
    return part


def _ljspeech_rows(file: Path) -> Iterator[Unit]:
    """`id|text|...`: the name of the recording and what it says; quotes are plain characters."""
    for number, line, reason in each_line(text_blocks(file)):
        fields = line.split("|")
        if reason is None and len(fields) < 2:
            reason = f"{len(fields)} fields instead of 2"
        yield number, [] if reason else [(fields[0], fields[1])], reason, {}


def audio_folders(file: Path) -> list[Path]:
    stem = file.name.split(".")[0]
    places = (
        file.parent / name for name in ("", "clips", f"audio/{stem}", "audio", stem, "wavs", "wav")
    )
    return [place for place in places if place.is_dir()]


def columns_of_layout(file: Path, columns: Sequence[str], constants: Mapping[str, str]) -> Extra:
    """Source, language and English text, which a table of Common Voice or FLEURS has in its
    folders, not in columns."""
    values: dict[str, str] = {}
    # What the folders say: the corpus, and for FLEURS the language.
    if (file.parent / "clips").is_dir():
        values = {"source": "common_voice"}
    is_fleurs = columns == FLEURS
    if is_fleurs:
        values = {"source": "fleurs"}
        if "lang" not in constants:
            values["lang"] = find_language(REGION.sub("", file.parent.name.lower()))
    extra: Extra = {}
    for name, value in values.items():
        if name not in constants:
            extra[name] = partial(_constant_column, value)
    if is_fleurs:
        folder = file.parent.parent / ENGLISH_FLEURS
        english = [folder / f"{stem}.tsv" for stem in COMMON_VOICE_SPLITS]
        texts = _sentences_by_number(tuple(table for table in english if table.exists()))
        if texts:
            extra["english"] = lambda block: [texts.get(number) for number in block["id"]]
    return extra


def _constant_column(value: str, block: Mapping[str, Sequence]) -> list[str]:
    return [value] * len(block["audio"])


@lru_cache(maxsize=4)
def _sentences_by_number(tables: tuple[Path, ...]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for table in tables:
        for block in open_table(table).read(["id", "raw_transcription"]):
            texts |= zip(block.columns["id"], block.columns["raw_transcription"])
    return texts
