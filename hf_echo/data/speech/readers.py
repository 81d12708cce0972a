"""`load_speech`: read speech from tables of paths, Common Voice, FLEURS and `datasets` into the
speech schema; `refuse_kept`: no voice that measures is trained on.

An audio file is looked for beside its table and in the folders that corpora use: `clips/`
(Common Voice), `audio/SPLIT/` (FLEURS), `audio/`, `wavs/`, `wav/`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...languages import find_language
from ...utils.files import one_line
from ..formats import suffix_of
from ..parts import Block, Part
from ..schema import check_text
from ..tables import (
    SPLIT_WORDS,
    BadRows,
    Plan,
    as_list,
    checked_tables,
    list_files,
    positive,
    to_dataset,
)
from .layouts import SAVED, Extra, audio_folders, columns_of_layout, open_table, speech_tables

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict, Features

COLUMNS = ("audio", "text", "lang")
OPTIONAL = ("english", "source", "speaker")
ALIASES = {
    "audio": (
        "audio",
        "path",
        "file_name",
        "audio_path",
        "audio_filepath",
        "filename",
        "file",
        "wav",
    ),
    "text": ("text", "sentence", "raw_transcription", "transcription", "transcript"),
    "lang": ("lang", "locale", "language", "language_code"),
    "english": ("english", "english_text"),
    "source": ("source", "engine"),
    "speaker": ("speaker", "speaker_id", "client_id", "voice"),
}
# By engine. A speaker is written VOICE, or VOICE+VARIANT for espeak-ng ("en-us+f5").
KEPT_VOICES = {
    "espeak-ng": ("f5", "m8", "travis", "victor", "antonio", "iven3", "mario", "michael"),
    "flite": ("slt",),
}
# Recordings: telephone prompts, language courses, and the sentences of LASER's Tatoeba test.
KEPT_SOURCES = ("asterisk", "artikulate", "tatoeba")


def features(optional: Sequence[str] = ()) -> Features:
    """The `datasets.Features` of a speech dataset with the given optional columns."""
    from datasets import Audio, Features, Value

    kinds = {"audio": Audio(decode=False)}
    for name in (*COLUMNS[1:], *OPTIONAL):
        if name in COLUMNS or name in optional:
            kinds[name] = Value("string")
    return Features(kinds)


def load_speech(
    path_or_name: str | os.PathLike | Dataset,
    *,
    lang: str | None = None,
    source: str | None = None,
    columns: Mapping[str, str] | None = None,
    split: str | None = "train",
    name: str | None = None,
    on_bad_row: str = "error",
    limit: int | None = None,
) -> Dataset:
    """Read speech into the columns audio (not decoded), text and lang, and those of `OPTIONAL` that
    there are.

    Args:
        path_or_name: a table of paths (.tsv, .jsonl) or a folder of them; a Common Voice folder
            (`clips/` beside `train.tsv`), or a folder of several languages; a FLEURS folder
            (`fr_fr/train.tsv`, `fr_fr/audio/train/`); a folder or file of Parquet with an audio
            column; a folder of `Dataset.save_to_disk`; a folder with `metadata.csv`, of `datasets`
            (audiofolder) or LJSpeech; a dataset on the Hub; or a `Dataset`.
        lang, source: of all rows, where the data have no column for it. `lang` may be a code or a
            name ("fr").
        columns: schema name -> name in the data, for names other than the usual ones.
        split: as in `load_parallel`; of Common Voice also "validated" and "other". None reads
            train, dev and test.
        name: configuration of a Hub dataset.
        on_bad_row: "error" raises with the first bad rows (file and line), "skip" drops them with
            one warning.
        limit: largest number of good rows.

    In FLEURS the column `english` is the English sentence of the same number, if the folder `en_us`
    is there.

    Raises:
        FileNotFoundError: no such file, folder, split or Hub dataset.
        ValueError: a missing column, an unknown language, a row without text or audio file, samples
            without rate.
    """
    positive(limit)
    for column in columns or {}:
        if column not in (*COLUMNS, *OPTIONAL):
            raise ValueError(
                f"columns names {column!r}, which is not one of {', '.join((*COLUMNS, *OPTIONAL))}"
            )
    constants = {}
    if lang:
        constants["lang"] = find_language(lang)
    if source is not None:
        constants["source"] = source
    bad = BadRows(on_bad_row)
    columns = columns or {}
    if not isinstance(path_or_name, (str, os.PathLike)):
        return _from_dataset(path_or_name, "the dataset", bad, limit, columns, constants)
    path = Path(path_or_name)
    tables = speech_tables(path, split) if path.exists() else []
    if tables:
        return _from_tables(tables, split, bad, limit, columns, constants)
    dataset = _open_dataset(path, str(path_or_name), split, name)
    return _from_dataset(dataset, str(path_or_name), bad, limit, columns, constants)


def _from_tables(
    files: list[Path],
    split: str | None,
    bad: BadRows,
    limit: int | None,
    columns: Mapping[str, str],
    constants: Mapping[str, str],
) -> Dataset:
    """The rows of tables of paths, which `datasets` caches;
    a row whose audio file is missing is bad."""
    later_columns = [name for name in OPTIONAL if name not in constants]
    plans = []
    identities = []
    for file in files:
        # What the file has, and what its layout (Common Voice and others) says beside it.
        part = open_table(file)
        extra = columns_of_layout(file, part.columns, constants)
        mapping = find_columns(part.columns, columns, [*constants, *extra], part.label)
        folders = audio_folders(file)
        read = partial(_read_located, part, mapping["audio"], folders, extra)
        all_columns = mapping | {name: name for name in extra}
        plan = Plan.of(part._replace(read=read), all_columns, split, later_columns)
        plans.append(plan)
        # A new file in a folder of audio makes a missing one present.
        times = [(str(folder), folder.stat().st_mtime_ns) for folder in folders]
        identities.append((part.identity, sorted(mapping.items()), plan.split, times))

    # The optional columns that some file has.
    present = {*constants}
    for plan in plans:
        present.update(plan.mapping)
    optional = [name for name in OPTIONAL if name in present]

    # The same files read the same way are cached under one key.
    convert = partial(checked_rows, constants=constants, optional=optional)
    tables = checked_tables(plans, convert, bad, limit=limit)
    key = ("speech", identities, sorted(constants.items()), optional, bad.skip, limit)
    return to_dataset(tables, bad, features(optional), key)


def _read_located(
    part: Part, audio: str, folders: list[Path], extra: Extra, names: Sequence[str]
) -> Iterator[Block]:
    """The blocks of a table with full paths of audio files; a row whose file is missing is bad."""
    # Columns that the folders give are not in the table.
    in_table = [name for name in names if name not in extra]
    if "english" in extra and "id" not in in_table:
        in_table.append("id")
    for block in part.read(in_table):
        places = []
        kept = []
        bad = list(block.bad)
        for row, value in enumerate(as_list(block.columns[audio])):
            place = _find(value, folders)
            if place:
                places.append(place)
                kept.append(row)
            else:
                reason = f"no audio file {value}" if value else "audio is missing"
                bad.append((block.lines[row], reason))
        columns = {}
        for name in in_table:
            values = as_list(block.columns[name])
            columns[name] = [values[row] for row in kept]
        columns[audio] = places
        for name, make in extra.items():
            columns[name] = make(columns | {"audio": places})
        yield Block(columns, [block.lines[row] for row in kept], bad)


def _find(value: Any, folders: list[Path]) -> str | None:
    """The path of an audio file that a table names, in the first folder that holds it;
    None without."""
    if not isinstance(value, str) or not value or "\0" in value:
        return None
    for name in (value, f"{value}.wav"):  # LJSpeech leaves the suffix out
        for number, folder in enumerate(folders):
            place = folder / name
            if place.is_file():
                folders.insert(0, folders.pop(number))  # the next file is most likely there too
                return str(place.absolute())
    return None


def find_columns(
    column_names: Sequence[str],
    columns: Mapping[str, str],
    constants: Sequence[str],
    where: str,
) -> dict[str, str]:
    """Map the schema to the columns of a table;
    `constants` are schema columns with values from elsewhere."""
    if "lang" in constants and "lang" in column_names:
        raise ValueError(f"{where} has a column lang: leave lang out")
    mapping = {}
    for name, aliases in ALIASES.items():
        column = columns.get(name) or next(
            (alias for alias in aliases if alias in column_names), None
        )
        if column is not None and column not in column_names:
            raise ValueError(
                f"{where} has no column {column!r} (named for {name}); found: {', '.join(column_names)}"
            )
        if column is not None and name not in constants:
            mapping[name] = column
        elif name in COLUMNS and name not in constants:
            fix = "give lang, such as fra_Latn, or" if name == "lang" else "give"
            message = (
                f"{where} has no column for {name}; found: {', '.join(column_names) or 'none'}"
            )
            raise ValueError(f"{message}; {fix} columns: {{{name}: ...}}")
    return mapping


def checked_rows(
    block: Mapping[str, Any],
    *,
    constants: Mapping[str, str],
    optional: Sequence[str],
) -> tuple[pa.Table, list[tuple[int, str]]]:
    """(table of the good rows, (row, reason) of the others); `audio` of the block is a path."""
    # A row with anything wrong is left out whole, with the first reason.
    values = {name: as_list(column) for name, column in block.items()}
    good: dict[str, list[Any]] = {name: [] for name in (*COLUMNS, *optional)}
    bad = []
    for row, fields in enumerate(zip(*values.values(), strict=True)):
        record = {**dict(zip(values, fields, strict=True)), **constants}
        reason = check_text("text", record["text"])
        try:
            lang = _code(record.get("lang"))
        except ValueError as error:
            reason = reason or str(error)
        if reason is not None:
            bad.append((row, reason))
            continue
        good["audio"].append({"bytes": None, "path": record["audio"]})
        good["text"].append(record["text"])
        good["lang"].append(lang)
        for name in optional:
            value = record.get(name)
            good[name].append(None if value is None or value == "" else str(value))
    return pa.table(good, schema=features(optional).arrow_schema), bad


@lru_cache(maxsize=4096)
def _code(lang: Any) -> str:
    if not isinstance(lang, str) or not lang:
        raise ValueError("lang is missing")
    return find_language("yue" if lang == "zh-HK" else lang)  # Common Voice's name of Cantonese


def _open_dataset(path: Path, label: str, split: str | None, name: str | None) -> Dataset:
    """The rows of a folder, file or data set of the Hub;
    raises ValueError where it holds no audio."""
    from datasets import Dataset, concatenate_datasets, load_from_disk
    from datasets.exceptions import DatasetsError

    from ..readers import hub_dataset, looks_like_file

    if not path.exists():
        if looks_like_file(label):
            raise FileNotFoundError(
                f"{label}: no such file or folder (working folder {Path.cwd()})"
            )
        return hub_dataset(label, name, split)
    is_saved = any((path / file).exists() for file in SAVED)
    files = []
    if not is_saved:
        files = [file for file in list_files(path, split) if suffix_of(file) == ".parquet"]
        if not files:
            kind = "is not a table" if path.is_file() else "no table"
            place = " of audio" if path.is_file() else " of audio in this folder"
            raise FileNotFoundError(f"{path}: {kind}{place} (.tsv, .jsonl, .parquet, metadata.csv)")
    try:
        if is_saved:
            opened = load_from_disk(str(path))
        else:
            # Files may have different columns: concatenation fills what is missing with None.
            opened = concatenate_datasets([Dataset.from_parquet(str(file)) for file in files])
    except (OSError, ValueError, RuntimeError, DatasetsError) as error:
        raise ValueError(f"{label}: not a readable speech dataset ({one_line(error)})") from None
    return _of_split(opened, label, split)


def _of_split(opened: Dataset | DatasetDict, label: str, split: str | None) -> Dataset:
    """The rows of a split, which is a part of a `DatasetDict`, or a value of the column `split`;
    None: all rows."""
    from datasets import Dataset, concatenate_datasets

    if isinstance(opened, Dataset):
        if split is None or "split" not in opened.column_names:
            return opened
        values = opened["split"][:]
        parts = dict.fromkeys(values)
    elif split is None:
        return concatenate_datasets(list(opened.values()))
    else:
        parts = opened
    name = split if split in parts else SPLIT_WORDS.get(split, split)
    if name not in parts:
        raise FileNotFoundError(
            f"{label}: no split {split!r}; there are {', '.join(map(str, parts))}"
        )
    if isinstance(opened, Dataset):
        return opened.select([row for row, value in enumerate(values) if value == name])
    return opened[name]


def _from_dataset(
    dataset: Dataset,
    label: str,
    bad: BadRows,
    limit: int | None,
    columns: Mapping[str, str],
    constants: Mapping[str, str],
) -> Dataset:
    """The rows of a `datasets.Dataset`; its audio is not decoded and not copied."""
    from datasets import Dataset, concatenate_datasets

    mapping = find_columns(dataset.column_names, columns, list(constants), label)
    column = mapping.pop("audio")
    audio = _undecoded(dataset, column, label).select_columns([column])
    texts = dataset.select_columns(list({*mapping.values()})).with_format("arrow")[:]
    block = {name: texts[text_column] for name, text_column in mapping.items()}
    block["audio"] = [None] * len(dataset)
    optional = [name for name in OPTIONAL if name in mapping or name in constants]
    checked, bad_rows = checked_rows(block, constants=constants, optional=optional)

    # Rows behind the last one that is wanted are nobody's business, as in a table.
    failed = {row for row, _ in bad_rows}
    rows = [row for row in range(len(dataset)) if row not in failed][:limit]
    end = rows[-1] if len(rows) == limit else len(dataset)
    for row, reason in bad_rows:
        if row < end:
            bad.add(label, row + 1, reason)
    bad.report()
    if not rows:
        raise ValueError(f"{label}: no good row")

    # Audio is not copied: a bad row keeps its place beside it, empty, and is not selected.
    place_of = {row: place for place, row in enumerate(rows)}
    places = pa.array([place_of.get(row) for row in range(len(dataset))], pa.int64())
    checked = checked.drop(["audio"]).take(places)
    if column != "audio":
        audio = audio.rename_column(column, "audio")
    return concatenate_datasets([audio, Dataset(checked)], axis=1).select(rows)


def _undecoded(dataset: Dataset, column: str, label: str) -> Dataset:
    """The data set with audio as bytes and paths; raises ValueError where samples have no rate."""
    from datasets import Audio

    # Audio, paths, {bytes, path}, or decoded samples with their rate.
    feature = dataset.features[column]
    fields = set(feature) if isinstance(feature, dict) else set()
    is_path = getattr(feature, "dtype", None) == "string" or fields == {"bytes", "path"}
    if isinstance(feature, Audio) or is_path:
        undecoded = Audio(getattr(feature, "sampling_rate", None), decode=False)
        return dataset.cast_column(column, undecoded)
    if "bytes" in fields or {"array", "sampling_rate"} <= fields:
        return dataset
    raise ValueError(
        f"{label}: the column {column!r} holds samples without a sampling rate ({feature}); give "
        "{'array', 'sampling_rate'}, paths, or a datasets.Audio column"
    )


def kept_for_measuring(source: str | None, speaker: str | None) -> str | None:
    """Why a source or voice must not be trained on, or None if it may:
    measured voices are unheard in training."""
    source = (source or "").lower()
    for kept in KEPT_SOURCES:
        if kept in source:
            return f"{kept} recordings are kept for measuring"
    parts = re.split(r"[+_/ ]", (speaker or "").lower())
    for engine, voices in KEPT_VOICES.items():
        for voice in voices:
            if engine in source and voice in parts:
                return f"{engine} voice {voice} is kept for measuring"
    return None


def refuse_kept(rows: Dataset, where: str = "the speech") -> None:
    """Raises ValueError with the number of the first row of a voice or source that is kept for
    measuring."""
    columns = (
        rows[name] if name in rows.column_names else [None] * len(rows)
        for name in ("source", "speaker")
    )
    for number, origin in enumerate(zip(*columns, strict=True), 1):
        reason = kept_for_measuring(*origin)
        if reason:
            raise ValueError(f"{where}, row {number}: {reason}; leave these rows out of training")
