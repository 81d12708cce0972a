"""Averages over a paper's languages and over benchmarks, against means written by hand,
and their command."""

import json

import pytest

from hf_echo.evaluation import Table, average_over_benchmarks, grouped

COMMAND = "evaluate average"


def table(measure: str = "accuracy", **values: float) -> Table:
    rows = [{"lang": lang, "count": 10, measure: value} for lang, value in values.items()]
    return Table(rows).with_average([measure])


def test_a_set_of_languages_against_the_others():
    xsim = table("xsim", fra_Latn=1.0, deu_Latn=3.0, acm_Arab=9.0, kac_Latn=20.0)

    rows = grouped(xsim, "mexma-72").rows

    assert rows == [
        {"mexma-72": "mexma-72", "languages": 2, "xsim": 2.0},
        {"mexma-72": "others", "languages": 2, "xsim": 14.5},
    ]


def test_the_language_that_was_taught_is_in_no_group():
    transfer = table("clt", fra_Latn=100.0, deu_Latn=90.0, spa_Latn=80.0)
    transfer = Table(transfer.rows, {"lang": "average", "clt": 85.0}, {"train_lang": "fra_Latn"})

    rows = grouped(transfer, "script").rows

    assert rows == [{"script": "Latin", "languages": 2, "clt": 85.0}]


def test_groups_of_a_table_without_average_have_no_means():
    counts = Table([{"lang": "fra_Latn", "count": 10}, {"lang": "rus_Cyrl", "count": 20}])

    rows = grouped(counts, "script").rows

    assert rows == [
        {"script": "Latin", "languages": 1},
        {"script": "Cyrillic", "languages": 1},
    ]


def test_the_mean_is_over_languages_first():
    """(80 + 60) / 2 = 70 and 40: the mean is 55, while the mean over all rows is 60."""
    tables = {
        "massive": table(fra_Latn=80.0, deu_Latn=60.0),
        "counterfactual": table(eng_Latn=40.0),
    }

    averages = average_over_benchmarks(tables)

    assert averages.average == {"benchmark": "average", "accuracy": 55.0}
    assert averages.rows == [
        {"benchmark": "massive", "languages": 2, "accuracy": 70.0},
        {"benchmark": "counterfactual", "languages": 1, "accuracy": 40.0},
    ]


def test_only_measures_that_every_benchmark_has():
    both = Table([{"lang": "fra_Latn", "xsim": 2.0, "xsimpp": 8.0}])
    one = Table([{"lang": "fra_Latn", "xsim": 4.0, "xsimpp": None}])
    measures = ["xsim", "xsimpp"]
    tables = {"a": both.with_average(measures), "b": one.with_average(measures)}

    averages = average_over_benchmarks(tables)

    assert averages.average == {"benchmark": "average", "xsim": 3.0}


@pytest.mark.parametrize(
    ("tables", "languages", "message"),
    [
        (
            {"a": table(fra_Latn=1.0)},
            "mexma-7",
            "languages is 'mexma-7'; it must be one of common-80",
        ),
        (
            {"a": table(kac_Latn=1.0)},
            "mexma-72",
            "a has no accuracy in the languages of mexma-72: leave it out",
        ),
        (
            {"a": table(fra_Latn=1.0), "b": table("xsim", fra_Latn=1.0)},
            None,
            r"no measure in common \(a: accuracy; b: xsim\)",
        ),
    ],
)
def test_what_has_no_average_is_refused(tables, languages, message):
    with pytest.raises(ValueError, match=message):
        average_over_benchmarks(tables, languages=languages)


def write(path, content):
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def of_mteb(task: str, **scores: float) -> dict:
    """The layout of mteb's result files."""
    rows = []
    for lang, score in scores.items():
        rows.append({"hf_subset": lang, "languages": [lang.replace("_", "-")], "main_score": score})
    return {"task_name": task, "mteb_version": "2", "scores": {"test": rows}}


def test_the_command_averages_files_of_mteb(answer, tmp_path):
    one = write(tmp_path / "a.json", of_mteb("MassiveIntent", fra_Latn=0.8, deu_Latn=0.6))
    other = write(tmp_path / "b.json", of_mteb("Counterfactual", eng_Latn=0.4))

    report = answer(one, other)

    # (80 + 60) / 2 and 40 percent have the mean 55.
    assert report["average"]["score"] == pytest.approx(55.0)
    assert [row["benchmark"] for row in report["rows"]] == ["MassiveIntent", "Counterfactual"]


def test_the_command_averages_own_files_over_the_languages_of_a_paper(answer, tmp_path):
    flores = table("xsim", fra_Latn=2.0, kac_Latn=50.0)
    ntrex = table("xsim", deu_Latn=4.0)
    flores_file = write(tmp_path / "flores.json", {"rows": flores.rows, "average": flores.average})
    ntrex_file = write(tmp_path / "ntrex.json", {"rows": ntrex.rows, "average": ntrex.average})

    report = answer(flores_file, ntrex_file, "--languages", "mexma-72")

    assert report["average"] == {"benchmark": "average", "xsim": 3.0}
    assert report["languages"] == "mexma-72"


def test_a_pair_with_english_in_a_file_of_mteb_is_of_the_other_language(answer, tmp_path):
    pair = {"hf_subset": "sqi-eng", "languages": ["sqi-Latn", "eng-Latn"], "main_score": 0.9}
    content = {"task_name": "Tatoeba", "scores": {"test": [pair]}}

    report = answer(write(tmp_path / "t.json", content), "--languages", "tatoeba-long-tail")

    assert report["rows"] == [{"benchmark": "Tatoeba", "languages": 1, "score": 90.0}]


def test_a_second_result_of_a_benchmark_is_refused(refused, tmp_path):
    first = write(tmp_path / "a.json", of_mteb("Massive", fra_Latn=0.8))
    second = write(tmp_path / "b.json", of_mteb("Massive", fra_Latn=0.7))

    refused("b.json: a second result of 'Massive'", first, second)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"rows": []}', "a.json has neither rows and an average"),
        (
            '{"task_name": "x", "scores": {"dev": [], "train": []}}',
            "a.json has the splits dev, train; it needs test, or one split alone",
        ),
        ("{", "a.json is not JSON"),
    ],
)
def test_a_file_that_is_no_result_is_refused(refused, tmp_path, text, message):
    file = tmp_path / "a.json"
    file.write_text(text, encoding="utf-8")

    refused(message, file)
