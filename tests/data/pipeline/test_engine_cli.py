"""`hf-echo data filter, sample, calibrate, stats, push`."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

COMMAND = "data"


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = {
        "source": [f"une phrase {i % 6}" for i in range(40)],
        "target": [f"a sentence {i % 7}" for i in range(40)],
    }
    languages = {
        "source_lang": ["fra_Latn", "fra_Latn", "fra_Latn", "spa_Latn"] * 10,
        "target_lang": ["eng_Latn"] * 40,
    }
    pq.write_table(pa.table(texts | languages | {"provenance": ["primary"] * 40}), "pairs.parquet")
    (tmp_path / "r.yaml").write_text(
        "sources: [pairs.parquet]\nsteps: [{filter: exact_duplicates, side: corpus}]\n"
    )
    return tmp_path


def test_filter_then_stats_then_card(run, files):
    code, out, err = run("filter", "r.yaml", "--out", "o", "--block", "9")
    assert code == 0
    assert "| exact_duplicates | 40 | 6 | 34 | 15.0 |" in out
    assert "6 rows in o/data" in out
    code, out, _ = run("stats", "o/data", "--markdown", "t.md")
    assert code == 0
    assert "| primary | 6 | 2 | 2 | 1 |" in out
    assert (files / "t.md").read_text() == out
    code, out, _ = run("stats", "o/data", "--json", "t.json")
    tables = [json.loads(text)["table"] for text in (out, (files / "t.json").read_text())]
    assert code == 0
    assert tables[0][-1]["pairs"] == tables[1][0]["pairs"] == 6
    code, out, _ = run("push", "o", "me/o", "--card-only", "--title", "Pairs")
    assert code == 0
    assert "# Pairs" in (files / "o/README.md").read_text()


def test_sample(run, files):
    options = ("--method", "temperature", "--exponent", "0", "--rows", "50")
    code, out, _ = run("sample", "pairs.parquet", "--out", "s", *options)
    assert code == 0
    assert "50 rows in s/data" in out
    rows = [row for path in (files / "s/data").glob("*") for row in pq.read_table(path).to_pylist()]
    assert sorted(row["source_lang"] for row in rows) == ["fra_Latn"] * 25 + ["spa_Latn"] * 25


def test_stats_of_all_splits_or_one(run, files):
    table = pq.read_table("pairs.parquet")
    splits = pa.array(["dev" if i < 5 else "train" for i in range(len(table))])
    pq.write_table(table.append_column("split", splits), "split.parquet")
    for chosen, pairs in (((), 40), (("--split", "dev"), 5), (("--split", "train"), 35)):
        code, out, _ = run("stats", "split.parquet", *chosen)
        assert code == 0
        assert f"| total | {pairs} |" in out


def test_calibrate(run, files, monkeypatch):
    fake = "hf_echo.inference.scorer.EchoScorer"
    monkeypatch.setattr(fake, lambda model, blaser: lambda *c: [len(s) / 100 for s in c[0]])
    code, out, _ = run("calibrate", "pairs.parquet", "--model", "m", "--out", "x/c.json")
    found = json.loads((files / "x/c.json").read_text())
    assert code == 0
    assert found == {"fra_Latn>eng_Latn": [pytest.approx(0.12), 0]}
    assert "fra_Latn>eng_Latn: mean 0.120" in out


def test_errors_are_one_line(refused, files):
    refused("no data recipe 'x.yaml'", "filter", "x.yaml", "--out", "o")
    refused("--column 'x' is not FIELD=VALUE", "stats", "pairs.parquet", "--column", "x")
