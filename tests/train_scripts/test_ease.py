"""Known drivers are found, irrelevant features are near 0, figures are those of a fit written
out."""

import json
import math
import sys

import numpy as np
import pytest
from ease import explain_ease, main
from sklearn.metrics import r2_score

from hf_echo.languages import LANGUAGES

from ..refusals import refusals, refuses

pytestmark = pytest.mark.trains

FAMILY_ERRORS = {"Indo-European": 0, "Turkic": 4, "Bantu": 12, "Uralic": 8}
FAST = {"repeats": 3, "folds": 3}


def languages(count: int = 160) -> list[dict]:
    """xsim falls with the logarithm of examples (most), rises with fertility,
    and hangs on the family."""
    rng = np.random.default_rng(0)
    rows = []
    for number in range(count):
        examples = 10 ** rng.uniform(2, 6)
        fertility = rng.uniform(20, 80)
        family = str(rng.choice(list(FAMILY_ERRORS)))
        # The formula that the study has to find again.
        xsim = (
            80 - 12 * math.log10(examples) + 0.1 * fertility + FAMILY_ERRORS[family] + rng.normal()
        )
        row = {
            "lang": f"l{number}",
            "xsim": xsim,
            "examples": examples,
            "fertility": fertility,
            "family": family,
        }
        rows.append(row | {"noise": rng.normal(), "constant": 1})
    return rows


@pytest.fixture(scope="module")
def report():
    return explain_ease(languages(), **FAST)


@pytest.fixture(scope="module")
def lines(report):
    """Feature -> its line of the table."""
    return {row["feature"]: row for row in report["features"]}


def test_known_drivers_rank_as_they_were_made(report):
    assert [row["feature"] for row in report["features"]][:3] == ["examples", "family", "fertility"]
    assert [row["rank"] for row in report["features"]] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("name", ["examples", "family", "fertility"])
def test_a_driver_is_above_zero(lines, name):
    assert 0 < lines[name]["ci_low"] <= lines[name]["importance"] <= lines[name]["ci_high"]


def test_noise_is_near_zero(lines):
    # Over seeds: noise -0.07 .. 0.11, fertility 0.7 .. 1.0.
    assert abs(lines["noise"]["importance"]) < 0.4
    assert lines["noise"]["ci_low"] < 0.05


def test_a_constant_is_zero(lines):
    assert lines["constant"]["importance"] == pytest.approx(0, abs=1e-9)
    assert lines["constant"]["ci_high"] == pytest.approx(0, abs=1e-9)


def test_importance_is_the_rise_of_the_rmse(report):
    """Shuffled, a feature is wrong by its own spread twice:
    sqrt(2) times the deviation it causes, error added."""
    caused = 12 * np.std([math.log10(row["examples"]) for row in languages()])
    expected = math.sqrt(2 * caused**2 + report["rmse"] ** 2) - report["rmse"]
    assert report["features"][0]["importance"] == pytest.approx(expected, rel=0.15)


def test_importance_is_in_the_unit_of_the_target(report):
    # 16 is a power of two: no float is rounded otherwise, so that the trees are the same.
    rows = [row | {"xsim": 16 * row["xsim"]} for row in languages()]

    larger = explain_ease(rows, **FAST)

    importances = np.array([row["importance"] for row in report["features"]])
    larger_importances = [row["importance"] for row in larger["features"]]
    np.testing.assert_allclose(larger_importances, 16 * importances, rtol=1e-6, atol=1e-6)


@pytest.fixture(scope="module")
def xsim():
    return np.array([row["xsim"] for row in languages()])


def test_r2_is_of_held_out_languages(report, xsim):
    assert report["r2"] == pytest.approx(r2_score(xsim, report["predictions"]))
    assert 0.8 < report["r2"] < 0.99


def test_rmse_is_of_held_out_languages(report, xsim):
    squares = (report["predictions"] - xsim) ** 2
    assert report["rmse"] == pytest.approx(math.sqrt(squares.mean()), rel=0.05)


def test_the_baseline_is_the_mean_of_the_languages(report, xsim):
    assert report["baseline_rmse"] == pytest.approx(xsim.std(), rel=0.05)
    assert report["improvement"] == pytest.approx(
        100 * (1 - report["rmse"] / report["baseline_rmse"])
    )


def test_missing_values_of_chosen_features():
    """Some values are missing, and one feature has more categories than are kept."""
    rows = languages(240)
    for number, row in enumerate(rows):
        row["name"] = f"n{number}"
        row["latitude"] = None if number % 3 else float(number)
        if number % 7 == 0:
            row["family"] = None

    report = explain_ease(
        rows, features=["examples", "latitude", "family", "name"], repeats=1, folds=2
    )

    names = [row["feature"] for row in report["features"]]
    assert names[0] == "examples"
    assert sorted(names) == ["examples", "family", "latitude", "name"]


@pytest.fixture
def features_file(tmp_path):
    return tmp_path / "features.tsv"


@pytest.fixture
def script(features_file, tmp_path, monkeypatch):
    """The script on 40 real languages whose xsim falls with examples and hangs on the script."""
    rng = np.random.default_rng(0)
    codes = list(LANGUAGES)[:40]
    examples = 10 ** rng.uniform(2, 6, len(codes))
    # xsim by the formula, and a file of features in another order.
    rows = []
    lines = []
    for code, count in zip(codes, examples):
        error = 60 - 9 * math.log10(count) + 5 * (LANGUAGES[code].script == "Latn")
        rows.append({"lang": code, "count": 9, "xsim": error})
        lines.append(f"{code}\t{count}\t{rng.normal()}")
    results = tmp_path / "xsim.json"
    results.write_text(json.dumps({"model": "m", "rows": rows, "average": {}}))
    features_file.write_text("\n".join(["lang\texamples\tnoise", *reversed(lines)]) + "\n")
    words = [
        results,
        "--features",
        features_file,
        "--group",
        "script",
        "--repeats",
        1,
        "--folds",
        2,
    ]
    monkeypatch.setattr(sys, "argv", ["ease.py", *map(str, words)])
    return main


def test_the_script_joins_results_with_features(script, capsys):
    script()

    report = json.loads(capsys.readouterr().out)
    assert (report["languages"], report["folds"], report["target"]) == (40, 2, "xsim")
    names = [row["feature"] for row in report["features"]]
    assert names[0] == "examples"
    assert sorted(names) == ["examples", "noise", "script"]


def test_the_script_names_a_language_without_features(script, features_file):
    *lines, last = features_file.read_text().splitlines()
    features_file.write_text("\n".join(lines))
    refuses(f"language {last.split()[0]!r} has no row of features", script)


def changed(number: int, **values: object) -> list[dict]:
    rows = languages(20)
    rows[number] |= values
    return rows


CONSTANT = [{"lang": f"l{number}", "xsim": 1.0, "a": number} for number in range(20)]
test_bad_input_names_what_is_wrong = refusals(
    (languages(9), {}, "9 languages for 5 folds"),
    (languages(20), {"target": "chrf"}, "no column 'chrf'"),
    (changed(3, lang="l1"), {}, "'l1' has two rows"),
    (changed(3, xsim=math.nan), {}, "'xsim' of 'l3' is nan"),
    (changed(3, fertility="high"), {}, "feature 'fertility' holds numbers and text"),
    (changed(3, examples=math.inf), {}, "feature 'examples' of 'l3' is infinite"),
    (CONSTANT, {}, "'xsim' is 1.0 for all 20"),
    call=lambda rows, options: explain_ease(rows, **options),
)
