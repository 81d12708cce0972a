"""Noise injected into the built-in corpus: its rows are known, and the filters find them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from hf_echo.corpora.builtin import builtin_parallel
from hf_echo.data.pipeline.filters import build
from hf_echo.data.pipeline.filters.injection import CLEAN, MISPAIRED, OTHER_TEXT, SAME_MEANING, inject
from hf_echo.data.pipeline.filters.threshold import calibrate, score


@pytest.fixture(scope="module")
def corpus() -> pa.Table:
    return builtin_parallel(600).with_format("arrow")[:]


def test_what_was_spoilt_is_told(corpus):
    spoilt, kinds = inject(corpus, share=0.1, seed=1)
    same = np.array(spoilt["target"].to_pylist()) == np.array(corpus["target"].to_pylist())
    assert (same == (kinds == CLEAN)).all()
    assert spoilt.drop_columns(["target"]).equals(corpus.drop_columns(["target"]))
    assert (kinds == MISPAIRED).sum() == pytest.approx(len(corpus) / 10, rel=0.05)
    wrong = np.isin(kinds, [SAME_MEANING, OTHER_TEXT])
    assert wrong.sum() == len(corpus) / 10
    langs = dict(zip(corpus["source"].to_pylist(), corpus["source_lang"].to_pylist()))
    english = dict(zip(corpus["source"].to_pylist(), corpus["target"].to_pylist()))
    for row in np.flatnonzero(wrong):
        text = spoilt["target"][row].as_py()
        assert langs[text] != corpus["source_lang"][row].as_py()
        assert (english[text] == corpus["target"][row].as_py()) == (kinds[row] == SAME_MEANING)
    directions = [
        {kinds[i] for i in np.flatnonzero(np.array(corpus["source_lang"]) == code)} for code in set(langs.values())
    ]
    assert all(MISPAIRED in found for found in directions)
    again, kinds_again = inject(corpus, share=0.1, seed=1)
    assert again.equals(spoilt) and (kinds == kinds_again).all()
    with pytest.raises(ValueError, match="share=0.7"):
        inject(corpus, share=0.7)


def test_mispaired_targets_change_places(corpus):
    spoilt, kinds = inject(corpus, share=0.1)
    rows = np.flatnonzero(kinds == MISPAIRED)
    before, after = (sorted(table["target"].take(pa.array(rows)).to_pylist()) for table in (corpus, spoilt))
    assert np.mean([a == b for a, b in zip(before, after)]) > 0.9  # but for those that drew their own text


def test_an_oracle_threshold_finds_all_noise(corpus):
    """A scorer with the right pairs and random noise, calibrated on other rows."""
    right = set(zip(corpus["source"].to_pylist(), corpus["target"].to_pylist()))
    rng = np.random.default_rng(0)

    def scorer(sources, targets, source_langs, target_langs):
        return np.array([0.8 if pair in right else 0.1 for pair in zip(sources, targets)]) + rng.normal(
            0, 0.05, len(sources)
        )

    spoilt, kinds = inject(corpus)
    filter_ = calibrate([corpus.slice(0, 2000)], scorer, k=3)
    keep = filter_.keep(score(spoilt, scorer))
    assert not keep[kinds != CLEAN].any() and keep[kinds == CLEAN].mean() > 0.99


def test_language_and_length_on_the_builtin_corpus(corpus):
    pytest.importorskip("heliport")
    spoilt, kinds = inject(corpus)
    wrong = np.isin(kinds, [SAME_MEANING, OTHER_TEXT])
    # sentences of five words: the identifier is asked about all of them
    keep = build({"language_id": {"min_letters": 12}}).keep(spoilt)
    assert (~keep[wrong]).mean() > 0.8 and keep[~wrong].mean() > 0.97
    fitted = build("length_ratio").fit([spoilt])
    lengths = fitted.keep(spoilt)
    assert lengths[kinds == CLEAN].mean() > 0.98
    assert (~lengths[kinds != CLEAN]).mean() > 2 * (~lengths[kinds == CLEAN]).mean()
    assert build("sanity").keep(corpus).all()
