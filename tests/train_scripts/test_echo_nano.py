"""The figures of echo-nano: how its report searches and counts, and the size of the model."""

import echo_nano_figures as figures
import echo_nano_report as report
import numpy as np
import pandas as pd
import pytest

TEXTS = [f"sentence number {number}" for number in range(8)]
VECTORS = {text: row for text, row in zip(TEXTS, np.eye(8) + 0.1)}


class Searched:
    """French of eight sentences, Lithuanian of two, one of them wrong; six candidates for each sentence.

    The first four dimensions do not tell half of the sentences apart.
    """

    def __init__(self):
        rows = []
        for lang, texts in {"eng_Latn": TEXTS, "fra_Latn": TEXTS, "lit_Latn": TEXTS[:2]}.items():
            rows += [(text, lang, f"{lang} {text}") for text in texts]
        # A sentence that Lithuanian is searched among only because its candidates are filled up.
        filled_up = next(text for text in report.in_order(TEXTS) if text not in TEXTS[:2])
        self.asked = []
        vectors = {f"{lang} {text}": VECTORS[text] for text, lang, _ in rows}
        vectors[f"lit_Latn {TEXTS[1]}"] = VECTORS[filled_up]

        def encode(texts, lang):
            self.asked.append((lang, len(texts)))
            return np.stack([vectors[text] for text in texts])

        table = pd.DataFrame(rows, columns=["id", "lang", "text"])
        self.table = report.search(encode, table, 6, margins=(None,), cut=(4,))


@pytest.fixture(scope="module")
def searched():
    return Searched()


def test_candidates_are_filled_up_with_other_sentences():
    pool = report.candidates(TEXTS[:2], report.in_order(TEXTS), 6)
    assert pool[:2] == TEXTS[:2]
    assert len(set(pool)) == len(pool) == 6


def test_english_is_encoded_once_for_all_languages(searched):
    order = report.in_order(TEXTS)
    needed = {*order[:6], *report.candidates(TEXTS[:2], order, 6)}
    assert searched.asked == [("eng_Latn", len(needed)), ("fra_Latn", 6), ("lit_Latn", 2)]


def test_errors_are_those_counted_by_hand(searched):
    table = searched.table
    assert not table[table.lang == "fra_Latn"].cosine.any()
    lithuanian = table[table.lang == "lit_Latn"].set_index("id").cosine
    assert lithuanian.to_dict() == {TEXTS[0]: False, TEXTS[1]: True}


def test_words_are_those_of_the_english(searched):
    assert set(searched.table.words) == {4}  # eng_Latn sentence number 1


def test_cut_embeddings_err_more(searched):
    assert searched.table["4"].sum() > searched.table.cosine.sum()


@pytest.fixture(scope="module")
def counted():
    """French with ten errors in twenty short sentences, German without one in forty; Spanish has too few sentences for
    a language, but enough for a length."""
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
    groups = {name: set(languages) for name, languages in report.GROUPS.items()}
    assert [len(languages) for languages in groups.values()] == [12, 41, 12, 51, 104]
    assert groups["12"] <= groups["41"]


def test_size_of_the_packaged_model():
    assert figures.parameters("echo-nano") == 58_355_712


def test_words_counts_have_no_size():
    assert figures.parameters("tfidf") is None
