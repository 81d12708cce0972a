"""A dataset and its card: written, pushed to a Hub on the loopback interface,
and read back by version."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from hf_echo.cards.stamp import stamp
from hf_echo.data.pipeline import LocalExecutor, Output, Recipe, run
from hf_echo.hub.dataset_card import push_dataset, write_card


def write_pairs(file, count: int, name: str = "s", langs=("fra_Latn", "python", "jpn_Jpan")):
    """Pairs of sentences with English, in these languages by turns; python is code."""
    rows = []
    for number in range(count):
        lang = langs[number % len(langs)]
        row = {
            "source": f"{name}{number}",
            "source_lang": lang,
            "target": f"t{number}",
            "target_lang": "eng_Latn",
            "provenance": "code" if lang == "python" else "primary",
            "quality": number / 10,
        }
        rows.append(row)
    pq.write_table(pa.Table.from_pylist(rows), file)


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


def header_of(text: str) -> dict:
    return yaml.safe_load(text.split("---\n")[1])


def test_the_header_of_a_card(folder):
    header = header_of(write_card(folder, version="1.2", license="cc0-1.0").read_text())

    assert header["configs"][0]["data_files"] == [
        {"split": "train", "path": "data/train-*.parquet"}
    ]
    assert header["language"] == ["en", "fr", "ja"]
    assert header["license"] == "cc0-1.0"
    assert header["size_categories"] == ["n<1K"]
    assert header["pretty_name"] == "strict"


def test_a_card_counts_its_pairs(folder):
    """Seven of ten pairs are of people, three are code; sentences have two characters."""
    body = write_card(folder, version="1.2", license="cc0-1.0").read_text()

    assert "Version 1.2 (tag `v1.2`). 10 pairs of sentences in 3 directions" in body
    assert "| primary | 7 | 2 | 2 | 1 | 14 | 14 |" in body
    assert "| code to text | 3 | 1 | 1 | 1 | 6 | 6 |" in body
    assert "| sources | 10 | 10 |" in body


def test_a_card_shows_its_recipe(folder):
    assert "sources: [p]" in write_card(folder, version="1.2", license="mit").read_text()


def test_a_card_names_the_columns_there_are(folder):
    body = write_card(folder, version="1.2", license="mit").read_text()

    assert "`quality`" in body
    assert "`hard_negatives`" not in body


@pytest.fixture
def pushed_card(folder):
    """A card as a push changed it, with a tag of its owner; then half of the rows are gone."""
    card = write_card(folder, version="1.0", license="mit")
    pushed = stamp(card.read_text(), "me/pairs", "v1.0")
    card.write_text(pushed.replace("- parallel-corpus\n", "- parallel-corpus\n- mine\n"))
    (folder / "data/train-00001-of-00002.parquet").unlink()
    return card


def test_a_new_version_has_the_figures_of_the_files(folder, pushed_card):
    text = write_card(folder, version="1.1").read_text()

    assert "Version 1.1" in text
    assert "5 pairs of sentences" in text
    assert "10 pairs" not in text


def test_fields_of_the_header_that_stand_stay(folder, pushed_card):
    header = header_of(write_card(folder, version="1.1").read_text())

    assert header["license"] == "mit"
    assert "mine" in header["tags"]


def test_what_a_push_changed_is_no_edit(folder, pushed_card, caplog):
    write_card(folder, version="1.1")

    assert not caplog.messages


def test_text_by_hand_stays(folder, pushed_card, caplog):
    """The header follows the files all the same."""
    text = write_card(folder, version="1.1").read_text()
    pushed_card.write_text(text + "\nMade by hand in a week.\n")

    text = write_card(folder, version="1.2", license="cc0-1.0").read_text()

    assert text.endswith("Made by hand in a week.\n")
    assert "Version 1.1" in text
    assert header_of(text)["license"] == "cc0-1.0"
    assert "README.md is not as hf-echo wrote it: its text and figures stay" in caplog.text


def test_a_broken_header_is_refused(folder):
    (folder / "README.md").write_text("---\nlicense: [\n---\n")

    with pytest.raises(ValueError, match="README.md: the metadata is not YAML"):
        write_card(folder)


def test_a_folder_without_data_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no data/"):
        write_card(tmp_path)


def test_what_is_no_version_is_refused(folder):
    with pytest.raises(ValueError, match="version 'one' is not a version"):
        push_dataset(folder, "me/pairs", version="one", license="mit")


def test_files_of_different_columns_are_refused(folder):
    file = folder / "data/train-00001-of-00002.parquet"
    pq.write_table(pq.read_table(file).drop_columns("quality"), file)

    with pytest.raises(ValueError, match="differ in the column 'quality'"):
        write_card(folder)


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
    # A folder with two splits and the counts of a pipeline.
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
    # What was pushed, before and after the split, row and column went.
    assert first["rows"] == {"train": ["train 0", "train 1", "train 2"], "dev": ["dev 0"]}
    assert second["rows"] == {"train": ["train 1", "train 2"]}
    assert "quality" in first["columns"]
    assert "length" in second["columns"]
    for state, pairs in ((first, 4), (second, 2)):
        assert state["total"] == pairs
        assert f"{pairs} pairs of sentences" in state["card"]
    # The card of the second version speaks of the rows that are left.
    assert "pairs now" not in first["card"]
    assert "they have 2 pairs now" in second["card"]
    assert "`quality`" in first["card"]
    assert "`quality`" not in second["card"]
    assert "`length` | int32" in second["card"]
    assert 'load_dataset("tester/splits", revision="v1.1", split="train"' in second["card"]
