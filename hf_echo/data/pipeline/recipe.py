"""Data recipes: sources, ordered steps, sampling and output in one YAML file, read and checked.

    sources: [pairs.parquet, {path: bible, label: bible, languages: [fra_Latn]}]
    steps:
      - filter: exact_duplicates        # a filter of hf_echo.data.pipeline.filters and its fields
        side: corpus
        except: {provenance: [dictionary]}
      - keep: {target_lang: [eng_Latn]} # or drop; base, natural and code stand for their languages
      - score: outputs/nano/release      # a step that fills a column; the caller of `read_recipe` supplies its maker
    sampling: {method: temperature, exponent: 0.6, rows: 1000000}
    out: {shards: 4}

`runner` runs the recipe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hf_echo.languages import LANGUAGES, language

from ...utils.did_you_mean import did_you_mean
from ...utils.files import read_text, read_yaml
from ..readers import BUILTIN_OPTIONS, NWAY_OPTIONS

METHODS = ("natural", "temperature", "two_step", "unimax")
GROUPS = ("source_lang", "target_lang", "direction")
CONDITIONS = ("source_lang", "target_lang", "provenance", "origin")
SOURCE_FIELDS = (
    "path",
    "label",
    "source_lang",
    "target_lang",
    "columns",
    "split",
    "name",
    "provenance",
    "limit",
)
RECIPE_FIELDS = ("sources", "steps", "sampling", "out")
Maker = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True)
class Where:
    """Row filter ``keep: {column: values}``: keep rows with one of the values in every column; ``drop`` the others."""

    columns: Mapping[str, Sequence[str]]
    inverted: bool = False

    def keep(self, table: pa.Table) -> np.ndarray:
        return _all_of(table, self.columns) ^ self.inverted


@dataclass(frozen=True)
class Step:
    """A filter (see `hf_echo.data.pipeline.filters`), or a column step: ``add(table) -> table`` with the same rows.

    ``only`` and ``but`` (``except`` in YAML) map columns to values. The step ignores rows that do not have all of
    ``only`` or have all of ``but``: it neither judges them nor compares other rows with them.
    """

    name: str
    work: Any
    only: Mapping[str, Sequence[str]] = field(default_factory=dict)
    but: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """ "rows", "keys", "groups" or "column"."""
        for method, kind in (("keep", "rows"), ("keys", "keys"), ("groups", "groups"), ("add", "column")):
            if hasattr(self.work, method):
                return kind
        raise ValueError(f"step {self.name}: {type(self.work).__name__} must have a method keep, keys, groups or add")

    def concerns(self, table: pa.Table) -> np.ndarray | None:
        """The rows that the step concerns, as booleans; None for all."""
        if not self.only and not self.but:
            return None
        mask = _all_of(table, self.only)
        return mask & ~_all_of(table, self.but) if self.but else mask


def _all_of(table: pa.Table, wanted: Mapping[str, Sequence[str]]) -> np.ndarray:
    mask = np.ones(len(table), bool)
    for column, values in wanted.items():
        mask &= pc.is_in(table[column], pa.array(values, pa.string())).to_numpy()
    return mask


@dataclass(frozen=True)
class Sampling:
    """Number of rows of each group (`hf_echo.data.sampling`); exactly ``rows`` rows in total.

    A group with fewer rows than its share repeats them; the numbers of repetitions differ by at most one.
    """

    method: str
    by: str = "source_lang"
    exponent: float | None = None
    rows: int | None = None
    max_upsampling: float = 100
    top_n: int | None = 126
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method {self.method!r} is not one of {', '.join(METHODS)}")
        if self.by not in GROUPS:
            raise ValueError(f"by {self.by!r} is not one of {', '.join(GROUPS)}")
        if self.exponent is not None and self.method not in ("temperature", "two_step"):
            raise ValueError(f"{self.method} takes no exponent: remove it")
        if self.method == "temperature" and self.exponent is None:
            raise ValueError("temperature needs an exponent (OS 3.5: 0.6)")
        for name in ("rows", "top_n"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise ValueError(f"{name} must be a positive integer, not {value!r}")
        for name in ("exponent", "max_upsampling", "seed"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise ValueError(f"{name} must be a number, not {value!r}")


@dataclass(frozen=True)
class Output:
    """``shards``: number of files (default: one per million). ``origin``: keep the column that names the source."""

    shards: int | None = None
    origin: bool = False

    def __post_init__(self) -> None:
        if self.shards is not None and (type(self.shards) is not int or self.shards < 1):
            raise ValueError(f"shards must be a positive integer, not {self.shards!r}")


@dataclass(frozen=True)
class Recipe:
    """``sources`` are mappings: path, label, and the arguments of `load_parallel`."""

    sources: Sequence[Mapping[str, Any]]
    steps: Sequence[Step] = ()
    sampling: Sampling | None = None
    out: Output = field(default_factory=Output)
    text: str = ""  # the YAML as written


def read_recipe(path: str | Path, makers: Mapping[str, Maker] | None = None) -> Recipe:
    """Read and check a YAML recipe: a file, or the name of one in the package (``languages_200``).

    Args:
        makers: step name -> function that makes a column step from its mapping, for steps other than filters
        (``score``).

    Raises:
        FileNotFoundError: no such file.
        ValueError: an error in the recipe; one line names the file, the step, the wrong field and the nearest known
        one.
    """
    path = _find(str(path))
    values = read_yaml(path)
    if not isinstance(values, dict):
        raise ValueError(f"{path} must be a mapping of `field: value` lines, not {type(values).__name__}")
    check_fields(values, RECIPE_FIELDS, str(path))
    for name in ("sources", "steps"):
        if not isinstance(values.get(name) or [], list):
            raise ValueError(f"{path}: {name} must be a list, not {type(values[name]).__name__}")
    if not values.get("sources"):
        raise ValueError(f"{path}: no sources; give at least one file, folder or Hub dataset")
    return Recipe(
        [source_of(value, f"{path}: source {i}") for i, value in enumerate(values["sources"], 1)],
        [_step(value, makers or {}, f"{path}: step {i}") for i, value in enumerate(values.get("steps") or [], 1)],
        make(Sampling, values["sampling"], f"{path}: sampling") if values.get("sampling") else None,
        make(Output, values.get("out") or {}, f"{path}: out"),
        read_text(path),
    )


def _find(name: str) -> Path:
    folder = Path(__file__).parents[2] / "recipes" / "data"
    for path in (Path(name), folder / name, folder / f"{name}.yaml"):
        if path.is_file():
            return path
    known = ", ".join(sorted(path.stem for path in folder.glob("*.yaml")))
    raise FileNotFoundError(f"no data recipe {name!r}; give a YAML file or one of {known}")


def source_of(value: Any, where: str) -> dict[str, Any]:
    """A source as a mapping with the fields path and label."""
    value = {"path": value} if isinstance(value, str) else value
    if not isinstance(value, Mapping) or not isinstance(value.get("path"), str):
        raise ValueError(f"{where}: give a path, or a mapping with the field path, not {value!r}")
    check_fields(value, (*SOURCE_FIELDS, *BUILTIN_OPTIONS, *NWAY_OPTIONS), where)
    return {"label": Path(value["path"]).name.split(".")[0], **value}


def _step(value: Any, makers: Mapping[str, Maker], where: str) -> Step:
    from .filters import build

    kinds = ("filter", "keep", "drop", *makers)
    if not isinstance(value, Mapping) or not (name := next((k for k in kinds if k in value), None)):
        raise ValueError(f"{where}: give a mapping that begins with {' or '.join(kinds)}, not {value!r}")
    values = dict(value)
    try:
        given = {key: values.pop(key) for key in ("only", "except") if isinstance(values.get(key), Mapping)}
        only, but = (_condition(given.get(key), key) for key in ("only", "except"))  # a list is a field of the filter
        if name == "filter":
            called = values.pop("filter")
            work = build({called: values})
        elif name in ("keep", "drop"):
            columns = _condition(values.pop(name), name)
            check_fields(values, ("only", "except"), name)
            called = f"{name} {', '.join(columns)}"
            work = Where(columns, inverted=name == "drop")
        else:
            called, work = name, makers[name](values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    return Step(str(called), work, only, but)


def _condition(value: Any, where: str) -> dict[str, list[str]]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"{where} must map columns to values, not {value!r}")
    check_fields(value, CONDITIONS, where)
    given = {key: [v] if isinstance(v, str) else list(map(str, v)) for key, v in value.items()}
    return {key: _spelt_out(v) if key.endswith("_lang") else v for key, v in given.items()}


def _spelt_out(values: list[str]) -> list[str]:
    """Language codes; "base" (OS Table 33), "natural" and "code" (with mathematics) are replaced by their languages.

    Raises:
        ValueError: an unknown language code.
    """
    subsets = {
        "base": lambda known: known.base,
        "natural": lambda known: known.script is not None,
        "code": lambda known: known.script is None,
    }
    codes: list[str] = []
    for value in values:
        if value in subsets:
            codes += [code for code, known in LANGUAGES.items() if subsets[value](known)]
        else:
            codes.append(language(value).code)
    return codes


def make(kind: type, values: Any, where: str) -> Any:
    """Make an instance of a dataclass from a mapping; errors start with ``where``."""
    if not isinstance(values, Mapping):
        raise ValueError(f"{where}: `field: value` lines, not {values!r}")
    check_fields(values, [f.name for f in fields(kind) if f.init], where)
    try:
        return kind(**values)
    except TypeError as error:
        missing = re.search(r"argument: '(\w+)'", str(error))
        raise ValueError(f"{where}: " + (f"needs the field {missing[1]}" if missing else str(error))) from None
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def check_fields(values: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Raise ValueError for an unknown field; the message names the nearest known one."""
    if unknown := [str(key) for key in values if key not in known]:
        advice = did_you_mean(unknown[0], known, f"known are {', '.join(known)}")
        raise ValueError(f"{where}: unknown field {unknown[0]!r}{advice}")
