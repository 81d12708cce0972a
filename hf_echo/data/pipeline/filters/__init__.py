"""Filters of parallel rows, as pure functions over Arrow tables of the parallel schema; the pipeline runs them.

A filter is a small frozen dataclass of plain fields: it can be pickled, and built from a YAML mapping (:func:`build`).
Its methods show its kind:

1. Row filter: ``keep(table) -> bool array (rows,)``. Each row is judged alone.
2. Key filter: ``keys(table) -> uint64 array (rows, k)``. A row stays only if no earlier KEPT row has one of its
   keys, in the order of the input. Column i is compared with column i only, unless the filter's attribute
   ``shared_keys`` is true (then all columns are compared). Key 0 means "no key".
3. Group cap: ``groups(table) -> string array (rows,)``, ``rank(table) -> float array (rows,)`` and a field ``limit``.
   The ``limit`` highest ranks of each group stay (ties: the earliest row). A null group means "no group": the row
   stays.

A filter with ``fit(tables) -> filter`` learns from the rows that it will judge (one pass over a stream) and returns a
new filter with plain fields. If there is nothing to learn, ``fit`` returns the filter itself.

    build("sanity")
    build({"exact_duplicates": {"side": "corpus"}})
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from ....utils.did_you_mean import did_you_mean
from .duplicates import ExactDuplicates, NearDuplicates
from .language_id import LanguageId
from .length_ratio import LengthRatio
from .policy import GroupCap, Provenance
from .sanity import TextSanity
from .threshold import DirectionThreshold

FILTERS: dict[str, type] = {
    "threshold": DirectionThreshold,
    "length_ratio": LengthRatio,
    "language_id": LanguageId,
    "exact_duplicates": ExactDuplicates,
    "near_duplicates": NearDuplicates,
    "provenance": Provenance,
    "cap": GroupCap,
    "sanity": TextSanity,
}

_TYPES = {
    "float": ((int, float), "a number"),
    "int": (int, "a whole number"),
    "bool": (bool, "true or false"),
    "str": (str, "a word"),
    "Sequence[str]": (tuple, "a list"),
}

__all__ = [*(kind.__name__ for kind in FILTERS.values()), "FILTERS", "build"]


def build(spec: str | Mapping[str, Any]) -> Any:
    """Build the filter of one recipe entry: ``"sanity"`` or ``{"exact_duplicates": {"side": "corpus"}}``.

    Raises:
        ValueError: an unknown filter or field (the message names the nearest known one), a missing field, a wrong
        value.
    """
    if isinstance(spec, str):
        spec = {spec: {}}
    if not isinstance(spec, Mapping) or len(spec) != 1:
        raise ValueError(f"a filter is one name or {{name: {{fields}}}}, not {spec!r}")
    ((name, values),) = spec.items()
    if name not in FILTERS:
        raise ValueError(f"unknown filter {name!r}{_advice(name, FILTERS)}")
    if values is not None and not isinstance(values, Mapping):
        raise ValueError(f"the fields of filter {name} must be a mapping, not {values!r}")
    values = {key: tuple(v) if isinstance(v, list) else v for key, v in (values or {}).items()}
    known = {field.name: field for field in fields(FILTERS[name])}
    for field in values:
        if field not in known:
            raise ValueError(f"filter {name} has no field {field!r}{_advice(field, known)}")
    for field in known.values():
        if field.name not in values and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"filter {name} needs the field {field.name}")
    try:
        for field, value in values.items():
            _check_type(field, value, str(known[field].type))
        return FILTERS[name](**values)
    except ValueError as error:
        raise ValueError(f"filter {name}: {error}") from error


def _check_type(field: str, value: Any, annotation: str) -> None:
    kind, _, none = annotation.partition(" | ")
    if kind not in _TYPES or (value is None and none == "None"):
        return
    types, words = _TYPES[kind]
    if not isinstance(value, types) or (isinstance(value, bool) and kind != "bool"):
        raise ValueError(f"{field}={value!r} is not {words}")


def _advice(word: object, known: Mapping[str, Any]) -> str:
    return did_you_mean(word, known, f"known are {', '.join(known)}")
