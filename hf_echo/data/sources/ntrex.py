"""NTREX: one file a language, line n of each is the same sentence;
DOCUMENT_IDS.tsv has the document of each line."""

from __future__ import annotations

from collections.abc import Sequence

from .origins import Files
from .rows import Rows, code_of, one_line

# Codes of NTREX that mean another script, or a variety, than `find_language` takes them for.
CODES = {"shi": "shi_Arab", "gsw-BE": "gsw_Latn_BE", "gsw-ZH": "gsw_Latn_ZH"}
COLUMNS = ("id", "document", "lang", "text")


def read_ntrex(files: Sequence[Files]) -> Rows:
    """Rows (id, document, lang, text). The second half of the documents is the test split: whole
    documents, so that no test sentence has a neighbour in training."""
    (repository,) = files
    documents = [line.strip() for line in repository.lines("DOCUMENT_IDS.tsv")]
    in_order = list(dict.fromkeys(documents))
    train_documents = set(in_order[: (len(in_order) + 1) // 2])
    for name in repository.matching("NTREX-*/newstest2019-*.txt"):
        word = name.rsplit(".", 2)[-2]
        if "ref-2" in name:  # a second Spanish translation
            continue
        code = CODES.get(word) or code_of(word)
        if code is None:
            raise ValueError(f"NTREX has a language that is not known: {name}")
        lines = repository.lines(name)
        if len(lines) != len(documents):
            raise ValueError(
                f"NTREX: {name} has {len(lines)} lines, and DOCUMENT_IDS.tsv {len(documents)}"
            )
        for number, (document, line) in enumerate(zip(documents, lines, strict=True)):
            text = one_line(line)
            if text:
                yield document not in train_documents, number, document, code, text
