"""Divide the files of a parallel dataset by language: each language, script and family is a configuration.

`load_dataset("org/name", "fra_Latn")` reads one language, `"script-cyrillic"` and `"family-turkic"` read several.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..languages import is_language, language

PIVOT = "eng_Latn"


def group_of(source_lang: str, target_lang: str) -> str:
    """The language that a pair has beside English; both, in alphabetical order, where neither is English."""
    return "-".join(sorted({source_lang, target_lang} - {PIVOT})) or PIVOT


def shared_groups(places: Iterable[str]) -> dict[str, list[str]]:
    """{"script-latin": folders, "family-turkic": folders}: scripts and families (OS Table 32) of several folders.

    A folder of two languages ("deu_Latn-jpn_Jpan") belongs to what both have in common.

    Args:
        places: names of folders, as `group_of` makes them.
    """
    found: dict[str, list[str]] = {}
    for place in sorted(places):
        known = [language(code) for code in place.split("-") if is_language(code)]
        for kind in ("script", "family"):
            values = {getattr(lang, kind) for lang in known}
            if len(values) == 1 and (value := values.pop()):
                found.setdefault(f"{kind}-{re.sub('[^a-z]+', '-', value.lower()).strip('-')}", []).append(place)
    return {name: members for name, members in sorted(found.items()) if len(members) > 1}


def group_by_language(folder: str | Path) -> list[str]:
    """Move the rows of data/SPLIT-*.parquet to data/GROUP/SPLIT-*.parquet, in the same order; returns the groups.

    `data` is the old folder or the new one at every moment. A folder that is divided already stays as it is.

    Raises:
        FileNotFoundError: the folder has no data/*.parquet. ValueError: only some of its files are divided.
    """
    data = Path(folder) / "data"
    files, divided = sorted(data.glob("*.parquet")), sorted(data.glob("*/*.parquet"))
    if not files and not divided:
        raise FileNotFoundError(f"{folder} has no data/*.parquet; give the OUT of `hf-echo data filter`")
    if files and divided:
        raise ValueError(f"{data} has files of all languages ({files[0].name}) and of one ({divided[0].parent.name})")
    if not files:
        return sorted({file.parent.name for file in divided})
    unfinished = data.with_name(f".data.{os.getpid()}")
    try:
        for file in files:
            _divide(file, unfinished)
        os.replace(data, earlier := unfinished.with_suffix(".old"))
        os.replace(unfinished, data)
        shutil.rmtree(earlier)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return sorted(place.name for place in data.iterdir())


def _divide(file: Path, out: Path) -> None:
    writers: dict[str, pq.ParquetWriter] = {}
    try:
        for batch in pq.ParquetFile(file).iter_batches():
            table = pa.Table.from_batches([batch])
            sides = (table[name].to_pylist() for name in ("source_lang", "target_lang"))
            groups = np.array([group_of(*pair) for pair in zip(*sides, strict=True)])
            for group in np.unique(groups):
                if group not in writers:
                    (out / group).mkdir(parents=True, exist_ok=True)
                    writers[group] = pq.ParquetWriter(out / group / file.name, table.schema)
                writers[group].write_table(table.filter(pa.array(groups == group)))
    finally:
        for writer in writers.values():
            writer.close()
