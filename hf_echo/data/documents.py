"""Documents: one row per document, `sentences` and `lang`, and for fine-tuning a task with its answer.

Files are JSONL or Parquet. A column `text` instead of `sentences` is cut by rules (`hf_echo.data.segmentation`). Beside
the dataset, this module has the flat view of it that models train on: all sentences one after the other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, Features, Value
from datasets.exceptions import DatasetGenerationError

from .formats import open_file
from .schema import check_language, check_text
from .segmentation import rule_segmenter, trimmed
from .tables import list_files
from .tokenized import Ragged

MAX_SENTENCES = 10_000
TASK_COLUMNS = ("task", "question", "choices", "answer")


def document_features() -> Features:
    text, texts = Value("string"), [Value("string")]
    return Features(
        {"sentences": texts, "lang": text, "task": text, "question": text, "choices": texts, "answer": text}
    )


def load_documents(path: str | os.PathLike, *, segmenter: str = "rules", limit: int | None = None) -> Dataset:
    """Read documents from a JSONL or Parquet file, or a folder of them.

    Columns: `sentences` (a list of texts) or `text`; `lang`, an NLLB code; for fine-tuning also `task` (what is to be
    done, in words), `question`, `choices` (a list) and `answer` (a text; with choices, one of them).

    Args:
        segmenter: what cuts `text`: "rules", or "none" for one sentence per document.
        limit: the first so many documents.

    Raises:
        FileNotFoundError: the path does not exist.
        ValueError: a document without sentences, with too many, without a known language, or with an answer that is
            not among its choices; the message names file and line.
    """
    if segmenter not in ("rules", "none"):
        raise ValueError(f"segmenter must be 'rules' or 'none', not {segmenter!r}")
    if not Path(path).exists():
        raise FileNotFoundError(f"{path}: no such file or folder")
    files = list_files(Path(path), None)
    stamps = [(file.stat().st_mtime_ns, file.stat().st_size) for file in files]
    options = {"files": [str(file) for file in files], "stamps": stamps, "segmenter": segmenter, "limit": limit}
    try:
        dataset = Dataset.from_generator(_documents, features=document_features(), gen_kwargs=options)
    except DatasetGenerationError as error:
        raise (error.__cause__ or error) from None
    if not len(dataset):
        raise ValueError(f"{path} holds no documents")
    return dataset


def check_document(row: dict[str, Any]) -> str | None:
    """Why a row is not a document; None if it is one."""
    sentences, choices = row["sentences"], row["choices"]
    if not isinstance(sentences, (list, np.ndarray)):
        return f"sentences is {_shown(sentences)}, not a list of texts (one long text goes into the column text)"
    if not len(sentences):
        return "the document has no sentences"
    if len(sentences) > MAX_SENTENCES:
        return f"the document has {len(sentences):,} sentences, the limit is {MAX_SENTENCES:,}"
    if not isinstance(choices, (list, np.ndarray)):
        return f"choices is {_shown(choices)}, not a list of texts"
    texts = [(f"sentence {number}", text) for number, text in enumerate(sentences, 1)]
    texts += [(f"choice {number}", text) for number, text in enumerate(choices, 1)]
    texts += [(name, row[name]) for name in ("task", "question", "answer") if row[name] not in (None, "")]
    if reason := next(filter(None, (check_text(name, text) for name, text in texts)), None):
        return reason
    if len(choices) and row["answer"] not in choices:
        return f"the answer {_shown(row['answer'])} is not among its choices: {', '.join(choices)}"
    return check_language("lang", row["lang"])


def _shown(value: Any) -> str:
    return "missing" if value is None else f"{value!r:.40}"


def _documents(files: list[str], stamps: list, segmenter: str, limit: int | None) -> Iterator[dict[str, Any]]:
    count = 0
    for file in files:
        part = open_file(Path(file))
        content = next((name for name in ("sentences", "text") if name in part.columns), None)
        if content is None or "lang" not in part.columns:
            found = ", ".join(part.columns)
            raise ValueError(f"{file}: documents need the columns sentences (or text) and lang; found: {found}")
        names = (content, "lang", *TASK_COLUMNS)
        known = {column.partition(".")[0] for column in part.columns}  # an object is refused, not left out
        wanted = [name for name in names if name in known or part.open_ended]
        for block in part.read(wanted):
            if block.bad:
                line, reason = block.bad[0]
                raise ValueError(f"{file}:{line}: {reason}")
            columns = {name: _plain(column) for name, column in block.columns.items()}
            for number, line in enumerate(block.lines):
                row = {name: column[number] for name, column in columns.items()}
                row = {name: row.get(name) for name in ("sentences", "lang", *TASK_COLUMNS)} | {
                    "sentences": row[content]
                }
                row["choices"] = row["choices"] or []
                reason = None
                if content == "text":
                    reason = check_text("text", row["sentences"]) or check_language("lang", row["lang"])
                    row["sentences"] = [] if reason else _sentences(row["sentences"], row["lang"], segmenter)
                if reason := reason or check_document(row):
                    raise ValueError(f"{file}:{line}: {reason}; correct the document or leave it out")
                yield row
                count += 1
                if limit is not None and count >= limit:
                    return


def _plain(column: Any) -> Any:
    return column.to_pylist() if hasattr(column, "to_pylist") else column


def _sentences(text: str, lang: str, segmenter: str) -> list[str]:
    pieces = rule_segmenter([text], lang)[0] if segmenter == "rules" else [text]
    return [piece for piece in trimmed(pieces) if piece]


def flat_sentences(documents: Dataset, last: tuple[str, str] | None = None) -> Dataset:
    """All sentences one after the other, with the columns `source` and `source_lang`.

    Args:
        last: (text, lang) of one more row at the end.
    """
    texts = [text for row in documents["sentences"] for text in row]
    langs = [lang for row, lang in zip(documents["sentences"], documents["lang"], strict=True) for _ in row]
    if last is not None:
        texts, langs = [*texts, last[0]], [*langs, last[1]]
    return Dataset.from_dict({"source": texts, "source_lang": langs})


class TokenizedDocuments:
    """Windows of documents as token ids: a long document is several windows of at most `max_sentences`.

    A row is a dict: ``index``, ``first`` (number of its first sentence among all), ``sentences`` (ids of each),
    ``keys`` (equal for equal texts), ``lang``, and of fine-tuning rows ``task, question, choices, answer`` as texts.
    """

    def __init__(self, documents: Dataset, tokenizer: Any, *, max_sentences: int, max_length: int):
        sentences = [text for row in documents["sentences"] for text in row]
        self.ids = Ragged.of([ids[:max_length] for ids in tokenizer.text_ids(sentences)])
        numbers: dict[str, int] = {}
        self.keys = np.array([numbers.setdefault(text, len(numbers)) for text in sentences], np.int64)
        self.languages = sorted(set(documents["lang"]))
        self.tasks = documents.select_columns(["lang", *TASK_COLUMNS])
        starts, first = [], 0
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
        numbers = range(first, first + count)
        row = {"index": i, "first": first, "sentences": [self.ids[j] for j in numbers]}
        return row | {"keys": self.keys[first : first + count]} | self.tasks[document]

    def tokens(self) -> np.ndarray:
        """(windows,) tokens of the sentences."""
        total = self.ids.offsets
        return total[self.windows[:, 1] + self.windows[:, 2]] - total[self.windows[:, 1]]
