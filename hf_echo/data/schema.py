"""The parallel schema: the columns of a sentence pair, and the checks of a row.

``source, source_lang, target, target_lang, provenance`` are required; ``hard_negatives`` (texts
close to ``target`` that do not translate ``source``) and ``quality`` are optional. Languages are
NLLB codes or longer codes; a file may name them by any name or code that commands take ("fr"). Code
and mathematics count as languages (`hf_echo.languages`). Texts are never changed here. `formats`
reads the files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from datasets import Features

COLUMNS = ("source", "source_lang", "target", "target_lang", "provenance")
OPTIONAL = ("hard_negatives", "quality")
PROVENANCES = (
    "primary",
    "mined",
    "back_translation",
    "forward_translation",
    "code",
    "math",
    "dictionary",
)

# Names that corpora use for the two texts. Both of a pair must be present: a table with `src`,
# `tgt` and a `source` column (the name of the original corpus) is a (src, tgt) table.
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
NEGATIVE_ALIASES = ("hard_negatives", "negatives", "negative")
# Characters of a sentence; a longer text is a log page, or has lost its line ends.
LONGEST = 100_000
# Python's white space; Arrow's utf8_trim_whitespace differs from str.strip() in some characters.
WHITE_SPACE = "".join(c for c in map(chr, range(0x3001)) if c.isspace())


def features(optional: Sequence[str] = ()) -> Features:
    """The `datasets.Features` of a parallel dataset with the given optional columns."""
    from datasets import Features, List, Value

    kinds = dict.fromkeys(COLUMNS, Value("string"))
    if "hard_negatives" in optional:
        kinds["hard_negatives"] = List(Value("string"))
    if "quality" in optional:
        kinds["quality"] = Value("float64")
    return Features(kinds)


def has_pair(columns: Sequence[str]) -> bool:
    """Whether a table has two columns of texts under usual names."""
    return any(set(pair) <= set(columns) for pair in TEXT_ALIASES)


def find_columns(
    column_names: Sequence[str],
    columns: Mapping[str, str] | None = None,
    *,
    constants: Mapping[str, str | None] | None = None,
    where: str = "the table",
) -> dict[str, str]:
    """Map schema columns to the columns of a file; ``columns`` (schema name -> name in the file)
    takes precedence.

    ``constants`` are schema columns with one value for all rows, which need no column in the file:
    {"source_lang": "fra_Latn"}. Columns that are named by both languages ("fr", "en") hold the
    texts.
    """
    constants = constants or {}
    # What the caller names is checked first.
    columns = {name: str(column) for name, column in (columns or {}).items()}  # a number in YAML
    listing = f"found: {', '.join(map(str, column_names)) or 'none'}"
    schema_names = (*COLUMNS, *OPTIONAL)
    for name, column in columns.items():
        if name not in schema_names:
            raise ValueError(
                "columns maps schema names to names in the file; "
                f"{name!r} is not one of {', '.join(schema_names)}"
            )
        if column not in column_names:
            raise ValueError(f"{where} has no column {column!r} (named for {name}); {listing}")

    # The two texts, under the same pair of usual names.
    mapping = dict(columns)
    pair = _text_columns(column_names, columns, constants)
    if pair is None:
        missing = " and ".join(side for side in ("source", "target") if side not in columns)
        fix = "rename them, or name them: --column source=NAME, in a recipe columns: {source: NAME}"
        if len(column_names) == 2:
            fix += f"; {_fix_of_two_columns(*map(str, column_names))}"
        raise ValueError(f"{where} has no columns for {missing}; {listing}; {fix}")
    mapping["source"], mapping["target"] = pair

    # A language is a column or a constant, not both.
    for side, aliases in zip(("source_lang", "target_lang"), zip(*LANGUAGE_ALIASES)):
        language_column = mapping.get(side) or _first_in(aliases, column_names)
        if language_column is None and side not in constants:
            option = "--" + side.replace("_", "-")
            fix = (
                f"give {side} ({option}), such as fra_Latn, or name the column: --column {side}=NAME, in a recipe "
                f"columns: {{{side}: NAME}}"
            )
            raise ValueError(f"{where} has no column for {side}; {listing}; {fix}")
        if language_column is not None and side in constants:
            raise ValueError(
                f"{where} has its own column {language_column!r} for {side}: leave {side} out"
            )
        if language_column is not None:
            mapping[side] = language_column

    # The optional columns, where the file has them.
    for name in ("provenance", *OPTIONAL):
        usual_names = NEGATIVE_ALIASES if name == "hard_negatives" else (name,)
        optional_column = mapping.get(name) or _first_in(usual_names, column_names)
        if optional_column is not None:
            mapping[name] = optional_column
    return mapping


def _fix_of_two_columns(first: str, second: str) -> str:
    """What makes texts of two columns under unusual names, or of a first row without names."""
    fix = "two columns without header need both languages"
    if names_language(first) and names_language(second):
        fix += f", and so do these: --source-lang {first} --target-lang {second}"
    return fix


def _text_columns(
    column_names: Sequence[str], columns: Mapping[str, str], constants: Mapping[str, str | None]
) -> tuple[str, str] | None:
    """The columns of both texts; None where no pair of names is there."""
    for source, target in TEXT_ALIASES:
        pair = (columns.get("source", source), columns.get("target", target))
        if set(pair) <= set(column_names):
            return pair
    if "source" in columns or "target" in columns:
        return None
    return columns_of_languages(column_names, constants)


def columns_of_languages(
    column_names: Sequence[str], constants: Mapping[str, str | None]
) -> tuple[str, str] | None:
    """The columns whose names mean the languages of source and target, as in a header "fr", "en";
    None where not exactly one column names each."""
    names = []
    for side in ("source_lang", "target_lang"):
        code = constants.get(side)
        named = [name for name in column_names if code and _means(name, code)]
        if len(named) != 1:
            return None
        names.extend(named)
    source, target = names
    return (source, target) if source != target else None


def is_header(
    fields: Sequence[str], columns: Mapping[str, str] | None, constants: Mapping[str, str | None]
) -> bool:
    """Whether the first line of a table names columns; two fields that name neither columns nor the
    languages are a row if both languages are given (`constants`)."""
    has_languages = {"source_lang", "target_lang"} <= set(constants)
    if columns is not None or len(fields) != 2 or not has_languages:
        return True
    if columns_of_languages(fields, constants):
        return True
    return tuple(fields) in TEXT_ALIASES


def names_language(name: str) -> bool:
    """Whether a column's name is that of a language."""
    from hf_echo.languages import meanings

    return bool(meanings(name))


def _means(name: object, code: str) -> bool:
    from hf_echo.languages import meanings

    return name == code or code in meanings(name)


def _first_in(names: Sequence[str], column_names: Sequence[str]) -> str | None:
    return next((name for name in names if name in column_names), None)


def check_row(row: Mapping[str, Any]) -> str | None:
    """Why a row does not fit the schema, or None if it does.
    Bytes stand for text that is not UTF-8."""
    for side in ("source", "target"):
        lang = f"{side}_lang"
        reason = check_text(side, row.get(side)) or check_language(lang, row.get(lang))
        if reason:
            return reason
        if len(row[side]) > LONGEST:
            return f"{side} has {len(row[side]):,} characters, more than {LONGEST:,}: is it one sentence?"
    provenance = row.get("provenance")
    if provenance is not None and provenance not in PROVENANCES:
        return f"provenance {provenance!r:.80} is not one of {', '.join(PROVENANCES)}"
    negatives = row.get("hard_negatives")
    if negatives is not None and not isinstance(negatives, (list, tuple)):
        return "hard_negatives is not a list of texts"
    for text in negatives or ():
        reason = check_text("a hard negative", text)
        if reason:
            return reason
    quality = row.get("quality")
    is_number = isinstance(quality, (int, float)) and math.isfinite(quality)
    if quality is not None and not is_number:
        return f"quality {quality!r:.80} is not a finite number"
    return None


def check_text(name: str, value: Any) -> str | None:
    """Why a value is no text; None if it is one."""
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
    if len(code) >= 60:
        return f"{name}: {code[:40]!r} ... is no language code"
    return _language_error(name, code)


@cache
def _language_error(name: str, code: str) -> str | None:
    from hf_echo.languages import as_code, language, meanings

    try:
        language(as_code(code) if meanings(code) else code)
    except ValueError as error:
        return f"{name}: {error}"
    return None


@cache
def _code(name: str) -> str:
    from hf_echo.languages import as_code

    try:
        return as_code(name)
    except ValueError:
        return name


def language_codes(values: Any) -> Any:
    """A column of languages by their codes: "fr", "fra" and "French" are fra_Latn, as in the
    options of commands.

    What names no language, or more than one ("zh"), stays as it is: the check of the row says so.
    """
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        distinct = as_list(pc.unique(values))
    else:
        distinct = list({value for value in values if isinstance(value, str)})
    codes = {}
    for value in distinct:
        if isinstance(value, str) and len(value) < 60 and _code(value) != value:
            codes[value] = _code(value)
    if not codes:
        return values
    return [
        codes.get(value, value) if isinstance(value, str) else value for value in as_list(values)
    ]


def normalise(
    block: Mapping[str, Sequence | pa.Array | pa.ChunkedArray],
    *,
    constants: Mapping[str, str] | None = None,
    optional: Sequence[str] = (),
) -> tuple[pa.Table, list[tuple[int, str]]]:
    """Convert a block with schema column names to the schema's types and separate the bad rows.

    Args:
        constants: column -> value for columns that the block lacks (``{"provenance": "mined"}``),
            and for nulls in the column provenance.
        optional: the optional columns of the result; an empty list or null if the block lacks them.

    Returns:
        The table of good rows, in order, and (row number in the block, reason) for each bad one.
    """
    # A column that the block lacks has one value for all rows.
    constants = {"provenance": "primary"} | dict(constants or {})
    size = len(block["source"])
    columns = {name: block[name] if name in block else [constants[name]] * size for name in COLUMNS}
    columns["provenance"] = [
        constants["provenance"] if value is None else value
        for value in as_list(columns["provenance"])
    ]
    for name, convert in (("hard_negatives", _texts), ("quality", _number)):
        if name in optional:
            values = as_list(block[name]) if name in block else [None] * size
            columns[name] = [convert(value) for value in values]
    return checked(columns, features(optional).arrow_schema, check_row)


def _texts(value: Any) -> Any:
    """A list of texts; a string is JSON (a list in a TSV field) or one text;
    null is the empty list."""
    if isinstance(value, str):
        if value.lstrip().startswith("["):
            with suppress(json.JSONDecodeError):
                value = json.loads(value)
        else:
            value = [value] if value.strip() else None
    return [] if value is None else value


def _number(value: Any) -> Any:
    """A number; a string is parsed (a number in a TSV field); the empty string is null."""
    try:
        return None if value is None or value == "" else float(value)
    except (TypeError, ValueError):
        return value


def checked(
    columns: Mapping[str, Any],
    types: pa.Schema,
    check: Callable[[Mapping[str, Any]], str | None],
    accepts_language: Callable[[str], bool] = lambda code: check_language("", code) is None,
) -> tuple[pa.Table, list[tuple[int, str]]]:
    """Separate the bad rows: (table of the good ones, (row number, reason) of the others).

    Whole columns are looked at first: texts, languages (columns named ``...lang``), provenances and
    lists of texts. Rows are checked one by one only if a column has something that may be wrong.

    Args:
        check: row -> reason; bytes stand for text that is not UTF-8.
        accepts_language: whether a code of a language is accepted.
    """
    columns = {
        name: language_codes(column) if name.endswith("lang") else column
        for name, column in columns.items()
    }
    try:
        table = pa.table({field.name: _array(columns[field.name], field.type) for field in types})
        if not any(_is_suspect(field.name, table[field.name], accepts_language) for field in types):
            return table, []
    except (pa.ArrowException, TypeError, ValueError):
        pass
    # One row after the other, to say what is wrong with which.
    good = []
    bad = []
    for number, values in enumerate(zip(*map(as_list, columns.values()), strict=True)):
        row = dict(zip(columns, values))
        reason = check(row)
        if reason:
            bad.append((number, reason))
        else:
            good.append(row)
    return pa.Table.from_pylist(good, schema=types), bad


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    """The values as an Arrow array of this type;
    raises TypeError where Arrow would misread them."""
    if not isinstance(values, (pa.Array, pa.ChunkedArray)):
        if pa.types.is_list(kind) and any(isinstance(value, str) for value in values):
            raise TypeError("a text, which Arrow would take for a list of letters")
        return pa.array(values, kind)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not _is_textual(values.type):
        raise TypeError(f"a column of {values.type}")
    values.validate(full=True)  # Parquet requires UTF-8, but reading does not check it
    return values.cast(kind)


def _is_textual(kind: pa.DataType) -> bool:
    return kind in (pa.null(), pa.binary(), pa.large_binary(), pa.string(), pa.large_string())


def _is_suspect(name: str, column: pa.ChunkedArray, accepts: Callable[[str], bool]) -> bool:
    """Whether a column may hold a bad value, by a fast check of the whole column."""
    if name.endswith("lang"):
        return not all(code is not None and accepts(code) for code in pc.unique(column).to_pylist())
    if name == "provenance":
        return not set(pc.unique(column).to_pylist()) <= set(PROVENANCES)
    if pa.types.is_floating(column.type):
        return not pc.all(pc.is_finite(pc.fill_null(column, 0))).as_py()
    if pa.types.is_list(column.type):
        column = pc.list_flatten(column)
    is_empty = pc.equal(pc.utf8_trim(column, WHITE_SPACE), "")
    has_nul = pc.match_substring(column, "\0")
    longest = pc.max(pc.utf8_length(column)).as_py() or 0
    is_wrong = pc.any(pc.or_(is_empty, has_nul)).as_py()
    return bool(column.null_count or is_wrong or longest > LONGEST)


def as_list(values: Any) -> list:
    """The values of an Arrow column or a sequence;
    bytes are decoded, and stay bytes where they are not UTF-8."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    if isinstance(values, pa.Array):
        try:
            values = values.to_pylist()
        except UnicodeDecodeError:
            binary = pa.large_binary() if pa.types.is_large_string(values.type) else pa.binary()
            values = values.view(binary).to_pylist()
    return [_decoded(value) if type(value) is bytes else value for value in values]


def _decoded(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
