"""The parallel schema: the columns of a sentence pair, and the checks of a row.

``source, source_lang, target, target_lang, provenance`` are required; ``hard_negatives`` (texts close to ``target``
that do not translate ``source``) and ``quality`` are optional. Languages are NLLB codes or longer codes; code and
mathematics count as languages (`hf_echo.languages`). Texts are never changed here. `formats` reads the files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from datasets import Features

COLUMNS = ("source", "source_lang", "target", "target_lang", "provenance")
OPTIONAL = ("hard_negatives", "quality")
PROVENANCES = ("primary", "mined", "back_translation", "forward_translation", "code", "math", "dictionary")

# Names that corpora use for the two texts. Both of a pair must be present: a table with `src`, `tgt` and a
# `source` column (the name of the original corpus) is a (src, tgt) table.
TEXT_ALIASES = (
    ("source", "target"),
    ("src", "tgt"),
    ("sentence1", "sentence2"),
    ("text1", "text2"),
    ("source_text", "target_text"),
    ("src_text", "tgt_text"),
    ("msgid", "msgstr"),
)
LANGUAGE_ALIASES = (
    ("source_lang", "target_lang"),
    ("src_lang", "tgt_lang"),
    ("source_language", "target_language"),
    ("lang1", "lang2"),
    ("sentence1_lang", "sentence2_lang"),
)
# Python's white space; Arrow's utf8_trim_whitespace differs from str.strip() in some characters.
WHITE_SPACE = "".join(c for c in map(chr, range(0x3001)) if c.isspace())


def features(optional: Sequence[str] = ()) -> Features:
    """The `datasets.Features` of a parallel dataset with the given optional columns."""
    from datasets import Features, List, Value

    kinds = {"hard_negatives": List(Value("string")), "quality": Value("float64")}
    return Features({c: Value("string") for c in COLUMNS} | {c: kinds[c] for c in OPTIONAL if c in optional})


def find_columns(
    found: Sequence[str],
    columns: Mapping[str, str] | None = None,
    *,
    constants: Sequence[str] = (),
    where: str = "the table",
) -> dict[str, str]:
    """Map schema columns to the columns of a file; ``columns`` (schema name -> name in the file) takes precedence.

    ``constants`` are schema columns with one value for all rows, which need no column in the file.

    Raises:
        ValueError: a named column is missing, no usual name fits, or a constant contradicts a column; the message
            lists the columns found.
    """
    columns = dict(columns or {})
    listing = f"found: {', '.join(map(str, found)) or 'none'}"
    known = (*COLUMNS, *OPTIONAL)
    if unknown := [c for c in columns if c not in known]:
        raise ValueError(
            f"columns= maps schema names to names in the file; {unknown[0]!r} is not one of {', '.join(known)}"
        )
    for name, column in columns.items():
        if column not in found:
            raise ValueError(f"{where} has no column {column!r} (named for {name}); {listing}")

    mapping = dict(columns)
    pairs = ((columns.get("source", s), columns.get("target", t)) for s, t in TEXT_ALIASES)
    pair = next((p for p in pairs if set(p) <= set(found)), None)
    if pair is None:
        missing = " and ".join(side for side in ("source", "target") if side not in columns)
        fix = "rename them, or name them with columns={'source': ..., 'target': ...}"
        raise ValueError(f"{where} has no columns for {missing}; {listing}; {fix}")
    mapping["source"], mapping["target"] = pair
    for i, side in enumerate(("source_lang", "target_lang")):
        aliases = [names[i] for names in LANGUAGE_ALIASES]
        column = mapping.get(side) or next((a for a in aliases if a in found), None)
        if column is not None and side in constants:
            raise ValueError(f"{where} has its own column {column!r} for {side}: leave {side}= out")
        if column is None and side not in constants:
            fix = f"pass {side}='fra_Latn' or columns={{'{side}': ...}}"
            raise ValueError(f"{where} has no column for {side}; {listing}; {fix}")
        if column is not None:
            mapping[side] = column
    for name in ("provenance", *OPTIONAL):
        if name not in mapping and name in found:
            mapping[name] = name
    return mapping


def check_row(row: Mapping[str, Any]) -> str | None:
    """Why a row does not fit the schema, or None if it does. Bytes stand for text that is not UTF-8."""
    for side, lang in (("source", "source_lang"), ("target", "target_lang")):
        if reason := check_text(side, row.get(side)) or check_language(lang, row.get(lang)):
            return reason
    if (provenance := row.get("provenance")) is not None and provenance not in PROVENANCES:
        return f"provenance {provenance!r} is not one of {', '.join(PROVENANCES)}"
    negatives = row.get("hard_negatives")
    if negatives is not None:
        if not isinstance(negatives, (list, tuple)):
            return "hard_negatives is not a list of texts"
        for negative in negatives:
            if reason := check_text("a hard negative", negative):
                return reason
    quality = row.get("quality")
    if quality is not None and (not isinstance(quality, (int, float)) or not math.isfinite(quality)):
        return f"quality {quality!r} is not a finite number"
    return None


def check_text(name: str, value: Any) -> str | None:
    if value is None:
        return f"{name} is missing"
    if not isinstance(value, (str, bytes)):
        return f"{name} is not text but {type(value).__name__}"
    if isinstance(value, bytes) or not is_unicode(value):
        return f"{name} is not UTF-8"
    if "\0" in value:  # text files are refused for it too: it is mostly UTF-16 read as UTF-8
        return f"{name} holds a NUL character"
    return None if value.strip() else f"{name} is empty"


def is_unicode(text: str) -> bool:
    """False for text with a lone surrogate, which JSON can hold but UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_language(name: str, code: Any) -> str | None:
    if not isinstance(code, str) or not code:
        return check_text(name, code)
    return _language_error(name, code)


@cache
def _language_error(name: str, code: str) -> str | None:
    from hf_echo.languages import language

    try:
        language(code)
    except ValueError as error:
        return f"{name}: {error}"
    return None


def normalise(
    block: Mapping[str, Sequence | pa.Array | pa.ChunkedArray],
    *,
    constants: Mapping[str, str] | None = None,
    optional: Sequence[str] = (),
) -> tuple[pa.Table, list[tuple[int, str]]]:
    """Convert a block with schema column names to the schema's types and separate the bad rows.

    Args:
        constants: column -> value for columns that the block lacks (``{"provenance": "mined"}``), and for nulls in
            the column provenance.
        optional: the optional columns of the result; an empty list or null if the block lacks them.

    Returns:
        The table of good rows, in order, and (row number in the block, reason) for each bad one.
    """
    constants, size = {"provenance": "primary"} | dict(constants or {}), len(block["source"])
    arrays, rejected = {}, {}
    for name in COLUMNS:
        if name in block:
            arrays[name], rejected[name] = text_array(block[name])
        else:
            arrays[name], rejected[name] = pa.repeat(pa.scalar(constants[name], pa.string()), size), {}
    arrays["provenance"] = pc.fill_null(arrays["provenance"], constants["provenance"])
    for name, convert in (("hard_negatives", _lists), ("quality", _numbers)):
        if name in optional:
            arrays[name], rejected[name] = convert(block[name] if name in block else [None] * size)
    return keep_good(
        pa.table(arrays), rejected, check_row, texts=("source", "target"), languages=("source_lang", "target_lang")
    )


def keep_good(
    table: pa.Table,
    rejected: Mapping[str, Mapping[int, Any]],
    check: Callable[[Mapping[str, Any]], str | None],
    *,
    texts: Sequence[str],
    languages: Sequence[str],
    known: Callable[[str], bool] = lambda code: check_language("", code) is None,
) -> tuple[pa.Table, list[tuple[int, str]]]:
    """Separate the bad rows. Whole columns are checked first; ``check`` gets only suspect rows.

    ``rejected``: column -> row -> value that does not fit the column's type; the table has null there. ``known``:
    whether a code of a language is accepted.
    """
    suspects = set().union(*rejected.values()) if rejected else set()
    masks = [pc.equal(pc.binary_length(pc.utf8_trim(table[name], WHITE_SPACE)), 0) for name in texts]
    masks += [pc.match_substring(table[name], "\0") for name in texts]
    masks += [_not_in(table[name], known) for name in languages]
    if "provenance" in table.column_names:
        masks.append(_not_in(table["provenance"], PROVENANCES.__contains__))
    for mask in masks:  # null counts as wrong
        suspects.update(np.flatnonzero(pc.fill_null(mask, True).to_numpy()).tolist())
    bad, order = [], sorted(suspects)
    for i, row in zip(order, table.take(pa.array(order, pa.int64())).to_pylist(), strict=True):
        row |= {name: values[i] for name, values in rejected.items() if i in values}
        if reason := check(row):
            bad.append((i, reason))
    if bad:
        mask = np.ones(len(table), bool)
        mask[[i for i, _ in bad]] = False
        table = table.filter(pa.array(mask))
    return table, bad


def _not_in(column: pa.ChunkedArray, known: Callable[[str], bool]) -> pa.ChunkedArray:
    values = [v for v in pc.unique(column).to_pylist() if v is not None and known(v)]
    return pc.invert(pc.is_in(column, pa.array(values, pa.string())))


def text_array(values: Sequence | pa.Array | pa.ChunkedArray) -> tuple[pa.Array, dict[int, Any]]:
    """An Arrow string array, and row -> value of everything that is neither text nor null (null in the array)."""
    try:
        if not isinstance(values, (pa.Array, pa.ChunkedArray)):
            return pa.array(values, pa.string()), {}
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if pa.types.is_null(values.type) or pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
            return values.cast(pa.string()), {}
        if (
            pa.types.is_string(values.type)
            or pa.types.is_large_string(values.type)
            or pa.types.is_string_view(values.type)
        ):
            values.validate(full=True)  # Parquet requires UTF-8, but reading does not check it
            return values.cast(pa.string()), {}
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError):
        pass
    return _text_array_by_row(values)


def _text_array_by_row(values: Sequence | pa.Array) -> tuple[pa.Array, dict[int, Any]]:
    if isinstance(values, pa.Array):
        binary = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}.get(values.type)
        values = (values.view(binary) if binary else values).to_pylist()
    texts, rejected = [], {}
    for i, value in enumerate(values):
        try:
            value = value.decode() if isinstance(value, bytes) else value
        except UnicodeDecodeError:
            pass
        if value is not None and not (isinstance(value, str) and is_unicode(value)):
            rejected[i], value = value, None
        texts.append(value)
    return pa.array(texts, pa.string()), rejected


def _lists(values: Sequence | pa.Array | pa.ChunkedArray) -> tuple[pa.Array, dict[int, Any]]:
    """Lists of texts; a string is parsed as JSON (a list in a TSV field); null becomes the empty list."""
    lists, rejected = [], {}
    for i, value in enumerate(values.to_pylist() if isinstance(values, (pa.Array, pa.ChunkedArray)) else values):
        if isinstance(value, str):
            try:
                value = json.loads(value) if value.strip() else None
            except json.JSONDecodeError:
                pass
        value = [] if value is None else value
        if not isinstance(value, list) or any(check_text("", v) for v in value):
            rejected[i], value = value, []
        lists.append(value)
    return pa.array(lists, pa.list_(pa.string())), rejected


def _numbers(values: Sequence | pa.Array | pa.ChunkedArray) -> tuple[pa.Array, dict[int, Any]]:
    """Floats; a string is parsed (a number in a TSV field); null and the empty string become null."""
    numbers, rejected = [], {}
    for i, value in enumerate(values.to_pylist() if isinstance(values, (pa.Array, pa.ChunkedArray)) else values):
        try:
            number = None if value is None or value == "" else float(value)
        except (TypeError, ValueError):
            number = math.nan
        if number is not None and not math.isfinite(number):
            rejected[i], number = value, None
        numbers.append(number)
    return pa.array(numbers, pa.float64()), rejected
