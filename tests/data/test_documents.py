"""Documents: files, bad rows in one line, windows, the flat view."""

import json

from hf_echo.data.documents import TokenizedDocuments, flat_sentences, load_documents

from ..refusals import refusals

ROWS = [
    {"sentences": ["One.", "Two.", "One."], "lang": "eng_Latn"},
    {
        "sentences": ["Un."],
        "lang": "fra_Latn",
        "question": "How many?",
        "choices": ["1", "2"],
        "answer": "1",
    },
]


class Characters:
    def text_ids(self, texts):
        return [[ord(c) for c in text] for text in texts]


def write(file, rows):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_jsonl_and_parquet_are_the_same_documents(tmp_path):
    documents = load_documents(write(tmp_path / "a.jsonl", ROWS))
    assert documents["sentences"] == [row["sentences"] for row in ROWS] and documents["answer"] == [
        None,
        "1",
    ]
    documents.to_parquet(tmp_path / "b.parquet")
    assert load_documents(tmp_path / "b.parquet").to_dict() == documents.to_dict()
    file = write(tmp_path / "a.jsonl", [{"text": "It rains. He sleeps.", "lang": "eng_Latn"}])
    assert load_documents(file)["sentences"] == [["It rains.", "He sleeps."]]


def load(row, tmp_path):
    load_documents(write(tmp_path / "a.jsonl", [ROWS[0], {"lang": "eng_Latn"} | row]))


test_bad_rows_are_one_line = refusals(
    ({"sentences": []}, r"a.jsonl:2: the document has no sentences"),
    (
        {"sentences": ["x"] * 10_001},
        r"a.jsonl:2: the document has 10,001 sentences, the limit is 10,000",
    ),
    (
        {"sentences": ["x", " "]},
        r"a.jsonl:2: sentence 2 is empty .*; correct the documents or leave them out",
    ),
    ({"sentences": ["x\ud800"]}, "a.jsonl:2: sentence 1 is not UTF-8"),
    ({"sentences": "x"}, r"a.jsonl:2: sentences is 'x', not a list of texts \(one long text"),
    ({"sentences": ["x"], "question": {"text": "?"}}, "a.jsonl:2: question is not text but dict"),
    ({"sentences": ["x"], "choices": ["a"], "answer": "b"}, "answer 'b' is not among its choices"),
    ({"text": None}, "a.jsonl:2: sentences is missing"),
    call=load,
)
test_files_that_hold_no_documents = refusals(
    (
        lambda tmp_path: load_documents(write(tmp_path / "a.jsonl", [{"lang": "x"}])),
        "documents need .* found: lang",
    ),
    (lambda: load_documents("none"), "none", FileNotFoundError),
)


def test_windows_and_flat_sentences(tmp_path):
    documents = load_documents(write(tmp_path / "a.jsonl", ROWS))
    flat = flat_sentences(documents, last=("Start", "eng_Latn"))
    assert flat["source"] == ["One.", "Two.", "One.", "Un.", "Start"]
    assert flat["source_lang"] == ["eng_Latn"] * 3 + ["fra_Latn", "eng_Latn"]
    rows = TokenizedDocuments(documents, Characters(), max_sentences=2, max_length=3)
    found = [(row["first"], len(row["sentences"]), row["ends"]) for row in rows]
    assert found == [(0, 2, False), (2, 1, True), (3, 1, True)]
    assert rows[1]["sentences"][0].tolist() == [ord(c) for c in "One"]  # cut to three tokens
    assert rows[0]["keys"][0] == rows[1]["keys"][0] != rows[0]["keys"][1]  # equal texts
    assert rows[2]["question"] == "How many?" and rows[0]["question"] is None
    assert [row["lang"] for row in rows] == ["eng_Latn", "eng_Latn", "fra_Latn"]
    assert rows.tokens().tolist() == [6, 3, 3] and rows.languages == ["eng_Latn", "fra_Latn"]
