"""Settings: fields of a dataclass, declared once for recipes, commands, checks and lineage.

    @step("average", example="hf-echo average outputs/a outputs/b outputs/c")
    class Average(Step):
        '''The first line is the help of the command.'''

        share: float = setting("weight of the other checkpoint", 0.5, least=0, most=1)
        part: Literal["model", "encoder"] = setting("what is averaged", "model")

        def run(self): ...

The annotation says what a value may be (`Literal` and `Enum` are choices), `setting` the rest.
`DefaultOf` is the default of the function that a step calls, so that it stands in one place. `make`
reads a mapping, such as YAML, into the dataclass; `check` checks one that exists. Errors are one
line: the field, the value, the fix. A dataclass that is no `Step`, such as the settings of a
filter, can be declared and checked in the same way.
"""

from __future__ import annotations

import math
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
from .function_defaults import function_default

CHECKPOINT = "checkpoint"
DATA = "data"
T = TypeVar("T")


def setting(  # noqa: PLR0913 (all that a field can declare)
    help: str,
    default: Any = MISSING,
    *,
    reads: Literal["checkpoint", "data"] | None = None,
    writes: Literal["file", "folder", "any"] | None = None,
    recorded: bool = True,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    needs: str | None = None,
    unless: str | None = None,
    argument: bool = False,
    option: str | None = None,
    short: str | None = None,
    convert: Callable[[str], str] | None = None,
) -> Any:
    """A field of a dataclass of settings.

    Args:
        help: what it is, without a final full stop.
        default: a value (a list or mapping is copied), `dict` or `list` for an empty one, or a
            `DefaultOf`, that of a function; without it the field is required.
        reads: it names a checkpoint (or tokenizer), or a data file.
        writes: it names an output; "any" is a file or a folder.
        recorded: whether the lineage holds it; what changes no weight need not be.
        least, most, above: the range of a number, or of each in a list; `above` is exclusive.
        needs, unless: another field without which, or with which, this one would be ignored: then
            it is refused.
        argument: on the command line a position, not an option.
        option: name of the option where it is not that of the field, such as "--from".
        short: a second name, such as "-m".
        convert: what the field holds for each text given, such as the code of a language for its
            name.
    """
    metadata = {
        "help": help,
        "reads": reads,
        "writes": writes,
        "recorded": recorded,
        "least": least,
        "most": most,
        "above": above,
        "needs": needs,
        "unless": unless,
        "argument": argument,
        "option": option,
        "short": short,
        "convert": convert,
    }
    # dataclasses want a factory for values that can change.
    if default in (dict, list) or isinstance(default, DefaultOf):
        return field(default_factory=default, metadata=metadata)
    if isinstance(default, (dict, list)):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


class DefaultOf:
    """The default of a field: that of a parameter of a function, which alone says it.

    It is read from the source of the function, so that nothing heavy is imported for it.

    Args:
        function: dotted name in the package of the step; without it what the step `calls`.
        parameter: without it the name of the field.
    """

    def __init__(self, function: str = "", parameter: str = ""):
        self.function = function
        self.parameter = parameter
        self.owner: Any = None  # the class of the field, since its `calls` is not known yet

    def __call__(self) -> Any:
        package, _, _ = self.owner.__module__.partition(".")
        root = Path(import_module(package).__path__[0])
        value = function_default(root, self.function or self.owner.calls, self.parameter)
        return list(value) if isinstance(value, tuple) else value


class Checked:
    """Settings that are checked when they are made."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, declared in vars(cls).items():
            source = getattr(declared, "default_factory", None)
            if isinstance(source, DefaultOf):
                source.owner = cls
                source.parameter = source.parameter or name

    def __post_init__(self) -> None:
        check(self)


class Step(Checked):
    """Settings with what carries them out. Subclasses are declared by `step`.

    Attributes:
        command: the words of its command, such as "vocabulary swap"; None: it has none.
        operation: its name in a recipe; None: no recipe can name it.
        example: a line for the help of the command.
        calls: the function that carries it out, in the package of the class, such as
            "checkpoints.prune_checkpoint": it gets the positions of the command by position and the
            other fields by name, as far as it has them.
        then: what the command says at the end, on stderr: a format of the fields.
        reports: `run` returns a report, so the command has the option --json.
        file_only: entries of the report that are too long for a screen.
        opens_models: whether it may open a model of this package, so that transformers must know
            them.
        spelled: how a message names a field: as a recipe does ("texts"), or as an option
            ("--texts").
        continues: `run` itself continues, or refuses, what an earlier run left in its output.
    """

    command: ClassVar[str | None] = None
    operation: ClassVar[str | None] = None
    example: ClassVar[str] = ""
    calls: ClassVar[str] = ""
    then: ClassVar[str] = ""
    reports: ClassVar[bool] = False
    file_only: ClassVar[tuple[str, ...]] = ()
    continues: ClassVar[bool] = False
    opens_models: ClassVar[bool] = True
    spelled: Callable[[str], str] = str

    def check_inputs(self) -> None:
        """Refuse inputs that can be judged before a model is opened; a command does it first."""

    def run(self) -> dict[str, Any] | None:
        """Do it; returns a report, which the command prints as JSON,
        or None if there is nothing to report."""
        return self.call()

    def call(self, function: Callable[..., Any] | None = None, **others: Any) -> Any:
        """The result of `calls`, or of another function, which also gets `others`."""
        function = function or self.function()
        # A command may have fields that its function does not know, such as where the report goes.
        parameters = signature(function).parameters
        takes_any_name = any(
            parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values()
        )
        options = self.options()
        if not takes_any_name:
            options = {name: value for name, value in options.items() if name in parameters}
        arguments = [getattr(self, name) for name in positions(type(self))]
        return function(*arguments, **options | others)

    def options(self, *left_out: str) -> dict[str, Any]:
        """The fields that are no positions of the command, by name,
        but for those that are left out."""
        names = fields_of(type(self)).keys() - {*positions(type(self)), *left_out}
        return {name: getattr(self, name) for name in names}

    @classmethod
    def function(cls) -> Callable[..., Any]:
        """The function that `calls` names, in the package of this class."""
        package, _, _ = cls.__module__.partition(".")
        module, _, name = cls.calls.rpartition(".")
        return getattr(import_module(f"{package}.{module}"), name)


def step(
    command: str | None = None, *, operation: str | None = None, example: str = "", calls: str = ""
) -> Callable[[type[T]], type[T]]:
    """Declare a subclass of `Step`: its fields become keyword arguments that are checked.
    Arguments as there."""

    def declare(kind: type[T]) -> type[T]:
        declared: Any = dataclass(kw_only=True)(kind)
        declared.command = command
        declared.operation = operation
        declared.example = example
        declared.calls = calls
        return declared

    return declare


def make(
    kind: type[T], values: Any, where: object = "", *, spelled: Callable[[str], str] = str
) -> T:
    """An instance of `kind` from a mapping; `where` begins messages, `spelled` writes a field,
    as `--keep`."""
    start = f"{where}: " if str(where) else ""
    if not isinstance(values, Mapping):
        raise ValueError(f"{start}`field: value` lines are needed, not {shown(values)}")
    declarations = fields_of(kind)
    # Fields that nobody declared, then those that are missing.
    for name in values:
        if name not in declarations:
            advice = did_you_mean(name, declarations, f"known are {', '.join(declarations)}")
            raise ValueError(f"{start}unknown field {shown(name)}{advice}")
    for name, declared in declarations.items():
        if is_required(declared) and values.get(name) in (None, ""):
            raise ValueError(f"{start}{spelled(name)} is missing: {declared.metadata['help']}")
    # Then each value by itself, and together.
    try:
        settings = kind(**_checked(kind, values, spelled))
    except ValueError as error:
        raise ValueError(f"{start}{error}") from None
    if isinstance(settings, Step):
        settings.spelled = spelled  # of this instance alone
    return settings


def check_values(
    kind: type, values: Mapping[str, Any], spelled: Callable[[str], str] = str
) -> dict[str, Any]:
    """The values as the fields of `kind` have them; errors as in `check`."""
    checked = {}
    for name, declared in fields_of(kind).items():
        if name in values:
            checked[name] = check_value(
                spelled(name), values[name], annotation(kind, name), declared
            )
    return checked


def check(settings: Any, spelled: Callable[[str], str] = str) -> None:
    """Check the fields of an instance, and give each value the type of its field
    (a whole 1e3 becomes 1000).

    Raises ValueError for a wrong kind, for what is outside its range (nan and inf always) or would
    be ignored.
    """
    for name, value in _checked(type(settings), vars(settings), spelled).items():
        object.__setattr__(settings, name, value)


def check_outputs(settings: Any, report: str | Path | None = None) -> None:
    """Check that no output, nor the file of the report, is an input or another output,
    and that each can be written."""
    taken: list[str | Path] = []
    outputs: list[tuple[str | Path, bool]] = []
    # What is read must not be written, nor two outputs at one place.
    for name, declared in fields_of(type(settings)).items():
        value = getattr(settings, name)
        kind = declared.metadata.get("writes")
        if kind is None:
            taken += existing_paths(value)
        elif value:
            outputs.append((value, kind == "folder" or (kind == "any" and Path(value).is_dir())))
    for path, is_folder in outputs:
        check_output(path, taken, folder=is_folder)
        taken.append(path)
    if report is not None:
        check_output(report, taken)


def existing_paths(value: Any) -> list[str | Path]:
    """The existing paths in a value: a path, a text, `LANGUAGE=PATH`, or a list of them."""
    paths: list[str | Path] = []
    for entry in value if isinstance(value, (list, tuple)) else [value]:
        if not isinstance(entry, (str, Path)):
            continue
        _, _, after_language = str(entry).partition("=")
        paths += [path for path in (entry, after_language) if str(path) and _exists(path)]
    return paths


def _exists(path: str | Path) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # the name is too long or contains NUL
        return False


def fields_of(kind: Any) -> dict[str, Field]:
    """The fields that a mapping may set, by name."""
    return {declared.name: declared for declared in fields(kind) if declared.init}


def positions(kind: Any) -> list[str]:
    """The fields that are positions of the command, in order; the output is the last."""
    inputs: list[str] = []
    outputs: list[str] = []
    for name, declared in fields_of(kind).items():
        if declared.metadata["argument"]:
            names = outputs if declared.metadata["writes"] else inputs
            names.append(name)
    return inputs + outputs


def is_required(declared: Field) -> bool:
    return declared.default is MISSING and declared.default_factory is MISSING


def default_of(declared: Field) -> Any:
    """MISSING for a required one."""
    return (
        declared.default_factory() if declared.default_factory is not MISSING else declared.default
    )


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
    values: tuple[Any, ...] = ()
    if _is_union(kind):
        for member in get_args(kind):
            values += choices(member)
    return values


def without_none(kind: Any) -> Any:
    """`X` of `X | None`."""
    members = [member for member in get_args(kind) if member is not types.NoneType]
    return members[0] if _is_union(kind) and len(members) == 1 else kind


def shown(value: Any) -> str:
    """A value of the user in a message: one line whatever it holds."""
    text = repr(value)
    return text if len(text) <= 120 else text[:120] + "..."


def _checked(
    kind: type, values: Mapping[str, Any], spelled: Callable[[str], str]
) -> dict[str, Any]:
    """The checked values; raises ValueError where a setting lacks another or excludes it."""
    declarations = fields_of(kind)
    checked = check_values(kind, values, spelled)
    complete = {name: default_of(declared) for name, declared in declarations.items()} | checked
    for name, declared in declarations.items():
        if complete[name] in (default_of(declared), None, "", [], {}):
            continue
        # A value that is the default was not asked for.
        needs = declared.metadata.get("needs")
        if needs and not complete[needs]:
            raise ValueError(
                f"{spelled(name)} needs {spelled(needs)}: give that too, or leave {spelled(name)} out"
            )
        unless = declared.metadata.get("unless")
        if unless and complete[unless]:
            raise ValueError(
                f"{spelled(name)} does not go with {spelled(unless)}: leave one of them out"
            )
    return checked


def check_value(name: str, value: Any, kind: Any, declared: Field | None = None) -> Any:
    """The value as an instance of `kind`; raises ValueError where it is none,
    or outside the range of its field."""
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
    convert = metadata.get("convert")
    if convert and value:
        value = convert(value) if isinstance(value, str) else [convert(entry) for entry in value]
    for number in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(number, (int, float)) and not isinstance(number, bool):
            _check_range(name, number, value, metadata)
    return value


class _Wrong(Exception):
    """What a value would have to be, in words."""


def _converted(value: Any, kind: Any) -> Any:
    """The value as an annotation wants it; raises _Wrong with the words of what is wanted."""
    if _is_union(kind):
        return _one_of(value, get_args(kind))
    if kind is types.NoneType:
        if value is None:
            return None
        raise _Wrong("null")
    allowed = choices(kind)
    if allowed:
        return _choice(value, kind, allowed)
    if kind in _PLAIN:
        words, is_kind = _PLAIN[kind]
        if not is_kind(value):
            raise _Wrong(words)
        return kind(value) if kind in (int, Path) else value
    origin = get_origin(kind) or kind
    if origin in (list, tuple):
        return _sequence(value, origin, get_args(kind))
    if origin is dict:
        return _mapping(value, get_args(kind))
    return value  # a type that the dataclass checks itself


def _choice(value: Any, kind: Any, allowed: tuple[Any, ...]) -> Any:
    is_member = isinstance(kind, type) and isinstance(value, kind)  # of an enumeration
    if not is_member and value not in allowed:
        words = [str(choice) for choice in allowed]
        raise _Wrong(f"one of {', '.join(words)}{did_you_mean(value, words)}")
    return value


def _mapping(value: Any, types_of_entry: tuple[Any, ...]) -> dict[Any, Any]:
    """A mapping whose values are converted."""
    if not isinstance(value, Mapping):
        raise _Wrong("a mapping, such as {name: value}")
    if not types_of_entry:
        return dict(value)
    _, entry_type = types_of_entry
    try:
        return {key: _converted(entry, entry_type) for key, entry in value.items()}
    except _Wrong as wrong:
        raise _Wrong(f"a mapping, each value of it {wrong}") from None


def _one_of(value: Any, members: tuple[Any, ...]) -> Any:
    """The value as the first member of a union that takes it."""
    reasons = []
    if any(isinstance(member, type) and issubclass(member, Enum) for member in members):
        # Not any text is one of the choices.
        members = tuple(member for member in members if member is not str)
    for member in members:
        try:
            return _converted(value, member)
        except _Wrong as wrong:
            reasons.append(str(wrong))
    raise _Wrong(" or ".join(reason for reason in reasons if reason != "null"))


def _sequence(value: Any, origin: Any, entry_types: tuple[Any, ...]) -> Any:
    """A list or tuple whose entries are converted."""
    entry_type = entry_types[0] if entry_types else Any
    if not isinstance(value, (list, tuple)):
        words = "values"
        if entry_type in _PLAIN:
            singular, _ = _PLAIN[entry_type]
            words = singular.split(" ", 1)[1] + "s"
        example = value if isinstance(value, str) and value else "a, b"
        raise _Wrong(f"a list of {words}, such as [{example}]")
    try:
        return origin(_converted(entry, entry_type) for entry in value)
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


def _check_range(name: str, number: float, value: Any, metadata: Mapping[str, Any]) -> None:
    """Raises ValueError for a number outside of the limits that a setting declares."""
    least = metadata.get("least")
    above = metadata.get("above")
    most = metadata.get("most")
    limits = []
    if least is not None and most is not None:
        limits.append(f"from {least} to {most}")
    elif least is not None:
        limits.append(f"at least {least}")
    if above is not None:
        limits.append(f"above {above}")
    if most is not None and least is None:
        limits.append(f"at most {most}")
    # NaN and infinity are in no range.
    is_inside = (
        math.isfinite(number)
        and (least is None or number >= least)
        and (above is None or number > above)
        and (most is None or number <= most)
    )
    if limits and not is_inside:
        raise ValueError(f"{name} is {shown(value)}; it must be {' and '.join(limits)}")


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, types.UnionType)
