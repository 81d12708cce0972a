"""Small local copies of the public sets with the columns of their cards,
and a Hub on the loopback interface."""

import io
import json
from pathlib import Path

import pytest
from datasets import Dataset

from hf_echo.evaluation.benchmarks.public_sets import SETS, load_benchmark

from ...processes import SCRIPTS, python
from ...refusals import refuses

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))


def write(folder: Path, name: str, rows: list[dict] | str) -> Path:
    """Write rows as the kind of file that the name says."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(rows, str):
        file.write_text(rows, encoding="utf-8")
        return file
    table = Dataset.from_list(rows)
    if file.suffix == ".parquet":
        table.to_parquet(file)
    else:
        table.to_json(file, force_ascii=False)
    return file


def question(code, text, split="test"):
    file = f"{code}/{split}-00000-of-00001.parquet"
    return {
        file: [
            {
                "sample_id": f"algebra/{split}/0",
                "subject": "algebra",
                "question": text,
                "answer": "B",
            }
        ]
    }


WIC = {
    "sentence1": "the bank",
    "start1": 4,
    "end1": 8,
    "sentence2": "a bank",
    "start2": 2,
    "end2": 6,
}
PLACE = {"char_start": 4, "char_end": 7}
XLWIC = {
    "context_1": "ein Tor",
    "context_2": "das Tor",
    "language": "DE",
    "label": 1,
    "target_word_location_1": PLACE,
    "target_word_location_2": PLACE,
}
FLORES = {"id": 7, "iso_639_3": "deu", "iso_15924": "Latn", "text": "x", "domain": "d"}
MASSIVE = {"id": "0", "locale": "de-DE", "annot_utt": "weck mich um [time : neun uhr] auf"}
BOUQUET = {
    "uniq_id": "P1-S1",
    "par_id": "P1",
    "level": "sentence_level",
    "src_lang": "nld_Latn",
    "src_text": "Hoi",
    "tgt_lang": "eng_Latn",
    "tgt_text": "Hi",
    "domain": "chat",
}
# Columns as in the sets' cards and in the code of their authors; the sentences are ours.
BELEBELE = {
    "link": "https://a.b/cat",
    "question_number": 1,
    "flores_passage": "Le chat est sur le tapis.",
    "question": "Où est le chat ?",
    "mc_answer1": "dehors",
    "mc_answer2": "sur le tapis",
    "mc_answer3": "là",
    "mc_answer4": "loin",
    "correct_answer_num": "2",
    "dialect": "fra_Latn",
    "ds": "2023-05-03",
}
BELEBELE_ENGLISH = BELEBELE | {
    "question": "Where is the cat?",
    "mc_answer1": "outside",
    "mc_answer2": "on the mat",
    "mc_answer3": "there",
    "mc_answer4": "far",
    "dialect": "eng_Latn",
    "flores_passage": "The cat is on the mat.",
}
CLIP = {"audio": {"wav": [0.0, 0.5], "sampling_rate": 16000}}
SPOKEN = BELEBELE | {
    "flores_sentences": ["Le chat est sur le tapis."],
    "audio_segments": [[CLIP, CLIP]],
}
HELLASWAG = {
    "ind": 24,
    "activity_label": "Cooking",
    "ctx_a": "A man cuts bread.",
    "ctx_b": "he",
    "ctx": "A man cuts bread. he",
    "endings": ["eats it.", "flies.", "sings.", "sleeps."],
    "label": "0",
    "source_id": "activitynet~v_1",
    "split": "val",
    "split_type": "indomain",
}
PROGRAM = [
    "if",
    "a",
    ":",
    "NEW_LINE",
    "INDENT",
    "b",
    "(",
    ")",
    "NEW_LINE",
    "DEDENT",
    "c",
    "(",
    ")",
    "NEW_LINE",
]

# set -> (files, the rows that must come of the test split, and of WIC the validation split)
COPIES = {
    "flores200": (
        {
            "devtest/zho_Hans.devtest": "你好\n再见\n",
            "devtest/fra_Latn.devtest": "Salut\nAdieu\n",
            "dev/fra_Latn.dev": "Non\n",
            "metadata_devtest.tsv": "URL\tdomain\n",
        },
        [
            {"lang": "fra_Latn", "id": 1, "text": "Salut"},
            {"lang": "fra_Latn", "id": 2, "text": "Adieu"},
            {"lang": "zho_Hans", "id": 1, "text": "你好"},
            {"lang": "zho_Hans", "id": 2, "text": "再见"},
        ],
    ),
    "flores_plus": (
        {
            "devtest/cat_Latn_vale1252.parquet": [FLORES | {"iso_639_3": "cat", "text": "Hui"}],
            "devtest/cmn_Hans.parquet": [
                FLORES | {"iso_639_3": "cmn", "iso_15924": "Hans", "text": "你好"}
            ],
            "devtest/fil_Latn.parquet": [FLORES | {"iso_639_3": "fil", "text": "Kumusta"}],
            "dev/deu_Latn.parquet": [FLORES],
        },
        [
            # A variety keeps its own code: with iso_639_3 and iso_15924 alone it would be a second
            # Catalan.
            {"lang": "cat_Latn_vale1252", "id": 7, "text": "Hui"},
            {"lang": "zho_Hans", "id": 7, "text": "你好"},
            {"lang": "tgl_Latn", "id": 7, "text": "Kumusta"},
        ],
    ),
    "gmmlu": (
        question("en", "Find the degree.")
        | question("fil", "Hanapin ang antas.")
        | question("en", "No.", "dev"),
        [
            {"lang": "eng_Latn", "id": "algebra/test/0", "text": "Find the degree."},
            {"lang": "tgl_Latn", "id": "algebra/test/0", "text": "Hanapin ang antas."},
        ],
    ),
    "bouquet": (
        {
            "data/sentence_level/test/nld_Latn.parquet": [BOUQUET],
            "data/sentence_level/dev/eng_Latn.parquet": [BOUQUET | {"src_lang": "eng_Latn"}],
            "data/paragraph_level/test/nld_Latn.parquet": [
                BOUQUET | {"level": "paragraph_level", "uniq_id": "P1"}
            ],
            "benchmark_data/sentence_level/test/nld_Latn-eng_Latn.parquet": [
                {"source": "Hoi", "target": "Hi"}
            ],
        },
        [{"lang": "nld_Latn", "id": "P1-S1", "text": "Hoi"}],
    ),
    "afrolingu_mt": (
        {
            "test.jsonl": [
                {"langcode": "ewe-fra", "instruction": "i", "input": "Akpe", "output": "Merci"}
            ]
        },
        [
            {
                "source_lang": "ewe_Latn",
                "target_lang": "fra_Latn",
                "source": "Akpe",
                "target": "Merci",
            }
        ],
    ),
    "xlcost": (  # as metadata/codesearch/README.md of its repository describes the files
        {
            "snippet_level/Python/test.jsonl": [
                {
                    "idx": "9-Python-1/9-C#-1",
                    "docstring_tokens": PROGRAM,
                    "code_tokens": ["b", "(", ")", ";", "NEW_LINE"],
                }
            ],
            "snippet_level/C/val.jsonl": [
                {"idx": "1-C-1/1-Java-1", "docstring_tokens": ["x"], "code_tokens": ["y"]}
            ],
        },
        [
            {
                "source_lang": "python",
                "target_lang": "csharp",
                "source": "if a :\n    b ( )\nc ( )",
                "target": "b ( ) ;",
            }
        ],
    ),
    "massive_slots": (
        {
            "de-DE/test.jsonl": [MASSIVE],
            "en-US/test.jsonl": [MASSIVE | {"locale": "en-US", "annot_utt": "up"}],
            "ja-JP/test.jsonl": [MASSIVE | {"locale": "ja-JP", "annot_utt": "[time : 九時] に"}],
            "all_1.1/test.jsonl": [MASSIVE],
        },
        [
            {
                "lang": "deu_Latn",
                "tokens": ["weck", "mich", "um", "neun", "uhr", "auf"],
                "tags": ["O", "O", "O", "B-time", "I-time", "O"],
            },
            {"lang": "eng_Latn", "tokens": ["up"], "tags": ["O"]},
            {"lang": "jpn_Jpan", "tokens": ["九", "時", "に"], "tags": ["B-time", "I-time", "O"]},
        ],
    ),
    "panx": (
        {
            "als/test.parquet": [
                {"tokens": ["z'", "Bern"], "ner_tags": [0, 5], "langs": ["als", "als"]}
            ]
        },
        [{"lang": "gsw_Latn", "tokens": ["z'", "Bern"], "tags": ["O", "B-LOC"]}],
    ),
    "wic": (
        {
            "wic/validation.parquet": [
                WIC | {"word": "bank", "label": 1},
                WIC | {"word": "bank", "label": -1},
            ]
        },
        [{"lang": "eng_Latn", **WIC, "label": 1}],
    ),
    "xlwic": (
        {"xlwic_en_de/test.parquet": [XLWIC]},
        [
            {"lang": "deu_Latn", "sentence1": "ein Tor", "start1": 4, "end1": 7, "label": 1}
            | {"sentence2": "das Tor", "start2": 4, "end2": 7}
        ],
    ),
    "belebele": (
        {"data/eng_Latn.jsonl": [BELEBELE_ENGLISH], "data/fra_Latn.jsonl": [BELEBELE]},
        [
            {
                "id": "https://a.b/cat#1",
                "lang": "eng_Latn",
                "document": "The cat is on the mat.",
                "question": "Where is the cat?",
                "options": ["outside", "on the mat", "there", "far"],
                "answer": 1,
            },
            {
                "id": "https://a.b/cat#1",
                "lang": "fra_Latn",
                "document": "Le chat est sur le tapis.",
                "question": "Où est le chat ?",
                "options": ["dehors", "sur le tapis", "là", "loin"],
                "answer": 1,
            },
        ],
    ),
    "speech_belebele": (
        {"data/lang=fra_Latn/fra_Latn.parquet": [SPOKEN]},
        [
            {
                "id": "https://a.b/cat#1",
                "lang": "fra_Latn",
                "document": [{"array": [0.0, 0.5], "sampling_rate": 16000}],
                "question": "Où est le chat ?",
                "options": ["dehors", "sur le tapis", "là", "loin"],
                "answer": 1,
                "spoken_texts": ["Le chat est sur le tapis."],
            }
        ],
    ),
    "hellaswag": (  # the results are those of val; labels of test are hidden
        {"data/en/val.jsonl": [HELLASWAG], "data/en/test.jsonl": [HELLASWAG | {"label": ""}]},
        [
            {
                "id": "24",
                "lang": "eng_Latn",
                "document": "A man cuts bread. he",
                "question": "",
                "options": ["eats it.", "flies.", "sings.", "sleeps."],
                "answer": 0,
            }
        ],
    ),
    "sib200": (
        {
            "data/fra_Latn/test.tsv": 'index_id\tcategory\ttext\n5\tsports\tIl "court".\n',
            "data/fra_Latn/dev.tsv": "index_id\tcategory\ttext\n6\ttravel\tNon.\n",
        },
        [{"id": "5", "lang": "fra_Latn", "text": 'Il "court".', "label": "sports"}],
    ),
    "taxi1500": (
        {
            "eng_data/eng_test.tsv": "41001001\tFaith\tBelieve it .\n41001002\tSin\tHe stole .\n",
            "eng_data/eng_train.tsv": "41001003\tGrace\tKind .\n",
            "Taxi1500-c_v3.0/fra-x-bible-own.txt": "# title:\tBible\n41001001\tCrois .\n41001003\tBon .\n41001002\t\n",
            "Taxi1500-c_v3.0/aak_aak.ebible.txt": "41001002\tAik .\n",
        },
        [
            {
                "id": "eng_test:41001001",
                "lang": "eng_Latn",
                "text": "Believe it .",
                "label": "Faith",
            },
            {"id": "eng_test:41001002", "lang": "eng_Latn", "text": "He stole .", "label": "Sin"},
            {"id": "aak_aak.ebible:41001002", "lang": "aak", "text": "Aik .", "label": "Sin"},
            {
                "id": "fra-x-bible-own:41001001",
                "lang": "fra_Latn",
                "text": "Crois .",
                "label": "Faith",
            },
        ],
    ),
}


def copy(name: str, folder: Path) -> Path:
    for file, rows in COPIES[name][0].items():
        write(folder, file, rows)
    return folder


@pytest.mark.parametrize("name", COPIES)
def test_columns(name, tmp_path):
    split = "validation" if name == "wic" else None
    assert load_benchmark(name, path=copy(name, tmp_path), split=split) == COPIES[name][1]


def test_every_set_has_a_copy():
    assert {*COPIES, "spoken_story_cloze"} == set(SETS)


STORY = {
    "mutual.wav": "RIFF",
    "correct.txt": "Then he ate.\n",
    "incorrect.txt": "Then it flew.\n",
    "mutual.txt": "He cut.",
}


@pytest.fixture
def stories(tmp_path: Path) -> Path:
    """A story of either kind; the second has no text."""
    for name in ("sSC/1_ab", "tSC/1_ab"):
        for part, content in STORY.items():
            write(tmp_path, f"{name}_{part}", content)
    (tmp_path / "tSC/1_ab_mutual.txt").unlink()
    return tmp_path


def test_spoken_stories_have_their_text(stories):
    first, second = load_benchmark("spoken_story_cloze", path=stories)

    assert first["document"] == [str(stories / "sSC/1_ab_mutual.wav")]
    assert first["spoken_texts"] == ["He cut."]
    assert "spoken_texts" not in second


def test_the_right_ending_is_not_always_the_same_option(stories):
    first, second = load_benchmark("spoken_story_cloze", path=stories)

    assert first["options"][0] == second["options"][1] == "Then he ate."
    assert first["answer"] == 0
    assert second["answer"] == 1


def test_stories_of_one_kind(stories):
    (row,) = load_benchmark("spoken_story_cloze", path=stories, split="topic")

    assert row["id"] == "tSC/1_ab"


def test_a_story_without_an_ending_is_named(stories):
    (stories / "sSC/1_ab_incorrect.txt").unlink()

    refuses(
        "story sSC/1_ab has no sSC/1_ab_incorrect.txt",
        load_benchmark,
        "spoken_story_cloze",
        path=stories,
    )


def test_one_language_of_many_files_is_read(tmp_path):
    folder = copy("belebele", tmp_path)
    write(folder, "data/deu_Latn.jsonl", "no JSON\n")  # is not opened

    rows = load_benchmark("belebele", path=folder, langs=["French"])

    assert [row["lang"] for row in rows] == ["fra_Latn"]


def test_the_languages_that_are_there_are_named(tmp_path):
    folder = copy("belebele", tmp_path)

    refuses(
        "no test rows in swh_Latn; found eng_Latn, fra_Latn",
        load_benchmark,
        "belebele",
        path=folder,
        langs=["swh"],
    )


def bad(name: str, file: str, content, message: str):
    return pytest.param(name, file, content, message, id=f"{name}: {message[:40]}")


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [
        bad(
            "belebele",
            "fra_Latn.jsonl",
            [BELEBELE | {"correct_answer_num": "5"}],
            "row 1: correct_answer_num is '5'",
        ),
        bad(
            "belebele",
            "fra_Latn.jsonl",
            [BELEBELE, BELEBELE | {"mc_answer3": " "}],
            "row 2: mc_answer3 is ' '",
        ),
        bad("belebele", "fra_Latn.jsonl", "{}\n", "row 1: no column 'mc_answer1'"),
        bad("belebele", "fra_Latn.jsonl", "\n{\n", "row 2: no JSON"),
        bad(
            "hellaswag",
            "en/val.jsonl",
            [HELLASWAG | {"label": "4"}],
            "row 1: label is '4' instead of 0 to 3",
        ),
        bad(
            "sib200",
            "fra_Latn/test.tsv",
            "index_id\tcategory\ttext\n5\tmusic\tx\n",
            "row 1: the topic is 'music'",
        ),
        bad(
            "taxi1500",
            "eng_test.tsv",
            "1\tSin\ta\n2\tJoy\tb\n",
            "eng_test.tsv, row 2: the topic is 'Joy'",
        ),
        bad("taxi1500", "eng_test.tsv", "1\tSin\n", "eng_test.tsv, row 1: 2 columns instead of 3"),
        bad(
            "taxi1500",
            "fra_test.tsv",
            "1\tSin\ta\n",
            "no file of split 'test', eng_data/eng_test.tsv",
        ),
        bad("spoken_story_cloze", "a.wav", "x", "has no story such as"),
    ],
)
def test_a_bad_row_is_named(name, file, content, message, tmp_path):
    write(tmp_path, file, content)
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        load_benchmark(name, path=tmp_path)
    assert message in str(caught.value)


@pytest.fixture
def panx(tmp_path: Path) -> Path:
    for code in ("de", "fr", "zh-classical"):
        write(tmp_path, f"{code}/test.parquet", [{"tokens": [code], "ner_tags": [1]}])
    return tmp_path


@pytest.mark.parametrize(
    ("asked", "languages"),
    [(["German"], ["deu_Latn"]), (None, ["deu_Latn", "fra_Latn", "zh-classical"])],
)
def test_languages_are_chosen(panx, asked, languages):
    rows = load_benchmark("panx", path=panx, langs=asked)

    assert [row["lang"] for row in rows] == languages


def test_a_language_without_rows_is_named(panx):
    message = "has no test rows in ita_Latn; found deu_Latn, fra_Latn"

    refuses(message, load_benchmark, "panx", path=panx, langs=["deu_Latn", "ita_Latn"])


def test_pairs_of_a_language_with_english_are_chosen(tmp_path):
    rows = [{"langcode": pair, "input": "a", "output": "b"} for pair in ("eng-yor", "ewe-fra")]
    write(tmp_path, "test.jsonl", rows)

    (row,) = load_benchmark("afrolingu_mt", path=tmp_path, langs=["yor_Latn"])

    assert row["source_lang"] == "eng_Latn"
    assert row["target_lang"] == "yor_Latn"


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("flores", {}, "unknown set 'flores'; choose from flores200, flores_plus, gmmlu"),
        ("flores200", {}, "flores200 is not on the Hub: download flores200_dataset.tar.gz"),
        (
            "flores200",
            {"path": "{}"},
            "no file of split 'devtest', such as devtest/fra_Latn.devtest",
        ),
        (
            "bouquet",
            {"split": "train"},
            "bouquet has no split 'train'; choose from validation, test",
        ),
        ("panx", {"path": "{}"}, "row 1: no column 'ner_tags'; found words"),
        ("panx", {"path": "none"}, "no folder none; give path="),
        ("panx", {"path": "{}", "split": "train"}, "has no file of split 'train'"),
        ("gmmlu", {"path": "{}/de"}, "has no folder of one language"),
        ("xlcost", {}, "xlcost is not on the Hub: download the data of github.com/reddy-lab"),
    ],
)
def test_bad_input_is_told_in_one_line(name, options, words, tmp_path):
    write(tmp_path, "de/test.jsonl", [{"words": "a", "label": 1}])
    if "path" in options:
        options = options | {"path": options["path"].format(tmp_path)}

    with pytest.raises((ValueError, FileNotFoundError), match=words):
        load_benchmark(name, **options)


CALLS = {
    "slots": {"name": "massive_slots", "langs": ["deu_Latn"]},
    "wic": {"name": "wic"},
    "gmmlu": {"name": "gmmlu"},
    "belebele": {"name": "belebele", "langs": ["fra_Latn"]},
    "absent": {"name": "panx"},
    "language": {"name": "massive_slots", "langs": ["ita_Latn"]},
}


def parquet(rows):
    file = io.BytesIO()
    Dataset.from_list(rows).to_parquet(file)
    return file.getvalue()


DATASETS = {
    "AmazonScience/massive": {
        f"{lang}/test/0000.parquet": parquet([MASSIVE | {"locale": lang}])
        for lang in ("de-DE", "fr-FR")
    },
    "aps/super_glue": {
        "wic/validation/0000.parquet": parquet(COPIES["wic"][0]["wic/validation.parquet"])
    },
    "CohereLabs/Global-MMLU": {file: parquet(rows) for file, rows in COPIES["gmmlu"][0].items()},
    "facebook/belebele": {
        file: json.dumps(rows[0]).encode() for file, rows in COPIES["belebele"][0].items()
    },
}


@pytest.mark.slow
def test_from_the_hub(hub_environment):
    calls = json.dumps(CALLS)

    printed = python(SCRIPTS / "load_benchmarks.py", env=hub_environment, input=calls, timeout=300)

    # The same rows as from the local copies.
    answers = json.loads(printed)
    assert answers["wic"] == COPIES["wic"][1]
    assert answers["gmmlu"] == COPIES["gmmlu"][1]
    assert answers["belebele"] == COPIES["belebele"][1][1:]
    assert answers["slots"] == COPIES["massive_slots"][1][:1]
    # What is not there is named in one line.
    assert answers["absent"].startswith(
        "FileNotFoundError: panx: unimelb-nlp/wikiann cannot be read"
    )
    assert "give path=" in answers["absent"]
    assert "\n" not in answers["absent"]
    assert answers["language"].startswith(
        "ValueError: AmazonScience/massive has no test rows in ita_Latn; found deu"
    )
