"""Parts of the scripts that hold logic: a teacher's probe on another encoder, documents made of corpora."""

import drop_in_report
import extension_proof
import long_context_data
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hf_echo.inference import encode

pytestmark = pytest.mark.trains


@pytest.fixture(scope="module")
def topics(toy):
    """What an animal does is the topic."""
    said = [(part, m, lang) for part in ("train", "dev") for m in toy.split(part) for lang in toy.LANGUAGES]
    rows = [(lang, toy.say(m, lang), f"topic {m[3]}", part) for part, m, lang in said]
    return pd.DataFrame(rows, columns=["lang", "text", "category", "split"])


def test_one_probe_and_one_decoder_read_every_encoder(toy, toy_trained, toy_tokenizer, topics):
    teacher = (toy_trained, toy_tokenizer)
    stranger = (toy.make_model(toy_tokenizer, pooling="mean", seed=3).eval(), toy_tokenizer)
    encoders = {"t": teacher, "again": teacher, "s": stranger}
    found = drop_in_report.topic_accuracies(teacher, encoders, topics)
    assert found["t"] == found["again"] and found["t"]["own probe"] == found["t"]["teacher's probe"] > 70
    # The stranger by hand: one probe, every language, the mean over languages.
    parts = {}
    for part in ("train", "dev"):
        rows = topics[topics.split == part]
        for name, model in (("t", toy_trained), ("s", stranger[0])):
            parts[part, name] = np.stack([encode(model, toy_tokenizer, [r.text], r.lang)[0] for r in rows.itertuples()])
    unit = {key: x / np.linalg.norm(x, axis=1, keepdims=True) for key, x in parts.items()}
    learn, ask = topics[topics.split == "train"], topics[topics.split == "dev"]
    for kind, encoder in (("teacher's probe", "t"), ("own probe", "s")):
        probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        right = probe.fit(unit["train", encoder], learn.category).predict(unit["dev", "s"]) == ask.category
        want = np.mean([right[(ask.lang == lang).to_numpy()].mean() for lang in toy.LANGUAGES])
        assert found["s"][kind] == pytest.approx(100 * want, abs=2.1)  # one sentence in 96 may tip over
    assert found["s"]["teacher's probe"] < found["t"]["teacher's probe"]
    rows = toy.nway_rows()  # the teacher's decoder on another encoder
    assert drop_in_report.chrf(teacher, teacher, rows) > 80 > 50 > drop_in_report.chrf(teacher, stranger, rows)


def test_documents_are_in_order_and_whole():
    rows = [("2.10", "eng_Latn", "ten"), ("2.9", "eng_Latn", "nine"), ("2.8", "eng_Latn", "eight")]
    rows += [("2.10", "fra_Latn", "dix"), ("2.9", "fra_Latn", "neuf"), ("3.1", "fra_Latn", "un")]
    verses = pd.DataFrame([(f"b.JOH.{verse}", *row) for verse, *row in rows], columns=["verse_id", "lang", "text"])
    table = long_context_data.numbered(verses)
    assert long_context_data.documents(table, "fra_Latn") == [("b.JOH.2", ["neuf", "dix"], ["nine", "ten"])]
    kept = long_context_data.in_all_languages(table)
    assert set(kept.text) == {"nine", "ten", "neuf", "dix"}


def test_paragraphs_of_flores_are_runs_of_one_topic_that_all_languages_have():
    """By hand: 1-2 and 4-5 are paragraphs; 3 has another topic, 6 no French, 8 no neighbour."""
    topics = {1: "sports", 2: "sports", 3: "travel", 4: "health", 5: "health", 6: "health", 8: "health"}
    rows = []
    for number, topic in topics.items():
        rows.append((number, "eng_Latn", topic, f"e{number}"))
        if number != 6:
            rows.append((number, "fra_Latn", topic, f"f{number}"))
    table = pd.DataFrame(rows[::-1], columns=["index_id", "lang", "category", "text"])

    paragraphs = long_context_data.flores_paragraphs(table)

    found = {(row.lang, tuple(row.sentences)) for row in paragraphs.itertuples()}
    assert found == {("eng_Latn", ("e1", "e2")), ("fra_Latn", ("f1", "f2"))} | {
        ("eng_Latn", ("e4", "e5")),
        ("fra_Latn", ("f4", "f5")),
    }
    of_sports = paragraphs[[sentences[0] in ("e1", "f1") for sentences in paragraphs.sentences]]
    assert of_sports.id.nunique() == 1 and paragraphs.id.nunique() == 2


def test_order_of_the_extension():
    figures = dict(zip(("base xsim", "base chrF++", "new xsim"), (0.0, 98.0, 94.0)))
    rows = [{"run": "teacher", **figures}, {"run": "extension", **figures | {"new xsim": 5.0, "base chrF++": 96.0}}]
    rows.append({"run": "without MSE", **figures | {"new xsim": 20.0, "base chrF++": 80.0}})
    rows.append({"run": "without student->teacher", **figures | {"new xsim": 60.0}})
    against = extension_proof.against_the_paper
    assert against(rows) == []
    for run, column, value, claim in [
        (1, "base chrF++", 94.9, "base chrF++ by the old decoder stays within three"),
        (2, "new xsim", 9.0, "without MSE new languages come less far"),
    ]:
        assert claim in against([row | {column: value} if n == run else row for n, row in enumerate(rows)])


@pytest.mark.parametrize("n", [2, 3, 7, 20, 21])
def test_paragraphs_cover_a_document(n):
    paragraphs = long_context_data.paragraphs
    assert list(paragraphs([("d", ["a"], ["b"])], 5)) == []
    source, target = [f"s{i}" for i in range(n)], [f"t{i}" for i in range(n)]
    found = list(paragraphs([("d", source, target)], 5))
    assert sum((s for _, s, _ in found), []) == source and sum((t for _, _, t in found), []) == target
    assert all(2 <= len(s) <= 6 for _, s, _ in found)
    assert len({name for name, _, _ in found}) == len(found)
