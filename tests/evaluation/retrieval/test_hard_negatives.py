"""The published xsim++ set: a small file of LASER's layout, its figure against LASER's rule written
out, bad files."""

import json
from collections import Counter

import numpy as np
import pytest

from hf_echo.evaluation import xsimpp
from hf_echo.evaluation.retrieval.hard_negatives import (
    by_id,
    by_text,
    described,
    published_negatives,
    read_published,
    rule_negatives,
)

# Written for this test, in the layout of eng_Latn_errtype.devtest.json.
SENTENCES = [
    "Three cats sleep in Rome.",
    "The market did not open.",
    "It rained because of the wind.",
    "She left.",
]
ENTRIES = {
    "Two cats sleep in Rome.": {"src": SENTENCES[0], "errtype": "number"},
    "Three cats sleep in Oslo.": {"src": SENTENCES[0], "errtype": "entity"},
    "The market did open.": {"src": SENTENCES[1], "errtype": "causality"},
    "It did not rain because of the wind.": {"src": SENTENCES[2], "errtype": "causality"},
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "eng_Latn_errtype.devtest.json"
    path.write_text(json.dumps(ENTRIES), encoding="utf-8")
    return path


def test_each_sentence_gets_its_negatives(file):
    negatives = published_negatives(file, SENTENCES)

    assert negatives == [
        (0, "Two cats sleep in Rome.", "number"),
        (0, "Three cats sleep in Oslo.", "entity"),
        (1, "The market did open.", "causality"),
        (2, "It did not rain because of the wind.", "causality"),
    ]


def test_sentences_are_found_in_another_order_with_spaces_around_them(file):
    negatives = published_negatives(file, [f" {SENTENCES[1]} ", "Another sentence.", SENTENCES[0]])

    assert [(place, kind) for place, _, kind in negatives] == [
        (0, "causality"),
        (2, "number"),
        (2, "entity"),
    ]


def test_a_negative_with_the_text_of_a_sentence_is_left_out(file):
    negatives = published_negatives(file, [*SENTENCES, "The market did open."])

    assert [text for _, text, _ in negatives if text == "The market did open."] == []
    assert len(negatives) == 3


def errors_of_laser(x: np.ndarray, pool: np.ndarray, lines: list[str]) -> Counter:
    """LASER's count of xsim++ errors written out:
    lines are compared as texts, kinds come from the JSON file."""
    kinds: Counter = Counter()
    for sentence, vector in zip(SENTENCES, x, strict=True):
        nearest = lines[np.argmax(pool @ vector)]
        entry = ENTRIES.get(nearest, {})
        if entry.get("src") == sentence:
            kinds[entry["errtype"]] += 1
        elif nearest != sentence:
            kinds["Misaligned"] += 1
    return kinds


@pytest.mark.parametrize("seed", range(6))
def test_the_figure_is_that_of_laser(file, seed):
    rng = np.random.default_rng(seed)
    lines = [*SENTENCES, *ENTRIES]
    pool = rng.normal(size=(len(lines), 4))
    pool /= np.linalg.norm(pool, axis=1, keepdims=True)
    y = pool[:4]
    x = y + rng.normal(size=y.shape)
    # LASER's own count, written out over the whole pool.
    expected = errors_of_laser(x, pool, lines)

    places, texts, kinds = zip(*published_negatives(file, SENTENCES), strict=True)
    vectors = pool[[lines.index(text) for text in texts]]
    result = xsimpp(x, y, vectors, places, negative_kind=kinds)

    assert result.errors == expected.total()
    others = result.errors_by_kind["other"] + result.errors_by_kind["other_negative"]
    assert others == expected["Misaligned"]
    assert result.errors_by_kind["number"] == expected["number"]
    assert result.errors_by_kind["entity"] == expected["entity"]
    assert result.errors_by_kind["causality"] == expected["causality"]


def test_what_a_report_says_of_them(file):
    negatives = published_negatives(file, SENTENCES)

    assert described(negatives, "published set", file) == {
        "source": "published set",
        "count": 4,
        "sentences": 3,
        "file": str(file),
    }


def test_negatives_by_id(file):
    negatives = published_negatives(file, SENTENCES)

    assert by_id(negatives, ["a", "b", "c", "d"])["b"] == [("The market did open.", "causality")]


def test_negatives_by_text(file):
    negatives = by_text(published_negatives(file, SENTENCES), SENTENCES)

    assert negatives["She left."] == []
    assert negatives[SENTENCES[1]] == [("The market did open.", "causality")]


def test_rules_give_the_same_form():
    negatives = rule_negatives(SENTENCES)

    texts = [text for place, text, _ in negatives if place == 0]
    assert texts
    assert SENTENCES[0] not in texts
    assert all(len(item) == 3 for item in negatives)


def test_rules_that_make_nothing_are_refused():
    with pytest.raises(
        ValueError, match="the rules made no hard negatives; give English sentences"
    ):
        rule_negatives(["Кошка."])


def test_the_text_file_beside_it_is_no_json(tmp_path):
    lines = tmp_path / "eng_Latn_augmented.devtest"
    lines.write_text("Two cats sleep in Rome.\n", encoding="utf-8")

    with pytest.raises(
        ValueError, match=r"is not JSON .* give the file LANG_errtype.SPLIT.json beside it"
    ):
        read_published(lines)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('["a"]', "is an object .*, not list"),
        ("{}", "is an object .*, not dict of another form"),
        (
            '{"a": {"src": "b"}}',
            r"entry 1 \('a'\): needs a changed sentence with the strings src and errtype",
        ),
        ('{"a": {"src": "b", "errtype": "c"}, "d": "e"}', r"entry 2 \('d'\)"),
        ('{"a": {"src": 7, "errtype": "c"}}', r"entry 1 \('a'\)"),
        ('{" ": {"src": "b", "errtype": "c"}}', r"entry 1 \(' '\)"),
        ("{", "is not JSON"),
    ],
)
def test_a_file_of_another_layout_is_refused(tmp_path, content, message):
    path = tmp_path / "odd.json"
    path.write_text(content, encoding="utf-8")

    with pytest.raises(ValueError, match=message):
        read_published(path)


def test_no_file_is_named(tmp_path):
    with pytest.raises(
        FileNotFoundError, match="no file .*nothing.json; give LANG_errtype.SPLIT.json"
    ):
        read_published(tmp_path / "nothing.json")
