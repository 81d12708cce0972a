"""Sampling proportions against figures computed by hand, and against the formula for any sizes."""

import random

import pytest

from hf_echo.data.sampling import temperature, two_step, unimax

from ..refusals import refusals


def test_unimax_by_hand():
    """The level is 100, the second largest; c has a tenth and is lifted to it;
    d stops at 100 x 0.5 = 50."""
    shares = unimax({"a": 1000, "b": 100, "c": 10, "d": 0.5}, top_n=2, max_upsampling=100)

    assert shares == pytest.approx({"a": 100 / 350, "b": 100 / 350, "c": 100 / 350, "d": 50 / 350})


def test_unimax_with_the_values_of_the_paper():
    """The level is the 126th language (500 rows), and one row stands for 100 at most."""
    sizes = {f"language {number}": 1000 for number in range(125)}
    sizes["level"] = 500
    sizes["small"] = 1

    shares = unimax(sizes)

    assert shares.pop("small") == 100 / 63_100
    assert set(shares.values()) == {500 / 63_100}


@pytest.mark.parametrize("top_n", [1, 5, 30])
@pytest.mark.parametrize("max_upsampling", [1, 3, 100])
def test_unimax_is_the_formula(top_n, max_upsampling):
    """Thirty languages whose sizes span many orders of magnitude."""
    generator = random.Random(0)
    sizes = {f"language {number}": generator.lognormvariate(0, 4) for number in range(30)}

    shares = unimax(sizes, top_n=top_n, max_upsampling=max_upsampling)

    # Every language has as many rows as the level, if it need not repeat one too often.
    level = sorted(sizes.values())[-top_n]
    rows = {language: min(level, max_upsampling * size) for language, size in sizes.items()}
    total = sum(rows.values())
    assert list(shares) == list(sizes)
    assert shares == pytest.approx({language: count / total for language, count in rows.items()})


# Other proportions


@pytest.mark.parametrize(
    ("exponent", "shares"),
    [(1, {"a": 0.9, "b": 0.1}), (0.5, {"a": 0.75, "b": 0.25}), (0, {"a": 0.5, "b": 0.5})],
)
def test_temperature_flattens_by_its_exponent(exponent, shares):
    """9 ** 0.5 is three times 1 ** 0.5; the exponent 1 is natural sampling."""
    assert temperature({"a": 9, "b": 1}, exponent) == pytest.approx(shares)


def test_two_step_flattens_sources_then_languages():
    """Roots of the sources' sizes 100 and 4: 10 to 2;
    of the languages' sizes in the first, 64 and 36: 8 to 6."""
    shares = two_step({"web": {"a": 64, "b": 36}, "radio": {"a": 4}})

    assert shares["web"] == pytest.approx({"a": 10 / 12 * 8 / 14, "b": 10 / 12 * 6 / 14})
    assert shares["radio"] == pytest.approx({"a": 2 / 12})


test_wrong_values_are_named = refusals(
    (lambda: unimax({}), "no sizes"),
    (lambda: unimax({"fra_Latn": 3, "deu_Latn": 0}), "'deu_Latn' has size 0"),
    (lambda: two_step({"web": {}}), "has size 0"),
)
