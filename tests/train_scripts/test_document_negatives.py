"""Near misses of documents: each kind is what its name says,
and only a whole reading finds the document."""

import json
from string import ascii_lowercase

import numpy as np
import pytest
from long_context_report import (
    KINDS,
    document_negatives,
    evaluate_documents,
    negatives_of_paragraphs,
    paragraph_negatives,
    percent_by_kind,
)

from ..refusals import refusals

DOCUMENT = ["a.", "b.", "c.", "d."]
OTHERS = ["x.", "y.", "z.", "a."]


@pytest.fixture(params=range(20))
def changed(request):
    """Kind -> the changed document, by one of twenty seeds."""
    negatives = document_negatives(DOCUMENT, OTHERS, seed=request.param)
    return {kind: sentences for sentences, kind in negatives}


def test_a_seed_gives_the_same_negatives_again():
    negatives = document_negatives(DOCUMENT, OTHERS, seed=7)

    assert negatives == document_negatives(DOCUMENT, OTHERS, seed=7)


def test_kinds_are_in_their_order(changed):
    assert list(changed) == sorted(changed, key=KINDS.index)


def test_three_kinds_are_always_there(changed):
    assert {"drop_last", "replace_last", "shuffle"} <= changed.keys()


def test_the_last_sentence_is_dropped(changed):
    assert changed["drop_last"] == DOCUMENT[:3]


def test_the_last_sentence_is_replaced_by_a_strange_one(changed):
    *head, last = changed["replace_last"]
    assert head == DOCUMENT[:3]
    assert last in ("x.", "y.", "z.")


def test_the_order_is_shuffled(changed):
    assert sorted(changed["shuffle"]) == DOCUMENT != changed["shuffle"]


@pytest.mark.parametrize("seed", range(20))
def test_a_random_sentence_is_dropped(seed):
    ((sentences, _),) = document_negatives(DOCUMENT, OTHERS, seed=seed, kinds=["drop_random"])

    assert len(sentences) == 3
    assert set(sentences) < set(DOCUMENT)


@pytest.mark.parametrize("seed", range(20))
def test_a_random_sentence_is_replaced_by_a_strange_one(seed):
    ((sentences, _),) = document_negatives(DOCUMENT, OTHERS, seed=seed, kinds=["replace_random"])

    assert len(sentences) == 4
    assert len(set(sentences) & set(DOCUMENT)) == 3
    assert len(set(sentences) & {"x.", "y.", "z."}) == 1


@pytest.mark.parametrize(
    "document, others, kinds",
    [(["a."], ["a."], []), (["a."], ["x."], ["replace_last"]), (["a.", "a."], [], ["drop_last"])],
)
def test_kinds_that_a_short_document_allows(document, others, kinds):
    assert [kind for _, kind in document_negatives(document, others)] == kinds


def test_a_paragraphs_negative_has_one_sentence_swapped():
    """OS 10.2: by hand, in the order of the sentences; a sentence without negatives stays."""
    negatives = {
        "a.": [("A.", "entity"), ("not a.", "negation")],
        "c.": [("C.", "number")],
        "x.": [("X.", "date")],
    }
    assert paragraph_negatives(["a.", "b.", "c."], negatives) == [
        (["A.", "b.", "c."], "entity"),
        (["not a.", "b.", "c."], "negation"),
        (["a.", "b.", "C."], "number"),
    ]


PARAGRAPHS = {"1": ["She has 12 red boats.", "It was open in 1999."], "2": ["The house is old."]}


@pytest.fixture(scope="module")
def by_rule():
    """The negatives of each paragraph that the rules make."""
    return negatives_of_paragraphs(PARAGRAPHS)


def is_changed(by_rule, key: str) -> np.ndarray:
    """(negatives, sentences): whether a negative changes a sentence of its paragraph."""
    sentences = np.array([sentences for sentences, _ in by_rule[key]])
    return sentences != np.array(PARAGRAPHS[key])


def test_every_paragraph_has_negatives(by_rule):
    assert by_rule.keys() == PARAGRAPHS.keys()


@pytest.mark.parametrize("key", PARAGRAPHS)
def test_a_negative_by_rule_changes_one_sentence(by_rule, key):
    assert set(is_changed(by_rule, key).sum(axis=1)) == {1}


@pytest.mark.parametrize("key", PARAGRAPHS)
def test_every_sentence_is_changed_in_some_negative(by_rule, key):
    assert is_changed(by_rule, key).any(axis=0).all()


WORDS = [f"{letter}." for letter in ascii_lowercase]


def bag(texts, lang):
    """Counts of words: order is not seen, everything else is."""
    vectors = np.full((len(texts), 26), 1e-6)
    for vector, text in zip(vectors, texts, strict=True):
        for word in text.lower().split():
            vector[WORDS.index(word)] += 1
    return vectors


def first(texts, lang):
    """Reads no more than the first sentence."""
    return bag([text.split()[0] for text in texts], lang)


def test_negatives_of_paragraphs_may_be_those_of_the_published_set(tmp_path):
    file = tmp_path / "eng_Latn_errtype.dev.json"
    entry = {"src": "Three cats sleep.", "errtype": "number"}
    file.write_text(json.dumps({"Two cats sleep.": entry}))
    paragraphs = {"1": ["It rains.", "Three cats sleep."], "2": ["It snows."]}

    negatives = negatives_of_paragraphs(paragraphs, file)

    assert negatives == {"1": [(["It rains.", "Two cats sleep."], "number")], "2": []}


def last(texts, lang):
    """Reads the last sentence; a first sentence other than "z." disturbs it in English."""
    vectors = bag([text.split()[-1] for text in texts], lang)
    if lang == "eng_Latn":
        vectors += 0.3 * first(texts, lang)
        vectors[:, WORDS.index("z.")] = 0
    return vectors


def with_capitals(english: dict[str, list[str]]) -> dict[str, dict[str, list[str]]]:
    """Documents in English, and in a "French" of capitals."""
    french = {key: [text.upper() for text in sentences] for key, sentences in english.items()}
    return {"eng_Latn": english, "fra_Latn": french}


@pytest.mark.parametrize(
    "encode, xsimpp", [(bag, 0.0), (last, 100.0)], ids=["whole", "last sentence only"]
)
def test_who_reads_the_last_sentence_only_takes_the_swapped_paragraph(encode, xsimpp):
    english = {"1": ["a.", "b."], "2": ["c.", "d."]}
    negatives = {"1": [(["z.", "b."], "entity")], "2": [(["z.", "d."], "entity")]}

    table = evaluate_documents(encode, with_capitals(english), negatives)

    assert table.average["xsim"] == 0.0
    assert table.average["xsimpp"] == xsimpp
    assert percent_by_kind(table)["entity"] == xsimpp


ENGLISH = {"1": ["a.", "b.", "c."], "2": ["d.", "e.", "f."], "3": ["g.", "h.", "i."]}


def errors(encode, negatives) -> dict:
    return evaluate_documents(encode, with_capitals(ENGLISH), negatives).rows[0]


def test_a_whole_reading_finds_the_document():
    """A bag errs on nothing but order, where the first of equals wins."""
    others = ["x.", "y.", "z."]
    negatives = {}
    for key, sentences in ENGLISH.items():
        negatives[key] = document_negatives(sentences, others, kinds=KINDS[:2])

    row = errors(bag, negatives)

    assert row["count"] == 3
    assert row["xsim"] == 0.0
    assert row["xsimpp"] == 0.0


def test_a_negative_with_another_first_sentence_does_not_mislead_who_reads_that():
    spoilt = {key: [(["q.", *text[1:]], "replace_first")] for key, text in ENGLISH.items()}
    assert errors(first, spoilt)["xsimpp"] == 0.0


def opposing(texts, lang):
    sign = -1 if lang == "eng_Latn" else 1
    return sign * bag(texts, lang)


def test_an_encoder_that_opposes_translations_errs():
    """The negative of each document is the next one."""
    first, second, third = ENGLISH.values()
    strangers = {
        "1": [(second, "stranger")],
        "2": [(third, "stranger")],
        "3": [(first, "stranger")],
    }

    row = errors(opposing, strangers)

    assert row["xsim"] > 0
    assert row["xsimpp"] > 0


test_what_cannot_be_measured = refusals(
    ({"fra_Latn": {"1": ["A."]}}, "no rows in 'eng_Latn': found fra_Latn"),
    ({"eng_Latn": {"1": ["a."]}, "fra_Latn": {"2": ["B."]}}, "have no id in common"),
    ({"eng_Latn": {"1": ["a."]}, "fra_Latn": {"1": ["A."]}}, "negatives has 0 ids"),
    call=lambda documents: evaluate_documents(bag, documents, {}),
)
