"""The parallel schema: which columns a pair of sentences has, and what makes a row bad.

``source, source_lang, target, target_lang, provenance`` always; ``hard_negatives`` (texts close to ``target``
that yet do not translate ``source``) and ``quality`` where the origin has them. Languages are NLLB codes or
longer relatives; code and mathematics are languages too (`hf_echo.languages`). The texts themselves are never
changed here: what went in comes out. This module knows no file formats.
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

# Names that corpora use for the two texts. Both of a pair must be there: a table with `src`, `tgt` and a
# `source` that names the package it came from is a (src, tgt) table.
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
# str.strip() and Arrow's utf8_trim_whitespace do not agree on every character; these are Python's.
WHITE_SPACE = "".join(c for c in map(chr, range(0x3001)) if c.isspace())


def features(optional: Sequence[str] = ()) -> Features:
    """The `datasets.Features` of a parallel dataset, with the optional columns that it has."""
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
    """Which found column holds which schema column; ``columns`` (schema name -> found name) goes first.

    ``constants`` are schema columns that need no found column because the caller gave one value for all rows.

    Raises:
        ValueError: a named column is not there, no alias fits, or a constant contradicts a column; it says
            which columns were found.
    """
    columns = dict(columns or {})
    listing = f"found: {', '.join(map(str, found)) or 'none'}"
    known = (*COLUMNS, *OPTIONAL)
    if unknown := [c for c in columns if c not in known]:
        raise ValueError(f"columns= maps schema names to found names; {unknown[0]!r} is not one of {', '.join(known)}")
    for name, column in columns.items():
        if column not in found:
            raise ValueError(f"{where} has no column {column!r} (named for {name}); {listing}")

    mapping = dict(columns)
    pairs = ((columns.get("source", s), columns.get("target", t)) for s, t in TEXT_ALIASES)
    pair = next((p for p in pairs if set(p) <= set(found)), None)
    if pair is None:
        missing = " and ".join(side for side in ("source", "target") if side not in columns)
        mend = "name them with columns={'source': ..., 'target': ...}"
        raise ValueError(f"{where} has no columns for {missing}; {listing}; {mend}")
    mapping["source"], mapping["target"] = pair
    for i, side in enumerate(("source_lang", "target_lang")):
        aliases = [names[i] for names in LANGUAGE_ALIASES]
        column = mapping.get(side) or next((a for a in aliases if a in found), None)
        if column is not None and side in constants:
            raise ValueError(f"{where} has its own column {column!r} for {side}: leave {side}= out")
        if column is None and side not in constants:
            mend = f"pass {side}='fra_Latn' or columns={{'{side}': ...}}"
            raise ValueError(f"{where} has no column for {side}; {listing}; {mend}")
        if column is not None:
            mapping[side] = column
    for name in ("provenance", *OPTIONAL):
        if name not in mapping and name in found:
            mapping[name] = name
    return mapping


def check_row(row: Mapping[str, Any]) -> str | None:
    """Why this row is not a row of the schema, or None when it is one. Bytes are text that is not UTF-8."""
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
    if quality is not None and (not isinstance(quality, (int, float)) or math.isnan(quality)):
        return f"quality {quality!r} is not a number"
    return None


def check_text(name: str, value: Any) -> str | None:
    if value is None:
        return f"{name} is missing"
    if not isinstance(value, (str, bytes)):
        return f"{name} is not text but {type(value).__name__}"
    if isinstance(value, bytes) or not is_unicode(value):
        return f"{name} is not UTF-8"
    return None if value.strip() else f"{name} is empty"


def is_unicode(text: str) -> bool:
    """False for a lone surrogate, which JSON can spell and no encoding can write."""
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
    """Rows under schema names, put into the schema's types.

    ``constants`` fills columns that the block lacks (``{"provenance": "mined"}``; a null in that column
    too). ``optional`` says which optional columns the result has (empty list and null where the block lacks
    them).

    Returns:
        The table of good rows, in order, and (row number in the block, reason) for each bad one.
    """
    constants, size = {"provenance": "primary"} | dict(constants or {}), len(block["source"])
    arrays, odd = {}, {}
    for name in COLUMNS:
        if name in block:
            arrays[name], odd[name] = text_array(block[name])
        else:
            arrays[name], odd[name] = pa.repeat(pa.scalar(constants[name], pa.string()), size), {}
    arrays["provenance"] = pc.fill_null(arrays["provenance"], constants["provenance"])
    for name, convert in (("hard_negatives", _lists), ("quality", _numbers)):
        if name in optional:
            arrays[name], odd[name] = convert(block[name] if name in block else [None] * size)
    return keep_good(
        pa.table(arrays), odd, check_row, texts=("source", "target"), languages=("source_lang", "target_lang")
    )


def keep_good(
    table: pa.Table,
    odd: Mapping[str, Mapping[int, Any]],
    check: Callable[[Mapping[str, Any]], str | None],
    *,
    texts: Sequence[str],
    languages: Sequence[str],
) -> tuple[pa.Table, list[tuple[int, str]]]:
    """Split off the bad rows. Whole columns are looked at first; ``check`` sees only rows that look wrong.

    ``odd``: by column and row the values that have no place in the table, which holds null for them.
    """
    suspects = set().union(*odd.values()) if odd else set()
    masks = [pc.equal(pc.binary_length(pc.utf8_trim(table[name], WHITE_SPACE)), 0) for name in texts]
    masks += [_not_in(table[name], lambda code: check_language("", code) is None) for name in languages]
    if "provenance" in table.column_names:
        masks.append(_not_in(table["provenance"], PROVENANCES.__contains__))
    for mask in masks:  # null counts as wrong
        suspects.update(np.flatnonzero(pc.fill_null(mask, True).to_numpy()).tolist())
    bad, order = [], sorted(suspects)
    for i, row in zip(order, table.take(pa.array(order, pa.int64())).to_pylist(), strict=True):
        row |= {name: values[i] for name, values in odd.items() if i in values}
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
    """An Arrow string array; what is neither text nor null is null there and stands in the dict by row."""
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
            values.validate(full=True)  # Parquet promises UTF-8, nobody checks it on reading
            return values.cast(pa.string()), {}
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError):
        pass
    return _text_array_by_row(values)


def _text_array_by_row(values: Sequence | pa.Array) -> tuple[pa.Array, dict[int, Any]]:
    if isinstance(values, pa.Array):
        binary = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}.get(values.type)
        values = (values.view(binary) if binary else values).to_pylist()
    texts, odd = [], {}
    for i, value in enumerate(values):
        try:
            value = value.decode() if isinstance(value, bytes) else value
        except UnicodeDecodeError:
            pass
        if value is not None and not (isinstance(value, str) and is_unicode(value)):
            odd[i], value = value, None
        texts.append(value)
    return pa.array(texts, pa.string()), odd


def _lists(values: Sequence | pa.Array | pa.ChunkedArray) -> tuple[pa.Array, dict[int, Any]]:
    """Lists of texts; a string is read as JSON (how a TSV field holds a list); null is the empty list."""
    lists, odd = [], {}
    for i, value in enumerate(values.to_pylist() if isinstance(values, (pa.Array, pa.ChunkedArray)) else values):
        if isinstance(value, str):
            try:
                value = json.loads(value) if value.strip() else None
            except json.JSONDecodeError:
                pass
        value = [] if value is None else value
        if not isinstance(value, list) or any(check_text("", v) for v in value):
            odd[i], value = value, []
        lists.append(value)
    return pa.array(lists, pa.list_(pa.string())), odd


def _numbers(values: Sequence | pa.Array | pa.ChunkedArray) -> tuple[pa.Array, dict[int, Any]]:
    """Floats; a string is parsed (how a TSV field holds a number); null and the empty string are null."""
    numbers, odd = [], {}
    for i, value in enumerate(values.to_pylist() if isinstance(values, (pa.Array, pa.ChunkedArray)) else values):
        try:
            number = None if value is None or value == "" else float(value)
        except (TypeError, ValueError):
            number = math.nan
        if number is not None and math.isnan(number):
            odd[i], number = value, None
        numbers.append(number)
    return pa.array(numbers, pa.float64()), odd
