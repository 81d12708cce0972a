"""BUCC 2018: the pairs that its gold lists name, as mteb's task BUCC.v2 has them. `lang` is a pair of
languages, `sentence1` the sentence in the first of them, `sentence2` its English."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow.parquet as pq

from ...languages import ENGLISH
from .origins import Files
from .rows import Rows, one_line

CODES = {"de-en": "deu_Latn", "fr-en": "fra_Latn", "ru-en": "rus_Cyrl", "zh-en": "zho_Hans"}


def read_bucc(files: Sequence[Files]) -> Rows:
    """Rows of pairs with English; all of them are the test split."""
    (dataset,) = files
    table = pq.read_table(io.BytesIO(dataset.read("test.parquet")))
    for row in table.to_pylist():
        sentence = one_line(row["sentence1"])
        english = one_line(row["sentence2"])
        if sentence and english:
            yield True, ENGLISH, english, CODES[row["lang"]], sentence
