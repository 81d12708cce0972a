"""The ablations' grid, its tables, and the steps of OS 4.5 from end to end on the toy world."""

import ablations
import pandas as pd
import pytest
import yaml

from hf_echo.steps.recipe import find_recipes, read_recipe
from hf_echo.vocabulary import train_from_counts

STEPS = ("data", "teacher", "adaptation", "extension")


@pytest.fixture(scope="module")
def grid():
    return yaml.safe_load(ablations.GRID.read_text())


def test_every_row_is_a_recipe(grid, tmp_path):
    for table, rows in grid["tables"].items():
        for row in rows:
            kind = grid[row.get("row", "row")]
            step = kind if "recipe" in kind else kind["extension"]
            fields = step["overrides"] | ablations.fields_of(row) | {"output_dir": str(tmp_path)}
            read_recipe(find_recipes(step["recipe"])[0], fields)
            if row.get("paper"):
                columns = kind.get("columns") or list(kind["measures"])
                assert len(row["paper"]) == len(columns), (table, row["name"])


def test_table_14a_ablates_the_vocabulary_adaptation(grid):
    """OS Table 14a as printed: BIBLE xsim, chrF++, FLORES xsim++, chrF++."""
    with_it, without_it, _ = grid["tables"]["vocabulary adaptation (OS Table 14a)"]

    assert with_it["paper"] == [4.8, 37.7, 5.6, 56.0]
    assert without_it["paper"] == [4.8, 37.1, 5.9, 55.4]
    assert ablations.fields_of(without_it) == ablations.fields_of(with_it) == {}
    assert without_it["adaptation_steps"] == 0


def test_table_14c_ablates_the_teachers_embedding(grid):
    rows = grid["tables"]["teacher's embedding of base languages (OS Table 14c)"]

    targets = [ablations.fields_of(row).get("base_teacher_target", "interpolated") for row in rows]

    assert targets == ["source", "target", "interpolated"]
    assert [row["paper"] for row in rows] == [
        [4.7, 36.5, 5.7, 55.8],
        [5.0, 37.6, 5.9, 55.3],
        [4.8, 37.7, 5.6, 56.0],
    ]


# ECHO Tables 9 and 10 as printed: xsim and xsim++ on FLORES200 dev.
TABLES_9_AND_10 = {
    "hard negatives (Table 10b)": {"split softmax": [0.76, 7.06], "one softmax": [0.94, 7.00]},
    "gathered negatives (Table 10a), two devices with half of the batch each": {
        "gathered": [0.65, 8.95],
        "each its own": [0.74, 9.44],
    },
    "false negatives (Table 10a)": {"without guide": [0.69, 9.73], "guide": [0.65, 8.95]},
    "margin (Table 10a)": {
        "margin 0": [0.74, 9.49],
        "margin 0.3": [0.65, 8.95],
        "margin 0.5": [0.72, 9.45],
    },
    "logit scale (Table 10a)": {
        "scale 1": [1.88, 11.90],
        "scale 20": None,
        "scale 100": [0.65, 8.95],
    },
    "objective (Table 9a, 9b)": {
        "contrastive alone": [0.71, 16.23],
        "+ decoder": [0.65, 8.95],
        "+ hard negatives": [0.76, 7.06],
        "decoder + MSE": [0.92, 12.54],
    },
}


@pytest.mark.parametrize("table", TABLES_9_AND_10)
def test_rows_of_echo_stand_beside_the_printed_figures(grid, table):
    printed = {row["name"]: row.get("paper") for row in grid["tables"][table]}

    assert printed == TABLES_9_AND_10[table]


def test_order_of_errors():
    assert ablations.order([3.0, 1.0, None, 3.0]) == [2, 1, None, 2]


def test_order_of_what_is_better_higher():
    assert ablations.order([3.0, 1.0, None, 4.0], higher_is_better=True) == [2, 3, None, 1]


def test_markdown_has_the_mean_of_the_seeds_beside_both_orders():
    columns = ["xsim", "BIBLE chrF++"]
    rows = [
        {
            "name": "with",
            "paper": [4.0, 30.0],
            "columns": columns,
            "runs": [{"xsim": 1.0, "BIBLE chrF++": 20.0}],
        },
        {
            "name": "without",
            "paper": [5.0, 20.0],
            "columns": columns,
            "runs": [{"xsim": 3.0, "BIBLE chrF++": 25.0}],
        },
    ]
    rows[0]["runs"].append({"xsim": 2.0, "BIBLE chrF++": 22.0})
    rows[1]["runs"].append({"xsim": 5.0, "BIBLE chrF++": 27.0})

    lines = ablations.as_markdown({"a table": rows}).splitlines()

    assert lines[0] == "### a table"
    # Means of two seeds with both values, the order, and the paper's figures with their order.
    assert lines[4] == "| with | 1.5 (1.0 2.0) | 21.0 (20.0 22.0) | 1 / 2 | 4.0 / 30.0 | 1 / 1 |"
    assert lines[5] == "| without | 4.0 (3.0 5.0) | 26.0 (25.0 27.0) | 2 / 1 | 5.0 / 20.0 | 2 / 2 |"


def test_a_shortened_tokenizer_is_the_one_trained_to_that_size(tmp_path):
    words = ("the", "these", "them", "then", "cat", "cats", "concat", "red", "read")
    counts = {f" {word}": count for count, word in enumerate(words, 3)}
    train_from_counts(counts, 280, progress=False).save_pretrained(tmp_path / "large")
    train_from_counts(counts, 270, progress=False).save_pretrained(tmp_path / "small")
    large = tmp_path / "large" / "tokenizer.json"

    ablations.shorten(large, 270)

    small = yaml.safe_load((tmp_path / "small" / "tokenizer.json").read_text())
    assert yaml.safe_load(large.read_text())["model"] == small["model"]


@pytest.fixture(scope="module")
def corpora(toy, tmp_path_factory):
    """The toy world as the two n-way corpora that the grid's kind reads."""
    folder = tmp_path_factory.mktemp("corpora")
    rows = []
    for split in ("train", "dev"):
        for number, meaning in enumerate(toy.split(split)):
            for lang in toy.LANGUAGES:
                rows.append((f"{split}.{number}", lang, toy.say(meaning, lang), split))
    table = pd.DataFrame(rows, columns=["verse_id", "lang", "text", "split"])
    table.to_parquet(folder / "bible.parquet")
    table.rename(columns={"verse_id": "index_id"}).to_parquet(folder / "flores_sib.parquet")
    return folder


@pytest.fixture(scope="module")
def omnilingual(toy_folders, corpora, tmp_path_factory):
    kind = {
        "base_languages": ["eng_Latn", "fra_Latn"],
        "new_languages": ["rus_Cyrl"],
        "largest_vocabulary": 380,
        "bible_verses": 20,
        "translated": 4,
        "steps": {
            "dev_data": {},
            "max_length": 32,
            "max_tokens": 2000,
            "warmup_steps": 1,
            "save_strategy": "no",
        },
    }
    # The data of the journey, from the two small corpora.
    kind["data"] = {
        "recipe": "echo-nano/00_data",
        "overrides": {
            "tables": {
                "bible.parquet": {
                    "id": "verse_id",
                    "split": "train",
                    "dev": "bible",
                    "dev_split": "dev",
                },
                "flores_sib.parquet": {
                    "id": "index_id",
                    "split": "train",
                    "dev": "flores",
                    "dev_split": "dev",
                },
            },
            "noise": 0.0,
            "most": 1,
        },
    }
    # Every stage takes two steps.
    release = str(toy_folders["release"])
    fields = {"max_steps": 2, "learning_rate": 1e-3}
    kind["teacher"] = {"recipe": "nano-omni/2_small", "overrides": fields | {"teacher": release}}
    kind["adaptation"] = {"recipe": "nano-omni/2_small", "overrides": fields}
    kind["extension"] = {
        "recipe": "nano-omni/1_extension",
        "overrides": fields | {"teacher_xsimpp": None},
    }
    return ablations.Omnilingual(
        kind, tmp_path_factory.mktemp("out"), corpora, toy_folders["training"], release
    )


@pytest.fixture(scope="module")
def adapted(omnilingual):
    """The figures of a row whose student reads a new vocabulary."""
    return omnilingual.figures({"vocabulary": 380}, seed=0)


@pytest.mark.slow
def test_a_row_of_table_14a_has_the_measures_of_both_sets(adapted):
    assert set(adapted) == {
        "million parameters",
        "BIBLE xsim",
        "BIBLE chrF++",
        "BIBLE tokens",
        "BIBLE sentences/s",
        "FLORES xsim++",
        "FLORES chrF++",
        "FLORES tokens",
        "FLORES sentences/s",
    }


@pytest.mark.slow
def test_a_new_vocabulary_changes_the_number_of_parameters(omnilingual, adapted):
    without = omnilingual.figures({"vocabulary": None}, seed=0)
    assert adapted["million parameters"] != without["million parameters"]


@pytest.mark.slow
def test_adaptation_is_a_step_that_a_row_may_leave_out(omnilingual, adapted):
    omnilingual.figures(
        {"vocabulary": 340, "adaptation_steps": 0, "base_teacher_target": "source"}, seed=1
    )

    assert (omnilingual.out / "adapted-380-0").is_dir()
    assert (omnilingual.out / "tokenizer-340").is_dir()
    assert not (omnilingual.out / "adapted-340-1").exists()


@pytest.mark.slow
def test_a_row_gives_the_same_figures_again(omnilingual, adapted):
    again = omnilingual.figures({"vocabulary": 380}, seed=0)

    # The first run, but for what depends on the clock.
    speeds = [name for name in adapted if name.endswith("/s")]
    assert {name: again[name] for name in again if name not in speeds} == pytest.approx(
        {name: adapted[name] for name in adapted if name not in speeds}
    )
