"""A dataset and its card: written, pushed to a Hub on the loopback interface,
and read back by version."""

import json

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


@pytest.fixture(scope="module")
def versions(tmp_path_factory, on_the_hub) -> dict[str, dict]:
    """{version: what the Hub shows of it}: before and after a split, a row and a column went by
    hand."""
    folder = tmp_path_factory.mktemp("set")
    (folder / "data" / "fra").mkdir(parents=True)
    for split, count in (("train", 3), ("dev", 1)):
        file = folder / "data" / "fra" / f"{split}-0.parquet"
        write_pairs(file, count, f"{split} ", ["fra_Latn"])
    # the counts of a pipeline
    counts = {"steps": [{"step": "sources", "in": 9, "kept": 4}]}
    (folder / "counts.json").write_text(json.dumps(counts))
    return on_the_hub("push_dataset_versions.py", folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    "version, rows",
    [
        ("1.0", {"train": ["train 0", "train 1", "train 2"], "dev": ["dev 0"]}),
        ("1.1", {"train": ["train 1", "train 2"]}),
    ],
)
def test_a_version_of_a_dataset_has_the_rows_that_were_pushed(versions, version, rows):
    assert versions[version]["rows"] == rows


@pytest.mark.slow
@pytest.mark.parametrize("version, pairs", [("1.0", 4), ("1.1", 2)])
def test_figures_are_those_of_what_was_pushed(versions, version, pairs):
    assert versions[version]["total"] == pairs
    assert f"{pairs} pairs of sentences" in versions[version]["card"]


@pytest.mark.slow
def test_the_card_says_that_rows_went_after_the_pipeline(versions):
    assert "pairs now" not in versions["1.0"]["card"]
    assert "they have 2 pairs now" in versions["1.1"]["card"]


@pytest.mark.slow
def test_the_card_names_the_columns_of_its_version(versions):
    assert "quality" in versions["1.0"]["columns"]
    assert "`quality`" in versions["1.0"]["card"]
    assert "length" in versions["1.1"]["columns"]
    assert "`length` | int32" in versions["1.1"]["card"]
    assert "`quality`" not in versions["1.1"]["card"]


@pytest.mark.slow
def test_the_card_loads_its_own_version(versions):
    code = 'load_dataset("tester/splits", revision="v1.1", split="train"'
    assert code in versions["1.1"]["card"]
