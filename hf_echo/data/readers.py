"""`load_parallel`: read sentence pairs from files, the Hub or built-in corpora into the parallel
schema (`schema`)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hf_echo.languages import find_language, tagged_code

from ..utils.files import first_line, one_line
from ..utils.hub import out_of_reach, split_revision
from ..utils.text import BLOCK
from . import nway, schema
from .bitexts import moses_pair
from .builtin import builtin_parallel
from .formats import open_file, open_hub, suffix_of
from .parts import Part
from .tables import BadRows, Plan, check_split, checked_tables, list_files, positive, to_dataset

if TYPE_CHECKING:
    from datasets import Dataset

BUILTIN_OPTIONS = ("n", "languages", "hard_negatives")
NWAY_OPTIONS = ("id_column", "direction", "languages", "pivot", "seed")
NO_OPTIONS = "it applies only to the built-in corpus and to n-way tables (id, lang, text)"


def load_parallel(
    path_or_name: str | os.PathLike,
    *,
    source_lang: str | None = None,
    target_lang: str | None = None,
    columns: Mapping[str, str] | None = None,
    split: str | None = "train",
    name: str | None = None,
    on_bad_row: str = "error",
    provenance: str | None = None,
    limit: int | None = None,
    **options: Any,
) -> Dataset:
    """Read parallel text into the columns source, source_lang, target, target_lang and provenance.

    The columns hard_negatives (list of texts) and quality are added if the data have them.

    Args:
        path_or_name: ``"builtin"``; a file (.tsv, .csv, .jsonl, .tmx, .xlf, .xml of OPUS, also
            packed; .parquet, .arrow, or .json with one object per line or one array of objects); a
            Moses pair; a folder of such files; or the name of a dataset on the Hub. A table with
            the columns id (verse_id, index_id), lang, text is n-way, and its pairs are formed
            (`hf_echo.data.nway`).
        source_lang, target_lang: for all rows, if the file has no column for it; any name or code.
            With both, a TSV or CSV file of two columns needs no header. They choose the texts of a
            file that holds several languages.
        columns: schema name -> name in the file, for names other than the usual ones (src/tgt,
            sentence1/sentence2 ...): ``{"source": "translation.fr", "target": "translation.en"}``.
            It can also swap the sides: ``dict(source="tgt", target="src", source_lang="tgt_lang",
            target_lang="src_lang")``.
        split: a split of a Hub dataset, of a folder whose file names show splits, or of a file with
            a column ``split``. None reads all.
        name: configuration of a Hub dataset.
        on_bad_row: ``"error"`` raises with the first bad rows (file and line) and their number;
            ``"skip"`` drops them with one warning.
        provenance: for rows whose file has no such column (default "primary"; the built-in corpus
            has its own).
        limit: maximum number of good rows to read.
        options: for the built-in corpus (``n, languages, hard_negatives``) or n-way tables
            (``id_column, direction, languages, pivot, seed``: see `nway_pairs`).

    Raises:
        FileNotFoundError: no such file, folder or Hub dataset.
        ValueError: bad rows, a missing column (the message lists those found), an unknown language
            code.
    """
    if str(path_or_name) == "builtin":
        return _builtin(split, positive(limit), options)
    # What is the same for all rows, as the caller gives it.
    constants_asked = {
        "source_lang": source_lang,
        "target_lang": target_lang,
        "provenance": provenance,
    }
    label = str(path_or_name)
    id_column = options.get("id_column")
    parts, constants, of_files, is_nway = _open(
        label, columns, split, name, limit, id_column, **constants_asked
    )
    if Path(label).exists():
        check_split(Path(label), parts, split)
    # An n-way table gives pairs of its languages.
    if is_nway:
        _only(options, NWAY_OPTIONS, f"{label} is an n-way table")
        rows = nway.read_nway(parts, options.pop("id_column", None), of_files, on_bad_row)
        try:
            return nway.nway_pairs(rows, **options, provenance=provenance or "primary", limit=limit)
        except ValueError as error:
            raise ValueError(f"{label}: {error}") from None
    _only(options, (), NO_OPTIONS)

    # Tables of pairs: rows are checked block by block on their way into the cache.
    plans, optional = _plan(parts, columns, constants, of_files)
    convert = partial(schema.normalise, constants=constants, optional=optional)
    bad = BadRows(on_bad_row)
    features = schema.features(optional)
    sources = [(plan.part.identity, plan.mapping, plan.split) for plan in plans]
    key = ("parallel", sources, constants, optional, on_bad_row, limit)
    return to_dataset(checked_tables(plans, convert, bad, limit=limit), bad, features, key)


def parallel_tables(
    path_or_name: str | os.PathLike, bad: BadRows, **arguments: Any
) -> Iterator[pa.Table]:
    """Yield the rows of ``load_parallel(path_or_name, **arguments)`` table by table.

    Every table has all OPTIONAL columns. Bad rows go to ``bad``; if they are errors, the first
    block with one raises.
    """
    label = str(path_or_name)
    if label != "builtin":
        # Options of n-way tables and of the built-in corpus are for their readers alone.
        special = {*BUILTIN_OPTIONS, *NWAY_OPTIONS}
        general = {}
        options = {}
        for key, value in arguments.items():
            if key in special:
                options[key] = value
            if key not in special or key == "id_column":
                general[key] = value
        parts, constants, of_files, is_nway = _open(label, **general)
        if not is_nway:
            _only(options, (), NO_OPTIONS)
            plans, _ = _plan(parts, general.get("columns"), constants, of_files)
            convert = partial(schema.normalise, constants=constants, optional=schema.OPTIONAL)
            limit = general.get("limit")
            yield from checked_tables(plans, convert, bad, limit=limit, streaming=True)
            return
        arguments["on_bad_row"] = "skip" if bad.skip else "error"
    # These are read whole, into the cache.
    dataset = load_parallel(path_or_name, **arguments)
    for table in dataset.with_format("arrow").iter(BLOCK):
        columns = dict(zip(table.column_names, table.columns))
        yield schema.normalise(columns, optional=schema.OPTIONAL)[0]


def _open(
    label: str,
    columns: Mapping[str, str] | None = None,
    split: str | None = "train",
    name: str | None = None,
    limit: int | None = None,
    id_column: str | None = None,
    **asked_constants: str | None,
) -> tuple[list[Part], dict[str, str], str | None, bool]:
    """(parts, schema columns with one value for all rows, split to select from rows,
    whether the parts are n-way)."""
    positive(limit)
    constants = {}
    for name_of_column, value in asked_constants.items():
        if value is not None:
            is_language = name_of_column.endswith("lang") and value
            constants[name_of_column] = find_language(value, strict=True) if is_language else value
    provenance = asked_constants.get("provenance")
    if provenance is not None and provenance not in schema.PROVENANCES:
        raise ValueError(f"provenance={provenance!r} is not one of {', '.join(schema.PROVENANCES)}")

    # A path that exists is a file or folder; else the form of the name decides.
    is_here = Path(label).exists()
    if not is_here and not looks_like_file(label):
        parts = [open_hub(split_revision(label)[0], hub_dataset(label, name, split))]
    else:
        options: dict[str, Any] = {
            "is_header": partial(schema.is_header, columns=columns, constants=constants)
        }
        options["langs"] = tuple(
            _tag(asked_constants.get(side)) for side in ("source_lang", "target_lang")
        )
        if columns is not None and all(str(column).isdigit() for column in columns.values()):
            options |= {"is_header": lambda fields: False, "without_header": None}
        parts = [open_file(file, **options) for file in list_files(Path(label), split)]
    # Every part must be n-way: a folder of both kinds is read as pairs.
    is_nway = columns is None and all(
        nway.find_nway_columns(part.columns, id_column) and not schema.has_pair(part.columns)
        for part in parts
    )
    # The Hub has already selected the split.
    return parts, constants, split if is_here else None, is_nway


def _tag(lang: str | None) -> str | None:
    """The code of a language, with the region that a caller names:
    a file may hold several variants."""
    if lang is None or hasattr(lang, "tag"):
        return lang
    return tagged_code(lang)


def _plan(
    parts: list[Part],
    columns: Mapping[str, str] | None,
    constants: Mapping[str, str],
    split: str | None,
) -> tuple[list[Plan], list[str]]:
    """(the plan of each part, the optional columns that any of them has)."""
    languages = {name: value for name, value in constants.items() if name != "provenance"}
    plans = []
    optional: set[str] = set()
    for part in parts:
        mapping = schema.find_columns(part.columns, columns, constants=languages, where=part.label)
        plan = Plan.of(part, mapping, split, ("provenance", *schema.OPTIONAL))
        plans.append(plan)
        optional.update(plan.mapping)
    return plans, [name for name in schema.OPTIONAL if name in optional]


def looks_like_file(label: str) -> bool:
    """Whether a label is a path, not a Hub dataset
    (``name``, ``owner/name`` or ``owner/name@revision``)."""
    is_known = suffix_of(Path(label)) is not None or moses_pair(Path(label)) is not None
    return is_known or not re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?(@[\w./-]+)?", label)


def hub_dataset(label: str, name: str | None, split: str | None) -> Dataset:
    """A dataset of the Hub: one split, or all of them joined; raises as `load_parallel`."""
    from datasets import concatenate_datasets, config, load_dataset

    label, revision = split_revision(label)
    cached = Path(config.HF_DATASETS_CACHE, label.replace("/", "___")).exists()
    reason = None if cached else out_of_reach(label, ["README.md"], "dataset")
    if reason:
        raise FileNotFoundError(f"{label}: no such file or folder, and {reason}")
    try:
        dataset = load_dataset(label, name, split=split, revision=revision)
    except OSError as error:
        # Missing, private, or no connection; the first line of the message says which
        reason = first_line(error)
        raise FileNotFoundError(
            f"{label}: no such file or folder, nor a readable dataset on the Hub: {reason}"
        ) from None
    except ValueError as error:  # no such split or configuration
        raise ValueError(f"{label}: {one_line(error)}") from None
    if split is None:
        dataset = concatenate_datasets(list(dataset.values()))
    return dataset


def _builtin(split: str | None, limit: int | None, options: dict[str, Any]) -> Dataset:
    """Pairs of the built-in corpus, at most `limit`."""
    _only(options, BUILTIN_OPTIONS, "the built-in corpus")
    if split is not None:
        options["split"] = split
    dataset = builtin_parallel(**options)
    if limit is None:
        return dataset
    return dataset.select(range(min(limit, len(dataset))))


def _only(options: Mapping[str, Any], accepted_options: tuple[str, ...], reason: str) -> None:
    for option in options:
        if option not in accepted_options:
            accepted = f", which accepts {', '.join(accepted_options)}" if accepted_options else ""
            raise ValueError(f"unknown option {option!r}: {reason}{accepted}")
