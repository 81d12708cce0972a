"""Defaults of functions, read from their source without an import: the help of a command needs
neither torch nor transformers, and a step need not repeat what the function that it calls says."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

TOP_LEVEL = re.compile(r"^(?=[^\s)\]}])", re.MULTILINE)  # where a statement of a module begins


@cache
def function_default(root: Path, function: str, parameter: str) -> Any:
    """The default of a parameter: a literal, or a constant of a module.

    Args:
        root: folder of the package.
        function: dotted name in the package, such as "checkpoints.prune_checkpoint" or
            "vocabulary.counts.Counts.load"; an `__init__.py`, or its stub, may import it from
            elsewhere. For a class it is a field, or a parameter of `__init__`.

    Raises:
        LookupError: no such function or parameter, or one without a default.
    """
    *modules, name = function.split(".")
    method = None
    if not _file_of(root.joinpath(*modules)).is_file():  # the last name but one is that of a class
        method = name
        name = modules.pop()
    file, statement = _definition(_file_of(root.joinpath(*modules)), name)
    default = _default_in(statement, method, parameter)
    if default is None:
        raise LookupError(f"{function} has no default of {parameter}")
    return _value(file, default)


def _file_of(path: Path) -> Path:
    """The file of a module, or that in which the package of this name imports its names."""
    names_of_package = path / "__init__.pyi"
    if names_of_package.is_file():
        return names_of_package
    file = path.with_name(f"{path.name}.py")
    return file if file.is_file() else path / "__init__.py"


@cache
def _definition(file: Path, name: str) -> tuple[Path, ast.stmt]:
    """(file, statement) that defines a name; imports inside the package are followed.

    Of a file only the statements that may define the name are parsed: every command reads some
    fifty files.
    """
    source = file.read_text(encoding="utf-8")
    beginnings = rf"^(?:def {name}\(|class {name}\b|{name} = |from \.)"
    for beginning in re.finditer(beginnings, source, re.MULTILINE):
        # Only this statement is parsed: whole files would take a help too long.
        end = TOP_LEVEL.search(source, beginning.end())
        text = source[beginning.start() : end.start() if end else len(source)]
        statement = ast.parse(text).body[0]
        if not isinstance(statement, ast.ImportFrom):
            return file, statement
        # The name is imported there: follow it.
        for alias in statement.names:
            if name == (alias.asname or alias.name):
                folder = file.parents[statement.level - 1]
                module = folder.joinpath(*(statement.module or "").split("."))
                return _definition(_file_of(module), alias.name)
    raise LookupError(f"{file} has no {name}")


def _default_in(statement: ast.stmt, method: str | None, parameter: str) -> ast.expr | None:
    """The expression of a default of a function, of a method, or of a field of a class."""
    if isinstance(statement, ast.FunctionDef):
        return _default_of_argument(statement.args, parameter)
    if not isinstance(statement, ast.ClassDef):
        return None
    for member in statement.body:
        if isinstance(member, ast.FunctionDef) and member.name == (method or "__init__"):
            return _default_of_argument(member.args, parameter)
        if isinstance(member, ast.AnnAssign) and ast.unparse(member.target) == parameter:
            return member.value
    return None


def _default_of_argument(arguments: ast.arguments, parameter: str) -> ast.expr | None:
    positional = [*arguments.posonlyargs, *arguments.args]
    first = len(positional) - len(arguments.defaults)
    names = [argument.arg for argument in positional[first:] + arguments.kwonlyargs]
    defaults = [*arguments.defaults, *arguments.kw_defaults]
    return dict(zip(names, defaults, strict=True)).get(parameter)


def _value(file: Path, expression: ast.expr) -> Any:
    if isinstance(expression, ast.Name):
        file, statement = _definition(file, expression.id)
        if isinstance(statement, ast.Assign):
            return _value(file, statement.value)
    return ast.literal_eval(expression)
