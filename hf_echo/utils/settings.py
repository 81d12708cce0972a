"""Settings: fields of a dataclass, declared once for recipes, commands, checks and lineage.

    @step("average", example="hf-echo average outputs/a outputs/b outputs/c")
    class Average(Step):
        '''The first line is the help of the command.'''

        share: float = setting("weight of the other checkpoint", 0.5, least=0, most=1)
        part: Literal["model", "encoder"] = setting("what is averaged", "model")

        def run(self): ...

The annotation says what a value may be (`Literal` and `Enum` are choices), `setting` the rest. `make` reads a mapping,
such as YAML, into the dataclass; `check` checks one that exists. Errors are one line: the field, the value, the fix.
A dataclass that is no `Step`, such as the settings of a filter, can be declared and checked in the same way.
"""

from __future__ import annotations

import math
import operator
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import Enum
from functools import cache
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from .did_you_mean import did_you_mean
from .files import check_output

CHECKPOINT, DATA = "checkpoint", "data"
T = TypeVar("T")


def setting(
    help: str,
    default: Any = MISSING,
    *,
    reads: Literal["checkpoint", "data"] | None = None,
    writes: Literal["file", "folder"] | None = None,
    recorded: bool = True,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    needs: str | None = None,
    unless: str | None = None,
    argument: bool = False,
    option: str | None = None,
    short: str | None = None,
    language: bool = False,
) -> Any:
    """A field of a dataclass of settings.

    Args:
        help: what it is, without a final full stop.
        default: a value (a list or mapping is copied), or `dict` or `list` for an empty one; without it the field is
            required.
        reads: it names a checkpoint (or tokenizer), or a data file.
        writes: it names an output.
        recorded: whether the lineage holds it; what changes no weight need not be.
        least, most, above: the range of a number, or of each in a list; `above` is exclusive.
        needs, unless: another field without which, or with which, this one would be ignored: then it is refused.
        argument: on the command line a position, not an option.
        option: name of the option where it is not that of the field, such as "--from".
        short: a second name, such as "-m".
        language: it names a language, or several, by any name or code; the field gets NLLB codes.
    """
    names = ("reads", "writes", "recorded", "least", "most", "above", "needs", "unless", "argument", "option", "short")
    given = locals()
    metadata = {"help": help} | {name: given[name] for name in (*names, "language")}
    if default in (dict, list):
        return field(default_factory=default, metadata=metadata)
    if isinstance(default, (dict, list)):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


class Checked:
    """Settings that are checked when they are made."""

    def __post_init__(self) -> None:
        check(self)


class Step(Checked):
    """Settings with what carries them out. Subclasses are declared by `step`.

    Attributes:
        command: the words of its command, such as "vocabulary swap"; None: it has none.
        operation: its name in a recipe; None: no recipe can name it.
        example: a line for the help of the command.
        calls: the function of hf_echo that carries it out, such as "checkpoints.prune_checkpoint": it gets the
            positions of the command by position and the other fields by name, as far as it has them.
        then: what the command says at the end, on stderr: a format of the fields.
        reports: `run` returns a report, so the command has the option --json.
        file_only: entries of the report that are too long for a screen.
    """

    command: ClassVar[str | None] = None
    operation: ClassVar[str | None] = None
    example: ClassVar[str] = ""
    calls: ClassVar[str] = ""
    then: ClassVar[str] = ""
    reports: ClassVar[bool] = False
    file_only: ClassVar[tuple[str, ...]] = ()

    def run(self) -> dict[str, Any] | None:
        """Do it; returns a report, which the command prints as JSON, or None if there is nothing to report."""
        return self.call()

    def call(self) -> Any:
        """The result of `calls`."""
        function, first = self.function(), positions(type(self))
        known = signature(function).parameters
        takes_all = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in known.values())
        others = [name for name in fields_of(type(self)) if name not in first and (takes_all or name in known)]
        return function(*(getattr(self, name) for name in first), **{name: getattr(self, name) for name in others})

    @classmethod
    def function(cls) -> Callable[..., Any]:
        module, _, name = cls.calls.rpartition(".")
        return getattr(import_module(f"hf_echo.{module}"), name)


def step(
    command: str | None = None, *, operation: str | None = None, example: str = "", calls: str = ""
) -> Callable[[type[T]], type[T]]:
    """Declare a subclass of `Step`: its fields become keyword arguments that are checked. Arguments as there."""

    def declare(kind: type[T]) -> type[T]:
        declared: Any = dataclass(kw_only=True)(kind)
        declared.command, declared.operation, declared.example, declared.calls = command, operation, example, calls
        return declared

    return declare


def make(kind: type[T], values: Any, where: object = "", *, spelled: Callable[[str], str] = str) -> T:
    """An instance of `kind` from a mapping; `where` begins messages, `spelled` writes a field, as `--keep`."""
    start = f"{where}: " if str(where) else ""
    if not isinstance(values, Mapping):
        raise ValueError(f"{start}`field: value` lines are needed, not {shown(values)}")
    known = fields_of(kind)
    if unknown := [key for key in values if key not in known]:
        advice = did_you_mean(unknown[0], known, f"known are {', '.join(known)}")
        raise ValueError(f"{start}unknown field {shown(unknown[0])}{advice}")
    for name, declared in known.items():
        if is_required(declared) and values.get(name) in (None, ""):
            raise ValueError(f"{start}{spelled(name)} is missing: {declared.metadata['help']}")
    try:
        return kind(**_checked(kind, values, spelled))
    except ValueError as error:
        raise ValueError(f"{start}{error}") from None


def check_values(kind: type, values: Mapping[str, Any], spelled: Callable[[str], str] = str) -> dict[str, Any]:
    """The values as the fields of `kind` have them; errors as in `check`."""
    known = fields_of(kind)
    return {
        name: check_value(spelled(name), value, annotation(kind, name), known[name])
        for name, value in values.items()
        if name in known
    }


def check(settings: Any, spelled: Callable[[str], str] = str) -> None:
    """Check the fields of an instance, and give each value the type of its field (a whole 1e3 becomes 1000).

    Raises ValueError for a wrong kind, for what is outside its range (nan and inf always) or would be ignored.
    """
    for name, value in _checked(type(settings), vars(settings), spelled).items():
        object.__setattr__(settings, name, value)


def check_outputs(settings: Any, report: str | Path | None = None) -> None:
    """Check that no output, nor the file of the report, is an input or another output, and that each can be written."""
    known = fields_of(type(settings))
    outputs = [name for name, declared in known.items() if declared.metadata.get("writes") and getattr(settings, name)]
    taken = [path for name in known if name not in outputs for path in _paths(getattr(settings, name))]
    for name in outputs:
        check_output(getattr(settings, name), taken, folder=known[name].metadata["writes"] == "folder")
        taken.append(getattr(settings, name))
    if report is not None:
        check_output(report, taken)


def _paths(value: Any) -> list[str | Path]:
    """The existing paths in a value: a path, a text, `LANGUAGE=PATH`, or a list of them."""
    values = value if isinstance(value, (list, tuple)) else [value]
    words = [word for one in values if isinstance(one, (str, Path)) for word in (one, str(one).partition("=")[2])]
    return [word for word in words if str(word) and _exists(word)]


def _exists(path: str | Path) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # the name is too long or contains NUL
        return False


def fields_of(kind: Any) -> dict[str, Field]:
    """The fields that a mapping may set, by name."""
    return {f.name: f for f in fields(kind) if f.init}


def positions(kind: Any) -> list[str]:
    """The fields that are positions of the command, in order; the output is the last."""
    known = fields_of(kind)
    return sorted(
        (name for name in known if known[name].metadata["argument"]),
        key=lambda name: bool(known[name].metadata["writes"]),
    )


def is_required(declared: Field) -> bool:
    return declared.default is MISSING and declared.default_factory is MISSING


def default_of(declared: Field) -> Any:
    """MISSING for a required one."""
    return declared.default_factory() if declared.default_factory is not MISSING else declared.default


def annotation(kind: Any, name: str) -> Any:
    """The type of a field, resolved."""
    return _hints(kind if isinstance(kind, type) else type(kind)).get(name, Any)


_hints = cache(get_type_hints)


def choices(kind: Any) -> tuple[Any, ...]:
    """The values that a `Literal`, an `Enum` or an optional one allows; empty for other types."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return tuple(member.value for member in kind)
    return tuple(value for member in get_args(kind) for value in choices(member)) if _is_union(kind) else ()


def without_none(kind: Any) -> Any:
    """`X` of `X | None`."""
    members = [member for member in get_args(kind) if member is not types.NoneType] if _is_union(kind) else [kind]
    return members[0] if len(members) == 1 else kind


def shown(value: Any) -> str:
    """A value of the user in a message: one line whatever it holds."""
    text = repr(value)
    return text if len(text) <= 120 else text[:120] + "..."


def _checked(kind: type, values: Mapping[str, Any], spelled: Callable[[str], str]) -> dict[str, Any]:
    known, checked = fields_of(kind), check_values(kind, values, spelled)
    whole = {name: default_of(declared) for name, declared in known.items()} | checked
    for name, declared in known.items():
        needs, unless = declared.metadata.get("needs"), declared.metadata.get("unless")
        if whole[name] in (default_of(declared), None, "", [], {}):
            continue
        if needs and not whole[needs]:
            raise ValueError(f"{spelled(name)} needs {spelled(needs)}: give that too, or leave {spelled(name)} out")
        if unless and whole[unless]:
            raise ValueError(f"{spelled(name)} does not go with {spelled(unless)}: leave one of them out")
    return checked


def check_value(name: str, value: Any, kind: Any, declared: Field | None = None) -> Any:
    """The value as an instance of `kind`; raises ValueError where it is none, or outside the range of its field."""
    metadata = declared.metadata if declared is not None else {}
    if value is None and declared is not None:
        if declared.default is None:
            return None
        if (get_origin(kind) or kind) in (dict, list) and not is_required(declared):
            return default_of(declared)  # a line `dev_data:` whose entries are commented out
    try:
        value = _converted(value, kind)
    except _Wrong as wrong:
        raise ValueError(f"{name} is {shown(value)}; it must be {wrong}") from None
    if metadata.get("language") and value:
        as_code = import_module("hf_echo.languages").as_code  # when it is needed: it imports torch
        value = as_code(value) if isinstance(value, str) else [as_code(one) for one in value]
    for number in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(number, (int, float)) and not isinstance(number, bool):
            _check_range(name, number, value, metadata)
    return value


class _Wrong(Exception):
    """What a value would have to be, in words."""


def _converted(value: Any, kind: Any) -> Any:
    if _is_union(kind):
        return _one_of(value, get_args(kind))
    if kind is types.NoneType:
        if value is None:
            return None
        raise _Wrong("null")
    if allowed := choices(kind):
        if isinstance(value, kind) if isinstance(kind, type) else any(value is one for one in allowed):
            return value
        if not isinstance(value, (str, int)) or value not in allowed:
            raise _Wrong(f"one of {', '.join(map(str, allowed))}{did_you_mean(value, map(str, allowed))}")
        return value
    if kind in _PLAIN:
        words, test = _PLAIN[kind]
        if not test(value):
            raise _Wrong(words)
        return kind(value) if kind in (int, Path) else value
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin in (list, tuple):
        return _sequence(value, origin, inner)
    if origin is dict:
        if not isinstance(value, Mapping):
            raise _Wrong("a mapping, such as {name: value}")
        try:
            return {key: _converted(one, inner[1]) for key, one in value.items()} if inner else dict(value)
        except _Wrong as wrong:
            raise _Wrong(f"a mapping, each value of it {wrong}") from None
    return value  # a type that the dataclass checks itself


def _one_of(value: Any, members: tuple[Any, ...]) -> Any:
    reasons = []
    if any(isinstance(member, type) and issubclass(member, Enum) for member in members):
        members = tuple(member for member in members if member is not str)  # not any text is one of the choices
    for member in members:
        try:
            return _converted(value, member)
        except _Wrong as wrong:
            reasons.append(str(wrong))
    raise _Wrong(" or ".join(reason for reason in reasons if reason != "null"))


def _sequence(value: Any, origin: Any, inner: tuple[Any, ...]) -> Any:
    item = inner[0] if inner else Any
    if not isinstance(value, (list, tuple)):
        words = _PLAIN[item][0].split(" ", 1)[1] + "s" if item in _PLAIN else "values"
        raise _Wrong(f"a list of {words}, such as [{value if isinstance(value, str) and value else 'a, b'}]")
    try:
        return origin(_converted(one, item) for one in value)
    except _Wrong as wrong:
        raise _Wrong(f"a list, each of it {wrong}") from None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


_PLAIN: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("a whole number", lambda value: _is_number(value) and float(value).is_integer()),
    float: ("a finite number", _is_number),
    str: ("a text", lambda value: isinstance(value, str)),
    Path: ("a path", lambda value: isinstance(value, (str, Path)) and "\0" not in str(value)),
}


_LIMITS = {"least": ("at least", operator.ge), "above": ("above", operator.gt), "most": ("at most", operator.le)}


def _check_range(name: str, number: float, value: Any, metadata: Mapping[str, Any]) -> None:
    limits = {limit: metadata[limit] for limit in _LIMITS if metadata.get(limit) is not None}
    if not limits or math.isfinite(number) and all(_LIMITS[limit][1](number, limits[limit]) for limit in limits):
        return
    words = " and ".join(f"{_LIMITS[limit][0]} {limits[limit]}" for limit in limits)
    if {"least", "most"} <= set(limits):
        words = f"from {limits['least']} to {limits['most']}"
    raise ValueError(f"{name} is {shown(value)}; it must be {words}")


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, types.UnionType)
