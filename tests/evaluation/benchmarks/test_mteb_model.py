"""An Echo checkpoint through mteb itself, on its own task with local data:
its scores against ours and sklearn's."""

import runpy

import numpy as np
import pytest
from datasets import Dataset, DatasetDict

from hf_echo.evaluation import evaluate_xsim
from hf_echo.inference import encode, load_encoder


@pytest.fixture(scope="module")
def mteb():
    """Imported by the worker that needs it: every worker collects every file,
    and mteb takes seconds."""
    return pytest.importorskip("mteb")


@pytest.fixture(scope="module")
def mteb_model(mteb):
    from hf_echo.evaluation.benchmarks import mteb_model

    return mteb_model


@pytest.fixture(scope="module")
def model(mteb_model, toy_folders):
    return mteb_model.EchoForMTEB(str(toy_folders["release"]))


@pytest.fixture(scope="module")
def checkpoint(toy_folders):
    """Encoder and tokenizer."""
    return load_encoder(toy_folders["release"])


@pytest.fixture(scope="module")
def task(mteb, toy):
    """mteb's own task on an n-way table of this machine: find the English translations."""
    texts = {}
    for row in toy.nway_rows():
        texts.setdefault(row["lang"], []).append(row["text"])
    task = mteb.get_task("NTREXBitextMining")
    task.hf_subsets = ["fra_Latn-eng_Latn", "rus_Cyrl-eng_Latn"]
    task.dataset = DatasetDict(test=Dataset.from_dict(texts))
    task.data_loaded = True
    return task


@pytest.fixture
def evaluated(mteb, model, task):
    """evaluated(): the result of the task."""
    options = {"cache": None, "show_progress_bar": False}
    return lambda: mteb.evaluate(model, task, **options).task_results[0]


def test_bitext_accuracy_is_our_xsim(evaluated, checkpoint, toy):
    table = evaluate_xsim(lambda texts, lang: encode(*checkpoint, texts, lang), toy.nway_rows())
    error_rates = {f"{row['lang']}-eng_Latn": row["xsim"] for row in table.rows}

    scores = evaluated().scores["test"]

    # mteb's accuracy against our error rate on the same sentences.
    assert len(scores) == len(error_rates)
    for score in scores:
        assert score["accuracy"] == pytest.approx(1 - error_rates[score["hf_subset"]] / 100)


def test_mteb_warns_of_no_prompt(evaluated, caplog, recwarn):
    """Its own wrapper warns about every prompt of a language."""
    evaluated()

    messages = caplog.messages + [str(warning.message) for warning in recwarn]
    assert not [
        message for message in messages if "prompt" in message.lower() or "is not valid" in message
    ]


@pytest.fixture(scope="module")
def metadata(mteb):
    return mteb.get_task("NTREXBitextMining").metadata


@pytest.mark.parametrize(
    ("subset", "lang"),
    [
        ("fra_Latn", "fra_Latn"),  # a column of a parallel table
        ("fra_Latn-eng_Latn", None),  # two languages
        ("klingon", None),
        # mteb has macrolanguages.
        ("ara-Arab", "arb_Arab"),
        ("cmn-Hans", "zho_Hans"),
        ("kor-Kore", "kor_Hang"),
        ("zho", None),
    ],
)
def test_language_of_a_subset(mteb_model, metadata, subset, lang):
    assert mteb_model.language_of(metadata, subset) == lang


def test_the_language_goes_into_the_prompt(model, checkpoint, metadata):
    batches = [{"text": ["ba"]}]

    vectors = model.encode(batches, task_metadata=metadata, hf_split="test", hf_subset="fra_Latn")

    # The library, with the language and without it.
    np.testing.assert_allclose(vectors, encode(*checkpoint, ["ba"], "fra_Latn"), atol=1e-6)
    assert not np.allclose(vectors, encode(*checkpoint, ["ba"]), atol=1e-4)


@pytest.fixture(scope="module")
def results(mteb_model, toy_folders, task, tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    return mteb_model.write_results(str(toy_folders["release"]), [task], out, "abc")


def test_results_are_those_that_mteb_reads(mteb, results):
    cache = mteb.ResultCache(results)

    loaded = cache.load_results(["local/release"], ["NTREXBitextMining"], require_model_meta=False)
    (result,) = loaded.model_results
    assert result.model_revision == "abc"


@pytest.fixture
def meta(mteb, results):
    """The ModelMeta of the written file, read as in mteb's own module of models."""
    names = {
        "ModelMeta": mteb.models.ModelMeta,
        "SentenceTransformerEncoderWrapper": mteb.models.SentenceTransformerEncoderWrapper,
        "ScoringFunction": mteb.models.model_meta.ScoringFunction,
    }
    return runpy.run_path(str(results / "model_meta.py"), names)["model"]


def test_the_meta_states_the_checkpoint(meta, checkpoint):
    encoder, tokenizer = checkpoint

    assert meta.n_parameters == encoder.num_parameters()
    assert meta.max_tokens == tokenizer.model_max_length
    assert meta.embed_dim == encoder.config.embedding_size
    assert "fra-Latn" in meta.languages


def test_the_loader_of_the_meta_opens_the_model(meta, toy_folders, recwarn):
    """Without `loader_kwargs`, mteb warns twice about each language."""
    opened = meta.loader(str(toy_folders["release"]), **meta.loader_kwargs)

    assert set(opened.model_prompts) == {"query", "document"}
    assert len([warning for warning in recwarn if "prompt" in str(warning.message)]) == 1
