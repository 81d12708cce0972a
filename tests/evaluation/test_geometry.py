"""Geometry against numpy and scipy written out, against known values."""

import json

import numpy as np
import pytest
from scipy.stats import entropy, pearsonr
from sklearn.metrics import calinski_harabasz_score

from hf_echo.evaluation.geometry import (
    effective_rank,
    encode_parallel,
    evaluate_geometry,
    feature_spread,
    invariance,
    principal_ratio,
    rsim,
    singular_values,
    unit,
)

pytestmark = pytest.mark.trains

LANGUAGES = ["eng_Latn", "fra_Latn", "rus_Cyrl", "kor_Hang"]


def space(rows: int = 40, size: int = 8) -> dict[str, np.ndarray]:
    """Four languages: shared meanings, an offset of each language, noise of its own strength."""
    rng = np.random.default_rng(0)
    meaning = rng.normal(size=(rows, size)) * np.linspace(2, 0.5, size)
    parts = {}
    for number, lang in enumerate(LANGUAGES):
        offset = 1 + 0.3 * number * rng.normal(size=size)
        noise = 0.5 * (number + 1) * rng.normal(size=(rows, size))
        parts[lang] = meaning + offset + noise
    return parts


def joined(parts: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate(list(parts.values()))


def unit_rows_near_each_other() -> np.ndarray:
    """Collapsed to one direction, with a mean near 0, as trained models have."""
    rng = np.random.default_rng(0)
    direction = rng.choice([-1.0, 1.0], size=64)
    return unit(direction + 0.08 * rng.normal(size=(4000, 64)))


def test_spread_of_random_directions_is_near_1():
    rows = unit(np.random.default_rng(0).normal(size=(4000, 64)))

    assert feature_spread(rows)["spread"] > 0.98


def test_spread_shows_a_partial_collapse():
    assert feature_spread(unit_rows_near_each_other())["spread"] < 0.1


def test_spread_of_equal_rows_is_0():
    assert feature_spread(np.ones((5, 64)))["spread"] < 1e-6


def test_std_of_unit_rows_does_not_show_collapse():
    spread = feature_spread(unit_rows_near_each_other())

    assert spread["std"] == pytest.approx(np.sqrt(1 / 64 - spread["mean"] ** 2), rel=1e-9)


@pytest.mark.parametrize(
    ("size", "mean", "printed"), [(1024, -0.0008, 0.0312), (768, 0.0049, 0.0358)]
)
def test_printed_std_is_that_of_any_unit_rows(size, mean, printed):
    """ECHO Table 15, mE5 and LaBSE."""
    rows = unit(np.random.default_rng(0).normal(size=(500, size)) + mean * size**0.5)

    assert feature_spread(rows)["std"] == pytest.approx(printed, abs=6e-5)


@pytest.mark.parametrize(("rows", "size"), [(40, 8), (3, 20)])
def test_spectrum_is_the_svd_of_the_joined_matrix(rows, size):
    """12 rows of 20 features have 12 singular values."""
    matrix = joined(space(rows, size))

    values = singular_values(matrix)

    np.testing.assert_allclose(values, np.linalg.svd(matrix, compute_uv=False), rtol=1e-7)


def test_effective_rank_is_the_exponential_of_the_entropy():
    values = np.array([3.0, 2.0, 1.0, 0.0])

    assert effective_rank(values) == pytest.approx(np.exp(entropy(values / 6)))


def test_principal_ratio_is_the_formula_written_out():
    matrix = joined(space())
    rows = unit(matrix)
    _, eigenvectors = np.linalg.eigh(rows.T @ rows)
    # Z of each eigenvector with both signs, one by one.
    z = []
    for eigenvector in eigenvectors.T:
        z.append(np.exp(rows @ eigenvector).sum())
        z.append(np.exp(rows @ -eigenvector).sum())

    assert principal_ratio(matrix) == pytest.approx(min(z) / max(z))


def kl(rows0: np.ndarray, rows1: np.ndarray, shrinkage: float) -> float:
    """Kullback-Leibler divergence between the Gaussians of two languages."""
    covariances = []
    for rows in (rows0, rows1):
        covariance = np.cov(rows.T, bias=True)
        covariances.append(
            (1 - shrinkage) * covariance + shrinkage * np.trace(covariance) / 8 * np.eye(8)
        )
    first, second = covariances
    gap = rows1.mean(0) - rows0.mean(0)
    log_ratio = np.linalg.slogdet(second).logabsdet - np.linalg.slogdet(first).logabsdet
    return (
        np.trace(np.linalg.solve(second, first))
        + gap @ np.linalg.solve(second, gap)
        - 8
        + log_ratio
    ) / 2


@pytest.mark.parametrize("shrinkage", [0.0, 0.1])
def test_invariance_is_the_loop_over_pairs(shrinkage):
    parts = space()
    # Both divergences of a language with each other one.
    expected = []
    for lang in LANGUAGES:
        divergences = []
        for other in LANGUAGES:
            if other != lang:
                divergences.append(kl(parts[lang], parts[other], shrinkage))
                divergences.append(kl(parts[other], parts[lang], shrinkage))
        expected.append(np.mean(divergences))

    np.testing.assert_allclose(invariance(parts, shrinkage=shrinkage), expected)


DEVIATION_1 = np.array([[-1.0], [1.0], [-1.0], [1.0]])


def test_invariance_of_equal_shapes():
    """3 apart in units of their deviation: KL is 3 squared / 2."""
    divergence = invariance({"a": DEVIATION_1, "b": DEVIATION_1 + 3}, shrinkage=0)

    assert divergence.mean() == pytest.approx(4.5)


def test_invariance_of_a_language_that_is_twice_as_wide():
    # The divergence of normal distributions with deviations 1 and 2, in closed form.
    to_narrow = (4 - 1 - np.log(4)) / 2
    to_wide = (1 / 4 - 1 + np.log(4)) / 2

    divergence = invariance({"a": DEVIATION_1, "b": 2 * DEVIATION_1}, shrinkage=0)

    assert divergence.mean() == pytest.approx((to_narrow + to_wide) / 2)


def test_rsim_is_the_pearson_of_all_cosines():
    parts = space(rows=12)
    # scipy's correlation of the cosines above the diagonal.
    upper = np.triu_indices(12, 1)
    cosines = {}
    for lang, rows in parts.items():
        rows = unit(rows)
        cosines[lang] = (rows @ rows.T)[upper]
    expected = []
    for lang in LANGUAGES:
        others = [cosines[other] for other in LANGUAGES if other != lang]
        expected.append(np.mean([pearsonr(cosines[lang], other).statistic for other in others]))

    np.testing.assert_allclose(rsim(parts), expected)


def test_rsim_of_many_rows_is_that_of_evenly_spaced_ones(monkeypatch):
    parts = space(rows=9)
    every_second = {lang: rows[::2] for lang, rows in parts.items()}
    monkeypatch.setattr(f"{rsim.__module__}.MAX_ROWS", 5)

    np.testing.assert_allclose(rsim(parts), rsim(every_second))


@pytest.fixture(scope="module")
def geometry():
    return evaluate_geometry({lang: rows.astype(np.float32) for lang, rows in space().items()})


def test_shape_of_the_space_is_in_the_row(geometry):
    row = geometry.to_row()

    assert json.loads(geometry.to_json()) == row
    assert row["languages"] == 4
    assert row["rows"] == 40
    assert row["dimensions"] == 8


def test_measures_of_all_rows_are_numpys(geometry):
    rows = joined(space())
    # NumPy on all rows as one matrix.
    centred_values = np.linalg.svd(rows - rows.mean(0), compute_uv=False)

    assert geometry.mean == pytest.approx(rows.mean(), rel=1e-4)
    assert geometry.std == pytest.approx(rows.std(), rel=1e-4)
    assert geometry.feature_std == pytest.approx(unit(rows).std(axis=0).mean(), rel=1e-4)
    assert geometry.centred_effective_rank == pytest.approx(
        effective_rank(centred_values), rel=1e-4
    )


def test_calinski_harabasz_has_a_cluster_a_meaning(geometry):
    expected = calinski_harabasz_score(joined(space()), np.tile(np.arange(40), 4))

    assert geometry.calinski_harabasz == pytest.approx(expected, rel=1e-4)


def test_the_rsim_of_a_space_is_the_mean_over_its_languages(geometry):
    assert geometry.rsim == pytest.approx(np.mean(rsim(space())), rel=1e-4)


def test_the_invariance_of_a_space_is_the_mean_over_its_languages(geometry):
    assert geometry.invariance == pytest.approx(np.mean(invariance(space())), rel=1e-4)


def test_table_by_language(geometry):
    table = geometry.by_language()

    assert [row["lang"] for row in table.rows] == LANGUAGES
    assert table.rows[2]["rsim"] == pytest.approx(rsim(space())[2], rel=1e-4)
    assert table.rows[2]["invariance"] == pytest.approx(invariance(space())[2], rel=1e-4)


def test_one_language_has_no_measures_of_pairs():
    result = evaluate_geometry({"eng_Latn": space()["eng_Latn"]})

    assert result.invariance is result.calinski_harabasz is result.rsim is None
    assert result.by_language().rows == []


def broken(row, value):
    parts = space()
    parts["rus_Cyrl"][row] = value
    return parts


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            broken(7, np.nan),
            "'rus_Cyrl' row 7: a NaN, infinite or zero embedding",
        ),
        ({"a": np.ones((4, 3)) / 3}, "all 4 rows of 'a' are the same"),
        # They differ by the last bit of a float64.
        ({"a": np.array([[1000.0], [np.nextafter(1000.0, 0)]])}, "all 2 rows of 'a' are the same"),
    ],
)
def test_bad_input_names_language_or_row(parts, message):
    with pytest.raises(ValueError, match=message):
        evaluate_geometry(parts)


def test_as_many_dimensions_as_rows_need_shrinkage():
    with pytest.raises(ValueError, match="8 rows in 8 dimensions"):
        invariance(space(rows=8), shrinkage=0)


def nway(lang, ids):
    return [{"id": i, "lang": lang, "text": f"{lang} {i}"} for i in ids]


def encode(texts, lang):
    """The number of each text, beside the length of its language."""
    return np.array([[len(lang), float(text.split()[1])] for text in texts])


TABLE = nway("eng_Latn", "12345") + nway("fra_Latn", "5431") + nway("de", "1345")


def test_row_i_of_all_languages_is_the_same_sentence():
    arrays = encode_parallel(encode, TABLE)

    assert list(arrays) == ["eng_Latn", "fra_Latn", "de"]
    for array in arrays.values():
        assert array[:, 1].tolist() == [1, 3, 4, 5]


def test_languages_are_embedded_in_the_order_asked():
    assert list(encode_parallel(encode, TABLE, ["de", "eng_Latn"])) == ["de", "eng_Latn"]


@pytest.mark.parametrize(
    ("languages", "message"),
    [(["xyz"], "no rows in 'xyz'"), (None, "'fra_Latn' has only 2: leave it out")],
)
def test_languages_without_enough_rows_are_told(languages, message):
    rows = nway("eng_Latn", "1234") + nway("fra_Latn", "12")

    with pytest.raises(ValueError, match=message):
        encode_parallel(encode, rows, languages)
