import numpy as np
import pytest

from hf_echo.evaluation import Table, evaluate_xsim, grouped, pairs_as_nway, xsim, xsimpp
from hf_echo.evaluation.nway_texts import warn_once
from hf_echo.inference.encoders import tfidf_encoder

ENGLISH = {"1": "the red house", "2": "the blue house", "3": "a black cat", "4": "two dogs", "5": "the red house"}


def vector(text: str) -> np.ndarray:
    return np.random.default_rng(list(text.encode())).normal(size=16)


def encode(texts: list[str], lang: str) -> np.ndarray:
    """Reads "L:text" as text plus a noise that grows with the language's number; English as it is."""
    noise = {"eng_Latn": 0.0, "fra_Latn": 0.3, "deu_Latn": 2.0}[lang]
    return np.stack([vector(t.split(":")[-1]) + noise * vector(lang + t) for t in texts])


def nway(lang: str, ids: str = "12345") -> list[dict]:
    return [{"id": i, "lang": lang, "text": f"{lang}:{ENGLISH[i]}"} for i in ids]


ROWS = (
    [{"id": i, "lang": "eng_Latn", "text": t} for i, t in ENGLISH.items()] + nway("fra_Latn", "1234") + nway("deu_Latn")
)
NEGATIVES = {
    "1": [("the green house", "entity"), ("no red house", "negation")],
    "3": [("a white cat", "entity")],
    "5": ["the red horse"],
    "99": [("of a sentence that is not here", "number")],
}


def test_each_row_is_what_xsim_and_xsimpp_say():
    calls, options = [], dict(negatives=NEGATIVES, margin="ratio", k=2, same_text_is_right=False)
    table = evaluate_xsim(lambda t, lang: calls.append((lang, len(t))) or encode(t, lang), ROWS, **options)
    assert calls == [("eng_Latn", 5), ("eng_Latn", 4), ("fra_Latn", 4), ("deu_Latn", 5)]  # target and negatives once
    assert [row["lang"] for row in table.rows] == ["fra_Latn", "deu_Latn"]
    for row, ids in zip(table.rows, ("1234", "12345"), strict=True):
        x, y = vectors_of(row["lang"], ids), vectors_of("eng_Latn", ids)
        flat = [
            (ids.index(i), *n) if isinstance(n, tuple) else (ids.index(i), n, "negative")
            for i in ids
            for n in NEGATIVES.get(i, [])
        ]
        owners, texts, kinds = zip(*flat)
        hard = xsimpp(x, y, encode(texts, "eng_Latn"), list(owners), negative_kind=list(kinds), margin="ratio", k=2)
        assert row["count"] == len(ids) and row["pool"] == len(ids) + len(flat)
        assert row["xsim"] == xsim(x, y, margin="ratio", k=2).error_rate
        assert row["xsimpp"] == hard.error_rate
        assert {k.split("/")[1]: v for k, v in row.items() if "/" in k} == hard.errors_by_kind


def test_the_same_text_is_right_unless_refused():
    def exact(texts, lang):
        return np.stack([vector(t.split(":")[-1]) for t in texts])

    assert evaluate_xsim(exact, ROWS, source_langs=["deu_Latn"]).rows[0]["xsim"] == 0.0
    by_id = evaluate_xsim(exact, ROWS, source_langs=["deu_Latn"], same_text_is_right=False)
    assert by_id.rows[0]["xsim"] == 20.0
    other = {"id": "5", "lang": "eng_Latn", "text": "a:the red house"}  # German says both alike: one is an error
    assert evaluate_xsim(exact, [*ROWS[:4], other, *nway("deu_Latn")]).rows[0]["xsim"] == 20.0


def test_tfidf_finds_shared_spelling_and_only_that():
    english = ["Berlin hosted the conference", "the president visited Paris", "three museums in Madrid"]
    german = ["Berlin war Gastgeber der Konferenz", "der Praesident besuchte Paris", "drei Museen in Madrid"]
    rows = [{"id": i, "lang": "eng_Latn", "text": text} for i, text in enumerate(english)]
    rows += [{"id": i, "lang": "deu_Latn", "text": text} for i, text in enumerate(german)]
    encode = tfidf_encoder(row["text"] for row in rows)
    negatives = {0: [("Berlin refused the conference", "antonym")], 2: [("five museums in Madrid", "number")]}
    table = evaluate_xsim(encode, rows, negatives=negatives)
    assert table.rows[0]["xsim"] == 0.0
    assert table.rows[0]["pool"] == 5 and table.rows[0]["xsimpp"] > 0
    dense = evaluate_xsim(lambda t, lang: encode(t, lang).toarray(), rows, negatives=negatives)
    assert dense.rows == table.rows


@pytest.mark.parametrize(
    "rows, options, words",
    [
        ([{"id": 1, "language": "x", "text": "t"}], {}, "no column 'lang'.*found id, language, text"),
        (ROWS[:5], {}, "only rows in eng_Latn: give another language too"),
        (ROWS + ROWS[:1], {}, "id '1' has two texts in 'eng_Latn'"),
        (ROWS, {"source_langs": ["ita_Latn"]}, "no rows in 'ita_Latn': found eng_Latn, fra_Latn, deu_Latn"),
        (ROWS[:1] + nway("fra_Latn", "23"), {}, r"'eng_Latn' \(1 rows\) and 'fra_Latn' \(2 rows\) have no id in co"),
        (ROWS, {"negatives": {"77": ["x"]}}, "negatives has 1 ids, but none is an id of the 5"),
        (ROWS, {"direction": "from", "negatives": NEGATIVES}, "direction is 'from'; with negatives"),
    ],
)
def test_bad_input_is_refused_in_one_line(rows, options, words):
    with pytest.raises(ValueError, match=words):
        evaluate_xsim(encode, rows, **options)


@pytest.mark.parametrize("direction", ["to", "from", "all"])
def test_a_language_without_common_sentences_is_left_out_and_named(direction, caplog):
    rows = ROWS[:3] + nway("fra_Latn", "123") + nway("deu_Latn", "45")
    warn_once.cache_clear()
    for _ in range(2):
        table = evaluate_xsim(encode, rows, direction=direction)
    without = evaluate_xsim(encode, [row for row in rows if row["lang"] != "deu_Latn"], direction=direction)
    assert table.rows == without.rows and table.average == without.average
    reason = "'deu_Latn' (2 rows) and 'eng_Latn' (3 rows) have no id in common"
    assert reason in table.notes["not_measured"] and "not_measured" not in without.notes
    assert len(caplog.messages) == 1 and reason in caplog.messages[0]


def test_a_language_without_hard_negatives_has_no_xsimpp(caplog):
    warn_once.cache_clear()
    table = evaluate_xsim(encode, ROWS[:5] + nway("fra_Latn", "24") + nway("deu_Latn", "1234"), negatives=NEGATIVES)
    french, german = table.rows
    assert (french["count"], french["xsimpp"], french["pool"]) == (2, None, None)
    assert german["xsimpp"] == table.average["xsimpp"] and german["pool"] == 7
    assert caplog.messages == ["xsim++ of 'fra_Latn' is not measured: its 2 sentences have no hard negatives"]


def test_a_broken_embedding_names_language_and_id():
    def broken(text, where):
        return lambda texts, lang: encode(texts, lang) * [[lang != where or text not in t] for t in texts]

    with pytest.raises(ValueError, match=r"'deu_Latn', id '4' \(row 3\): a NaN, infinite or zero embedding"):
        evaluate_xsim(broken("two dogs", "deu_Latn"), ROWS)
    with pytest.raises(ValueError, match=r"'eng_Latn', id 'hard negative of 3'"):
        evaluate_xsim(broken("a white cat", "eng_Latn"), ROWS, negatives=NEGATIVES)
    with pytest.raises(ValueError, match=r"encode gave shape \(4, 16\) for 5 texts in 'eng_Latn'"):
        evaluate_xsim(lambda texts, lang: encode(texts[1:], lang), ROWS)


# Directions


def vectors_of(lang, ids):
    return encode([ENGLISH[i] if lang == "eng_Latn" else f"{lang}:{ENGLISH[i]}" for i in ids], lang)


def test_from_the_target_and_all_pairs():
    calls = []
    counted = lambda texts, lang: calls.append(lang) or encode(texts, lang)  # noqa: E731
    options = dict(margin="ratio", k=2)
    into = evaluate_xsim(encode, ROWS, direction="from", same_text_is_right=False, **options)
    pairs = evaluate_xsim(counted, ROWS, direction="all", same_text_is_right=False, **options)
    assert sorted(calls) == ["deu_Latn", "eng_Latn", "fra_Latn"]  # each language once
    assert len(pairs.rows) == 6 and into.notes["direction"] == "from"
    for row in [*pairs.rows, *({"target_lang": row["lang"], **row, "lang": "eng_Latn"} for row in into.rows)]:
        ids = "1234" if "fra_Latn" in (row["lang"], row["target_lang"]) else "12345"
        found = xsim(vectors_of(row["lang"], ids), vectors_of(row["target_lang"], ids), **options)
        assert (row["count"], row["xsim"]) == (len(ids), found.error_rate)


# Groups


def test_groups_by_script_family_and_resource():
    values = {"fra_Latn": 1.0, "deu_Latn": 3.0, "rus_Cyrl": 8.0, "srp_Cyrl": 4.0, "python": 9.0}
    table = Table([{"lang": lang, "count": 10, "xsim": v} for lang, v in values.items()]).with_average(["xsim"])
    script, resource, family = (
        {row[by]: (row["languages"], row["xsim"]) for row in grouped(table, by).rows}
        for by in ("script", "resource", "family")
    )
    assert script == {"Latin": (2, 2.0), "Cyrillic": (2, 6.0), "none": (1, 9.0)}
    assert grouped(table, "script").average == {"script": "average", "languages": 5, "xsim": 5.0}
    assert {name: languages for name, (languages, _) in resource.items()} == {"high": 3, "low": 1, "none": 1}
    assert sum(languages for languages, _ in family.values()) == 5 and family["none"] == (1, 9.0)
    pairs = evaluate_xsim(encode, ROWS, direction="all")
    into = {row["target_lang"]: row["xsim"] for row in grouped(pairs, "target_lang").rows}
    assert into["deu_Latn"] == np.mean([r["xsim"] for r in pairs.rows if r["target_lang"] == "deu_Latn"])
    with pytest.raises(ValueError, match="by is 'continent'"):
        grouped(table, "continent")
    with pytest.raises(ValueError, match="needs a table with an average and a column 'target_lang'"):
        grouped(table, "target_lang")


# Shapes of data: one interface


def test_pairs_with_a_target_of_their_own():
    """As Tatoeba: each language has other English sentences, and is searched among its own."""
    pairs = [
        {"source": f"{lang}:{ENGLISH[i]}", "source_lang": lang, "target": ENGLISH[i], "target_lang": "eng_Latn"}
        for lang, ids in (("fra_Latn", "123"), ("deu_Latn", "2345"))
        for i in ids
    ]
    table = evaluate_xsim(encode, pairs_as_nway(pairs), same_text_is_right=True)
    assert [(row["lang"], row["count"]) for row in table.rows] == [("fra_Latn", 3), ("deu_Latn", 4)]
    back = evaluate_xsim(encode, pairs_as_nway(pairs), direction="from", same_text_is_right=True)
    for row, lang, ids in zip(back.rows, ("fra_Latn", "deu_Latn"), ("123", "2345"), strict=True):
        assert row["xsim"] == xsim(vectors_of("eng_Latn", ids), vectors_of(lang, ids)).error_rate
