"""Tables of the Hub as files that `collect_data` reads: one Parquet file for each configuration of
a dataset.

Rows are streamed, so that only what is asked for is downloaded. A configuration names its
languages, as those of sentence-transformers' parallel-sentences ("en-fr"), of opus-100 ("af-en")
and of mteb's bitexts ("fra-eng") do, or one language, as those of FLORES+ ("fra_Latn") do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tqdm.auto import tqdm

from ..languages import ENGLISH, find_language
from ..utils.files import first_line, make_once
from ..utils.hub import split_revision
from .sources.rows import one_line

logger = logging.getLogger(__name__)

ENGLISH_CODES = ("en", "eng")
BUFFER = 10_000  # rows among which the stream is shuffled
BLOCK = 10_000  # rows held in memory
PAIR_COLUMNS = ("src_lang", "src", "tgt_lang", "tgt")
NWAY_COLUMNS = ("id", "lang", "text", "split")
NOT_ASKED_FOR = "a language that is not asked for"


@dataclass(frozen=True)
class _Place:
    """A configuration of a version of a dataset, and its language beside English as a code and as
    it spells it."""

    dataset: str
    revision: str | None
    configuration: str
    code: str
    spelled: str

    def value(self, row: Mapping[str, Any], column: str) -> Any:
        if column not in row:
            where = f"{self.dataset}, {self.configuration}"
            raise ValueError(f"{where}: no column {column!r}; it has {', '.join(row)}")
        return row[column]


def write_hub_table(
    name: str, table: Any, folder: Path, languages: Sequence[str], seed: int
) -> dict[str, Any]:
    """Write the configurations of a dataset below `folder`; those that are there already are not
    read again.

    Args:
        name: of the folder of its files. table: a `HubTable` of `hf_echo.steps.training_data`.
        languages: codes of the languages that are read beside English; empty: all.

    Returns:
        rows; configurations; left_out: {configuration: why it is not read}; bad_rows: those without
        a text.

    Raises:
        FileNotFoundError: no such dataset or version. ValueError: no such configuration, split or
            column, or nothing is left.
    """
    from datasets import get_dataset_config_names

    dataset, revision = split_revision(table.dataset)
    configurations = _asked(dataset, partial(get_dataset_config_names, dataset, revision=revision))
    for configuration in table.configurations:
        if configuration not in configurations:
            raise ValueError(
                f"{table.dataset} has no configuration {configuration!r}: {', '.join(configurations)}"
            )
    report: dict[str, Any] = {"rows": 0, "configurations": 0, "left_out": {}, "bad_rows": 0}
    # One file a configuration; a language that nobody asks for is not read.
    chosen = table.configurations or configurations
    for configuration in tqdm(chosen, desc=name, unit="configuration"):
        try:
            code, spelled = language_of(configuration, table.codes, is_nway=bool(table.id))
        except ValueError as error:
            report["left_out"][configuration] = str(error)
            continue
        if languages and code not in (*languages, ENGLISH):
            report["left_out"][configuration] = NOT_ASKED_FOR
            continue
        place = _Place(dataset, revision, configuration, code, spelled)
        path = folder / name / f"{configuration}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        file = make_once(path, partial(_write, place, table, seed))
        metadata = pq.read_metadata(file)
        report["rows"] += metadata.num_rows
        report["bad_rows"] += int(metadata.metadata[b"bad_rows"])
        report["configurations"] += 1
    for configuration, reason in report["left_out"].items():
        if reason != NOT_ASKED_FOR:
            logger.warning("%s: %s is left out: %s", table.dataset, configuration, reason)
    if not report["rows"]:
        raise ValueError(f"{table.dataset}: no row is left in the languages that are asked for")
    return report


def language_of(
    configuration: str, codes: Mapping[str, str], *, is_nway: bool = False
) -> tuple[str, str]:
    """(code of the language beside English, how the configuration spells it).

    "en-fr" -> ("fra_Latn", "fr"); of an n-way table "fra_Latn" -> ("fra_Latn", "fra_Latn").

    Raises:
        ValueError: it is no pair with English, or nobody knows the language.
    """
    spelled = configuration
    if not is_nway:
        # English stands first ("en-fr") or last ("zh-TW-en").
        first, _, rest = configuration.partition("-")
        start, _, last = configuration.rpartition("-")
        if first in ENGLISH_CODES and rest:
            spelled = rest
        elif last in ENGLISH_CODES and start:
            spelled = start
        else:
            raise ValueError("it is no pair with English")
    if spelled in codes:
        return str(find_language(codes[spelled], strict=True)), spelled
    return str(find_language(spelled, strict=True)), spelled


def _asked(dataset: str, ask: Callable[[], Any]) -> Any:
    """What the Hub answers; its errors in one line."""
    try:
        return ask()
    except OSError as error:  # missing, gated, or no connection
        reason = first_line(error)
        raise FileNotFoundError(f"{dataset}: no readable dataset on the Hub: {reason}") from None
    except ValueError as error:  # no such configuration or split
        raise ValueError(f"{dataset}: {' '.join(str(error).split())}") from None


def _stream(place: _Place, split: str, rows: int | None, seed: int) -> Iterable[dict[str, Any]]:
    """Rows of a configuration as the Hub has them; of a part of them a draw near the beginning."""
    from datasets import load_dataset

    options = {"split": split, "revision": place.revision, "streaming": True}
    ask = partial(load_dataset, place.dataset, place.configuration, **options)
    stream = _asked(place.dataset, ask)
    if rows is None:
        return stream
    return islice(stream.shuffle(seed=seed, buffer_size=BUFFER), rows)


def _read_row(row: Mapping[str, Any], place: _Place, table: Any) -> tuple[str, ...] | None:
    """A row of the file that is written; None where a text is missing."""
    if table.id:
        text = one_line(place.value(row, table.text) or "")
        return (str(place.value(row, table.id)), place.code, text, table.split) if text else None
    if table.translation:  # {"en": ..., "fr": ...}
        texts = place.value(row, table.translation)
        english_column = next((name for name in ENGLISH_CODES if name in texts), "en")
        other_column = place.spelled
    else:
        texts = row
        english_column = table.english
        other_column = table.other
    english = one_line(place.value(texts, english_column) or "")
    other = one_line(place.value(texts, other_column) or "")
    return (ENGLISH, english, place.code, other) if english and other else None


def _write(place: _Place, table: Any, seed: int, path: Path) -> None:
    """Write the good rows, and the number of the others into the metadata of the file."""
    names = NWAY_COLUMNS if table.id else PAIR_COLUMNS
    schema = pa.schema([(name, pa.string()) for name in names])
    bad_rows = 0
    block: list[tuple[str, ...]] = []
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for row in _stream(place, table.split, table.rows, seed):
            values = _read_row(row, place, table)
            if values is None:
                bad_rows += 1
                continue
            block.append(values)
            if len(block) == BLOCK:
                writer.write_table(_table_of(block, schema))
                block.clear()
        writer.write_table(_table_of(block, schema))
        writer.add_key_value_metadata({"bad_rows": str(bad_rows)})


def _table_of(rows: Sequence[tuple[str, ...]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
