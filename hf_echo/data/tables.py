"""Read the parts of a corpus into one checked `datasets.Dataset`: bad rows, splits, the cache on
disk.

Rows go block by block from the files into an Arrow file in the datasets cache, which is then
memory-mapped. The cache key contains path and content hash of every file and all options, so a
changed file is read again.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

import hf_echo

from ..utils.files import files_below, write_whole
from .bitexts import moses_pair
from .formats import KNOWN, kind_of, suffix_of
from .parts import Part, left_out_line
from .schema import as_list

if TYPE_CHECKING:
    from datasets import Dataset, Features

logger = logging.getLogger(__name__)

SHOWN = 5  # bad rows listed in an error message
SPLIT_WORDS = {"train": "train", "training": "train", "test": "test"} | dict.fromkeys(
    ("validation", "valid", "val", "dev"), "validation"
)

Convert = Callable[[Mapping[str, Any]], tuple[pa.Table, list[tuple[int, str]]]]


class Plan(NamedTuple):
    """One part, the file's column for each schema column, and the required value of its column
    ``split``."""

    part: Part
    mapping: dict[str, str]
    split: str | None = None

    @classmethod
    def of(
        cls, part: Part, mapping: dict[str, str], split: str | None, optional: Sequence[str] = ()
    ) -> Plan:
        """``optional``: schema columns that a file may lack,
        and that later rows of an open-ended one may have."""
        later = {name: name for name in optional if name not in mapping} if part.open_ended else {}
        return cls(part, mapping | later, split if "split" in part.columns else None)


class BadRows:
    """Collect (file, line, reason) of bad rows; at the end raise an error or log one warning."""

    def __init__(
        self, on_bad_row: str, fix: str = "correct them, or set on_bad_row to skip"
    ) -> None:
        if on_bad_row not in ("error", "skip"):
            raise ValueError(f"on_bad_row is {on_bad_row!r}; it must be error or skip")
        self.fix = fix
        self.skip = on_bad_row == "skip"
        self.first: list[str] = []
        self.where = ""  # file and line of the first one
        self.reasons: Counter[str] = Counter()
        # File -> reason -> number of rows that are none, and no error.
        self.left_out: dict[str, Counter[str]] = {}

    def add(self, label: str, line: int, reason: str) -> None:
        self.where = self.where or f"{label}:{line}"
        if len(self.first) < SHOWN:
            self.first.append(f"{label}:{line}: {reason}")
        self.reasons[reason] += 1

    def leave_out(self, label: str, counts: Mapping[str, int]) -> None:
        """Count the parts of a file that are not rows, such as a unit of TMX without one of the
        languages."""
        if any(counts.values()):
            self.left_out.setdefault(label, Counter()).update(counts)

    def report(self, so_far: str = "") -> str | None:
        """Raise ValueError if bad rows are errors;
        otherwise log what was left out and return it (None: nothing)."""
        warnings = []
        bad_rows = self._bad_rows(so_far)
        if bad_rows:
            warnings.append(bad_rows)
        if not so_far:
            for label, counts in self.left_out.items():
                line = left_out_line(label, counts)
                if line:
                    warnings.append(line)
        for warning in warnings:
            logger.warning(warning)
        return "; ".join(warnings) or None

    def _bad_rows(self, so_far: str) -> str | None:
        """A warning about skipped rows, None without bad rows;
        raises ValueError where they are errors."""
        # The first rows in full, and how many there are of each reason.
        total = self.reasons.total()
        if not total:
            return None
        rows = "1 bad row" if total == 1 else f"{total} bad rows"
        if not self.skip:
            ending = "; ..." if total > len(self.first) else ""
            raise ValueError(f"{'; '.join(self.first)}{ending} ({rows}{so_far}; {self.fix})")
        reasons = "; ".join(
            f"{reason}: {count}" for reason, count in self.reasons.most_common(SHOWN)
        )
        ending = f"; {len(self.reasons) - SHOWN} other reasons" if len(self.reasons) > SHOWN else ""
        return f"skipped {rows} ({reasons}{ending}), the first at {self.where}"


def list_files(
    path: Path, split: str | None, is_readable: Callable[[Path], bool] | None = None
) -> list[Path]:
    """List the files of a folder by name; with `split`, only those of that split.

    `is_readable` says which files count; without it tables do (`is_table`). File names may show
    splits (``train.tsv``, ``dev/a.parquet``); other files belong to train.
    """
    if not path.exists() and moses_pair(path):
        return [path]
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder (working folder {Path.cwd()})")
    if path.is_file():
        return [path]
    files = []
    for file in files_below(path):
        is_hidden = any(name.startswith(".") for name in file.relative_to(path).parts)
        if is_hidden or not (is_readable or is_table)(file):
            continue
        files.append(file)
        if not file.exists():
            raise FileNotFoundError(
                f"{file} is a link to a file that does not exist: remove or correct it"
            )
    if not files:
        raise FileNotFoundError(
            f"{path}: no file of a known type in this folder ({KNOWN}, or a Moses pair)"
        )
    # Where any name shows a split, files without one belong to train.
    names = [split_in_name(file.relative_to(path)) for file in files]
    if split is None or not any(names):
        return files
    splits = [name or "train" for name in names]
    chosen_split = SPLIT_WORDS.get(split, split)
    chosen = [file for file, name in zip(files, splits, strict=True) if name == chosen_split]
    if not chosen:
        held = ", ".join(sorted(set(splits)))
        raise FileNotFoundError(f"{path}: no file of split {split!r}; there are {held}")
    return chosen


def check_split(path: Path, parts: Sequence[Part], split: str | None) -> None:
    """Refuse a split of a file or folder that has neither a column `split` nor file names with this
    split."""
    if split in (None, "train") or any("split" in part.columns for part in parts):
        return
    # Of a folder each file may name its split, of a file its own name.
    names = [Path(path.name)]
    if path.is_dir():
        names = [Path(part.label).relative_to(path) for part in parts]
    if SPLIT_WORDS.get(split, split) not in map(split_in_name, names):
        raise ValueError(f"{path} has no column split; leave split {split!r} out")


def is_table(path: Path) -> bool:
    """A Moses pair is listed by its first file.
    XML and subtitles are read where they are named, not in folders."""
    if suffix_of(path) and kind_of(path) not in (".xml", ".srt", ".vtt"):
        return True
    pair = moses_pair(path)
    return pair is not None and pair[0][0] == path


def split_in_name(path: Path) -> str | None:
    words = re.split(r"[^a-z]+", str(path).lower())
    return next((SPLIT_WORDS[word] for word in reversed(words) if word in SPLIT_WORDS), None)


def checked_tables(
    plans: Sequence[Plan],
    convert: Convert,
    bad: BadRows,
    *,
    limit: int | None = None,
    streaming: bool = False,
) -> Iterator[pa.Table]:
    """Yield tables of good rows, at most ``limit`` rows. Bad rows go to ``bad``; the caller calls
    `bad.report` last.

    If bad rows are errors, streaming raises at the first block with one.
    """
    good = 0
    splits: set[str] = set()  # the values of the columns `split`
    for part, mapping, split in plans:
        # Only the columns that are needed are read.
        column_names = {*mapping.values()}
        if split is not None:
            column_names.add("split")
        for block in part.read(list(column_names)):
            bad.leave_out(part.label, block.left_out)
            columns = {name: block.columns[column] for name, column in mapping.items()}
            lines = block.lines
            if split is not None:
                values = as_list(block.columns["split"])
                splits.update(map(str, values))
                mask = [value == split for value in values]
                columns = {name: _filter(column, mask) for name, column in columns.items()}
                lines = list(compress(lines, mask))

            # The row numbers of a block become the numbers of lines.
            table, numbered = convert(columns)
            wrong = sorted(block.bad + [(lines[row], reason) for row, reason in numbered])
            if limit is not None and good + len(table) >= limit:
                table, wrong = _first_rows(limit - good, table, lines, wrong)
            for line, reason in wrong:
                bad.add(part.label, line, reason)
            if streaming and not bad.skip:
                bad.report(" so far")
            good += len(table)
            if len(table):
                yield table
            if good == limit:
                return
    is_bad_row_said = bad.reasons and not bad.skip
    if not good and not streaming and not is_bad_row_said:
        raise ValueError(_no_good_row(plans, splits, bad))


def _first_rows(
    count: int, table: pa.Table, lines: Sequence[int], wrong: list[tuple[int, str]]
) -> tuple[pa.Table, list[tuple[int, str]]]:
    """The first good rows of a block, and the bad ones before the last of them:
    later rows are not checked."""
    failed = {line for line, _ in wrong}
    good_lines = [line for line in lines if line not in failed]
    last = good_lines[count - 1]
    return table.slice(0, count), [(line, reason) for line, reason in wrong if line <= last]


def _no_good_row(plans: Sequence[Plan], splits: Collection[str], bad: BadRows) -> str:
    """What is wrong with parts of which no row is left."""
    message = plans[0].part.label
    if len(plans) > 1:
        message += f" and {len(plans) - 1} more"
    message += ": no good row"
    if splits:
        held = ", ".join(sorted(splits))
        message += f" of split {plans[-1].split!r}; the column split holds {held}"
    for counts in bad.left_out.values():
        line = left_out_line("", counts)
        if line:
            message += f"; {line.removeprefix(': ')}"
    return message


def positive(limit: int | None) -> int | None:
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ValueError(f"limit={limit!r} is not a positive number of rows")
    return limit


def _filter(values: Any, mask: list[bool]) -> Any:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values.filter(pa.array(mask, pa.bool_()))
    return list(compress(values, mask))


def to_dataset(tables: Iterator[pa.Table], bad: BadRows, features: Features, key: tuple) -> Dataset:
    """Write the tables to the datasets cache under ``key`` unless they exist,
    and open them memory-mapped."""
    from datasets import Dataset, config
    from datasets.table import MemoryMappedTable

    # Another version of the package may read the same file otherwise.
    digest = hashlib.sha256(repr((hf_echo.__version__, key)).encode()).hexdigest()[:32]
    path = Path(config.HF_DATASETS_CACHE) / "hf_echo" / f"{digest}.arrow"
    note = path.with_suffix(".skipped")  # the warning; a later run from the cache repeats it
    if path.exists():
        if note.exists():
            logger.warning(note.read_text(encoding="utf-8"))
    else:
        schema = features.arrow_schema
        with write_whole(path) as unfinished:
            with (
                pa.OSFile(str(unfinished), "wb") as sink,
                pa.ipc.new_stream(sink, schema) as writer,
            ):
                for table in tables:
                    writer.write_table(table.cast(schema))
            warning = bad.report()
            if warning:
                note.write_text(warning, encoding="utf-8")
    return Dataset(MemoryMappedTable.from_file(str(path)), fingerprint=digest)
