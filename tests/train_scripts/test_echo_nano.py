"""The figures of echo-nano: how its report searches and counts, and the size of the model."""

import echo_nano_figures as figures
import echo_nano_report as report
import numpy as np
import pandas as pd
import pytest

from hf_echo.negatives import rule_based_hard_negatives

TEXTS = [f"sentence number {number}" for number in range(8)]
VECTORS = np.eye(8) + 0.1
LANGUAGES = {"eng_Latn": TEXTS, "fra_Latn": TEXTS, "lit_Latn": TEXTS[:2]}


def filled_up() -> str:
    """A sentence that Lithuanian is searched among only because its candidates are filled up."""
    others = [text for text in report.in_order(TEXTS) if text not in TEXTS[:2]]
    return others[0]


class Encoder:
    """An axis for each sentence in all languages; the second Lithuanian sentence is at a wrong one.

    The first four dimensions do not tell half of the sentences apart.
    """

    def __init__(self):
        self.calls = []

    def __call__(self, texts, lang):
        self.calls.append((lang, len(texts)))
        rows = [TEXTS.index(text.removeprefix(f"{lang} ")) for text in texts]
        if lang == "lit_Latn":
            rows = [TEXTS.index(filled_up()) if row == 1 else row for row in rows]
        return VECTORS[rows]


@pytest.fixture(scope="module")
def encoder():
    return Encoder()


@pytest.fixture(scope="module")
def searched(encoder):
    """Six candidates for each sentence of French and Lithuanian."""
    rows = []
    for lang, texts in LANGUAGES.items():
        rows += [(text, lang, f"{lang} {text}") for text in texts]
    table = pd.DataFrame(rows, columns=["id", "lang", "text"])
    return report.search(encoder, table, 6, margins=(None,), cut=(4,))


def test_candidates_are_filled_up_with_other_sentences():
    pool = report.candidates(TEXTS[:2], report.in_order(TEXTS), 6)

    assert pool[:2] == TEXTS[:2]
    assert len(pool) == 6
    assert len(set(pool)) == 6


def test_english_is_encoded_once_for_all_languages(searched, encoder):
    order = report.in_order(TEXTS)
    needed = {*order[:6], *report.candidates(TEXTS[:2], order, 6)}
    assert encoder.calls == [("eng_Latn", len(needed)), ("fra_Latn", 6), ("lit_Latn", 2)]


def test_french_has_no_error(searched):
    assert not searched[searched.lang == "fra_Latn"].cosine.any()


def test_lithuanian_has_the_error_that_was_made(searched):
    lithuanian = searched[searched.lang == "lit_Latn"].set_index("id").cosine
    assert lithuanian.to_dict() == {TEXTS[0]: False, TEXTS[1]: True}


def test_words_are_those_of_the_english(searched):
    assert set(searched.words) == {4}  # eng_Latn sentence number 1


def test_cut_embeddings_err_more(searched):
    assert searched["4"].sum() > searched.cosine.sum()


@pytest.fixture(scope="module")
def counted():
    """French with ten errors in twenty short sentences, German without one in forty; Spanish has
    too few sentences for a language, but enough for a length."""
    rows = [("fra_Latn", 3, number < 10) for number in range(20)]
    rows += [("deu_Latn", 8, False)] * 40
    rows += [("spa_Latn", 30, True)] * 19
    return pd.DataFrame(rows, columns=["lang", "words", "cosine"])


def test_groups_count_languages(counted):
    assert report.by_group(counted)["12"] == (25.0, 2)


def test_a_group_without_languages_is_left_out(counted):
    assert "new (51)" not in report.by_group(counted)


def test_lengths_count_sentences(counted):
    lengths = report.by_length(counted, report.TWELVE)
    assert lengths == {"1-5": (50.0, 20), "6-10": (0.0, 40), "21+": (100.0, 19)}


def test_groups_have_as_many_languages_as_they_say():
    sizes = [len(set(languages)) for languages in report.GROUPS.values()]

    assert sizes == [12, 41, 12, 51, 104]
    assert set(report.GROUPS["12"]) <= set(report.GROUPS["41"])


def letters(texts: list[str], lang: str) -> np.ndarray:
    """(n, 128) how often each character stands in a text: equal texts are nearest."""
    counts = np.zeros((len(texts), 128))
    for row, text in enumerate(texts):
        for letter in text:
            counts[row, ord(letter)] += 1
    return counts


def test_hard_negatives_are_those_of_each_languages_own_sentences(tmp_path, monkeypatch):
    """French is translated rightly, German is a hard negative: 0 and 100 % wrong. No sentence has
    both languages."""
    english = {"fra_Latn": "The old cat sleeps.", "deu_Latn": "She bought three red apples."}
    negative, kind = rule_based_hard_negatives(english["deu_Latn"])[0]
    rows = []
    for lang, text in english.items():
        rows.append((lang, "eng_Latn", text))
        rows.append((lang, lang, negative if lang == "deu_Latn" else text))
    table = pd.DataFrame(rows, columns=["id", "lang", "text"])
    for name in figures.HARD:
        table.to_parquet(tmp_path / f"dev_{name}.parquet")
    monkeypatch.setattr(figures, "opened", lambda model, texts: letters)
    # one sentence of each language
    monkeypatch.setattr(figures, "SETS", dict.fromkeys(figures.HARD, 1))

    measured = figures.hard_negatives("any", tmp_path)

    assert measured["xsimpp"] == dict.fromkeys(figures.HARD, 50.0)
    assert measured["errors_by_kind"][kind] > 0


def test_size_of_the_packaged_model():
    assert figures.parameters("echo-nano") == 58_355_712


def test_words_counts_have_no_size():
    assert figures.parameters("tfidf") is None
