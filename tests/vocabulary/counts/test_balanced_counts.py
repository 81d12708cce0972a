"""Counts that are balanced over languages and kinds of text, by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from hf_echo.data.sampling import unimax
from hf_echo.vocabulary.counts.count import Source

from .toy_counts import count, hand_made


def test_balanced_by_hand(tmp_path):
    counts = hand_made(tmp_path)
    assert counts.characters == {"fra_Latn": 50, "deu_Latn": 20, "wol_Latn": 2}
    assert counts.shares() == pytest.approx(unimax(counts.characters))
    third = Fraction(1, 3)
    truth = {  # a third each (fewer than 126 languages); fra half parallel, half monolingual
        " aa": third / 2 / 10 + third / 20,
        " bb": third / 2 / 10,
        " aaa": third / 2 / 10,
        " bbb": third / 2 * 10 / 40,
        " ccccc": third / 20,
        " d": third / 20,
        " eeeeeeee": third / 20,
        " z": third / 2,
    }
    total = 1_000_003
    whole = {w: int(f * total / sum(truth.values()) + Fraction(1, 2)) for w, f in truth.items()}
    balanced = counts.balanced(total=total)
    assert balanced == whole
    assert list(balanced) == sorted(whole, key=lambda w: (-whole[w], w))
    assert all(type(n) is int for n in balanced.values())


def test_balanced_options(tmp_path):
    counts = hand_made(tmp_path)
    capped = counts.shares(top_n=1, max_upsampling=5)
    assert capped == pytest.approx({"fra_Latn": 5 / 11, "deu_Latn": 5 / 11, "wol_Latn": 1 / 11})
    weighted = counts.shares(language_weights={"wol_Latn": 4})
    assert weighted == pytest.approx({"fra_Latn": 1 / 6, "deu_Latn": 1 / 6, "wol_Latn": 4 / 6})
    assert " z" not in counts.balanced(language_weights={"wol_Latn": 0})
    assert counts.balanced(min_count=2) == {" bbb": 10**9}
    assert counts.balanced(total=4) == {" z": 2, " bbb": 1}  # 2.05 and 0.51; " aa" has 0.41


def test_kinds_weigh_alike(tmp_path):
    """A language's monolingual text may be a hundred times its parallel text: each is half the sample."""
    rows = [
        Source([("fra_Latn", "aaaa")], kind="parallel"),
        Source([("fra_Latn", "bbbb")] * 100, kind="monolingual"),
    ]
    balanced = count(rows, tmp_path / "c.parquet").balanced()
    assert balanced == {" aaaa": 500_000_000, " bbbb": 500_000_000}


def test_wrong_weights_and_empty_languages(tmp_path):
    counts = hand_made(tmp_path)
    with pytest.raises(ValueError, match="'ell_Grek', which .*hand.parquet does not have"):
        counts.balanced(language_weights={"ell_Grek": 2})
    with pytest.raises(ValueError, match="fra_Latn has weight -1"):
        counts.balanced(language_weights={"fra_Latn": -1})
    with pytest.raises(ValueError, match="every language has weight 0"):
        counts.shares(language_weights=dict.fromkeys(counts.languages, 0))
    with pytest.raises(ValueError, match="no word was seen 99 times: lower the smallest count"):
        counts.balanced(min_count=99)
    entries = [replace(e, characters=0) if e.lang == "wol_Latn" else e for e in counts.entries]
    empty = replace(counts, entries=tuple(entries))
    with pytest.raises(ValueError, match="wol_Latn is empty"):
        empty.balanced()
    assert " z" not in empty.balanced(language_weights={"wol_Latn": 0})
