"""Prepared data: shards hold the same pairs as tokenizing at once, and batches cover them once an epoch."""

import json

import numpy as np
import pytest

from hf_echo.data import prepared
from hf_echo.data.prepared import (
    PreparedParallel,
    ShardBatchSampler,
    prepare_parallel,
    rows_of_shard,
)
from hf_echo.data.tokenized import tokenize_parallel
from hf_echo.steps.training import train_recipe
from hf_echo.utils.files import read_json


@pytest.fixture
def rows(toy):
    return toy.dataset()


@pytest.fixture
def folder(rows, toy_tokenizer, tmp_path, monkeypatch):
    """448 toy pairs in blocks of 50, in three shards."""
    monkeypatch.setattr(prepared, "BLOCK", 50)
    prepare_parallel(rows, toy_tokenizer, tmp_path / "prepared", shard_rows=150)
    return tmp_path / "prepared"


def identity(row: dict) -> tuple:
    texts = tuple(tuple(row[side].tolist()) for side in ("source", "target"))
    negatives = tuple(tuple(ids.tolist()) for ids in row["negatives"])
    return (
        *texts,
        negatives,
        row["source_lang"],
        row["target_lang"],
        row["source_key"],
        row["target_key"],
    )


def test_shards_hold_the_rows_of_the_data(folder, rows, toy_tokenizer):
    """Every pair once, with its languages, keys and hard negatives, as tokenizing at once gives them."""
    whole = tokenize_parallel(rows, toy_tokenizer, progress=False)
    data = PreparedParallel(folder)
    assert len(data) == len(whole) == 448
    assert [data[i]["index"] for i in range(448)] == list(range(448))
    have = sorted(identity(data[i]) for i in range(448))
    want = sorted(identity(whole[i]) for i in range(448))
    assert have == want


def test_a_shard_is_a_sample_of_all_the_data(rows, monkeypatch):
    monkeypatch.setattr(prepared, "BLOCK", 50)
    first = rows_of_shard(rows, 1, 3)
    sources = rows["source"][:]
    numbers = [sources.index(text) for text in first["source"][:]]
    assert numbers == [*range(50, 100), *range(200, 250), *range(350, 400)]


@pytest.mark.slow
def test_workers_make_the_same_shards(rows, toy_tokenizer, tmp_path):
    options = dict(shard_rows=224)
    one = prepare_parallel(rows, toy_tokenizer, tmp_path / "one", **options)
    two = prepare_parallel(rows, toy_tokenizer, tmp_path / "two", workers=2, **options)
    assert one == two


@pytest.fixture
def sampler_of(folder):
    """sampler_of(rank, world): batches of at most 12 pairs a rank."""
    data = PreparedParallel(folder)

    def make(rank=0, world=1):
        def of_shard(lengths, seed):
            options = dict(max_rows=12 // world, seed=seed, rank=rank, world_size=world)
            return prepared_sampler(lengths, **options)

        return ShardBatchSampler(
            data, of_shard, lambda shard: shard.lengths(encoder_sides=2), seed=3
        )

    return make


def prepared_sampler(lengths, **options):
    from hf_echo.data.batching import TokenBudgetBatchSampler

    return TokenBudgetBatchSampler(lengths, 10_000, **options)


def test_an_epoch_has_every_row_once(sampler_of):
    sampler = sampler_of()
    batches = list(sampler)
    assert sorted(np.concatenate(batches).tolist()) == list(range(448))
    assert len(batches) == len(sampler)


def test_a_batch_is_inside_of_a_shard(sampler_of):
    starts = sampler_of().data.starts
    shards = [np.searchsorted(starts, batch, side="right") for batch in sampler_of()]
    assert all(len(set(numbers.tolist())) == 1 for numbers in shards)
    order = [int(numbers[0]) for numbers in shards]
    changes = sum(a != b for a, b in zip(order, order[1:], strict=False))
    assert changes == 2  # each shard is read once


def test_an_epoch_follows_from_its_number(sampler_of):
    sampler = sampler_of()
    first = list(sampler)
    sampler.set_epoch(1)
    second = list(sampler)
    sampler.set_epoch(0)
    assert list(sampler) == first != second


def test_two_ranks_share_the_batches_of_one(sampler_of):
    whole = list(sampler_of())
    halves = zip(sampler_of(0, 2), sampler_of(1, 2), strict=True)
    assert [sorted(a + b) for a, b in halves] == [sorted(batch) for batch in whole]


def test_a_stopped_preparation_goes_on(folder, rows, toy_tokenizer, monkeypatch):
    before = read_json(folder / "prepared.json")
    (folder / "prepared.json").unlink()
    with pytest.raises(ValueError, match="the preparation was stopped"):
        PreparedParallel(folder)
    (folder / "shards" / "00001" / "shard.json").unlink()
    kept = (folder / "shards" / "00000" / "shard.json").stat().st_mtime_ns
    prepare_parallel(rows, toy_tokenizer, folder, shard_rows=150)
    assert read_json(folder / "prepared.json") == before
    assert (folder / "shards" / "00000" / "shard.json").stat().st_mtime_ns == kept


def test_other_settings_need_another_folder(folder, rows, toy_tokenizer):
    with pytest.raises(
        ValueError,
        match=r"shards of another preparation \(max_length differs\): name another folder",
    ):
        prepare_parallel(rows, toy_tokenizer, folder, shard_rows=150, max_length=9)


def test_a_missing_shard_is_named(folder):
    (folder / "shards" / "00002" / "shard.json").unlink()
    with pytest.raises(FileNotFoundError, match="shards/00002 is missing"):
        PreparedParallel(folder)


def test_a_damaged_shard_is_named(folder):
    """A byte of a text differs; the size is the same."""
    file = folder / "shards" / "00001" / "source_values.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(ValueError, match="shards/00001 is damaged"):
        PreparedParallel(folder)


def test_a_cut_shard_is_named(folder):
    file = folder / "shards" / "00001" / "source_values.npy"
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(ValueError, match="source_values.npy is damaged"):
        PreparedParallel(folder)


# In a run


@pytest.fixture
def prepared_recipe(tmp_path, toy, toy_tokenizer, folder):
    """A recipe of hard negatives on the prepared data, and its start."""
    toy.save(tmp_path / "start", toy.make_model(toy_tokenizer), toy_tokenizer)
    values = dict(
        stage="hard_negatives", train_data=str(folder), model_name_or_path=str(tmp_path / "start")
    )
    values |= dict(
        output_dir=str(tmp_path / "run"),
        cache_dir=str(tmp_path / "cache"),
        max_steps=4,
        logging_steps=1,
    )
    values |= dict(
        max_tokens=2000, warmup_steps=0, bf16=False, use_cpu=True, disable_tqdm=True, save_steps=2
    )

    def write(**changes):
        file = tmp_path / "run.yaml"
        file.write_text(json.dumps(values | changes))
        return file

    return write


def test_a_stage_trains_on_prepared_data(prepared_recipe, tmp_path, folder):
    train_recipe(prepared_recipe(batch_tokens=4000))
    record = read_json(tmp_path / "run" / "recipe.json")
    assert record["data"]["train_data"] == read_json(folder / "prepared.json")["fingerprint"]
    assert (
        read_json(tmp_path / "run" / "trainer_state.json", {})
        or (tmp_path / "run" / "model.safetensors").is_file()
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            dict(source_languages=["fra_Latn"]),
            "source_languages reads texts, and .* holds tokens alone",
        ),
        (dict(max_length=64), "has max_length 128, the recipe 64"),
    ],
)
def test_recipes_that_prepared_data_cannot_serve(prepared_recipe, changes, message):
    with pytest.raises(ValueError, match=message):
        train_recipe(prepared_recipe(**changes))


def test_another_tokenizer_is_refused(prepared_recipe, toy, tmp_path):
    other = toy.plain_tokenizer()
    toy.save(tmp_path / "start", toy.make_model(toy.make_tokenizer()), other)
    with pytest.raises(
        ValueError, match="was prepared with another tokenizer than that of the run"
    ):
        train_recipe(prepared_recipe())


def test_the_command_prepares_a_file(run, tmp_path, pairs_file, toy_tokenizer):
    toy_tokenizer.save_pretrained(tmp_path / "tokenizer")
    command = (
        "data",
        "prepare",
        pairs_file,
        tmp_path / "out",
        "--tokenizer",
        tmp_path / "tokenizer",
    )
    code, out, err = run(*command)
    assert code == 0, err
    assert len(PreparedParallel(tmp_path / "out")) == 448


@pytest.fixture
def pairs_file(rows, tmp_path):
    rows.to_parquet(tmp_path / "pairs.parquet")
    return tmp_path / "pairs.parquet"
