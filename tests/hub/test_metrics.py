"""Metrics of the `evaluate` library, opened by the library itself:
figures, pages, push and load from a Hub."""

import ast
import doctest
import json
import os
import re
import runpy
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import evaluate
import numpy as np
import pytest
import yaml

from hf_echo.evaluation import xsim, xsimpp
from hf_echo.hub import write_metrics
from hf_echo.hub.metric_folders import METRICS
from hf_echo.hub.upload_checks import contents_of
from hf_echo.search import margin_scores, mutual_neighbours

from ..formulas import unit
from ..processes import SCRIPTS, python

COMMAND = "metrics"


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Path:
    """What `write_metrics` writes; `evaluate` keeps its copies of the scripts beside it."""
    place = tmp_path_factory.mktemp("metrics")
    write_metrics(place / "out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluate.config, "HF_MODULES_CACHE", place / "modules")
        patch.setattr(evaluate.config, "HF_METRICS_CACHE", place / "cache")
        yield place / "out"


@pytest.fixture(scope="module")
def load(folders):
    """load(name, configuration): a metric, opened by the library."""
    return lambda name, configuration=None: evaluate.load(str(folders / name), configuration)


@pytest.fixture(scope="module")
def space() -> dict[str, np.ndarray]:
    """Embeddings of 150 sentences, of their translations with noise,
    and of two negatives for each."""
    rng = np.random.default_rng(0)
    references = rng.normal(size=(150, 8)).astype(np.float32)
    predictions = references + rng.normal(size=(150, 8)).astype(np.float32)
    owner = np.arange(150).repeat(2)
    negatives = references[owner] + 0.5 * rng.normal(size=(300, 8)).astype(np.float32)
    return {
        "predictions": predictions,
        "references": references,
        "negatives": negatives.astype(np.float32),
        "negative_owner": owner,
    }


def pairs(space: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: space[name] for name in ("predictions", "references")}


def cosines(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(n, m) in float64."""
    return unit(x.astype(np.float64)) @ unit(y.astype(np.float64)).T


# Figures


def test_xsim_counts_wrong_nearest_translations(load, space):
    # A search in NumPy over all cosines.
    nearest = cosines(space["predictions"], space["references"]).argmax(axis=1)
    errors = int((nearest != np.arange(150)).sum())
    result = load("xsim").compute(**pairs(space))
    assert 0 < errors < 150
    assert result == {
        "xsim": pytest.approx(100 * errors / 150, abs=1e-9),
        "errors": errors,
        "count": 150,
    }


@pytest.mark.parametrize("margin", [None, "ratio", "distance"])
def test_xsim_is_that_of_the_package(load, space, margin):
    of_package = xsim(space["predictions"], space["references"], margin=margin, k=3)
    result = load("xsim").compute(**pairs(space), margin=margin, k=3)
    assert result["xsim"] == pytest.approx(of_package.error_rate, abs=1e-9)
    assert result["errors"] == of_package.errors


def test_xsimpp_counts_negatives_that_are_nearer(load, space):
    # A search in NumPy over translations and negatives.
    pool = np.concatenate([space["references"], space["negatives"]])
    nearest = cosines(space["predictions"], pool).argmax(axis=1)
    errors = int((nearest != np.arange(150)).sum())
    own_negatives = 0
    for row, best in enumerate(nearest):
        if best >= 150 and space["negative_owner"][best - 150] == row:
            own_negatives += 1
    result = load("xsimpp").compute(**space)
    assert 0 < own_negatives < errors
    assert result["xsimpp"] == pytest.approx(100 * errors / 150, abs=1e-9)
    assert (result["errors"], result["own_negatives"]) == (errors, own_negatives)
    assert (result["count"], result["pool"]) == (150, 450)


@pytest.mark.parametrize("margin", [None, "ratio", "distance"])
def test_xsimpp_is_that_of_the_package(load, space, margin):
    of_package = xsimpp(*space.values(), margin=margin, k=3)
    result = load("xsimpp").compute(**space, margin=margin, k=3)
    assert result["xsimpp"] == pytest.approx(of_package.error_rate, abs=1e-9)
    assert result["own_negatives"] == of_package.errors_by_kind["negative"]
    assert result["pool"] == of_package.pool


def test_ratio_margin_is_the_mean_over_pairs(load, space):
    result = load("ratio_margin").compute(**pairs(space), k=150)
    # The package's search for mining, with all rows as neighbours.
    x = space["predictions"]
    y = space["references"]
    forward, backward = mutual_neighbours(x, y, 150)
    of_pairs = margin_scores(forward, backward, "ratio")[forward.indices == np.arange(150)[:, None]]
    np.testing.assert_allclose(result["ratio_margins"], of_pairs, rtol=1e-9)
    assert result["ratio_margin"] == pytest.approx(of_pairs.mean(), abs=1e-9)


def test_batches_give_the_figure_of_the_whole(load, space):
    metric = load("xsimpp")
    for rows in (slice(0, 60), slice(60, 150)):
        metric.add_batch(
            predictions=space["predictions"][rows], references=space["references"][rows]
        )
    in_batches = metric.compute(
        negatives=space["negatives"], negative_owner=space["negative_owner"]
    )
    assert in_batches == metric.compute(**space)


def test_combined_metrics_give_the_figures_of_each(load, space):
    names = ("xsim", "xsimpp", "ratio_margin")
    together = evaluate.combine([load(name) for name in names])
    result = together.compute(**space, margin="ratio", k=3)
    assert result["xsim"] == load("xsim").compute(**pairs(space), margin="ratio", k=3)["xsim"]
    assert result["xsimpp"] == load("xsimpp").compute(**space, margin="ratio", k=3)["xsimpp"]
    assert (
        result["ratio_margin"] == load("ratio_margin").compute(**pairs(space), k=3)["ratio_margin"]
    )


# French: 2 of 4 labels are right. German: 1 of 2. Swahili: 3 of 4.
LABELS = {
    "languages": ["fra_Latn"] * 4 + ["deu_Latn"] * 2 + ["swh_Latn"] * 4,
    "references": [0, 1, 2, 3, 0, 1, 0, 1, 2, 3],
    "predictions": [0, 1, 0, 0, 0, 0, 0, 1, 2, 0],
}


def test_clt_is_the_mean_ratio_to_french(load):
    result = load("clt").compute(**LABELS)
    assert result["accuracy_by_language"] == {"fra_Latn": 0.5, "deu_Latn": 0.5, "swh_Latn": 0.75}
    assert result["clt_by_language"] == {"fra_Latn": 100.0, "deu_Latn": 100.0, "swh_Latn": 150.0}
    assert result["clt"] == 125.0


def test_clt_to_another_language(load):
    result = load("clt").compute(**LABELS, train_lang="swh_Latn")
    assert result["clt"] == pytest.approx(100 * (0.5 / 0.75), abs=1e-9)


def test_clt_of_labels_that_are_words(load):
    words = np.array(["sports", "travel", "health", "politics"])
    named = {side: words[LABELS[side]] for side in ("predictions", "references")}
    assert load("clt").compute(**LABELS | named) == load("clt").compute(**LABELS)


def test_clt_of_accuracies_is_that_of_their_labels(load):
    of_labels = load("clt").compute(**LABELS)
    accuracies = of_labels["accuracy_by_language"]
    result = load("clt", "accuracies").compute(
        predictions=list(accuracies.values()), languages=list(accuracies)
    )
    assert result["clt_by_language"] == of_labels["clt_by_language"]
    assert result["clt"] == of_labels["clt"]


# What is wrong


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"references": np.ones((150, 7), np.float32)}, "references have 7 dimensions, not 8"),
        (
            {"references": np.zeros((150, 8), np.float32)},
            "references, row 0: a NaN, infinite or zero embedding",
        ),
        ({"references": np.ones((149, 8), np.float32)}, "Mismatch in the number of predictions"),
        ({"negatives": np.ones((300, 7))}, "negatives have 7 dimensions, not 8"),
        ({"negative_owner": [0]}, "300 negatives need as many owners"),
        (
            {"negative_owner": np.full(300, 150)},
            "negative_owner must be rows of references: integers from 0 to 149",
        ),
        ({"negative_owner": np.full(300, 0.5)}, "negative_owner must be rows of references"),
        ({"margin": "laser"}, "margin is 'laser'"),
        ({"margin": "ratio", "k": 0}, "k is 0; it must be at least 1"),
    ],
)
def test_xsimpp_refuses(load, space, change, message):
    with pytest.raises(ValueError, match=message):
        load("xsimpp").compute(**space | change)


def test_xsimpp_without_negatives_is_refused(load, space):
    with pytest.raises(TypeError, match="negatives"):
        load("xsimpp").compute(**pairs(space))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"train_lang": "eng_Latn"},
            "no accuracy above 0 in 'eng_Latn'; languages: fra_Latn, deu_Latn, swh_Latn",
        ),
        ({"predictions": [9] * 10}, "no accuracy above 0 in 'fra_Latn'"),
        (
            {"languages": ["fra_Latn"] * 10},
            "all rows are in 'fra_Latn': give rows of other languages",
        ),
    ],
)
def test_clt_refuses(load, change, message):
    with pytest.raises(ValueError, match=message):
        load("clt").compute(**LABELS | change)


def test_clt_refuses_two_accuracies_of_a_language(load):
    with pytest.raises(ValueError, match="a language has two accuracies"):
        load("clt", "accuracies").compute(
            predictions=[1.0, 0.5], languages=["fra_Latn", "fra_Latn"]
        )


def test_clt_refuses_another_configuration(load):
    with pytest.raises(
        ValueError, match="configuration 'ratio': it must be 'default' or 'accuracies'"
    ):
        load("clt", "ratio")


# Folders, pages, Hub


@pytest.mark.parametrize("name", METRICS)
def test_the_example_in_the_description_runs(load, folders, monkeypatch, name):
    monkeypatch.chdir(folders)  # where evaluate.load(name) finds the folder
    description = load(name).inputs_description
    test = doctest.DocTestParser().get_doctest(
        description, {"evaluate": evaluate}, name, None, None
    )
    outcome = doctest.DocTestRunner().run(test)
    assert outcome.attempted >= 2
    assert outcome.failed == 0


@pytest.fixture
def written(run, tmp_path):
    """The folder that the command has written."""
    code, _, err = run(tmp_path / "out")
    assert code == 0, err
    return tmp_path / "out"


def test_the_command_writes_a_folder_of_each_metric(written):
    assert {file.name for file in written.iterdir()} == set(METRICS)
    for name in METRICS:
        files = {file.name for file in (written / name).iterdir()}
        assert files >= {f"{name}.py", "README.md", "requirements.txt", "app.py"}


def test_the_command_writes_the_folders_once(written, run):
    code, _, err = run(written)
    assert code == 0
    assert "is made already" in err


@pytest.mark.parametrize(
    ("options", "message"), [([], "--overwrite"), (["--overwrite"], "is not empty")]
)
def test_a_folder_with_files_of_others_is_not_replaced(written, refused, options, message):
    (written / "notes.txt").write_text("of somebody")
    refused(message, written, *options)


@pytest.mark.parametrize("name", METRICS)
def test_a_push_sends_the_whole_folder_as_a_space(folders, name):
    contents = contents_of(folders / name)
    assert (contents.kind, contents.problems, contents.left_out) == ("space", [], [])
    assert {str(file) for file in contents.files} == {
        file.name for file in (folders / name).iterdir()
    }


@pytest.mark.parametrize("name", METRICS)
def test_the_card_has_the_fields_of_a_metric(folders, name):
    header = (folders / name / "README.md").read_text(encoding="utf-8").split("---\n")[1]
    fields = yaml.safe_load(header)
    assert fields["tags"] == ["evaluate", "metric"]
    assert (fields["sdk"], fields["app_file"], fields["license"]) == (
        "gradio",
        "app.py",
        "apache-2.0",
    )
    assert fields["title"]
    assert fields["description"]


@pytest.fixture
def app(folders, monkeypatch):
    """app(name): the names of a metric's app.py, run as a Space runs it, up to the launch."""

    def run(name):
        monkeypatch.syspath_prepend(folders / name)
        monkeypatch.delitem(sys.modules, "metric_page", raising=False)
        return runpy.run_path(str(folders / name / "app.py"))

    return run


@pytest.mark.parametrize("name", METRICS)
def test_the_page_computes_its_example(load, app, name):
    names = app(name)
    page = names["metric_page"](name, names["EXAMPLE"])
    result = page.fn(json.dumps(names["EXAMPLE"]))
    assert result == load(name).compute(**names["EXAMPLE"])


def test_the_page_answers_a_client(app, monkeypatch):
    monkeypatch.setenv("GRADIO_ANALYTICS_ENABLED", "False")
    names = app("xsimpp")
    page = names["metric_page"]("xsimpp", names["EXAMPLE"])
    _, address, _ = page.launch(prevent_thread_lock=True, quiet=True)
    question = json.dumps({"data": [json.dumps(names["EXAMPLE"])]}).encode()
    try:
        asked = Request(
            f"{address}gradio_api/call/compute", question, {"Content-Type": "application/json"}
        )
        event = json.load(urlopen(asked))["event_id"]
        events = urlopen(f"{address}gradio_api/call/compute/{event}").read().decode()
    finally:
        page.close()
    (answer,) = json.loads(events.partition("event: complete\ndata: ")[2])
    assert answer["xsimpp"] == 50.0


def test_the_page_says_what_is_wrong(app):
    names = app("xsimpp")
    page = names["metric_page"]("xsimpp", names["EXAMPLE"])
    with pytest.raises(Exception, match="1 negatives need as many owners"):
        page.fn(json.dumps(names["EXAMPLE"] | {"negative_owner": []}))


@pytest.fixture(scope="module")
def hub(folders, hub_environment) -> dict[str, str]:
    """Environment of a process whose Hub has the metrics as Spaces tester/NAME,
    pushed by the command."""
    outputs = python(SCRIPTS / "push_metrics.py", folders, *METRICS, env=hub_environment)
    for name, output in zip(METRICS, json.loads(outputs.splitlines()[-1])):
        assert f"/spaces/tester/{name}/tree/v1.0.0 (pushed)" in output
    # evaluate counts at Amazon, not at the Hub
    return hub_environment | {"HF_UPDATE_DOWNLOAD_COUNTS": "0"}


@pytest.fixture(scope="module")
def card_results(folders, hub) -> list:
    """What the code of the cards gives: each metric from its Space, at its tag, without hf_echo."""
    cards = [folders / name / "README.md" for name in METRICS]
    printed = python(SCRIPTS / "run_cards.py", *cards, env=hub)
    return [json.loads(line) for line in printed.splitlines()]


@pytest.mark.slow
def test_cards_promise_what_their_code_gives_from_the_hub(folders, card_results):
    promised = []
    for name in METRICS:
        text = (folders / name / "README.md").read_text(encoding="utf-8")
        assert f'evaluate.load("tester/{name}"' in text  # written by the push
        for block in re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
            promised += re.findall(r"# (\{.*\}|[\d.]+)$", block, flags=re.MULTILINE)
    assert len(promised) == 5
    assert card_results == [ast.literal_eval(value) for value in promised]


@pytest.mark.slow
@pytest.mark.usefixtures("card_results")  # these loaded it
def test_a_metric_of_the_hub_opens_offline_once_it_was_loaded(hub):
    code = """
        import evaluate
        metric = evaluate.load("tester/xsim")
        print(metric.compute(predictions=[[1, 0], [0, 1]], references=[[0, 1], [1, 0]])["xsim"])"""
    offline = hub | {"HF_EVALUATE_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:9"}
    assert python("-c", code, env=offline) == "100.0\n"


@pytest.mark.slow
def test_a_local_metric_opens_without_network(folders, tmp_path):
    """No request is made: every connection fails."""
    environment = os.environ | {"HF_EVALUATE_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    printed = python(SCRIPTS / "compute_offline.py", folders / "xsim", env=environment)
    assert printed == "0.0\n"
