"""Rows whose embedding is zero are left out: the others give what they give alone."""

import numpy as np
import pytest

from hf_echo.evaluation import xsim
from hf_echo.search import align, mine
from hf_echo.search.blocks import Rows

ZEROS = [3, 11]  # of 20 rows
KEPT = np.delete(np.arange(20), ZEROS)


@pytest.fixture
def sides():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 8)).astype(np.float32)
    y = x + 0.1 * rng.normal(size=x.shape).astype(np.float32)
    x[ZEROS] = 0
    return x, y


@pytest.mark.parametrize("block", [4, 65_536])
@pytest.mark.parametrize("order", ["C", "F"])
def test_mined_pairs_are_those_of_the_other_rows(sides, block, order):
    x, y = sides

    mined = mine(np.asarray(x, order=order), np.asarray(y, order=order), block=block)

    # Mining without the zero rows; the numbers are those of the whole side.
    alone = mine(x[KEPT], y)
    np.testing.assert_array_equal(mined.sources, KEPT[alone.sources])
    np.testing.assert_array_equal(mined.targets, alone.targets)
    np.testing.assert_array_equal(mined.scores, alone.scores)


def test_what_is_left_out_is_counted(sides, caplog):
    mine(*sides)

    assert "x: left out 2 (rows whose embedding is zero, the first is row 3)" in caplog.text


def test_shards_without_some_rows_read_as_one_array(sides):
    x, _ = sides
    rows = Rows([x[:5], x[5:14], x[14:]], "x").with_direction()

    np.testing.assert_array_equal(rows.raw(2, 12), x[KEPT[2:12]])


def test_a_side_of_zeros_alone_is_refused(sides):
    with pytest.raises(ValueError, match="x: all 20 embeddings are zero"):
        mine(np.zeros((20, 8)), sides[1])


@pytest.mark.parametrize("margin", ["cosine", "ratio"])
def test_xsim_is_that_of_the_other_pairs(sides, margin):
    x, y = sides

    result = xsim(x, y, margin=margin)

    # xsim without the pairs of a zero vector.
    alone = xsim(x[KEPT], y[KEPT], margin=margin)
    assert (result.errors, result.count, result.left_out) == (alone.errors, 18, 2)
    np.testing.assert_array_equal(result.predictions[KEPT], KEPT[alone.predictions])
    np.testing.assert_array_equal(result.predictions[ZEROS], -1)


def test_alignment_does_not_depend_on_the_order_in_memory(sides):
    x, y = sides

    beads = align(np.asfortranarray(x[KEPT]), np.asfortranarray(y))

    assert repr(beads) == repr(align(x[KEPT], y))
