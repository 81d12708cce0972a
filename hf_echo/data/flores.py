"""FLORES-200 and FLORES+ as n-way rows: the names of their files hold split and language.

    flores200_dataset/devtest/fra_Latn.devtest    one sentence a line (the public archive of FLORES-200)
    devtest/fra_Latn.parquet                      columns id and text, among others (FLORES+ on the Hub)

The papers measure devtest. Sentence n of every language of a split is the same sentence.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from ..languages import find_language
from ..utils.files import files_below

logger = logging.getLogger(__name__)

# Patterns of paths; a public set on the Hub and a local copy have the same.
FLORES_200 = r"(?:.*/)?(?P<split>dev|devtest)/(?P<code>[a-z]{3}_[A-Z][a-z]{3})\.(?P=split)"
FLORES_PLUS = r"(?:.*/)?(?P<split>dev|devtest)/(?P<code>[a-z]{3}_[A-Z][a-z]{3}(?:_\w+)?)\.parquet"
SPLITS = {"validation": "dev", "test": "devtest"}


class FloresFile(NamedTuple):
    split: str
    code: str
    path: Path


def nllb_code(code: str) -> str:
    """The NLLB code of a set's code. A variety without an NLLB code ("zh-classical",
    "cat_Latn_vale1252") keeps its own code, so that it does not count as the main language."""
    if not re.fullmatch(r"[A-Za-z]{2,3}([-_][A-Za-z]{4})?([-_][A-Z]{2})?", code):
        return code
    try:
        return find_language(code)
    except ValueError:
        return code


def flores_files(folder: Path) -> list[FloresFile]:
    """The files of FLORES-200 or FLORES+ below a folder, by name; none if it is another folder."""
    files = []
    for path in files_below(folder):
        # The folder itself may be devtest, so its own name counts.
        location = path.absolute().as_posix()
        plain = re.fullmatch(FLORES_200, location)
        columnar = re.fullmatch(FLORES_PLUS, location)
        if columnar and "iso_639_3" not in pq.read_schema(path).names:
            columnar = None  # another table whose file has the name of a language
        match = plain or columnar
        if match:
            files.append(FloresFile(match["split"], match["code"], path))
    return files


def chosen_files(folder: Path, files: Sequence[FloresFile], split: str | None) -> list[FloresFile]:
    """The files of one split. None and "train" (the default of readers) mean the only split that
    there is.

    Raises:
        ValueError: two splits and none is chosen: their sentences have the same numbers.
        FileNotFoundError: no file of this split.
    """
    present = sorted({file.split for file in files})
    name = SPLITS.get(split or "", split)
    if name in (None, "train"):
        if len(present) > 1:
            raise ValueError(
                f"{folder} has the splits {' and '.join(present)}: say which one (papers measure devtest)"
            )
        name = present[0]
    chosen = [file for file in files if file.split == name]
    if not chosen:
        raise FileNotFoundError(
            f"{folder}: no file of split {split!r}; there are {', '.join(present)}"
        )
    return chosen


def flores_blocks(files: Sequence[FloresFile]) -> Iterator[tuple[Path, dict[str, list[Any]]]]:
    """(file, columns id, lang and text) of each language that has an NLLB code; the others are
    named in a warning.

    Raises:
        ValueError: files with different numbers of sentences: a lost line would pair all later ones
            wrongly.
    """
    without_code = sorted({file.code for file in files if file.code.count("_") > 1})
    if without_code:
        logger.warning("left out, because NLLB has no code for it: %s", ", ".join(without_code))
    # Sentence n of all files is the same sentence, so all have as many.
    first_file, first_count = None, 0
    for file in files:
        if file.code in without_code:
            continue
        if file.path.suffix == ".parquet":
            table = pq.read_table(file.path, columns=["id", "text"])
            ids = [str(number) for number in table["id"].to_pylist()]
            texts = table["text"].to_pylist()
        else:
            texts = file.path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
            ids = [str(number) for number in range(1, len(texts) + 1)]
        if first_file is None:
            first_file = file.path
            first_count = len(texts)
        if len(texts) != first_count:
            raise ValueError(
                f"{file.path} has {len(texts)} sentences, {first_file} has {first_count}: copy the set again"
            )
        yield file.path, {"id": ids, "lang": [nllb_code(file.code)] * len(texts), "text": texts}
