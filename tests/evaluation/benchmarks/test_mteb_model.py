"""An Echo checkpoint through mteb itself, on local tasks: mteb's scores against ours and scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest

mteb = pytest.importorskip("mteb")

from hf_echo.evaluation import evaluate_xsim  # noqa: E402
from hf_echo.evaluation.benchmarks.mteb_model import (  # noqa: E402
    EchoForMTEB,
    bitext_task,
    language_of,
)
from hf_echo.inference import encode, load_encoder  # noqa: E402


@pytest.fixture(scope="module")
def model(toy_folders):
    return EchoForMTEB(str(toy_folders["release"]))


def scores(model, task) -> dict[str, dict]:
    result = mteb.evaluate(model, task, cache=None, show_progress_bar=False)
    return {row["hf_subset"]: row for row in result.task_results[0].scores["test"]}


def test_bitext_accuracy_is_our_xsim(model, toy, toy_folders, caplog, recwarn):
    rows = toy.nway_rows()
    found = scores(model, bitext_task("ToyBitext", rows))
    # mteb's own wrapper warns about every prompt of a language
    said = [*caplog.messages, *(str(warning.message) for warning in recwarn)]
    assert not [message for message in said if "prompt" in message.lower() or "is not valid" in message]
    encoder, tokenizer = load_encoder(toy_folders["release"])
    table = evaluate_xsim(lambda texts, lang: encode(encoder, tokenizer, texts, lang), rows)
    assert {row["lang"] for row in table.rows} == {name.split("-")[0] for name in found}
    for row in table.rows:
        assert found[f"{row['lang']}-eng_Latn"]["accuracy"] == pytest.approx(1 - row["xsim"] / 100)


def test_the_language_goes_into_the_prompt(model, toy_folders):
    task = bitext_task("ToyLang", [{"id": 1, "lang": lang, "text": "x"} for lang in ("eng_Latn", "fra_Latn")])
    assert language_of(task.metadata, "fra_Latn") == "fra_Latn"  # a column of a parallel table
    assert language_of(task.metadata, "fra_Latn-eng_Latn") is None  # two languages
    assert language_of(task.metadata, "klingon") is None
    encoder, tokenizer = load_encoder(toy_folders["release"])
    got = model.encode([{"text": ["ba"]}], task_metadata=task.metadata, hf_split="test", hf_subset="fra_Latn")
    np.testing.assert_allclose(got, encode(encoder, tokenizer, ["ba"], "fra_Latn"), atol=1e-6)
    assert not np.allclose(got, encode(encoder, tokenizer, ["ba"]), atol=1e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bitext_task("T", [{"id": 1, "lang": "fra_Latn", "text": "a"}]), "give rows in 'eng_Latn'"),
        (
            lambda: bitext_task(
                "T", [{"id": i, "lang": lang, "text": "a"} for i, lang in enumerate(("fra_Latn", "eng_Latn"))]
            ),
            "no id has a text in all of",
        ),
    ],
)
def test_bad_rows_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
