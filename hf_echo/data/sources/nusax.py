"""NusaX-MT: one CSV file a split, one column a language;
the first column is the number of the row."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from ...languages import lookup
from .origins import Files
from .rows import Rows, one_line

COLUMNS = ("id", "lang", "text", "split")
CODES = lookup("""
    acehnese=ace_Latn balinese=ban_Latn banjarese=bjn_Latn buginese=bug_Latn english=eng_Latn indonesian=ind_Latn
    javanese=jav_Latn madurese=mad_Latn minangkabau=min_Latn ngaju=nij_Latn sundanese=sun_Latn toba_batak=bbc_Latn
""")
SPLITS = {"train": "train", "valid": "dev", "test": "test"}


def read_nusax(files: Sequence[Files]) -> Rows:
    """Rows (id, lang, text, split); the id is the same in all languages."""
    (repository,) = files
    for file, split in SPLITS.items():
        table = csv.DictReader(io.StringIO(repository.read(f"datasets/mt/{file}.csv").decode()))
        for number, row in enumerate(table):
            for name, code in CODES.items():
                text = one_line(row[name])
                if text:
                    yield split == "test", f"{split}:{number}", code, text, split
