"""Geometry against numpy, scipy and scikit-learn on the joined matrix, against invariances and known values."""

from __future__ import annotations

import json
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import ortho_group, pearsonr, spearmanr
from sklearn.metrics import calinski_harabasz_score

from hf_echo.evaluation.space.geometry import evaluate_geometry, feature_spread, principal_ratio, singular_values
from hf_echo.evaluation.space.language_arrays import encode_parallel
from hf_echo.evaluation.space.language_geometry import calinski_harabasz, invariance, language_bias, rsim

pytestmark = pytest.mark.trains

LANGUAGES = ["eng_Latn", "fra_Latn", "rus_Cyrl", "kor_Hang"]


def space(rows: int = 40, size: int = 8, noise: float = 0.5, seed: int = 0) -> list[tuple[str, np.ndarray]]:
    """Four languages: shared meanings, an offset of each language, noise of its own strength."""
    rng = np.random.default_rng(seed)
    meaning = rng.normal(size=(rows, size)) * np.linspace(2, 0.5, size)
    return [
        (lang, 1.0 + meaning + 0.3 * i * rng.normal(size=size) + noise * (i + 1) * rng.normal(size=(rows, size)))
        for i, lang in enumerate(LANGUAGES)
    ]


def mapped(parts, function):
    return [(lang, function(rows)) for lang, rows in parts]


def joined(parts):
    return np.concatenate([rows for _, rows in parts])


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_spread_is_numpys_on_the_joined_matrix():
    parts = space()
    every = joined(parts)
    found = feature_spread(parts)
    assert found.mean == pytest.approx(every.mean())
    assert found.std == pytest.approx(every.std())
    assert found.feature_std == pytest.approx(unit(every).std(axis=0).mean())
    assert found.spread == pytest.approx(found.feature_std * np.sqrt(8))


def test_spread_shows_collapse_and_the_papers_std_does_not():
    rng = np.random.default_rng(0)
    wide = unit(rng.normal(size=(4000, 64)))
    narrow = unit(rng.normal(size=64) + 0.01 * rng.normal(size=(4000, 64)))
    signs = narrow * np.where(np.arange(64) % 2, 1, -1)  # a mean near 0, as trained models have
    a, b = feature_spread([("x", wide)]), feature_spread([("x", signs)])
    assert a.spread > 0.98 and b.spread < 0.02
    assert a.std == pytest.approx(1 / 8, rel=1e-3)
    assert b.std == pytest.approx(np.sqrt(1 / 64 - b.mean**2), rel=1e-9)
    assert feature_spread([("x", np.tile(wide[:1], (5, 1)))]).spread < 1e-6


@pytest.mark.parametrize(("size", "mean", "printed"), [(1024, -0.0008, 0.0312), (768, 0.0049, 0.0358)])
def test_table_15_follows_from_length_one(size, mean, printed):
    """mE5 and LaBSE: the std of ECHO Table 15 is what any vectors of length 1 with that mean have."""
    assert np.sqrt(1 / size - mean**2) == pytest.approx(printed, abs=6e-5)


def test_spectrum_is_the_svd_of_the_joined_matrix():
    for parts in (space(), space(rows=3, size=20)[:2]):  # 6 rows of 20 features: 6 singular values
        every = joined(parts)
        found = singular_values(parts)
        np.testing.assert_allclose(found.singular_values, np.linalg.svd(every, compute_uv=False), rtol=1e-7)
        centred = np.linalg.svd(every - every.mean(0), compute_uv=False)
        np.testing.assert_allclose(found.centred, centred, rtol=1e-7, atol=1e-6)
        assert found.normalised[0] == 1
        shares = found.singular_values / found.singular_values.sum()
        assert found.effective_rank == pytest.approx(np.exp(-(shares * np.log(shares)).sum()))


def test_principal_ratio_is_the_formula_written_out():
    parts = space()
    every = unit(joined(parts))
    vectors = np.linalg.eigh(every.T @ every)[1].T
    z = [np.exp(every @ (sign * v)).sum() for v in vectors for sign in (1, -1)]
    assert principal_ratio(parts) == pytest.approx(min(z) / max(z))
    rng = np.random.default_rng(1)
    assert principal_ratio([("x", rng.normal(size=(5000, 6)))]) > 0.95
    assert principal_ratio([("x", rng.normal(size=(5000, 6)) + 5)]) < 0.2


def kl(mean0, cov0, mean1, cov1):
    gap = mean1 - mean0
    return 0.5 * (
        np.trace(np.linalg.solve(cov1, cov0))
        + gap @ np.linalg.solve(cov1, gap)
        - len(gap)
        + np.linalg.slogdet(cov1)[1]
        - np.linalg.slogdet(cov0)[1]
    )


@pytest.mark.parametrize("shrinkage", [0.0, 0.1])
def test_invariance_is_the_loop_over_pairs(shrinkage):
    parts = space()
    gaussians = {}
    for lang, rows in parts:
        cov = np.cov(rows.T, bias=True)
        cov = (1 - shrinkage) * cov + shrinkage * np.trace(cov) / 8 * np.eye(8)
        gaussians[lang] = rows.mean(0), cov
    pair = {
        (a, b): (kl(*gaussians[a], *gaussians[b]) + kl(*gaussians[b], *gaussians[a])) / 2
        for a, b in permutations(LANGUAGES, 2)
    }
    found = invariance(parts, shrinkage=shrinkage)
    assert found.invariance == pytest.approx(sum(pair.values()) / 12)
    for lang in LANGUAGES:
        assert found.by_language[lang] == pytest.approx(sum(v for (a, _), v in pair.items() if a == lang) / 3)


def test_invariance_of_known_gaussians():
    """Two equal shapes, 1 apart in units of their own deviation: KL is 1/2. One twice as wide: by hand."""
    x = np.array([[-1.0], [1.0]])
    assert invariance([("a", x), ("b", x + 1)], shrinkage=0).invariance == pytest.approx(0.5)
    wide = (0.5 * (4 - 1 - np.log(4)) + 0.5 * (0.25 - 1 + np.log(4))) / 2
    assert invariance([("a", x), ("b", 2 * x)], shrinkage=0).invariance == pytest.approx(wide)
    same = np.random.default_rng(0).normal(size=(30, 5))
    assert invariance([("a", same), ("b", same[::-1])]).invariance == pytest.approx(0, abs=1e-9)


def test_measures_do_not_change_when_the_space_is_turned_shifted_or_scaled():
    parts = space()
    turn = ortho_group.rvs(8, random_state=0)
    turned = mapped(parts, lambda rows: rows @ turn)
    scaled = mapped(parts, lambda rows: 7 * rows)
    shifted = mapped(parts, lambda rows: rows + 100)
    for measure, same in (
        (lambda p: invariance(p).invariance, (turned, scaled, shifted)),
        (lambda p: calinski_harabasz(p).index, (turned, scaled, shifted)),
        (lambda p: rsim(p).rsim, (turned, scaled)),
        (principal_ratio, (turned, scaled)),
        (lambda p: singular_values(p).effective_rank, (turned, scaled)),
        (lambda p: feature_spread(p).spread, (scaled,)),
    ):
        for other in same:
            assert measure(other) == pytest.approx(measure(parts), rel=1e-6)


def test_calinski_harabasz_is_scikit_learns():
    parts = space()
    meanings = np.tile(np.arange(40), 4)
    found = calinski_harabasz(parts)
    assert found.index == pytest.approx(calinski_harabasz_score(joined(parts), meanings))
    assert (found.meanings, found.languages) == (40, 4)
    assert calinski_harabasz(iter(parts)).index == pytest.approx(found.index)  # one pass is enough
    far = mapped(parts, lambda rows: rows + 1e6)
    assert calinski_harabasz(far).index == pytest.approx(found.index, rel=1e-6)


def test_rsim_is_the_pearson_of_all_cosines():
    parts = space(rows=12)
    upper = np.triu_indices(12, 1)
    cosines = {lang: (unit(rows) @ unit(rows).T)[upper] for lang, rows in parts}
    pair = {(a, b): pearsonr(cosines[a], cosines[b]).statistic for a, b in permutations(LANGUAGES, 2)}
    found = rsim(parts)
    assert found.rsim == pytest.approx(sum(pair.values()) / 12)
    assert found.by_language["kor_Hang"] == pytest.approx(sum(v for (a, _), v in pair.items() if a == "kor_Hang") / 3)
    turned = [("a", parts[0][1]), ("b", parts[0][1] @ ortho_group.rvs(8, random_state=0))]
    assert rsim(turned).rsim == pytest.approx(1)  # isomorphic, though no row is near its translation


def test_language_bias_is_the_mean_against_the_joined_list():
    rng = np.random.default_rng(0)
    gold = rng.uniform(0, 5, 50)
    close, far = gold + rng.normal(size=50), gold - 10 + rng.normal(size=50)  # one pair is scored lower
    found = language_bias({"deu-fra": (close, gold), "deu-kor": (far, gold)})
    parts = [spearmanr(s, gold).statistic for s in (close, far)]
    both = spearmanr(np.r_[close, far], np.r_[gold, gold]).statistic
    assert found.bilingual == pytest.approx(50 * sum(parts))
    assert found.bias == pytest.approx(50 * sum(parts) - 100 * both) and found.bias > 20
    assert language_bias({"a": (close, gold), "b": (close, gold)}).bias == pytest.approx(0)


def test_evaluate_geometry_is_its_parts_in_one_row():
    parts = space()
    stored = [(lang, rows.astype(np.float32)) for lang, rows in parts]
    found = evaluate_geometry(stored)
    row = found.to_row()
    assert json.loads(found.to_json()) == row
    assert (row["languages"], row["rows"], row["dimensions"]) == (4, 40, 8)
    for name, value in {
        **feature_spread(parts).to_row(),
        "effective_rank": singular_values(parts).effective_rank,
        "isotropy": principal_ratio(parts),
        "invariance": invariance(parts).invariance,
        "calinski_harabasz": calinski_harabasz(parts).index,
        "rsim": rsim(parts).rsim,
    }.items():
        assert row[name] == pytest.approx(value, rel=1e-4), name
    table = found.by_language()
    assert [line["lang"] for line in table.rows] == LANGUAGES
    assert table.rows[2]["rsim"] == pytest.approx(rsim(parts).by_language["rus_Cyrl"], rel=1e-4)


def test_one_language_has_a_shape_but_no_relations():
    found = evaluate_geometry({"eng_Latn": space()[0][1]})
    assert found.invariance is found.calinski_harabasz is found.rsim is None
    assert found.by_language().rows == []


def broken(row, value):
    parts = space()
    parts[2][1][row] = value
    return parts


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: evaluate_geometry(broken(5, 0.0)), "'rus_Cyrl' row 5 is all zeros"),
        (lambda: invariance([("a", np.ones((1, 3)))]), "'a' has 1 rows, at least 2"),
        (lambda: calinski_harabasz([*space(), ("b", np.ones((9, 8)))]), "'b' has 9 rows and 'eng_Latn' 40"),
        (lambda: calinski_harabasz(space()[:1]), "only one language ('eng_Latn')"),
        (lambda: calinski_harabasz({"a": np.eye(3), "b": np.eye(3)}), "the rows of all 2 languages"),
        (lambda: invariance([("a", np.ones((4, 3)) / 3), ("b", np.eye(3))]), "all 4 rows of 'a' are the same"),
        (lambda: invariance(space(rows=8), shrinkage=0), "'eng_Latn' has 8 rows in 8 dimensions"),
        (lambda: rsim({"a": np.eye(4), "b": np.eye(4)}), "all sentences of 'a' are equally similar"),
        (lambda: principal_ratio(iter(space())), "reads the embeddings twice"),
        (lambda: language_bias({"a": ([1, np.nan], [1, 2]), "b": ([1], [1])}), "the 2 similarities of 'a'"),
        (lambda: language_bias({"a": ([1, 2], [3, 3]), "b": ([1, 2], [1, 2])}), "the 2 ratings of 'a'"),
    ],
)
def test_bad_input_names_language_and_row(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert message in str(error.value)


def nway(lang, ids):
    return [{"id": i, "lang": lang, "text": f"{lang} {i}"} for i in ids]


def encode(texts, lang):
    return np.array([[len(lang), float(text.split()[1])] for text in texts])


def test_an_nway_table_is_embedded_row_by_row(tmp_path):
    rows = nway("eng_Latn", "12345") + nway("fra_Latn", "5431") + nway("de", "1345")
    stored = encode_parallel(encode, rows, tmp_path)
    for _ in range(2):
        found = {lang: array[:, 1].tolist() for lang, array in stored}
        assert found == {lang: [1, 3, 4, 5] for lang in ("eng_Latn", "fra_Latn", "de")}
    two = encode_parallel(encode, rows, tmp_path, ["de", "eng_Latn"])
    assert [lang for lang, _ in two] == ["de", "eng_Latn"]
    assert two[0][1][:, 0].tolist() == [2] * 4  # not the rows that the folder held before
    assert all(isinstance(array, np.memmap) for _, array in two)


@pytest.mark.parametrize(
    ("languages", "message"), [(["xyz"], "no rows in 'xyz'"), (None, "'fra_Latn' has only 2: leave it out")]
)
def test_an_nway_table_with_holes_is_refused(tmp_path, languages, message):
    with pytest.raises(ValueError, match=message):
        encode_parallel(encode, nway("eng_Latn", "1234") + nway("fra_Latn", "12"), tmp_path, languages)


def test_a_broken_encoder_is_told_at_its_first_language(tmp_path):
    rows = nway("eng_Latn", "1234") + nway("fra_Latn", "1234")
    with pytest.raises(ValueError, match=r"the encoder gave shape \(5, 2\) for 4 texts in 'eng_Latn'"):
        encode_parallel(lambda texts, lang: np.ones((5, 2)), rows, tmp_path)
    with pytest.raises(ValueError, match="'eng_Latn' row 0 has NaN"):
        encode_parallel(lambda texts, lang: np.full((4, 2), np.nan), rows, tmp_path)
