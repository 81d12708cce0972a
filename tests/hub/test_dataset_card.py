"""A dataset and its card: written, pushed to a Hub on the loopback interface, and read back by version."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from hf_echo.data.pipeline import LocalExecutor, Output, Recipe, run
from hf_echo.hub.dataset_card import push_dataset, write_card

HUB_SERVER = Path(__file__).parents[1] / "hub_server.py"
LANGS = ("fra_Latn", "python", "jpn_Jpan")


@pytest.fixture
def folder(tmp_path):
    rows = [
        {
            "source": f"s{i}",
            "source_lang": LANGS[i % 3],
            "target": f"t{i}",
            "target_lang": "eng_Latn",
            "provenance": "code" if i % 3 == 1 else "primary",
            "quality": i / 10,
        }
        for i in range(10)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "pairs.parquet")
    recipe = Recipe([{"path": str(tmp_path / "pairs.parquet"), "label": "pairs"}], out=Output(2), text="sources: [p]\n")
    run(recipe, tmp_path / "strict", executor=LocalExecutor(False))
    return tmp_path / "strict"


def test_card(folder):
    text = write_card(folder, version="1.2", license="cc0-1.0").read_text()
    _, header, body = text.split("---\n", 2)
    header = yaml.safe_load(header)
    assert header["configs"][0]["data_files"] == [{"split": "train", "path": "data/train-*.parquet"}]
    assert header["language"] == ["eng", "fra", "jpn"] and header["license"] == "cc0-1.0"
    assert header["size_categories"] == ["n<1K"] and header["pretty_name"] == "strict"
    assert "Version 1.2 (tag `v1.2`). 10 pairs of sentences in 3 directions" in body
    assert "| primary | 7 | 2 | 2 | 1 | 14 | 14 |" in body and "| code to text | 3 | 1 | 1 | 1 | 6 | 6 |" in body
    assert "| sources | 10 | 10 |" in body and "sources: [p]" in body
    assert "`quality`" in body and "`hard_negatives`" not in body


def test_wrong_folder_and_version(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match="no data/"):
        write_card(tmp_path)
    with pytest.raises(ValueError, match="version 'one' is not a version"):
        push_dataset(folder, "me/pairs", version="one", license="mit")


def test_push_twice_and_read_both_versions(folder, tmp_path):
    server = runpy.run_path(str(HUB_SERVER))["start"]()
    code = """if True:
        import json, sys
        from pathlib import Path
        from datasets import load_dataset
        from hf_echo.hub.dataset_card import push_dataset
        folder, found = Path(sys.argv[1]), {}
        push_dataset(folder, "tester/strict", version="1.0", license="mit")
        (folder / "data/train-00001-of-00002.parquet").unlink()
        push_dataset(folder, "tester/strict", version="1.1", license="mit")
        for version in ("v1.0", "v1.1", "main"):
            found[version] = load_dataset("tester/strict", revision=version, split="train")["source"][:]
        try:
            push_dataset(folder, "tester/strict", version="1.1", license="mit", title="Other")
        except ValueError as error:
            found["error"] = str(error)
        print(json.dumps(found))"""
    env = os.environ | {
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_HUB_DISABLE_XET": "1",
        "HF_TOKEN": "x",
        "HF_HOME": str(tmp_path / "home"),
        "HF_HUB_OFFLINE": "0",
    }
    done = subprocess.run([sys.executable, "-c", code, str(folder)], env=env, capture_output=True, text=True)
    server.shutdown()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["v1.0"] == [f"s{i}" for i in range(10)] and found["v1.1"] == found["main"] == found["v1.0"][:5]
    assert found["error"].startswith("tester/strict has version 1.1 with other content (README.md)")
