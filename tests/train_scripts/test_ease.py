"""Known drivers are found, irrelevant features are near 0, figures are those of a fit written out."""

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

FAMILIES = ["Indo-European", "Turkic", "Bantu", "Uralic"]


def languages(count: int = 160, seed: int = 0, noise: float = 1.0) -> list[dict]:
    """xsim falls with the logarithm of examples (most), rises with fertility, and hangs on the family."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        examples, fertility, family = 10 ** rng.uniform(2, 6), rng.uniform(20, 80), rng.choice(FAMILIES)
        easy = {"Indo-European": 0, "Turkic": 4, "Bantu": 12, "Uralic": 8}[str(family)]
        xsim = 80 - 12 * math.log10(examples) + 0.1 * fertility + easy + noise * rng.normal()
        row = {"lang": f"l{i}", "xsim": xsim, "examples": examples, "fertility": fertility, "family": str(family)}
        rows.append(row | {"noise": rng.normal(), "constant": 1})
    return rows


@pytest.fixture(scope="module")
def found():
    return explain_ease(languages(), repeats=10)


def test_known_drivers_rank_as_they_were_made(found):
    table = found["features"]
    assert [row["feature"] for row in table][:3] == ["examples", "family", "fertility"]
    assert [row["rank"] for row in table] == [1, 2, 3, 4, 5]
    lines = {row["feature"]: row for row in table}
    for name in ("examples", "family", "fertility"):
        assert lines[name]["ci_low"] > 0  # fertility's over seeds: 0.3 .. 0.7
        assert lines[name]["ci_low"] <= lines[name]["importance"] <= lines[name]["ci_high"]
    # Over seeds: noise -0.07 .. 0.11, fertility 0.7 .. 1.0.
    assert abs(lines["noise"]["importance"]) < 0.4 and lines["noise"]["ci_low"] < 0.05
    assert [lines["constant"][key] for key in ("importance", "ci_high")] == pytest.approx([0, 0], abs=1e-9)


def test_importance_is_the_rise_of_the_rmse_in_the_targets_unit(found):
    """Shuffled, a feature is wrong by its own spread twice: sqrt(2) times the deviation it causes, error added."""
    rows = languages()
    caused = 12 * np.std([math.log10(row["examples"]) for row in rows])
    expected = math.sqrt(2 * caused**2 + found["rmse"] ** 2) - found["rmse"]
    assert found["features"][0]["importance"] == pytest.approx(expected, rel=0.15)
    # 16 is a power of two: no float is rounded otherwise, so that the trees are the same.
    larger = explain_ease([{**row, "xsim": 16 * row["xsim"]} for row in rows], repeats=10)
    rises = [[row["importance"] for row in result["features"]] for result in (larger, found)]
    np.testing.assert_allclose(rises[0], 16 * np.array(rises[1]), rtol=1e-6, atol=1e-6)


def test_figures_are_of_held_out_languages(found):
    y = np.array([row["xsim"] for row in languages()])
    assert found["r2"] == pytest.approx(r2_score(y, found["predictions"]))
    assert 0.8 < found["r2"] < 0.99
    assert found["baseline_rmse"] == pytest.approx(y.std(), rel=0.05)
    assert found["improvement"] == pytest.approx(100 * (1 - found["rmse"] / found["baseline_rmse"]))
    assert found["rmse"] == pytest.approx(math.sqrt(((found["predictions"] - y) ** 2).mean()), rel=0.05)


def test_missing_values_and_a_choice_of_features():
    rows = languages(60)
    for i, row in enumerate(rows):
        row |= {"latitude": None if i % 3 else float(i), "family": row["family"] if i % 7 else None, "name": f"n{i}"}
    for i, row in enumerate(languages(240)):  # many categories
        rows.append(row | {"latitude": 1.0, "lang": f"m{i}", "name": f"m{i}"})
    found = explain_ease(rows, features=["examples", "latitude", "family", "name"], repeats=2, folds=3)
    features = [row["feature"] for row in found["features"]]
    assert sorted(features) == ["examples", "family", "latitude", "name"] and features[0] == "examples"


@pytest.fixture
def files(tmp_path):
    """40 real languages whose xsim falls with examples and hangs on the script: results, and features beside them."""
    rng, codes = np.random.default_rng(0), list(LANGUAGES)[:40]
    examples = 10 ** rng.uniform(2, 6, len(codes))
    xsim = [60 - 9 * np.log10(n) + 5 * (LANGUAGES[code].script == "Latn") for code, n in zip(codes, examples)]
    rows = [{"lang": code, "count": 9, "xsim": float(error)} for code, error in zip(codes, xsim)]
    (tmp_path / "xsim.json").write_text(json.dumps({"model": "m", "rows": rows, "average": {}}))
    lines = [f"{code}\t{n}\t{rng.normal()}" for code, n in reversed(list(zip(codes, examples)))]
    (tmp_path / "features.tsv").write_text("\n".join(["lang\texamples\tnoise", *lines]) + "\n")
    return tmp_path / "xsim.json", tmp_path / "features.tsv"


def test_the_script_joins_results_features_and_groups(files, monkeypatch, capsys):
    words = [files[0], "--features", files[1], "--group", "script", "--repeats", 3, "--folds", 4]
    monkeypatch.setattr(sys, "argv", ["ease.py", *map(str, words)])
    main()
    report = json.loads(capsys.readouterr().out)
    assert (report["languages"], report["folds"], report["target"]) == (40, 4, "xsim")
    assert [row["feature"] for row in report["features"]][0] == "examples"
    assert {row["feature"] for row in report["features"]} == {"examples", "noise", "script"}
    lines = files[1].read_text().splitlines()
    files[1].write_text("\n".join(lines[:-1]))
    refuses(f"language {lines[-1].split()[0]!r} has no row of features", main)


def changed(i: int, **values) -> list[dict]:
    rows = languages(20)
    rows[i] |= values
    return rows


test_bad_input_names_language_and_column = refusals(
    (languages(9), {}, "9 languages for 5 folds"),
    (languages(20), {"target": "chrf"}, "no column 'chrf'"),
    (changed(3, lang="l1"), {}, "'l1' has two rows"),
    (changed(3, xsim=math.nan), {}, "'xsim' of 'l3' is nan"),
    (changed(3, fertility="high"), {}, "feature 'fertility' holds numbers and text"),
    (changed(3, examples=math.inf), {}, "feature 'examples' of 'l3' is infinite"),
    ([{"lang": f"l{i}", "xsim": 1.0, "a": i} for i in range(20)], {}, "'xsim' is 1.0 for all 20"),
    call=lambda rows, options: explain_ease(rows, **options),
)
