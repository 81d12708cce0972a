"""Documents: one row per document, `sentences` and `lang`, and for fine-tuning a task with its
answer.

Files are JSONL or Parquet. A column `text` instead of `sentences` is cut by rules
(`hf_echo.data.segmentation`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from datasets import Dataset, Features, Value

from .formats import open_file
from .parts import Part
from .schema import as_list, check_language, check_text, language_codes
from .segmentation import rule_segmenter, trimmed
from .tables import BadRows, Plan, checked_tables, list_files, to_dataset
from .tokenized import Ragged

MAX_SENTENCES = 10_000
TASK_COLUMNS = ("task", "question", "choices", "answer")


def document_features() -> Features:
    text = Value("string")
    names = ("sentences", "lang", *TASK_COLUMNS)
    return Features({name: [text] if name in ("sentences", "choices") else text for name in names})


def load_documents(path: str | os.PathLike) -> Dataset:
    """Read documents from a JSONL or Parquet file, or a folder of them.

    Columns: `sentences` (a list of texts) or `text`, which rules cut; `lang`, an NLLB code; for
    fine-tuning also `task` (what is to be done, in words), `question`, `choices` (a list) and
    `answer` (a text; with choices, one of them).

    Raises:
        FileNotFoundError: the path does not exist.
        ValueError: documents without sentences, with too many, without a known language, or with an
            answer that is not among its choices; the message names file and row.
    """
    plans = [_plan(open_file(file)) for file in list_files(Path(path), None)]
    bad = BadRows("error", "correct the documents or leave them out")
    key = ("documents", [(plan.part.identity, plan.mapping) for plan in plans])
    return to_dataset(checked_tables(plans, _convert, bad), bad, document_features(), key)


def _plan(part: Part) -> Plan:
    """Which columns of a table hold a document; raises ValueError where it has none."""
    # A table of sentences, or of texts that are cut.
    content = next((name for name in ("sentences", "text") if name in part.columns), None)
    if content is None or "lang" not in part.columns:
        column_names = ", ".join(part.columns)
        raise ValueError(
            f"{part.label}: documents need the columns sentences (or text) and lang; found: {column_names}"
        )
    # An object is refused, not left out.
    present = {column.partition(".")[0] for column in part.columns}
    names = [content, "lang", *(name for name in TASK_COLUMNS if name in present)]
    return Plan.of(part, {name: name for name in names}, None, TASK_COLUMNS)


def _convert(block: Mapping[str, Any]) -> tuple[pa.Table, list[tuple[int, str]]]:
    """The documents of a block, and (row, reason) of rows that are none."""
    columns = {name: as_list(column) for name, column in block.items()}
    columns["lang"] = language_codes(columns["lang"])
    good = []
    bad = []
    for number, values in enumerate(zip(*columns.values(), strict=True)):
        row = dict.fromkeys(("sentences", "lang", *TASK_COLUMNS))
        row |= zip(columns, values, strict=True)
        row["choices"] = row["choices"] or []
        reason = _cut_text(row) if "text" in row else None
        reason = reason or check_document(row)
        if reason:
            bad.append((number, reason))
        else:
            good.append(row)
    return pa.Table.from_pylist(good, schema=document_features().arrow_schema), bad


def _cut_text(row: dict[str, Any]) -> str | None:
    """Put the sentences of the text into the row; returns why it has none."""
    text = row.pop("text")
    reason = check_text("text", text) or check_language("lang", row["lang"])
    if reason:
        return reason
    try:
        row["sentences"] = trimmed(rule_segmenter([text], row["lang"])[0])
    except ValueError as error:  # code has no sentences
        return str(error)
    return None


def check_document(row: dict[str, Any]) -> str | None:
    """Why a row is not a document; None if it is one."""
    sentences = row["sentences"]
    choices = row["choices"]
    if not isinstance(sentences, (list, np.ndarray)):
        return f"sentences is {_shown(sentences)}, not a list of texts (one long text goes into the column text)"
    if not len(sentences):
        return "the document has no sentences"
    if len(sentences) > MAX_SENTENCES:
        return f"the document has {len(sentences):,} sentences, the limit is {MAX_SENTENCES:,}"
    if not isinstance(choices, (list, np.ndarray)):
        return f"choices is {_shown(choices)}, not a list of texts"
    # Every text of the row is checked under the name that a user knows it by.
    texts = [(f"sentence {number}", text) for number, text in enumerate(sentences, 1)]
    texts += [(f"choice {number}", text) for number, text in enumerate(choices, 1)]
    for name in ("task", "question", "answer"):
        if row[name] not in (None, ""):
            texts.append((name, row[name]))
    for name, text in texts:
        reason = check_text(name, text)
        if reason:
            return reason
    if len(choices) and row["answer"] not in choices:
        return f"the answer {_shown(row['answer'])} is not among its choices: {', '.join(choices)}"
    return check_language("lang", row["lang"])


def _shown(value: Any) -> str:
    return "missing" if value is None else f"{value!r:.40}"


def flat_sentences(documents: Dataset, last: tuple[str, str] | None = None) -> Dataset:
    """All sentences, and `last` (text, lang), one after the other,
    with the columns `source` and `source_lang`."""
    texts = []
    langs = []
    for sentences, lang in zip(documents["sentences"], documents["lang"], strict=True):
        texts += sentences
        langs += [lang] * len(sentences)
    if last is not None:
        text, lang = last
        texts.append(text)
        langs.append(lang)
    return Dataset.from_dict({"source": texts, "source_lang": langs})


class TokenizedDocuments:
    """Windows of documents as token ids: a long document is several windows of at most
    `max_sentences`.

    A row is a dict: ``index``, ``first`` (number of its first sentence among all), ``sentences``
    (ids of each), ``keys`` (equal for equal texts), ``ends`` (whether the document ends with the
    window), ``lang``, and of fine-tuning rows ``task, question, choices, answer`` as texts.
    """

    def __init__(self, documents: Dataset, tokenizer: Any, *, max_sentences: int, max_length: int):
        sentences = [text for row in documents["sentences"] for text in row]
        self.ids = Ragged.of([ids[:max_length] for ids in tokenizer.text_ids(sentences)])
        self.keys = pd.factorize(np.array(sentences, object))[0]
        self.languages = sorted(set(documents["lang"]))
        self.tasks = documents.select_columns(["lang", *TASK_COLUMNS])
        # (windows, 3): number of the document, first sentence among all, number of sentences
        starts = []
        first = 0
        for number, row in enumerate(documents["sentences"]):
            for start in range(0, len(row), max_sentences):
                starts.append((number, first + start, min(max_sentences, len(row) - start)))
            first += len(row)
        self.windows = np.array(starts, np.int64).reshape(-1, 3)
        self.sentences = first

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, i: int) -> dict[str, Any]:
        document, first, count = self.windows[i].tolist()
        # The last window of a document, or of all.
        ends = i + 1 == len(self) or self.windows[i + 1, 0] != document
        row = {
            "index": i,
            "first": first,
            "sentences": [self.ids[number] for number in range(first, first + count)],
            "ends": bool(ends),
            "keys": self.keys[first : first + count],
        }
        return row | self.tasks[document]

    def tokens(self) -> np.ndarray:
        """(windows,) tokens of the sentences."""
        _, first, count = self.windows.T
        tokens_before = self.ids.offsets
        return tokens_before[first + count] - tokens_before[first]
