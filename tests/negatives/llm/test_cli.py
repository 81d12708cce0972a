"""hf-echo data describe, back-translate, negatives, against the tests' own server."""

from __future__ import annotations

import json

import pytest

from hf_echo.negatives.llm import describable, read_texts

COMMAND = "data"


@pytest.fixture
def tables(tmp_path):
    """Files by name: table("a.jsonl", rows) -> path."""

    def write(name, rows):
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return write


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


CODE = [{"source": "f(x)", "source_lang": "python"}, {"source": "$a + b$", "source_lang": "latex"}]


def test_describe(run, server, tables, tmp_path, monkeypatch):
    keys = []
    server.script = lambda request, times: "Calls f." if "Python" in str(request) else "The sum of a and b."
    handler = server.RequestHandlerClass
    monkeypatch.setattr(handler, "log_request", lambda self, *_: keys.append(self.headers["Authorization"]))
    monkeypatch.setenv("MY_KEY", "secret")
    arguments = (
        "describe",
        tables("in.jsonl", CODE),
        tmp_path / "out.jsonl",
        "-m",
        "m",
        "--endpoint",
        server.url,
    )
    code, out, err = run(*arguments, "--api-key-env", "MY_KEY", "--price-out", "10", "--json", tmp_path / "s.json")
    assert code == 0 and "2/2" in err
    rows = lines(tmp_path / "out.jsonl")
    assert [(r["target"], r["provenance"]) for r in rows] == [
        ("Calls f.", "code"),
        ("The sum of a and b.", "math"),
    ]
    summary = json.loads(out)
    assert summary == json.loads((tmp_path / "s.json").read_text())
    assert summary["completion_tokens"] == 8 and summary["cost"] == pytest.approx(8e-5)
    assert keys == ["Bearer secret"] * 2 and "secret" not in (tmp_path / "out.replies.jsonl").read_text()


def test_back_translate(run, server, tables, tmp_path):
    server.script = lambda request, times: "¿Uno? " + request["messages"][-1]["content"][-7:]
    table = tables("in.jsonl", [{"text": "A boat."}, {"text": "Two cats."}])
    arguments = (
        "back-translate",
        table,
        tmp_path / "o.jsonl",
        "--column",
        "text",
        "-m",
        "m",
        "--endpoint",
        server.url,
    )
    code, out, _ = run(*arguments)
    assert code == 0 and json.loads(out)["rows"] == 14  # the paper's seven languages
    code, _, _ = run(*arguments, "--to", "spa_Latn", "--to", "Hindi")
    rows = lines(tmp_path / "o.jsonl")
    assert code == 0 and [r["source_lang"] for r in rows] == ["spa_Latn", "hin_Deva"] * 2
    assert rows[0]["source"] == "¿Uno? A boat." and rows[0]["provenance"] == "back_translation"
    assert len(server.seen) == 14


def test_negatives(run, server, tmp_path):
    table = tmp_path / "in.tsv"
    table.write_text(
        "source\tsource_lang\ttarget\ttarget_lang\nUn bateau.\tfra_Latn\tA boat.\teng_Latn\n"
        "A boat.\teng_Latn\tUn bateau.\tfra_Latn\n",
        encoding="utf-8",
    )
    server.script = lambda request, times: '[["entity", "A car."], ["number", "Two boats."]]'
    shots = tmp_path / "shots.yaml"
    shots.write_text("- {input: My cat., output: [[entity, Your cat.]]}\n")
    arguments = (
        "negatives",
        table,
        tmp_path / "o.jsonl",
        "-m",
        "m",
        "--endpoint",
        server.url,
        "--few-shots",
        shots,
    )
    code, out, _ = run(*arguments, "--kinds")
    assert code == 0 and json.loads(out)["not_asked"] == 1
    rows = lines(tmp_path / "o.jsonl")
    assert rows[0]["hard_negatives"] == ["A car.", "Two boats."] and rows[1]["hard_negatives"] == []
    assert rows[0]["hard_negative_kinds"] == ["entity", "number"]
    assert '["entity", "Your cat."]' in server.requests()[0]["messages"][0]["content"]


def test_rows_of_data_code_and_math(run, server, tables, tmp_path):
    """What `train_scripts/corpora/source_code.py` and `math` write is read as it is, class by class."""
    rows = [
        {"id": "a", "language": "python", "text": "f(x)", "class": "code"},
        {"id": "b", "language": "latex", "text": "Let $x = 1$ be.", "class": "sentence"},
    ]
    table, out = tables("in.jsonl", rows), tmp_path / "o.jsonl"
    arguments = (table, out, "-m", "m", "--endpoint", server.url, "--only")
    server.script = lambda request, times: "Soit $x = 1$ donné."
    assert run("describe", *arguments, "code")[0] == 0
    assert [(r["source"], r["source_lang"]) for r in lines(out)] == [("f(x)", "python")]
    assert run("back-translate", *arguments, "sentence", "--to", "fra_Latn")[0] == 0
    assert [(r["source"], r["target"], r["target_lang"]) for r in lines(out)] == [
        ("Soit $x = 1$ donné.", "Let $x = 1$ be.", "eng_Latn")
    ]
    code, _, err = run("describe", *arguments, "none")
    assert code == 2 and "in.jsonl: no valid row of class 'none'" in err


def test_dry_run_asks_nothing(run, server, tables, tmp_path):
    table = tables("in.jsonl", [*CODE, CODE[0]])
    arguments = ["describe", table, tmp_path / "o" / "out.jsonl", "-m", "m", "--endpoint", server.url]
    extra = ["--dry-run", "--max-tokens", "100", "--price-in", "1", "--price-out", "2"]
    code, out, err = run(*arguments, *extra)
    counts = json.loads(out)
    assert code == 0 and not server.seen and not (tmp_path / "o").exists()
    assert err.startswith("[user]\nTranslate the following Python snippet") and "f(x)" in err
    assert (counts["rows"], counts["requests"], counts["in_cache"]) == (3, 2, 0)
    assert counts["completion_tokens_at_most"] == 200 and 220 < counts["prompt_tokens_about"] < 260
    assert counts["cost_at_most"] == pytest.approx((counts["prompt_tokens_about"] + 400) / 1e6)
    server.script = lambda request, times: "A sentence."
    assert run(*arguments, "--max-tokens", "100")[0] == 0
    counts = json.loads(run(*arguments, *extra)[1])
    assert (counts["requests"], counts["in_cache"], counts["prompt_tokens_about"]) == (0, 2, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("describe none.jsonl o.jsonl", "no file none.jsonl; give a table of texts"),
        ("describe in.jsonl o.tsv", "o.tsv: the file name must end in .jsonl"),
        ("describe in.jsonl in.jsonl", "in.jsonl is an input too"),
        ("describe in.txt o.jsonl", "in.txt: not a table of texts"),
        (
            "describe text.jsonl o.jsonl",
            "text.jsonl has no column 'text_lang' for the language (found: text)",
        ),
        (
            "describe text.jsonl o.jsonl --lang eng_Latn",
            "text.jsonl:1: language: eng_Latn is neither code nor latex",
        ),
        ("describe in.jsonl o.jsonl --lang python", "in.jsonl:2: language: latex is not python"),
        (
            "describe in.jsonl o.jsonl --lang python --only code",
            "in.jsonl has no column 'class' to choose 'code'",
        ),
        ("back-translate in.jsonl o.jsonl --column source", "in.jsonl:1: language: python is not eng_Latn"),
        ("describe in.jsonl o.jsonl --column code", "in.jsonl has no column of texts (code); found: source"),
        ("describe bad.jsonl o.jsonl", "bad.jsonl:2: not valid JSON"),
        ("describe in.jsonl o.jsonl --on-fail never", "--on-fail never must be 'skip' or 'stop'"),
        ("describe in.jsonl o.jsonl --few-shots none.yaml", "no file none.yaml"),
        ("back-translate text.jsonl o.jsonl --to xx", "unknown language 'xx'"),
        ("negatives none.tsv o.jsonl", "none.tsv: no such file"),
    ],
)
def test_refusals(refused, server, tables, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    tables("in.jsonl", CODE)
    tables("text.jsonl", [{"text": "a b"}])
    (tmp_path / "bad.jsonl").write_text('{"text": "f(x)", "lang": "c"}\n{"text": "f(\n')
    (tmp_path / "in.txt").write_text("f(x)\n")
    refused(message, *arguments.split(), "-m", "m", "--endpoint", server.url)
    assert not server.seen


def test_wrong_endpoints(refused, server, tables, tmp_path):
    arguments = ("describe", tables("in.jsonl", CODE), tmp_path / "o.jsonl", "-m", "m", "--endpoint")
    refused("endpoint 'localhost:8000' is not an address such as", *arguments, "localhost:8000")


def test_bad_rows_are_skipped_on_request(tables, tmp_path, caplog):
    rows = [
        *CODE,
        {"source": "", "source_lang": "c"},
        {"source": "x", "source_lang": "fra_Latn"},
        {"source": 3},
    ]
    table = tables("in.jsonl", rows)
    texts = read_texts(table, columns=[("source", "source_lang")], check=describable, on_bad_row="skip")
    assert texts == [("f(x)", "python"), ("$a + b$", "latex")]
    assert "skipped 3 bad rows" in caplog.text and "in.jsonl:3" in caplog.text
