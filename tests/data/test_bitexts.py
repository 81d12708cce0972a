"""Languages of TMX, XLIFF, Moses pairs and alignments of OPUS:
which texts are the source, and which the target."""

import pytest

from hf_echo.data import load_parallel
from hf_echo.data.bitexts import Sides, plain_text
from hf_echo.data.texts import read_texts
from hf_echo.languages import language_fit, tagged_code

from ..refusals import refuses


@pytest.mark.parametrize(
    ("names", "language", "chosen"),
    [
        (["pt-BR", "pt-PT", "pt"], "pt", "pt"),
        (
            ["pt-BR", "pt-PT"],
            "pt",
            "pt-PT",
        ),  # por_Latn is European in the table, por_Latn_BR is a code of its own
        (["pt-BR", "pt-PT"], "pt-BR", "pt-BR"),
        (["pt-BR", "pt"], "pt-PT", "pt"),
        (["pt-BR"], "pt-PT", None),
        (["EN_us", "en"], "eng", "en"),
        (["zh", "zh-TW"], "zh-Hant", "zh-TW"),
        (["zh-Hans", "zh-CN"], "zho_Hant", None),
        (["sr-Latn-RS"], "sr-Cyrl", None),
        (["es-419", "es-ES"], "es-419", "es-419"),
        (["x-none", "*all*", ""], "fr", None),
    ],
)
def test_the_most_exact_name_fits_best(names, language, chosen):
    """As the lookup of RFC 4647, 3.4."""
    code = tagged_code(language)

    ranks = {name: language_fit(name, code) for name in names}

    fitting = [name for name in names if ranks[name] is not None]
    assert min(fitting, key=ranks.get, default=None) == chosen


def tmx(path, *units):
    """A file of units, each a list of (language, text)."""
    lines = ['<tmx version="1.4"><header srclang="en"/><body>']
    for unit in units:
        variants = "".join(f'<tuv xml:lang="{lang}"><seg>{text}</seg></tuv>' for lang, text in unit)
        lines.append(f"<tu>{variants}</tu>")
    path.write_text("\n".join([*lines, "</body></tmx>"]))
    return path


@pytest.fixture
def spellings(tmp_path):
    """Ten units that alternate en-US and en-GB; the last has no French."""
    units = []
    for number in range(10):
        english = ("en-US" if number % 2 else "EN_gb", f"one {number}")
        units.append([english, ("fr", f"un {number}")] if number < 9 else [english])
    return tmx(tmp_path / "a.tmx", *units)


def test_each_spelling_of_a_language_counts(spellings):
    rows = load_parallel(spellings, source_lang="en", target_lang="fr")

    assert rows["source"][:] == [f"one {number}" for number in range(9)]


def test_units_without_the_target_are_counted(spellings, caplog):
    load_parallel(spellings, source_lang="en", target_lang="fr")

    assert "a.tmx: left out 1 (units without text in fra_Latn: 1)" in caplog.text


def test_the_count_is_said_again_from_the_cache(spellings, caplog):
    load_parallel(spellings, source_lang="en", target_lang="fr")
    caplog.clear()

    load_parallel(spellings, source_lang="en", target_lang="fr")

    assert "left out 1 (units without text in fra_Latn: 1)" in caplog.text


def test_a_region_takes_its_own_texts(spellings):
    rows = load_parallel(spellings, source_lang="en-GB", target_lang="fr")

    assert rows["source"][:] == [f"one {number}" for number in range(0, 9, 2)]


def test_a_file_without_a_pair_says_what_it_holds(spellings):
    message = r"a.tmx: no good row; left out 10 \(units without text in eng_Latn_US: 5; .*eng_Latn_GB: 5\)"
    refuses(message, load_parallel, spellings, source_lang="en-GB", target_lang="en-US")


@pytest.fixture
def variants(tmp_path):
    return tmx(
        tmp_path / "b.tmx", [("pt-BR", "ônibus"), ("pt-PT", "autocarro"), ("pt-PT", "camioneta")]
    )


@pytest.mark.parametrize(
    "langs", [("pt", "pt-BR"), ("pt-PT", "pt-BR"), ("por_Latn", "por_Latn_BR")]
)
def test_variants_are_the_two_sides(variants, langs):
    rows = load_parallel(variants, source_lang=langs[0], target_lang=langs[1])

    assert set(rows["source"]) == {"autocarro", "camioneta"}
    assert set(rows["target"]) == {"ônibus"}


def test_two_texts_of_one_language_are_two_rows(variants):
    assert read_texts(variants, lang=tagged_code("pt-PT")) == ["autocarro", "camioneta"]


def test_a_less_exact_variant_is_counted(variants, caplog):
    assert read_texts(variants, lang="por_Latn") == ["autocarro", "camioneta"]

    assert "left out 1 (texts in pt-BR beside a more exact variant: 1)" in caplog.text


def test_one_text_is_never_both_sides(variants, tmp_path):
    refuses(
        "source and target are both por_Latn",
        load_parallel,
        variants,
        source_lang="pt",
        target_lang="por",
    )
    path = tmx(tmp_path / "c.tmx", [("pt", "um"), ("fr", "un")])
    refuses(
        "no text of its own in por_Latn_BR",
        load_parallel,
        path,
        source_lang="pt",
        target_lang="pt-BR",
    )


@pytest.mark.parametrize(
    ("langs", "sources"), [(("pt", "pt-BR"), ["autocarro"]), (("pt-BR", "pt"), ["ônibus"])]
)
def test_a_moses_pair_of_variants(tmp_path, langs, sources):
    (tmp_path / "x.pt_BR-pt_PT.pt_BR").write_text("ônibus\n")
    (tmp_path / "x.pt_BR-pt_PT.pt_PT").write_text("autocarro\n")

    rows = load_parallel(tmp_path / "x.pt_BR-pt_PT", source_lang=langs[0], target_lang=langs[1])

    assert rows["source"][:] == sources


def test_languages_that_are_not_given_must_be_two():
    refuses(
        "f has texts in fr, en, de: give source_lang", Sides, "f", ["fr", "en", "de"], (None, None)
    )


@pytest.mark.parametrize(
    ("names", "codes"),
    [
        (["fr", "en-US", "en-GB"], ("fra_Latn", "eng_Latn")),
        (["pt-BR", "pt"], ("por_Latn_BR", "por_Latn")),
        (["fr", "pt-BR"], ("fra_Latn", "por_Latn_BR")),
    ],
)
def test_two_languages_of_a_file(names, codes):
    assert Sides("f", names, (None, None)).codes == codes


SEGMENTS = {
    "a <bpt i='1'>&lt;b></bpt>bold<ept i='1'>&lt;/b></ept> word": "a bold word",
    "press <ph>{0}</ph> now": "press  now",
    "one<ph>&lt;br/></ph>two": "one two",
    "a <hi type='x'>marked</hi> word": "a marked word",
    "link<bpt i='1'>&lt;a title='<sub>a tip</sub>'></bpt> here": "link here",
    "code<it pos='begin'>&lt;i></it><ut>x</ut>!": "code!",
    "<g id='1'>bold</g><x id='2'/> and <mrk mtype='term'>term</mrk>": "bold and term",
}


@pytest.mark.parametrize("segment", SEGMENTS)
def test_inline_codes_are_no_text(segment):
    from lxml import etree

    assert plain_text(etree.fromstring(f"<seg>{segment}</seg>")) == SEGMENTS[segment]


XLIFF = {
    "1.2": """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file source-language="en" target-language="fr-CH"><body><group><trans-unit id="1"><source>a <g id="1">cat</g></source>
<target>un <g id="1">chat</g></target><alt-trans><target>une chatte</target></alt-trans></trans-unit></group>
<trans-unit id="2"><source>new</source><target/></trans-unit></body></file></xliff>""",
    "2.0": """<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en" trgLang="fr-CH"><file>
<unit id="1"><segment><source>a <pc id="1">cat</pc></source><target>un <pc id="1">chat</pc></target></segment></unit>
<unit id="2"><segment><source>new</source></segment></unit></file></xliff>""",
}


@pytest.mark.parametrize("version", XLIFF)
def test_xliff(tmp_path, caplog, version):
    path = tmp_path / "a.xlf"
    path.write_text(XLIFF[version])

    rows = load_parallel(path, source_lang="fr", target_lang="en")

    assert (rows["source"][:], rows["target"][:]) == (["un chat"], ["a cat"])
    assert "left out 1 (units without text in fra_Latn: 1)" in caplog.text


@pytest.fixture
def opus(tmp_path):
    """An alignment with documents as OPUS lays them out:
    plain sentences, and sentences of words."""
    (tmp_path / "en").mkdir()
    (tmp_path / "fr").mkdir()
    (tmp_path / "en" / "1.xml").write_text(
        "<text><s id='1'><w>A</w> <w>cat</w></s><s id='2'>Two dogs.</s></text>"
    )
    (tmp_path / "fr" / "1.xml").write_text(
        "<text><s id='1'>Un chat</s><s id='2'>Deux</s><s id='3'>chiens.</s></text>"
    )
    links = '<link xtargets="1;1"/><link xtargets="2;2 3"/><link xtargets="1;"/>'
    group = f'<linkGrp fromDoc="en/1.xml.gz" toDoc="fr/1.xml.gz">{links}</linkGrp>'
    path = tmp_path / "en-fr.xml"
    path.write_text(f'<cesAlign version="1.0">{group}</cesAlign>')
    return path


def test_an_alignment_of_opus(opus, caplog):
    rows = load_parallel(opus, source_lang="fr", target_lang="en")

    assert rows["source"][:] == ["Un chat", "Deux chiens."]
    assert rows["target"][:] == ["A cat", "Two dogs."]
    assert "left out 1 (units without text in fra_Latn: 1)" in caplog.text


def test_the_sentences_of_a_document_of_opus(opus):
    assert read_texts(opus.parent / "fr" / "1.xml") == ["Un chat", "Deux", "chiens."]


def test_a_missing_document_is_named(opus):
    (opus.parent / "fr" / "1.xml").unlink()

    refuses("no document fr/1.xml.gz beside it", load_parallel, opus, error=FileNotFoundError)


def test_other_xml_is_refused(tmp_path):
    (tmp_path / "a.xml").write_text("<html><body>text</body></html>")

    refuses("a.xml: XML, but not a sentence alignment of OPUS", load_parallel, tmp_path / "a.xml")
    refuses("a.xml: XML without sentences", read_texts, tmp_path / "a.xml")
