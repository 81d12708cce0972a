"""An Echo checkpoint through mteb itself, on its own task with local data: its scores against ours and sklearn's."""

import warnings

import numpy as np
import pytest
from datasets import Dataset, DatasetDict

mteb = pytest.importorskip("mteb")

from mteb.models.model_meta import ScoringFunction  # noqa: E402

from hf_echo.evaluation import evaluate_xsim  # noqa: E402
from hf_echo.evaluation.benchmarks.mteb_model import EchoForMTEB, language_of, write_results  # noqa: E402
from hf_echo.inference import encode, load_encoder  # noqa: E402


@pytest.fixture(scope="module")
def model(toy_folders):
    return EchoForMTEB(str(toy_folders["release"]))


def ntrex(rows):
    """mteb's own task on an n-way table of this machine: find the English translations."""
    texts = {}
    for row in rows:
        texts.setdefault(row["lang"], []).append(row["text"])
    task = mteb.get_task("NTREXBitextMining")
    task.hf_subsets = [f"{lang}-eng_Latn" for lang in texts if lang != "eng_Latn"]
    task.dataset, task.data_loaded = DatasetDict(test=Dataset.from_dict(texts)), True
    return task


def scores(model, task) -> dict[str, dict]:
    result = mteb.evaluate(model, task, cache=None, show_progress_bar=False)
    return {row["hf_subset"]: row for row in result.task_results[0].scores["test"]}


def test_bitext_accuracy_is_our_xsim(model, toy, toy_folders, caplog, recwarn):
    rows = toy.nway_rows()
    found = scores(model, ntrex(rows))
    # mteb's own wrapper warns about every prompt of a language
    said = [*caplog.messages, *(str(warning.message) for warning in recwarn)]
    assert not [message for message in said if "prompt" in message.lower() or "is not valid" in message]
    encoder, tokenizer = load_encoder(toy_folders["release"])
    table = evaluate_xsim(lambda texts, lang: encode(encoder, tokenizer, texts, lang), rows)
    assert {row["lang"] for row in table.rows} == {name.split("-")[0] for name in found}
    for row in table.rows:
        assert found[f"{row['lang']}-eng_Latn"]["accuracy"] == pytest.approx(1 - row["xsim"] / 100)


def test_the_language_goes_into_the_prompt(model, toy_folders):
    task = mteb.get_task("NTREXBitextMining")
    assert language_of(task.metadata, "fra_Latn") == "fra_Latn"  # a column of a parallel table
    assert language_of(task.metadata, "fra_Latn-eng_Latn") is None  # two languages
    assert language_of(task.metadata, "klingon") is None
    for name, code in (("ara-Arab", "arb_Arab"), ("cmn-Hans", "zho_Hans"), ("kor-Kore", "kor_Hang"), ("zho", None)):
        assert language_of(task.metadata, name) == code  # mteb has macrolanguages
    encoder, tokenizer = load_encoder(toy_folders["release"])
    got = model.encode([{"text": ["ba"]}], task_metadata=task.metadata, hf_split="test", hf_subset="fra_Latn")
    np.testing.assert_allclose(got, encode(encoder, tokenizer, ["ba"], "fra_Latn"), atol=1e-6)
    assert not np.allclose(got, encode(encoder, tokenizer, ["ba"]), atol=1e-4)


def test_results_and_meta_are_those_that_mteb_reads(toy, toy_folders, tmp_path):
    rows = toy.nway_rows()
    write_results(str(toy_folders["release"]), [ntrex(rows)], tmp_path, "abc")
    found = mteb.ResultCache(tmp_path).load_results(["local/release"], ["NTREXBitextMining"], require_model_meta=False)
    assert len(found.model_results) == 1 and found.model_results[0].model_revision == "abc"
    names = {name: getattr(mteb.models, name) for name in ("ModelMeta", "SentenceTransformerEncoderWrapper")}
    exec((tmp_path / "model_meta.py").read_text(), names | {"ScoringFunction": ScoringFunction}, made := {})
    encoder, tokenizer = load_encoder(toy_folders["release"])
    meta = made["model"]
    assert meta.n_parameters == encoder.num_parameters() and meta.max_tokens == tokenizer.model_max_length
    assert "fra-Latn" in meta.languages and meta.embed_dim == encoder.config.embedding_size
    with warnings.catch_warnings(record=True) as said:  # without loader_kwargs twice about each language
        warnings.simplefilter("always")
        opened = meta.loader(str(toy_folders["release"]), **meta.loader_kwargs)
    assert len([w for w in said if "prompt" in str(w.message)]) == 1
    assert set(opened.model_prompts) == {"query", "document"}
