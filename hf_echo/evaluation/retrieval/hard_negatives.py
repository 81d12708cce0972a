"""Hard negatives of the target's sentences for xsim++: made by rule, or read from the published
set.

The published set (Chen et al. 2023, "xSIM++"; OS 6.1, ECHO 5.1) changes the English sentences of
FLORES-200. LASER (tasks/xsimplusplus) downloads two files per split: `eng_Latn_augmented.devtest`,
one changed sentence per line, and `eng_Latn_errtype.devtest.json`, which names the original of each
changed sentence. This module reads the second file:

    {"Two cats sleep.": {"src": "Three cats sleep.", "errtype": "number"}, ...}

A figure belongs to one of the two sources, and the sources give different figures: say which
(`RULES`, `PUBLISHED`).
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...negatives.rules import hard_negatives_for
from ...utils.files import first_line

RULES = "rule negatives"
PUBLISHED = "published set"

Negatives = list[tuple[int, str, str]]  # (index of the sentence that it was made from, text, kind)
TextAndKind = tuple[str, str]


class NoPublishedSentence(ValueError):
    """None of the sentences is one of the published set."""


def rule_negatives(sentences: Sequence[str]) -> Negatives:
    """Up to five hard negatives by rule for each English sentence;
    raises ValueError if the rules make none."""
    negatives = []
    for place, items in enumerate(hard_negatives_for(list(sentences))):
        negatives += [(place, text, kind) for text, kind in items]
    if not negatives:
        raise ValueError("the rules made no hard negatives; give English sentences")
    return negatives


def published_negatives(file: str | Path, sentences: Sequence[str]) -> Negatives:
    """The hard negatives that the published set has for these sentences.

    A negative with the text of one of the sentences is left out: LASER counts an equal text as
    right. Negatives of sentences that are not among `sentences` are no candidates, so give the
    whole split for the papers' figure.

    Raises:
        NoPublishedSentence: no sentence of the file is among `sentences`.
        ValueError: as `read_published`.
    """
    by_sentence = read_published(file)
    targets = {sentence.strip() for sentence in sentences}
    negatives = []
    for place, sentence in enumerate(sentences):
        for text, kind in by_sentence.get(sentence.strip(), ()):
            if text not in targets:
                negatives.append((place, text, kind))
    if not negatives:
        raise NoPublishedSentence(
            f"{file}: none of its {len(by_sentence)} sentences is among the {len(sentences)} target sentences; the "
            "published set belongs to one split of FLORES-200 in English"
        )
    return negatives


def read_published(file: str | Path) -> dict[str, list[TextAndKind]]:
    """{FLORES sentence: [(changed sentence, kind of the change)]} of a file
    LANG_errtype.SPLIT.json.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a file of another layout; the message names the file and the entry.
    """
    file = Path(file)
    if not file.is_file():
        raise FileNotFoundError(
            f"no file {file}; give LANG_errtype.SPLIT.json of the published xsim++ set"
        )
    by_sentence: dict[str, list[TextAndKind]] = {}
    for number, (text, entry) in enumerate(_entries(file).items(), 1):
        # The changed sentence, its original and the kind, all with text in them.
        fields: list[Any] = [text]
        if isinstance(entry, dict):
            fields += [entry.get("src"), entry.get("errtype")]
        texts = [field.strip() for field in fields if isinstance(field, str)]
        texts = list(filter(None, texts))
        if len(texts) < 3:
            raise ValueError(
                f"{file}, entry {number} ({text[:40]!r}): needs a changed sentence with the strings src and errtype"
            )
        changed_sentence, sentence, kind = texts
        by_sentence.setdefault(sentence, []).append((changed_sentence, kind))
    return by_sentence


def by_id(negatives: Negatives, ids: Sequence[Hashable]) -> dict[Hashable, list[TextAndKind]]:
    """{id of the sentence: [(text, kind)]}, as `evaluate_xsim` takes them;
    `ids[i]` is the id of sentence i."""
    of_id: dict[Hashable, list[TextAndKind]] = {}
    for place, text, kind in negatives:
        of_id.setdefault(ids[place], []).append((text, kind))
    return of_id


def by_text(negatives: Negatives, sentences: Sequence[str]) -> dict[str, list[TextAndKind]]:
    """{sentence: [(text, kind)]} with an entry for every sentence,
    as `evaluate_speech` takes them."""
    of_text: dict[str, list[TextAndKind]] = {sentence: [] for sentence in sentences}
    for place, text, kind in negatives:
        of_text[sentences[place]].append((text, kind))
    return of_text


def described(negatives: Negatives, source: str, file: str | Path | None = None) -> dict[str, Any]:
    """The report's entries: source and number of the negatives,
    and the number of sentences that have some."""
    changed_sentences = {place for place, _, _ in negatives}
    description: dict[str, Any] = {
        "source": source,
        "count": len(negatives),
        "sentences": len(changed_sentences),
    }
    if file is not None:
        description["file"] = str(file)
    return description


def _entries(file: Path) -> Mapping[str, Any]:
    """The entries of a published set of hard negatives; raises ValueError for another file."""
    layout = 'an object {"changed sentence": {"src": "sentence", "errtype": "kind"}, ...}'
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:  # also text that is not UTF-8
        hint = ""
        if "_augmented." in file.name:
            hint = "; give the file LANG_errtype.SPLIT.json beside it, which says what each line was made from"
        reason = first_line(error)
        raise ValueError(
            f"{file} is not JSON ({reason}); the published xsim++ set is {layout}{hint}"
        ) from None
    if not isinstance(entries, dict) or not entries:
        raise ValueError(
            f"{file}: the published xsim++ set is {layout}, not {type(entries).__name__} of another form"
        )
    return entries
