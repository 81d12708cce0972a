"""A report from end to end in the toy world: the page, the figures' truth, a second run,
and what is refused."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from datasets import Dataset
from scipy.spatial.distance import cdist

from hf_echo.evaluation import evaluate_xsim
from hf_echo.evaluation import report as reports
from hf_echo.evaluation.report.models import open_models
from hf_echo.evaluation.report.page import section_of
from hf_echo.evaluation.report.sentences import error_examples, project
from hf_echo.inference import encode
from hf_echo.inference.encoders import tfidf_encoder
from hf_echo.utils.vectors import unit_length

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

COMMAND = "report"


def write(folder, name, rows):
    folder.mkdir(exist_ok=True)
    Dataset.from_list(rows).to_parquet(folder / f"{name}.parquet")
    return folder


def topic_rows(toy):
    """The topic is the animal of the sentence."""
    rows = []
    for split in ("train", "dev"):
        for row in toy.nway_rows(split):
            _, _, animal, _ = toy.split(split)[row["id"]]
            rows.append(row | {"category": f"animal {animal}", "split": split})
    return rows


@pytest.fixture(scope="module")
def folder(toy, tmp_path_factory):
    return write(tmp_path_factory.mktemp("data"), "toys", topic_rows(toy))


@pytest.fixture(scope="module")
def model(toy_folders):
    return str(toy_folders["release"])


@pytest.fixture(scope="module")
def report(folder, model, tmp_path_factory):
    """(folder of the report, folder of the cache, measured)"""
    out = tmp_path_factory.mktemp("out")
    cache = tmp_path_factory.mktemp("cache")
    data = reports.read_folder(folder)
    models = open_models([model, "tfidf"], data.texts)
    measured = reports.measure(models, data, cache, progress=False)
    reports.write_report(measured, out, title="Toys <&> others")
    return out, cache, measured


@pytest.fixture(scope="module")
def html(report):
    out, _, _ = report
    return (out / "index.html").read_text(encoding="utf-8")


def measured_by(data, encoder, cache, name="plain"):
    """What one model of this encoder is measured to."""
    model = reports.ReportModel(name, encoder, f"{name}-1")
    return reports.measure([model], data, cache, progress=False)


def axes(texts, lang):
    """An axis for each text of a list."""
    return np.eye(len(texts), 400) + 1


class Page(HTMLParser):
    """Links, ids and texts of a page."""

    def __init__(self, html):
        super().__init__()
        self.links = []
        self.texts = []
        self.ids = []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("src", "href", "xlink:href", "srcset", "data"):
                self.links.append(value)
            if name == "id":
                self.ids.append(value)

    def handle_data(self, data):
        self.texts.append(data)


def test_the_page_stands_alone(html):
    """All links are into the page; no script, no style or font from elsewhere."""
    page = Page(html)

    targets = {f"#{name}" for name in page.ids}
    assert page.links
    assert targets.issuperset(page.links)
    assert set(re.findall(r"url\(#([^)]+)\)", html)) <= set(page.ids)
    assert not re.search(r"@import|url\((?!#)|<script", html)
    assert len(html.encode()) < 2_000_000


@pytest.mark.parametrize("text", ["fra_Latn", "rus_Cyrl", "eng_Latn", "tfidf", "Toys <&> others"])
def test_the_page_names_languages_with_models(html, text):
    assert text in " ".join(Page(html).texts)


def test_the_page_has_pictures(html):
    assert html.count("<svg") >= 2


ENGLISH = {"id": "1", "lang": "eng_Latn", "text": "a"}
FRENCH = {"id": "1", "lang": "fra_Latn", "text": "a"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([ENGLISH | {"text": " "}], r"odd.parquet, row 1 \(eng_Latn\): text is empty"),
        ([FRENCH], "odd.parquet: no rows in 'eng_Latn': found fra_Latn"),
        ([ENGLISH, FRENCH | {"id": "2"}], "no id in common"),
        ([{"a": 1}], "is no n-way table .*found: a"),
    ],
)
def test_rows_that_cannot_be_used(tmp_path, rows, message):
    with pytest.raises(ValueError, match=message):
        reports.read_folder(write(tmp_path, "odd", rows))


def test_a_language_without_common_sentences_is_left_out_by_name(tmp_path, toy, caplog):
    rows = [*toy.nway_rows(), {"id": 1000, "lang": "deu_Latn", "text": "Ein Hund."}]
    data = reports.read_folder(write(tmp_path / "data", "few", rows))
    reason = "'deu_Latn' (1 rows) and 'eng_Latn' (32 rows) have no id in common"
    assert caplog.messages == [f"not measured: {reason}"]

    measured = measured_by(data, axes, tmp_path / "cache")

    langs = [row["lang"] for row in measured["xsim"]["few"]["plain"]["rows"]]
    assert langs == ["fra_Latn", "rus_Cyrl"]
    assert measured["geometry"]
    assert f"all models: few.parquet: {reason}" in measured["skipped"]


def flat_russian(texts, lang):
    """One embedding for all Russian sentences."""
    return np.ones((len(texts), 400)) if lang == "rus_Cyrl" else axes(texts, lang)


def test_a_space_whose_geometry_cannot_be_measured(tmp_path, few):
    """No geometry, and the rest of the report."""
    measured = measured_by(few, flat_russian, tmp_path / "cache", name="flat")

    assert not measured["geometry"]
    assert not measured["singular_values"]
    assert measured["map"]
    reason = "few.parquet: all 32 rows of 'rus_Cyrl' are the same: leave this language out"
    assert f"flat: geometry: {reason}" in measured["skipped"]


@pytest.fixture
def few(tmp_path, toy):
    return reports.read_folder(write(tmp_path / "data", "few", toy.nway_rows()))


def broken_in_russian(texts, lang):
    vectors = axes(texts, lang)
    if lang == "rus_Cyrl":
        vectors[3] = np.nan
    return vectors


def test_a_broken_model_is_named(tmp_path, few):
    message = "few.parquet, model odd: .*NaN or infinite values for the text .* in 'rus_Cyrl'"
    with pytest.raises(ValueError, match=message):
        measured_by(few, broken_in_russian, tmp_path / "cache", name="odd")


def test_a_mended_model_is_asked_for_what_was_broken(tmp_path, few):
    """French was encoded before, and is remembered."""
    with pytest.raises(ValueError):
        measured_by(few, broken_in_russian, tmp_path / "cache", name="odd")
    langs = []

    def mended(texts, lang):
        langs.append(lang)
        return axes(texts, lang)

    measured_by(few, mended, tmp_path / "cache", name="odd")

    assert "rus_Cyrl" in langs
    assert "fra_Latn" not in langs


@pytest.fixture
def misleading(few):
    """An encoder that puts a sentence's hard negatives where its translations are,
    and the target elsewhere."""
    table = few.tables["few"]
    place_of = {}
    for key, pairs in table.negatives.items():
        place_of.update((text, key) for text, _ in pairs)
    for texts in table.texts.values():
        place_of.update((text, key) for key, text in texts.items())
    targets = set(table.texts["eng_Latn"].values())

    def encoder(texts, lang):
        vectors = np.zeros((len(texts), 33))
        for vector, text in zip(vectors, texts, strict=True):
            vector[place_of[text]] = 1
            if text in targets:
                vector[32] = 0.5
        return vectors

    return encoder


def test_examples_are_errors(few, misleading):
    table = few.tables["few"]

    examples = error_examples(misleading, table, "eng_Latn", count=2)

    assert [example["lang"] for example in examples] == ["fra_Latn", "rus_Cyrl"]
    for example in examples:
        key = example["id"]
        assert example["desired"] == table.texts["eng_Latn"][key]
        assert example["source"] == table.texts[example["lang"]][key]
        assert (example["retrieved"], example["kind"]) in table.negatives[key]


@pytest.fixture
def sentence(toy):
    return toy.say(toy.split("dev")[0], "eng_Latn")


@pytest.fixture
def published(sentence, tmp_path):
    """The published layout, with one changed sentence of the toy world."""
    content = {f"{sentence} not": {"src": sentence, "errtype": "negation"}}
    (tmp_path / "errtype.json").write_text(json.dumps(content), encoding="utf-8")
    return tmp_path / "errtype.json"


CATS = [
    {"id": 1, "lang": "eng_Latn", "text": "Three cats sleep in Rome."},
    {"id": 1, "lang": "fra_Latn", "text": "Three cats sleep in Rome."},
]


def test_a_table_of_the_published_set_gets_its_negatives(tmp_path, toy, published, sentence):
    folder = write(tmp_path / "data", "few", toy.nway_rows())
    write(folder, "other", CATS)

    data = reports.read_folder(folder, published=published)

    assert list(data.tables["few"].negatives.values()) == [[(f"{sentence} not", "negation")]]
    assert data.tables["few"].negatives_from == "published set"
    assert data.tables["other"].negatives_from == "rule negatives"


def test_a_published_set_of_other_sentences_is_refused(tmp_path, published):
    folder = write(tmp_path / "data", "other", CATS)
    message = "errtype.json: none of its 1 sentences is among the 1 target sentences"
    with pytest.raises(ValueError, match=message):
        reports.read_folder(folder, published=published)


def test_the_page_says_which_negatives_each_set_has(tmp_path, toy, published):
    folder = write(tmp_path / "data", "few", toy.nway_rows())
    write(folder, "more", [row | {"text": f"{row['text']} 7"} for row in toy.nway_rows()])
    data = reports.read_folder(folder, published=published)

    reports.write_report(measured_by(data, axes, tmp_path / "cache"), tmp_path / "out")

    html = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "few: published set; more: rule negatives" in html


def test_several_sets_have_one_average(tmp_path, toy):
    """The mean of the means over languages."""
    folder = write(tmp_path / "data", "few", toy.nway_rows())
    write(folder, "less", [row for row in toy.nway_rows() if row["lang"] != "rus_Cyrl"])
    rng = np.random.default_rng(0)

    measured = measured_by(
        reports.read_folder(folder),
        lambda texts, lang: rng.normal(size=(len(texts), 8)),
        tmp_path / "cache",
    )

    means = []
    for name in ("few", "less"):
        rows = measured["xsim"][name]["plain"]["rows"]
        means.append(np.mean([row["xsim"] for row in rows]))
    assert measured["averages"]["plain"]["average"]["xsim"] == pytest.approx(np.mean(means))


def test_the_map_keeps_what_is_near():
    """Three clusters: the nearest point on the map is of the same one."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 15)
    rows = np.eye(3, 32)[labels] + 0.05 * rng.normal(size=(45, 32))

    method, points = project(unit_length(rows))

    distances = cdist(points, points)
    np.fill_diagonal(distances, np.inf)
    assert method in ("PCA", "UMAP")
    np.testing.assert_array_equal(labels[distances.argmin(axis=1)], labels)


@pytest.fixture(scope="module")
def evaluated(toy):
    """evaluated(encoder): xsim and xsim++ of the dev rows by the package's own function."""
    english = [toy.say(meaning, "eng_Latn") for meaning in toy.split("dev")]
    negatives = dict(enumerate(reports.data.hard_negatives_for(english, 5)))

    def evaluate(encoder):
        rows = toy.nway_rows("dev")
        return evaluate_xsim(encoder, rows, negatives=negatives, same_text_is_right=True)

    return evaluate


@pytest.fixture(scope="module")
def written(report):
    """The figures of the JSON file: the rows of each model."""
    out, _, _ = report
    return json.loads((out / "report.json").read_text(encoding="utf-8"))["xsim"]["toys"]


@pytest.fixture(scope="module")
def of_tfidf(evaluated, toy):
    return evaluated(tfidf_encoder([row["text"] for row in toy.nway_rows("dev")]))


def test_figures_of_tfidf_are_those_of_the_evaluation(written, of_tfidf):
    assert written["tfidf"]["rows"] == of_tfidf.rows


def by_language(rows: list[dict]) -> dict[str, float]:
    return {row["lang"]: row["xsimpp"] for row in rows}


def test_figures_of_a_model_are_those_of_the_evaluation(
    written, report, evaluated, toy_trained, toy_tokenizer
):
    label = report[2]["models"][0]["label"]

    table = evaluated(lambda texts, lang: encode(toy_trained, toy_tokenizer, texts, lang))

    # a bf16 CPU may tip one sentence
    assert by_language(written[label]["rows"]) == pytest.approx(by_language(table.rows), abs=3.2)


def test_figures_stand_in_the_page(html, of_tfidf):
    figure = f"{of_tfidf.average['xsim']:.1f}"
    assert re.search(rf'<td class="number[a-z ]*">{figure}</td>', html)
    assert '<td class="text">French (fra_Latn)</td><td class="number">32</td>' in html


def test_topics_are_read_above_chance(report):
    """Of four animals; chance is 25."""
    _, _, measured = report
    label = measured["models"][0]["label"]
    topics = measured["topics"]["toys"]
    assert set(topics) == {"fra_Latn", "eng_Latn"}
    assert topics["fra_Latn"][label]["average"]["clt"] > 60


def test_the_geometry_of_a_model_is_measured(report):
    _, _, measured = report
    label = measured["models"][0]["label"]
    assert measured["geometry"][label]["languages"] == 3
    assert measured["singular_values"][label][0] == 1


def test_languages_are_grouped(report):
    _, _, measured = report
    assert set(measured["groups"]["toys"]) == {"family", "script", "resource"}


def test_what_is_missing_is_said(report):
    """TF-IDF has no geometry."""
    _, _, measured = report
    (reason,) = [reason for reason in measured["skipped"] if reason.startswith("tfidf")]
    assert "sparse" in reason


def test_a_second_run_opens_no_model(report, folder, model):
    """TF-IDF's sparse rows are not stored."""
    _, cache, measured = report
    data = reports.read_folder(folder)
    models = open_models([model, "tfidf"], data.texts)
    models[0].encode = lambda *_: pytest.fail("the model was asked again")

    assert reports.measure(models, data, cache, progress=False) == measured


@pytest.fixture
def places(tmp_path):
    return ["--out", tmp_path / "out", "--cache", tmp_path / "cache"]


def test_the_command_writes_a_page_with_its_figures(folder, tmp_path, run, places):
    code, _, err = run("tfidf", "--data", folder, *places)

    assert code == 0, err
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"index.html", "report.json"}


@pytest.mark.parametrize(
    "words, message",
    [
        (["tfidf", "tfidf"], "'tfidf' is given twice"),
        (["./no-model"], "no folder ./no-model"),
        (["tfidf", "--main", "toy"], "no set 'toy'; found toys"),
        (["tfidf", "--target-lang", "deu_Latn"], "no rows in 'deu_Latn'"),
    ],
)
def test_the_command_names_what_is_wrong(folder, refused, places, words, message):
    refused(message, *words, "--data", folder, *places)


def test_the_command_names_a_missing_folder(tmp_path, refused, places):
    refused("is not a folder", "tfidf", "--data", tmp_path / "nowhere", *places)


def test_the_command_names_a_damaged_file(tmp_path, refused, places):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "odd.PARQUET").write_bytes(b"PAR1 no more")
    refused("odd.PARQUET: damaged, incomplete", "tfidf", "--data", tmp_path / "bad", *places)


def grid_of(rows):
    """The rows of cells of the one table of a section."""
    (grid,) = section_of("", "", {"": rows})["grids"]
    return grid["rows"]


def test_the_best_value_of_a_column_of_models_is_bold():
    """A lower xsim is better. The size of a model is not compared."""
    first, second = grid_of(
        [
            {"model": "a", "news xsim": 2.0, "size": 1.0},
            {"model": "b", "news xsim": 1.0, "size": 2.0},
        ]
    )

    assert [cell["best"] for cell in first] == [False, False, False]
    assert [cell["best"] for cell in second] == [False, True, False]


def test_the_best_of_models_beside_each_other_is_bold():
    row = {"lang": "fra_Latn", "a xsim": 2.0, "b xsim": 1.0, "a CLT": 0.9, "b CLT": 0.8}

    (cells,) = grid_of([row])

    assert [cell["best"] for cell in cells] == [False, False, True, True, False]


def test_bars_by_language_compare_the_models_of_a_measure():
    """Percent of the largest value of a measure."""
    french, german = grid_of(
        [
            {"lang": "fra_Latn", "a xsim": 10.0, "b xsim": 40.0, "a CLT": 0.5},
            {"lang": "deu_Latn", "a xsim": 20.0, "b xsim": None, "a CLT": 1.0},
        ]
    )

    assert [cell["bar"] for cell in french[1:]] == [25, 100, 50]
    assert [cell["bar"] for cell in german[1:]] == [50, None, 100]


def test_models_have_no_bars_for_different_measures():
    (cells,) = grid_of([{"model": "a", "size": 1.0}])

    assert [cell["bar"] for cell in cells] == [None, None]


def test_the_changed_word_is_marked():
    ((_, cell),) = grid_of([{"desired": "Two red cats sleep", "retrieved": "Two blue cats <b>"}])

    assert str(cell["text"]) == "Two <mark>blue</mark> cats <mark>&lt;b&gt;</mark>"


def test_a_section_keeps_its_text():
    section = section_of("Summary", "What it says.", {"": [{"model": "a"}]})

    assert section["text"] == "What it says."
