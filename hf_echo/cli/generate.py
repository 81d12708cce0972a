"""Commands from declarations: the fields of a `Step` become arguments and options,
its docstring the help."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from ..register import register_with_transformers
from ..steps.step import Operation
from ..utils.devices import choose_device
from ..utils.files import write_text
from ..utils.outputs import FIX, earlier_run, note_run, output_files
from ..utils.recipe_yaml import parse_overrides
from ..utils.settings import (
    Step,
    annotation,
    check_outputs,
    choices,
    default_of,
    fields_of,
    is_required,
    make,
    positions,
    without_none,
)

# Plain text: rich's boxes truncate long option names.
PLAIN: dict[str, Any] = {"rich_markup_mode": None}


def add_command(group: typer.Typer, kind: type[Step]) -> None:
    """Add the command of a step to a group; its name is the last word of `kind.command`."""
    assert kind.command
    group.command(kind.command.split()[-1], help=kind.__doc__, epilog=f"Example: {kind.example}")(
        _function(kind)
    )


def _function(kind: type[Step]) -> Callable[..., None]:
    """A function with the parameters of the command, as typer reads them."""
    # Options first, then the positions in their order.
    declared_fields = fields_of(kind)
    first = positions(kind)
    names = [name for name in declared_fields if name not in first] + first
    parameters = [_parameter(kind, name) for name in names]
    # Options that the command gets beside its fields.
    if kind.reports:
        report = typer.Option("--json", help="Also write the report to this JSON file.")
        parameters.append(_keyword("report_file", None, Annotated[Path | None, report]))
    writes = kind.reports or any(
        declared.metadata["writes"] for declared in declared_fields.values()
    )
    if writes and not _has_own_rule(kind):
        replace = typer.Option(
            "--overwrite", help="Replace an output that is there.", show_default=False
        )
        parameters.append(_keyword("replace", False, Annotated[bool, replace]))

    def call(report_file: Path | None = None, replace: bool = False, **values: Any) -> None:
        """The command: read its words, check its outputs, run the step."""
        read = {name: _from_words(kind, name, value) for name, value in values.items()}
        values_given = {name: value for name, value in read.items() if value is not None}
        settings = make(kind, values_given, spelled=_spelled(kind))
        check_outputs(settings, report_file)
        try:
            run_command(settings, report_file, replace=replace)
        except EOFError as error:  # typer would print "Aborted!"
            raise ValueError(f"a file ends too early: {error}") from error

    # typer reads name and signature.
    call.__name__ = kind.__name__
    setattr(call, "__signature__", inspect.Signature(parameters))  # noqa: B010  (a function has no such field)
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _has_own_rule(kind: type[Step]) -> bool:
    """Whether the command itself decides what happens to an output that is there."""
    return kind.continues or "overwrite" in fields_of(kind)


def run_command(settings: Step, report_file: Path | None = None, *, replace: bool = False) -> None:
    """Carry out a step and print its report; not again where an equal run has made its outputs
    already.

    Raises ValueError where an output is there that was made in another way, unless `replace`.
    """
    device = getattr(settings, "device", None)
    if device:
        from ..inference.encode import pick_device

        pick_device(device)  # a device that is not there is refused before data are read
        choose_device(device)
    settings.check_inputs()
    is_dry = getattr(settings, "dry_run", False)
    has_own_rule = _has_own_rule(type(settings)) or is_dry
    if not has_own_rule and not replace:
        earlier = _earlier_result(settings, report_file)
        if earlier is not None and getattr(settings, "resume", True):
            first_output = output_files(settings, report_file)[0]
            typer.echo(
                f"{first_output} is made already, by the same command; --overwrite makes it again",
                err=True,
            )
            _show(settings, earlier["report"])
            return
    if settings.opens_models:
        register_with_transformers()  # imports torch and transformers: seconds
    report = settings.run()
    _show(settings, report, report_file)
    if not has_own_rule and not isinstance(settings, Operation):
        note_run(settings, report, report_file)
    if settings.then:
        typer.echo(settings.then.format(**vars(settings)), err=True)


def _earlier_result(settings: Step, report_file: Path | None) -> dict[str, Any] | None:
    """The report of an equal run, under "report"; None where no output is there.
    Raises as `run_command`."""
    if not isinstance(settings, Operation):
        return earlier_run(settings, report_file)
    is_made = False
    if settings.output_dir is None:  # the operation changes the folder that it reads
        return None
    if Path(settings.output_dir).exists():
        if settings.opens_models:
            register_with_transformers()  # the card opens its model
        from ..steps import run

        is_made = run.is_made(settings, FIX)
    if not is_made:
        if report_file is not None and report_file.exists():
            raise ValueError(f"{report_file} is there: {FIX}")
        return None
    settings.write_card()
    return {"report": settings.counted()}


def _show(settings: Step, report: dict[str, Any] | None, file: Path | None = None) -> None:
    """Print the report of a step, unless standard output is the result's;
    write it to a file if one is given."""
    if report is None:
        return
    is_on_screen = str(getattr(settings, "out", "")) == "-" and not getattr(
        settings, "dry_run", False
    )
    names = [] if is_on_screen else [name for name in report if name not in settings.file_only]
    print_report(report, file, screen=names)


def print_report(
    report: dict[str, Any], file: Path | None = None, *, screen: list[str] | None = None
) -> None:
    """Print a report as JSON, or those entries that fit a screen,
    and write it to a file too if one is given."""
    if screen != []:  # standard output is the result's
        typer.echo(_as_json(report if screen is None else {name: report[name] for name in screen}))
    if file is not None:  # second: the result is on the screen where the file cannot be written
        try:
            write_text(file, _as_json(report) + "\n")
        except OSError as error:
            raise ValueError(
                f"{file} cannot be written: {error.strerror}; the result is above"
            ) from None


def _as_json(report: dict[str, Any]) -> str:
    return json.dumps(report, indent=2, ensure_ascii=False, default=float)


def _spelled(kind: type[Step]) -> Callable[[str], str]:
    """How messages of the command line name a field: `--keep`, or `MODEL` for a position."""
    return partial(_on_command_line, kind)


def _on_command_line(kind: type[Step], name: str) -> str:
    is_position = fields_of(kind)[name].metadata["argument"]
    return _metavar(name) if is_position else _options(kind, name)[0]


def _metavar(name: str) -> str:
    return "OUT" if name == "output_dir" else name.upper()


def _options(kind: type[Step], name: str) -> list[str]:
    metadata = fields_of(kind)[name].metadata
    long = metadata["option"] or "--" + name.replace("_", "-")
    return [long] + ([metadata["short"]] if metadata["short"] else [])


def _parameter(kind: type[Step], name: str) -> inspect.Parameter:
    """The argument or option of a field, as typer reads it."""
    declared = fields_of(kind)[name]
    hint = without_none(annotation(kind, name))
    metadata = declared.metadata
    default = default_of(declared)
    help = metadata["help"][0].upper() + metadata["help"][1:] + "."
    word, many = _word_type(hint)
    empty = default in (None, "", [], {})
    optional = not is_required(declared)
    options: dict[str, Any] = {"help": help, "show_default": optional and not empty}
    allowed = choices(get_args(hint)[0] if get_origin(hint) is list else hint)
    if allowed:
        options["metavar"] = "|".join(map(str, allowed))
    if metadata["argument"]:
        info = typer.Argument(**options | {"metavar": _metavar(name)})
    else:
        names = _options(kind, name)
        if word is bool and default is True and "/" not in names[0]:
            names[0] += f"/--no-{names[0][2:]}"
        info = typer.Option(*names, **options)
    kind_of_value: Any = list[word] if many else word  # type: ignore[valid-type]
    if optional and empty:
        return _keyword(name, None, Annotated[kind_of_value | None, info])
    return _keyword(
        name, default if optional else inspect.Parameter.empty, Annotated[kind_of_value, info]
    )


def _keyword(name: str, default: Any, hint: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _word_type(hint: Any) -> tuple[type, bool]:
    """(type of one word, whether there are several) on the command line."""
    if get_origin(hint) is list:
        return _word_type(get_args(hint)[0])[0], True
    if get_origin(hint) is dict or hint is dict:
        return str, True
    return (hint if hint in (bool, int, float) else str), False


def _from_words(kind: type[Step], name: str, value: Any) -> Any:
    """A value of the command line as the field has it; None where it was not given."""
    hint = without_none(annotation(kind, name))
    if value is None or value == []:
        return None
    if get_origin(hint) is dict or hint is dict:
        return parse_pairs(value, _spelled(kind)(name), fields_of(kind)[name].metadata["help"])
    if get_origin(hint) is Literal and value in map(str, choices(hint)):
        return next(choice for choice in choices(hint) if str(choice) == value)
    return value


def parse_pairs(words: list[str], name: str, help: str) -> dict[str, Any]:
    """["a=1,b=2", "c=x"] -> {"a": 1, "b": 2, "c": "x"}; `name` and `help` are for messages."""
    parts = [part.strip() for word in words for part in word.split(",")]
    for part in parts:
        if not all(part.partition("=")[:2]):
            raise ValueError(f"{name} {part!r} is not FIELD=VALUE: {help}")
    return parse_overrides(parts)
