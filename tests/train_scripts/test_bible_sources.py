"""Readers of each Bible format: text, markup, and errors for broken files."""

import pytest
from bible_sources import find_sources, parse_reference, place_of, read_source, split_of

from ..refusals import refusals, refuses

USFM = r"""\id GEN - A test
\h Genesis
\mt1 Genesis
\ip An introduction.
\c 1
\s1 The beginning
\r (John 1.1)
\p
\v 1 In the beginning\f + \fr 1.1 \ft Or \fq when\f* \w God|strong="H430"\w* made the \nd Lord\nd*’s heavens.
\v 2-3 And the earth \add was\add* void.
\v 4 And God said,
\q1 “Let there be light,”\x - \xo 1.4 \xt Jer 4.23\x*
\s1 A heading inside the verse
\q2 and there was~light.
\v 5a First half
\p
\v 5b and \va 6\va* second. \fig A picture|src="a.jpg" size="col" ref="1.1"\fig*
\v 6
\c 2
\d A psalm of nobody
\p
\v 1 \wj He said \+nd Go\+nd*\wj* // \bogus on.
"""
CES = """<?xml version="1.0" encoding="utf-8"?>
<cesDoc version="4"><cesHeader><profileDesc><langUsage><language id="gv" iso639="glv">Manx</language></langUsage>
</profileDesc></cesHeader><text><body id="Bible"><div id="b.JOH" type="book"><div id="b.JOH.1" type="chapter">
<seg id="b.JOH.1.1" type="verse">
    Ayns y toshiaght   va’n Goo &amp; Jee,
</seg>
<seg id="b.JOH.1.2" type="verse"></seg>
</div></div></body></text></cesDoc>
"""


def read(path, **options):
    """(source, verses, bad rows) of one edition."""
    (source,) = find_sources([path], **options)
    bad_rows = []
    verses = read_source(source, lambda *row: bad_rows.append(row))
    return source, verses, bad_rows


@pytest.fixture
def usfm(tmp_path):
    path = tmp_path / "eng-test.usfm"
    path.write_text("\ufeff" + USFM, encoding="utf-8")
    return read(path)


def test_the_name_of_a_usfm_file_says_what_it_is(usfm):
    source, _, _ = usfm

    assert (source.lang, source.name, source.kind) == ("eng", "test", "usfm")


def test_usfm_keeps_nothing_but_the_text(usfm):
    _, verses, bad_rows = usfm

    assert verses.texts == {
        "GEN 1:1": "In the beginning God made the Lord’s heavens.",
        "GEN 1:5": "First half and second.",
        "GEN 1:4": "And God said, “Let there be light,” and there was light.",
        "GEN 2:1": "He said Go on.",
    }
    assert not bad_rows


def test_usfm_tells_merged_verses_from_empty_ones(usfm):
    _, verses, _ = usfm

    text = "And the earth was void."
    assert verses.merged == {"GEN 1:2": text, "GEN 1:3": text}
    assert verses.empty == ["GEN 1:6"]


@pytest.fixture
def usfm_folder(tmp_path):
    """Matthew, and Luke with a number that is none and a note that is not closed."""
    folder = tmp_path / "fra-LSG"
    folder.mkdir()
    (folder / "41MAT.SFM").write_text("\\id MAT\n\\c 1\n\\p\n\\v 1 Un", encoding="utf-8")
    luke = "\\id LUK\n\\c 1\n\\p\n\\v 1 Deux\n\\v x Trois\n\\v 3 Un\\f + \\ft a note\n\\v 4 Quatre"
    (folder / "43LUK.SFM").write_text(luke, encoding="utf-8")
    return folder


def test_usfm_books_of_a_folder_are_one_edition(usfm_folder):
    source, verses, _ = read(usfm_folder)

    assert (source.lang, source.name) == ("fra", "LSG")
    assert verses.texts == {
        "MAT 1:1": "Un",
        "LUK 1:1": "Deux",
        "LUK 1:3": "Un",
        "LUK 1:4": "Quatre",
    }


def test_a_language_can_be_given(usfm_folder):
    source, _, _ = read(f"deu={usfm_folder}")

    assert source.lang == "deu"


def test_a_bad_verse_of_usfm_is_named(usfm_folder):
    _, _, ((file, line, reason),) = read(usfm_folder)

    assert file.endswith("43LUK.SFM")
    assert line == 5
    assert "not a verse reference" in reason


def test_ces(tmp_path):
    """The header says glv: the builder asks it."""
    path = tmp_path / "Manx-PART.xml"
    path.write_text(CES, encoding="utf-8")

    source, verses, bad_rows = read(path)

    assert (source.lang, source.kind) == (None, "ces")
    assert verses.texts == {"JHN 1:1": "Ayns y toshiaght va’n Goo & Jee,"}
    assert verses.empty == ["JHN 1:2"]
    assert not bad_rows


@pytest.fixture
def vref_text(tmp_path):
    """A text of five lines, whose verses stand in another file; two verses are one."""
    (tmp_path / "metadata").mkdir()
    (tmp_path / "corpus").mkdir()
    references = "GEN 1:1\nGEN 1:2\nGEN 1:3\nGEN 1:4\nGEN 2:1\n"
    (tmp_path / "metadata/vref.txt").write_text(references, encoding="utf-8")
    path = tmp_path / "corpus" / "acu-acuNT.txt"
    path.write_text("One\nTwo and three\n<range>\n\nFive\n", encoding="utf-8")
    return path


def test_vref_text_with_a_range(vref_text):
    source, verses, _ = read(vref_text)

    assert (source.lang, source.name) == ("acu", "acuNT")
    assert verses.texts == {"GEN 1:1": "One", "GEN 2:1": "Five"}
    assert list(verses.merged) == ["GEN 1:2", "GEN 1:3"]
    assert verses.empty == ["GEN 1:4"]


def test_vref_text_with_too_few_lines_is_refused(vref_text):
    vref_text.write_text("One\nTwo\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"acuNT.txt:3: 2 lines, but .*vref.txt has 5"):
        read(vref_text)


@pytest.fixture
def bible_tsv(tmp_path):
    """Two good verses, a verse again, and an unknown book."""
    path = tmp_path / "fra_Latn.tsv"
    rows = ["verse_id\ttext", "b.JOH.3.16\tCar\u00a0 Dieu", "JHN 3:17\tDieu", "JHN 3:17\tencore"]
    path.write_text("\n".join([*rows, "XYZ 1:1\tx"]) + "\n")
    return read(path)


def test_tsv_with_either_form_of_reference(bible_tsv):
    source, verses, _ = bible_tsv

    assert source.lang == "fra_Latn"
    assert verses.texts == {"JHN 3:16": "Car Dieu", "JHN 3:17": "Dieu"}


def test_bad_rows_of_tsv_are_named(bible_tsv):
    _, _, bad_rows = bible_tsv

    assert [(line, reason) for _, line, reason in bad_rows] == [
        (4, "a second text for JHN 3:17"),
        (5, "unknown book 'XYZ'; use the codes of USFM (GEN ... REV)"),
    ]


def read_broken(name, data, tmp_path):
    (tmp_path / name).write_bytes(data)
    read(tmp_path / name)


test_a_broken_file_is_named_with_its_line = refusals(
    ("eng-a.tsv", b"GEN 1:1\tx\nGEN 1:2\t\xff\n", r"eng-a.tsv:2: not UTF-8"),
    ("eng-a.tsv", b"GEN 1:1\tx\nGEN 1:2 no tab\n", r"eng-a.tsv:2: no tab"),
    ("eng-a.usfm", b"hello\n", r"eng-a.usfm:1: not USFM; a book must begin with \\id"),
    ("eng-a.xml", b"<cesDoc>\n<text>\n</cesDoc>", r"eng-a.xml:3: not XML (mismatched tag)"),
    ("eng-a.xml", CES.encode()[:-60], r"eng-a.xml:7: not XML (unclosed token)"),
    ("eng-a.txt", b"x\n", "give it (--vref)", FileNotFoundError),
    call=read_broken,
)


def test_a_missing_path_is_named(tmp_path):
    refuses("no file or folder", find_sources, [tmp_path / "none"], error=FileNotFoundError)


def test_a_folder_without_editions_is_named(tmp_path):
    refuses("holds no edition of the Bible", find_sources, [tmp_path], error=FileNotFoundError)


def test_two_editions_of_one_name_are_refused(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "fra-LSG.tsv").write_text("GEN 1:1\tx\n")
    refuses("are both called 'LSG'", find_sources, [tmp_path / "a", tmp_path / "b"])


@pytest.mark.parametrize(
    "text, verses, is_part",
    [
        ("b.1JO.2.3", ["1JN 2:3"], False),
        ("PSA 3:16b", ["PSA 3:16"], True),
        ("GEN 2:4-6", ["GEN 2:4", "GEN 2:5", "GEN 2:6"], False),
    ],
)
def test_references_of_each_form(text, verses, is_part):
    assert parse_reference(text) == (verses, is_part)


@pytest.mark.parametrize("text", ["GEN 2:6-4", "GEN 2", "b.GEN", "GEN 1:1-300"])
def test_what_is_no_reference(text):
    with pytest.raises(ValueError):
        parse_reference(text)


@pytest.mark.parametrize(
    "verse, split",
    [("JHN 10:42", "dev"), ("JHN 11:1", "test"), ("1JN 1:1", "train"), ("GEN 1:1", "train")],
)
def test_splits_are_those_of_the_paper(verse, split):
    assert split_of(verse) == split


def test_verses_are_in_the_order_of_a_printed_bible():
    verses = ["GEN 2:9", "GEN 2:10", "GEN 10:2", "MAT 1:1"]
    assert sorted(reversed(verses), key=place_of) == verses
