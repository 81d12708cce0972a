"""Thresholds mu - k sigma per direction, against numbers computed by hand."""

import numpy as np
import pytest

from hf_echo.data.pipeline.filters import DirectionThreshold, build
from hf_echo.data.pipeline.filters.threshold import calibrate, score

from ....refusals import refuses

CALIBRATED = {
    "fra_Latn>eng_Latn": (0.8, 0.1),
    "deu_Latn>eng_Latn": (0.6, 0.2),
    "deu_Latn>fra_Latn": (0.4, 0.1),
}


def test_thresholds_and_back_off():
    filter_ = DirectionThreshold(k=2, k_synthetic=1, calibrated=CALIBRATED)
    assert filter_.threshold("fra_Latn", "eng_Latn") == pytest.approx(0.6)
    assert filter_.threshold("fra_Latn", "eng_Latn", synthetic=True) == pytest.approx(0.7)
    # not calibrated: the mean of the language's directions (0.5 - 2 * 0.15), both ways with English
    assert filter_.threshold("deu_Latn", "spa_Latn") == pytest.approx(0.2)
    assert filter_.threshold("eng_Latn", "deu_Latn") == pytest.approx(0.2)
    assert filter_.threshold("spa_Latn", "eng_Latn") == 0.25
    assert (
        DirectionThreshold(calibrated=CALIBRATED, back_off="floor").threshold(
            "deu_Latn", "spa_Latn"
        )
        == 0.25
    )
    assert filter_.threshold("python", "eng_Latn") == -np.inf


def test_keep_by_provenance_and_direction(rows):
    langs = ["fra_Latn", "fra_Latn", "fra_Latn", "spa_Latn", "python", "spa_Latn", "spa_Latn"]
    kinds = ["primary", "mined", "mined", "primary", "code", "primary", "primary"]
    quality = [0.65, 0.65, 0.75, 0.2, -1.0, None, 0.25]
    table = rows(*[("a", "b")] * 7, source_lang=langs, provenance=kinds, quality=quality)
    for unscored in ("keep", "drop"):
        filter_ = DirectionThreshold(k=2, k_synthetic=1, calibrated=CALIBRATED, unscored=unscored)
        assert filter_.keep(table).tolist() == [
            True,
            False,
            True,
            False,
            True,
            unscored == "keep",
            True,
        ]
        without = filter_.keep(table.drop_columns("quality"))  # every row is unscored, code stays
        assert without.tolist() == [unscored == "keep" or i == 4 for i in range(7)]


def test_calibration_is_mean_and_deviation_over_all_tables(rows):
    rng = np.random.default_rng(0)
    scores = {}
    tables = []
    for _ in range(3):
        langs = rng.choice(["fra_Latn", "deu_Latn"], 50).tolist()
        quality = rng.uniform(-1, 1, 50)
        tables.append(rows(*[("a", "b")] * 50, source_lang=langs, quality=quality))
        for lang, value in zip(langs, quality):
            scores.setdefault(f"{lang}>eng_Latn", []).append(value)
    filter_ = calibrate(tables)
    assert set(filter_.calibrated) == set(scores)
    for name, values in scores.items():
        assert filter_.calibrated[name] == pytest.approx((np.mean(values), np.std(values)))


def test_calibration_scores_with_the_scorer_and_travels_by_file(rows, tmp_path):
    table = rows(*[(f"{i}", "b") for i in range(40)], quality=[9.0] * 40)
    filter_ = calibrate([table], lambda s, t, sl, tl: np.array([int(x) / 40 for x in s]))
    assert filter_.calibrated["fra_Latn>eng_Latn"][0] == pytest.approx(np.mean(np.arange(40) / 40))
    filter_.save(tmp_path / "c.json")
    assert build("threshold", {"calibrated": str(tmp_path / "c.json")}) == filter_
    refuses("no direction of the dev set has 41 scored rows", calibrate, [table], min_rows=41)
    for content in (
        "[1, 2]",
        '{"fra_Latn>eng_Latn": 0.5}',
        '{"fra_Latn>eng_Latn": ["a", "b"]}',
        "{",
    ):
        (tmp_path / "c.json").write_text(content)
        refuses("calibrated", build, "threshold", {"calibrated": str(tmp_path / "c.json")})


def test_score_fills_what_has_no_quality(rows):
    calls = []

    def scorer(sources, targets, source_langs, target_langs):
        calls.append((sources, targets, source_langs, target_langs))
        return np.full(len(sources), 0.5)

    table = rows(("a", "x"), ("b", "y"), quality=[0.1, None])
    assert score(table, scorer)["quality"].to_pylist() == [0.1, 0.5]
    assert calls == [(["b"], ["y"], ["fra_Latn"], ["eng_Latn"])]
    assert score(table, scorer, again=True)["quality"].to_pylist() == [0.5, 0.5]
    assert score(rows(("a", "x")), scorer).column_names[-1] == "quality"
    refuses(
        r"return \(1,\) numbers, not shape \(1, 1\)",
        score,
        rows(("a", "x")),
        lambda *columns: np.zeros((1, 1)),
    )
