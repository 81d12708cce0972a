"""Sampling proportions against figures computed by hand, and properties for any sizes."""

import random

import pytest

from hf_echo.data.sampling import natural, temperature, two_step, unimax

from ..refusals import refusals


def test_unimax_top_n_by_hand():
    # level 100 (the second largest); c has a tenth and is lifted to it; d stops at 100 x 0.5 = 50
    shares = unimax({"a": 1000, "b": 100, "c": 10, "d": 0.5}, top_n=2, max_upsampling=100)
    assert shares == pytest.approx({"a": 100 / 350, "b": 100 / 350, "c": 100 / 350, "d": 50 / 350})
    # the paper's: the level is the 126th (500), and one row stands for 100 at most
    shares = unimax({i: 1000 for i in range(125)} | {"level": 500, "small": 1})
    assert set(shares.values()) == {500 / 63_100, 100 / 63_100} and shares["small"] < shares["level"]


@pytest.mark.parametrize("top_n", [1, 5, 30])
@pytest.mark.parametrize("max_upsampling", [1, 3, 100])
def test_unimax_of_any_sizes(top_n, max_upsampling):
    rng = random.Random(0)
    sizes = {f"l{i}": rng.lognormvariate(0, 4) for i in range(30)}
    shares = unimax(sizes, top_n=top_n, max_upsampling=max_upsampling)
    assert list(shares) == list(sizes)
    assert sum(shares.values()) == pytest.approx(1)
    by_size = sorted(sizes, key=sizes.get)
    assert all(shares[a] <= shares[b] * (1 + 1e-12) for a, b in zip(by_size, by_size[1:], strict=False))
    # the cap: against the level of those that are not capped, nobody stands for more than max_upsampling x
    level, top = sorted(sizes.values())[-top_n], shares[by_size[-1]]
    assert all(shares[x] * level / top <= max_upsampling * sizes[x] * (1 + 1e-9) for x in sizes)
    assert all(shares[x] == pytest.approx(top) for x in by_size[-top_n:])
    shuffled = dict(rng.sample(list(sizes.items()), len(sizes)))
    assert unimax(shuffled, top_n=top_n, max_upsampling=max_upsampling) == shares
    doubled = unimax({x: 2 * n for x, n in sizes.items()}, top_n=top_n, max_upsampling=max_upsampling)
    assert doubled == pytest.approx(shares)


def test_temperature_and_two_step_by_hand():
    sizes = {"a": 9, "b": 1}
    assert natural(sizes) == {"a": 0.9, "b": 0.1}
    assert temperature(sizes, 0.5) == pytest.approx({"a": 0.75, "b": 0.25})
    assert temperature(sizes, 0) == {"a": 0.5, "b": 0.5}
    # sources 100 and 4: 10 to 2; in the first 8 to 6
    shares = two_step({"web": {"a": 64, "b": 36}, "radio": {"a": 4}})
    assert shares["web"] == pytest.approx({"a": 10 / 12 * 8 / 14, "b": 10 / 12 * 6 / 14})
    assert shares["radio"] == pytest.approx({"a": 2 / 12})


test_wrong_values_are_named = refusals(
    (lambda: unimax({}), "no sizes"),
    (lambda: unimax({"fra_Latn": 3, "deu_Latn": 0}), "'deu_Latn' has size 0"),
    (lambda: natural({"fra_Latn": -1}), "'fra_Latn' has size -1"),
    (lambda: natural({"fra_Latn": float("nan")}), "size nan"),
    (lambda: unimax({"a": 1}, max_upsampling=0.5), "max_upsampling=0.5"),
    (lambda: unimax({"a": 1}, top_n=0), "top_n=0"),
    (lambda: temperature({"a": 1}, -1), "exponent=-1"),
    (lambda: two_step({"web": {}}), "source 'web' has no language"),
)
