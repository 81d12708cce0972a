"""`hf-echo evaluate xsim --data`: an n-way table, by language and by group, and what it refuses."""

import json

import numpy as np
import pytest

from hf_echo.inference import encode

COMMAND = "evaluate xsim"


@pytest.fixture
def table(toy, tmp_path):
    lines = ["\t".join([str(r["id"]), r["lang"], r["text"]]) for r in toy.nway_rows()]
    (tmp_path / "nway.tsv").write_text("\n".join(["id\tlang\ttext", *lines]) + "\n", encoding="utf-8")
    return tmp_path / "nway.tsv"


def test_a_table_gives_languages_and_groups(run, table, toy, toy_folders, toy_trained, toy_tokenizer):
    model = toy_folders["release"]
    code, out, err = run("--model", model, "--data", table, "--group", "script", "--hard-negatives")
    assert code == 0, err
    report = json.loads(out)
    rows = {row["lang"]: row for row in report["rows"]}
    assert set(rows) == {"fra_Latn", "rus_Cyrl"} and rows["fra_Latn"]["pool"] > 32
    x, y = (
        encode(toy_trained, toy_tokenizer, [toy.say(m, lang) for m in toy.split("dev")], lang, normalize=True)
        for lang in ("fra_Latn", "eng_Latn")
    )
    errors = 100 * np.mean((x @ y.T).argmax(1) != np.arange(32))
    assert rows["fra_Latn"]["xsim"] == pytest.approx(errors, abs=3.2)  # a bf16 CPU may tip one sentence
    assert {row["script"]: row["xsim"] for row in report["by_script"]} == {
        "Latin": rows["fra_Latn"]["xsim"],
        "Cyrillic": rows["rus_Cyrl"]["xsim"],
    }
    code, out, _ = run("--model", model, "--data", table, "--direction", "all", "--margin", "ratio")
    assert code == 0 and len(json.loads(out)["rows"]) == 6


def test_split_chooses_rows(run, table, toy_folders):
    model, whole = toy_folders["release"], table.read_text(encoding="utf-8").splitlines()
    ids = [line.split("\t")[0] for line in whole[1:]]
    lines = [f"{line}\t{'test' if i < '1' else 'train'}" for i, line in zip(ids, whole[1:])]
    table.with_name("split.tsv").write_text("\n".join([f"{whole[0]}\tsplit", *lines]) + "\n", encoding="utf-8")
    counts = {}
    for split in (None, "test", "train"):
        chosen = ["--split", split] if split else []
        code, out, err = run("--model", model, "--data", table.with_name("split.tsv"), *chosen)
        assert code == 0, err
        counts[split] = json.loads(out)["rows"][0]["count"]
    assert counts[None] == counts["test"] + counts["train"] and min(counts.values()) > 0
    code, _, err = run("--model", model, "--data", table, "--split", "test")
    assert code == 2 and "nway.tsv has no column split; leave split 'test' out" in err
    code, _, err = run("--model", "no/model", "--data", table, "--group", "foo")
    assert code == 2 and "--group is ['foo']; it must be a list, each of it one of script, family, resource" in err


def test_what_is_refused(run, table, toy_folders):
    model, double = toy_folders["release"], table.with_name("double.tsv")
    double.write_text("id\tlang\ttext\n0\teng_Latn\tone\n0\teng_Latn\ttwo\n")
    for arguments, words in (
        ([], "give --source and --target, two files of lines, or --data, one table"),
        (["--data", table, "--source", table], "--source does not go with --data"),
        (
            ["--data", table, "--target-lang", "ita_Latn"],
            "nway.tsv has no rows in --target-lang 'ita_Latn'; it has eng_Latn, fra_",
        ),
        (["--data", double], "double.tsv:3: a second row for id '0' in eng_Latn (1 bad row; correct them"),
        (["--data", table, "--k", 3], "--k needs --margin ratio or distance"),
        (["--source", table, "--target", table, "--direction", "from"], "--direction needs --data"),
        (["--source", table, "--target", table, "--group", "script"], "--group needs --data"),
    ):
        code, _, err = run("--model", model, *arguments)
        assert code == 2 and words in err, err


def test_lines_and_a_table_give_one_figure(run, toy, toy_folders, tmp_path):
    """Equal texts are right in both, as in a report: half of the sentences are a copy of another."""
    french, english = ([toy.say(m, lang) for m in toy.split("dev")[:8]] * 2 for lang in ("fra_Latn", "eng_Latn"))
    for name, texts in (("a.txt", french), ("b.txt", english)):
        (tmp_path / name).write_text("\n".join(texts) + "\n", encoding="utf-8")
    rows = [
        f"{i}\t{lang}\t{text}"
        for lang, texts in (("fra_Latn", french), ("eng_Latn", english))
        for i, text in enumerate(texts)
    ]
    (tmp_path / "n.tsv").write_text("\n".join(["id\tlang\ttext", *rows]) + "\n", encoding="utf-8")
    options = ("--model", toy_folders["release"], "--hard-negatives")
    lines = ("--source", tmp_path / "a.txt", "--source-lang", "fra_Latn", "--target", tmp_path / "b.txt")
    (code, out, err), (_, of_table, _) = run(*options, *lines), run(*options, "--data", tmp_path / "n.tsv")
    assert code == 0, err
    report, row = json.loads(out), json.loads(of_table)["rows"][0]
    assert report["error_rate"] == row["xsim"] < 50 and report["xsimpp"]["error_rate"] == row["xsimpp"]


def test_a_broken_embedding_names_file_and_line(run, tmp_path, monkeypatch):
    import hf_echo.inference.any_encoder as module

    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("one\ntwo\n")
    monkeypatch.setattr(module, "any_encoder", lambda name: lambda texts, lang: np.eye(2) * [[1.0], [np.nan]])
    code, _, err = run(
        "--model", "m", "--source", tmp_path / "a.txt", "--target", tmp_path / "b.txt", "--source-lang", "fra_Latn"
    )
    assert code == 2 and "a.txt:2 (fra_Latn): a NaN, infinite or zero embedding" in err
