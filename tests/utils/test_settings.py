"""Declared settings: what a value may be, what a message says, which output is an input."""

import math
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

from hf_echo.utils.did_you_mean import did_you_mean, nearest
from hf_echo.utils.recipe_yaml import Loader, parse_overrides, with_overrides
from hf_echo.utils.settings import Step, check, check_outputs, make, setting, step


class Color(Enum):
    RED = "red"
    BLUE = "blue"


@step("toy", example="hf-echo toy A --out b")
class Toy(Step):
    """A step with a field of each kind."""

    model: str = setting("what it reads", reads="checkpoint")
    out: Path | None = setting("what it writes", None, writes="file")
    rows: int = setting("a count", 5, least=1)
    share: float = setting("a share", 0.5, least=0, most=1)
    rate: float | None = setting("a rate", None, above=0)
    part: Literal["all", "first"] = setting("a choice", "all")
    color: Color | str = setting("an enumeration", "red")
    names: list[str] = setting("a list", list)
    sizes: dict[str, int] = setting("a mapping", dict)
    audio: bool = setting("a switch", False)
    lang: str | None = setting("text only", None, unless="audio")
    voice: str | None = setting("audio only", None, needs="audio")
    code: str | None = setting("a converted text", None, convert=str.upper)
    codes: list[str] = setting("converted texts", list, convert=str.upper)
    anything: Any = setting("not checked", None)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rows": 0}, "rows is 0; it must be at least 1"),
        ({"rows": 2.5}, "rows is 2.5; it must be a whole number"),
        ({"rows": True}, "rows is True; it must be a whole number"),
        ({"rows": "é\n"}, r"rows is 'é\n'; it must be a whole number"),
        ({"rows": None}, "rows is None; it must be a whole number"),
        ({"share": 2}, "share is 2; it must be from 0 to 1"),
        ({"share": math.nan}, "share is nan; it must be a finite number"),
        ({"rate": math.inf}, "rate is inf; it must be a finite number"),
        ({"rate": 0}, "rate is 0; it must be above 0"),
        ({"part": "frist"}, "part is 'frist'; it must be one of all, first; did you mean 'first'?"),
        ({"part": ["all"]}, "part is ['all']; it must be one of all, first"),
        ({"color": "green"}, "color is 'green'; it must be one of red, blue"),
        ({"names": "a"}, "names is 'a'; it must be a list of texts, such as [a]"),
        ({"names": [1]}, "names is [1]; it must be a list, each of it a text"),
        (
            {"sizes": {"a": "b"}},
            "sizes is {'a': 'b'}; it must be a mapping, each value of it a whole number",
        ),
        ({"sizes": 3}, "sizes is 3; it must be a mapping, such as {name: value}"),
        ({"audio": "yes"}, "audio is 'yes'; it must be true or false"),
        ({"audio": True, "lang": "fra"}, "lang does not go with audio: leave one of them out"),
        ({"voice": "a"}, "voice needs audio: give that too, or leave voice out"),
        ({"model": ""}, "model is missing: what it reads"),
        ({"modle": "x"}, "unknown field 'modle'; did you mean 'model'?"),
        ({("a", "b"): 1}, "unknown field ('a', 'b'); known are model, out"),
        ([1], "`field: value` lines are needed, not [1]"),
    ],
    ids=str,
)
def test_what_cannot_be_is_one_line(values, message):
    values = {"model": "m"} | values if isinstance(values, dict) else values
    with pytest.raises(ValueError) as error:
        make(Toy, values, "r.yaml")
    assert str(error.value).startswith(f"r.yaml: {message}")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("rows", 1e3, 1000),
        ("out", "a/b", Path("a/b")),
        ("color", "blue", "blue"),
        ("names", ("x",), ["x"]),
        ("rate", None, None),
        ("sizes", None, {}),  # a line `sizes:` alone is null
        ("code", "fra", "FRA"),
        ("codes", ["fra", "deu"], ["FRA", "DEU"]),
    ],
)
def test_a_value_gets_the_type_of_its_field(name, value, expected):
    toy = make(Toy, {"model": "m", name: value})
    assert getattr(toy, name) == expected
    assert type(getattr(toy, name)) is type(expected)


def test_a_changed_value_is_checked_again():
    toy = Toy(model="m")
    toy.rows = -1
    with pytest.raises(ValueError, match="--rows is -1"):
        check(toy, lambda name: f"--{name}")


def test_a_value_is_checked_when_the_step_is_made():
    with pytest.raises(ValueError, match="share is 7"):
        Toy(model="m", share=7)


@pytest.fixture
def link(tmp_path):
    """A link to the file `a` beside it."""
    (tmp_path / "a").write_text("")
    (tmp_path / "link").symlink_to("a")
    return tmp_path / "link"


def test_an_output_is_no_input(link):
    with pytest.raises(ValueError, match="is an input too"):
        check_outputs(Toy(model=str(link.with_name("a")), out=link))


def test_an_output_is_no_input_of_a_language(link):
    with pytest.raises(ValueError, match="is an input too"):
        check_outputs(Toy(model="m", names=[f"fra_Latn={link.with_name('a')}"], out=link))


def test_the_report_is_no_output(link):
    toy = Toy(model="m", out=link)
    check_outputs(toy)
    with pytest.raises(ValueError, match="is an input too"):
        check_outputs(toy, report=link.with_name("a"))


def test_yaml_of_recipes():
    text = "[1e-3, no, true, -1.5e+3, .5e1, e3, 2_000, on]"
    assert yaml.load(text, Loader) == [1e-3, "no", True, -1500.0, 5.0, "e3", 2000, "on"]


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        ("max_steps=1e2", {"max_steps": 100.0}),
        ("shape.hidden_size=64", {"shape.hidden_size": 64}),
        ("guide=null", {"guide": None}),
        ("o={n: 5}", {"o": {"n": 5}}),
        ("d=a=b", {"d": "a=b"}),
    ],
)
def test_an_override_is_read_as_yaml(pair, expected):
    assert parse_overrides([pair]) == expected


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("max_steps", "not an override; write key=value"),
        ("=3", "not an override; write key=value"),
        ("a=[1", "not a YAML value"),
        ("a={[]: 1}", "not a YAML value"),
    ],
)
def test_what_is_no_override_is_refused(pair, message):
    with pytest.raises(ValueError, match=message):
        parse_overrides([pair])


def test_an_override_sets_one_entry_of_a_mapping():
    assert with_overrides({"shape": {"a": 1}}, {"shape.b": 2}, "r") == {"shape": {"a": 1, "b": 2}}


def test_an_override_sets_no_entry_of_a_number():
    with pytest.raises(ValueError, match="r: shape.b cannot be set, shape is 3"):
        with_overrides({"shape": 3}, {"shape.b": 2}, "r")


NAMES = ["learning_rate", "max_steps", "max_tokens"]


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("lerning_rate", "learning_rate"),
        ("max_step", "max_steps"),
        ("xyz", None),
        (None, None),
        (3, None),
    ],
)
@pytest.mark.parametrize("kind", [list, dict.fromkeys, iter])
def test_the_nearest_name(word, name, kind):
    assert nearest(word, kind(NAMES)) == name


@pytest.mark.parametrize(
    ("word", "otherwise", "end"),
    [
        ("max_step", "known are ...", "; did you mean 'max_steps'?"),
        ("xyz", "known are ...", "; known are ..."),
        ("xyz", "", ""),
    ],
)
def test_the_end_of_a_message_names_the_nearest(word, otherwise, end):
    assert did_you_mean(word, NAMES, otherwise) == end
