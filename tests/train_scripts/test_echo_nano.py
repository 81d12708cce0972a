"""The mix with everyday sentences: what is held out, how rows are drawn, and how its report counts."""

from __future__ import annotations

import hashlib
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hf_echo.negatives.rules import hard_negatives_for

SCRIPTS = Path(__file__).parents[2] / "train_scripts"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS / "studies"))
    return lambda name: runpy.run_path(str(next(SCRIPTS.glob(f"*/{name}.py"))))


def pairs(rows):
    return pd.DataFrame(
        [{"src_lang": s, "src": a, "tgt_lang": t, "tgt": b} for s, a, t, b in rows],
        columns=["src_lang", "src", "tgt_lang", "tgt"],
    )


def percent(text):
    return int.from_bytes(hashlib.sha256(text.lower().encode()).digest()[:4], "little") % 100


def test_everyday_dev_is_a_share_by_the_hash_of_the_english(script, tmp_path):
    """2 % of what echo-nano may have seen, in whatever spelling, 10 % of all else, the same in every language."""
    data = script("echo_nano_data")
    data["use_parts"]()
    old = [f"Tom saw dog number {n}." for n in range(2000)]
    new = [f"Mary has {n} cats." for n in range(2000)]
    seen = pairs(("eng_Latn", text, "fra_Latn", f"fra {text}") for text in old)
    seen.to_parquet(tmp_path / "tatoeba_pairs.parquet")
    pairs([]).astype(str).to_parquet(tmp_path / "tatoeba_more.parquet")
    rows = [("eng_Latn", text, lang, f"{lang} {text}") for text in new for lang in ("lit_Latn", "fra_Latn")]
    rows += [("eng_Latn", text.upper(), "lit_Latn", f"lit {text}") for text in old]
    rows += [("eng_Latn", text, "tlh_Latn", f"tlh {text}") for text in new]  # a language of no part
    pairs(rows).to_parquet(tmp_path / "tatoeba_challenge.parquet")
    table = data["everyday_table"](tmp_path)
    want = {t for text in old if percent(text) < 2 for t in (text, text.upper())}
    want |= {text for text in new if percent(text) < 10}
    assert set(table.id) == want and set(table.lang) == {"eng_Latn", "fra_Latn", "lit_Latn"}
    assert not table.duplicated(["id", "lang"]).any()
    assert (table[table.lang == "eng_Latn"].text == table[table.lang == "eng_Latn"].id).all()


def test_no_dev_text_on_either_side_of_a_pair(script):
    data = script("echo_nano_data")
    dev = {"everyday": pd.DataFrame({"text": ["Stop!", "Стало очень жарко.", "?!"]})}
    rows = [
        ("Halt.", "stop"),
        ("стало очень жарко", "It got hot."),
        ("Es ist Zeit.", "It is time."),
        ("?!", "What?!"),
        ("!?", "Eh?!"),
    ]
    train = pd.DataFrame(rows, columns=["source", "target"])
    assert data["without_held_out"](train, dev).source.tolist() == ["Es ist Zeit.", "!?"]


def test_small_languages_come_more_often_but_not_too_often(script):
    """10,000, 2,500 and 10 rows at power 0.5 become 10,000, 5,000 and at most 6 times 10."""
    data = script("echo_nano_data")
    langs = pd.Series(["fra_Latn"] * 10_000 + ["lit_Latn"] * 2_500 + ["fao_Latn"] * 10)
    times = pd.Series(1.0, langs.index)
    scale = data["language_scale"](langs, times, 0.5, 6.0)
    totals = (times * scale).groupby(langs).sum()
    assert totals["fra_Latn"] == pytest.approx(10_000) and totals["lit_Latn"] == pytest.approx(5_000)
    assert totals["fao_Latn"] == pytest.approx(60)
    halved = data["language_scale"](langs, times * 0.5, 0.5, 6.0)  # what counts are rows by their weights
    np.testing.assert_allclose(halved, scale)


def test_both_directions_write_english_and_a_few_languages(script):
    rows = [
        ("Il dort bien.", "fra_Latn", "He sleeps well.", "eng_Latn", "primary"),
        ("Il dort bien.", "fra_Latn", "He sleeps well.", "eng_Latn", "primary"),  # a copy of the mix
        ("Jis miega.", "lit_Latn", "He sleeps.", "eng_Latn", "primary"),
        ("Jis miega.", "lit_Latn", "Il dort.", "fra_Latn", "primary"),
        ("chien", "fra_Latn", "dog", "eng_Latn", "primary"),
        ("bon chien", "fra_Latn", "good dog", "eng_Latn", "dictionary"),
    ]
    columns = ["source", "source_lang", "target", "target_lang", "provenance"]
    table = script("echo_nano_data")["both_directions"](pd.DataFrame(rows, columns=columns), ["fra_Latn"])
    assert {*zip(table.source, table.target_lang, table.target)} == {
        ("Il dort bien.", "eng_Latn", "He sleeps well."),
        ("He sleeps well.", "fra_Latn", "Il dort bien."),
        ("Jis miega.", "eng_Latn", "He sleeps."),
        ("Jis miega.", "fra_Latn", "Il dort."),
    }
    assert len(table) == 4 and list(table.columns) == columns
    assert set(table[table.target_lang == "fra_Latn"].source_lang) == {"eng_Latn", "lit_Latn"}


def test_written_rows_reach_a_language_through_english(script):
    """French is written from English, from the pair without English, and from Lithuanian with the same English."""
    rows = [
        ("Il dort bien.", "fra_Latn", "He sleeps well.", "eng_Latn", "primary"),
        ("Jis gerai miega.", "lit_Latn", "He sleeps well.", "eng_Latn", "primary"),
        ("Er schläft.", "deu_Latn", "Il dort.", "fra_Latn", "primary"),
    ]
    rows += [(f"Phrase {n}.", "fra_Latn", f"Sentence {n}.", "eng_Latn", "primary") for n in range(5)]
    columns = ["source", "source_lang", "target", "target_lang", "provenance"]
    data = script("echo_nano_data")
    table = data["written_rows"](pd.DataFrame(rows, columns=columns), ["fra_Latn"], most=100)
    french = table[table.target_lang == "fra_Latn"]
    assert {*zip(french.source, french.target)} >= {
        ("He sleeps well.", "Il dort bien."),
        ("Jis gerai miega.", "Il dort bien."),
        ("Er schläft.", "Il dort."),
    }
    assert "eng_Latn" in set(table.target_lang) and not (table.source_lang == table.target_lang).any()
    few = data["written_rows"](pd.DataFrame(rows, columns=columns), ["fra_Latn"], most=3)
    assert (few.drop_duplicates(["target_lang", "target"]).target_lang.value_counts() == 3).all()
    written = data["decoder_table"](table, itself=1.0)
    itself = written[written.source == written.target]
    assert set(itself.source_lang) == {"eng_Latn", "fra_Latn"} and (itself.source_lang == itself.target_lang).all()


def test_every_language_is_searched_among_as_many_sentences(script):
    """Against a count by hand: lit has two sentences, one of them wrong; its candidates are filled up with others'."""
    report = script("echo_nano_report")
    english = {f"sentence number {n}": np.eye(8)[n] for n in range(8)}
    texts = list(english)
    rows = [{"id": t, "lang": "eng_Latn", "text": t} for t in texts]
    rows += [{"id": t, "lang": "fra_Latn", "text": f"fra {t}"} for t in texts]
    rows += [{"id": t, "lang": "lit_Latn", "text": f"lit {t}"} for t in texts[:2]]
    table = pd.DataFrame(rows)
    vectors = english | {f"fra {t}": english[t] for t in texts}
    other = next(t for t in report["in_order"](texts) if t not in texts[:2])  # only there because it is filled up
    vectors |= {f"lit {texts[0]}": english[texts[0]], f"lit {texts[1]}": english[other]}
    asked = []

    def encode(batch, lang):
        asked.append((lang, len(batch)))
        return np.stack([vectors[text] for text in batch])

    found = report["search"](encode, table, 6, margins=(None,))
    assert asked == [("eng_Latn", 8), ("fra_Latn", 6), ("lit_Latn", 2)]
    assert not found[found.lang == "fra_Latn"].cosine.any() and set(found.words) == {3}
    wrong = found[found.lang == "lit_Latn"].set_index("id").cosine
    assert wrong[texts[1]] and not wrong[texts[0]]
    pool = report["candidates"](texts[:2], report["in_order"](texts), 6)
    assert len(pool) == len(set(pool)) == 6 and pool[:2] == texts[:2]


def test_groups_count_languages_and_lengths_count_sentences(script):
    report = script("echo_nano_report")
    rows = [("fra_Latn", 3, n < 10) for n in range(20)] + [("deu_Latn", 8, False) for _ in range(40)]
    rows += [("spa_Latn", 30, True) for _ in range(19)]  # too few for a language, enough for a length
    table = pd.DataFrame(rows, columns=["lang", "words", "cosine"])
    found = report["by_group"](table)
    assert found["12"] == (25.0, 2) and "new (51)" not in found
    lengths = report["by_length"](table, report["TWELVE"])
    assert lengths == {"1-5": (50.0, 20), "6-10": (0.0, 40), "21+": (100.0, 19)}


def test_the_groups_are_104_languages_without_overlap(script):
    groups = script("echo_nano_report")["GROUPS"]
    assert [len(groups[name]) for name in groups] == [12, 41, 12, 51, 104]
    assert len(set(groups["all (104)"])) == 104 and set(groups["12"]) <= set(groups["41"])


def test_hard_table(script):
    """English sentences of three words and more; each copy has some of its sentence's negatives by rule."""
    news = [f"The {n} dogs did not sleep in Paris." for n in ("two", "three", "four", "five")]
    rows = [(f"n{i}", "fra_Latn", text, "eng_Latn", "primary") for i, text in enumerate(news * 3)]
    rows += [
        (f"m{i}", "deu_Latn", f"Open the file number {i} in the editor.", "eng_Latn", "primary") for i in range(50)
    ]
    rows += [
        ("w", "fra_Latn", "the dog", "eng_Latn", "primary"),
        ("x", "fra_Latn", "der Hund da", "deu_Latn", "primary"),
    ]
    rows += [("d", "fra_Latn", news[0], "eng_Latn", "dictionary")]
    mix = pd.DataFrame(rows, columns=["source", "source_lang", "target", "target_lang", "provenance"])
    table = script("echo_nano_data")["hard_table"](mix, 12)
    assert table.source_lang.value_counts().to_dict() == {"fra_Latn": 12, "deu_Latn": 12}
    assert not {"w", "x", "d"} & {*table.source}
    for text, texts in zip(news, hard_negatives_for(news, 5), strict=True):
        copies = table[table.target == text].hard_negatives.map(tuple)
        assert len(texts) > 2 and len(copies) == 3
        assert all(len({*c}) == 2 and {*c} <= {t for t, _ in texts} for c in copies)
