"""The extension leads no pair to a language that the teacher knows worse (OS 4.5.2): the teacher is
measured by a step, and the extension's recipe reads its figures."""

import json
from collections import Counter

import numpy as np
import pytest
from datasets import Dataset

from hf_echo.data.nway import load_nway
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.negatives.rules import hard_negatives_for
from hf_echo.steps.data import training_rows
from hf_echo.steps.dry_run import dry_run
from hf_echo.steps.recipe import find_recipes, read_recipe
from hf_echo.steps.run import run_operation

from .conftest import step

ENGLISH, FRENCH, JINGPHO = "eng_Latn", "fra_Latn", "kac_Latn"
SENTENCES = [
    ("The old man saw three dogs in 2014.", "Le vieil homme a vu trois chiens en 2014."),
    ("Mary did not buy the big house.", "Marie n'a pas acheté la grande maison."),
    (
        "In May, two women opened a small school.",
        "En mai, deux femmes ont ouvert une petite école.",
    ),
    ("The cold river is longer than the road.", "La rivière froide est plus longue que la route."),
]


@pytest.fixture
def teacher(toy, toy_tokenizer, tmp_path):
    folder = tmp_path / "teacher"
    toy.make_model(toy_tokenizer, pooling="mean").save_pretrained(folder)
    toy_tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def dev(tmp_path):
    rows = []
    for number, texts in enumerate(SENTENCES):
        for lang, text in zip((ENGLISH, FRENCH), texts, strict=True):
            rows.append({"id": str(number), "lang": lang, "text": text})
    Dataset.from_list(rows).to_parquet(tmp_path / "dev.parquet")
    return str(tmp_path / "dev.parquet")


@pytest.fixture
def measured(tmp_path, teacher, dev):
    """The folder that the step writes."""
    path = step(tmp_path, "errors", operation="measure_teacher", model=teacher, data=dev)
    run_operation(path)
    return tmp_path / "errors"


def test_the_step_measures_xsimpp(measured, teacher, dev):
    """Against a count in numpy: French is wrong where another English sentence or a hard negative
    is nearer."""
    # A search in NumPy over English sentences and their negatives.
    texts = {lang: [] for lang in (ENGLISH, FRENCH)}
    for row in load_nway(dev):
        texts[row["lang"]].append(row["text"])
    pool = list(texts[ENGLISH])
    for negatives in hard_negatives_for(texts[ENGLISH], 5):
        pool += [text for text, _ in negatives]
    encode = any_encoder(teacher)
    french = np.asarray(encode(texts[FRENCH], FRENCH))
    english = np.asarray(encode(pool, ENGLISH))
    english = english / np.linalg.norm(english, axis=1, keepdims=True)
    nearest = (french @ english.T).argmax(axis=1)
    wrong = 100 * np.mean(nearest != np.arange(len(SENTENCES)))

    figures = json.loads((measured / "xsimpp.json").read_text())

    assert len(pool) > 2 * len(SENTENCES)
    assert figures == {ENGLISH: 0.0, FRENCH: pytest.approx(wrong)}


def test_a_teacher_without_hard_negatives_is_refused(teacher, tmp_path):
    rows = [{"id": "1", "lang": lang, "text": "zzz"} for lang in (ENGLISH, FRENCH)]
    Dataset.from_list(rows).to_parquet(tmp_path / "bare.parquet")
    path = step(
        tmp_path,
        "e",
        operation="measure_teacher",
        model=teacher,
        data=str(tmp_path / "bare.parquet"),
    )
    with pytest.raises(
        ValueError, match="no English sentence of which the rules make hard negatives"
    ):
        run_operation(path)


def directions(path, rows):
    training = read_recipe(path)
    kept = training_rows(training.stage, training.data, training.config, rows)
    return Counter(zip(kept["source_lang"], kept["target_lang"], strict=True))


@pytest.fixture
def pairs():
    """Three pairs of each direction between French, Jingpho and English,
    and from a new language."""
    columns = {
        name: [] for name in ("source", "source_lang", "target", "target_lang", "provenance")
    }
    languages = (FRENCH, JINGPHO, ENGLISH)
    for source in (*languages, "tat_Cyrl"):
        for target in languages:
            for number in range(3 if source != target else 0):
                row = (f"{source} {number}", source, f"{target} {number}", target, "primary")
                for name, value in zip(columns, row, strict=True):
                    columns[name].append(value)
    return Dataset.from_dict(columns)


@pytest.fixture
def extension(tmp_path, teacher):
    """extension(**fields) -> path of a recipe of the extension."""

    def write(**fields):
        start = dict(stage="extension", model_name_or_path=teacher, teacher=teacher, max_steps=1)
        return step(
            tmp_path, "extension", **start, base_languages=[ENGLISH, FRENCH, JINGPHO], **fields
        )

    return write


def test_no_pair_leads_to_a_worse_language(extension, pairs, tmp_path):
    """French 1.8, Jingpho 17.6: of the two directions only Jingpho to French stays;
    English needs no figure."""
    (tmp_path / "xsimpp.json").write_text(json.dumps({FRENCH: 1.8, JINGPHO: 17.6}))
    path = extension(teacher_xsimpp=str(tmp_path / "xsimpp.json"))

    kept = directions(path, pairs)

    into_base = {("tat_Cyrl", base): 3 for base in (FRENCH, JINGPHO, ENGLISH)}
    expected = {
        (JINGPHO, FRENCH): 3,
        (JINGPHO, ENGLISH): 3,
        (FRENCH, ENGLISH): 3,
        (ENGLISH, ENGLISH): 3,
    }
    assert kept == expected | into_base


def test_without_figures_both_directions_stay(extension, pairs):
    kept = directions(extension(), pairs)
    assert kept[FRENCH, JINGPHO] == kept[JINGPHO, FRENCH] == 3


def test_a_dry_run_misses_the_figures(extension):
    problems = dry_run(extension(teacher_xsimpp="none.json"))["problems"]
    assert "teacher_xsimpp: no file none.json; the operation measure_teacher writes it" in problems


def test_the_paper_extension_reads_what_the_step_before_it_writes(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    journey = find_recipes("large")
    (path,) = [path for path in journey if path.stem == "4e_extension"]
    assert read_recipe(path).data.teacher_xsimpp == "outputs/large/4d_teacher_errors/xsimpp.json"
    problems = dry_run(path, journey=journey)["problems"]
    assert not [problem for problem in problems if "teacher_xsimpp" in problem]


def test_small_students_learn_the_base_languages(pairs, teacher, toy, toy_tokenizer, tmp_path):
    """OS 4.8: the languages of OmniSONAR-200, not those that the extended teacher knows too."""
    base = toy.make_model(toy_tokenizer, pooling="mean")
    base.config.languages = base.encoder.config.languages = [FRENCH, ENGLISH]
    base.save_pretrained(tmp_path / "base")
    fields = dict(stage="distillation", model_name_or_path=teacher, teacher=teacher, max_steps=1)
    path = step(tmp_path, "small", base_languages_of=str(tmp_path / "base"), **fields)
    assert {source for source, _ in directions(path, pairs)} == {FRENCH, ENGLISH}
