"""Translations into English on the test sets of `evaluate bitext`,
against sacrebleu called by itself."""

import pytest
from sacrebleu.metrics import BLEU, CHRF

from hf_echo.evaluation.benchmarks.bitext import measure_bitext, read_bitext

from .test_bitext import ENGLISH, folder, random_vectors  # noqa: F401 a fixture of pytest

COMMAND = "evaluate bitext"
TRANSLATIONS = ["The cat sleeps.", "It rains.", "We have some bread.", "Paris is big."]


def translate(texts, source_lang, target_lang):
    assert target_lang == "eng_Latn"
    return TRANSLATIONS[: len(texts)]


def test_translations_have_the_scores_of_sacrebleu(folder):  # noqa: F811
    table = measure_bitext(
        random_vectors,
        read_bitext(folder / "news.parquet"),
        languages=["fra_Latn"],
        translate=translate,
    )

    (row,) = table.rows
    assert row["chrf"] == CHRF(word_order=2).corpus_score(TRANSLATIONS, [ENGLISH]).score
    assert row["bleu"] == BLEU().corpus_score(TRANSLATIONS, [ENGLISH]).score


def test_the_average_is_over_languages(folder):  # noqa: F811
    table = measure_bitext(
        random_vectors, read_bitext(folder / "news.parquet"), translate=translate
    )

    french, german = table.rows
    assert table.average["chrf"] == pytest.approx((french["chrf"] + german["chrf"]) / 2)
    assert table.average["xsim"] == pytest.approx((french["xsim"] + german["xsim"]) / 2)


def test_without_a_decoder_nothing_is_translated(folder):  # noqa: F811
    table = measure_bitext(random_vectors, read_bitext(folder / "news.parquet"))

    assert "chrf" not in table.rows[0]


def test_the_command_translates_with_the_decoder(folder, toy_folders, answer):  # noqa: F811
    report = answer(toy_folders["release"], "--data", folder, "--lang", "fra_Latn", "--translation")

    assert [row["set"] for row in report["rows"]] == ["everyday", "news"]
    for row in report["rows"]:
        assert 0 <= row["chrf"] <= 100
