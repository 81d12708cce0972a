"""XRETE: scores by hand on small sets, head and long-tail averages, the paper's tables of tasks and languages."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hf_echo.evaluation.benchmarks.public_sets import SETS
from hf_echo.evaluation.benchmarks.xrete import FLORES_HEAD, TASKS, TATOEBA_HEAD, evaluate_xrete

VECTORS = {"one": [1, 0, 0], "two": [0, 1, 0], "three": [0, 0, 1], "near one": [0.9, 0.3, 0.1]}


def encode(texts, lang):
    """The word after the colon says the vector: 'fra: one'."""
    return np.array([VECTORS[text.split(": ")[1]] for text in texts], np.float32)


def pair(lang, source, target):
    return dict(source=f"{lang}: {source}", source_lang=lang, target=f"{lang} en: {target}", target_lang="eng_Latn")


SMALL = {
    # French: both found; Kabyle (long tail): one of two has the other's vector.
    "tatoeba": [
        pair("fra_Latn", "one", "one"),
        pair("fra_Latn", "two", "two"),
        pair("kab_Latn", "one", "one"),
        pair("kab_Latn", "near one", "two"),
    ],
    "bucc": [pair("deu_Latn", "one", "near one"), pair("deu_Latn", "two", "two"), pair("deu_Latn", "three", "three")],
    "flores_plus": [
        dict(id=i, lang=lang, text=f"{lang}: {word}")
        for lang, words in {"eng_Latn": ("one", "two"), "ita_Latn": ("one", "two"), "kab_Latn": ("two", "one")}.items()
        for i, word in enumerate(words)
    ],
    "xnli": [
        dict(lang="fra_Latn", text1="a: one", text2="b: near one", label=1),
        dict(lang="fra_Latn", text1="a: one", text2="b: two", label=0),
    ],
    "sts17": [
        dict(lang1="fra_Latn", lang2="eng_Latn", text1="a: one", text2=f"b: {word}", score=score)
        for word, score in (("one", 5.0), ("near one", 4.0), ("two", 0.0))
    ],
}


def test_scores_by_hand():
    table = evaluate_xrete(encode, load=SMALL.__getitem__)
    rows = {row["task"]: row for row in table.rows}
    assert set(rows) == {"XNLI", "Multi-STS", "BUCC", "Tatoeba", "FLORES-200"}
    tatoeba = {"score": 75.0, "head": 100.0, "long_tail": 50.0, "languages": 2, "family": "retrieval"}
    assert {name: rows["Tatoeba"][name] for name in tatoeba} == tatoeba
    assert (rows["FLORES-200"]["head"], rows["FLORES-200"]["long_tail"]) == (100.0, 0.0)
    assert rows["BUCC"]["score"] == 100.0 and "head" not in rows["BUCC"]
    assert rows["XNLI"]["score"] == pytest.approx(100.0) and rows["Multi-STS"]["score"] == pytest.approx(100.0)
    assert table.average["score"] == pytest.approx((75 + 50 + 300) / 5)
    assert "PAWS-X" in table.notes["not_run"] and len(table.notes["not_run"]) == 8


def test_tables_of_the_paper():
    assert (len(TATOEBA_HEAD), len(FLORES_HEAD)) == (42, 68)  # the text says 36 for the first
    assert len(TASKS) == 13 and {"FLORES-200"} == {name for name, task in TASKS.items() if "not in" in task.paper}
    families = [task.family for task in TASKS.values()]
    assert [families.count(f) for f in ("inference", "similarity", "retrieval", "classification")] == [2, 2, 5, 4]
    assert all(task.data in SETS for task in TASKS.values() if task.data)


@pytest.mark.parametrize("task, message", [("Tatoba", "unknown task 'Tatoba'"), ("XCOPA", "XCOPA needs a fine-tuned")])
def test_wrong_tasks_are_one_line(task, message):
    with pytest.raises(ValueError, match=message):
        evaluate_xrete(encode, tasks=[task], load=SMALL.__getitem__)


def test_command_reads_local_copies(hf_echo_cli, tmp_path):
    """Two sentences and their copies: a model finds each of them, whatever it knows."""
    folder = tmp_path / "copies" / "tatoeba"
    folder.mkdir(parents=True)
    texts = ["Un chat.", "Deux chiens."]
    rows = [{"lang": "fra-eng", "sentence1": t, "sentence2": t} for t in texts]
    (folder / "fra-eng.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    command = ("evaluate", "xrete", "--model", "echo-nano", "--copies", folder.parent, "--json", tmp_path / "r.json")
    hf_echo_cli(*command, "--task", "Tatoeba")
    report = json.loads((tmp_path / "r.json").read_text())
    assert [(row["task"], row["score"], row["head"]) for row in report["rows"]] == [("Tatoeba", 100.0, 100.0)]
    code, _, err = hf_echo_cli(*command, "--task", "BUCC")
    assert code == 2 and err.splitlines()[-1].startswith("hf-echo: ") and "has no bucc" in err
