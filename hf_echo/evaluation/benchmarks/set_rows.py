"""Rows of the public sets of OS 9.1: multiple choice (Belebele, its speech, HellaSwag, StoryCloze)
and topics.

Each reader takes a row with the set's own columns. A bad value is a ValueError that says what is
wrong; `load_benchmark` puts the file and the number of the row in front.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...languages import ENGLISH
from ...utils.files import files_below
from ..spectrum import SIB_TOPICS

Row = dict[str, Any]
NumberedRow = tuple[int, Row]

TAXI_TOPICS = ("Recommendation", "Faith", "Description", "Sin", "Grace", "Violence")
# A clip of Spoken StoryCloze: the four sentences, the right ending, the wrong one.
CLIP = r"(?P<story>.+)_(?P<part>(mutual|correct|incorrect)\.(wav|txt))"


def belebele_row(row: Mapping[str, Any], code: str) -> Row:
    """facebook/belebele: link and question_number (and split, if there) name the question;
    answers count from 1."""
    options = [_text(row, f"mc_answer{number}") for number in range(1, 5)]
    key = f"{row['link']}#{row['question_number']}"
    if "split" in row:
        key += f"#{row['split']}"
    return {
        "id": key,
        "lang": code,
        "document": _text(row, "flores_passage"),
        "question": _text(row, "question"),
        "options": options,
        "answer": _answer(row, "correct_answer_num", first=1, options=options),
    }


def spoken_belebele_row(row: Mapping[str, Any], code: str) -> Row:
    """facebook/2M-Belebele: the passage also as clips, one a sentence; of several recordings the
    first one.

    `document` is a list of {"array", "sampling_rate"}, `spoken_texts` are the sentences.
    """
    clips = []
    texts = list(row["flores_sentences"])
    recordings = list(row["audio_segments"])
    for _, takes in zip(texts, recordings, strict=True):
        audio = takes[0]["audio"]
        clips.append({"array": audio["wav"], "sampling_rate": int(audio["sampling_rate"])})
    return belebele_row(row, code) | {"document": clips, "spoken_texts": texts}


def hellaswag_row(row: Mapping[str, Any], code: str) -> Row:
    """alexandrainst/m_hellaswag (Lai et al. 2023): `ind` is the same in all languages, the label
    counts from 0.

    Some translated endings are not text; those of the English rows are used.
    """
    options = list(row["endings"])
    return {
        "id": str(row["ind"]),
        "lang": code,
        "document": _text(row, "ctx"),
        "question": "",
        "options": options,
        "answer": _answer(row, "label", first=0, options=options),
    }


def story_rows(folder: Path, split: str) -> Iterator[tuple[str, Row]]:
    """Spoken StoryCloze: NAME_mutual.wav (four sentences), NAME_correct.txt and NAME_incorrect.txt
    (endings).

    `split` is the folder sSC or tSC, "*" all. With NAME_mutual.txt a row also has `spoken_texts`.
    The right ending is option 0 or 1 in turn, so that a model that always chooses the first has 50
    percent.

    Raises:
        ValueError: a story that lacks a part.
        FileNotFoundError: no story.
    """
    # The files of each story, by its name and the part of it that they hold.
    stories: dict[str, dict[str, Path]] = {}
    for file in files_below(folder):
        match = re.fullmatch(CLIP, file.name)
        if match and (split == "*" or split in file.parts):
            name = str(file.parent.relative_to(folder) / match["story"])
            stories.setdefault(name, {})[match["part"]] = file
    if not stories:
        raise FileNotFoundError(
            f"{folder} has no story such as sSC/1_mutual.wav with 1_correct.txt and 1_incorrect.txt"
        )
    for number, (name, parts) in enumerate(sorted(stories.items())):
        for part in ("mutual.wav", "correct.txt", "incorrect.txt"):
            if part not in parts:
                raise ValueError(f"{folder}: story {name} has no {name}_{part}")
        options = [_file_text(parts["correct.txt"]), _file_text(parts["incorrect.txt"])]
        # The right ending comes first in every other story.
        answer = number % 2
        if answer == 1:
            options.reverse()
        row = {
            "id": name,
            "lang": ENGLISH,
            "document": [str(parts["mutual.wav"])],
            "question": "",
            "options": options,
            "answer": answer,
        }
        if "mutual.txt" in parts:
            row["spoken_texts"] = [_file_text(parts["mutual.txt"])]
        yield name, row


def _file_text(file: Path) -> str:
    return file.read_text(encoding="utf-8").strip()


def sib_row(row: Mapping[str, Any], code: str) -> Row:
    """Davlan/sib200: index_id, category, text."""
    return {
        "id": str(row["index_id"]),
        "lang": code,
        "text": _text(row, "text"),
        "label": _label(row["category"], SIB_TOPICS),
    }


def taxi_rows(folder: Path, split: str) -> Iterator[tuple[str, Row]]:
    """Taxi1500: a verse and its topic, without header (id, label, verse) in eng_data/eng_SPLIT.tsv
    and LANG_SPLIT.tsv.

    The labels are those of the English verses: an edition of the corpora Taxi1500-c (LANG-*.txt or
    LANG_*.txt: comment lines with #, then id and verse) gets them by the verse's number. The first
    three letters of a file's name are the language.

    Raises:
        ValueError: a bad line, with its file and number.
        FileNotFoundError: no English verses.
    """
    english_file = f"eng_{split}.tsv"
    labelled_files = []
    editions = []
    for file in files_below(folder):
        if re.fullmatch(rf"[a-z]{{3}}_{split}\.tsv", file.name):
            labelled_files.append(file)
        elif re.fullmatch(r"[a-z]{3}[-_].*\.txt", file.name):
            editions.append(file)
    labelled_files.sort(key=lambda file: file.name != english_file)  # the English verses come first
    if not labelled_files or labelled_files[0].name != english_file:
        raise FileNotFoundError(
            f"taxi1500: {folder} has no file of split {split!r}, eng_data/{english_file}"
        )

    labels: dict[str, str] = {}  # of the English verses
    for file in labelled_files:
        for place, (verse, topic, text) in _lines(file, 3):
            try:
                label = _label(topic, TAXI_TOPICS)
            except ValueError as error:
                raise ValueError(f"{place}: {error}") from None
            if file == labelled_files[0]:
                labels[verse] = label
            yield place, _verse(file, verse, text, label)
    for file in editions:
        for place, (verse, text) in _lines(file, 2):
            # an edition has thousands of verses without a label, and empty ones
            if verse in labels and text:
                yield place, _verse(file, verse, text, labels[verse])


def _verse(file: Path, verse: str, text: str, label: str) -> Row:
    return {"id": f"{file.stem}:{verse}", "lang": file.name[:3], "text": text, "label": label}


def _lines(file: Path, columns: int) -> Iterator[tuple[str, list[str]]]:
    """(place, cells) of each line that is neither empty nor a comment."""
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        place = f"{file}, row {number}"
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) != columns:
            raise ValueError(f"{place}: {len(cells)} columns instead of {columns}")
        yield place, cells


def _text(row: Mapping[str, Any], column: str) -> str:
    value = row[column]
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{column} is {value!r} instead of text")
    return value


def _answer(row: Mapping[str, Any], column: str, *, first: int, options: Sequence[Any]) -> int:
    """The right option counted from 0; a column may hold it as text."""
    value = str(row[column])
    last = first + len(options) - 1
    if not value.isdecimal() or not first <= int(value) <= last:
        raise ValueError(f"{column} is {value!r} instead of {first} to {last}")
    return int(value) - first


def _label(value: Any, topics: Sequence[str]) -> str:
    if value not in topics:
        raise ValueError(f"the topic is {value!r}; it must be one of {', '.join(topics)}")
    return value
