"""Each reader of a source, on files written by hand in its layout."""

import gzip
import json

import pytest

from hf_echo.data.sources import (
    SOURCES,
    dictionaries,
    flores_files,
    ntrex,
    nusax,
    opus_testsets,
    scripture,
    translations,
)
from hf_echo.data.sources.origins import Files
from hf_echo.data.sources.rows import code_of, main_script, one_line

from ...refusals import refuses


def origin_of(name: str, files: dict) -> Files:
    data = {
        path: text if isinstance(text, bytes) else text.encode() for path, text in files.items()
    }
    return Files(name, sorted(data), [], data.__getitem__)


NTREX = {
    "DOCUMENT_IDS.tsv": "news.1\nnews.1\nnews.2\nnews.3\n",
    "NTREX-128/newstest2019-src.eng.txt": "One.\nTwo.\nThree.\nFour.\n",
    "NTREX-128/newstest2019-ref.fra-CA.txt": "Un.\nDeux.\nTrois.\nQuatre.\n",
    "NTREX-128/newstest2019-ref-2.spa.txt": "Uno.\nDos.\nTres.\nCuatro.\n",
}


def test_ntrex_holds_out_the_second_half_of_the_documents():
    rows = list(ntrex.read_ntrex([origin_of("ntrex", NTREX)]))
    test_texts = [text for is_test, _, _, code, text in rows if is_test and code == "eng_Latn"]
    assert test_texts == ["Four."]  # of three documents two are trained on


def test_ntrex_numbers_the_lines_of_all_languages_alike():
    rows = list(ntrex.read_ntrex([origin_of("ntrex", NTREX)]))
    assert (False, 2, "news.2", "fra_Latn_CA", "Trois.") in rows


def test_ntrex_leaves_a_second_translation_out():
    rows = ntrex.read_ntrex([origin_of("ntrex", NTREX)])
    assert {row[3] for row in rows} == {"eng_Latn", "fra_Latn_CA"}


def test_ntrex_refuses_a_file_of_another_length():
    files = NTREX | {"NTREX-128/newstest2019-ref.deu.txt": "Eins.\n"}
    refuses(
        "has 1 lines, and DOCUMENT_IDS.tsv 4",
        lambda: list(ntrex.read_ntrex([origin_of("ntrex", files)])),
    )


def test_sib_keeps_its_splits_apart():
    table = "index_id\tcategory\ttext\n{}\tsports\t{}\n"
    files = {
        "data/annotated/fra_Latn/train.tsv": table.format(7, '"Un ""but""."'),
        "data/annotated/fra_Latn/test.tsv": table.format(8, "Deux buts."),
    }
    rows = list(flores_files.read_sib([origin_of("sib", files)]))
    assert rows == [
        (True, 8, "fra_Latn", "sports", "Deux buts.", "test"),
        (False, 7, "fra_Latn", "sports", 'Un "but".', "train"),
    ]


def test_devtest_is_test_text():
    files = {
        "flores200_dataset/devtest/ace_Arab.devtest": "a\nb\n",
        "flores200_dataset/devtest/eng.devtest": "c\nd\n",
    }
    rows = list(flores_files.read_devtest([origin_of("flores", files)]))
    assert rows[1] == (True, 1, "ace_Arab", "b")
    assert rows[3] == (True, 1, "eng_Latn", "d")


@pytest.mark.parametrize(
    ("label", "code"),
    [
        ("cmn_Hans", "zho_Hans"),
        ("jpn_Hira", "jpn_Jpan"),
        ("fra", "fra_Latn"),
        ("toki_Latn", "tok_Latn"),
        ("cor", "cor_Latn"),
        ("jpn_Latn", None),
        ("ell_Latn", None),
    ],
)
def test_labels_of_tatoeba(label, code):
    assert opus_testsets.tatoeba_code(label) == code


def tatoeba(pair: str, release: str, rows: list[tuple[str, str]]) -> dict[str, str]:
    """The four files of a pair of languages."""
    files = {}
    folder = f"datasets/helsinki_nlp/tatoeba/testsets/{pair}/tatoeba-test-{release}"
    for side, language in enumerate(pair.split("-")):
        files[f"{folder}.{language}"] = "".join(f"{row[side]}\n" for row in rows)
        files[f"{folder}.{language}.labels"] = f"{language}\n" * len(rows)
    return files


def test_tatoeba_puts_english_first():
    files = tatoeba("deu-eng", "v2021-08-07", [("Ja, gern.", "Yes, gladly.")])
    rows = list(opus_testsets.read_tatoeba_challenge([origin_of("opus", files)]))
    assert rows == [(False, "eng_Latn", "Yes, gladly.", "deu_Latn", "Ja, gern.")]


def test_tatoeba_keeps_a_pair_of_two_releases_once():
    pair = [("Ja, gern.", "Yes, gladly.")]
    files = tatoeba("deu-eng", "v2021-08-07", pair) | tatoeba("deu-eng", "v2021-03-30", pair)
    assert len(list(opus_testsets.read_tatoeba_challenge([origin_of("opus", files)]))) == 1


def test_tatoeba_holds_out_pairs_of_a_language_that_has_enough():
    pairs = [(f"Satz {number}", f"Sentence {number}") for number in range(1_600)]
    rows = list(
        opus_testsets.read_tatoeba_challenge(
            [origin_of("opus", tatoeba("deu-eng", "v2021-08-07", pairs))]
        )
    )
    assert sum(row[0] for row in rows) == 300
    assert len(rows) == 1_600


def test_tatoeba_pairs_of_a_language_with_itself_are_no_translations():
    files = tatoeba("deu-eng", "v2021-08-07", [("a", "b")]) | tatoeba(
        "deu-deu", "v2021-08-07", [("a", "c")]
    )
    rows = list(opus_testsets.read_tatoeba_others([origin_of("opus", files)]))
    assert rows == []


def test_tatoeba_without_english_has_the_codes_in_alphabetical_order():
    files = tatoeba("fra-deu", "v2021-08-07", [("Oui.", "Ja.")])
    rows = list(opus_testsets.read_tatoeba_others([origin_of("opus", files)]))
    assert rows == [(False, "deu_Latn", "Ja.", "fra_Latn", "Oui.")]


def test_laser_pairs_are_test_text():
    files = {
        "data/tatoeba/v1/tatoeba.kzj-eng.eng": "Yes.\n",
        "data/tatoeba/v1/tatoeba.kzj-eng.kzj": "Oo.\n",
    }
    rows = list(opus_testsets.read_laser_tatoeba([origin_of("laser", files)]))
    assert rows == [(True, "eng_Latn", "Yes.", "kzj_Latn", "Oo.")]


def tico(language: str, english: list[str], foreign: list[str]) -> dict[str, str]:
    folder = f"datasets/tico19/testsets/en-{language}/tico19-test"
    return {
        f"{folder}.en": "\n".join(english) + "\n",
        f"{folder}.{language}": "\n".join(foreign) + "\n",
    }


def test_tico_leaves_lines_out_that_are_out_of_place():
    english = ["Wash your hands.", "Stay at home."]
    files = tico("sw", english, ["A", "B"]) | tico("ha", english, ["C", "D"])
    files |= tico("fr", ["Wash your hands.", "Other."], ["E", "F"])
    rows = list(opus_testsets.read_tico19([origin_of("opus", files)]))
    assert {row[3] for row in rows if row[2] == "fra_Latn"} == {"E"}


def test_tico_holds_a_sentence_out_in_all_languages():
    english = [f"Sentence {number}." for number in range(40)]
    files = tico("sw", english, [f"Sentensi {number}." for number in range(40)])
    rows = list(opus_testsets.read_tico19([origin_of("opus", files)]))
    held_out = {
        code: {row[1] for row in rows if row[0] and row[2] == code}
        for code in ("eng_Latn", "swh_Latn")
    }
    assert held_out["eng_Latn"] == held_out["swh_Latn"]
    assert 10 <= len(held_out["eng_Latn"]) <= 30  # about half


WMT = {
    "datasets/statmt/wmt_newstest/2018/de-en/newstest2018.de": "Alt.\n",
    "datasets/statmt/wmt_newstest/2018/de-en/newstest2018.en": "Old.\n",
    "datasets/statmt/wmt_newstest/2019/de-en/newstest2019.de": "NTREX.\n",
    "datasets/statmt/wmt_newstest/2019/de-en/newstest2019.en": "NTREX.\n",
    "datasets/statmt/wmt22-news-systems/txt/sources/generaltest2022.de-en.src.de": "Neu.\n",
    "datasets/statmt/wmt22-news-systems/txt/references/generaltest2022.de-en.ref.A.en": "New.\n",
}


def test_wmt_holds_out_the_last_years():
    rows = list(opus_testsets.read_wmt([origin_of("opus", WMT)]))
    assert rows == [
        (False, "eng_Latn", "Old.", "deu_Latn", "Alt.", "newstest2018"),
        (True, "eng_Latn", "New.", "deu_Latn", "Neu.", "generaltest2022"),
    ]


def test_wmt_rows_have_a_value_for_each_column():
    (row, *_) = opus_testsets.read_wmt([origin_of("opus", WMT)])
    assert len(row) == 1 + len(SOURCES["wmt_news"].columns)


def test_wmt_leaves_a_test_out_whose_sides_differ_in_length(caplog):
    files = WMT | {"datasets/statmt/wmt_newstest/2018/de-en/newstest2018.de": "Alt.\nMehr.\n"}
    rows = list(opus_testsets.read_wmt([origin_of("opus", files)]))
    assert [row[5] for row in rows] == ["generaltest2022"]
    assert "newstest2018 of English with de is left out" in caplog.text


def test_nusax_has_the_same_id_in_all_languages():
    header = "," + ",".join(nusax.CODES) + "\n"
    words = ",".join(f"w{number}" for number in range(len(nusax.CODES)))
    files = {
        f"datasets/mt/{name}.csv": f"{header}0,{words}\n" for name in ("train", "valid", "test")
    }
    rows = list(nusax.read_nusax([origin_of("nusax", files)]))
    dev_rows = [row for row in rows if row[4] == "dev"]
    assert {row[1] for row in dev_rows} == {"dev:0"}
    assert {row[2] for row in dev_rows} == set(nusax.CODES.values())


CES = """<?xml version="1.0"?><cesDoc><text><body>
<seg id="b.JOH.3.16" type="verse">
  Dieu a tant
  aim\u00e9.
</seg><seg id="b.JOH.11.35" type="verse">Il pleura.</seg><seg id="b.GEN.1.1" type="verse">Au d\u00e9but.</seg>
</body></text></cesDoc>"""
CORPUS = {
    "metadata.csv": "Filename,ISO_639-3\nFrench.xml,fra\nFrench-tok.xml,fra\n",
    "bibles/French.xml": CES,
    "bibles/French-tok.xml": CES,
}
ENGLISH = {
    "json/john.json": json.dumps(
        [
            {"type": "paragraph start"},
            {
                "type": "paragraph text",
                "chapterNumber": 3,
                "verseNumber": 16,
                "value": "God loved ",
            },
            {"type": "line text", "chapterNumber": 3, "verseNumber": 16, "value": "the world."},
        ]
    ),
    "json/1john.json": json.dumps(
        [
            {
                "type": "paragraph text",
                "chapterNumber": 1,
                "verseNumber": 1,
                "value": "From the start.",
            }
        ]
    ),
}


def bible_rows():
    return list(scripture.read_bible([origin_of("corpus", CORPUS), origin_of("english", ENGLISH)]))


def test_verses_have_the_same_id_in_both_layouts():
    rows = bible_rows()
    assert (False, "b.JOH.3.16", "eng_Latn", "God loved the world.", "dev") in rows
    assert (False, "b.JOH.3.16", "fra_Latn", "Dieu a tant aim\u00e9.", "dev") in rows


def test_the_second_half_of_john_is_test():
    assert [row[1] for row in bible_rows() if row[0]] == ["b.JOH.11.35"]


def test_a_tokenized_edition_is_not_read():
    assert sum(row[2] == "fra_Latn" for row in bible_rows()) == 3


def test_a_chapter_of_another_length_is_left_out():
    table = "Book,Chapter,Verse,Text\nJohn,3,16,Gott\nI John,1,1,Anfang\nI John,1,2,Mehr\n"
    editions = {"formats/csv/GerTafel.csv": table}
    rows = scripture.read_more_bibles([origin_of("more", editions), origin_of("english", ENGLISH)])
    assert [row[1] for row in rows] == ["b.JOH.3.16"]


def test_the_quran_has_arabic_beside_each_translation():
    verse = [{"id": 1, "text": "\u0642\u0644", "translation": "Say"}]
    files = {
        "package/dist/chapters/112.json": json.dumps({"verses": verse}),
        "package/dist/chapters/en/112.json": json.dumps({"verses": verse}),
    }
    rows = list(scripture.read_quran([origin_of("quran", files)]))
    assert {(row[1], row[2], row[3]) for row in rows} == {
        ("q.112.1", "arb_Arab", "\u0642\u0644"),
        ("q.112.1", "eng_Latn", "Say"),
    }


PO = """msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

"""


def test_at_most_three_translations_of_a_message():
    entries = "".join(
        f'msgctxt "{number}"\nmsgid "Open"\nmsgstr "Ouvrir {number}"\n\n' for number in range(5)
    )
    files = {"app/locale/fr/LC_MESSAGES/app.po": PO + entries}
    rows = list(translations.read_interfaces([origin_of("App", files)]))
    assert [row[4] for row in rows] == ["Ouvrir 0", "Ouvrir 1", "Ouvrir 2"]
    assert rows[0][5] == "App"


def test_the_language_of_python_documentation_is_in_the_name_of_its_repository():
    entry = 'msgid "The :mod:`io` module reads ``bytes`` quickly."\nmsgstr "Le module :mod:`io` lit vite."\n'
    rows = list(
        translations.read_manuals(
            [origin_of("python/python-docs-fr", {"library/io.po": PO + entry})]
        )
    )
    # Markup is gone; the language comes from `python-docs-fr`.
    assert rows == [
        (
            False,
            "eng_Latn",
            "The io module reads bytes quickly.",
            "fra_Latn",
            "Le module io lit vite.",
            "python/python-docs-fr",
        )
    ]


@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        ("See :ref:`the index <index>` now.", "See the index now."),
        ("See `the page <https://a.b>`_.", "See the page."),
        ("Press <gui>Save</gui> and <key>Esc</key>.", "Press Save and Esc."),
        ("A **bold** word.", "A bold word."),
        ("See linkgit:git-add[1].", "See git-add."),
    ],
)
def test_markup_is_removed(marked, plain):
    assert translations.without_markup(marked) == plain


def test_a_message_of_two_words_is_no_prose():
    rows = translations.read_manuals(
        [origin_of("o/fr", {"fr/fr.po": PO + 'msgid "Two words"\nmsgstr "Deux mots"\n'})]
    )
    assert list(rows) == []


def test_paragraphs_of_help_pages_are_paired_by_their_id():
    page = '<p id="par_id1" class="x">{} <b>{}</b> here.</p><p id="other">No</p>'
    place = "usr/share/libreoffice/help/{}/text/a/1.html"
    english = origin_of(
        "libreoffice-help-en-us", {place.format("en-US"): page.format("Click", "twice")}
    )
    french = origin_of(
        "libreoffice-help-fr", {place.format("fr"): page.format("Cliquez", "deux fois")}
    )
    rows = list(translations.read_documentation([english, french]))
    # Only paragraphs with an id of translation are read.
    assert rows == [
        (
            False,
            "eng_Latn",
            "Click twice here.",
            "fra_Latn",
            "Cliquez deux fois here.",
            "libreoffice-help",
        )
    ]


def base64_of(number: int) -> str:
    """A number as dictd writes it: digits in base 64."""
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    return digits[number] if number < 64 else base64_of(number // 64) + digits[number % 64]


def test_numbers_of_dictd():
    assert dictionaries.number_of("DXI") == 3 * 64**2 + 23 * 64 + 8


def test_entries_of_freedict_become_pairs():
    entry = "ada /\u02c8ada/ <n> [sg=pl]\n\nfee, payment (of money)\nNote: none\n"
    data = b"0" * 70 + entry.encode()
    index = f"00databaseinfo\tA\tB\nada\t{base64_of(70)}\t{base64_of(len(entry.encode()))}\n"
    files = {"d/freedict-swh-eng.index": index, "d/freedict-swh-eng.dict.dz": gzip.compress(data)}
    rows = list(dictionaries.read_freedict([origin_of("dict-freedict-swh-eng", files)]))
    assert rows == [
        (False, "eng_Latn", "fee", "swh_Latn", "ada", "dict-freedict-swh-eng"),
        (False, "eng_Latn", "payment", "swh_Latn", "ada", "dict-freedict-swh-eng"),
    ]


def test_text_is_composed_in_one_line():
    assert one_line("e\u0301te\u0301\n\t\ufeff 1") == "\u00e9t\u00e9 1"


@pytest.mark.parametrize(
    ("text", "script"), [("abc \u0431", "Latn"), ("\u0431\u0432 a", "Cyrl"), ("12", "Latn")]
)
def test_the_script_of_most_letters(text, script):
    assert main_script(text) == script


def test_a_language_in_another_script_has_the_code_of_that_script():
    assert code_of("ukr", "Latn") == "ukr_Latn"
