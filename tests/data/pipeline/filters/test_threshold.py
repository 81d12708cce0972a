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


@pytest.fixture
def calibrated():
    return DirectionThreshold(k=2, k_synthetic=1, calibrated=CALIBRATED)


def test_a_threshold_is_the_mean_less_k_deviations(calibrated):
    assert calibrated.threshold("fra_Latn", "eng_Latn") == pytest.approx(0.6)
    assert calibrated.threshold("fra_Latn", "eng_Latn", synthetic=True) == pytest.approx(0.7)


def test_a_direction_without_figures_takes_the_mean_of_its_language(calibrated):
    """0.5 - 2 * 0.15, both ways with English."""
    assert calibrated.threshold("deu_Latn", "spa_Latn") == pytest.approx(0.2)
    assert calibrated.threshold("eng_Latn", "deu_Latn") == pytest.approx(0.2)


def test_a_language_without_figures_takes_the_floor(calibrated):
    assert calibrated.threshold("spa_Latn", "eng_Latn") == 0.25


def test_code_has_no_threshold(calibrated):
    assert calibrated.threshold("python", "eng_Latn") == -np.inf


KINDS = ["primary", "mined", "mined", "primary", "code", "primary", "primary"]
QUALITY = [0.65, 0.65, 0.75, 0.2, -1.0, None, 0.25]


@pytest.fixture
def scored(rows):
    """Row 4 is code, row 5 has no score."""
    langs = ["fra_Latn", "fra_Latn", "fra_Latn", "spa_Latn", "python", "spa_Latn", "spa_Latn"]
    pairs = [("a", "b")] * 7
    return rows(*pairs, source_lang=langs, provenance=KINDS, quality=QUALITY)


@pytest.mark.parametrize("unscored", ["keep", "drop"])
def test_rows_stay_by_the_threshold_of_their_direction(scored, unscored):
    filter_ = DirectionThreshold(k=2, k_synthetic=1, calibrated=CALIBRATED, unscored=unscored)
    stays = unscored == "keep"
    assert filter_.keep(scored).tolist() == [True, False, True, False, True, stays, True]


@pytest.mark.parametrize("unscored", ["keep", "drop"])
def test_code_stays_where_no_row_is_scored(scored, unscored):
    filter_ = DirectionThreshold(calibrated=CALIBRATED, unscored=unscored)
    stays = unscored == "keep"
    without_scores = filter_.keep(scored.drop_columns("quality"))
    assert without_scores.tolist() == [stays] * 4 + [True] + [stays] * 2


def test_calibration_is_that_of_numpy(rows):
    rng = np.random.default_rng(0)
    langs = rng.choice(["fra_Latn", "deu_Latn"], 150)
    quality = rng.uniform(-1, 1, 150)
    table = rows(*[("a", "b")] * 150, source_lang=langs, quality=quality)

    filter_ = calibrate([table.slice(0, 50), table.slice(50, 50), table.slice(100)])

    # Mean and deviation of all rows at once; the filter saw them in three parts.
    of_french = quality[langs == "fra_Latn"]
    of_german = quality[langs == "deu_Latn"]
    assert filter_.calibrated == {
        "fra_Latn>eng_Latn": pytest.approx((of_french.mean(), of_french.std())),
        "deu_Latn>eng_Latn": pytest.approx((of_german.mean(), of_german.std())),
    }


def scored_by_number(sources, targets, source_langs, target_langs):
    return np.array([int(source) / 40 for source in sources])


@pytest.fixture
def forty(rows):
    return rows(*[(f"{i}", "b") for i in range(40)], quality=[9.0] * 40)


def test_calibration_scores_with_the_scorer(forty):
    filter_ = calibrate([forty], scored_by_number)
    mean, _ = filter_.calibrated["fra_Latn>eng_Latn"]
    assert mean == pytest.approx(np.mean(np.arange(40) / 40))


def test_calibration_travels_by_file(forty, tmp_path):
    filter_ = calibrate([forty], scored_by_number)
    filter_.save(tmp_path / "c.json")
    assert build("threshold", {"calibrated": str(tmp_path / "c.json")}) == filter_


def test_calibration_without_enough_rows_is_refused(forty):
    refuses("no direction of the dev set has 20 scored rows", calibrate, [forty.slice(0, 19)])


@pytest.mark.parametrize(
    "content", ["[1, 2]", '{"fra_Latn>eng_Latn": 0.5}', '{"fra_Latn>eng_Latn": ["a", "b"]}', "{"]
)
def test_a_file_that_holds_no_calibration_is_refused(content, tmp_path):
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


def test_another_json_file_is_no_calibration(tmp_path):
    file = tmp_path / "xsim.json"
    file.write_text('{"model": "m", "rows": []}', encoding="utf-8")
    with pytest.raises(ValueError, match="xsim.json was not written by hf-echo data calibrate"):
        DirectionThreshold(calibrated=str(file))
