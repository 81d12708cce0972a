"""Geometry against numpy and scipy written out, against invariances and known values."""

import json
import re
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import ortho_group, pearsonr
from sklearn.metrics import calinski_harabasz_score

from hf_echo.evaluation.geometry import (
    calinski_harabasz,
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


def space(rows: int = 40, size: int = 8, noise: float = 0.5, seed: int = 0) -> dict[str, np.ndarray]:
    """Four languages: shared meanings, an offset of each language, noise of its own strength."""
    rng = np.random.default_rng(seed)
    meaning = rng.normal(size=(rows, size)) * np.linspace(2, 0.5, size)
    offsets = [1.0 + 0.3 * i * rng.normal(size=size) for i in range(4)]
    return {
        lang: meaning + offsets[i] + noise * (i + 1) * rng.normal(size=(rows, size)) for i, lang in enumerate(LANGUAGES)
    }


def joined(parts):
    return np.concatenate(list(parts.values()))


def test_spread_shows_collapse_and_the_papers_std_does_not():
    rng = np.random.default_rng(0)
    wide = unit(rng.normal(size=(4000, 64)))
    narrow = unit(rng.normal(size=64) + 0.01 * rng.normal(size=(4000, 64)))
    signs = narrow * np.where(np.arange(64) % 2, 1, -1)  # a mean near 0, as trained models have
    a, b = feature_spread(wide), feature_spread(signs)
    assert a["spread"] > 0.98 and b["spread"] < 0.02
    assert a["std"] == pytest.approx(1 / 8, rel=1e-3)
    assert b["std"] == pytest.approx(np.sqrt(1 / 64 - b["mean"] ** 2), rel=1e-9)
    assert feature_spread(np.tile(wide[:1], (5, 1)))["spread"] < 1e-6
    # mE5 and LaBSE: the std of ECHO Table 15 is what any vectors of length 1 with that mean have
    for size, mean, printed in ((1024, -0.0008, 0.0312), (768, 0.0049, 0.0358)):
        assert np.sqrt(1 / size - mean**2) == pytest.approx(printed, abs=6e-5)


def test_spectrum_is_the_svd_of_the_joined_matrix():
    for every in (joined(space()), joined(space(rows=3, size=20))[:6]):  # 6 rows of 20 features: 6 singular values
        found = singular_values(every)
        np.testing.assert_allclose(found, np.linalg.svd(every, compute_uv=False), rtol=1e-7)
        shares = found / found.sum()
        assert effective_rank(found) == pytest.approx(np.exp(-(shares * np.log(shares)).sum()))


def test_principal_ratio_is_the_formula_written_out():
    every = joined(space())
    rows = unit(every)
    vectors = np.linalg.eigh(rows.T @ rows)[1].T
    z = [np.exp(rows @ (sign * v)).sum() for v in vectors for sign in (1, -1)]
    assert principal_ratio(every) == pytest.approx(min(z) / max(z))
    rng = np.random.default_rng(1)
    assert principal_ratio(rng.normal(size=(5000, 6))) > 0.95
    assert principal_ratio(rng.normal(size=(5000, 6)) + 5) < 0.2


def kl(mean0, cov0, mean1, cov1):
    gap, logs = mean1 - mean0, np.linalg.slogdet(cov1)[1] - np.linalg.slogdet(cov0)[1]
    return 0.5 * (np.trace(np.linalg.solve(cov1, cov0)) + gap @ np.linalg.solve(cov1, gap) - len(gap) + logs)


@pytest.mark.parametrize("shrinkage", [0.0, 0.1])
def test_invariance_is_the_loop_over_pairs(shrinkage):
    parts, gaussians = space(), {}
    for lang, rows in parts.items():
        cov = np.cov(rows.T, bias=True)
        gaussians[lang] = rows.mean(0), (1 - shrinkage) * cov + shrinkage * np.trace(cov) / 8 * np.eye(8)
    pair = {
        (a, b): (kl(*gaussians[a], *gaussians[b]) + kl(*gaussians[b], *gaussians[a])) / 2
        for a, b in permutations(LANGUAGES, 2)
    }
    want = [sum(v for (a, _), v in pair.items() if a == lang) / 3 for lang in LANGUAGES]
    np.testing.assert_allclose(invariance(parts, shrinkage=shrinkage), want)


def test_invariance_of_known_gaussians():
    """Two equal shapes, 1 apart in units of their own deviation: KL is 1/2. One twice as wide: by hand."""
    x = np.array([[-1.0], [1.0], [-1.0], [1.0]])
    assert invariance({"a": x, "b": x + 3}, shrinkage=0).mean() == pytest.approx(4.5)
    wide = (0.5 * (4 - 1 - np.log(4)) + 0.5 * (0.25 - 1 + np.log(4))) / 2
    assert invariance({"a": x, "b": 2 * x}, shrinkage=0).mean() == pytest.approx(wide)
    same = np.random.default_rng(0).normal(size=(30, 5))
    assert invariance({"a": same, "b": same[::-1]}).mean() == pytest.approx(0, abs=1e-9)


def test_rsim_is_the_pearson_of_all_cosines():
    parts = space(rows=12)
    upper = np.triu_indices(12, 1)
    cosines = {lang: (unit(rows) @ unit(rows).T)[upper] for lang, rows in parts.items()}
    pair = {(a, b): pearsonr(cosines[a], cosines[b]).statistic for a, b in permutations(LANGUAGES, 2)}
    np.testing.assert_allclose(rsim(parts), [sum(v for (a, _), v in pair.items() if a == c) / 3 for c in LANGUAGES])
    turned = {"a": parts["eng_Latn"], "b": parts["eng_Latn"] @ ortho_group.rvs(8, random_state=0)}
    assert rsim(turned).mean() == pytest.approx(1)  # isomorphic, though no row is near its translation
    assert rsim(parts, max_rows=5).shape == (4,)


def test_evaluate_geometry_is_its_parts_in_one_row():
    parts = space()
    every, found = joined(parts), evaluate_geometry({lang: rows.astype(np.float32) for lang, rows in parts.items()})
    row = found.to_row()
    assert json.loads(found.to_json()) == row
    assert (row["languages"], row["rows"], row["dimensions"]) == (4, 40, 8)
    for name, value in {
        "mean": every.mean(),
        "std": every.std(),
        "feature_std": unit(every).std(axis=0).mean(),
        "centred_effective_rank": effective_rank(np.linalg.svd(every - every.mean(0), compute_uv=False)),
        "calinski_harabasz": calinski_harabasz_score(every, np.tile(np.arange(40), 4)),
    }.items():
        assert row[name] == pytest.approx(value, rel=1e-4), name
    table = found.by_language()
    assert [line["lang"] for line in table.rows] == LANGUAGES
    assert table.rows[2]["rsim"] == pytest.approx(rsim(parts)[2], rel=1e-4)
    alone = evaluate_geometry({"eng_Latn": parts["eng_Latn"]})
    assert alone.invariance is alone.calinski_harabasz is alone.rsim is None and alone.by_language().rows == []


def test_the_rsim_of_a_space_is_the_mean_over_its_languages():
    parts = space()

    result = evaluate_geometry(parts)

    assert result.rsim == pytest.approx(np.mean(rsim(parts)), rel=1e-9)


def broken(row, value):
    parts = space()
    parts["rus_Cyrl"][row] = value
    return parts


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: evaluate_geometry(broken(7, np.nan)), "'rus_Cyrl' row 7 has NaN"),
        (lambda: rsim(broken(5, 0.0)), "'rus_Cyrl' row 5 has only zeros"),
        (lambda: evaluate_geometry({"a": np.ones(3)}), "'a' has shape (3,)"),
        (lambda: calinski_harabasz(space() | {"b": np.eye(9, 8) + 1}), "'b' has shape (9, 8) and 'eng_Latn' (40, 8)"),
        (lambda: calinski_harabasz([*space().items()] * 2), "'eng_Latn' comes twice"),
        (lambda: calinski_harabasz({"a": np.eye(3)}), "1 languages (a): give at least 2"),
        (lambda: calinski_harabasz({"a": np.eye(3), "b": np.eye(3)}), "the rows of all 2 languages"),
        (lambda: evaluate_geometry({"a": np.ones((4, 3)) / 3}), "all 4 rows of 'a' are the same"),
        (lambda: invariance(space(rows=8), shrinkage=0), "8 rows in 8 dimensions"),
        (lambda: invariance(space(), shrinkage=2), "shrinkage is 2"),
        (lambda: rsim({"a": np.eye(4), "b": np.eye(4)}), "all sentences of 'a' are equally similar"),
        (lambda: evaluate_geometry([]), "0 languages (none)"),
    ],
)
def test_bad_input_names_language_and_row(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def nway(lang, ids):
    return [{"id": i, "lang": lang, "text": f"{lang} {i}"} for i in ids]


def encode(texts, lang):
    return np.array([[len(lang), float(text.split()[1])] for text in texts])


def test_an_nway_table_is_embedded_row_by_row():
    rows = nway("eng_Latn", "12345") + nway("fra_Latn", "5431") + nway("de", "1345")
    found = {lang: array[:, 1].tolist() for lang, array in encode_parallel(encode, rows).items()}
    assert found == {lang: [1, 3, 4, 5] for lang in ("eng_Latn", "fra_Latn", "de")}
    assert list(encode_parallel(encode, rows, ["de", "eng_Latn"])) == ["de", "eng_Latn"]
    holes = nway("eng_Latn", "1234") + nway("fra_Latn", "12")
    for languages, message in ((["xyz"], "no rows in 'xyz'"), (None, "'fra_Latn' has only 2: leave it out")):
        with pytest.raises(ValueError, match=message):
            encode_parallel(encode, holes, languages)
    with pytest.raises(ValueError, match=r"the encoder gave shape \(5, 2\) for 4 texts in 'eng_Latn'"):
        encode_parallel(lambda texts, lang: np.ones((5, 2)), nway("eng_Latn", "1234"))
