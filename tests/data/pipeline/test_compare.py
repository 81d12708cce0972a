"""Key filters, caps and samples against plain loops."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_echo.data.pipeline import Sampling, Step, compare


@dataclass(frozen=True)
class TextKeys:
    """Keys are the numbers that the two texts spell."""

    columns: tuple = ("source", "target")
    shared_keys: bool = False

    def keys(self, table):
        columns = [table[column].to_pylist() for column in self.columns]
        return np.array(columns).astype(np.uint64).T


@dataclass(frozen=True)
class Cap:
    """German has no group, so that all of it stays."""

    limit: int

    def groups(self, table):
        langs = np.array(table["source_lang"].to_pylist(), object)
        return np.where(langs == "deu_Latn", None, langs)

    def rank(self, table):
        return np.array(table["quality"].to_pylist(), float)


def table_of(source, target, langs=None, quality=None):
    """Rows of numbers as texts; their own numbers are multiples of three."""
    n = len(source)
    return pa.table(
        {
            "source": list(map(str, source)),
            "source_lang": langs or ["fra_Latn"] * n,
            "target": list(map(str, target)),
            "target_lang": ["eng_Latn"] * n,
            "provenance": ["primary"] * n,
            "quality": pa.array([None] * n if quality is None else quality, pa.float64()),
            "row": pa.array(3 * np.arange(n), pa.uint64()),
        }
    )


def compared(step, table, folder, size=7):
    """(rows,) copies of each row, from blocks of ``size`` rows."""
    folder.mkdir(exist_ok=True)
    files = []
    for first in range(0, len(table), size):
        block = table.slice(first, size)
        if not isinstance(step, Sampling):
            block = compare.entries(step, block)
        files.append(folder / f"b{first:06d}.parquet")
        pq.write_table(block, files[-1])

    compare.compare(step, files, folder / "copies.parquet")

    # the result names, in order, the rows that have not one copy
    changed = pq.read_table(folder / "copies.parquet")
    rows = changed["row"].to_numpy() // 3
    changed_copies = changed["copies"].to_numpy()
    assert (np.diff(rows) > 0).all()
    assert (changed_copies != 1).all()
    copies = np.ones(len(table), int)
    copies[rows] = changed_copies
    return copies


def greedy(keys, shared=False):
    """Whether each row stays, when a row goes that has a key of one that stays."""
    seen = set()
    stays = []
    for first, second in keys.tolist():
        names = ("", "") if shared else ("source", "target")
        keys_of_row = {(names[0], first), (names[1], second)}
        keys_of_row -= {(name, 0) for name in names}  # 0 is no key
        stays.append(not keys_of_row & seen)
        if stays[-1]:
            seen.update(keys_of_row)
    return np.array(stays, int)


@pytest.mark.parametrize("sequential", [0, 10**6])  # all rounds, or one round and then the loop
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("distinct", [3, 40, 400])
def test_keys_are_greedy_in_the_order_of_rows(tmp_path, monkeypatch, sequential, shared, distinct):
    monkeypatch.setattr(compare, "SEQUENTIAL", sequential)
    keys = np.random.default_rng(distinct).integers(0, distinct, (300, 2))
    keys[9, 0] = 0
    table = table_of(keys[:, 0], keys[:, 1])

    copies = compared(Step("k", TextKeys(shared_keys=shared)), table, tmp_path, size=37)

    # `greedy` walks the rows one by one.
    np.testing.assert_array_equal(copies, greedy(keys, shared))
    assert 0 < copies.sum() < 300


def test_a_chain_in_which_every_row_hangs_on_the_one_before(tmp_path, monkeypatch):
    """Keys (1, 1), (1, 2), (2, 2), (2, 3), ...: every second row stays."""
    monkeypatch.setattr(compare, "SEQUENTIAL", 0)
    rows = np.arange(40)

    copies = compared(Step("k", TextKeys()), table_of(rows // 2 + 1, (rows + 1) // 2 + 1), tmp_path)

    np.testing.assert_array_equal(copies, rows % 2 == 0)


def test_cap_keeps_the_best_of_a_group(tmp_path):
    """Rows without a quality come last, equal ones in their order."""
    rng = np.random.default_rng(1)
    langs = rng.choice(["fra_Latn", "spa_Latn", "deu_Latn"], 200, p=[0.6, 0.1, 0.3])
    quality = rng.integers(0, 8, 200).astype(float)
    quality[rng.integers(0, 200, 20)] = np.nan

    copies = compared(
        Step("cap", Cap(30)), table_of(range(200), range(200), langs.tolist(), quality), tmp_path
    )

    expected = (langs == "deu_Latn").astype(int)
    best_first = np.argsort(-np.nan_to_num(quality, nan=-np.inf), kind="stable")
    for lang in ("fra_Latn", "spa_Latn"):
        rows_of_lang = best_first[langs[best_first] == lang]
        expected[rows_of_lang[:30]] = 1
    np.testing.assert_array_equal(copies, expected)


@settings(deadline=None)
@given(
    sizes=st.dictionaries(
        st.text("abc", min_size=1, max_size=3), st.integers(1, 10**6), min_size=1, max_size=8
    ),
    exponent=st.floats(0, 1.5),
    rows=st.integers(1, 10**7),
)
def test_quotas_are_exact(sizes, exponent, rows):
    """They add up, and each is within one row of its share n ** exponent."""
    quotas = compare.quotas(Sampling("temperature", exponent=exponent, rows=rows), sizes)

    assert sum(quotas.values()) == rows
    powers = {group: size**exponent for group, size in sizes.items()}
    for group, power in powers.items():
        share = rows * power / sum(powers.values())
        assert abs(quotas[group] - share) < 1 + 1e-6 * rows


def test_the_largest_remainder_takes_the_last_row():
    """6.75 and 3.25 of ten rows."""
    quotas = compare.quotas(Sampling("natural", rows=10), {"a": 27, "b": 13})

    assert quotas == {"a": 7, "b": 3}


@pytest.fixture
def unequal():
    """90 French rows and 10 Spanish ones."""
    return table_of(range(100), range(100), ["fra_Latn"] * 90 + ["spa_Latn"] * 10)


def test_a_sample_takes_exact_numbers(unequal, tmp_path):
    """Half of 67 rows each; the numbers of repetitions differ by one."""
    copies = compared(Sampling("temperature", exponent=0, rows=67), unequal, tmp_path)

    french = copies[:90]
    spanish = copies[90:]
    assert (french.sum(), spanish.sum()) == (34, 33)
    assert set(french) == {0, 1}
    assert set(spanish) == {3, 4}


def test_a_sample_does_not_depend_on_blocks(unequal, tmp_path):
    sampling = Sampling("temperature", exponent=0, rows=67)

    in_small_blocks = compared(sampling, unequal, tmp_path / "a", size=7)
    in_large_blocks = compared(sampling, unequal, tmp_path / "b", size=50)

    np.testing.assert_array_equal(in_small_blocks, in_large_blocks)


def test_a_sample_follows_from_its_seed(unequal, tmp_path):
    first = compared(Sampling("temperature", exponent=0, rows=67), unequal, tmp_path / "a")
    second = compared(Sampling("temperature", exponent=0, rows=67, seed=1), unequal, tmp_path / "b")

    assert (first != second).any()
