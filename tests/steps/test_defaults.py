"""A default stands in the function alone: recipes, commands, help and lineage read it there."""

import inspect
from importlib import import_module

import pytest

from hf_echo.cli import COMMANDS, generate
from hf_echo.modeling import tokenization_echo
from hf_echo.search import numpy_search
from hf_echo.steps.table import OPERATIONS
from hf_echo.utils import choices, settings
from hf_echo.utils.function_defaults import function_default
from hf_echo.utils.settings import DefaultOf, default_of, fields_of, is_required

STEPS = {kind.__name__: kind for kind in [*COMMANDS.values(), *OPERATIONS.values()]}


def read_fields(kind):
    """The fields of a step whose default is that of a function, and where it stands."""
    sources = {}
    for name, declared in fields_of(kind).items():
        if isinstance(declared.default_factory, DefaultOf):
            sources[name] = declared.default_factory
    return sources


def python_default(source):
    """The default that Python's own reflection gives, by importing the function."""
    *modules, name = (source.function or source.owner.calls).split(".")
    place = import_module("hf_echo")
    for part in modules:
        try:
            place = import_module(f"{place.__name__}.{part}")
        except ModuleNotFoundError:  # a class
            place = getattr(place, part)
    return inspect.signature(getattr(place, name)).parameters[source.parameter].default


@pytest.mark.parametrize("name", [name for name, kind in STEPS.items() if read_fields(kind)])
def test_a_default_is_that_of_the_function(name):
    kind = STEPS[name]
    for field, source in read_fields(kind).items():
        default = default_of(fields_of(kind)[field])
        expected = python_default(source)
        assert default == (list(expected) if isinstance(expected, tuple) else expected), field


@pytest.mark.parametrize("name", [name for name, kind in STEPS.items() if kind.calls])
def test_no_field_repeats_a_default(name):
    kind = STEPS[name]
    for field, parameter in inspect.signature(kind.function()).parameters.items():
        has_default = parameter.default not in (None, inspect.Parameter.empty, ())
        if field in fields_of(kind) and has_default:
            assert isinstance(fields_of(kind)[field].default_factory, DefaultOf), field


def other_value(kind, field, default):
    """A value that the field may have and that is not the default."""
    allowed = settings.choices(settings.annotation(kind, field))
    if allowed:
        return next(value for value in allowed if value not in (default, None))
    if isinstance(default, bool):
        return not default
    if isinstance(default, (int, float)):
        return default / 2 if isinstance(default, float) else default + 1
    return [value / 2 for value in default] if isinstance(default, list) else f"{default}-2"


OF_OPERATIONS = [name for name, kind in STEPS.items() if kind.operation and read_fields(kind)]


@pytest.fixture(params=OF_OPERATIONS)
def changed(request, monkeypatch):
    """(a step, {field: default}), where the reader of defaults gives others,
    as if the functions had been edited."""
    kind = STEPS[request.param]
    defaults = {}
    by_parameter = {}
    for field, source in read_fields(kind).items():
        value = other_value(kind, field, default_of(fields_of(kind)[field]))
        defaults[field] = value
        by_parameter[source.parameter] = value
    monkeypatch.setattr(settings, "function_default", lambda root, of, name: by_parameter[name])
    return kind, defaults


def without_checks(kind):
    """What a recipe of no line makes."""
    step = object.__new__(kind)
    for field, declared in fields_of(kind).items():
        setattr(step, field, None if is_required(declared) else default_of(declared))
    return step


def test_a_changed_default_reaches_the_recipe(changed):
    kind, defaults = changed
    step = without_checks(kind)
    assert {field: getattr(step, field) for field in defaults} == defaults


def test_a_changed_default_reaches_the_lineage(changed):
    kind, defaults = changed
    step = without_checks(kind)
    recorded = {**step.names(None), **step.names("checkpoint"), **step.names("data")}
    for field, value in defaults.items():
        if fields_of(kind)[field].metadata["recorded"]:
            assert recorded[field] == value


def test_a_changed_default_reaches_the_help(changed):
    kind, defaults = changed
    for field, value in defaults.items():
        if kind.command and fields_of(kind)[field].metadata["writes"] is None:
            assert generate._parameter(kind, field).default == value


def test_a_default_may_be_a_constant_of_another_module(tmp_path):
    (tmp_path / "sizes.py").write_text("SIZE = 7\n")
    (tmp_path / "work.py").write_text(
        "from .sizes import SIZE as most\ndef run(*, size=most): ...\n"
    )
    (tmp_path / "__init__.py").write_text("from .work import run as start\n")
    assert function_default(tmp_path, "start", "size") == 7


def test_a_function_without_the_default_is_named(tmp_path):
    (tmp_path / "work.py").write_text("def run(size): ...\n")
    with pytest.raises(LookupError, match=r"^work\.run has no default of size$"):
        function_default(tmp_path, "work.run", "size")


def test_files_that_leave_the_package_list_the_same_choices():
    assert settings.choices(choices.OnLong) == tokenization_echo.ON_LONG
    assert settings.choices(choices.Margin) == numpy_search.MARGINS
