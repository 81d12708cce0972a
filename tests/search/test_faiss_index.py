"""An index in shards on disk finds what one index in memory finds."""

from __future__ import annotations

import numpy as np
import pytest

import hf_echo.search.faiss_index as module
from hf_echo.search import nearest_neighbours
from hf_echo.search.blocks import Best, Blocks
from hf_echo.search.checks import unit_rows
from hf_echo.search.faiss_index import index_neighbours

faiss = pytest.importorskip("faiss")


@pytest.fixture(scope="module")
def sides():
    """1,000 rows, each near one of 2,300 others: 40 groups, with noise within a group."""
    rng = np.random.default_rng(0)
    y = np.repeat(rng.normal(size=(46, 32)), 50, axis=0) + 0.6 * rng.normal(size=(2300, 32))
    x = y[rng.permutation(2300)[:1000]] + 0.2 * rng.normal(size=(1000, 32))
    return x.astype(np.float32), y.astype(np.float32)


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(module, "SHARD_BLOCKS", 2)  # 400 rows: six shards of y


def search(sides, index, folder, k=4, **options):
    x, y = (Blocks(side, 200, name) for side, name in zip(sides, "xy"))
    return index_neighbours(Best(x, k, folder), y, index, **options)


def recall(found, exact) -> float:
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found.indices, exact.indices)]))


def test_flat_shards_equal_the_exact_search(sides, tmp_path):
    exact, found = nearest_neighbours(*sides, 4), search(sides, "Flat", tmp_path)
    np.testing.assert_array_equal(found.indices, exact.indices)
    np.testing.assert_allclose(found.scores, exact.scores, atol=1e-6)


@pytest.mark.parametrize("index", ["SQ8", "IVF16,PQ8x4;nprobe=4", "IVF16,SQ8;nprobe=16", "PCAR16,IVF16,PQ8x4;nprobe=4"])
def test_quantised_shards_equal_one_index_of_faiss(sides, tmp_path, index):
    x, y = (unit_rows(side).numpy() for side in sides)
    kind, _, parameters = index.partition(";")
    whole = faiss.index_factory(32, kind, faiss.METRIC_INNER_PRODUCT)
    whole.train(module._sample(Blocks(sides[1], 200, "y")))
    whole.add(y)
    if parameters:
        faiss.ParameterSpace().set_index_parameters(whole, parameters)
    scores, indices = whole.search(x, 4)
    found = search(sides, index, tmp_path)
    np.testing.assert_allclose(found.scores, scores, atol=1e-6)
    apart = np.diff(scores, axis=1) < -1e-6  # rows with equal codes have equal scores: their order is open
    sure = np.hstack([np.ones((len(x), 1), bool), apart]) & np.hstack([apart, np.zeros((len(x), 1), bool)])
    assert sure.mean() > 0.2 and (found.indices == indices)[sure].all()
    exact = nearest_neighbours(*sides, 4)
    assert recall(found, exact) > (0.9 if "SQ8" in index else 0.2)  # 32 bits a row, seen: 0.32; by chance 0.08


def test_refinement_and_more_probes_find_more(sides, tmp_path):
    exact = nearest_neighbours(*sides, 4)
    kinds = ("IVF16,PQ8x4;nprobe=1", "IVF16,PQ8x4;nprobe=16", "IVF16,PQ8x4,RFlat;nprobe=16,k_factor_rf=8")
    found = [recall(search(sides, kind, tmp_path / str(i)), exact) for i, kind in enumerate(kinds)]
    assert found[0] < found[1] + 0.02 and found[1] + 0.1 < found[2] > 0.9


def test_a_shard_and_the_training_sample_are_bounded(sides, tmp_path, monkeypatch):
    trained, shards = [], []
    real_sample, real_filled = module._sample, module._filled

    def filled(built, y):
        shards.append(real_filled(built, y).ntotal)
        return built

    monkeypatch.setattr(module, "TRAINING_ROWS", 700)
    monkeypatch.setattr(module, "_sample", lambda y: trained.append(real_sample(y)) or trained[-1])
    monkeypatch.setattr(module, "_filled", filled)
    search(sides, "IVF4,SQ8", tmp_path)
    assert len(trained) == 1 and 600 < len(trained[0]) <= 700
    assert shards == [400] * 5 + [300]
    assert not list(tmp_path.rglob("*.faiss")) and len(list(tmp_path.glob("x-*.npz"))) == 5


@pytest.mark.parametrize("dies_at", [0, 1, 4, 6, 7, 9])
def test_a_stopped_index_resumes_at_the_next_shard_or_block(sides, tmp_path, monkeypatch, dies_at):
    want = search(sides, "IVF8,Flat", tmp_path / "whole")
    steps = []  # quantiser, six shards, five blocks

    def step(name):
        real = getattr(module, name)

        def run(*arguments):
            if len(steps) == dies_at:
                raise KeyboardInterrupt
            steps.append(name)
            return real(*arguments)

        return run

    with monkeypatch.context() as patch:
        for name in ("_trained", "_filled", "_search"):
            patch.setattr(module, name, step(name))
        with pytest.raises(KeyboardInterrupt):
            search(sides, "IVF8,Flat", tmp_path / "cut")
        assert len(steps) == dies_at
        dies_at = -1
        found = search(sides, "IVF8,Flat", tmp_path / "cut")
    assert steps == ["_trained"] + ["_filled"] * 6 + ["_search"] * 5  # nothing was done twice
    np.testing.assert_array_equal(found.indices, want.indices)
    np.testing.assert_array_equal(found.scores, want.scores)


def test_workers_build_and_search_the_same(sides, tmp_path, far_executor):
    for name, side in zip("xy", sides):
        np.save(tmp_path / f"{name}.npy", side)
    mapped = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "xy"]
    found = search(mapped, "IVF16,PQ8x4;nprobe=4", tmp_path / "far", executor=far_executor)
    want = search(sides, "IVF16,PQ8x4;nprobe=4", tmp_path / "near")
    np.testing.assert_array_equal(found.indices, want.indices)
    np.testing.assert_array_equal(found.scores, want.scores)
    assert [desc for desc, _ in far_executor.items] == ["Indexing y"] * 6 + ["Searching y"] * 5


def test_a_pickled_collection_holds_file_names(sides, tmp_path):
    import pickle

    np.save(tmp_path / "y.npy", sides[1])
    mapped = np.load(tmp_path / "y.npy", mmap_mode="r")
    blocks = Blocks([mapped, mapped[100:]], 200, "y").stripe(1, 14)
    sent = pickle.dumps(blocks)
    assert 2200 * 128 < len(sent) < 2300 * 128  # a slice has no place of its own in the file: it is copied
    assert len(pickle.dumps(Blocks([mapped, mapped], 200, "y"))) < 2000
    received = pickle.loads(sent)
    assert isinstance(received.parts[0], np.memmap) and received.digest() == blocks.digest()


@pytest.mark.parametrize("folder", [None, "work"])
@pytest.mark.parametrize("index", ["Nonsense", "IVF4,Flat;nporbe=3"])
def test_a_refused_index_is_one_line(sides, tmp_path, folder, index):
    with pytest.raises(ValueError, match=f"index '{index}' is refused by faiss: .*could not ") as error:
        search(sides, index, folder and tmp_path / folder)
    assert "\n" not in str(error.value) and ".cpp" not in str(error.value)
