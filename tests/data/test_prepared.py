"""Prepared data: shards hold the same pairs as tokenizing at once,
and batches cover them once an epoch."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from hf_echo.cli.data import Prepare
from hf_echo.data import load_parallel, prepared
from hf_echo.data.prepared import (
    PreparedParallel,
    ShardBatchSampler,
    prepare_parallel,
    rows_of_shard,
)
from hf_echo.data.tokenized import tokenize_parallel
from hf_echo.inference import shard_embeddings
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.inference.shard_embeddings import ShardEmbeddings, ShardEncoder, embed_shards
from hf_echo.steps import data as run_data
from hf_echo.steps.data import shard_encoder
from hf_echo.steps.recipe import read_recipe
from hf_echo.steps.training import train_recipe
from hf_echo.utils.files import read_json
from hf_echo.utils.vectors import unit_length

OPEN_FILES = Path("/proc/self/fd")  # of this process, on Linux


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
    """Every pair once, with its languages, keys and hard negatives,
    as tokenizing at once gives them."""
    whole = tokenize_parallel(rows, toy_tokenizer, progress=False)
    data = PreparedParallel(folder)
    assert len(data) == len(whole) == 448
    assert [data[i]["index"] for i in range(448)] == list(range(448))
    rows_read = sorted(identity(data[i]) for i in range(448))
    expected = sorted(identity(whole[i]) for i in range(448))
    assert rows_read == expected


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


def test_a_stopped_preparation_goes_on(folder, rows, toy_tokenizer):
    before = read_json(folder / "prepared.json")
    (folder / "prepared.json").unlink()
    with pytest.raises(ValueError, match="the preparation was stopped"):
        PreparedParallel(folder)
    (folder / "shards" / "00001" / "shard.json").unlink()
    kept = (folder / "shards" / "00000" / "shard.json").stat().st_mtime_ns
    prepare_parallel(rows, toy_tokenizer, folder, shard_rows=150)
    assert read_json(folder / "prepared.json") == before
    assert (folder / "shards" / "00000" / "shard.json").stat().st_mtime_ns == kept


MAPPINGS = Path("/proc/self/smaps")  # memory of this process, on Linux


def mapped_into_memory(file: Path) -> int:
    """Bytes of a mapped file that are in the memory of this process."""
    total = 0
    is_of_file = False
    for line in MAPPINGS.read_text().splitlines():
        fields = line.split()
        if "-" in fields[0]:  # the first line of a mapping: its addresses, and its file at the end
            is_of_file = fields[-1] == str(file)
        elif fields[0] == "Rss:" and is_of_file:
            total += int(fields[1]) * 1024
    return total


@pytest.mark.skipif(not MAPPINGS.exists(), reason="the system does not list mapped memory")
def test_pages_of_a_finished_shard_leave_memory(toy_tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(prepared, "BLOCK", 100)
    long_text = "ba " * 2_000
    rows = [
        dict(source=long_text, source_lang="fra_Latn", target=f"{number}", target_lang="eng_Latn")
        for number in range(400)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    dataset = load_parallel(path)
    file = Path(dataset.cache_files[0]["filename"])
    before = mapped_into_memory(file)

    prepare_parallel(dataset, toy_tokenizer, tmp_path / "prepared", shard_rows=100, max_length=8)

    assert file.stat().st_size > 2_000_000
    assert mapped_into_memory(file) - before < 200_000


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


def open_files_in(folder: Path) -> int:
    targets = [os.path.realpath(file) for file in OPEN_FILES.iterdir()]
    return sum(target.startswith(str(folder)) for target in targets)


@pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="this system does not list the open files")
def test_files_of_a_few_shards_are_open(folder, monkeypatch):
    """A corpus of thousands of shards does not meet the limit of open files."""
    monkeypatch.setattr(prepared, "OPEN_SHARDS", 1)
    data = PreparedParallel(folder)
    data.shard(1)
    files_with_one_shard = open_files_in(folder)
    data.shard(2)
    assert open_files_in(folder) == files_with_one_shard > 0


# In a run


@pytest.fixture
def prepared_recipe(tmp_path, toy, toy_tokenizer, folder):
    """A recipe of hard negatives on the prepared data, and its start."""
    toy.save(tmp_path / "start", toy.make_model(toy_tokenizer), toy_tokenizer)
    values = dict(
        stage="hard_negatives", train_data=str(folder), model_name_or_path=str(tmp_path / "start")
    )
    # A short run without anything that depends on the machine.
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
        (dict(batch_by="languages"), "batch_by reads texts, and .* holds tokens alone"),
        (dict(max_length=64), "has max_length 128, the recipe 64"),
        (
            dict(source_languages=["fra_Latn"]),
            "with source_languages None, the recipe has .'fra_Latn'.",
        ),
        (dict(rule_negatives=2), "with rule_negatives None, the recipe has 2"),
    ],
)
def test_recipes_that_prepared_data_cannot_serve(prepared_recipe, changes, message):
    with pytest.raises(ValueError, match=message):
        train_recipe(prepared_recipe(**changes))


def test_a_guide_without_embeddings_is_refused(prepared_recipe, tmp_path):
    recipe = prepared_recipe(guide=str(tmp_path / "start"))
    with pytest.raises(
        FileNotFoundError, match="has no embeddings by .*start: hf-echo data prepare"
    ):
        train_recipe(recipe)


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


# Prepared for a recipe


@pytest.fixture
def guided_recipe(prepared_recipe, tmp_path, pairs_file):
    """Hard negatives with a guide, from French alone, on the data themselves."""
    return prepared_recipe(train_data=str(pairs_file), **guided(tmp_path))


def guided(place):
    """The untrained toy model finds all texts similar: only a radius near 1 leaves negatives."""
    return dict(guide=str(place / "start"), radius=0.999, source_languages=["fra_Latn"])


@pytest.fixture
def for_recipe(run, guided_recipe, tmp_path):
    """The folder that `data prepare RECIPE` writes, in shards of about 50 rows."""
    out = tmp_path / "for_recipe"
    code, _, err = run("data", "prepare", guided_recipe, out, "--shard-rows", "50")
    assert code == 0, err
    return out


def test_a_recipe_chooses_the_rows(for_recipe, rows):
    data = PreparedParallel(for_recipe)
    assert len(data.sizes) > 1
    assert {data[i]["source_lang"] for i in range(len(data))} == {"fra_Latn"}
    assert len(data) == rows["source_lang"][:].count("fra_Latn")


def test_embeddings_are_those_of_the_guide(for_recipe, tmp_path, toy_tokenizer, guided_recipe):
    """Row by row: each text, as its tokens say it, has the embedding that the guide gives it."""
    training = read_recipe(guided_recipe)
    data = PreparedParallel(for_recipe)
    encoder = shard_encoder(training.stage, training.model, training.data, training.config)
    guide = any_encoder(str(tmp_path / "start"))
    numbers = list(range(len(data)))[::7]
    for side, lang in (("source", "fra_Latn"), ("target", "eng_Latn")):
        texts = [toy_tokenizer.decode(data[i][side]) for i in numbers]
        expected = unit_length(np.asarray(guide(texts, lang), np.float32))
        rows_read = ShardEmbeddings(data, encoder, side, normalize=True)[numbers]
        np.testing.assert_allclose(rows_read, expected, atol=2e-3)  # float16


def test_a_run_on_prepared_data_learns_what_the_data_teach(
    guided_recipe, prepared_recipe, tmp_path
):
    """Guide and rows are those of the recipe:
    the losses of a step with all rows in one batch are equal."""
    step = Prepare(data=str(guided_recipe), output_dir=str(tmp_path / "one"))
    step.run()
    settings = dict(max_steps=1, save_steps=1, max_tokens=100_000, language_drop=0.0)
    settings |= guided(tmp_path)
    losses = []
    for name, data in (("on_data", tmp_path / "pairs.parquet"), ("on_shards", tmp_path / "one")):
        out = tmp_path / name
        train_recipe(prepared_recipe(train_data=str(data), output_dir=str(out), **settings))
        state = read_json(out / "checkpoint-1" / "trainer_state.json")
        losses.append(state["log_history"][0]["total_contrastive_loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert losses[0] > 0.1


def test_a_run_prepares_many_pairs_by_itself(guided_recipe, rows, tmp_path, monkeypatch):
    """The cache gets shards with the embeddings of the guide, and the run ends with a model."""
    monkeypatch.setattr(run_data, "PREPARE_FROM", 50)
    train_recipe(guided_recipe)
    (prepared,) = (tmp_path / "cache").glob("prepared-*")
    assert len(PreparedParallel(prepared)) == rows["source_lang"][:].count("fra_Latn")
    assert list(prepared.glob("shards/00000/embeddings-*/target.npy"))
    assert (tmp_path / "run" / "model.safetensors").is_file()


def test_each_process_embeds_its_share_of_the_shards(folder, rows, monkeypatch):
    encoder = ShardEncoder("lengths", lambda: lambda texts, lang: np.ones((len(texts), 2)))
    shards = len(list(folder.glob("shards/*")))
    counts = []
    for rank in range(2):
        monkeypatch.setattr(shard_embeddings, "rank", lambda rank=rank: rank)
        monkeypatch.setattr(shard_embeddings, "world_size", lambda: 2)
        counts.append(embed_shards(rows, folder, encoder, by_all_ranks=True))

    assert counts == [(shards + 1) // 2, shards // 2]
    assert len(list(folder.glob("shards/*/embeddings-*/encoder.json"))) == shards


def test_a_second_call_embeds_nothing(for_recipe, run, guided_recipe):
    file = next(for_recipe.glob("shards/00000/embeddings-*/source.npy"))
    before = file.stat().st_mtime_ns
    code, _, err = run("data", "prepare", guided_recipe, for_recipe, "--shard-rows", "50")
    assert code == 0, err
    assert file.stat().st_mtime_ns == before


def test_data_without_a_tokenizer_are_refused(refused, pairs_file, tmp_path):
    refused("--tokenizer is missing", "data", "prepare", pairs_file, tmp_path / "out")


def test_a_recipe_of_another_kind_is_refused(refused, tmp_path):
    message = "is not the recipe of a stage that trains on text pairs"
    refused(message, "data", "prepare", "nano-omni/0_teacher_errors", tmp_path / "out")
