"""A dataset and its card: written, pushed to a Hub on the loopback interface, and read back by version."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from hf_echo.cards.stamp import stamp
from hf_echo.data.pipeline import LocalExecutor, Output, Recipe, run
from hf_echo.hub.dataset_card import push_dataset, write_card


def write_pairs(file, count: int, name: str = "s", langs=("fra_Latn", "python", "jpn_Jpan")):
    """Pairs of sentences with English, the second of three of which is code."""
    columns = {
        "source": [f"{name}{i}" for i in range(count)],
        "source_lang": (list(langs) * count)[:count],
    }
    columns |= {"target": [f"t{i}" for i in range(count)], "target_lang": ["eng_Latn"] * count}
    columns["provenance"] = [
        "code" if lang == "python" else "primary" for lang in columns["source_lang"]
    ]
    pq.write_table(pa.table(columns | {"quality": [i / 10 for i in range(count)]}), file)


@pytest.fixture
def folder(tmp_path):
    write_pairs(tmp_path / "pairs.parquet", 10)
    recipe = Recipe(
        [{"path": str(tmp_path / "pairs.parquet"), "label": "pairs"}],
        out=Output(2),
        text="sources: [p]\n",
    )
    run(recipe, tmp_path / "strict", executor=LocalExecutor(False))
    return tmp_path / "strict"


def test_card(folder):
    text = write_card(folder, version="1.2", license="cc0-1.0").read_text()
    _, header, body = text.split("---\n", 2)
    header = yaml.safe_load(header)
    assert header["configs"][0]["data_files"] == [
        {"split": "train", "path": "data/train-*.parquet"}
    ]
    assert header["language"] == ["en", "fr", "ja"]
    assert header["license"] == "cc0-1.0"
    assert header["size_categories"] == ["n<1K"]
    assert header["pretty_name"] == "strict"
    assert "Version 1.2 (tag `v1.2`). 10 pairs of sentences in 3 directions" in body
    assert "| primary | 7 | 2 | 2 | 1 | 14 | 14 |" in body
    assert "| code to text | 3 | 1 | 1 | 1 | 6 | 6 |" in body
    assert "| sources | 10 | 10 |" in body
    assert "sources: [p]" in body
    assert "`quality`" in body
    assert "`hard_negatives`" not in body


def test_text_by_hand_stays_and_the_header_follows_the_files(folder, caplog):
    card = write_card(folder, version="1.0", license="mit")
    once = card.read_text()
    card.write_text(
        stamp(once, "me/pairs", "v1.0").replace(
            "- parallel-corpus\n", "- parallel-corpus\n- mine\n"
        )
    )
    (folder / "data/train-00001-of-00002.parquet").unlink()
    text = write_card(folder, version="1.1").read_text()  # what a push changed is not an edit
    assert "5 pairs of sentences" in text
    assert "10 pairs" not in text
    assert "Version 1.1" in text
    header = yaml.safe_load(text.split("---\n")[1])
    assert header["license"] == "mit"
    assert "mine" in header["tags"]
    assert not caplog.messages
    card.write_text(text + "\nMade by hand in a week.\n")
    text = write_card(folder, version="1.2", license="cc0-1.0").read_text()
    assert text.endswith("Made by hand in a week.\n")
    assert "Version 1.1" in text
    assert yaml.safe_load(text.split("---\n")[1])["license"] == "cc0-1.0"
    assert "README.md is not as hf-echo wrote it: its text and figures stay" in caplog.text
    card.write_text("---\nlicense: [\n---\n")
    pytest.raises(ValueError, write_card, folder).match("README.md: the metadata is not YAML")


def test_refusals(folder, tmp_path):
    pytest.raises(FileNotFoundError, write_card, tmp_path).match("no data/")
    with pytest.raises(ValueError, match="version 'one' is not a version"):
        push_dataset(folder, "me/pairs", version="one", license="mit")
    file = sorted((folder / "data").glob("*.parquet"))[1]
    pq.write_table(pq.read_table(file).drop_columns("quality"), file)
    pytest.raises(ValueError, write_card, folder).match("differ in the column 'quality'")


VERSIONS = """
    import json, sys
    from pathlib import Path
    import pyarrow.parquet as pq
    from datasets import load_dataset
    from huggingface_hub import hf_hub_download
    from hf_echo.hub.dataset_card import push_dataset
    folder, repo = Path(sys.argv[1]), "tester/splits"

    def read(name, tag):
        return Path(hf_hub_download(repo, name, repo_type="dataset", revision=tag)).read_text()

    def state(tag):
        parts = load_dataset(repo, revision=tag)
        rows = {split: sorted(part["source"]) for split, part in parts.items()}
        total = json.loads(read("stats.json", tag))["table"][-1]["pairs"]
        return {"rows": rows, "columns": parts["train"].column_names, "total": total, "card": read("README.md", tag)}

    push_dataset(folder, repo, version="1.0", license="mit")
    (folder / "data/fra/dev-0.parquet").unlink()
    file = folder / "data/fra/train-0.parquet"
    table = pq.read_table(file).slice(1)
    lengths = table["quality"].cast("int32", safe=False)
    pq.write_table(table.drop_columns("quality").append_column("length", lengths), file)
    push_dataset(folder, repo, version="1.1", license="mit")
    print(json.dumps([state("v1.0"), state("v1.1")]))"""


@pytest.mark.slow
def test_figures_are_those_of_what_was_pushed(tmp_path, on_the_hub):
    """Before and after a split, a row and a column are gone by hand."""
    (tmp_path / "set" / "data" / "fra").mkdir(parents=True)
    for split, count in (("train", 3), ("dev", 1)):
        write_pairs(
            tmp_path / "set" / "data" / "fra" / f"{split}-0.parquet",
            count,
            f"{split} ",
            ["fra_Latn"],
        )
    (tmp_path / "set" / "counts.json").write_text(
        '{"steps": [{"step": "sources", "in": 9, "kept": 4}]}'
    )
    first, second = on_the_hub(VERSIONS, tmp_path / "set")
    assert first["rows"] == {"train": ["train 0", "train 1", "train 2"], "dev": ["dev 0"]}
    assert second["rows"] == {"train": ["train 1", "train 2"]}
    assert "quality" in first["columns"]
    assert "length" in second["columns"]
    for state, pairs in ((first, 4), (second, 2)):
        assert state["total"] == pairs
        assert f"{pairs} pairs of sentences" in state["card"]
    assert "pairs now" not in first["card"]
    assert "they have 2 pairs now" in second["card"]
    assert "`quality`" in first["card"]
    assert "`quality`" not in second["card"]
    assert "`length` | int32" in second["card"]
    assert 'load_dataset("tester/splits", revision="v1.1", split="train"' in second["card"]
