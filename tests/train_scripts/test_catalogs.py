"""Collecting gettext catalogs: rows, languages and cleaning."""

import gettext as standard
import json
import zipfile
from pathlib import PurePosixPath

import catalogs
import polib
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
    "Open the file %(file_name)s": "Ouvrir le fichier %(file_name)s",
}
FRENCH["Open the file %(file_name)s"] = "Ouvrir le fichier %(file_name)s"


def place(root, locale, domain="demo", package="demo"):
    folder = root / "site-packages" / package / "locale" / locale / "LC_MESSAGES"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{domain}.po"


def translations(path) -> dict[str, str]:
    rows = load_parallel(path)
    return dict(zip(rows["source"], rows["target"], strict=True))


@pytest.fixture
def po(tmp_path):
    file = place(tmp_path, "fr")
    file.write_text(PO, encoding="utf-8")
    return file


def harvested(tmp_path, **options):
    """The counts of a harvest into out.parquet."""
    return harvest([tmp_path], tmp_path / "out.parquet", progress=False, **options)


def test_a_catalog_becomes_pairs(po, tmp_path):
    harvested(tmp_path)

    rows = load_parallel(tmp_path / "out.parquet")
    assert translations(tmp_path / "out.parquet") == FRENCH
    assert set(rows["source_lang"]) == {"eng_Latn"}
    assert set(rows["target_lang"]) == {"fra_Latn"}
    assert set(rows["provenance"]) == {"primary"}


def test_rows_of_catalogs_are_counted(po, tmp_path):
    counts = harvested(tmp_path)

    assert counts["rows"] == 5
    assert counts["languages"] == {"fra_Latn": 5}
    assert counts["packages"] == {"demo": 5}
    assert counts["left_out"] == {"fuzzy or obsolete": 2, "untranslated": 1, "equal": 1}
    assert json.loads((tmp_path / "out.counts.json").read_text()) == counts


def test_equal_texts_stay_on_request(po, tmp_path):
    counts = harvested(tmp_path, keep_equal=True)

    assert counts["rows"] == 6


def test_a_catalog_can_name_its_source_language(po, tmp_path):
    german = PO.replace('"Language: fr', '"X-Source-Language: de\\n"\n"Language: fr')
    po.write_text(german, encoding="utf-8")

    counts = harvested(tmp_path)

    assert counts["languages"] == {"deu_Latn>fra_Latn": 5}


@pytest.fixture
def mo(po):
    """What polib makes of the .po beside it; it writes no fuzzy entries."""
    file = po.with_suffix(".mo")
    polib.pofile(str(po)).save_as_mofile(str(file))
    return file


def test_a_mo_beside_its_po_adds_nothing(mo, tmp_path):
    counts = harvested(tmp_path)

    assert counts["rows"] == 5
    assert counts["left_out"]["repeated"] == 5


def test_a_mo_alone_gives_what_its_po_gives(mo, po, tmp_path):
    po.unlink()

    harvested(tmp_path)

    assert translations(tmp_path / "out.parquet") == FRENCH


def test_the_standard_library_reads_the_same_plural(mo):
    with mo.open("rb") as file:
        translation = standard.GNUTranslations(file)

    assert translation.ngettext("%d file", "%d files", 1) == FRENCH["%d file"]


@pytest.fixture
def wheel(tmp_path):
    """Catalogs in Portuguese, English and an unknown language, and three that are none;
    beside it a broken archive."""
    texts = {
        "pt_BR/LC_MESSAGES/django.po": PO.replace("Language: fr", "Language: pt_BR"),
        "en/LC_MESSAGES/django.po": PO,
        "xx/LC_MESSAGES/django.po": PO,
        "de/LC_MESSAGES/django.po": 'msgid ""\nmsgstr ""\n\nmsgid "a\nmsgstr',
        "es/LC_MESSAGES/django.po": PO.encode() + b'msgid "\xff"\nmsgstr "x"\n',
        "it/LC_MESSAGES/django.mo": b"\xde\x12\x04\x95 cut",
    }
    with zipfile.ZipFile(tmp_path / "django-5.0-py3-none-any.whl", "w") as archive:
        for name, text in texts.items():
            archive.writestr(f"django/conf/locale/{name}", text)
    (tmp_path / "broken.zip").write_bytes(b"PK nothing")


@pytest.mark.usefixtures("wheel")
def test_catalogs_of_a_wheel_are_counted(tmp_path):
    counts = harvested(tmp_path)

    assert counts["languages"] == {"por_Latn": 5}
    assert counts["packages"] == {"django": 5}
    assert counts["left_out"]["catalogs of the source language"] == 1
    assert counts["left_out"]["catalogs of an unknown language"] == 1
    assert counts["left_out"]["catalogs that cannot be read"] == 3
    assert counts["unreadable"].startswith("skipped 4 bad rows")


@pytest.mark.usefixtures("wheel")
def test_catalogs_that_are_none_are_named(tmp_path):
    with pytest.raises(ValueError) as error:
        harvested(tmp_path, on_bad="error")
    message = str(error.value)
    assert "de/LC_MESSAGES/django.po:5: not a gettext catalog (syntax" in message
    line = PO.count("\n") + 1
    assert f"es/LC_MESSAGES/django.po:{line}: not a gettext catalog (not utf-8)" in message
    assert not (tmp_path / "out.parquet").exists()
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    "path, header, lang",
    [
        ("locale/sr@latin/LC_MESSAGES/tar.mo", "", "srp_Latn"),
        ("locale/sr/LC_MESSAGES/tar.mo", "en", "srp_Cyrl"),  # the folder decides
        ("locale/zh_TW/LC_MESSAGES/tar.mo", "", "zho_Hant"),
        ("locale/de_DE.UTF-8/LC_TIME/coreutils.mo", "", "deu_Latn"),
        ("locale/xyz/LC_MESSAGES/tar.mo", "fr", None),
        ("po/pt_BR.po", "", "por_Latn"),
        ("po/messages.po", "nb_NO", "nob_Latn"),
        ("translations/messages.ca@valencia.po", "", "cat_Latn"),
        ("translations/demo-uk.po", "", "ukr_Cyrl"),
        ("ja/docs/install.po", "", "jpn_Jpan"),
        ("docs/install.po", "", None),
        ("po/C.po", "", None),
        ("po/uz@cyrillic.po", "", "uzn_Cyrl"),
    ],
)
def test_language_of_a_catalog(path, header, lang):
    assert language_of(PurePosixPath(path), {"Language": header}) == lang


FILES = {0: "файл", 1: "файла", 2: "файлов"}


def test_forms_of_russian():
    pairs = plural_pairs("file", "files", FILES, plural_forms(RUSSIAN))

    assert pairs == [("file", "файл"), ("files", "файла"), ("files", "файлов")]


def test_one_form_stands_for_both_numbers():
    japanese = plural_forms("nplurals=1; plural=0;")

    pairs = plural_pairs("file", "files", {0: "ファイル"}, japanese)

    assert pairs == [("file", "ファイル"), ("files", "ファイル")]


def test_the_form_of_one_can_be_the_second():
    backwards = plural_forms("nplurals=2; plural=n==1;")

    pairs = plural_pairs("a", "b", {0: "many", 1: "one"}, backwards)

    assert pairs == [("a", "one"), ("b", "many")]


@pytest.mark.parametrize(
    "header",
    [
        "",
        "nplurals=INTEGER; plural=EXPRESSION;",
        "nplurals=2; plural=n;",
        "nplurals=2; plural=__import__",
    ],
)
def test_a_header_without_forms(header):
    assert plural_forms(header) is None


def test_two_texts_need_no_header():
    pairs = plural_pairs("file", "files", {0: "fichier", 1: "fichiers"}, None)

    assert pairs[1] == ("files", "fichiers")


def test_three_texts_need_a_header():
    assert plural_pairs("file", "files", FILES, None) == []


@pytest.mark.parametrize(
    "pair, expected",
    [
        (("_File", "_Datei"), ("File", "Datei")),
        (("E&xit", "&Beenden"), ("Exit", "Beenden")),
        (("_File", "文件(_F)"), ("File", "文件")),
        (("o_verride", "右→左 Override(_V)"), ("override", "右→左 Override")),
        (("Save &As...", "Speichern unter..."), ("Save As...", "Speichern unter...")),
    ],
)
def test_accelerators_are_removed(pair, expected):
    assert remove_accelerators(*pair) == expected


@pytest.mark.parametrize(
    "pair",
    [
        ("Set LC_ALL first", "Erst LC_ALL setzen"),
        ("the snap_edge property", "la propriété snap_edge"),
        ("%(file_name)s is gone", "%(file_name)s est parti"),
        ("{user_name} &amp; co", "{user_name} &amp; Co"),
        ("R&D", "F&E"),
        ("Salt & Pepper", "Salz & Pfeffer"),
        ("call __init__", "appeler __init__"),
        ("roles starting with `pg_x'", "rôles en `pg_x'"),
    ],
)
def test_other_signs_are_no_accelerators(pair):
    assert remove_accelerators(*pair) == pair


HTML = 'Click <a href="x">here</a>,<br/>or open <filename> &amp; wait'


def test_tags_go():
    assert strip_tags(HTML) == "Click here, or open <filename> & wait"


@pytest.mark.parametrize("strip_html, target", [(True, "Ici"), (False, "<b>Ici</b>")])
def test_html_goes_on_demand(strip_html, target):
    assert clean(HTML, "<b>Ici</b>", strip_html=strip_html)[1] == target


def test_a_text_of_tags_alone_is_left_out():
    assert clean("<br>", "x", strip_html=True) is None


def test_the_command_prints_the_counts(po, tmp_path, run_main):
    out = tmp_path / "new" / "out.parquet"

    code, printed, _ = run_main(catalogs.main, tmp_path, "--out", out)

    assert code == 0
    assert json.loads(printed)["rows"] == 5
    assert translations(out) == FRENCH


def test_the_command_names_a_missing_folder(tmp_path, main_refused):
    words = [tmp_path / "none", "--out", tmp_path / "x.parquet"]
    main_refused("no file or folder", catalogs.main, *words)


def test_the_command_names_a_folder_without_catalogs(tmp_path, main_refused):
    words = [tmp_path, "--out", tmp_path / "x.parquet"]
    main_refused("no .po or .mo file under", catalogs.main, *words)
