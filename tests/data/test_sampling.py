"""Sampling proportions against figures computed by hand, and properties for any sizes."""

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


# Properties of UniMax for any sizes

SETTINGS = [
    {"top_n": top_n, "max_upsampling": max_upsampling}
    for top_n in (1, 5, 30)
    for max_upsampling in (1, 3, 100)
]


@pytest.fixture
def sizes():
    """Thirty languages whose sizes span many orders of magnitude."""
    generator = random.Random(0)
    return {f"language {number}": generator.lognormvariate(0, 4) for number in range(30)}


@pytest.mark.parametrize("settings", SETTINGS)
def test_unimax_shares_sum_to_one(sizes, settings):
    shares = unimax(sizes, **settings)

    assert list(shares) == list(sizes)
    assert sum(shares.values()) == pytest.approx(1)


@pytest.mark.parametrize("settings", SETTINGS)
def test_unimax_gives_a_larger_language_no_smaller_share(sizes, settings):
    shares = unimax(sizes, **settings)

    shares_by_size = [shares[language] for language in sorted(sizes, key=sizes.get)]
    assert shares_by_size == pytest.approx(sorted(shares_by_size))


@pytest.mark.parametrize("settings", SETTINGS)
def test_unimax_gives_the_largest_languages_the_same_share(sizes, settings):
    shares = unimax(sizes, **settings)

    shares_by_size = [shares[language] for language in sorted(sizes, key=sizes.get)]
    largest = shares_by_size[-settings["top_n"] :]
    assert largest == pytest.approx([max(largest)] * len(largest))


@pytest.mark.parametrize("settings", SETTINGS)
def test_unimax_repeats_no_row_too_often(sizes, settings):
    """The level's rows stand for themselves; against them nobody stands for more than
    max_upsampling rows."""
    shares = unimax(sizes, **settings)

    level = sorted(sizes.values())[-settings["top_n"]]
    share_of_one_row = max(shares.values()) / level
    repeats = [shares[language] / share_of_one_row / size for language, size in sizes.items()]
    assert max(repeats) <= settings["max_upsampling"] * (1 + 1e-9)


@pytest.mark.parametrize("settings", SETTINGS)
def test_unimax_does_not_depend_on_the_order(sizes, settings):
    languages = list(sizes)
    random.Random(1).shuffle(languages)
    shuffled = {language: sizes[language] for language in languages}

    assert unimax(shuffled, **settings) == unimax(sizes, **settings)


@pytest.mark.parametrize("settings", SETTINGS)
def test_unimax_does_not_depend_on_the_unit(sizes, settings):
    doubled = {language: 2 * size for language, size in sizes.items()}

    assert unimax(doubled, **settings) == pytest.approx(unimax(sizes, **settings))


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
