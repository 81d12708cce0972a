"""Parts of the scripts that hold logic: a teacher's probe on another encoder, documents made of corpora."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hf_echo.inference import encode
from hf_echo.synthesis import hard_negatives_for
from hf_echo.vocabulary import load_tokenizer, train_tokenizer

pytestmark = pytest.mark.trains

SCRIPTS = Path(__file__).parents[2] / "train_scripts" / "studies"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return lambda name: runpy.run_path(str(SCRIPTS / f"{name}.py"))


@pytest.fixture(scope="module")
def topics(toy):
    """What an animal does is the topic."""
    rows = [
        {"lang": lang, "text": toy.say(m, lang), "category": f"topic {m[3]}", "split": part}
        for part in ("train", "dev")
        for m in toy.split(part)
        for lang in toy.LANGUAGES
    ]
    return pd.DataFrame(rows)


def test_one_probe_reads_every_encoder(script, toy, toy_trained, toy_tokenizer, topics):
    teacher = (toy_trained, toy_tokenizer)
    stranger = (toy.make_model(toy_tokenizer, pooling="mean", seed=3).eval(), toy_tokenizer)
    found = script("drop_in_report")["topic_accuracies"](
        teacher, {"t": teacher, "again": teacher, "s": stranger}, topics
    )
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


def test_the_teachers_decoder_on_another_encoder(script, toy, toy_trained, toy_tokenizer):
    parts = script("drop_in_report")
    teacher = (toy_trained, toy_tokenizer)
    stranger = (toy.make_model(toy_tokenizer, pooling="mean", seed=3).eval(), toy_tokenizer)
    rows = toy.nway_rows()
    assert parts["chrf"](teacher, teacher, rows) > 80 > 50 > parts["chrf"](teacher, stranger, rows)


def verses(*rows):
    return pd.DataFrame([{"verse_id": v, "lang": lang, "text": text} for v, lang, text in rows])


def test_documents_are_in_order_and_whole(script):
    parts = script("long_context_data")
    table = parts["numbered"](
        verses(
            ("b.JOH.2.10", "eng_Latn", "ten"),
            ("b.JOH.2.9", "eng_Latn", "nine"),
            ("b.JOH.2.8", "eng_Latn", "eight"),
            ("b.JOH.2.10", "fra_Latn", "dix"),
            ("b.JOH.2.9", "fra_Latn", "neuf"),
            ("b.JOH.3.1", "fra_Latn", "un"),
        )
    )
    assert parts["documents"](table, "fra_Latn") == [("b.JOH.2", ["neuf", "dix"], ["nine", "ten"])]
    kept = parts["in_all_languages"](table)
    assert set(kept.text) == {"nine", "ten", "neuf", "dix"}


def test_order_of_the_extension(script):
    figures = dict(zip(("base xsim", "base chrF++", "new xsim"), (0.0, 98.0, 94.0)))
    rows = [
        {"run": "teacher", **figures},
        {"run": "extension", **figures | {"new xsim": 5.0, "base chrF++": 96.0}},
        {"run": "without MSE", **figures | {"new xsim": 20.0, "base chrF++": 80.0}},
        {"run": "without student->teacher", **figures | {"new xsim": 60.0}},
    ]
    against = script("extension_proof")["against_the_paper"]
    assert against(rows) == []
    for run, column, value, claim in [
        (1, "new xsim", 9.5, "new languages fall below 10 % of their start"),
        (1, "base xsim", 1.5, "base xsim stays within a point"),
        (1, "base chrF++", 94.9, "base chrF++ by the old decoder stays within three"),
        (2, "base chrF++", 96.0, "without MSE the old decoder reads worse"),
        (2, "new xsim", 9.0, "without MSE new languages come less far"),
    ]:
        changed = [row | {column: value} if number == run else row for number, row in enumerate(rows)]
        assert claim in against(changed)


def test_decoder_table_has_few_rows_a_target(script):
    """Each sentence from itself and from two translations at most; single words and short strings are left out."""
    rows = [
        {
            "source": f"phrase {n}",
            "source_lang": lang,
            "target": target,
            "target_lang": "eng_Latn",
            "provenance": "p",
        }
        for target in ("the cat sleeps here", "one dog barks at night", "a short one")
        for n, lang in enumerate(["fra_Latn", "deu_Latn", "spa_Latn", "rus_Cyrl"])
    ]
    table = script("nano_real_data")["decoder_table"](pd.DataFrame(rows))
    assert list(table.columns) == list(rows[0]) and len(table) == 6 and not table.isna().any().any()
    for target, group in table.groupby("target"):
        itself = group[group.source_lang == "eng_Latn"]
        assert target.count(" ") >= 3 and itself.source.tolist() == [target]
        assert group.source.nunique() == 3 and set(group.target_lang) == {"eng_Latn"}


def test_repeated_repeats_and_drops_rows(script):
    rows = pd.DataFrame({"source": list("abc") * 200})
    times = pd.Series([2.0, 0.5, 0.0] * 200)
    counts = script("nano_real_data")["repeated"](rows, times).source.value_counts()
    assert counts["a"] == 400 and 60 < counts["b"] < 140 and "c" not in counts


def test_natural_table(script, tmp_path):
    """Files by their weight, other sentences by theirs, words never; each copy with some of the target's negatives."""
    data = script("nano_real_data")
    news = [f"The {n} dogs did not sleep in Paris." for n in ("two", "three", "four", "five")]
    pd.DataFrame({"lang": "eng_Latn", "text": news}).to_parquet(tmp_path / "news.parquet")
    rows = [(f"n{i}", text, "primary") for i, text in enumerate(news)]
    rows += [(f"m{i}", f"Open the file number {i} in the editor.", "primary") for i in range(200)]
    rows += [("w", "dog", "primary"), ("d", "The two dogs did not sleep in Paris.", "dictionary")]
    train = pd.DataFrame(rows, columns=["source", "target", "provenance"])
    train = train.assign(source_lang="fra_Latn", target_lang="eng_Latn")
    table = data["natural_table"](train, tmp_path, {"news.parquet": 3, "others": 0.5})
    counts = table.source.value_counts()
    assert all(counts[f"n{i}"] == 3 for i in range(4)) and not {"w", "d"} & set(counts.index)
    assert 60 < sum(name.startswith("m") for name in counts.index) < 140
    made = hard_negatives_for(news, 5)
    for text, texts in zip(news, made, strict=True):
        copies = table[table.target == text].hard_negatives.map(tuple)
        assert len(texts) > 2 and all(len({*c}) == 2 and {*c} <= {t for t, _ in texts} for c in copies)
        assert len({*copies}) > 1


def write_corpora(folder: Path, languages: list[str]) -> None:
    """Every file that nano_real_data.py reads, a few sentences each; the same numbers in all languages."""

    def nway(id_column, numbers, **others):
        for n in numbers:
            for lang in ("eng_Latn", *languages):
                text = f"The {n} dogs did not sleep in Paris." if lang == "eng_Latn" else f"{lang} {n}"
                yield {id_column: str(n), "lang": lang, "text": text} | others

    def pairs(numbers):
        for n in numbers:
            for lang in languages:
                yield {
                    "src_lang": "eng_Latn",
                    "src": f"Open file {n} in Paris.",
                    "tgt_lang": lang,
                    "tgt": f"{lang} {n}",
                }

    files = {
        "flores_sib": [
            *nway("index_id", range(20), split="dev"),
            *nway("index_id", range(20, 40), split="train"),
        ],
        "ntrex": [row | {"document": int(row["id"]) // 5} for row in nway("id", range(100, 200))],
        "bible": [
            *nway("verse_id", range(200, 210), split="dev"),
            *nway("verse_id", range(210, 240), split="train"),
        ],
        "bible_more": [*nway("verse_id", range(240, 245), split="train")],
        "captions": [*nway("id", range(300, 305), split="train")],
        "qa_parallel": [*nway("id", range(310, 315), split="train")],
        "quran": [*nway("verse_id", range(320, 325))],
    }
    of_pairs = (
        "dictionaries",
        "tatoeba_pairs",
        "tatoeba_more",
        "localisation",
        "docs_parallel",
        "african_news",
    )
    for i, name in enumerate(of_pairs):
        files[name] = [*pairs(range(1000 * (i + 1), 1000 * (i + 1) + 100))]
    files["african_news"] = [row | {"split": "train"} for row in files["african_news"]]
    for name, rows in files.items():
        pd.DataFrame(rows).to_parquet(folder / f"{name}.parquet")


def test_extension_tables_bring_new_languages_and_no_dev_text(script, tmp_path):
    data = script("nano_real_data")
    data["use_parts"]("echo")
    wanted, base = data["PARTS"]["extension"], list(data["LANGUAGES"])
    new = wanted["languages"]
    assert not set(new) & set(base) and len(set(new)) == len(new)
    write_corpora(tmp_path, ["fra_Latn", "glg_Latn", "zho_Hant"])
    dev = data["dev_tables"](tmp_path)
    assert {lang for table in dev.values() for lang in table.lang} == {"eng_Latn", "fra_Latn"}
    natural = data["natural_table"](data["train_table"](tmp_path, dev), tmp_path, data["PARTS"]["natural"])
    assert set(natural.source_lang) == {"fra_Latn"}
    wanted["most"] = 50
    tables = data["extension_tables"](natural, tmp_path)
    assert data["LANGUAGES"] == base
    train = tables.pop("train_extension")
    counts = train.source_lang.value_counts()
    assert set(counts.index) == {"fra_Latn", "glg_Latn", "zho_Hant"} and counts.max() == 50
    assert train.hard_negatives.map(len).min() > 0 and set(train.columns) == set(natural.columns)
    assert set(tables) == {"dev_extension_flores", "dev_extension_ntrex"}
    for table in tables.values():
        assert set(table.lang) == {"eng_Latn", "glg_Latn", "zho_Hant"} and table.id.nunique() >= 20
    held_out = {text for table in [*tables.values(), *dev.values()] for text in table.text}
    assert not held_out & ({*train.source} | {*train.target})


def test_whole_tokenizer_learns_other_scripts_anew(script, tmp_path):
    """By weight: what only the heavy rows hold becomes words, and Latin text is cut as before."""
    latin, often, rarely = "the cat sat on the mat", "שלום לכולם", "בדיקה"
    old = train_tokenizer([latin, often, rarely] * 5, 300, progress=False)
    old.save_pretrained(tmp_path / "old")
    train = pd.DataFrame(
        {
            "source": [often] * 9 + [rarely] * 9 + [latin] * 9,
            "source_lang": ["heb_Hebr"] * 18 + ["fra_Latn"] * 9,
        }
    )
    times = pd.Series([5.0] * 9 + [0.1] * 9 + [1.0] * 9)
    data = script("nano_real_data")
    wanted = {"vocab_size": 292, "keep": 261, "letters": 2_000, "min_count": 2, "room": {}}
    data["PARTS"]["whole"] = wanted
    data["write_whole_tokenizer"](train, times, tmp_path / "old", tmp_path / "new")
    new = load_tokenizer(tmp_path / "new")

    def cut(tokenizer, text):
        return [tokenizer.decode([i]) for i in tokenizer(text, add_special_tokens=False).input_ids]

    assert cut(new, latin) == cut(old, latin) and len(new) == 292
    assert len(cut(new, often)) == 2  # a word, a word
    assert len(cut(new, rarely)) > 2 and "\ufffd" not in "".join(cut(new, rarely))
