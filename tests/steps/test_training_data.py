"""A training mix and dev sets from a folder of corpora: what is held out, how rows are drawn, the same again."""

import hashlib
import json
from collections import Counter

import pandas as pd
import pytest
import yaml

from hf_echo.data import load_nway, load_parallel
from hf_echo.steps.run import run_operation

ENG, DEU = "eng_Latn", "deu_Latn"


def percent(text):
    return (
        int.from_bytes(hashlib.sha256(text.strip().lower().encode()).digest()[:4], "little") % 100
    )


def write(folder, name, columns, rows):
    pd.DataFrame(rows, columns=columns.split()).to_parquet(folder / f"{name}.parquet")


@pytest.fixture
def corpora(tmp_path):
    folder = tmp_path / "corpora"
    folder.mkdir()
    pairs = [
        (lang, f"Tom saw dog number {n}.", f"{lang} {n}.")
        for n in range(1000)
        for lang in ("fra_Latn", DEU)
    ]
    # a language that nobody asked for
    pairs += [
        ("tlh_Latn", "Is it long?", "tlh"),
        ("fra_Latn", "x", " "),
    ]
    pairs += [("fra_Latn", "STOP  here", "Arrêtez ici."), ("fra_Latn", "menu", "Menu")]
    rows = [(ENG, english, lang, text) for lang, english, text in pairs]
    rows += [(DEU, f"{DEU} {n}.", "fra_Latn", f"fra_Latn {n}.") for n in range(50)]
    write(folder, "pairs", "src_lang src tgt_lang tgt", rows)
    news = [
        (n, f"d{n // 5}", lang, f"{lang} news {n}.")
        for n in range(20)
        for lang in (ENG, "fra_Latn")
    ]
    news[-2] = (*news[-2][:3], "Stop here!")
    write(folder, "news", "id document lang text", news)
    parts = ["dev"] * 3 + ["train"] * 6
    verses = [
        (f"v{n}", lang, f"{lang} verse {n}.", part)
        for n, part in enumerate(parts)
        for lang in (ENG, DEU)
    ]
    write(folder, "verses", "verse_id lang text split", verses)
    return folder


def run(corpora, out, **changes):
    tables = {
        "pairs.parquet": {"dev": "everyday", "dev_percent": 10, "without_english": 0},
        "news.parquet": {"id": "id", "dev": "news", "dev_documents": 1, "weight": 3},
        "verses.parquet": {"id": "verse_id", "split": "train", "dev": "verses", "dev_split": "dev"},
    }
    recipe = corpora.parent / f"{out.name}.yaml"
    values = dict(
        operation="collect_data", output_dir=str(out), languages=["fra_Latn", DEU], tables=tables
    )
    recipe.write_text(yaml.safe_dump(values | changes))
    report = run_operation(recipe, {"corpora": str(corpora)})
    return {name: number for name, number in report.items() if name.startswith(("train", "dev"))}


def test_dev_sets_are_held_out(corpora, tmp_path):
    rows = run(corpora, tmp_path / "out")
    dev = {
        name: load_nway(tmp_path / "out" / f"dev_{name}.parquet", split=None)
        for name in ("everyday", "news", "verses")
    }
    english = {text for n in range(1000) if percent(text := f"Tom saw dog number {n}.") < 10}
    assert {row["text"] for row in dev["everyday"] if row["lang"] == ENG} == english
    assert len(english) > 50
    assert {row["id"] for row in dev["news"]} == {str(n) for n in range(15, 20)}
    assert {row["id"] for row in dev["verses"]} == {"v0", "v1", "v2"}
    assert rows == {f"dev_{name}": len(table) for name, table in dev.items()} | {
        name: len(load_parallel(tmp_path / "out" / f"{name}.parquet"))
        for name in ("train", "train_decoder")
    }
    assert not (tmp_path / "out" / "README.md").exists()  # a card would describe a model
    train = list(load_parallel(tmp_path / "out" / "train.parquet"))
    texts = {row[side] for row in train for side in ("source", "target")}
    assert not texts & {row["text"] for table in dev.values() for row in table}
    assert "STOP  here" not in texts  # differs from a dev text in case and punctuation only
    assert not {"menu", "x", "tlh"} & texts
    assert {row["target_lang"] for row in train} == {ENG}
    counts = Counter((row["source"], row["target"]) for row in train)
    assert {
        counts["fra_Latn news 3.", "eng_Latn news 3."],
        counts["deu_Latn verse 5.", "eng_Latn verse 5."],
    } == {3, 1}


def test_english_of_another_file_and_languages_left_out(corpora, tmp_path):
    more = [(f"v{n}", lang, f"{lang} {n}") for n in range(9) for lang in ("fra_Latn", DEU)]
    write(corpora, "more", "verse_id lang text", more)
    tables = {"more.parquet": {"id": "verse_id", "english": "verses.parquet", "leave_out": [DEU]}}
    run(corpora, tmp_path / "out", tables=tables)
    rows = load_parallel(tmp_path / "out" / "train.parquet")
    found = sorted((row["source"], row["target"]) for row in rows)
    assert found == [(f"fra_Latn {n}", f"eng_Latn verse {n}.") for n in range(9)]


def test_small_languages_come_more_often(corpora, tmp_path):
    """40 rows beside 1,034: at power 0.5 at most five times as often; at 0.75 and without a limit 2.25 times."""
    tables = {"pairs.parquet": {"without_english": 0.5}, "verses.parquet": {"id": "verse_id"}}
    rows = [(ENG, f"A {n}.", "lit_Latn", f"lit {n}.") for n in range(40)]
    write(corpora, "small", "src_lang src tgt_lang tgt", rows)
    tables["small.parquet"] = {}
    options = dict(tables=tables, languages=["fra_Latn", "deu_Latn", "lit_Latn"])
    run(corpora, tmp_path / "out", power=0.5, most=5, **options)
    run(corpora, tmp_path / "free", power=0.75, most=9, **options)
    capped, free = (
        Counter(load_parallel(tmp_path / name / "train.parquet")["source_lang"])
        for name in ("out", "free")
    )
    assert capped["lit_Latn"] == 40 * 5
    assert free["lit_Latn"] == pytest.approx(40 * (1034 / 40) ** 0.25, abs=9)
    without = [
        row
        for row in load_parallel(tmp_path / "out" / "train.parquet")
        if row["target_lang"] != ENG
    ]
    assert 10 < len(without) < 40  # half of 50


def test_rows_of_the_decoder(corpora, tmp_path):
    """Sentences of two words and more, each from one of its translations, a share also from itself."""
    tables = {"pairs.parquet": {"weight": 4}}  # each row four times in the mix
    run(corpora, tmp_path / "repeated", tables=tables, decoder_sources=2, decoder_itself=0)
    repeated = load_parallel(tmp_path / "repeated" / "train_decoder.parquet")
    assert set(Counter(repeated["target"]).values()) == {2}
    assert len(set(repeated["source"])) == len(repeated)
    run(corpora, tmp_path / "out", decoder_sources=1, decoder_itself=0.5)
    rows = list(load_parallel(tmp_path / "out" / "train_decoder.parquet"))
    itself = [row for row in rows if row["source"] == row["target"]]
    others = Counter(row["target"] for row in rows if row["source"] != row["target"])
    assert set(others.values()) == {1}
    assert 0.35 < len(itself) / len(others) < 0.65
    assert all(row["source_lang"] == ENG for row in itself)
    assert all(target.endswith(".") and " " in target for target in others)


def test_a_share_of_rows_has_noise_on_one_side(corpora, tmp_path):
    run(corpora, tmp_path / "clean")
    run(corpora, tmp_path / "out", noise=0.3)
    before, after = (load_parallel(tmp_path / name / "train.parquet") for name in ("clean", "out"))
    changed = [
        [a[side] != b[side] for a, b in zip(before, after, strict=True)]
        for side in ("source", "target")
    ]
    assert all(0.1 < sum(side) / len(before) < 0.2 for side in changed)
    assert [row["target_lang"] for row in before] == [row["target_lang"] for row in after]
    upper = [
        b["target"]
        for a, b in zip(before, after, strict=True)
        if b["target"] == a["target"].upper()
    ]
    assert 0.02 < len(upper) / len(before) < 0.08  # a quarter of the changed ones


def test_the_same_again(corpora, tmp_path):
    first = run(corpora, tmp_path / "a", rows=300)
    assert first["train"] == 300
    assert run(corpora, tmp_path / "b", rows=300) == first
    for name in ("train", "train_decoder", "dev_everyday"):
        tables = [load_parallel if name.startswith("train") else load_nway for _ in "ab"]
        a, b = (
            read(tmp_path / out / f"{name}.parquet", split=None).to_list()
            for read, out in zip(tables, "ab")
        )
        assert a == b
    # English anyway
    assert run(corpora, tmp_path / "c", rows=300, languages=["French", "English", "de"]) == first
    (tmp_path / "a" / "train.parquet").write_bytes(b"kept")
    assert run(corpora, tmp_path / "a", rows=300) == first  # finished: nothing is read again
    assert (tmp_path / "a" / "train.parquet").read_bytes() == b"kept"
    with pytest.raises(ValueError, match="was made in another way: rows was 300, now 200"):
        run(corpora, tmp_path / "a", rows=200)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"tables": {"none.parquet": {}}}, FileNotFoundError, "holds no none.parquet"),
        ({"tables": {"news.parquet": {}}}, ValueError, "news.parquet has no column 'src'"),
        ({"tables": {"pairs.parquet": {"dev_percent": 3}}}, ValueError, "dev_percent needs dev"),
        (
            {"tables": {"pairs.parquet": {"weigth": 3}}},
            ValueError,
            "tables: pairs.parquet: unknown field 'weigth'",
        ),
        ({"languages": ["zul_Latn"]}, ValueError, "no row is left"),
        (
            {"languages": ["zh"]},
            ValueError,
            "language 'zh' is ambiguous: give zho_Hans or zho_Hant",
        ),
    ],
)
def test_refusals(corpora, tmp_path, changes, error, message):
    with pytest.raises(error, match=message):
        run(corpora, tmp_path / "out", **changes)


def test_the_mix_is_compared_with_test_splits(corpora, tmp_path):
    (corpora / "test").mkdir()
    tests = [(ENG, "Tom saw dog number 7!", DEU, "nur hier"), (ENG, "Nobody saw it.", DEU, "auch")]
    write(corpora / "test", "news", "src_lang src tgt_lang tgt", tests)

    run(corpora, tmp_path / "out", tables={"pairs.parquet": {}})

    report = json.loads((tmp_path / "out" / "leaks.json").read_text())
    assert (report["test_texts"], report["leaks"]) == (4, 0)


def test_a_test_sentence_is_in_no_training_row(corpora, tmp_path):
    (corpora / "test").mkdir()
    tests = [(ENG, "Tom saw dog number 7!", DEU, "nur hier")]
    write(corpora / "test", "news", "src_lang src tgt_lang tgt", tests)

    run(corpora, tmp_path / "out", tables={"pairs.parquet": {}})

    targets = set(pd.read_parquet(tmp_path / "out" / "train.parquet").target)
    assert "Tom saw dog number 7." not in targets
    assert "Tom saw dog number 8." in targets


def test_corpora_without_test_splits_are_compared_with_nothing(corpora, tmp_path):
    run(corpora, tmp_path / "out")
    assert not (tmp_path / "out" / "leaks.json").exists()


def test_an_optional_table_may_be_missing(corpora, tmp_path):
    tables = {"pairs.parquet": {}, "none.parquet": {"optional": True}}
    rows = run(corpora, tmp_path / "out", tables=tables)
    assert rows["train"] > 0
