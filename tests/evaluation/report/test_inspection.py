"""`hf-echo inspect`: what filters say about pairs, and the page that shows it."""

import numpy as np
import pytest

from hf_echo.data.pipeline.data_recipe import Step
from hf_echo.data.pipeline.filters import build
from hf_echo.evaluation.report.inspection import inspect_pairs, judge, read_pairs, recipe_line

from ...refusals import refuses

ROWS = [
    ("0.9", "Le chat dort.", "The cat sleeps."),
    ("0.8", "Le chien mange du pain.", "The dog eats bread."),
    ("0.9", "Le chat dort.", "The cat sleeps."),  # again
    ("0.1", "Il pleut sur la ville.", "My keys are on the table."),
    ("0.7", "12 34 56", "98 76"),  # no letters
    ("0.3", "Bonjour à tous.", "Hello everybody."),
]
LANGS = dict(source_lang="fra_Latn", target_lang="eng_Latn")


@pytest.fixture
def pairs(tmp_path):
    lines = ["score\tsource\ttarget", *map("\t".join, ROWS)]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "pairs.tsv"


@pytest.mark.parametrize(
    ("filter_name", "stay"),
    [
        ("sanity", [True, True, True, True, False, True]),
        ("exact_duplicates", [True, True, False, True, True, True]),
        ("threshold", [True, True, True, False, True, True]),
    ],
)
def test_every_filter_judges_every_pair(pairs, filter_name, stay):
    judgements = judge(read_pairs([pairs], limit=100, **LANGS))

    (judged,) = [judged for judged in judgements if judged.name == filter_name]
    assert judged.keep.tolist() == stay


def test_the_margin_of_a_threshold_is_the_score_less_the_limit(pairs):
    (judged,) = judge(
        read_pairs([pairs], limit=100, **LANGS),
        [Step("threshold", build("threshold", {"floor": 0.5}))],
    )
    np.testing.assert_allclose(judged.margin, [0.4, 0.3, 0.4, -0.4, 0.2, -0.2], atol=1e-9)


def test_only_the_first_pairs_are_read(pairs):
    assert len(read_pairs([pairs], limit=4, **LANGS)) == 4


def test_a_recipe_line_has_what_is_not_usual():
    step = Step("length_ratio", build("length_ratio", {"limit": 4.0}))
    assert recipe_line(step) == "- {filter: length_ratio, limit: 4.0}"


@pytest.fixture
def page(pairs, tmp_path):
    """(report, text of the page)"""
    pytest.importorskip("matplotlib")
    report = inspect_pairs([pairs], tmp_path / "page.html", **LANGS)
    return report, (tmp_path / "page.html").read_text(encoding="utf-8")


def test_rows_that_are_no_pairs_are_said(pairs, tmp_path, caplog):
    pytest.importorskip("matplotlib")
    with pairs.open("a", encoding="utf-8") as file:
        file.write("0.5\t\tNo source.\n")

    report = inspect_pairs([pairs], tmp_path / "page.html", **LANGS)

    assert report["pairs"] == 6
    assert report["bad_rows"] == 1
    line = "skipped 1 bad row (source is empty: 1), the first at"
    assert line in caplog.text
    assert line in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_file_without_pairs_says_why(tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text("source\ttarget\n\tNo source.\n", encoding="utf-8")
    refuses(
        r"pairs.tsv has no pairs \(.*:2: source is empty\)", read_pairs, [file], limit=4, **LANGS
    )


def test_pairs_are_counted_by_the_filter_that_drops_them(page):
    report, _ = page

    assert report["pairs"] == 6
    assert report["kept"] == 3
    assert report["dropped"] == {
        "sanity": 1,
        "length_ratio": 0,
        "exact_duplicates": 1,
        "threshold": 1,
    }


def test_the_page_shows_the_recipe_line_of_a_filter(page):
    _, text = page

    assert "- {filter: exact_duplicates, side: both}" in text


def test_the_page_shows_the_worst_pairs_first(page):
    """Their scores are 0.1 and 0.3."""
    _, text = page

    worst = text[text.index("Filter: threshold</h2>") :]
    assert worst.index("Il pleut sur la ville.") < worst.index("Bonjour à tous.")


def test_the_page_has_a_chart_for_each_filter(page):
    _, text = page

    assert text.count("<svg") == 4


def test_a_recipe_chooses_the_filters(pairs, tmp_path, run):
    pytest.importorskip("matplotlib")
    recipe = tmp_path / "own.yaml"
    recipe.write_text("sources: [x.tsv]\nsteps:\n  - {filter: sanity, max_chars: 15}\n")
    options = (
        "--source-lang",
        "fra",
        "--target-lang",
        "eng",
        "--recipe",
        recipe,
        "--out",
        tmp_path / "page.html",
    )
    code, out, err = run("inspect", pairs, *options)
    assert code == 0, err
    assert '"sanity": 4' in out  # the two pairs of cats have 15 characters at most


def test_what_holds_no_pairs_is_refused(tmp_path):
    refuses("no file", read_pairs, [tmp_path / "none.tsv"], limit=1, error=FileNotFoundError)
