"""Names of verses, for all sources in the form of USFM and vref.txt: ``JHN 3:16``.

Verse numbers are taken as printed: versifications are not mapped onto each other (they differ in parts of the Old
Testament, chiefly the Psalms; not in John).
"""

from __future__ import annotations

import re

BOOKS = tuple(
    """
    GEN EXO LEV NUM DEU JOS JDG RUT 1SA 2SA 1KI 2KI 1CH 2CH EZR NEH EST JOB PSA PRO ECC SNG ISA JER LAM EZK DAN
    HOS JOL AMO OBA JON MIC NAM HAB ZEP HAG ZEC MAL MAT MRK LUK JHN ACT ROM 1CO 2CO GAL EPH PHP COL 1TH 2TH 1TI
    2TI TIT PHM HEB JAS 1PE 2PE 1JN 2JN 3JN JUD REV TOB JDT ESG WIS SIR BAR LJE S3Y SUS BEL 1MA 2MA 3MA 4MA 1ES
    2ES MAN PS2 ODA PSS EZA 5EZ 6EZ DAG PS3 2BA LBA JUB ENO 1MQ 2MQ 3MQ REP 4BA LAO
    """.split()
)
# codes of christos-c/bible-corpus that differ from USFM's
ALIASES = dict(
    pair.split("=")
    for pair in """
    SON=SNG EZE=EZK JOE=JOL NAH=NAM MAR=MRK JOH=JHN PHI=PHP JAM=JAS 1JO=1JN 2JO=2JN 3JO=3JN
    """.split()
)
SPLITS = ("train", "dev", "test")

_ORDER = {book: number for number, book in enumerate(BOOKS)}
_REFERENCE = re.compile(
    r"(?:b\.)?(?P<book>\w{3})[ .](?P<chapter>\d{1,3})[.:]"
    r"(?P<first>\d{1,3})(?P<part>[a-z]?)(?:[-–,](?P<last>\d{1,3})[a-z]?)?"
)
_LONGEST = 40  # most verses of one range


def parse_reference(text: str) -> tuple[list[str], bool]:
    """Parse ``b.JOH.3.16``, ``JHN.3.16`` or ``JHN 3:16`` to the names of its verses (``JHN 3:16-17``: two).

    Returns:
        The names, and whether the reference is a part of a verse (``JHN 3:16a``).

    Raises:
        ValueError: not a reference, or an unknown book.
    """
    match = _REFERENCE.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text.strip()[:40]!r} is not a verse reference such as JHN 3:16 or b.JHN.3.16")
    book = ALIASES.get(match["book"].upper(), match["book"].upper())
    if book not in _ORDER:
        raise ValueError(f"unknown book {match['book']!r}; use the codes of USFM (GEN ... REV)")
    first = int(match["first"])
    last = int(match["last"] or first)
    if not first <= last < first + _LONGEST:
        raise ValueError(f"{text.strip()!r} is not a range of verses")
    names = [f"{book} {int(match['chapter'])}:{verse}" for verse in range(first, last + 1)]
    return names, bool(match["part"])


def split_of(verse: str) -> str:
    """The split of a verse: John 1-10 is ``dev``, John 11-21 ``test``, the rest ``train`` (OS A.8)."""
    book, place = verse.split(" ")
    if book != "JHN":
        return "train"
    return "dev" if int(place.split(":")[0]) <= 10 else "test"


def place_of(verse: str) -> tuple[int, int, int]:
    """Sort key of a verse in the order of a printed Bible."""
    book, place = verse.split(" ")
    chapter, number = place.split(":")
    return _ORDER[book], int(chapter), int(number)
