from __future__ import annotations

import json
import os
import urllib.request
from collections import Counter
from io import BytesIO

import pytest
import sacrebleu
import sentencepiece
from sacrebleu.tokenizers import tokenizer_spm

from hf_echo.evaluation import Table, translation, translation_scores

HYPOTHESES = ["The cat sat on the mat.", "He did not go there", "Prices rose by 12% in May."]
REFERENCES = ["The cat is sitting on the mat.", "He never went there.", "Prices rose by 21% in May."]


@pytest.fixture(autouse=True)
def own_sacrebleu_folder(tmp_path, monkeypatch):
    """No test reads or writes the user's folder, and none remembers another's answer."""
    monkeypatch.setattr(tokenizer_spm, "SACREBLEU_DIR", str(tmp_path))
    translation._flores200_missing.cache_clear()
    yield tmp_path
    translation._flores200_missing.cache_clear()


@pytest.fixture
def offline(monkeypatch):
    calls = []

    def refuse(url, timeout=None):
        calls.append((url, timeout))
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    return calls


def chrf_plus_plus(hypothesis: str, reference: str) -> float:
    """Popovic (2017), one sentence: mean precision, recall of 1-6 character, 1-2 word n-grams, F beta 2."""

    def ngrams(items, n):
        return Counter(tuple(items[i : i + n]) for i in range(len(items) - n + 1))

    def words(
        text,
    ):  # sacrebleu, as the original chrF++.py, splits one leading or trailing punctuation mark off
        for word in text.split():
            if len(word) > 1 and word[-1] in ".,;:!?%":
                yield from (word[:-1], word[-1])
            else:
                yield word

    precision, recall, orders = 0.0, 0.0, 0
    for make, longest in ((lambda t: "".join(t.split()), 6), (lambda t: list(words(t)), 2)):
        for n in range(1, longest + 1):
            h, r = ngrams(make(hypothesis), n), ngrams(make(reference), n)
            if h and r:
                matches = sum((h & r).values())
                precision, recall, orders = (
                    precision + matches / h.total(),
                    recall + matches / r.total(),
                    orders + 1,
                )
    precision, recall = precision / orders, recall / orders
    return 100 * 5 * precision * recall / (4 * precision + recall)


@pytest.mark.parametrize("hypothesis, reference", list(zip(HYPOTHESES, REFERENCES, strict=True)))
def test_chrf_is_chrf_plus_plus(hypothesis, reference, offline):
    assert translation_scores([hypothesis], [reference]).chrf == pytest.approx(
        chrf_plus_plus(hypothesis, reference)
    )


def test_equals_sacrebleu_and_says_how(offline):
    result = translation_scores(HYPOTHESES, REFERENCES, source_lang="fra_Latn", target_lang="eng_Latn")
    assert result.chrf == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES], word_order=2).score
    assert result.bleu == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert (result.direction, result.count, result.bleu_tokenizer) == ("fra_Latn-eng_Latn", 3, "13a")
    assert "nw:2" in result.signatures["chrf"] and "tok:13a" in result.signatures["bleu"]
    assert translation_scores(REFERENCES, REFERENCES).chrf == 100.0


def test_spbleu_is_never_replaced_silently(offline):
    result = translation_scores(HYPOTHESES, REFERENCES)
    assert result.spbleu is None and "spbleu" not in result.signatures
    assert "flores200" in result.spbleu_missing and "no network" in result.spbleu_missing
    assert "\n" not in result.spbleu_missing
    translation_scores(HYPOTHESES, REFERENCES)
    assert len(offline) == 1 and offline[0][1] == 20.0  # asked once a process, with a limit
    assert json.loads(result.to_json())["spbleu"] is None
    assert translation_scores(HYPOTHESES, REFERENCES, spbleu=False).spbleu_missing == "not asked for"


@pytest.fixture
def spm_model(tmp_path) -> bytes:
    lines = iter(HYPOTHESES + REFERENCES)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=lines, model_prefix=str(tmp_path / "toy"), vocab_size=34, minloglevel=2
    )
    return (tmp_path / "toy.model").read_bytes()


def test_spbleu_with_a_model_in_sacrebleus_folder_needs_no_network(own_sacrebleu_folder, spm_model, offline):
    (own_sacrebleu_folder / "models").mkdir()
    (own_sacrebleu_folder / "models" / "flores200sacrebleuspm").write_bytes(spm_model)
    result = translation_scores(HYPOTHESES, REFERENCES)
    pieces = sentencepiece.SentencePieceProcessor(model_proto=spm_model)
    split = [[" ".join(pieces.encode(t, out_type=str)) for t in texts] for texts in (HYPOTHESES, REFERENCES)]
    assert result.spbleu == pytest.approx(sacrebleu.corpus_bleu(split[0], [split[1]], tokenize="none").score)
    assert "tok:flores200" in result.signatures["spbleu"]
    assert result.spbleu_missing is None and not offline


def test_a_download_is_kept_and_a_wrong_one_is_reported(own_sacrebleu_folder, spm_model, monkeypatch):
    target = own_sacrebleu_folder / "models" / "flores200sacrebleuspm"
    monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout: BytesIO(b"<html>sign in</html>"))
    result = translation_scores(HYPOTHESES, REFERENCES)
    assert result.spbleu is None and str(target) in result.spbleu_missing
    assert not target.exists()  # a page in place of the model must not be trusted the next time
    translation._flores200_missing.cache_clear()
    monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout: BytesIO(spm_model))
    assert translation_scores(HYPOTHESES, REFERENCES).spbleu > 0
    assert os.listdir(target.parent) == [target.name]


@pytest.mark.parametrize(
    "lang, tokenizer",
    [
        ("zho_Hans", "zh"),
        ("yue_Hant", "zh"),
        ("jpn_Jpan", "char"),
        ("tha_Thai", "char"),
        ("por_Latn_BR", "13a"),
        ("", "13a"),
    ],
)
def test_bleu_tokenizer_follows_the_script_and_is_named(lang, tokenizer, offline):
    result = translation_scores(["a b"], ["a b"], target_lang=lang)
    assert result.bleu_tokenizer == tokenizer and f"tok:{tokenizer}" in result.signatures["bleu"]
    assert (
        translation_scores(["a b"], ["a b"], target_lang=lang, bleu_tokenizer="intl").bleu_tokenizer == "intl"
    )


def test_a_table_of_directions(offline):
    results = [
        translation_scores(HYPOTHESES, REFERENCES, source_lang="deu_Latn", target_lang="eng_Latn"),
        translation_scores(REFERENCES, REFERENCES, source_lang="fra_Latn", target_lang="eng_Latn"),
    ]
    table = Table.of(results, average=["chrf", "spbleu"])
    assert table.average == {
        "direction": "average", "chrf": pytest.approx((results[0].chrf + 100) / 2), "spbleu": None
    }  # fmt: skip
    assert "| deu_Latn-eng_Latn | 3 |" in table.to_markdown(["direction", "count"])


def test_an_empty_hypothesis_scores_zero(offline):
    assert translation_scores([""], ["a cat"]).chrf == 0.0


@pytest.mark.parametrize(
    "hypotheses, references, options, words",
    [
        (["a"], ["a", "b"], {}, "1 hypotheses and 2 references"),
        ([], [], {}, "no hypotheses"),
        ("a", ["a"], {}, "got a single string"),
        (["a"], ["a"], {"bleu_tokenizer": "moses"}, "bleu_tokenizer is 'moses', must be one of"),
    ],
)
def test_bad_input_is_refused_in_one_line(hypotheses, references, options, words, offline):
    with pytest.raises(ValueError, match=words) as error:
        translation_scores(hypotheses, references, **options)
    assert "\n" not in str(error.value)
