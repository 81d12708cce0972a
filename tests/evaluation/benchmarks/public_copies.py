"""Small local copies of the public sets, with the columns of their cards."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def write(folder: Path, name: str, rows: list[dict]) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), file)
    elif file.suffix == ".tsv":
        lines = [list(rows[0]), *(list(map(str, row.values())) for row in rows)]
        file.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")
    else:
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def location(start, end):
    return {"char_start": start, "char_end": end}


NLI = [{"premise": f"p{i}", "hypothesis": f"h{i}", "label": i} for i in range(3)]


FLORES = {"glottocode": "x", "url": "u", "domain": "d", "topic": "t"}


XLWIC = {
    "id": "1",
    "context_1": "ein Tor",
    "context_2": "das Tor",
    "target_word": "Tor",
    "pos": "N",
    "target_word_location_1": location(4, 7),
    "target_word_location_2": location(4, 7),
    "language": "DE",
    "label": 1,
}


WIC = {
    "word": "bank",
    "sentence1": "the bank",
    "sentence2": "a bank",
    "start1": 4,
    "start2": 2,
    "end1": 8,
    "end2": 6,
    "idx": 0,
}


BELEBELE = {
    "link": "http://l",
    "question_number": 2,
    "flores_passage": "Ein Text.",
    "question": "Was?",
    "mc_answer1": "a",
    "mc_answer2": "b",
    "mc_answer3": "c",
    "mc_answer4": "d",
    "correct_answer_num": "3",
    "dialect": "deu_Latn",
    "ds": "2023",
}


MASSIVE = {
    "id": "0",
    "locale": "de-DE",
    "partition": "test",
    "utt": "weck mich um neun uhr auf",
    "annot_utt": "weck mich um [time : neun uhr] auf",
}


BOUQUET = {
    "uniq_id": "P1-S1",
    "level": "sentence_level",
    "domain": "d",
    "src_lang": "nld_Latn",
    "src_text": "Hoi",
    "tgt_lang": "eng_Latn",
    "tgt_text": "Hi",
}


# set -> (files, the split asked for, the rows that must come)
COPIES = {
    "flores_plus": (
        {
            "devtest.parquet": [
                {"id": 7, "iso_639_3": "cmn", "iso_15924": "Hans", "text": "你好", **FLORES},
                {"id": 7, "iso_639_3": "fil", "iso_15924": "Latn", "text": "Kumusta", **FLORES},
            ],
            "dev.parquet": [{"id": 1, "iso_639_3": "deu", "iso_15924": "Latn", "text": "x", **FLORES}],
        },
        None,
        [{"lang": "zho_Hans", "id": 7, "text": "你好"}, {"lang": "tgl_Latn", "id": 7, "text": "Kumusta"}],
    ),
    "sib200": (
        {
            "deu_Latn/test.tsv": [{"index_id": 3, "category": "travel", "text": "Hallo"}],
            "deu_Latn/dev.tsv": [{"index_id": 4, "category": "sports", "text": "Ball"}],
        },
        "validation",
        [{"lang": "deu_Latn", "id": "4", "text": "Ball", "label": "sports"}],
    ),
    "tatoeba": (
        {"test.jsonl": [{"sentence1": "Hallo", "sentence2": "Hello", "lang": "deu-eng"}]},
        None,
        [{"source_lang": "deu_Latn", "target_lang": "eng_Latn", "source": "Hallo", "target": "Hello"}],
    ),
    "bucc": (
        {"zh-en.jsonl": [{"sentence1": "你好", "sentence2": "Hello"}]},
        None,
        [{"source_lang": "zho_Hans", "target_lang": "eng_Latn", "source": "你好", "target": "Hello"}],
    ),
    "xnli": (
        {"de/test-00000-of-00001.parquet": NLI},
        None,
        [
            {"lang": "deu_Latn", "text1": "p0", "text2": "h0", "label": 1},
            {"lang": "deu_Latn", "text1": "p2", "text2": "h2", "label": 0},
        ],
    ),
    "sts17": (
        {"test.jsonl": [{"sentence1": "Ja", "sentence2": "Yes", "score": 4.5, "lang": "en-de"}]},
        None,
        [{"lang1": "eng_Latn", "lang2": "deu_Latn", "text1": "Ja", "text2": "Yes", "score": 4.5}],
    ),
    "massive_slots": (
        {"test.jsonl": [MASSIVE, MASSIVE | {"locale": "ja-JP", "annot_utt": "[time : 九時] に"}]},
        None,
        [
            {
                "lang": "deu_Latn",
                "tokens": "weck mich um neun uhr auf".split(),
                "tags": ["O", "O", "O", "B-time", "I-time", "O"],
            },
            {"lang": "jpn_Jpan", "tokens": ["九", "時", "に"], "tags": ["B-time", "I-time", "O"]},
        ],
    ),
    "panx": (
        {"als/test.parquet": [{"tokens": ["z'", "Bern"], "ner_tags": [0, 5], "langs": ["als", "als"], "spans": ["x"]}]},
        None,
        [{"lang": "gsw_Latn", "tokens": ["z'", "Bern"], "tags": ["O", "B-LOC"]}],
    ),
    "wic": (
        {"validation.parquet": [WIC | {"label": 1}, WIC | {"label": -1}]},
        None,
        [{"lang": "eng_Latn", **{k: v for k, v in WIC.items() if k not in ("word", "idx")}, "label": 1}],
    ),
    "xlwic": (
        {"xlwic_en_de/test.parquet": [XLWIC]},
        None,
        [
            {
                "lang": "deu_Latn",
                "sentence1": "ein Tor",
                "start1": 4,
                "end1": 7,
                "sentence2": "das Tor",
                "start2": 4,
                "end2": 7,
                "label": 1,
            }
        ],
    ),
    "xlwa": (
        {"it/test.tsv": "A cat .\tUn gatto .\t0-0 1-1  2-2\t\t\n"},
        None,
        [
            {
                "src_lang": "eng_Latn",
                "tgt_lang": "ita_Latn",
                "src_tokens": ["A", "cat", "."],
                "tgt_tokens": ["Un", "gatto", "."],
                "alignment": "0-0 1-1 2-2",
            }
        ],
    ),
    "xlcost": (  # as metadata/codesearch/README.md of its repository describes the files
        {
            "snippet_level/Python/test.jsonl": [
                {
                    "idx": "9359-Python-1/9359-C#-1",
                    "docstring_tokens": "if a : NEW_LINE INDENT b ( ) NEW_LINE DEDENT c ( ) NEW_LINE".split(),
                    "code_tokens": "b ( ) ; NEW_LINE".split(),
                    "url": "9359-Python-1/9359-C#-1",
                }
            ],
            "snippet_level/C/val.jsonl": [
                {"idx": "1-C-1/1-Java-1", "docstring_tokens": ["x"], "code_tokens": ["y"], "url": "1-C-1/1-Java-1"}
            ],
        },
        None,
        [{"source_lang": "python", "target_lang": "csharp", "source": "if a :\n    b ( )\nc ( )", "target": "b ( ) ;"}],
    ),
    "gmmlu": (
        {
            f"{lang}/{split}-00000-of-00001.parquet": [
                {
                    "sample_id": f"abstract_algebra/{split}/0",
                    "subject": "abstract_algebra",
                    "subject_category": "STEM",
                    "question": question,
                    **{f"option_{letter}": letter for letter in "abcd"},
                    "answer": "B",
                    "required_knowledge": "[]",
                    "cultural_sensitivity_label": "-",
                    "is_annotated": False,
                }
            ]
            for lang, question in (("en", "Find the degree."), ("fil", "Hanapin ang antas."))
            for split in ("dev", "test")
        },
        None,
        [
            {"lang": "eng_Latn", "id": "abstract_algebra/test/0", "text": "Find the degree."},
            {"lang": "tgl_Latn", "id": "abstract_algebra/test/0", "text": "Hanapin ang antas."},
        ],
    ),
    "belebele": (
        {"deu_Latn.jsonl": [BELEBELE]},
        None,
        [
            {
                "lang": "deu_Latn",
                "id": "http://l#2",
                "text": "Was?",
                "passage": "Ein Text.",
                "correct": "3",
                "answers": ["a", "b", "c", "d"],
            }
        ],
    ),
    "bouquet": (
        {
            "nld_Latn/test.parquet": [BOUQUET, BOUQUET | {"level": "paragraph_level", "uniq_id": "P1"}],
            "eng_Latn/dev.parquet": [BOUQUET | {"src_lang": "eng_Latn"}],
        },
        None,
        [{"lang": "nld_Latn", "id": "P1-S1", "text": "Hoi"}],
    ),
    "afrolingu_mt": (
        {
            "test.jsonl": [
                {"langcode": "ewe-fra", "instruction": "i", "input": "Akpe", "output": "Merci"},
                {"langcode": "eng-yor", "instruction": "i", "input": "Tea", "output": "Tii"},
            ]
        },
        None,
        [
            {"source_lang": "ewe_Latn", "target_lang": "fra_Latn", "source": "Akpe", "target": "Merci"},
            {"source_lang": "eng_Latn", "target_lang": "yor_Latn", "source": "Tea", "target": "Tii"},
        ],
    ),
}


def copy(name: str, folder: Path) -> Path:
    for file, rows in COPIES[name][0].items():
        if isinstance(rows, str):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(rows, encoding="utf-8")
        else:
            write(folder, file, rows)
    return folder
