"""Datasets of the Hub as corpora: columns and configurations as the real cards have them,
streamed by `datasets`."""

import json
import subprocess
import sys
from types import SimpleNamespace

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_echo.data import hub_tables
from hf_echo.data.hub_tables import language_of, write_hub_table
from hf_echo.steps.training_data import HubTable

from ..refusals import refusals, refuses


@pytest.mark.parametrize(
    "configuration, code, spelled",
    [
        ("en-fr", "fra_Latn", "fr"),  # parallel-sentences-*
        ("af-en", "afr_Latn", "af"),  # opus-100
        ("en-zh-cn", "zho_Hans", "zh-cn"),
        ("deu-eng", "deu_Latn", "deu"),  # mteb's bitexts
    ],
)
def test_a_configuration_names_its_languages(configuration, code, spelled):
    assert language_of(configuration, {}) == (code, spelled)


def test_an_ambiguous_code_is_that_of_the_table():
    assert language_of("en-zh", {"zh": "zho_Hant"}) == ("zho_Hant", "zh")


def test_a_configuration_of_an_nway_set_is_a_language():
    assert language_of("fra_Latn", {}, is_nway=True) == ("fra_Latn", "fra_Latn")


test_configurations_that_name_nothing = refusals(
    ("fr-de", "it is no pair with English"),
    ("all", "it is no pair with English"),
    ("en-zh", "ambiguous: give zho_Hans or zho_Hant"),
    call=lambda configuration: language_of(configuration, {}),
)

# Columns as the cards show them: parallel-sentences-*, opus-100, flores_plus.
TALKS = {
    "en-de": [
        {"english": "Hello.", "non_english": "Hallo."},
        {"english": "Bye.", "non_english": " "},
    ],
    "en-fr": [{"english": "Hello.", "non_english": "Bonjour."}],
    "all": [{"english": "Hello.", "non_english": "Hola."}],
}
OPUS = {"de-en": [{"translation": {"de": "Guten\nTag.", "en": "Good day."}}]}
FLORES = {"deu_Latn": [{"id": 7, "iso_639_3": "deu", "text": "Ein Satz."}]}
HUB = {"st/talks": TALKS, "nlp/opus": OPUS, "old/flores": FLORES}


@pytest.fixture
def hub(monkeypatch):
    """Datasets of this process in place of the Hub's; gives what was asked for."""
    asked = []

    def load_dataset(name, configuration, *, split, revision, streaming):
        asked.append((name, configuration, split, revision, streaming))
        rows = HUB[name][configuration]
        return datasets.Dataset.from_list(rows).to_iterable_dataset()

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr(
        datasets, "get_dataset_config_names", lambda name, revision: list(HUB[name])
    )
    return asked


def rows_of(path):
    return [tuple(row.values()) for row in pq.read_table(path).to_pylist()]


def test_pairs_have_the_columns_of_corpora(hub, tmp_path):
    write_hub_table("talks", HubTable(dataset="st/talks@v1"), tmp_path, [], 0)
    file = tmp_path / "talks" / "en-de.parquet"
    assert pq.read_schema(file).names == ["src_lang", "src", "tgt_lang", "tgt"]
    assert rows_of(file) == [("eng_Latn", "Hello.", "deu_Latn", "Hallo.")]


def test_a_version_is_streamed(hub, tmp_path):
    write_hub_table("talks", HubTable(dataset="st/talks@v1"), tmp_path, ["fra_Latn"], 0)
    assert hub == [("st/talks", "en-fr", "train", "v1", True)]


@pytest.fixture
def german_talks(hub, tmp_path) -> dict:
    """The report of the German pairs of a set of talks."""
    return write_hub_table("talks", HubTable(dataset="st/talks"), tmp_path, ["deu_Latn"], 0)


def test_rows_are_counted(german_talks):
    assert german_talks["rows"] == 1
    assert german_talks["bad_rows"] == 1
    assert german_talks["configurations"] == 1


def test_what_is_left_out_is_named(german_talks):
    assert german_talks["left_out"] == {
        "en-fr": hub_tables.NOT_ASKED_FOR,
        "all": "it is no pair with English",
    }


def test_both_texts_may_stand_in_one_column(hub, tmp_path):
    table = HubTable(dataset="nlp/opus", translation="translation")
    write_hub_table("opus", table, tmp_path, [], 0)
    assert rows_of(tmp_path / "opus" / "de-en.parquet") == [
        ("eng_Latn", "Good day.", "deu_Latn", "Guten Tag.")
    ]


def test_an_nway_set_keeps_ids_with_its_split(hub, tmp_path):
    table = HubTable(dataset="old/flores", id="id", split="dev")
    write_hub_table("flores", table, tmp_path, [], 0)
    file = tmp_path / "flores" / "deu_Latn.parquet"
    assert pq.read_schema(file).names == ["id", "lang", "text", "split"]
    assert rows_of(file) == [("7", "deu_Latn", "Ein Satz.", "dev")]


def test_a_part_is_drawn_by_the_seed(hub, tmp_path, monkeypatch):
    rows = [{"english": f"e{number}", "non_english": f"d{number}"} for number in range(50)]
    monkeypatch.setitem(HUB, "st/talks", {"en-de": rows})
    table = HubTable(dataset="st/talks", rows=5)

    def drawn(folder, seed):
        write_hub_table("talks", table, tmp_path / folder, [], seed)
        return rows_of(tmp_path / folder / "talks" / "en-de.parquet")

    rows = drawn("first", 0)

    assert len(rows) == 5
    assert drawn("same seed", 0) == rows
    assert drawn("other seed", 1) != rows


def test_what_is_there_is_not_read_again(hub, tmp_path):
    for _ in range(2):
        write_hub_table("talks", HubTable(dataset="st/talks"), tmp_path, ["fra_Latn"], 0)
    assert len(hub) == 1


def test_another_column_is_named(hub, tmp_path):
    table = HubTable(dataset="st/talks", other="german")
    refuses(
        "st/talks, en-de: no column 'german'; it has english, non_english",
        write_hub_table,
        "talks",
        table,
        tmp_path,
        [],
        0,
    )
    assert not list(tmp_path.rglob("*.parquet"))


def test_another_configuration_is_named(hub, tmp_path):
    table = HubTable(dataset="st/talks", configurations=["en-xx"])
    refuses(
        "no configuration 'en-xx': en-de, en-fr, all", write_hub_table, "t", table, tmp_path, [], 0
    )


def test_nothing_left_is_an_error(hub, tmp_path):
    table = HubTable(dataset="st/talks")
    refuses("no row is left", write_hub_table, "t", table, tmp_path, ["zul_Latn"], 0)


def parquet(rows):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


def card(*configurations):
    configs = [
        {"config_name": name, "data_files": [{"split": split, "path": f"{name}/{split}-*"}]}
        for name, split in configurations
    ]
    return f"---\nconfigs: {json.dumps(configs)}\n---\n".encode()


NUMBERED = [{"english": f"Dog number {n}.", "non_english": f"Hund {n}."} for n in range(30)]
TEST = [{"sentence1": "Hund drei", "sentence2": "Dog number 3!"}]
FILE = "00000-of-00001.parquet"
DATASETS = {
    "tester/talks": {
        "README.md": card(("en-de", "train")),
        f"en-de/train-{FILE}": parquet(NUMBERED),
    },
    "tester/opus": {
        "README.md": card(("de-en", "train")),
        f"de-en/train-{FILE}": parquet(OPUS["de-en"]),
    },
    "tester/flores": {
        "README.md": card(("deu_Latn", "dev"), ("eng_Latn", "dev")),
        f"deu_Latn/dev-{FILE}": parquet(FLORES["deu_Latn"]),
        f"eng_Latn/dev-{FILE}": parquet([{"id": 7, "iso_639_3": "eng", "text": "A sentence."}]),
    },
    "tester/bitexts": {
        "README.md": card(("deu-eng", "test")),
        f"deu-eng/test-{FILE}": parquet(TEST),
    },
}
JOURNEY = {
    "0_hub.yaml": {
        "operation": "hub_tables",
        "output_dir": "corpora",
        "datasets": {
            "talks": {"dataset": "tester/talks@main"},
            "opus": {"dataset": "tester/opus", "translation": "translation"},
            "flores": {"dataset": "tester/flores", "split": "dev", "id": "id"},
            "bitexts": {
                "dataset": "tester/bitexts",
                "split": "test",
                "english": "sentence2",
                "other": "sentence1",
                "test": True,
            },
        },
    },
    "1_data.yaml": {
        "operation": "collect_data",
        "output_dir": "data",
        "corpora": "corpora",
        "languages": ["deu_Latn"],
        "tables": {
            "talks": {},
            "opus": {},
            "flores": {"id": "id", "split": "train", "dev": "flores", "dev_split": "dev"},
        },
    },
}


@pytest.mark.slow  # another process, because the address of the Hub is read on import
def test_a_journey_reads_the_hub(hub_environment, tmp_path):
    (tmp_path / "journey").mkdir()
    for name, step in JOURNEY.items():
        (tmp_path / "journey" / name).write_text(json.dumps(step))
    command = [sys.executable, "-m", "hf_echo.cli", "train", "journey"]
    options = SimpleNamespace(env=hub_environment, cwd=tmp_path, capture_output=True, text=True)

    process = subprocess.run(command, **vars(options), timeout=300)

    assert process.returncode == 0, process.stderr
    texts = set(pq.read_table(tmp_path / "data" / "train.parquet")["target"].to_pylist())
    assert texts == {f"Dog number {n}." for n in range(30) if n != 3} | {"Good day."}
    dev = pq.read_table(tmp_path / "data" / "dev_flores.parquet")["text"].to_pylist()
    assert sorted(dev) == ["A sentence.", "Ein Satz."]
