"""The built-in corpus: meanings, splits, hard negatives, and datasets."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from dataclasses import fields
from itertools import product

import pytest

from hf_echo.corpora import builtin
from hf_echo.corpora.builtin import (
    LANGUAGES,
    SPLITS,
    builtin_nway,
    builtin_parallel,
    dev_set,
    grammar,
    hard_negatives,
    meaning_count,
    meaning_id,
    render,
    sample_meanings,
    split_of,
)
from hf_echo.corpora.builtin.grammar import Meaning, negative_meanings
from hf_echo.data import schema

SCRIPTS = {lang.split("_")[1] for lang in LANGUAGES}


def differences(a: Meaning, b: Meaning) -> set[str]:
    return {f.name for f in fields(Meaning) if getattr(a, f.name) != getattr(b, f.name)}


def test_size_and_languages():
    assert len(LANGUAGES) >= 8 and len(SCRIPTS) >= 3 and "eng_Latn" in LANGUAGES
    assert meaning_count() == 50_218_701 == sum(meaning_count(split) for split in SPLITS)
    assert meaning_count("train") / meaning_count() == pytest.approx(0.9, abs=0.005)


def test_count_is_that_of_a_search():
    """Count the meanings of each template by trying every combination of words instead of multiplying slots."""
    told = {name: t.cores * t.frees for name, t in grammar._templates().items()}
    people, places, times = len(grammar.PERSONS), len(grammar.PLACES), len(grammar.TIMES)
    assert told["go"] == people * (people - 1 + times) * places * 6
    assert told["state"] == people * len(grammar.STATES) * (places + times) * 6

    def allowed(template, tense="past", negated=False, **values):
        return grammar._is_meaning(Meaning(template, tense, negated, **values))

    adjectives = (None, *grammar.ADJECTIVES)
    here = [{"place": p} for p in grammar.PLACES] + [{"time": t} for t in grammar.TIMES]
    words = product(grammar._TRANSITIVE, grammar.NOUNS, adjectives, here)
    acts = sum(allowed("act", subject="king", verb=v, noun=n, adjective=a, number=2, **w) for v, n, a, w in words)
    assert told["act"] == acts * people * 6 * 12
    words = product(grammar._DITRANSITIVE, grammar.NOUNS, adjectives)
    gifts = sum(
        allowed("give", subject="king", other="girl", verb=v, noun=n, adjective=a, number=2) for v, n, a in words
    )
    assert told["give"] == gifts * people * (people - 1) * 6 * 12
    words = list(product(grammar.NOUNS, adjectives))
    liked = sum(allowed("like", subject="king", other="girl", noun=n, adjective=a) for n, a in words)
    assert told["like"] == liked * people * (people - 1) * 6
    there = list(product(words, grammar.PLACES))
    assert told["quality"] == 6 * sum(allowed("quality", noun=n, adjective=a, place=p) for (n, a), p in there)
    exist = sum(allowed("exist", noun=n, adjective=a, place=p, number=2) for (n, a), p in there)
    assert told["exist"] == exist * (times + 1) * 3 * 13


def test_ids_are_dense_at_the_ends_of_templates():
    """The id of the first meaning of a template is the number of meanings before it."""
    before = 0
    for name, t in grammar._templates().items():
        for core, free in ((0, 0), (t.cores - 1, t.frees - 1)):
            meaning = Meaning(name, **grammar._decode(core, t.core), **grammar._decode(free, t.free))
            assert meaning_id(meaning) == before + core * t.frees + free
        before += t.cores * t.frees
    assert before == meaning_count()


def test_samples_are_without_replacement_and_disjoint():
    drawn = {split: sample_meanings(5_000, split=split, seed=1) for split in SPLITS}
    for split, meanings in drawn.items():
        assert len(set(meanings)) == len({meaning_id(m) for m in meanings}) == 5_000
        assert {split_of(m) for m in meanings} == {split}
        assert {m.template for m in meanings} == set(grammar._templates())
    assert len(set().union(*drawn.values())) == 15_000
    assert sample_meanings(50, seed=1) != sample_meanings(50, seed=2)
    assert sample_meanings(0) == []


def test_small_templates_give_all_they_have():
    """A quarter of a million dev meanings exceed the dev split of the small templates."""
    sizes = {name: len(grammar._cores_of(name, "dev")) * t.frees for name, t in grammar._templates().items()}
    quota = grammar._quotas(250_000, sizes)
    assert sum(quota.values()) == 250_000
    assert all(quota[name] == sizes[name] for name in ("go", "quality", "state", "like"))
    assert all(quota[name] < sizes[name] for name in ("act", "give"))
    assert grammar._quotas(meaning_count("dev"), sizes) == sizes


def digest() -> str:
    meanings = sample_meanings(40, seed=7)
    said = [render(m, lang) for m in meanings for lang in LANGUAGES]
    return hashlib.sha256(repr((said, [hard_negatives(m, seed=3) for m in meanings])).encode()).hexdigest()


def test_same_in_every_process():
    environment = os.environ | {"PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == digest()


@pytest.mark.parametrize("lang", LANGUAGES)
def test_different_meanings_have_different_sentences(lang):
    said = Counter(render(m, lang) for m in sample_meanings(4_000, seed=3))
    assert max(said.values()) == 1
    for m in sample_meanings(40, seed=4):  # near neighbours are where a language could conflate
        variants = {v for kind in grammar.KINDS for v in grammar._variants(m, kind) if grammar._is_meaning(v)}
        assert len(variants) >= 10
        assert len({render(v, lang) for v in variants | {m}}) == len(variants) + 1


def test_english_has_5_to_12_words():
    for m in sample_meanings(3_000, seed=5):
        text = render(m, "eng_Latn")
        assert 5 <= len(text.split()) <= 12, text
        assert text[0].isupper() and text.endswith(".") and "  " not in text and "None" not in text


def test_negatives_differ_by_what_their_kind_says():
    seen = Counter()
    for m in sample_meanings(1_500, seed=6):
        for other, kind in negative_meanings(m, 8):
            changed = differences(m, other)
            seen[m.template, kind] += 1
            if kind in ("tense", "number"):
                assert changed == {kind}
                assert kind == "tense" or other.number
            elif kind == "negation":
                assert changed == ({"negated", "number"} if m.template == "exist" else {"negated"})
            elif kind == "antonym":
                (field,) = changed
                assert grammar.ANTONYMS[getattr(m, field)] == getattr(other, field)
            elif changed == {"subject", "other"}:
                assert kind == "entity" and (m.subject, m.other) == (other.other, other.subject)
            else:
                assert kind == "entity" and len(changed) == 1
                assert changed <= {"subject", "other", "noun", "place", "time"}
    assert {template for template, _ in seen} == set(grammar._templates())
    assert {kind for _, kind in seen} == set(grammar.KINDS)


def test_negatives_are_written_and_diverse():
    apples = Meaning("act", "past", False, "Anna", "buy", 3, "big", "apple", None, "market")
    said = dict((kind, text) for text, kind in hard_negatives(apples))
    assert set(said) == {"negation", "antonym", "number", "entity", "tense"}
    assert said["negation"] == "Anna did not buy the three big apples at the market."
    assert said["antonym"] in {
        "Anna bought three small apples at the market.",
        "Anna sold three big apples at the market.",
    }
    assert said["tense"] in {
        "Anna buys three big apples at the market.",
        "Anna will buy three big apples at the market.",
    }
    for m in sample_meanings(500, seed=8):
        texts = [text for text, _ in hard_negatives(m, 5)]
        assert len(set(texts)) == len(texts) == 5 and render(m, "eng_Latn") not in texts
    assert hard_negatives(apples, 0) == []
    assert len(hard_negatives(apples, 2)) == 2
    firsts = {hard_negatives(m, 1)[0][1] for m in sample_meanings(100, seed=8)}
    assert firsts == set(grammar.KINDS)  # one negative a sentence is not always of the same kind


def test_negatives_of_train_stay_in_train():
    for m in sample_meanings(800, seed=9):
        assert {split_of(other) for other, _ in negative_meanings(m, 8)} == {"train"}
    for split in ("dev", "test"):
        kinds = Counter()
        for m in sample_meanings(300, seed=9, split=split):
            found = negative_meanings(m, 5)
            assert len(found) == 5
            kinds.update(kind for _, kind in found)
        assert min(kinds[kind] for kind in grammar.KINDS) > 100


def test_parallel_schema():
    rows = builtin_parallel(200, languages=["fra_Latn", "eng_Latn", "rus_Cyrl"], hard_negatives=5)
    assert rows.features == schema.features(["hard_negatives"])
    assert len(rows) == 400
    assert Counter(rows["source_lang"]) == {"fra_Latn": 200, "rus_Cyrl": 200}
    assert set(rows["target_lang"]) == {"eng_Latn"} and set(rows["provenance"]) == {"primary"}
    for row in rows:
        assert len(row["hard_negatives"]) == 5 and row["target"] not in row["hard_negatives"]
    without = builtin_parallel(200, languages=["fra_Latn", "rus_Cyrl"])
    assert without.column_names == list(schema.COLUMNS)
    assert without.to_list() == rows.remove_columns("hard_negatives").to_list()
    meaning = sample_meanings(200)[0]
    assert rows[0]["source"] == render(meaning, "fra_Latn") and rows[0]["target"] == render(meaning, "eng_Latn")


def test_parallel_in_all_directions():
    rows = builtin_parallel(10, languages=("eng_Latn", "tur_Latn", "jpn_Jpan"), direction="all", hard_negatives=3)
    assert Counter(zip(rows["source_lang"], rows["target_lang"], strict=True)) == {
        (a, b): 10 for a in set(rows["source_lang"]) for b in set(rows["source_lang"]) if a != b
    }
    assert {len(row["hard_negatives"]) for row in rows if row["target_lang"] == "eng_Latn"} == {3}
    assert {len(row["hard_negatives"]) for row in rows if row["target_lang"] != "eng_Latn"} == {0}


def test_nway_and_dev_set():
    rows, negatives = dev_set(30, languages=["eng_Latn", "zho_Hans"], max_negatives=4)
    assert rows.to_list() == builtin_nway(30, split="dev", languages=["eng_Latn", "zho_Hans"]).to_list()
    assert Counter(rows["lang"]) == {"eng_Latn": 30, "zho_Hans": 30}
    english = {row["id"]: row["text"] for row in rows if row["lang"] == "eng_Latn"}
    assert set(english) == set(negatives) == set(rows["id"])
    for key, found in negatives.items():
        assert len(found) == 4 and english[key] not in [text for text, _ in found]
        assert {kind for _, kind in found} <= set(grammar.KINDS)
    assert dev_set(5, max_negatives=0)[1] == {}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: builtin_nway(2, languages=["eng_Latn", "nld_Latn"]),
            "unknown language 'nld_Latn'.*fra_Latn",
        ),
        (lambda: builtin_nway(2, languages="fra_Latn"), r"give a list, \['fra_Latn'\]"),
        (lambda: builtin_nway(2, languages=["fra_Latn", "fra_Latn"]), "occurs twice"),
        (lambda: builtin_nway(2, split="valid"), "unknown split 'valid'.*train, dev, test"),
        (lambda: builtin_parallel(2, languages=["eng_Latn"]), "no pairs of languages in eng_Latn"),
        (lambda: builtin_parallel(2, direction="eng_x"), "unknown direction 'eng_x': use one of x_eng, all"),
        (
            lambda: sample_meanings(10**8, split="dev"),
            "cannot sample 100000000 meanings: the dev split.* has 2529204",
        ),
        (lambda: sample_meanings(-1), "cannot sample -1"),
        (lambda: render(sample_meanings(1)[0], "fra"), "unknown language 'fra'"),
        (
            lambda: meaning_id(Meaning("go", "past", False, "Anna", place="moon")),
            "not a meaning of the built-in",
        ),
        (lambda: meaning_id(Meaning("sing", "past", False)), "unknown template 'sing': use one of act, give"),
    ],
)
def test_errors_name_the_wrong_value(call, message):
    with pytest.raises(ValueError, match=message) as error:
        call()
    assert "\n" not in str(error.value)


def test_public_names():
    assert all(hasattr(builtin, name) for name in builtin.__all__)


if __name__ == "__main__":  # for test_same_in_every_process
    print(digest())
