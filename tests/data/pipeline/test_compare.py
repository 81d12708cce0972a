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
        return np.stack(
            [np.array(table[c].to_pylist()).astype(np.uint64) for c in self.columns], axis=1
        )


@dataclass(frozen=True)
class Cap:
    limit: int

    def groups(self, table):
        return np.array(
            [lang if lang != "deu_Latn" else None for lang in table["source_lang"].to_pylist()],
            object,
        )

    def rank(self, table):
        return np.array(table["quality"].to_pylist(), float)


def table_of(source, target, langs=None, quality=None):
    n = len(source)
    texts = {"source": list(map(str, source)), "source_lang": langs or ["fra_Latn"] * n}
    texts |= {
        "target": list(map(str, target)),
        "target_lang": ["eng_Latn"] * n,
        "provenance": ["primary"] * n,
    }
    scores = pa.array(quality if quality is not None else [None] * n, pa.float64())
    return pa.table(texts | {"quality": scores, "row": pa.array(np.arange(n, dtype=np.uint64) * 3)})


def compared(step, table, folder, size=7):
    """(rows,) copies of each row, from blocks of ``size`` rows."""
    folder.mkdir(exist_ok=True)
    files = []
    for first in range(0, len(table), size):
        files.append(folder / f"b{first:06d}.parquet")
        block = table.slice(first, size)
        pq.write_table(
            block if isinstance(step, Sampling) else compare.entries(step, block), files[-1]
        )
    compare.compare(step, files, folder / "copies.parquet")
    changed = pq.read_table(folder / "copies.parquet")
    copies = np.ones(len(table), int)
    rows = changed["row"].to_numpy() // 3
    assert (np.diff(rows) > 0).all()
    assert not (changed["copies"].to_numpy() == 1).any()
    copies[rows] = changed["copies"].to_numpy()
    return copies


def greedy(keys, shared=False):
    seen = set()
    keep = []
    for row in keys:
        mine = {key if shared else (i, key) for i, key in enumerate(row) if key}
        keep.append(not mine & seen)
        seen |= mine if keep[-1] else set()
    return np.array(keep, int)


@pytest.mark.parametrize("sequential", [0, 10**6])  # all rounds, or one round and then the loop
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("distinct", [3, 40, 400])
def test_keys_are_greedy_in_the_order_of_rows(tmp_path, monkeypatch, sequential, shared, distinct):
    monkeypatch.setattr(compare, "SEQUENTIAL", sequential)
    keys = np.random.default_rng(distinct).integers(0, distinct, (300, 2))
    keys[9, 0] = 0  # a key like any other
    flags = compared(Step("k", TextKeys(shared_keys=shared)), table_of(*keys.T), tmp_path, size=37)
    np.testing.assert_array_equal(flags, greedy(keys, shared))
    assert 0 < flags.sum() < 300


def test_a_chain_in_which_every_row_hangs_on_the_one_before(tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "SEQUENTIAL", 0)
    keys = np.array([(i // 2 + 1, (i + 1) // 2 + 1) for i in range(40)])
    flags = compared(Step("k", TextKeys()), table_of(*keys.T), tmp_path)
    np.testing.assert_array_equal(flags, np.arange(40) % 2 == 0)


def test_cap_keeps_the_best_of_a_group(tmp_path):
    rng = np.random.default_rng(1)
    langs = rng.choice(["fra_Latn", "spa_Latn", "deu_Latn"], 200, p=[0.6, 0.1, 0.3]).tolist()
    quality = rng.integers(0, 8, 200).astype(float)
    quality[rng.integers(0, 200, 20)] = np.nan
    table = table_of(range(200), range(200), langs, quality)
    flags = compared(Step("cap", Cap(30)), table, tmp_path)
    want = np.zeros(200, int)
    for lang in ("fra_Latn", "spa_Latn"):
        rows = [i for i in range(200) if langs[i] == lang]
        score = {i: -np.inf if np.isnan(quality[i]) else quality[i] for i in rows}
        want[sorted(rows, key=lambda i: (-score[i], i))[:30]] = 1
    want[[i for i in range(200) if langs[i] == "deu_Latn"]] = 1  # no group: stays
    np.testing.assert_array_equal(flags, want)


@settings(deadline=None)
@given(
    st.dictionaries(
        st.text("abc", min_size=1, max_size=3), st.integers(1, 10**6), min_size=1, max_size=8
    ),
    st.floats(0, 1.5),
    st.integers(1, 10**7),
)
def test_quotas_are_exact(sizes, exponent, rows):
    got = compare.quotas(Sampling("temperature", exponent=exponent, rows=rows), sizes)
    assert sum(got.values()) == rows
    total = sum(n**exponent for n in sizes.values())
    for group, size in sizes.items():
        assert abs(got[group] - rows * size**exponent / total) < 1 + 1e-6 * rows


def test_the_largest_remainder_takes_the_last_row():
    assert compare.quotas(Sampling("natural", rows=10), {"a": 27, "b": 13}) == {"a": 7, "b": 3}


@pytest.fixture
def unequal():
    """90 French rows and 10 Spanish ones."""
    return table_of(range(100), range(100), ["fra_Latn"] * 90 + ["spa_Latn"] * 10)


def test_a_sample_takes_exact_numbers(unequal, tmp_path):
    """Half of 67 rows each; the numbers of repetitions differ by one."""
    copies = compared(Sampling("temperature", exponent=0, rows=67), unequal, tmp_path)
    assert copies[:90].sum() == 34
    assert set(copies[:90]) == {0, 1}
    assert copies[90:].sum() == 33
    assert set(copies[90:]) == {3, 4}


def test_a_sample_follows_from_its_seed(unequal, tmp_path):
    samples = []
    for number, seed in enumerate((0, 0, 1)):
        sampling = Sampling("temperature", exponent=0, rows=67, seed=seed)
        samples.append(compared(sampling, unequal, tmp_path / str(number), size=7 + 43 * number))
    one, again, other = samples
    assert (one == again).all()
    assert (one != other).any()
