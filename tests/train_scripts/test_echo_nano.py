"""The mix with everyday sentences: what is held out, how rows are drawn, and how its report counts."""

import hashlib

import echo_nano_figures as figures
import echo_nano_report as report
import numpy as np
import pandas as pd
import speech_nano_data


def pairs(rows):
    return pd.DataFrame(rows, columns=["src_lang", "src", "tgt_lang", "tgt"])


def percent(text):
    return int.from_bytes(hashlib.sha256(text.lower().encode()).digest()[:4], "little") % 100


def test_everyday_dev_is_a_share_by_the_hash_of_the_english(tmp_path):
    """2 % of what echo-nano may have seen, in whatever spelling, 10 % of all else, the same in every language."""
    speech_nano_data.use_parts()
    old = [f"Tom saw dog number {n}." for n in range(2000)]
    new = [f"Mary has {n} cats." for n in range(2000)]
    seen = pairs(("eng_Latn", text, "fra_Latn", f"fra {text}") for text in old)
    seen.to_parquet(tmp_path / "tatoeba_pairs.parquet")
    pairs([]).astype(str).to_parquet(tmp_path / "tatoeba_more.parquet")
    rows = [("eng_Latn", text, lang, f"{lang} {text}") for text in new for lang in ("lit_Latn", "fra_Latn")]
    rows += [("eng_Latn", text.upper(), "lit_Latn", f"lit {text}") for text in old]
    rows += [("eng_Latn", text, "tlh_Latn", f"tlh {text}") for text in new]  # a language of no part
    pairs(rows).to_parquet(tmp_path / "tatoeba_challenge.parquet")
    table = speech_nano_data.everyday_table(tmp_path)
    want = {t for text in old if percent(text) < 2 for t in (text, text.upper())}
    want |= {text for text in new if percent(text) < 10}
    assert set(table.id) == want and set(table.lang) == {"eng_Latn", "fra_Latn", "lit_Latn"}
    assert not table.duplicated(["id", "lang"]).any()
    assert (table[table.lang == "eng_Latn"].text == table[table.lang == "eng_Latn"].id).all()


def test_every_language_is_searched_among_as_many_sentences():
    """Against a count by hand: lit has two sentences, one of them wrong; its candidates are filled up with others'."""
    english = {f"sentence number {n}": np.eye(8)[n] + 0.1 for n in range(8)}
    texts = list(english)
    rows = [(t, "eng_Latn", t) for t in texts] + [(t, "fra_Latn", f"fra {t}") for t in texts]
    rows += [(t, "lit_Latn", f"lit {t}") for t in texts[:2]]
    table = pd.DataFrame(rows, columns=["id", "lang", "text"])
    vectors = english | {f"fra {t}": english[t] for t in texts}
    other = next(t for t in report.in_order(texts) if t not in texts[:2])  # only there because it is filled up
    vectors |= {f"lit {texts[0]}": english[texts[0]], f"lit {texts[1]}": english[other]}
    asked = []

    def encode(batch, lang):
        asked.append((lang, len(batch)))
        return np.stack([vectors[text] for text in batch])

    found = report.search(encode, table, 6, margins=(None,), cut=(4,))
    needed = {*report.in_order(texts)[:6], *report.candidates(texts[:2], report.in_order(texts), 6)}
    assert asked == [("eng_Latn", len(needed)), ("fra_Latn", 6), ("lit_Latn", 2)]
    assert found["4"].sum() > found.cosine.sum()  # half of the vectors are the same in four dimensions
    assert not found[found.lang == "fra_Latn"].cosine.any() and set(found.words) == {3}
    wrong = found[found.lang == "lit_Latn"].set_index("id").cosine
    assert wrong[texts[1]] and not wrong[texts[0]]
    pool = report.candidates(texts[:2], report.in_order(texts), 6)
    assert len(pool) == len(set(pool)) == 6 and pool[:2] == texts[:2]


def test_groups_count_languages_and_lengths_count_sentences():
    rows = [("fra_Latn", 3, n < 10) for n in range(20)] + [("deu_Latn", 8, False) for _ in range(40)]
    rows += [("spa_Latn", 30, True) for _ in range(19)]  # too few for a language, enough for a length
    table = pd.DataFrame(rows, columns=["lang", "words", "cosine"])
    found = report.by_group(table)
    assert found["12"] == (25.0, 2) and "new (51)" not in found
    lengths = report.by_length(table, report.TWELVE)
    assert lengths == {"1-5": (50.0, 20), "6-10": (0.0, 40), "21+": (100.0, 19)}
    groups = report.GROUPS
    assert [len(groups[name]) for name in groups] == [12, 41, 12, 51, 104]
    assert len(set(groups["all (104)"])) == 104 and set(groups["12"]) <= set(groups["41"])


def test_size_of_a_model_by_its_short_name():
    assert figures.parameters("echo-nano") == 58_355_712 and figures.parameters("tfidf") is None
