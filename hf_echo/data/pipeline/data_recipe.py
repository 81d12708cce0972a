"""Data recipes: sources, ordered steps, sampling and output in one YAML file, read and checked.

sources: [pairs.parquet, {path: bible, label: bible, languages: [fra_Latn]}]
steps:
  - filter: exact_duplicates        # a filter of hf_echo.data.pipeline.filters and its fields
    side: corpus
    except: {provenance: [dictionary]}
  - keep: {target_lang: [eng_Latn]} # or drop; base, natural, code and emma_x stand for their
    languages
  - score: outputs/nano/release      # a step that fills a column; the caller of `read_recipe` supplies its kind
sampling: {method: temperature, exponent: 0.6, rows: 1000000}
out: {shards: 4}
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hf_echo.languages import EMMA_X_PAIRS, LANGUAGES, language

from ...utils.did_you_mean import did_you_mean
from ...utils.files import read_text
from ...utils.recipe_yaml import read_yaml
from ...utils.settings import Checked, check, make, setting
from ..readers import BUILTIN_OPTIONS, NWAY_OPTIONS
from .filters import build

CONDITIONS = ("source_lang", "target_lang", "provenance", "origin")
OF_READER = ("source_lang", "target_lang", "columns", "split", "name", "provenance", "limit")
SOURCE_FIELDS = ("path", "label", *OF_READER, *BUILTIN_OPTIONS, *NWAY_OPTIONS)
SUBSETS: dict[str, Callable[[Any], bool]] = {
    "base": lambda entry: entry.base,  # OS Table 33
    "natural": lambda entry: entry.script is not None,
    "code": lambda entry: entry.script is None,  # with mathematics
    "emma_x": lambda entry: entry.code in EMMA_X_PAIRS,  # EMMA-X, Table 1
}
# The method that a filter or a column step has, and its kind.
KINDS = {"keep": "rows", "keys": "keys", "groups": "groups", "add": "column"}
Maker = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True)
class Where:
    """Row filter ``keep: {column: values}``: keep rows with one of the values in every column;
    ``drop`` the others."""

    columns: Mapping[str, Sequence[str]]
    inverted: bool = False

    def keep(self, table: pa.Table) -> np.ndarray:
        return _all_of(table, self.columns) ^ self.inverted


@dataclass(frozen=True)
class Step:
    """A filter (see `hf_echo.data.pipeline.filters`), or a column step: ``add(table) -> table``
    with the same rows.

    ``only`` and ``but`` (``except`` in YAML) map columns to values. The step ignores rows that do
    not have all of ``only`` or have all of ``but``: it neither judges them nor compares other rows
    with them.
    """

    name: str
    work: Any
    only: Mapping[str, Sequence[str]] = field(default_factory=dict)
    but: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """ "rows", "keys", "groups" or "column"."""
        return next(kind for method, kind in KINDS.items() if hasattr(self.work, method))

    def concerns(self, table: pa.Table) -> np.ndarray:
        """(rows,) bool: the rows that the step concerns."""
        mask = _all_of(table, self.only)
        if self.but:
            mask &= ~_all_of(table, self.but)
        return mask


def _all_of(table: pa.Table, allowed_values: Mapping[str, Sequence[str]]) -> np.ndarray:
    mask = np.ones(len(table), bool)
    for column, values in allowed_values.items():
        mask &= pc.is_in(table[column], pa.array(values, pa.string())).to_numpy()
    return mask


@dataclass(frozen=True)
class Sampling:
    """Number of rows of each group (`hf_echo.data.sampling`); exactly ``rows`` rows in total.

    A group with fewer rows than its share repeats them; the numbers of repetitions differ by at
    most one.
    """

    method: Literal["natural", "temperature"] = setting("how the groups share the rows")
    by: Literal["source_lang", "target_lang", "direction"] = setting(
        "what makes a group", "source_lang"
    )
    exponent: float | None = setting("of temperature (OS 3.5: 0.6)", None, least=0)
    rows: int | None = setting("rows in all; as many as there are by default", None, least=1)
    seed: int = setting("of the draw", 0)

    def __post_init__(self) -> None:
        check(self)
        if (self.method == "temperature") != (self.exponent is not None):
            raise ValueError("method temperature and an exponent (OS 3.5: 0.6) go together")


@dataclass(frozen=True)
class Output(Checked):
    shards: int | None = setting("number of files; one per million rows by default", None, least=1)
    origin: bool = setting("keep the column that names the source", False)


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
        makers: step name -> function that makes a column step from its mapping, for steps other
            than filters (``score``).

    Raises:
        FileNotFoundError: no such file.
        ValueError: an error in the recipe; one line names the file, the step, the wrong field and
            the nearest known one.
    """
    path = _find(str(path))
    values = read_yaml(path)
    _check_fields(values, ("sources", "steps", "sampling", "out"), str(path))
    for name in ("sources", "steps"):
        if not isinstance(values.get(name) or [], list):
            raise ValueError(f"{path}: {name} must be a list, not {values[name]!r}")
    if not values.get("sources"):
        raise ValueError(f"{path}: no sources; give at least one file, folder or Hub dataset")
    # Each part of the recipe is read by its own function, which names the part in its errors.
    sources = []
    for number, source in enumerate(values["sources"], 1):
        sources.append(source_of(source, f"{path}: source {number}"))
    steps = []
    for number, step in enumerate(values.get("steps") or [], 1):
        steps.append(_step(step, makers or {}, f"{path}: step {number}"))
    sampling = None
    if values.get("sampling"):
        sampling = make(Sampling, values["sampling"], f"{path}: sampling")
    out = make(Output, values.get("out") or {}, f"{path}: out")
    return Recipe(sources, steps, sampling, out, read_text(path))


def _find(name: str) -> Path:
    """The file of a data recipe: a path, or a name in the package."""
    folder = Path(__file__).parents[2] / "recipes" / "data"
    for path in (Path(name), folder / name, folder / f"{name}.yaml"):
        if path.is_file():
            return path
    recipe_names = ", ".join(sorted(path.stem for path in folder.glob("*.yaml")))
    raise FileNotFoundError(f"no data recipe {name!r}; give a YAML file or one of {recipe_names}")


def source_of(value: Any, where: str) -> dict[str, Any]:
    """A source as a mapping with the fields path and label."""
    value = {"path": value} if isinstance(value, str) else value
    if not isinstance(value, Mapping) or not isinstance(value.get("path"), str):
        raise ValueError(f"{where}: give a path, or a mapping with the field path, not {value!r}")
    _check_fields(value, SOURCE_FIELDS, where)
    return {"label": Path(value["path"]).name.split(".")[0], **value}


def _step(value: Any, makers: Mapping[str, Maker], where: str) -> Step:
    """A step of a recipe, with its conditions; raises ValueError that names the place."""
    kinds = ("filter", "keep", "drop", *makers)
    name = next((kind for kind in kinds if isinstance(value, Mapping) and kind in value), None)
    if name is None:
        raise ValueError(
            f"{where}: give a mapping that begins with {' or '.join(kinds)}, not {value!r}"
        )
    # Conditions belong to the step, the other fields to what it does.
    values = dict(value)
    conditions: dict[str, dict[str, list[str]]] = {"only": {}, "except": {}}
    try:
        for key in conditions:
            if isinstance(values.get(key), Mapping):  # a list is a field of the filter
                conditions[key] = _condition(values.pop(key), key)
        if name == "filter":
            title = values.pop("filter")
            work = build(title, values)
        elif name in ("keep", "drop"):
            columns = _condition(values.pop(name), name)
            _check_fields(values, ("only", "except"), name)
            title = f"{name} {', '.join(columns)}"
            work = Where(columns, inverted=name == "drop")
        else:
            title = name
            work = makers[name](values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    return Step(title, work, conditions["only"], conditions["except"])


def _condition(value: Any, where: str) -> dict[str, list[str]]:
    """Columns and the values of each; a name of SUBSETS stands for its languages."""
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"{where} must map columns to values, not {value!r}")
    _check_fields(value, CONDITIONS, where)
    condition = {}
    for column, chosen in value.items():
        listed = chosen if isinstance(chosen, (list, tuple)) else [chosen]
        values = list(map(str, listed))
        condition[column] = _codes(values) if column.endswith("_lang") else values
    return condition


def _codes(values: list[str]) -> list[str]:
    """Language codes; a name of SUBSETS is replaced by its languages.
    Raises ValueError for an unknown code."""
    codes = []
    for value in values:
        if value in SUBSETS:
            codes += [code for code, properties in LANGUAGES.items() if SUBSETS[value](properties)]
        else:
            codes.append(language(value).code)
    return codes


def _check_fields(values: Mapping[str, Any], names: Collection[str], where: str) -> None:
    """Raise ValueError for an unknown field; the message names the nearest known one."""
    for key in values:
        if key not in names:
            advice = did_you_mean(key, names, f"known are {', '.join(names)}")
            raise ValueError(f"{where}: unknown field {key!r}{advice}")
