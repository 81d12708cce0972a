"""`hf-echo data filter, sample, calibrate, stats, push`."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

COMMAND = "data"


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The working directory: forty pairs, of which six sources and seven targets differ,
    and a recipe."""
    monkeypatch.chdir(tmp_path)
    columns = {
        "source": [f"une phrase {number % 6}" for number in range(40)],
        "target": [f"a sentence {number % 7}" for number in range(40)],
        "source_lang": ["fra_Latn", "fra_Latn", "fra_Latn", "spa_Latn"] * 10,
        "target_lang": ["eng_Latn"] * 40,
        "provenance": ["primary"] * 40,
    }
    pq.write_table(pa.table(columns), "pairs.parquet")
    recipe = "sources: [pairs.parquet]\nsteps: [{filter: exact_duplicates, side: corpus}]\n"
    (tmp_path / "r.yaml").write_text(recipe)
    return tmp_path


@pytest.fixture
def filtered(files, succeeds):
    """What `data filter` prints; the result is in o."""
    return succeeds("filter", "r.yaml", "--out", "o", "--block", "9")


def test_filter_prints_what_each_step_left(filtered):
    assert "| exact_duplicates | 40 | 6 | 34 | 15.0 |" in filtered
    assert "6 rows in o/data" in filtered


def test_stats_write_the_page_that_they_print(filtered, succeeds, files):
    out = succeeds("stats", "o/data", "--markdown", "t.md")

    assert "| primary | 6 | 2 | 2 | 1 |" in out
    assert (files / "t.md").read_text() == out


def test_stats_write_the_json_that_they_print(filtered, succeeds, files):
    out = succeeds("stats", "o/data", "--json", "t.json")

    report = json.loads(out)
    assert report["table"][-1]["pairs"] == 6
    assert json.loads((files / "t.json").read_text()) == report


def test_a_card_is_written_without_upload(filtered, succeeds, files):
    succeeds("push", "o", "me/o", "--card-only", "--title", "Pairs")

    assert "# Pairs" in (files / "o/README.md").read_text()


def test_a_sample_has_equal_shares(succeeds, files):
    out = succeeds(
        "sample",
        "pairs.parquet",
        "--out",
        "s",
        "--method",
        "temperature",
        "--exponent",
        "0",
        "--rows",
        "50",
    )

    assert "50 rows in s/data" in out
    langs = pq.read_table(files / "s/data")["source_lang"].to_pylist()
    assert sorted(langs) == ["fra_Latn"] * 25 + ["spa_Latn"] * 25


@pytest.mark.parametrize(
    "options, pairs", [([], 40), (["--split", "dev"], 5), (["--split", "train"], 35)]
)
def test_stats_of_all_splits_or_one(succeeds, files, options, pairs):
    table = pq.read_table("pairs.parquet")
    splits = pa.array(["dev"] * 5 + ["train"] * 35)
    pq.write_table(table.append_column("split", splits), "split.parquet")

    out = succeeds("stats", "split.parquet", *options)

    assert f"| total | {pairs} |" in out


class LengthScorer:
    """A hundredth of the source's length, in place of a model's score."""

    def __init__(self, model, blaser):
        pass

    def __call__(self, sources, targets, source_langs, target_langs):
        return [len(source) / 100 for source in sources]


def test_calibrate(succeeds, files, monkeypatch):
    """All sources have twelve letters."""
    monkeypatch.setattr("hf_echo.inference.scorer.EchoScorer", LengthScorer)

    out = succeeds("calibrate", "pairs.parquet", "--model", "m", "--out", "x/c.json")

    thresholds = json.loads((files / "x/c.json").read_text())
    assert thresholds == {"fra_Latn>eng_Latn": [pytest.approx(0.12), 0]}
    assert "fra_Latn>eng_Latn: mean 0.120" in out


def test_a_missing_recipe_is_named(refused, files):
    refused("no data recipe 'x.yaml'", "filter", "x.yaml", "--out", "o")


def test_a_column_without_a_value_is_named(refused, files):
    refused("--column 'x' is not FIELD=VALUE", "stats", "pairs.parquet", "--column", "x")
