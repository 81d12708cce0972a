"""xsim and xsim++ of an n-way table against `xsim` and `xsimpp` of the same embeddings,
language by language."""

import numpy as np
import pytest

from hf_echo.evaluation import Table, evaluate_xsim, grouped, pairs_as_nway, xsim, xsimpp
from hf_echo.evaluation.nway_texts import warn_once
from hf_echo.inference.encoders import tfidf_encoder

ENGLISH = {
    "1": "the red house",
    "2": "the blue house",
    "3": "a black cat",
    "4": "two dogs",
    "5": "the red house",
}
NOISE = {"eng_Latn": 0.0, "fra_Latn": 0.3, "deu_Latn": 2.0}


def vector(text: str) -> np.ndarray:
    return np.random.default_rng(list(text.encode())).normal(size=16)


def encode(texts: list[str], lang: str) -> np.ndarray:
    """Reads "L:text" as text plus a noise that grows with the language's number;
    English as it is."""
    vectors = []
    for text in texts:
        noise = NOISE[lang] * vector(lang + text)
        vectors.append(vector(text.split(":")[-1]) + noise)
    return np.stack(vectors)


def noiseless(texts: list[str], lang: str) -> np.ndarray:
    return np.stack([vector(text.split(":")[-1]) for text in texts])


def said(lang: str, key: str) -> str:
    return ENGLISH[key] if lang == "eng_Latn" else f"{lang}:{ENGLISH[key]}"


def nway(lang: str, ids: str = "12345") -> list[dict]:
    return [{"id": key, "lang": lang, "text": said(lang, key)} for key in ids]


def vectors_of(lang: str, ids: str) -> np.ndarray:
    return encode([said(lang, key) for key in ids], lang)


ROWS = nway("eng_Latn") + nway("fra_Latn", "1234") + nway("deu_Latn")
NEGATIVES = {
    "1": [("the green house", "entity"), ("no red house", "negation")],
    "3": [("a white cat", "entity")],
    "5": ["the red horse"],
    "99": [("of a sentence that is not here", "number")],
}
RATIO = dict(margin="ratio", k=2, same_text_is_right=False)


def error_rate(lang: str, target: str, ids: str) -> float:
    """xsim of the sentences of these ids."""
    x, y = vectors_of(lang, ids), vectors_of(target, ids)
    return xsim(x, y, margin="ratio", k=2).error_rate


def test_xsim_is_that_of_the_sentences_in_common():
    french, german = evaluate_xsim(encode, ROWS, **RATIO).rows

    of_french = error_rate("fra_Latn", "eng_Latn", "1234")
    of_german = error_rate("deu_Latn", "eng_Latn", "12345")
    assert french == {"lang": "fra_Latn", "count": 4, "xsim": of_french}
    assert german == {"lang": "deu_Latn", "count": 5, "xsim": of_german}


@pytest.mark.parametrize(
    ("lang", "ids", "owners", "kinds", "texts"),
    [
        (
            "fra_Latn",
            "1234",
            [0, 0, 2],
            ["entity", "negation", "entity"],
            ["the green house", "no red house", "a white cat"],
        ),
        (
            "deu_Latn",
            "12345",
            [0, 0, 2, 4],
            ["entity", "negation", "entity", "negative"],
            ["the green house", "no red house", "a white cat", "the red horse"],
        ),
    ],
)
def test_xsimpp_has_the_hard_negatives_of_the_sentences(lang, ids, owners, kinds, texts):
    """The third has the kind "negative", since it comes without one."""
    near = encode(texts, "eng_Latn")
    x = vectors_of(lang, ids)
    y = vectors_of("eng_Latn", ids)
    expected = xsimpp(x, y, near, owners, negative_kind=kinds, margin="ratio", k=2)

    table = evaluate_xsim(encode, ROWS, negatives=NEGATIVES, **RATIO)

    (row,) = [row for row in table.rows if row["lang"] == lang]
    assert row["pool"] == len(ids) + len(texts)
    errors = {f"xsimpp_errors/{kind}": count for kind, count in expected.errors_by_kind.items()}
    assert row["xsimpp"] == expected.error_rate
    assert row == row | errors


def counting(calls: list):
    """The encoder, which notes (language, number of texts)."""

    def call(texts, lang):
        calls.append((lang, len(texts)))
        return encode(texts, lang)

    return call


def test_target_sentences_are_encoded_once():
    calls = []

    evaluate_xsim(counting(calls), ROWS, negatives=NEGATIVES)

    hard_negatives = ("eng_Latn", 4)
    assert calls == [("eng_Latn", 5), hard_negatives, ("fra_Latn", 4), ("deu_Latn", 5)]


def test_all_pairs_encode_each_language_once():
    calls = []

    evaluate_xsim(counting(calls), ROWS, direction="all")

    assert sorted(calls) == [("deu_Latn", 5), ("eng_Latn", 5), ("fra_Latn", 4)]


def test_the_same_text_is_right():
    table = evaluate_xsim(noiseless, ROWS, source_langs=["deu_Latn"])

    assert table.rows[0]["xsim"] == 0.0


def test_the_same_text_is_wrong_if_asked():
    table = evaluate_xsim(noiseless, ROWS, source_langs=["deu_Latn"], same_text_is_right=False)

    assert table.rows[0]["xsim"] == 20.0


def test_one_vector_of_two_texts_is_an_error():
    """German says both alike."""
    other = {"id": "5", "lang": "eng_Latn", "text": "a:the red house"}

    table = evaluate_xsim(noiseless, [*ROWS[:4], other, *nway("deu_Latn")])

    assert table.rows[0]["xsim"] == 20.0


CITIES = [
    {"id": 0, "lang": "eng_Latn", "text": "Berlin hosted the conference"},
    {"id": 1, "lang": "eng_Latn", "text": "the president visited Paris"},
    {"id": 2, "lang": "eng_Latn", "text": "three museums in Madrid"},
    {"id": 0, "lang": "deu_Latn", "text": "Berlin war Gastgeber der Konferenz"},
    {"id": 1, "lang": "deu_Latn", "text": "der Praesident besuchte Paris"},
    {"id": 2, "lang": "deu_Latn", "text": "drei Museen in Madrid"},
]
CITY_NEGATIVES = {
    0: [("Berlin refused the conference", "antonym")],
    2: [("five museums in Madrid", "number")],
}


def test_tfidf_finds_shared_spelling_only():
    tfidf = tfidf_encoder(row["text"] for row in CITIES)

    (row,) = evaluate_xsim(tfidf, CITIES, negatives=CITY_NEGATIVES).rows

    assert row["xsim"] == 0.0
    assert row["xsimpp"] > 0


def test_sparse_embeddings_give_the_figures_of_dense_ones():
    tfidf = tfidf_encoder(row["text"] for row in CITIES)

    sparse = evaluate_xsim(tfidf, CITIES, negatives=CITY_NEGATIVES)
    dense = evaluate_xsim(
        lambda texts, lang: tfidf(texts, lang).toarray(), CITIES, negatives=CITY_NEGATIVES
    )

    assert sparse.rows == dense.rows


@pytest.mark.parametrize(
    "rows, options, words",
    [
        (ROWS[:5], {}, "only rows in eng_Latn: give another language too"),
        (ROWS + ROWS[:1], {}, "id '1' has two texts in 'eng_Latn'"),
        (
            ROWS,
            {"source_langs": ["ita_Latn"]},
            "no rows in 'ita_Latn': found eng_Latn, fra_Latn, deu_Latn",
        ),
        (
            ROWS[:1] + nway("fra_Latn", "23"),
            {},
            r"'eng_Latn' \(1 rows\) and 'fra_Latn' \(2 rows\) have no id in co",
        ),
        (ROWS, {"negatives": {"77": ["x"]}}, "negatives has 1 ids, but none is an id of the 5"),
        (
            ROWS,
            {"direction": "from", "negatives": NEGATIVES},
            "direction is 'from'; with negatives",
        ),
    ],
)
def test_bad_input_is_refused_in_one_line(rows, options, words):
    with pytest.raises(ValueError, match=words):
        evaluate_xsim(encode, rows, **options)


GERMAN_ALONE = ROWS[:3] + nway("fra_Latn", "123") + nway("deu_Latn", "45")


@pytest.mark.parametrize("direction", ["to", "from", "all"])
def test_a_language_without_common_sentences_is_left_out(direction):
    without_german = [row for row in GERMAN_ALONE if row["lang"] != "deu_Latn"]

    table = evaluate_xsim(encode, GERMAN_ALONE, direction=direction)

    # The same table from rows in which the language does not occur.
    expected = evaluate_xsim(encode, without_german, direction=direction)
    assert table.rows == expected.rows
    assert table.average == expected.average
    assert (
        "'deu_Latn' (2 rows) and 'eng_Latn' (3 rows) have no id in common"
        in table.notes["not_measured"]
    )
    assert "not_measured" not in expected.notes


def test_a_language_left_out_is_warned_of_once(caplog):
    warn_once.cache_clear()

    evaluate_xsim(encode, GERMAN_ALONE)
    evaluate_xsim(encode, GERMAN_ALONE)

    assert caplog.messages == [
        "not measured: 'deu_Latn' (2 rows) and 'eng_Latn' (3 rows) have no id in common"
    ]


def test_a_language_without_hard_negatives_has_no_xsimpp(caplog):
    warn_once.cache_clear()
    rows = nway("eng_Latn") + nway("fra_Latn", "24") + nway("deu_Latn", "1234")

    table = evaluate_xsim(encode, rows, negatives=NEGATIVES)

    french, german = table.rows
    assert french["xsimpp"] is None
    assert french["pool"] is None
    assert german["xsimpp"] == table.average["xsimpp"]
    assert caplog.messages == [
        "xsim++ of 'fra_Latn' is not measured: its 2 sentences have no hard negatives"
    ]


@pytest.mark.parametrize(
    ("lang", "text", "message"),
    [
        (
            "deu_Latn",
            "two dogs",
            r"'deu_Latn', id '4' \(row 3\): a NaN, infinite or zero embedding",
        ),
        ("eng_Latn", "a white cat", r"'eng_Latn', id 'hard negative of 3'"),
    ],
)
def test_a_broken_embedding_names_its_text(lang, text, message):
    def broken(texts, of_lang):
        vectors = encode(texts, of_lang)
        if of_lang == lang:
            vectors[[text in candidate for candidate in texts]] = np.nan
        return vectors

    with pytest.raises(ValueError, match=message):
        evaluate_xsim(broken, ROWS, negatives=NEGATIVES)


# Directions


def test_from_the_target_searches_the_language():
    french, german = evaluate_xsim(encode, ROWS, direction="from", **RATIO).rows

    of_french = error_rate("eng_Latn", "fra_Latn", "1234")
    of_german = error_rate("eng_Latn", "deu_Latn", "12345")
    assert french == {"lang": "fra_Latn", "count": 4, "xsim": of_french}
    assert german == {"lang": "deu_Latn", "count": 5, "xsim": of_german}


def test_all_ordered_pairs_are_measured():
    table = evaluate_xsim(encode, ROWS, direction="all", **RATIO)

    assert len(table.rows) == 6
    for row in table.rows:
        ids = "1234" if "fra_Latn" in row.values() else "12345"
        assert row["count"] == len(ids)
        assert row["xsim"] == error_rate(row["lang"], row["target_lang"], ids)


# Groups

XSIM = {"fra_Latn": 1.0, "deu_Latn": 3.0, "rus_Cyrl": 8.0, "srp_Cyrl": 4.0, "python": 9.0}


@pytest.fixture
def table() -> Table:
    rows = [{"lang": lang, "count": 10, "xsim": error_rate} for lang, error_rate in XSIM.items()]
    return Table(rows).with_average(["xsim"])


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("script", {"Latin": (2, 2.0), "Cyrillic": (2, 6.0), "none": (1, 9.0)}),
        ("resource", {"high": (3, 4.0), "low": (1, 4.0), "none": (1, 9.0)}),
    ],
)
def test_groups_of_languages(table, by, expected):
    groups = {row[by]: (row["languages"], row["xsim"]) for row in grouped(table, by).rows}

    assert groups == expected


def test_every_language_is_in_a_family(table):
    rows = grouped(table, "family").rows

    assert sum(row["languages"] for row in rows) == 5
    assert rows[-1] == {"family": "none", "languages": 1, "xsim": 9.0}


def test_the_average_of_groups_is_that_of_the_table(table):
    assert grouped(table, "script").average == {"script": "average", "languages": 5, "xsim": 5.0}


def test_pairs_are_grouped_by_target():
    pairs = evaluate_xsim(encode, ROWS, direction="all")

    groups = {row["target_lang"]: row["xsim"] for row in grouped(pairs, "target_lang").rows}

    into_german = [row["xsim"] for row in pairs.rows if row["target_lang"] == "deu_Latn"]
    assert groups["deu_Latn"] == np.mean(into_german)


def test_groups_of_a_column_that_a_table_lacks_are_refused(table):
    with pytest.raises(ValueError, match="needs a table with a column 'target_lang'"):
        grouped(table, "target_lang")


@pytest.mark.parametrize("direction", ["to", "from"])
def test_pairs_with_a_target_of_their_own(direction):
    """As Tatoeba: each language has other English sentences, and is searched among its own."""
    ids_of = {"fra_Latn": "123", "deu_Latn": "2345"}
    pairs = []
    for lang, ids in ids_of.items():
        for key in ids:
            sides = {"source": said(lang, key), "target": ENGLISH[key]}
            pairs.append(sides | {"source_lang": lang, "target_lang": "eng_Latn"})

    table = evaluate_xsim(encode, pairs_as_nway(pairs), direction=direction)

    for row, (lang, ids) in zip(table.rows, ids_of.items(), strict=True):
        x = vectors_of(lang, ids)
        y = vectors_of("eng_Latn", ids)
        expected = xsim(x, y) if direction == "to" else xsim(y, x)
        assert row == {"lang": lang, "count": len(ids), "xsim": expected.error_rate}
