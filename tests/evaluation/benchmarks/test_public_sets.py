"""Small local copies of the public sets, with the columns of their cards, and a Hub on the loopback interface."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_echo.evaluation import evaluate_xsim, pairs_as_nway, translation_scores
from hf_echo.evaluation.benchmarks.public_sets import load_benchmark
from hf_echo.evaluation.benchmarks.public_tables import SETS
from hf_echo.evaluation.probes.downstream import (
    evaluate_classification,
    evaluate_pair_classification,
    evaluate_similarity,
)
from hf_echo.evaluation.tokens.alignment_data import read_alignment


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
    "ntrex": (
        {"test.parquet": [{"deu_Latn": "Hallo", "fas_Arab": "سلام"}, {"deu_Latn": "Ja", "fas_Arab": "بله"}]},
        None,
        [
            {"id": i, "lang": lang, "text": text}
            for i, lang, text in (
                (1, "deu_Latn", "Hallo"),
                (1, "pes_Arab", "سلام"),
                (2, "deu_Latn", "Ja"),
                (2, "pes_Arab", "بله"),
            )
        ],
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
    "massive_intent": (
        {"test.jsonl": [{"id": "9", "label": "alarm_set", "label_text": "alarm_set", "text": "醒", "lang": "zh-TW"}]},
        None,
        [{"lang": "zho_Hant", "id": "9", "text": "醒", "label": "alarm_set"}],
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
    "xlcost": (
        {"C++-program-level/test.parquet": [{"text": "add | add a b", "code": "int add();"}]},
        None,
        [{"source_lang": "eng_Latn", "target_lang": "cpp", "source": "add | add a b", "target": "int add();"}],
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
    "iwslt2017": (
        {"iwslt2017-de-en/validation.parquet": [{"translation": {"de": "Hallo", "en": "Hello"}}]},
        "validation",
        [{"source_lang": "deu_Latn", "target_lang": "eng_Latn", "source": "Hallo", "target": "Hello"}],
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
    "taxi1500": (
        {"deu_Latn/test.tsv": "id\tlabel\tverse\n55002024\tSin\tEin Vers .\n"},
        None,
        [{"lang": "deu_Latn", "id": "55002024", "text": "Ein Vers .", "label": "Sin"}],
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


def test_every_set_has_a_copy():
    assert set(COPIES) == set(SETS)


@pytest.mark.parametrize("name", SETS)
def test_columns(name, tmp_path):
    _, split, expected = COPIES[name]
    assert load_benchmark(name, path=copy(name, tmp_path), split=split) == expected


def embed(texts, lang):
    """A vector a text by its letters, the same in all languages."""
    rows = [np.bincount([ord(c) % 61 for c in text.lower()], minlength=61) for text in texts]
    return np.array(rows, dtype=np.float32) + 0.01


def test_rows_feed_the_evaluations(tmp_path):
    pytest.importorskip("sklearn")
    words = ["alpha", "bravo", "kilo", "sierra"]
    rows = [{w: t for w, t in zip(("deu_Latn", "eng_Latn"), (x, x + "."))} for x in words]
    write(tmp_path / "ntrex", "test.parquet", rows)
    assert (
        evaluate_xsim(embed, load_benchmark("ntrex", path=tmp_path / "ntrex")).rows[0].items()
        >= {
            "lang": "deu_Latn",
            "count": 4,
            "xsim": 0.0,
        }.items()
    )
    pairs = load_benchmark("iwslt2017", path=copy("iwslt2017", tmp_path / "iwslt"), split="validation")
    assert evaluate_xsim(embed, pairs_as_nway(pairs)).rows[0]["lang"] == "deu_Latn"
    scores = translation_scores([r["target"] for r in pairs], [r["target"] for r in pairs], spbleu=False)
    assert scores.chrf == 100
    topics = [
        {"index_id": i, "category": c, "text": t}
        for i, (c, t) in enumerate([("a", "aaaa"), ("b", "zzzz"), ("a", "aaa"), ("b", "zzz")])
    ]
    for part in ("train", "test"):
        write(tmp_path / "sib", f"deu_Latn/{part}.tsv", topics)
    train, test = (load_benchmark("sib200", path=tmp_path / "sib", split=part) for part in ("train", "test"))
    assert evaluate_classification(embed, train, test).rows == [{"lang": "deu_Latn", "count": 4, "accuracy": 100.0}]
    nli = [{"premise": "abc", "hypothesis": h, "label": label} for h, label in (("abc", 0), ("xyz", 2), ("q", 1))]
    write(tmp_path / "xnli", "fr/test.parquet", nli)
    found = evaluate_pair_classification(embed, load_benchmark("xnli", path=tmp_path / "xnli"))
    assert found.rows == [{"lang": "fra_Latn", "count": 2, "average_precision": 100.0}]
    sts = [
        {"sentence1": "abc", "sentence2": t, "score": s, "lang": "fr-en"}
        for t, s in (("abc", 5.0), ("abx", 3.0), ("xyz", 0.0))
    ]
    write(tmp_path / "sts", "test.jsonl", sts)
    found = evaluate_similarity(embed, load_benchmark("sts17", path=tmp_path / "sts")).rows[0]
    assert found["lang"] == "fra_Latn-eng_Latn" and found["spearman"] == pytest.approx(100)
    row = load_benchmark("xlwa", path=copy("xlwa", tmp_path / "xlwa"))[0]
    assert read_alignment(row, "row 1").sure == {(0, 0), (1, 1), (2, 2)}


def test_languages_are_chosen(tmp_path):
    for code in ("de", "fr", "zh-classical"):
        rows = [{"tokens": [code], "ner_tags": [1], "langs": [code]}]
        write(tmp_path, f"{code}/test.parquet", rows)
    found = load_benchmark("panx", path=tmp_path, langs=["German"])
    assert [row["lang"] for row in found] == ["deu_Latn"]
    with pytest.raises(ValueError, match="has no test rows in ita_Latn; found deu_Latn, fra_Latn"):
        load_benchmark("panx", path=tmp_path, langs=["deu_Latn", "ita_Latn"])
    rows = [{"sentence1": "a", "sentence2": "b", "score": 1.0, "lang": pair} for pair in ("en-de", "en-en", "nl-en")]
    write(tmp_path / "sts", "test.jsonl", rows)
    found = load_benchmark("sts17", path=tmp_path / "sts", langs=["nld_Latn"])
    assert [(row["lang1"], row["lang2"]) for row in found] == [("nld_Latn", "eng_Latn")]


def test_one_file_with_its_language_given(tmp_path):
    file = write(
        tmp_path,
        "mine.jsonl",
        [
            {"tokens": ["Bern"], "ner_tags": ["B-LOC"], "split": "test"},
            {"tokens": ["Ulm"], "ner_tags": ["B-LOC"], "split": "dev"},
        ],
    )
    assert [r["tokens"] for r in load_benchmark("panx", path=file, langs=["deu_Latn"])] == [["Bern"]]
    with pytest.raises(ValueError, match="unknown language; add a column lang"):
        load_benchmark("panx", path=file)


@pytest.mark.parametrize(
    ("name", "file", "rows", "options", "words"),
    [
        ("flores", "x.jsonl", [{}], {}, "unknown set 'flores'; choose from flores_plus, sib200"),
        ("sts17", "test.jsonl", [{}], {"split": "train"}, "sts17 has no split 'train'; choose from test"),
        (
            "xnli",
            "de/test.jsonl",
            [{"premise": "a", "label": 1}],
            {},
            "has no column hypothesis of xnli; found label, premise",
        ),
        ("xnli", "de/test.jsonl", [NLI[0], NLI[0] | {"premise": ""}], {}, r"test.jsonl:2 \(de\): premise is empty"),
        (
            "ntrex",
            "test.jsonl",
            [{"de": "x"}],
            {},
            r"no column with a language code as name \(such as deu_Latn\); found de",
        ),
        (
            "iwslt2017",
            "test.jsonl",
            [{"translation": {"de": "x", "en": "y"}}],
            {},
            "name the file or folder with the two languages",
        ),
        ("xlwa", "it/test.jsonl", [{"source": "a"}], {}, "has no column target, alignment of xlwa; found source"),
    ],
)
def test_bad_input_is_told_in_one_line(name, file, rows, options, words, tmp_path):
    write(tmp_path, file, rows)
    with pytest.raises(ValueError, match=words) as error:
        load_benchmark(name, path=tmp_path, **options)
    assert "\n" not in str(error.value)


def test_what_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        load_benchmark("xnli", path=tmp_path / "none")
    write(tmp_path, "de/train.parquet", NLI)
    with pytest.raises(FileNotFoundError, match="no file of split 'test'; it has train"):
        load_benchmark("xnli", path=tmp_path)
    for name, place in (("xlwa", "SapienzaNLP/XL-WA"), ("taxi1500", "cisnlp/Taxi1500")):
        with pytest.raises(ValueError, match=f"{name} is not on the Hub: download github.com/{place}"):
            load_benchmark(name)
    (tmp_path / "it").mkdir()
    (tmp_path / "it" / "test.tsv").write_text("a\tb\n", encoding="utf-8")
    with pytest.raises(ValueError, match="test.tsv:1: 2 fields, expected 3"):
        load_benchmark("xlwa", path=tmp_path / "it")


SCRIPT = """
import json, sys
from hf_echo.evaluation.benchmarks.public_sets import load_benchmark
results = []
for call in json.load(sys.stdin):
    try:
        results.append(load_benchmark(**call))
    except (ValueError, FileNotFoundError) as error:
        results.append(f"{type(error).__name__}: {error}")
print(json.dumps(results))
"""
CALLS = {
    "xnli": {"name": "xnli", "langs": ["deu_Latn"]},
    "ntrex": {"name": "ntrex"},
    "iwslt": {"name": "iwslt2017", "langs": ["fra_Latn"], "split": "validation"},
    "wic": {"name": "wic"},
    "mirror": {"name": "xnli", "repo": "tester/mirror"},
    "absent": {"name": "sib200"},
    "language": {"name": "xnli", "langs": ["jpn_Jpan"]},
}


def on_the_hub(tmp_path: Path) -> dict[str, dict[str, bytes]]:
    def parquet(rows):
        return write(tmp_path, "x.parquet", rows).read_bytes()

    card = "---\nconfigs:\n" + "".join(
        f"- config_name: {c}\n  data_files:\n  - split: test\n    path: {c}/test.parquet\n"
        for c in ("all_languages", "de", "fr")
    )
    french = [{"translation": {"fr": "Salut", "en": "Hi"}}]
    german = [{"translation": {"de": "Hallo", "en": "Hello"}}]
    return {
        "facebook/xnli": {
            "README.md": (card + "---\n").encode(),
            **{f"{c}/test.parquet": parquet(NLI) for c in ("de", "fr")},
            "all_languages/test.parquet": parquet([{"premise": {"de": "x"}}]),
        },
        "mteb/NTREX": {"test.parquet": parquet(COPIES["ntrex"][0]["test.parquet"])},
        "IWSLT/iwslt2017": {
            "iwslt2017-fr-en/validation/0000.parquet": parquet(french),
            "iwslt2017-de-en/validation/0000.parquet": parquet(german),
        },
        "aps/super_glue": {"wic/validation/0000.parquet": parquet(COPIES["wic"][0]["validation.parquet"])},
        "tester/mirror": {"test.parquet": parquet(NLI)},
    }


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    module = runpy.run_path(str(Path(__file__).parents[2] / "data" / "test_hub.py"))
    module["REPOS"].clear()
    module["REPOS"].update(on_the_hub(tmp_path_factory.mktemp("files")))

    class Hub(module["Hub"]):
        """Nested paths and the Hub's own Parquet branch, too."""

        def do_GET(self):
            self.path = unquote(self.path.replace("refs%2Fconvert%2Fparquet", "converted"))
            super().do_GET()

        do_HEAD = do_POST = do_GET

    return module["ask"](Hub, SCRIPT, CALLS, tmp_path_factory.mktemp("home"))[0]


def test_from_the_hub(answers):
    assert answers["xnli"] == COPIES["xnli"][2]
    assert answers["ntrex"] == COPIES["ntrex"][2]
    assert answers["wic"] == COPIES["wic"][2]
    french = {"source_lang": "fra_Latn", "target_lang": "eng_Latn", "source": "Salut", "target": "Hi"}
    assert answers["iwslt"] == [french]


def test_hub_errors_name_the_repository_and_the_way_out(answers):
    assert answers["absent"].startswith("FileNotFoundError: sib200: Davlan/sib200 does not exist on the Hub")
    assert "give path=" in answers["absent"] and "\n" not in answers["absent"]
    assert "tester/mirror cannot be read (no configuration of one language" in answers["mirror"]
    assert answers["language"].startswith("ValueError: facebook/xnli has no test rows in jpn_Jpan; found ")
