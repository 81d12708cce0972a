"""`hf-echo evaluate xsim --data`: an n-way table, by language and by group, and what it refuses."""

from pathlib import Path

import numpy as np
import pytest

from hf_echo.inference import encode

COMMAND = "evaluate xsim"


def write_table(file: Path, rows: list[dict]) -> Path:
    lines = [f"{row['id']}\t{row['lang']}\t{row['text']}\n" for row in rows]
    file.write_text("id\tlang\ttext\n" + "".join(lines), encoding="utf-8")
    return file


@pytest.fixture
def table(toy, tmp_path):
    return write_table(tmp_path / "nway.tsv", toy.nway_rows())


def test_a_table_is_measured_by_language(
    answer, table, toy, toy_folders, toy_trained, toy_tokenizer
):
    sides = []
    for lang in ("fra_Latn", "eng_Latn"):
        texts = [toy.say(meaning, lang) for meaning in toy.split("dev")]
        sides.append(encode(toy_trained, toy_tokenizer, texts, lang, normalize=True))
    x, y = sides
    error_rate = 100 * np.mean((x @ y.T).argmax(1) != np.arange(32))

    report = answer("--model", toy_folders["release"], "--data", table)

    french, russian = report["rows"]
    assert french["lang"] == "fra_Latn"
    assert french["xsim"] == pytest.approx(error_rate, abs=3.2)  # a bf16 CPU may tip one sentence
    assert russian["lang"] == "rus_Cyrl"


def test_a_table_is_measured_by_script(answer, table, toy_folders):
    report = answer(
        "--model", toy_folders["release"], "--data", table, "--group", "script", "--hard-negatives"
    )

    french, russian = report["rows"]
    by_script = {row["script"]: row["xsimpp"] for row in report["by_script"]}
    assert by_script == {"Latin": french["xsimpp"], "Cyrillic": russian["xsimpp"]}
    assert french["pool"] > 32


def test_all_pairs_of_a_table(answer, table, toy_folders):
    options = ("--direction", "all", "--margin", "ratio")

    report = answer("--model", toy_folders["release"], "--data", table, *options)

    assert len(report["rows"]) == 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "give --source and --target, two files of lines, or --data, one table"),
        ("--data nway.tsv --source nway.tsv", "--source does not go with --data"),
        (
            "--data nway.tsv --target-lang ita_Latn",
            "no rows in --target-lang 'ita_Latn'; it has eng_Latn, fra_",
        ),
        (
            "--data double.tsv",
            "double.tsv:3: a second row for id '0' in eng_Latn (1 bad row; correct them",
        ),
        ("--data nway.tsv --k 3", "--k needs --margin ratio or distance"),
    ],
)
def test_what_is_refused(run, table, toy_folders, monkeypatch, arguments, message):
    write_table(
        table.with_name("double.tsv"),
        [{"id": 0, "lang": "eng_Latn", "text": text} for text in ("one", "two")],
    )
    monkeypatch.chdir(table.parent)

    code, _, error = run("--model", toy_folders["release"], *arguments.split())

    assert code == 2
    assert message in error


def test_lines_give_the_figures_of_a_table(answer, toy, toy_folders, tmp_path):
    """Equal texts are right in both, as in a report:
    half of the sentences are a copy of another."""
    # Each sentence stands there twice.
    rows = []
    for lang in ("fra_Latn", "eng_Latn"):
        texts = [toy.say(meaning, lang) for meaning in toy.split("dev")[:8]] * 2
        (tmp_path / lang).write_text("\n".join(texts) + "\n", encoding="utf-8")
        rows += [{"id": number, "lang": lang, "text": text} for number, text in enumerate(texts)]
    table = write_table(tmp_path / "nway.tsv", rows)
    options = ("--model", toy_folders["release"], "--hard-negatives")
    files = (
        "--source",
        tmp_path / "fra_Latn",
        "--source-lang",
        "fra_Latn",
        "--target",
        tmp_path / "eng_Latn",
    )

    of_lines = answer(*options, *files)
    of_table = answer(*options, "--data", table)

    # The table and the lines hold the same sentences.
    (row,) = of_table["rows"]
    assert of_lines["error_rate"] == row["xsim"] < 50
    assert of_lines["xsimpp"]["error_rate"] == row["xsimpp"]


def test_a_broken_embedding_names_its_line(refused, tmp_path, monkeypatch):
    lines = tmp_path / "lines.txt"
    lines.write_text("one\ntwo\n")
    broken = np.array([[1.0, 0.0], [np.nan, np.nan]])
    monkeypatch.setattr(
        "hf_echo.inference.any_encoder.any_encoder", lambda name: lambda texts, lang: broken
    )

    files = ("--source", lines, "--target", lines, "--source-lang", "fra_Latn")
    refused("lines.txt:2 (fra_Latn): a NaN, infinite or zero embedding", "--model", "m", *files)
