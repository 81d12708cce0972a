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
        ({"sizes": {"a": "b"}}, "sizes is {'a': 'b'}; it must be a mapping, each value of it a whole number"),
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


def test_values_get_the_type_of_their_field():
    null = {"rate": None, "sizes": None}
    toy = make(Toy, {"model": "m", "rows": 1e3, "out": "a/b", "color": "blue", "names": ("x",), **null})
    assert (toy.rows, type(toy.rows), toy.out, toy.color, toy.names) == (1000, int, Path("a/b"), "blue", ["x"])
    assert toy.rate is None and Toy(model="m").sizes == toy.sizes == {}  # a line `sizes:` alone is null
    toy.rows = -1
    pytest.raises(ValueError, check, toy, lambda name: f"--{name}").match("--rows is -1")
    pytest.raises(ValueError, Toy, model="m", share=7).match("share is 7")


def test_outputs_are_no_inputs(tmp_path):
    (tmp_path / "a").write_text("")
    (tmp_path / "link").symlink_to("a")
    for values in ({"model": str(tmp_path / "a")}, {"model": "m", "names": [f"fra_Latn={tmp_path / 'a'}"]}):
        with pytest.raises(ValueError, match="is an input too"):
            check_outputs(Toy(out=tmp_path / "link", **values))
    check_outputs(Toy(model="m", out=tmp_path / "link"))
    with pytest.raises(ValueError, match="is an input too"):
        check_outputs(Toy(model="m", out=tmp_path / "link"), report=tmp_path / "a")


def test_yaml_of_recipes():
    text = "[1e-3, no, true, -1.5e+3, .5e1, e3, 2_000, on]"
    assert yaml.load(text, Loader) == [1e-3, "no", True, -1500.0, 5.0, "e3", 2000, "on"]
    values = parse_overrides(["max_steps=1e2", "shape.hidden_size=64", "guide=null", "o={n: 5}", "d=a=b"])
    assert values == {"max_steps": 100.0, "shape.hidden_size": 64, "guide": None, "o": {"n": 5}, "d": "a=b"}
    assert with_overrides({"shape": {"a": 1}}, {"shape.b": 2}, "r") == {"shape": {"a": 1, "b": 2}}
    with pytest.raises(ValueError, match="r: shape.b cannot be set, shape is 3"):
        with_overrides({"shape": 3}, {"shape.b": 2}, "r")
    for pair in ("max_steps", "=3", "a=[1", "a={[]: 1}"):
        pytest.raises(ValueError, parse_overrides, [pair]).match("not an override; write key=value|not a YAML value")


def test_did_you_mean():
    known = ["learning_rate", "max_steps", "max_tokens"]
    for word, near in (("lerning_rate", known[0]), ("max_step", known[1]), ("xyz", None), (None, None), (3, None)):
        assert nearest(word, known) == nearest(word, dict.fromkeys(known)) == nearest(word, iter(known)) == near
    assert did_you_mean("max_step", known, "known are ...") == "; did you mean 'max_steps'?"
    assert (did_you_mean("xyz", known, "known are ..."), did_you_mean("xyz", known)) == ("; known are ...", "")
