"""Sentences of FLORES-200: with topics in SIB-200, and the devtest split of which papers print
their figures."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from .origins import Files
from .rows import Rows, code_of, one_line

SIB_COLUMNS = ("index_id", "lang", "category", "text", "split")
DEVTEST_COLUMNS = ("id", "lang", "text")


def read_sib(files: Sequence[Files]) -> Rows:
    """Rows (index_id, lang, category, text, split) of data/annotated/LANG/SPLIT.tsv; index_id names
    the sentence in all languages."""
    (repository,) = files
    for name in repository.matching("data/annotated/*/*.tsv"):
        _, _, folder, file = name.split("/")
        split = file.removesuffix(".tsv")
        code = code_of(folder)
        if code is None:
            raise ValueError(f"SIB-200 has a language that is not known: {name}")
        table = csv.DictReader(io.StringIO(repository.read(name).decode()), delimiter="\t")
        for row in table:
            text = one_line(row["text"])
            if text:
                yield split == "test", int(row["index_id"]), code, row["category"], text, split


def read_devtest(files: Sequence[Files]) -> Rows:
    """Rows (id, lang, text) of devtest/LANG.devtest; line n is the same sentence in all languages.
    All are test."""
    (repository,) = files
    for name in repository.matching("*/devtest/*.devtest"):
        word = name.rsplit("/", 1)[1].removesuffix(".devtest")
        code = code_of(word)
        if code is None:
            raise ValueError(f"FLORES-200 has a language that is not known: {name}")
        for number, line in enumerate(repository.lines(name)):
            text = one_line(line)
            if text:
                yield True, number, code, text
