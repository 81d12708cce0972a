"""Near misses of documents: each kind is what its name says, and only a whole reading finds the document."""

import json

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

from ..refusals import refusals, refuses

DOCUMENT = ["a.", "b.", "c.", "d."]
OTHERS = ["x.", "y.", "z.", "a."]


@pytest.mark.parametrize("seed", range(20))
def test_each_kind_is_what_it_says(seed):
    made = dict((kind, text) for text, kind in document_negatives(DOCUMENT, OTHERS, seed=seed))
    assert list(made) == [k for k in KINDS if k in made] and {"drop_last", "replace_last", "shuffle"} <= set(made)
    assert made["drop_last"] == DOCUMENT[:3]
    assert made["replace_last"][:3] == DOCUMENT[:3] and made["replace_last"][3] in ("x.", "y.", "z.")
    assert sorted(made["shuffle"]) == DOCUMENT != made["shuffle"]
    if "drop_random" in made:  # not where it drew the last sentence: that one is there already
        assert len(made["drop_random"]) == 3 and set(made["drop_random"]) < set(DOCUMENT)
    if "replace_random" in made:
        changed = [i for i in range(4) if made["replace_random"][i] != DOCUMENT[i]]
        assert len(changed) == 1 and made["replace_random"][changed[0]] in ("x.", "y.", "z.")
    assert document_negatives(DOCUMENT, OTHERS, seed=seed) == document_negatives(DOCUMENT, OTHERS, seed=seed)


def test_short_documents_and_no_strangers():
    assert document_negatives(["a."], ["a."]) == []
    assert [kind for _, kind in document_negatives(["a."], ["x."])] == ["replace_last"]
    assert [kind for _, kind in document_negatives(["a.", "a."], [])] == ["drop_last"]


def test_a_paragraphs_negative_has_one_sentence_swapped():
    """OS 10.2: by hand, in the order of the sentences; a sentence without negatives stays."""
    negatives = {"a.": [("A.", "entity"), ("not a.", "negation")], "c.": [("C.", "number")], "x.": [("X.", "date")]}
    assert paragraph_negatives(["a.", "b.", "c."], negatives) == [
        (["A.", "b.", "c."], "entity"),
        (["not a.", "b.", "c."], "negation"),
        (["a.", "b.", "C."], "number"),
    ]


def test_negatives_of_paragraphs_are_the_rules_of_each_sentence():
    english = {"1": ["She has 12 red boats.", "It was open in 1999."], "2": ["The house is old."]}
    made = negatives_of_paragraphs(english)
    assert made.keys() == english.keys()
    for key, sentences in english.items():
        for changed, _ in made[key]:
            differing = [i for i in range(len(sentences)) if changed[i] != sentences[i]]
            assert len(changed) == len(sentences) and len(differing) == 1
        for place in range(len(sentences)):
            assert any(changed[place] != sentences[place] for changed, _ in made[key])


def bag(texts, lang):
    """Counts of words: order is not seen, everything else is."""
    words = [f"{chr(c)}." for c in range(ord("a"), ord("z") + 1)]
    return np.array([[text.lower().split().count(w) for w in words] for text in texts], float) + 1e-6


def first(texts, lang):
    """Reads no more than the first sentence."""
    return bag([text.split()[0] for text in texts], lang)


def test_negatives_of_paragraphs_may_be_those_of_the_published_set(tmp_path):
    file = tmp_path / "eng_Latn_errtype.dev.json"
    file.write_text(json.dumps({"Two cats sleep.": {"src": "Three cats sleep.", "errtype": "number"}}))
    made = negatives_of_paragraphs({"1": ["It rains.", "Three cats sleep."], "2": ["It snows."]}, file)
    assert made == {"1": [(["It rains.", "Two cats sleep."], "number")], "2": []}


def last(texts, lang):
    """Reads the last sentence; a first sentence other than "z." disturbs it in English."""
    vectors = bag([text.split()[-1] for text in texts], lang)
    if lang == "eng_Latn":
        disturbing = [text.split()[0] for text in texts]
        vectors += 0.3 * bag(["" if text == "z." else text for text in disturbing], lang)
    return vectors


def test_who_reads_the_last_sentence_only_takes_the_swapped_paragraph():
    english = {"1": ["a.", "b."], "2": ["c.", "d."]}
    french = {key: [text.upper() for text in sentences] for key, sentences in english.items()}
    documents = {"eng_Latn": english, "fra_Latn": french}
    negatives = {key: paragraph_negatives(text, {text[0]: [("z.", "entity")]}) for key, text in english.items()}

    whole_reader = evaluate_documents(bag, documents, negatives)
    last_reader = evaluate_documents(last, documents, negatives)

    assert (whole_reader.average["xsim"], whole_reader.average["xsimpp"]) == (0.0, 0.0)
    assert (last_reader.average["xsim"], last_reader.average["xsimpp"]) == (0.0, 100.0)
    assert percent_by_kind(last_reader)["entity"] == 100.0


def test_only_a_whole_reading_finds_the_document():
    """A bag errs on nothing but order (where the first of equals wins), a head of the text on what keeps its head."""
    english = {"1": ["a.", "b.", "c."], "2": ["d.", "e.", "f."], "3": ["g.", "h.", "i."]}
    documents = {"eng_Latn": english, "fra_Latn": {k: [s.upper() for s in v] for k, v in english.items()}}
    negatives = {
        key: document_negatives(text, [s for k, v in english.items() if k != key for s in v], kinds=KINDS[:2])
        for key, text in english.items()
    }
    row = evaluate_documents(bag, documents, negatives).rows[0]
    assert (row["xsim"], row["xsimpp"], row["count"]) == (0.0, 0.0, 3)
    # The head is equal in all three texts; the negatives that are better by nothing do not win a tie.
    spoilt = {key: [(["q.", *text[1:]], "replace_first")] for key, text in english.items()}
    assert evaluate_documents(first, documents, spoilt).rows[0]["xsimpp"] == 0.0
    rotated = {key: [(english[str(int(key) % 3 + 1)], "stranger")] for key in english}

    def opposed(texts, lang):
        return bag(texts, lang) * (-1 if lang == "eng_Latn" else 1)

    row = evaluate_documents(opposed, documents, rotated).rows[0]
    assert row["xsim"] > 0 and row["xsimpp"] > 0


test_what_cannot_be_measured = refusals(
    ({"fra_Latn": {"1": ["A."]}}, "no rows in 'eng_Latn': found fra_Latn"),
    ({"eng_Latn": {"1": ["a."]}, "fra_Latn": {"2": ["B."]}}, "have no id in common"),
    ({"eng_Latn": {"1": ["a."]}, "fra_Latn": {"1": ["A."]}}, "negatives has 0 ids"),
    call=lambda documents: evaluate_documents(bag, documents, {}),
)
