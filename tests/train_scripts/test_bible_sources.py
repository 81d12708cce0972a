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
    (source,) = find_sources([path], **options)
    told = []
    verses = read_source(source, lambda *row: told.append(row))
    return source, verses, told


def test_usfm_keeps_nothing_but_the_text(tmp_path):
    path = tmp_path / "eng-test.usfm"
    path.write_text("\ufeff" + USFM, encoding="utf-8")
    source, verses, told = read(path)
    assert (source.lang, source.name, source.kind) == ("eng", "test", "usfm")
    texts = {
        "GEN 1:1": "In the beginning God made the Lord’s heavens.",
        "GEN 1:5": "First half and second.",
    }
    texts |= {
        "GEN 1:4": "And God said, “Let there be light,” and there was light.",
        "GEN 2:1": "He said Go on.",
    }
    assert verses.texts == texts
    assert verses.merged == dict.fromkeys(["GEN 1:2", "GEN 1:3"], "And the earth was void.")
    assert verses.empty == ["GEN 1:6"]
    assert not told


def test_usfm_books_of_a_folder_are_one_edition(tmp_path):
    folder = tmp_path / "fra-LSG"
    folder.mkdir()
    (folder / "41MAT.SFM").write_text("\\id MAT\n\\c 1\n\\p\n\\v 1 Un", encoding="utf-8")
    luke = "\\id LUK\n\\c 1\n\\p\n\\v 1 Deux\n\\v x Trois\n\\v 3 Un\\f + \\ft a note\n\\v 4 Quatre"  # not closed
    (folder / "43LUK.SFM").write_text(luke, encoding="utf-8")
    source, verses, told = read(f"deu={folder}")
    assert (source.lang, source.name) == ("deu", "LSG")
    assert find_sources([folder])[0].lang == "fra"
    assert verses.texts == {
        "MAT 1:1": "Un",
        "LUK 1:1": "Deux",
        "LUK 1:3": "Un",
        "LUK 1:4": "Quatre",
    }
    assert told[0][0].endswith("43LUK.SFM")
    assert told[0][1] == 5
    assert "not a verse reference" in told[0][2]


def test_ces(tmp_path):
    path = tmp_path / "Manx-PART.xml"
    path.write_text(CES, encoding="utf-8")
    source, verses, told = read(path)
    # the header says glv: the builder asks it
    assert source.lang is None
    assert source.kind == "ces"
    assert verses.texts == {"JHN 1:1": "Ayns y toshiaght va’n Goo & Jee,"}
    assert verses.empty == ["JHN 1:2"]
    assert not told


def test_vref_text_with_a_range(tmp_path):
    (tmp_path / "metadata").mkdir()
    (tmp_path / "corpus").mkdir()
    (tmp_path / "metadata/vref.txt").write_text(
        "GEN 1:1\nGEN 1:2\nGEN 1:3\nGEN 1:4\nGEN 2:1\n", encoding="utf-8"
    )
    path = tmp_path / "corpus" / "acu-acuNT.txt"
    path.write_text("One\nTwo and three\n<range>\n\nFive\n", encoding="utf-8")
    source, verses, _ = read(path)
    assert (source.lang, source.name) == ("acu", "acuNT")
    assert verses.texts == {"GEN 1:1": "One", "GEN 2:1": "Five"}
    assert list(verses.merged) == ["GEN 1:2", "GEN 1:3"]
    assert verses.empty == ["GEN 1:4"]
    path.write_text("One\nTwo\n", encoding="utf-8")
    refuses(r"acuNT.txt:3: 2 lines, but .*vref.txt has 5", read, path)


def test_tsv_with_either_form_of_reference(tmp_path):
    path = tmp_path / "fra_Latn.tsv"
    path.write_text(
        "verse_id\ttext\nb.JOH.3.16\tCar\u00a0 Dieu\nJHN 3:17\tDieu\nJHN 3:17\tencore\nXYZ 1:1\tx\n"
    )
    source, verses, told = read(path)
    assert source.lang == "fra_Latn"
    assert verses.texts == {"JHN 3:16": "Car Dieu", "JHN 3:17": "Dieu"}
    unknown = "unknown book 'XYZ'; use the codes of USFM (GEN ... REV)"
    assert [row[1:] for row in told] == [(4, "a second text for JHN 3:17"), (5, unknown)]


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
