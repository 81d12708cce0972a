import json
import os
import urllib.request
from collections import Counter
from io import BytesIO

import numpy as np
import pytest
import sacrebleu
import sentencepiece
from sacrebleu.tokenizers import tokenizer_spm

from hf_echo.evaluation import evaluate_translation, translation, translation_scores
from hf_echo.inference import encode, load_translator, translate
from hf_echo.modeling import EchoForTranslation

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

    def words(text):  # sacrebleu, as the original chrF++.py, splits one leading or trailing punctuation mark off
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
                precision, recall, orders = (precision + matches / h.total(), recall + matches / r.total(), orders + 1)
    precision, recall = precision / orders, recall / orders
    return 100 * 5 * precision * recall / (4 * precision + recall)


@pytest.mark.parametrize("hypothesis, reference", list(zip(HYPOTHESES, REFERENCES, strict=True)))
def test_chrf_is_chrf_plus_plus(hypothesis, reference, offline):
    assert translation_scores([hypothesis], [reference]).chrf == pytest.approx(chrf_plus_plus(hypothesis, reference))


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
    assert translation_scores(HYPOTHESES, REFERENCES, spbleu=False).spbleu_missing == "not requested"


@pytest.fixture
def spm_model(tmp_path) -> bytes:
    options = dict(model_prefix=str(tmp_path / "toy"), vocab_size=34, minloglevel=2)
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(HYPOTHESES + REFERENCES), **options)
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
    [("zho_Hans", "zh"), ("yue_Hant", "zh"), ("jpn_Jpan", "char"), ("tha_Thai", "char"), ("por_Latn_BR", "13a")],
)
def test_bleu_tokenizer_follows_the_script_and_is_named(lang, tokenizer, offline):
    result = translation_scores(["a b"], ["a b"], target_lang=lang)
    assert result.bleu_tokenizer == tokenizer and f"tok:{tokenizer}" in result.signatures["bleu"]
    assert translation_scores(["a b"], ["a b"], target_lang=lang, bleu_tokenizer="intl").bleu_tokenizer == "intl"


NWAY = [
    {"id": i, "lang": lang, "text": f"{lang[:3]} {text}"}
    for lang, n in (("deu_Latn", 3), ("fra_Latn", 2), ("eng_Latn", 3))
    for i, text in list(enumerate(REFERENCES))[:n]
]


def by_rule(texts, source, target):
    """Right into English, wrong out of it."""
    assert all(text.startswith(source[:3]) for text in texts)
    return [target[:3] + text[3:] if target == "eng_Latn" else "nothing" for text in texts]


@pytest.mark.parametrize(
    ("direction", "expected"),
    [
        ("to", ["deu-eng", "fra-eng"]),
        ("from", ["eng-deu", "eng-fra"]),
        ("both", ["deu-eng", "fra-eng", "eng-deu", "eng-fra"]),
        ("all", ["deu-fra", "deu-eng", "fra-deu", "fra-eng", "eng-deu", "eng-fra"]),
    ],
)
def test_directions_of_an_n_way_table(direction, expected, offline):
    """A language without common sentences is left out and named."""
    alone = {"id": 9, "lang": "ita_Latn", "text": "ita alone"}
    table = evaluate_translation(by_rule, [*NWAY, alone], direction=direction)
    reason = "'eng_Latn' (3 rows) and 'ita_Latn' (1 rows) have no id in common"
    assert reason in table.notes["not_measured"]
    assert [row["direction"].replace("_Latn", "") for row in table.rows] == expected
    for row in table.rows:
        assert row["count"] == (2 if "fra_Latn" in row["direction"] else 3)
        assert (row["chrf"] == 100) == (row["target_lang"] == "eng_Latn")
    assert table.average["chrf"] == pytest.approx(np.mean([row["chrf"] for row in table.rows]))
    assert table.average["spbleu"] is None


def test_scores_of_blaser_get_an_average(offline):
    def score(sources, hypotheses, references, source_lang, target_lang):
        return {"fra_Latn": 3.0, "deu_Latn": 4.0}[source_lang]

    table = evaluate_translation(by_rule, NWAY, blaser=score)

    assert table.average["blaser"] == pytest.approx(3.5)


def test_without_blaser_the_average_has_no_column_for_it(offline):
    table = evaluate_translation(by_rule, NWAY)

    assert "blaser" not in table.average


NOTHING_COMMON = [{"id": lang, "lang": lang, "text": "x"} for lang in ("fra_Latn", "eng_Latn")]


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: translation_scores(["a"], ["a", "b"]), "1 hypotheses and 2 references"),
        (lambda: translation_scores([], []), "no hypotheses"),
        (lambda: translation_scores("a", ["a"]), "got a single string"),
        (lambda: translation_scores(["a"], ["a"], bleu_tokenizer="moses"), "bleu_tokenizer is 'moses'; it must be one"),
        (lambda: evaluate_translation(by_rule, NWAY, direction="up"), "'up'; it must be one of to, from, both, all"),
        (lambda: evaluate_translation(by_rule, NWAY, target_lang="ita_Latn"), "no rows in 'ita_Latn': found deu_Latn"),
        (lambda: evaluate_translation(lambda *_: ["one"], NWAY), "deu_Latn-eng_Latn: 3 sentences but 1 translations"),
        (lambda: evaluate_translation(by_rule, NOTHING_COMMON), "have no id in common"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, words, offline):
    with pytest.raises(ValueError, match=words):
        call()


def test_encoder_and_decoder_of_two_checkpoints(toy, toy_tokenizer, toy_folders, offline, tmp_path, answer):
    """Encoder and decoder loaded apart translate as the whole does, from text and from embeddings."""
    rows, folder = toy.nway_rows()[:60], toy_folders["training"]
    whole, _ = load_translator(folder)
    joined = EchoForTranslation.from_parts(whole.encoder, load_translator(folder)[0].decoder).eval()
    tables = [
        evaluate_translation(lambda x, s, t, m=model: translate(m, toy_tokenizer, x, s, t), rows, spbleu=False)
        for model in (whole, joined)
    ]
    assert tables[0].rows == tables[1].rows and tables[0].average["chrf"] > 50

    (tmp_path / "nway.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    command = ("evaluate", "translation", "--model", folder)
    found = [row["chrf"] for row in answer(*command, "--data", tmp_path / "nway.jsonl")["rows"]]
    assert found == pytest.approx([row["chrf"] for row in tables[0].rows])

    french, english = ([row["text"] for row in rows if row["lang"] == lang] for lang in ("fra_Latn", "eng_Latn"))
    np.save(tmp_path / "e.npy", encode(whole, toy_tokenizer, french, "fra_Latn"))
    (tmp_path / "b.txt").write_text("".join(text + "\n" for text in english), encoding="utf-8")
    found = answer(*command, "--source", tmp_path / "e.npy", "--target", tmp_path / "b.txt")
    assert found["chrf"] == pytest.approx(tables[0].rows[0]["chrf"])
