"""The built-in corpus: the files hold what the loader promises,
and the schema is that of all parallel data."""

from collections import Counter
from itertools import chain

import pytest

from hf_echo.data import schema
from hf_echo.data.builtin import KINDS, LANGUAGES, SPLITS, builtin_nway, builtin_parallel, dev_set

from ..refusals import refusals


@pytest.fixture(scope="module")
def english() -> dict[str, list[str]]:
    """The English sentences of each split."""
    sentences = {}
    for split in SPLITS:
        sentences[split] = builtin_nway(split=split, languages=["eng_Latn"])["text"][:]
    return sentences


def test_splits_have_the_sizes_of_the_page(english):
    sizes = {split: len(texts) for split, texts in english.items()}
    assert sizes == {"train": 8000, "dev": 500, "test": 400}


def test_no_sentence_is_in_two_splits(english):
    texts = list(chain.from_iterable(english.values()))
    assert len(set(texts)) == len(texts)


def test_sentences_are_of_5_to_12_words(english):
    for text in chain.from_iterable(english.values()):
        assert 5 <= len(text.split()) <= 12
        assert text.endswith(".")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_different_meanings_have_different_sentences(lang):
    texts = builtin_nway(languages=[lang])["text"][:]
    assert len(set(texts)) == len(texts)


@pytest.fixture(scope="module")
def rows_with_negatives():
    return builtin_parallel(languages=["fra_Latn"], hard_negatives=5)


def test_negatives_differ_from_each_other(rows_with_negatives):
    """And from the target."""
    for row in rows_with_negatives:
        assert len({row["target"], *row["hard_negatives"]}) == 6


def test_negatives_of_train_are_no_sentences_of_the_other_splits(rows_with_negatives, english):
    held_out = {*english["dev"], *english["test"]}
    for row in rows_with_negatives:
        assert held_out.isdisjoint(row["hard_negatives"])


def test_negatives_are_an_optional_column_of_the_schema():
    rows = builtin_parallel(200, languages=["fra_Latn"], hard_negatives=3)

    assert rows.features == schema.features(["hard_negatives"])
    assert {len(negatives) for negatives in rows["hard_negatives"]} == {3}


def test_each_language_stands_beside_english():
    rows = builtin_parallel(200, languages=["fra_Latn", "eng_Latn", "rus_Cyrl"])

    assert rows.column_names == list(schema.COLUMNS)
    assert Counter(rows["source_lang"]) == {"fra_Latn": 200, "rus_Cyrl": 200}
    assert set(rows["target_lang"]) == {"eng_Latn"}


def test_negatives_leave_the_pairs_as_they_are():
    rows = builtin_parallel(200, languages=["fra_Latn"], hard_negatives=3)

    plain = builtin_parallel(200, languages=["fra_Latn"])
    assert rows.remove_columns("hard_negatives").to_list() == plain.to_list()


def test_a_dev_set_holds_the_dev_rows():
    rows, _ = dev_set(30, languages=["eng_Latn", "zho_Hans"])

    expected = builtin_nway(30, split="dev", languages=["eng_Latn", "zho_Hans"])
    assert rows.to_list() == expected.to_list()


def test_each_english_sentence_of_a_dev_set_has_negatives():
    rows, negatives = dev_set(30, languages=["eng_Latn"], max_negatives=4)

    assert set(negatives) == set(rows["id"])
    for row in rows:
        texts = [text for text, _ in negatives[row["id"]]]
        assert len({row["text"], *texts}) == 5


def test_negatives_of_a_dev_set_are_of_all_kinds():
    _, negatives = dev_set(30, languages=["eng_Latn"], max_negatives=4)

    kinds = {kind for pairs in negatives.values() for _, kind in pairs}
    assert kinds == set(KINDS)


def test_a_dev_set_can_do_without_negatives():
    _, negatives = dev_set(5, max_negatives=0)

    assert negatives == {}


test_errors_name_the_wrong_value = refusals(
    (
        lambda: builtin_nway(2, languages=["eng_Latn", "nld_Latn"]),
        "unknown language 'nld_Latn'.*fra_Latn",
    ),
    (lambda: builtin_parallel(2, languages=["eng_Latn"]), "no pairs of languages in eng_Latn"),
    (lambda: builtin_nway(501, split="dev"), "n=501: the dev split.* has 500"),
)
