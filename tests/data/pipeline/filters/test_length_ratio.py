"""Length ratios against lengths made by rule, and the fit against loops and invariances."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from hf_echo.data.pipeline.filters import LengthRatio
from hf_echo.data.pipeline.filters.length_ratio import SAMPLE

FACTOR = {"zho_Hans": 0.35, "deu_Latn": 1.2, "eng_Latn": 1.0}


@pytest.fixture
def corpus(rows):
    """corpus(n, source_lang, target_lang, seed): lengths of language l are FACTOR[l] times a common one, with noise."""

    def make(n, source_lang, target_lang="eng_Latn", seed=0, spread=0.15):
        rng = np.random.default_rng(seed)
        common = np.exp(rng.uniform(np.log(20), np.log(300), n))
        s, t = (common * FACTOR[lang] * np.exp(rng.normal(0, spread, n)) for lang in (source_lang, target_lang))
        pairs = [(f"{i} ".ljust(max(2, round(a)), "s"), "t" * max(1, round(b))) for i, (a, b) in enumerate(zip(s, t))]
        return rows(*pairs, source_lang=source_lang, target_lang=target_lang)

    return make


def test_expected_lengths_are_found(corpus):
    fitted = LengthRatio().fit([corpus(1500, "zho_Hans"), corpus(1500, "deu_Latn", seed=1)])
    for lang, factor in FACTOR.items():
        assert np.exp(fitted.languages[lang]) == pytest.approx(factor, rel=0.04)
    middle, spread = fitted.directions["zho_Hans>eng_Latn"]
    assert abs(middle) < 0.05 and 0.1 < spread < 0.15 * np.sqrt(2) * 1.1


def test_the_same_length_is_right_in_one_language_and_wrong_in_another(corpus, rows):
    fitted = LengthRatio().fit([corpus(1500, "zho_Hans"), corpus(1500, "deu_Latn", seed=1)])
    pairs = [("x" * 35, "y" * 100)] * 2 + [("x" * 120, "y" * 100)] * 2
    table = rows(*pairs, source_lang=["zho_Hans", "deu_Latn"] * 2)
    assert fitted.keep(table).tolist() == [True, False, False, True]
    # two words against one: no outlier, though the ratio is 3
    assert fitted.keep(rows(("sss sss", "tt"), source_lang="deu_Latn")).all()


def test_clean_rows_stay_and_swapped_ones_go(corpus):
    table = corpus(2000, "deu_Latn")
    fitted = LengthRatio().fit([table])
    swapped = table.set_column(2, "target", pa.array(table["target"].to_pylist()[::-1]))
    assert (~fitted.keep(table)).mean() < 0.01 < 0.4 < (~fitted.keep(swapped)).mean()


def test_a_direction_never_seen_goes_by_its_languages(corpus):
    fitted = LengthRatio().fit([corpus(1500, "zho_Hans"), corpus(1500, "deu_Latn", seed=1)])
    table = corpus(500, "zho_Hans", "deu_Latn", seed=2)
    assert "zho_Hans>deu_Latn" not in fitted.directions
    assert fitted.keep(table).mean() > 0.97
    assert abs(np.median(fitted.scores(table))) < 0.3
    unknown = table.set_column(1, "source_lang", pa.array(["wol_Latn"] * 500))
    assert fitted.keep(unknown).all()


def test_few_rows_give_a_language_but_no_direction(corpus):
    fitted = LengthRatio(min_rows=200).fit([corpus(50, "zho_Hans"), corpus(300, "deu_Latn", seed=1)])
    assert set(fitted.directions) == {"deu_Latn>eng_Latn"}
    assert np.exp(fitted.languages["zho_Hans"]) == pytest.approx(0.35, rel=0.1)


def test_the_fit_does_not_depend_on_order_or_blocks(corpus):
    table = corpus(SAMPLE + 2000, "deu_Latn")
    shuffled = table.take(pa.array(np.random.default_rng(3).permutation(len(table))))
    one = LengthRatio().fit([table])
    assert LengthRatio().fit([shuffled.slice(i, 700) for i in range(0, len(table), 700)]) == one
    assert one.fit([corpus(10, "zho_Hans")]) is one


def test_effects_of_languages_are_weighted_least_squares():
    from hf_echo.data.pipeline.filters.length_ratio import _language_effects

    rng = np.random.default_rng(0)
    codes = ["aaa_Latn", "bbb_Latn", "ccc_Latn", "eng_Latn"]
    pairs = [(a, b) for a in codes for b in codes if a != b][:9]
    medians, rows = dict(zip(pairs, rng.normal(size=9))), dict(zip(pairs, rng.integers(1, 50, 9).tolist()))
    found = _language_effects(medians, rows)
    design = np.array([[(c == a) - (c == b) for c in codes[:3]] for a, b in pairs], float)  # English is 0
    weight = np.sqrt([rows[pair] for pair in pairs])
    expected = np.linalg.lstsq(design * weight[:, None], weight * list(medians.values()), rcond=None)[0]
    assert [found[c] for c in codes] == pytest.approx([*expected, 0.0])


def test_it_must_be_fitted(rows):
    with pytest.raises(ValueError, match="call fit"):
        LengthRatio().keep(rows(("a", "b")))
    with pytest.raises(ValueError, match="limit=0"):
        LengthRatio(limit=0)
