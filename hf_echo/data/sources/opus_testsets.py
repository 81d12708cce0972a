"""Test sets of Helsinki-NLP/OPUS-MT-testsets: two files a pair of languages, line by line."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence

from ...languages import ENGLISH, lookup
from .origins import Files
from .rows import PAIR_COLUMNS, Rows, code_of, draw_of, is_of_flores, one_line

logger = logging.getLogger(__name__)
WMT_COLUMNS = (*PAIR_COLUMNS, "source")
TICO_COLUMNS = ("id", "lang", "text")
HELD_OUT = 300  # pairs with English of each language of the Tatoeba Challenge that has
ENOUGH = 1_500
MOST = 3_000  # pairs of two languages without English
# Labels of Tatoeba that `find_language` does not know, or takes for another language.
LABELS = lookup("""
    afb=afb_Arab arq=arq_Arab ber=ber_Latn got=got_Goth lad=lad_Latn lad_Hebr=lad_Hebr lzh=lzh_Hani lzh_Hans=lzh_Hani
    toki=tok_Latn toki_Latn=tok_Latn wuu=wuu_Hani wuu_Hans=wuu_Hani xal=xal_Cyrl yue_Hans=yue_Hant
""")
# Japanese is written in several scripts at once; a label names the one that prevails in the
# sentence.
LABELS |= {f"jpn_{script}": "jpn_Jpan" for script in ("Hani", "Hira", "Kana")}
NO_LATIN = frozenset(
    {
        "bel",
        "bul",
        "cmn",
        "ell",
        "heb",
        "hye",
        "jpn",
        "khm",
        "kor",
        "lzh",
        "pes",
        "rus",
        "wuu",
        "yue",
    }
)
TICO = {"ti_ER": "tir_Ethi_ER", "ti_ET": "tir_Ethi_ET", "pt_BR": "por_Latn"}
TICO_NOT = {"nus", "ti"}  # files of them are no translations of the English lines
# From this line on the Somali lines stand one line before their English.
TICO_END = {"so": 817}
WMT_YEARS = range(2008, 2019)
WMT_TESTS = range(2020, 2023)
OF_2019 = "en-hr"  # generaltest2022 from English to Croatian has the English of 2019, which NTREX translates
BROKEN = 2021  # wmt_newstest/2021 mixes references with paragraphs: its two sides differ in length


def tatoeba_code(label: str) -> str | None:
    """The code of a label such as ``cmn_Hans``, ``fra`` or ``jpn_Hira``;
    None for transliterations."""
    if label in LABELS:
        return LABELS[label]
    # A text in Latin script of a language with another one is a transliteration.
    iso, _, script = label.partition("_")
    if script == "Latn" and iso in NO_LATIN:
        return None
    code = code_of(label) or code_of(iso)
    if code is None:
        return f"{iso}_{script or 'Latn'}"
    return code if not script or code.split("_")[1] == script else None


def _tatoeba_pairs(repository: Files) -> Iterator[tuple[str, str, str, str]]:
    """Pairs (language, text, language, text) of all releases,
    in alphabetical order of the codes."""
    file_names = set(repository.names)
    for name in repository.matching("datasets/helsinki_nlp/tatoeba/testsets/*.labels"):
        first = name.removesuffix(".labels")
        folder, _, file = first.rpartition("/")
        pair = folder.rsplit("/", 1)[1]
        release, _, language = file.rpartition(".")
        source, _, target = pair.partition("-")
        second = f"{folder}/{release}.{target}"
        # Pairs of a language with itself are numbered (deu1, deu2): they are no translations.
        if language != source or source == target or second not in file_names:
            continue
        sides = []
        for path in (first, second):
            labels = [tatoeba_code(label.strip()) for label in repository.lines(f"{path}.labels")]
            sides.append((labels, [one_line(line) for line in repository.lines(path)]))
        (source_codes, sources), (target_codes, targets) = sides
        for row in zip(source_codes, sources, target_codes, targets, strict=True):
            source_code, source_text, target_code, target_text = row
            if not source_code or not target_code or not source_text or not target_text:
                continue
            if source_code < target_code:
                yield source_code, source_text, target_code, target_text
            elif target_code < source_code:
                yield target_code, target_text, source_code, source_text


def read_tatoeba_challenge(files: Sequence[Files]) -> Rows:
    """Pairs with English, English first. Of each language with 1,500 pairs 300 are the test
    split."""
    (repository,) = files
    pairs_of: dict[str, dict[tuple[str, str], None]] = defaultdict(dict)
    for source_code, source, target_code, target in _tatoeba_pairs(repository):
        if source_code == ENGLISH:
            pairs_of[target_code][source, target] = None
        elif target_code == ENGLISH:
            pairs_of[source_code][target, source] = None
    for code in sorted(pairs_of):
        pairs = sorted(pairs_of[code])
        test_pairs: set[tuple[str, str]] = set()
        if len(pairs) >= ENOUGH:
            test_pairs = set(sorted(pairs, key=lambda pair: draw_of("\t".join(pair)))[:HELD_OUT])
        for pair in pairs:
            english, foreign = pair
            yield pair in test_pairs, ENGLISH, english, code, foreign


def read_tatoeba_others(files: Sequence[Files]) -> Rows:
    """Pairs without English of the languages of FLORES-200, at most 3,000 of two languages."""
    (repository,) = files
    pairs_of: dict[tuple[str, str], dict[tuple[str, str], None]] = defaultdict(dict)
    for source_code, source, target_code, target in _tatoeba_pairs(repository):
        codes = (source_code, target_code)
        if ENGLISH not in codes and is_of_flores(source_code) and is_of_flores(target_code):
            pairs_of[codes][source, target] = None
    for codes in sorted(pairs_of):
        pairs = list(pairs_of[codes])
        if len(pairs) > MOST:
            pairs = sorted(pairs, key=lambda pair: draw_of("\t".join(pair)))[:MOST]
        for source, target in sorted(pairs):
            yield False, codes[0], source, codes[1], target


def read_laser_tatoeba(files: Sequence[Files]) -> Rows:
    """LASER's Tatoeba test set, data/tatoeba/v1/tatoeba.LANG-eng.{LANG,eng}: all of it is test."""
    (repository,) = files
    for name in repository.matching("data/tatoeba/v1/tatoeba.*-eng.eng"):
        word = name.split(".")[1].removesuffix("-eng")
        code = tatoeba_code(word)
        foreign_lines = repository.lines(f"{name.removesuffix('.eng')}.{word}")
        for english, foreign in zip(repository.lines(name), foreign_lines, strict=True):
            if one_line(english) and one_line(foreign):
                yield True, ENGLISH, one_line(english), code, one_line(foreign)


def read_tico19(files: Sequence[Files]) -> Rows:
    """Rows (id, lang, text) of TICO-19. Half of the sentences, by a hash of the English, are the
    test split.

    A line whose English is not that of the others (some files have lines out of place) is left out.
    """
    (repository,) = files
    folders = "datasets/tico19/testsets/*/tico19-test.en"
    names = repository.matching(folders)
    # Every language brings its own copy of the English lines.
    versions = [repository.lines(name) for name in names]
    # Line n of most files is the same English sentence.
    english: list[str] = []
    for candidates in zip(*versions, strict=True):
        english.append(max(sorted(set(candidates)), key=candidates.count))
    is_test = [draw_of(one_line(sentence)) < 2**31 for sentence in english]
    for number, sentence in enumerate(english):
        yield is_test[number], number, ENGLISH, one_line(sentence)
    for name, version in zip(names, versions, strict=True):
        word = name.split("/")[-2].removeprefix("en-")
        if word in TICO_NOT:
            continue
        code = TICO.get(word) or code_of(word)
        lines = repository.lines(f"{name.removesuffix('.en')}.{word}")
        for number, line in enumerate(lines[: TICO_END.get(word)]):
            text = one_line(line)
            if text and version[number] == english[number]:
                yield is_test[number], number, code, text


def read_wmt(files: Sequence[Files]) -> Rows:
    """Pairs with English of the WMT news tests, with the test's name. 2020 to 2022 are the test
    split.

    2019 is left out, and English to Croatian of 2022: NTREX translates their English.
    """
    (repository,) = files
    seen: set[tuple[str, ...]] = set()
    for name, english_lines, word, foreign_lines in _wmt_files(repository):
        if len(english_lines) != len(foreign_lines):
            logger.warning(
                "%s of English with %s is left out: its two sides differ in length", name, word
            )
            continue
        year = int(name[-4:])
        code = code_of(word)
        if code is None:
            code = f"{word}_Latn"
        for english, foreign in zip(english_lines, foreign_lines, strict=True):
            row = (ENGLISH, one_line(english), code, one_line(foreign))
            if row[1] and row[3] and row not in seen:
                seen.add(row)
                yield year in WMT_TESTS, *row, name


def _wmt_files(repository: Files) -> Iterator[tuple[str, list[str], str, list[str]]]:
    """(test set, English lines, language, lines of it)."""
    for path in repository.matching("datasets/statmt/wmt_newstest/*.en"):
        folder, _, file = path.rpartition("/")
        name = file.removesuffix(".en")
        year = int(folder.split("/")[3])
        if year == BROKEN or (year not in WMT_YEARS and year not in WMT_TESTS):
            continue
        for other in repository.matching(f"{folder}/{name}.*"):
            if other != path:
                yield (
                    name,
                    repository.lines(path),
                    other.rpartition(".")[2],
                    repository.lines(other),
                )
    # newstest2021.SOURCE-TARGET.src.SOURCE, and .ref.VERSION.TARGET; generaltest2022 alike
    for path in repository.matching(
        "datasets/statmt/wmt2[12]-news-systems/txt/sources/*test202[12].*.src.*"
    ):
        name, pair, _, source = path.rsplit("/", 1)[1].split(".")
        if "en" not in pair.split("-") or pair == OF_2019:
            continue
        references = path.rsplit("/", 2)[0] + f"/references/{name}.{pair}.ref.*"
        for reference in repository.matching(references):
            target = reference.rpartition(".")[2]
            source_lines = repository.lines(path)
            target_lines = repository.lines(reference)
            if source == "en":
                yield name, source_lines, target, target_lines
            else:
                yield name, target_lines, source, source_lines
