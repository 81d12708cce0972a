"""The built-in corpus: the files hold what the loader promises, and the schema is that of all parallel data."""

from collections import Counter
from itertools import chain

import pytest

from hf_echo.data import schema
from hf_echo.data.builtin import KINDS, LANGUAGES, SPLITS, builtin_nway, builtin_parallel, dev_set

from ..refusals import refusals


@pytest.fixture(scope="module")
def english() -> dict[str, list[str]]:
    """The English sentences of each split."""
    return {split: builtin_nway(split=split, languages=["eng_Latn"])["text"][:] for split in SPLITS}


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


def test_negatives_of_train_are_no_sentences_of_the_other_splits():
    held_out = {
        text
        for split in ("dev", "test")
        for text in builtin_nway(split=split, languages=["eng_Latn"])["text"]
    }
    rows = builtin_parallel(languages=["fra_Latn"], hard_negatives=5)
    for row in rows:
        assert len(set(row["hard_negatives"])) == 5
        assert row["target"] not in row["hard_negatives"]
        assert not held_out & set(row["hard_negatives"])


def test_parallel_schema():
    rows = builtin_parallel(200, languages=["fra_Latn", "eng_Latn", "rus_Cyrl"], hard_negatives=3)
    assert rows.features == schema.features(["hard_negatives"])
    assert Counter(rows["source_lang"]) == {"fra_Latn": 200, "rus_Cyrl": 200}
    assert set(rows["target_lang"]) == {"eng_Latn"}
    assert {len(found) for found in rows["hard_negatives"]} == {3}
    without = builtin_parallel(200, languages=["fra_Latn", "rus_Cyrl"])
    assert without.column_names == list(schema.COLUMNS)
    assert without.to_list() == rows.remove_columns("hard_negatives").to_list()


def test_dev_set():
    rows, negatives = dev_set(30, languages=["eng_Latn", "zho_Hans"], max_negatives=4)
    assert (
        rows.to_list()
        == builtin_nway(30, split="dev", languages=["eng_Latn", "zho_Hans"]).to_list()
    )
    english = {row["id"]: row["text"] for row in rows if row["lang"] == "eng_Latn"}
    assert set(english) == set(negatives) == set(rows["id"])
    for key, found in negatives.items():
        assert len(found) == 4
        assert english[key] not in [text for text, _ in found]
    assert {kind for found in negatives.values() for _, kind in found} == set(KINDS)
    assert dev_set(5, max_negatives=0)[1] == {}


test_errors_name_the_wrong_value = refusals(
    (
        lambda: builtin_nway(2, languages=["eng_Latn", "nld_Latn"]),
        "unknown language 'nld_Latn'.*fra_Latn",
    ),
    (lambda: builtin_parallel(2, languages=["eng_Latn"]), "no pairs of languages in eng_Latn"),
    (lambda: builtin_nway(501, split="dev"), "n=501: the dev split.* has 500"),
)
