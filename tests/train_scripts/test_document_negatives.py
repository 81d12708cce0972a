"""Near misses of documents: each kind is what its name says, and only a whole reading finds the document."""

import numpy as np
import pytest
from long_context_report import KINDS, document_negatives, evaluate_documents

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
    refuses("unknown kind 'first'", document_negatives, DOCUMENT, OTHERS, kinds=["first"])


def bag(texts, lang):
    """Counts of words: order is not seen, everything else is."""
    words = [f"{chr(c)}." for c in range(ord("a"), ord("z") + 1)]
    return np.array([[text.lower().split().count(w) for w in words] for text in texts], float) + 1e-6


def first(texts, lang):
    """Reads no more than the first sentence."""
    return bag([text.split()[0] for text in texts], lang)


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
