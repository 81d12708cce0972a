"""Translation scores against sacrebleu and sentencepiece; directions of a table;
two checkpoints joined."""

import json
import os
import urllib.request
from io import BytesIO

import numpy as np
import pytest
import sacrebleu
import sentencepiece
from sacrebleu.tokenizers import tokenizer_spm

from hf_echo.evaluation import evaluate_translation, translation, translation_scores
from hf_echo.inference import encode, load_translator, translate
from hf_echo.modeling import EchoForTranslation

COMMAND = "evaluate translation"
HYPOTHESES = ["The cat sat on the mat.", "He did not go there", "Prices rose by 12% in May."]
REFERENCES = [
    "The cat is sitting on the mat.",
    "He never went there.",
    "Prices rose by 21% in May.",
]


@pytest.fixture(autouse=True)
def sacrebleu_folder(tmp_path, monkeypatch):
    """No test reads or writes the user's folder, and none remembers another's answer."""
    monkeypatch.setattr(tokenizer_spm, "SACREBLEU_DIR", str(tmp_path))
    translation._flores200_missing.cache_clear()
    yield tmp_path
    translation._flores200_missing.cache_clear()


@pytest.fixture
def requests(monkeypatch):
    """A machine without network, and the time limits of its requests."""
    limits = []

    def refuse(url, timeout=None):
        limits.append(timeout)
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    return limits


@pytest.fixture
def scores(requests):
    return translation_scores(
        HYPOTHESES, REFERENCES, source_lang="fra_Latn", target_lang="eng_Latn"
    )


def test_scores_are_those_of_sacrebleu(scores):
    chrf_plus_plus = sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES], word_order=2)
    assert scores.chrf == chrf_plus_plus.score
    assert scores.bleu == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score


def test_scores_say_how_they_were_made(scores):
    assert scores.direction == "fra_Latn-eng_Latn"
    assert scores.count == 3
    assert scores.bleu_tokenizer == "13a"
    assert "nw:2" in scores.signatures["chrf"]
    assert "tok:13a" in scores.signatures["bleu"]


def test_spbleu_is_never_replaced_silently(scores):
    assert scores.spbleu is None
    assert "spbleu" not in scores.signatures
    assert "no flores200 model" in scores.spbleu_missing
    assert "no network" in scores.spbleu_missing
    assert "\n" not in scores.spbleu_missing


def test_missing_spbleu_is_null_in_json(scores):
    assert json.loads(scores.to_json())["spbleu"] is None


def test_the_model_of_spbleu_is_asked_for_once(requests):
    translation_scores(HYPOTHESES, REFERENCES)
    translation_scores(HYPOTHESES, REFERENCES)

    assert requests == [20]  # seconds


def test_spbleu_may_be_left_out(requests):
    scores = translation_scores(HYPOTHESES, REFERENCES, spbleu=False)

    assert scores.spbleu_missing == "not requested"
    assert not requests


@pytest.fixture(scope="module")
def spm_model(tmp_path_factory) -> bytes:
    prefix = tmp_path_factory.mktemp("spm") / "toy"
    sentences = iter(HYPOTHESES + REFERENCES)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=sentences, model_prefix=str(prefix), vocab_size=34, minloglevel=2
    )
    return prefix.with_suffix(".model").read_bytes()


def test_spbleu_with_a_model_in_sacrebleus_folder(sacrebleu_folder, spm_model, requests):
    file = sacrebleu_folder / "models" / "flores200sacrebleuspm"
    file.parent.mkdir()
    file.write_bytes(spm_model)
    # sacrebleu on texts that the model has cut already.
    pieces = sentencepiece.SentencePieceProcessor(model_proto=spm_model)
    hypotheses = [" ".join(pieces.encode(text, out_type=str)) for text in HYPOTHESES]
    references = [" ".join(pieces.encode(text, out_type=str)) for text in REFERENCES]

    scores = translation_scores(HYPOTHESES, REFERENCES)

    expected = sacrebleu.corpus_bleu(hypotheses, [references], tokenize="none")
    assert scores.spbleu == pytest.approx(expected.score)
    assert "tok:flores200" in scores.signatures["spbleu"]
    assert not requests


def test_a_downloaded_model_is_kept(sacrebleu_folder, spm_model, monkeypatch):
    monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout: BytesIO(spm_model))

    scores = translation_scores(HYPOTHESES, REFERENCES)

    assert scores.spbleu > 0
    assert os.listdir(sacrebleu_folder / "models") == ["flores200sacrebleuspm"]


def test_a_page_in_place_of_the_model_is_not_kept(sacrebleu_folder, monkeypatch):
    monkeypatch.setattr(
        urllib.request, "urlopen", lambda url, timeout: BytesIO(b"<html>sign in</html>")
    )

    scores = translation_scores(HYPOTHESES, REFERENCES)

    file = sacrebleu_folder / "models" / "flores200sacrebleuspm"
    assert scores.spbleu is None
    assert str(file) in scores.spbleu_missing
    assert not file.exists()


@pytest.mark.parametrize(
    "lang, tokenizer",
    [
        ("zho_Hans", "zh"),
        ("yue_Hant", "zh"),
        ("jpn_Jpan", "char"),
        ("tha_Thai", "char"),
        ("por_Latn_BR", "13a"),
    ],
)
def test_bleu_tokenizer_follows_the_script(lang, tokenizer):
    scores = translation_scores(["a b"], ["a b"], target_lang=lang, spbleu=False)

    assert scores.bleu_tokenizer == tokenizer
    assert f"tok:{tokenizer}" in scores.signatures["bleu"]


def test_bleu_tokenizer_may_be_chosen():
    scores = translation_scores(
        ["a b"], ["a b"], target_lang="jpn_Jpan", bleu_tokenizer="intl", spbleu=False
    )

    assert scores.bleu_tokenizer == "intl"


def nway(lang: str, count: int) -> list[dict]:
    return [
        {"id": number, "lang": lang, "text": f"{lang[:3]} {REFERENCES[number]}"}
        for number in range(count)
    ]


NWAY = nway("deu_Latn", 3) + nway("fra_Latn", 2) + nway("eng_Latn", 3)


def by_rule(texts, source, target):
    """Right into English, wrong out of it."""
    assert all(text.startswith(source[:3]) for text in texts)
    return ["eng" + text[3:] if target == "eng_Latn" else "nothing" for text in texts]


@pytest.mark.parametrize(
    ("direction", "expected"),
    [
        ("to", ["deu-eng", "fra-eng"]),
        ("from", ["eng-deu", "eng-fra"]),
        ("both", ["deu-eng", "fra-eng", "eng-deu", "eng-fra"]),
        ("all", ["deu-fra", "deu-eng", "fra-deu", "fra-eng", "eng-deu", "eng-fra"]),
    ],
)
def test_directions_of_an_n_way_table(direction, expected):
    table = evaluate_translation(by_rule, NWAY, direction=direction, spbleu=False)

    assert [row["direction"].replace("_Latn", "") for row in table.rows] == expected
    # The rule translates into English alone, and French lacks a sentence.
    for row in table.rows:
        assert row["count"] == (2 if "fra_Latn" in row["direction"] else 3)
        assert (row["chrf"] == 100) == (row["target_lang"] == "eng_Latn")


def test_the_average_is_over_directions():
    table = evaluate_translation(by_rule, NWAY, direction="both", spbleu=False)

    assert table.average["chrf"] == pytest.approx(np.mean([row["chrf"] for row in table.rows]))
    assert table.average["spbleu"] is None


def test_a_language_without_common_sentences_is_named():
    alone = {"id": 9, "lang": "ita_Latn", "text": "ita alone"}

    table = evaluate_translation(by_rule, [*NWAY, alone], spbleu=False)

    assert table.notes["not_measured"] == [
        "'eng_Latn' (3 rows) and 'ita_Latn' (1 rows) have no id in common"
    ]


def test_scores_of_blaser_get_an_average():
    def score(sources, hypotheses, references, source_lang, target_lang):
        return {"fra_Latn": 3.0, "deu_Latn": 4.0}[source_lang]

    table = evaluate_translation(by_rule, NWAY, blaser=score, spbleu=False)

    # The mean of 3 and 4.
    assert table.average["blaser"] == pytest.approx(3.5)


def test_without_blaser_the_average_has_no_column_for_it():
    table = evaluate_translation(by_rule, NWAY, spbleu=False)

    assert "blaser" not in table.average


def test_every_hypothesis_needs_a_reference():
    with pytest.raises(ValueError, match="1 hypotheses and 2 references"):
        translation_scores(["a"], ["a", "b"])


@pytest.fixture(scope="module")
def whole(toy_folders):
    model, _ = load_translator(toy_folders["training"])
    return model


@pytest.fixture(scope="module")
def rows(toy):
    """20 sentences in three languages."""
    return toy.nway_rows()[:60]


@pytest.fixture(scope="module")
def table(whole, toy_tokenizer, rows):
    def by_model(texts, source, target):
        return translate(whole, toy_tokenizer, texts, source, target)

    return evaluate_translation(by_model, rows, spbleu=False)


def test_a_model_translates_the_table(table):
    assert table.average["chrf"] > 50


def test_parts_of_two_checkpoints_translate_as_the_whole(
    whole, table, toy_tokenizer, toy_folders, rows
):
    other, _ = load_translator(toy_folders["training"])
    joined = EchoForTranslation.from_parts(whole.encoder, other.decoder).eval()

    def by_joined(texts, source, target):
        return translate(joined, toy_tokenizer, texts, source, target)

    assert evaluate_translation(by_joined, rows, spbleu=False).rows == table.rows


def test_command_measures_a_table(answer, table, toy_folders, rows, requests, tmp_path):
    file = tmp_path / "nway.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")

    report = answer("--model", toy_folders["training"], "--data", file)

    # The library's table of the same rows.
    expected = [row["chrf"] for row in table.rows]
    assert [row["chrf"] for row in report["rows"]] == pytest.approx(expected)


def test_command_decodes_embeddings(
    answer, whole, table, toy_tokenizer, toy_folders, rows, requests, tmp_path
):
    french = [row["text"] for row in rows if row["lang"] == "fra_Latn"]
    english = [row["text"] for row in rows if row["lang"] == "eng_Latn"]
    np.save(tmp_path / "fra.npy", encode(whole, toy_tokenizer, french, "fra_Latn"))
    (tmp_path / "eng.txt").write_text("\n".join(english) + "\n", encoding="utf-8")
    files = ("--source", tmp_path / "fra.npy", "--target", tmp_path / "eng.txt")

    report = answer("--model", toy_folders["training"], *files)

    # The library translated the texts; the command reads their embeddings.
    assert report["chrf"] == pytest.approx(table.rows[0]["chrf"])
