"""`hf-echo evaluate xsim --data`: an n-way table, by language and by group, and what it refuses."""

import numpy as np
import pytest

from hf_echo.inference import encode

COMMAND = "evaluate xsim"


@pytest.fixture
def table(toy, tmp_path):
    lines = ["\t".join([str(r["id"]), r["lang"], r["text"]]) for r in toy.nway_rows()]
    (tmp_path / "nway.tsv").write_text("\n".join(["id\tlang\ttext", *lines]) + "\n", encoding="utf-8")
    return tmp_path / "nway.tsv"


def test_a_table_gives_languages_and_groups(answer, table, toy, toy_folders, toy_trained, toy_tokenizer):
    model = toy_folders["release"]
    report = answer("--model", model, "--data", table, "--group", "script", "--hard-negatives")
    rows = {row["lang"]: row for row in report["rows"]}
    assert set(rows) == {"fra_Latn", "rus_Cyrl"} and rows["fra_Latn"]["pool"] > 32
    x, y = (
        encode(toy_trained, toy_tokenizer, [toy.say(m, lang) for m in toy.split("dev")], lang, normalize=True)
        for lang in ("fra_Latn", "eng_Latn")
    )
    errors = 100 * np.mean((x @ y.T).argmax(1) != np.arange(32))
    assert rows["fra_Latn"]["xsim"] == pytest.approx(errors, abs=3.2)  # a bf16 CPU may tip one sentence
    by_script = {row["script"]: row["xsim"] for row in report["by_script"]}
    assert by_script == {"Latin": rows["fra_Latn"]["xsim"], "Cyrillic": rows["rus_Cyrl"]["xsim"]}
    assert len(answer("--model", model, "--data", table, "--direction", "all", "--margin", "ratio")["rows"]) == 6


def test_what_is_refused(run, table, toy_folders):
    model, double = toy_folders["release"], table.with_name("double.tsv")
    double.write_text("id\tlang\ttext\n0\teng_Latn\tone\n0\teng_Latn\ttwo\n")
    no_language = "nway.tsv has no rows in --target-lang 'ita_Latn'; it has eng_Latn, fra_"
    for arguments, words in (
        ([], "give --source and --target, two files of lines, or --data, one table"),
        (["--data", table, "--source", table], "--source does not go with --data"),
        (["--data", table, "--target-lang", "ita_Latn"], no_language),
        (["--data", table, "--split", "test"], "nway.tsv has no column split; leave split 'test' out"),
        (["--data", double], "double.tsv:3: a second row for id '0' in eng_Latn (1 bad row; correct them"),
        (["--data", table, "--k", 3], "--k needs --margin ratio or distance"),
    ):
        code, _, err = run("--model", model, *arguments)
        assert code == 2 and words in err, err


def test_lines_and_a_table_give_one_figure(answer, toy, toy_folders, tmp_path):
    """Equal texts are right in both, as in a report: half of the sentences are a copy of another."""
    rows = ["id\tlang\ttext"]
    for name, lang in (("a.txt", "fra_Latn"), ("b.txt", "eng_Latn")):
        texts = [toy.say(m, lang) for m in toy.split("dev")[:8]] * 2
        (tmp_path / name).write_text("\n".join(texts) + "\n", encoding="utf-8")
        rows += [f"{i}\t{lang}\t{text}" for i, text in enumerate(texts)]
    (tmp_path / "n.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    options = ("--model", toy_folders["release"], "--hard-negatives")
    lines = ("--source", tmp_path / "a.txt", "--source-lang", "fra_Latn", "--target", tmp_path / "b.txt")
    report, (row,) = answer(*options, *lines), answer(*options, "--data", tmp_path / "n.tsv")["rows"]
    assert report["error_rate"] == row["xsim"] < 50 and report["xsimpp"]["error_rate"] == row["xsimpp"]


def test_a_broken_embedding_names_file_and_line(refused, tmp_path, monkeypatch):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("one\ntwo\n")
    encoder = lambda texts, lang: np.eye(2) * [[1.0], [np.nan]]  # noqa: E731
    monkeypatch.setattr("hf_echo.inference.any_encoder.any_encoder", lambda name: encoder)
    files = ("--source", tmp_path / "a.txt", "--target", tmp_path / "b.txt", "--source-lang", "fra_Latn")
    refused("a.txt:2 (fra_Latn): a NaN, infinite or zero embedding", "--model", "m", *files)
