"""Collecting gettext catalogs: rows, languages and cleaning."""

import gettext as standard
import json
import zipfile
from pathlib import PurePosixPath

import catalogs
import polib
import pyarrow.parquet as pq
import pytest
from catalogs import harvest

from hf_echo.data import load_parallel
from hf_echo.data.gettext_catalogs import (
    clean,
    language_of,
    plural_forms,
    plural_pairs,
    remove_accelerators,
    strip_tags,
)

RUSSIAN = "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);"
PO = r"""# French
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Language: fr\n"
"Plural-Forms: nplurals=2; plural=(n > 1);\n"

msgid "_Open the file %(file_name)s"
msgstr "_Ouvrir le fichier %(file_name)s"

msgctxt "verb"
msgid "Save &As"
msgstr "Enregistrer &sous"

#, fuzzy
msgid "Fuzzy"
msgstr "Flou"

msgid "Untranslated"
msgstr ""

msgid "OK"
msgstr "OK"

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d fichier"
msgstr[1] "%d fichiers"

msgid "Two\n"
"lines"
msgstr "Deux\n"
"lignes"

#~ msgid "Old"
#~ msgstr "Vieux"
"""
FRENCH = {
    "%d file": "%d fichier",
    "%d files": "%d fichiers",
    "Two lines": "Deux lignes",
    "Save As": "Enregistrer sous",
}
FRENCH["Open the file %(file_name)s"] = "Ouvrir le fichier %(file_name)s"


def place(root, locale, domain="demo", package="demo"):
    folder = root / "site-packages" / package / "locale" / locale / "LC_MESSAGES"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{domain}.po"


def rows_of(path):
    return pq.read_table(path).to_pylist()


def test_po(tmp_path):
    place(tmp_path, "fr").write_text(PO, encoding="utf-8")
    counts = harvest([tmp_path], tmp_path / "out.parquet", progress=False)
    rows = load_parallel(tmp_path / "out.parquet")
    assert {r["source"]: r["target"] for r in rows} == FRENCH
    assert counts["rows"] == len(rows) == 5
    assert set(zip(rows["source_lang"], rows["target_lang"])) == {("eng_Latn", "fra_Latn")}
    assert set(rows["provenance"]) == {"primary"}
    assert counts["languages"] == {"fra_Latn": 5}
    assert counts["packages"] == {"demo": 5}
    assert counts["left_out"] == {"fuzzy or obsolete": 2, "untranslated": 1, "equal": 1}
    assert json.loads((tmp_path / "out.counts.json").read_text()) == counts
    kept = harvest(
        [tmp_path / "site-packages"], tmp_path / "all.parquet", keep_equal=True, progress=False
    )
    assert kept["rows"] == 6
    german = PO.replace('"Language: fr', '"X-Source-Language: de\\n"\n"Language: fr')
    place(tmp_path, "fr").write_text(german, encoding="utf-8")
    counts = harvest([tmp_path], tmp_path / "german.parquet", progress=False)
    assert counts["languages"] == {"deu_Latn>fra_Latn": 5}


@pytest.fixture
def both_catalogs(tmp_path):
    """(a .po, the .mo that polib makes of it)"""
    po = place(tmp_path, "fr")
    po.write_text(PO, encoding="utf-8")
    mo = po.with_suffix(".mo")
    polib.pofile(str(po)).save_as_mofile(str(mo))
    return po, mo


def test_a_mo_beside_its_po_adds_nothing(both_catalogs, tmp_path):
    """polib writes no fuzzy entries into a .mo."""
    counts = harvest([tmp_path], tmp_path / "both.parquet", progress=False)
    assert counts["rows"] == 5
    assert counts["left_out"]["repeated"] == 5


def test_a_mo_alone_gives_what_its_po_gives(both_catalogs, tmp_path):
    po, _ = both_catalogs
    po.unlink()
    harvest([tmp_path], tmp_path / "out.parquet", progress=False)
    rows = rows_of(tmp_path / "out.parquet")
    assert {row["source"]: row["target"] for row in rows} == FRENCH


def test_the_standard_library_reads_the_same_plural(both_catalogs):
    _, mo = both_catalogs
    with mo.open("rb") as file:
        translation = standard.GNUTranslations(file)
    assert translation.ngettext("%d file", "%d files", 1) == FRENCH["%d file"]


def test_wheels_and_a_catalog_that_is_none(tmp_path):
    wheel = tmp_path / "django-5.0-py3-none-any.whl"
    texts = {"pt_BR": PO.replace("Language: fr", "Language: pt_BR"), "en": PO, "xx": PO}
    texts |= {
        "de": 'msgid ""\nmsgstr ""\n\nmsgid "a\nmsgstr',
        "es": PO.encode() + b'msgid "\xff"\nmsgstr "x"\n',
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for locale, text in texts.items():
            archive.writestr(f"django/conf/locale/{locale}/LC_MESSAGES/django.po", text)
        archive.writestr("django/conf/locale/it/LC_MESSAGES/django.mo", b"\xde\x12\x04\x95 cut")
    (tmp_path / "broken.zip").write_bytes(b"PK nothing")
    counts = harvest([tmp_path], tmp_path / "out.parquet", progress=False)
    assert counts["languages"] == {"por_Latn": 5}
    assert counts["packages"] == {"django": 5}
    assert counts["left_out"]["catalogs of the source language"] == 1
    assert counts["left_out"]["catalogs of an unknown language"] == 1
    assert counts["left_out"]["catalogs that cannot be read"] == 3
    assert counts["unreadable"].startswith("skipped 4 bad rows")
    with pytest.raises(
        ValueError, match=r"de/LC_MESSAGES/django.po:5: not a gettext catalog \(syntax"
    ) as error:
        harvest([tmp_path], tmp_path / "never.parquet", on_bad="error", progress=False)
    line = PO.count("\n") + 1
    assert f"es/LC_MESSAGES/django.po:{line}: not a gettext catalog (not utf-8)" in str(error.value)
    assert not (tmp_path / "never.parquet").exists()
    assert not list(tmp_path.glob(".*"))


LANGUAGES = {
    ("locale/sr@latin/LC_MESSAGES/tar.mo", ""): "srp_Latn",
    ("locale/sr/LC_MESSAGES/tar.mo", "en"): "srp_Cyrl",  # the folder decides
    ("locale/zh_TW/LC_MESSAGES/tar.mo", ""): "zho_Hant",
    ("locale/de_DE.UTF-8/LC_TIME/coreutils.mo", ""): "deu_Latn",
    ("locale/xyz/LC_MESSAGES/tar.mo", "fr"): None,
    ("po/pt_BR.po", ""): "por_Latn",
    ("po/messages.po", "nb_NO"): "nob_Latn",
    ("translations/messages.ca@valencia.po", ""): "cat_Latn",
    ("translations/demo-uk.po", ""): "ukr_Cyrl",
    ("ja/docs/install.po", ""): "jpn_Jpan",
    ("docs/install.po", ""): None,
    ("po/C.po", ""): None,
    ("po/uz@cyrillic.po", ""): "uzn_Cyrl",
}


def test_language_of_a_catalog():
    found = {
        (path, own): language_of(PurePosixPath(path), {"Language": own}) for path, own in LANGUAGES
    }
    assert found == LANGUAGES


def test_plurals_go_with_the_form_that_the_header_gives():
    forms = plural_forms(RUSSIAN)
    texts = {0: "файл", 1: "файла", 2: "файлов"}
    assert plural_pairs("file", "files", texts, forms) == [
        ("file", "файл"),
        ("files", "файла"),
        ("files", "файлов"),
    ]
    japanese = plural_forms("nplurals=1; plural=0;")
    assert plural_pairs("file", "files", {0: "ファイル"}, japanese) == [
        ("file", "ファイル"),
        ("files", "ファイル"),
    ]
    backwards = plural_forms("nplurals=2; plural=n==1;")  # the form of one is the second
    assert plural_pairs("a", "b", {0: "many", 1: "one"}, backwards) == [("a", "one"), ("b", "many")]
    for wrong in (
        "",
        "nplurals=INTEGER; plural=EXPRESSION;",
        "nplurals=2; plural=n;",
        "nplurals=2; plural=__import__",
    ):
        assert plural_forms(wrong) is None
    assert plural_pairs("file", "files", texts, None) == []
    assert plural_pairs("file", "files", {0: "fichier", 1: "fichiers"}, None)[1] == (
        "files",
        "fichiers",
    )


ACCELERATORS = {
    ("_File", "_Datei"): ("File", "Datei"),
    ("E&xit", "&Beenden"): ("Exit", "Beenden"),
    ("_File", "文件(_F)"): ("File", "文件"),
    ("Right-to-left o_verride", "右→左 Override(_V)"): ("Right-to-left override", "右→左 Override"),
    ("Save &As...", "Speichern unter..."): ("Save As...", "Speichern unter..."),
}
NO_ACCELERATORS = [
    ("Set LC_ALL first", "Erst LC_ALL setzen"),
    ("the snap_edge property", "la propriété snap_edge"),
]
NO_ACCELERATORS += [
    ("%(file_name)s is gone", "%(file_name)s est parti"),
    ("{user_name} &amp; co", "{user_name} &amp; Co"),
]
NO_ACCELERATORS += [
    ("R&D", "F&E"),
    ("Salt & Pepper", "Salz & Pfeffer"),
    ("call __init__", "appeler __init__"),
]
NO_ACCELERATORS.append(("roles starting with `pg_x'", "rôles en `pg_x'"))


def test_accelerators():
    expected = ACCELERATORS | {pair: pair for pair in NO_ACCELERATORS}
    assert {pair: remove_accelerators(*pair) for pair in expected} == expected


def test_html_goes_on_demand():
    source = 'Click <a href="x">here</a>,<br/>or open <filename> &amp; wait'
    assert strip_tags(source) == "Click here, or open <filename> & wait"
    assert clean(source, "<b>Ici</b>", strip_html=True) == (
        "Click here, or open <filename> & wait",
        "Ici",
    )
    assert clean(source, "<b>Ici</b>")[1] == "<b>Ici</b>"
    assert clean("<br>", "x", strip_html=True) is None


def test_command(tmp_path, run_main, main_refused):
    place(tmp_path, "fr").write_text(PO, encoding="utf-8")
    code, out, _ = run_main(catalogs.main, tmp_path, "--out", tmp_path / "new" / "out.parquet")
    assert code == 0
    assert json.loads(out)["rows"] == len(rows_of(tmp_path / "new" / "out.parquet")) == 5
    main_refused(
        "no file or folder", catalogs.main, tmp_path / "none", "--out", tmp_path / "x.parquet"
    )
    (tmp_path / "empty").mkdir()
    main_refused(
        "no .po or .mo file under",
        catalogs.main,
        tmp_path / "empty",
        "--out",
        tmp_path / "x.parquet",
    )
