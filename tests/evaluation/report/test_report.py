"""A report from end to end in the toy world: the page, the figures' truth, a second run, and what is refused."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from datasets import Dataset

from hf_echo.evaluation import evaluate_xsim
from hf_echo.evaluation import report as reports
from hf_echo.evaluation.report.models import open_models
from hf_echo.evaluation.report.page import section_of
from hf_echo.evaluation.report.sentences import error_examples, project
from hf_echo.inference import encode
from hf_echo.inference.encoders import tfidf_encoder

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

COMMAND = "report"


def write(folder, name, rows):
    folder.mkdir(exist_ok=True)
    Dataset.from_list(rows).to_parquet(folder / f"{name}.parquet")
    return folder


def topic_rows(toy):
    """The topic is the animal of the sentence."""
    return [
        row | {"category": f"animal {meaning[2]}", "split": part}
        for part in ("train", "dev")
        for row, meaning in zip(
            toy.nway_rows(part), [m for m in toy.split(part) for _ in toy.LANGUAGES], strict=True
        )
    ]


@pytest.fixture(scope="module")
def folder(toy, tmp_path_factory):
    return write(tmp_path_factory.mktemp("data"), "toys", topic_rows(toy))


@pytest.fixture(scope="module")
def model(toy_folders):
    return str(toy_folders["release"])


@pytest.fixture(scope="module")
def report(folder, model, tmp_path_factory):
    """(folder of the report, folder of the cache, measured)"""
    out, cache = (tmp_path_factory.mktemp(name) for name in ("out", "cache"))
    data = reports.read_folder(folder)
    measured = reports.measure(
        open_models([model, "tfidf"], data.texts), data, cache, progress=False
    )
    reports.write_report(measured, out, title="Toys <&> others")
    return out, cache, measured


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.links = []
        self.text = []
        self.ids = []

    def handle_starttag(self, tag, attributes):
        own = dict(attributes)
        self.links += [
            own[name] for name in ("src", "href", "xlink:href", "srcset", "data") if name in own
        ]
        self.ids.append(own.get("id"))

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_stands_alone(report):
    out, _, measured = report
    html = (out / "index.html").read_text(encoding="utf-8")
    page = Page()
    page.feed(html)
    assert page.links
    assert all(link.startswith("#") for link in page.links)
    assert not re.search(r"@import|url\((?!#)|<script", html)
    assert len(html.encode()) < 2_000_000
    assert set(re.findall(r"url\(#([^)]+)\)", html)) | {x[1:] for x in page.links} <= set(page.ids)
    text = " ".join(page.text)
    for word in (
        "fra_Latn",
        "rus_Cyrl",
        "eng_Latn",
        "tfidf",
        *(m["label"] for m in measured["models"]),
    ):
        assert word in text
    assert "Toys <&> others" in text
    assert html.count("<svg") >= 2


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            [{"id": "1", "lang": "eng_Latn", "text": " "}],
            r"odd.parquet, row 1 \(eng_Latn\): text is empty",
        ),
        (
            [{"id": "1", "lang": "fra_Latn", "text": "a"}],
            "odd.parquet: no rows in 'eng_Latn': found fra_Latn",
        ),
        (
            [
                {"id": i, "lang": lang, "text": "a"}
                for i, lang in enumerate(("eng_Latn", "fra_Latn"))
            ],
            "no id in common",
        ),
        ([{"a": 1}], "is no n-way table .*found: a"),
    ],
)
def test_rows_that_cannot_be_used(tmp_path, rows, words):
    with pytest.raises(ValueError, match=words):
        reports.read_folder(write(tmp_path, "odd", rows))


def test_a_language_without_common_sentences_is_left_out_and_named(tmp_path, toy, caplog):
    rows = [*toy.nway_rows(), {"id": 1000, "lang": "deu_Latn", "text": "Ein Hund."}]
    data = reports.read_folder(write(tmp_path / "data", "few", rows))
    reason = "'deu_Latn' (1 rows) and 'eng_Latn' (32 rows) have no id in common"
    assert caplog.messages == [f"not measured: {reason}"]
    model = reports.ReportModel("plain", lambda texts, lang: np.eye(len(texts), 8) + 1, "plain-1")
    measured = reports.measure([model], data, tmp_path / "cache", progress=False)
    assert [row["lang"] for row in measured["xsim"]["few"]["plain"]["rows"]] == [
        "fra_Latn",
        "rus_Cyrl",
    ]
    assert measured["geometry"]
    assert f"all models: few.parquet: {reason}" in measured["skipped"]


def test_a_space_whose_geometry_cannot_be_measured(tmp_path, few):
    """One embedding for all sentences of a language: no geometry, and the rest of the report."""

    def encode(texts, lang):
        return np.ones((len(texts), 8)) if lang == "rus_Cyrl" else np.eye(len(texts), 8) + 1

    measured = reports.measure(
        [reports.ReportModel("flat", encode, "f")], few, tmp_path / "cache", progress=False
    )
    assert not measured["geometry"]
    assert not measured["singular_values"]
    assert measured["map"]
    reason = "few.parquet: all 32 rows of 'rus_Cyrl' are the same: leave this language out"
    assert f"flat: geometry: {reason}" in measured["skipped"]


@pytest.fixture
def few(tmp_path, toy):
    return reports.read_folder(write(tmp_path / "data", "few", toy.nway_rows()))


def test_a_broken_model_is_named_and_not_remembered(tmp_path, few):
    def broken(texts, lang):
        rows = np.random.default_rng(len(lang)).normal(size=(len(texts), 8))
        rows[3 if lang == "rus_Cyrl" else []] = np.nan
        return rows

    model = reports.ReportModel("odd one", broken, "odd-1")
    message = "few.parquet, model odd one: .*NaN or infinite values for the text .* in 'rus_Cyrl'"
    with pytest.raises(ValueError, match=message):
        reports.measure([model], few, tmp_path / "cache", progress=False)
    asked = []
    mended = lambda texts, lang: asked.append(lang) or np.eye(len(texts), 8) + 1  # noqa: E731
    reports.measure([replace(model, encode=mended)], few, tmp_path / "cache", progress=False)
    assert "rus_Cyrl" in asked
    assert "fra_Latn" not in asked


def test_examples_are_errors(few):
    """An encoder that puts a sentence's hard negatives where its translations are, and the target elsewhere."""
    table = few.tables["few"]
    own = {text: key for words in table.texts.values() for key, text in words.items()}
    owner = {text: key for key, items in table.negatives.items() for text, _ in items}

    def encoder(texts, lang):
        rows = np.zeros((len(texts), 33))
        for row, text in zip(rows, texts, strict=True):
            row[owner.get(text, own.get(text, 0))] = 1
            row[32] = 0.5 if text in own and lang == "eng_Latn" else 0
        return rows

    found = error_examples(encoder, table, "eng_Latn", count=2)
    assert [e["lang"] for e in found] == ["fra_Latn", "rus_Cyrl"]
    for example in found:
        assert example["desired"] == table.texts["eng_Latn"][example["id"]]
        assert example["source"] == table.texts[example["lang"]][example["id"]]
        assert (example["retrieved"], example["kind"]) in table.negatives[example["id"]]


def published_file(folder, toy):
    """The published layout, with one changed sentence of the toy world."""
    sentence = toy.say(toy.split("dev")[0], "eng_Latn")
    content = {f"{sentence} not": {"src": sentence, "errtype": "negation"}}
    (folder / "errtype.json").write_text(json.dumps(content), encoding="utf-8")
    return folder / "errtype.json", sentence


def test_a_table_of_the_published_set_gets_its_negatives(tmp_path, toy):
    file, sentence = published_file(tmp_path, toy)
    folder = write(tmp_path / "data", "few", toy.nway_rows())
    other = [
        {"id": 1, "lang": lang, "text": "Three cats sleep in Rome."}
        for lang in ("eng_Latn", "fra_Latn")
    ]
    write(folder, "other", other)

    data = reports.read_folder(folder, published=file)

    assert list(data.tables["few"].negatives.values()) == [[(f"{sentence} not", "negation")]]
    assert data.tables["few"].negatives_from == "published set"
    assert data.tables["other"].negatives_from == "rule negatives"


def test_a_published_set_of_other_sentences_is_refused(tmp_path, toy):
    file, _ = published_file(tmp_path, toy)
    rows = [
        {"id": 1, "lang": lang, "text": "Three cats sleep in Rome."}
        for lang in ("eng_Latn", "fra_Latn")
    ]
    folder = write(tmp_path / "data", "other", rows)

    with pytest.raises(
        ValueError, match="errtype.json: none of its 1 sentences is among the 1 target sentences"
    ):
        reports.read_folder(folder, published=file)


def test_the_page_says_which_negatives_each_set_has(tmp_path, toy):
    file, _ = published_file(tmp_path, toy)
    folder = write(tmp_path / "data", "few", toy.nway_rows())
    write(folder, "more", [row | {"text": f"{row['text']} 7"} for row in toy.nway_rows()])
    data = reports.read_folder(folder, published=file)
    model = reports.ReportModel("plain", lambda texts, lang: np.eye(len(texts), 400) + 1, "plain-1")

    measured = reports.measure([model], data, tmp_path / "cache", progress=False)
    reports.write_report(measured, tmp_path / "out")

    html = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "few: published set; more: rule negatives" in html


def test_several_sets_have_one_average(tmp_path, toy):
    folder = write(tmp_path / "data", "few", toy.nway_rows())
    write(folder, "less", [row for row in toy.nway_rows() if row["lang"] != "rus_Cyrl"])
    data = reports.read_folder(folder)
    noise = np.random.default_rng(0)
    model = reports.ReportModel(
        "random", lambda texts, lang: noise.normal(size=(len(texts), 8)), "random-1"
    )

    measured = reports.measure([model], data, tmp_path / "cache", progress=False)

    means = [
        np.mean([row["xsim"] for row in measured["xsim"][name]["random"]["rows"]])
        for name in ("few", "less")
    ]
    assert measured["averages"]["random"]["average"]["xsim"] == pytest.approx(np.mean(means))


def test_the_map_keeps_what_is_near():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 15)
    rows = np.repeat(np.eye(3, 32), 15, axis=0) + 0.05 * rng.normal(size=(45, 32))
    method, flat = project(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    distance = np.linalg.norm(flat[:, None] - flat[None], axis=2) + 1e9 * np.eye(len(flat))
    assert method in ("PCA", "UMAP")
    assert (labels[distance.argmin(1)] == labels).all()


def test_the_figures_are_those_of_the_evaluations(report, toy, toy_trained, toy_tokenizer):
    out, _, measured = report
    written = json.loads((out / "report.json").read_text(encoding="utf-8"))
    negatives = reports.data.hard_negatives_for(
        [toy.say(m, "eng_Latn") for m in toy.split("dev")], 5
    )
    options = {"negatives": dict(enumerate(negatives)), "same_text_is_right": True}
    rows = toy.nway_rows("dev")
    label = measured["models"][0]["label"]
    own = evaluate_xsim(
        lambda t, lang: encode(toy_trained, toy_tokenizer, t, lang), rows, **options
    )
    plain = evaluate_xsim(tfidf_encoder([row["text"] for row in rows]), rows, **options)
    assert written["xsim"]["toys"]["tfidf"]["rows"] == plain.rows
    for mine, true in zip(written["xsim"]["toys"][label]["rows"], own.rows, strict=True):
        assert mine["lang"] == true["lang"]
        # a bf16 CPU may tip one sentence
        assert mine["xsimpp"] == pytest.approx(true["xsimpp"], abs=3.2)
    html = (out / "index.html").read_text(encoding="utf-8")
    assert re.search(rf'<td class="number[a-z ]*">{plain.average["xsim"]:.1f}</td>', html)
    assert '<td class="text">French (fra_Latn)</td><td class="number">32</td>' in html


def test_every_part_is_there_or_said_to_be_missing(report):
    _, _, measured = report
    label = measured["models"][0]["label"]
    assert set(measured["topics"]["toys"]) == {"fra_Latn", "eng_Latn"}
    assert measured["topics"]["toys"]["fra_Latn"][label]["average"]["clt"] > 60  # chance is 25
    assert measured["geometry"][label]["languages"] == 3
    assert measured["singular_values"][label][0] == 1
    assert set(measured["groups"]["toys"]) == {"family", "script", "resource"}
    reasons = [reason for reason in measured["skipped"] if reason.startswith("tfidf")]
    assert len(reasons) == 1
    assert "sparse" in reasons[0]


def test_a_second_run_opens_no_model(report, folder, model):
    _, cache, measured = report
    data = reports.read_folder(folder)
    models = open_models([model, "tfidf"], data.texts)
    # TF-IDF's sparse rows are not stored
    models[0].encode = lambda *_: pytest.fail("the model was asked again")
    assert reports.measure(models, data, cache, progress=False) == measured


def test_the_command(folder, tmp_path, run, refused):
    places = ("--out", tmp_path / "out", "--cache", tmp_path / "cache")
    code, _, err = run("tfidf", "--data", folder, *places)
    assert code == 0, err
    assert {f.name for f in (tmp_path / "out").iterdir()} == {"index.html", "report.json"}
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "odd.PARQUET").write_bytes(b"PAR1 no more")
    for arguments, words in (
        (["tfidf", "--data", tmp_path / "nowhere"], "is not a folder"),
        (["tfidf", "--data", tmp_path / "bad"], "odd.PARQUET: damaged, incomplete"),
        (["tfidf", "tfidf", "--data", folder], "'tfidf' is given twice"),
        (["./no-model", "--data", folder], "no folder ./no-model"),
        (["tfidf", "--data", folder, "--main", "toy"], "no set 'toy'; found toys"),
        (["tfidf", "--data", folder, "--target-lang", "deu_Latn"], "no rows in 'deu_Latn'"),
    ):
        refused(words, *arguments, *places, "--overwrite")


def test_the_best_value_of_a_column_of_models_is_bold():
    rows = [
        {"model": "a", "news xsim": 2.0, "size": 1.0},
        {"model": "b", "news xsim": 1.0, "size": 2.0},
    ]
    (grid,) = section_of("Summary", "", {"": rows})["grids"]
    assert [[cell["best"] for cell in row] for row in grid["rows"]] == [
        [False, False, False],
        [False, True, False],
    ]


def test_the_best_of_models_beside_each_other_is_bold():
    rows = [{"lang": "fra_Latn", "a xsim": 2.0, "b xsim": 1.0, "a CLT": 0.9, "b CLT": 0.8}]
    (grid,) = section_of("", "", {"": rows})["grids"]
    assert [cell["best"] for cell in grid["rows"][0]] == [False, False, True, True, False]


def test_bars_by_language_compare_the_models_of_a_measure():
    rows = [
        {"lang": "fra_Latn", "a xsim": 10.0, "b xsim": 40.0, "a CLT": 0.5},
        {"lang": "deu_Latn", "a xsim": 20.0, "b xsim": None, "a CLT": 1.0},
    ]
    (grid,) = section_of("", "", {"": rows})["grids"]
    bars = [[cell["bar"] for cell in row[1:]] for row in grid["rows"]]
    assert bars == [[25, 100, 50], [50, None, 100]]


def test_models_have_no_bars_for_different_measures():
    (grid,) = section_of("", "", {"": [{"model": "a", "size": 1.0}]})["grids"]
    assert [cell["bar"] for cell in grid["rows"][0]] == [None, None]


def test_the_changed_word_is_marked():
    row = {"desired": "Two red cats sleep", "retrieved": "Two blue cats <b>"}
    (grid,) = section_of("", "", {"": [row]})["grids"]
    assert str(grid["rows"][0][1]["text"]) == "Two <mark>blue</mark> cats <mark>&lt;b&gt;</mark>"


def test_a_section_keeps_its_text():
    assert section_of("Summary", "What it says.", {"": [{"model": "a"}]})["text"] == "What it says."
