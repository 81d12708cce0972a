"""Documents: files, bad rows in one line, windows, the flat view."""

import json

import pytest

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


def test_sentences_of_json_lines(tmp_path):
    documents = load_documents(write(tmp_path / "a.jsonl", ROWS))
    assert documents["sentences"] == [row["sentences"] for row in ROWS]
    assert documents["answer"] == [None, "1"]


def test_parquet_holds_the_same_documents(tmp_path):
    documents = load_documents(write(tmp_path / "a.jsonl", ROWS))
    documents.to_parquet(tmp_path / "b.parquet")
    assert load_documents(tmp_path / "b.parquet").to_dict() == documents.to_dict()


def test_a_raw_text_is_cut_into_sentences(tmp_path):
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


@pytest.fixture
def documents(tmp_path):
    return load_documents(write(tmp_path / "a.jsonl", ROWS))


def test_flat_sentences_end_with_the_text_of_the_start(documents):
    flat = flat_sentences(documents, last=("Start", "eng_Latn"))
    assert flat["source"] == ["One.", "Two.", "One.", "Un.", "Start"]
    assert flat["source_lang"] == ["eng_Latn"] * 3 + ["fra_Latn", "eng_Latn"]


@pytest.fixture
def windows(documents):
    return TokenizedDocuments(documents, Characters(), max_sentences=2, max_length=3)


def test_windows_of_at_most_two_sentences(windows):
    spans = [(row["first"], len(row["sentences"]), row["ends"]) for row in windows]
    assert spans == [(0, 2, False), (2, 1, True), (3, 1, True)]


def test_sentences_are_cut_to_three_tokens(windows):
    assert windows[1]["sentences"][0].tolist() == [ord(letter) for letter in "One"]
    assert windows.tokens().tolist() == [6, 3, 3]


def test_equal_sentences_have_equal_keys(windows):
    assert windows[0]["keys"][0] == windows[1]["keys"][0]
    assert windows[0]["keys"][0] != windows[0]["keys"][1]


def test_windows_keep_the_columns_of_their_document(windows):
    assert windows[2]["question"] == "How many?"
    assert windows[0]["question"] is None
    assert [row["lang"] for row in windows] == ["eng_Latn", "eng_Latn", "fra_Latn"]
    assert windows.languages == ["eng_Latn", "fra_Latn"]
