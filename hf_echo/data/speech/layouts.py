"""Layouts of speech corpora: which tables a folder has, where their audio is, and what their folders say.

Common Voice has `clips/` beside `train.tsv`, in one folder per language. FLEURS has tables without header in folders
named by language. A `metadata.csv` belongs to an audiofolder of `datasets`, or to LJSpeech and its relatives.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import TextIO

from ...languages import find_language
from ..formats import BLOCK, Block, Part, open_file, suffix_of
from ..tables import SPLIT_WORDS, list_files

TABLES = (".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz", ".json")
METADATA = "metadata.csv"
SAVED = ("state.json", "dataset_dict.json")  # of `Dataset.save_to_disk`
FLEURS = ["id", "file_name", "raw_transcription", "transcription", "characters", "num_samples", "gender"]
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
    common_voice = sorted(clips.parent for clips in [*path.glob("clips"), *path.glob("*/clips")] if clips.is_dir())
    if common_voice:
        names = COMMON_VOICE_SPLITS if split is None else ("dev",) if SPLIT_WORDS.get(split) == "validation" else split
        names = [names] if isinstance(names, str) else names
        files = [folder / f"{stem}.tsv" for folder in common_voice for stem in names]
        if not (files := [file for file in files if file.exists()]):
            raise FileNotFoundError(f"{path}: a Common Voice folder without {split or 'train'}.tsv")
        return files
    files = [file for file in path.rglob("*") if suffix_of(file) in TABLES]
    return [file for file in list_files(path, split) if suffix_of(file) in TABLES] if files else []


def open_table(file: Path) -> Part:
    """FLEURS has no header: a number, then the name of a wav file."""
    if file.name == METADATA:
        return _open_metadata(file)
    part = open_file(file)
    fields = part.columns
    if len(fields) == len(FLEURS) and fields[0].isdigit() and fields[1].endswith(".wav"):
        part = open_file(file, is_header=lambda fields: False, without_header=FLEURS)
    return part


def _open_metadata(file: Path) -> Part:
    """`metadata.csv` of an audiofolder (commas, header), or of LJSpeech (`id|text|...` without header)."""
    with _csv_lines(file) as lines:
        head = lines.readline()
    bars = "|" in head and not {"file_name", "audio"} & set(re.split("[,|]", head.strip()))
    columns = ["audio", "text"] if bars else next(csv.reader([head]), [])
    stat = file.stat()
    identity = (str(file.resolve()), stat.st_mtime_ns, stat.st_size)
    return Part(str(file), columns, partial(_read_metadata, file, columns, bars), identity)


@contextmanager
def _csv_lines(file: Path) -> Iterator[TextIO]:
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            yield lines
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{file}: not a CSV table in UTF-8 ({error})") from None


def _read_metadata(file: Path, columns: list[str], bars: bool, wanted: Sequence[str]) -> Iterator[Block]:
    style = {"delimiter": "|", "quoting": csv.QUOTE_NONE} if bars else {}
    with _csv_lines(file) as lines:
        rows = csv.reader(lines, **style)
        if not bars:
            next(rows, None)
        while taken := list(islice(((rows.line_num, row) for row in rows if row), BLOCK)):
            width = len(columns)
            bad = [(n, f"{len(row)} fields instead of {width}") for n, row in taken if len(row) < width]
            good = [(n, row) for n, row in taken if len(row) >= width]
            picked = {name: [row[columns.index(name)] for _, row in good] for name in wanted}
            yield Block(picked, [n for n, _ in good], bad)


def audio_folders(file: Path) -> list[str]:
    stem = file.name.split(".")[0]
    return ["", "clips", f"audio/{stem}", "audio", stem, "wavs", "wav"]


def common_voice_columns(file: Path, constants: Mapping[str, str]) -> Extra:
    is_common_voice = (file.parent / "clips").is_dir() and "source" not in constants
    return {"source": lambda block: ["common_voice"] * len(block["audio"])} if is_common_voice else {}


def fleurs_columns(file: Path, constants: Mapping[str, str]) -> Extra:
    """Language, source and English text, which a FLEURS table has in its folder, not in a column."""
    extra: Extra = {}
    if "lang" not in constants:
        code = find_language(REGION.sub("", file.parent.name.lower()))
        extra["lang"] = lambda block: [code] * len(block["audio"])
    if "source" not in constants:
        extra["source"] = lambda block: ["fleurs"] * len(block["audio"])
    tables = [
        table for stem in COMMON_VOICE_SPLITS if (table := file.parent.parent / ENGLISH_FLEURS / f"{stem}.tsv").exists()
    ]
    if tables:
        english = _sentences_by_number(tuple(tables))
        extra["english"] = lambda block: [english.get(number) for number in block["id"]]
    return extra


@lru_cache(maxsize=4)
def _sentences_by_number(tables: tuple[Path, ...]) -> dict[str, str]:
    blocks = (block for table in tables for block in open_table(table).read(["id", "raw_transcription"]))
    return {n: text for block in blocks for n, text in zip(block.columns["id"], block.columns["raw_transcription"])}
