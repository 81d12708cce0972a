"""Mined hard negatives and the consistency filter, against loops over all pairs written out."""

import json
from functools import cache

import datasets
import numpy as np
import pytest
from datasets import Dataset
from snippet_pools import consistency, filter_consistent, mine, mine_negatives, row_keys

from hf_echo.data import load_parallel

from ..refusals import refuses

pytestmark = pytest.mark.trains

NAMES = "alpha beta gamma delta epsilon zeta eta theta".split()


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def encode(texts, lang=None):
    """Bag of words and signs; every text has a little of its own, so that no two score the same."""
    vectors = np.zeros((len(texts), 24), np.float32)
    for row, text in zip(vectors, texts, strict=True):
        for word in text.replace("=", " sets ").replace("+", " plus ").lower().strip(".").split():
            row += np.random.default_rng(list(word.encode())).normal(size=24)
        row += 0.01 * np.random.default_rng(list(text.encode())).normal(size=24)
    return vectors


def code_rows(count=60, langs=("python", "go")) -> list[dict]:
    rng = np.random.default_rng(0)
    rows = []
    for i in range(count):
        a, b, c = rng.choice(NAMES, size=3, replace=False)
        row = {"source": f"{a} = {b} + {c} {i % 7}", "source_lang": langs[i % len(langs)]}
        row |= {"target": f"sets {a} to {b} plus {c} {i % 7}.", "target_lang": "eng_Latn"}
        rows.append(row | {"provenance": "code"})
    return rows


def mined(rows, out, embed=encode, **options):
    """Of the negatives mined for rows: the report and the file."""
    report = mine_negatives(Dataset.from_list(rows), embed, out, progress=False, **options)
    return report, load_parallel(out)


@cache
def unit_of(text):
    vector = encode([text])[0].astype(np.float64)
    return vector / np.linalg.norm(vector)


def unit(texts):
    return np.array([unit_of(text) for text in texts])


def form(text):
    return " ".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


def negatives_by_hand(rows, pool, k, max_cosine):
    result, first = [], {}  # texts of one normal form count once: the first one is embedded
    for text in pool:
        first.setdefault(form(text), text)
    for row in rows:
        own = first.get(form(row["target"]), row["target"])
        positives = {form(r["target"]) for r in rows if r["source"] == row["source"]}
        seen, scored = set(), []
        for text in pool:
            if form(text) in positives or form(text) in seen:
                continue
            seen.add(form(text))
            target, candidate, source = unit([own, text, row["source"]])
            if target @ candidate <= max_cosine:
                scored.append((-(source @ candidate), text))
        result.append([text for _, text in sorted(scored)[:k]])
    return result


def assert_same_negatives(found, want, rows):
    """Equal texts, or texts whose cosines differ by rounding alone: their order depends on the processor."""
    assert list(map(len, found)) == list(map(len, want))
    for row, mined, by_hand in zip(rows, found, want, strict=True):
        if mined != by_hand:
            source, *both = unit([row["source"], *mined, *by_hand])
            cosines = np.array(both) @ source
            np.testing.assert_allclose(cosines[: len(mined)], cosines[len(mined) :], atol=1e-5)


def test_negatives_are_those_of_a_loop(tmp_path):
    rows = code_rows()
    rows.append(rows[0] | {"target": "another description of the first row"})  # the same source
    rows.append(rows[1] | {"source": "x = 1", "target": rows[1]["target"].upper() + "!"})  # the same normal form
    report, table = mined(rows, tmp_path / "out.parquet", k=4, max_cosine=0.9)
    want = negatives_by_hand(rows, [r["target"] for r in rows], 4, 0.9)
    assert_same_negatives(table["hard_negatives"][:], want, rows)
    assert table["target"][:] == [r["target"] for r in rows]
    assert report.negatives == sum(map(len, want)) == 4 * len(rows) and report.short == 0
    assert report.excluded["same_source"] and report.excluded["cosine"] and report.excluded["positive"]


def test_separate_pool_and_languages_stay_apart(tmp_path):
    rows = code_rows(12) + [r | {"target_lang": "deu_Latn", "target": "setzt " + r["target"]} for r in code_rows(12)]
    pool = code_rows(40, langs=("java",))
    options = dict(pool=Dataset.from_list(pool), k=2)
    refuses("the pool has no text in deu_Latn, the language of 12", mined, rows, tmp_path / "x.parquet", **options)
    rows[-12:] = code_rows(12)
    _, table = mined(rows, tmp_path / "o.parquet", **options)
    assert table["hard_negatives"][:] == negatives_by_hand(rows, [r["target"] for r in pool], 2, 0.95)


def test_own_language_only_and_too_few_are_counted(tmp_path):
    rows = code_rows(6)
    for row in rows[3:]:
        row["target_lang"] = "deu_Latn"
    report, table = mined(rows, tmp_path / "o.parquet", max_cosine=2)
    english = {r["target"] for r in rows[:3]}
    for i, negatives in enumerate(table["hard_negatives"][:]):
        assert len(negatives) == 2 and (set(negatives) <= english) == (i < 3)
    assert (report.short, report.negatives) == (6, 12) and report.pool == {"deu_Latn": 3, "eng_Latn": 3}


def test_pool_is_drawn_by_seed(tmp_path):
    def used(seed, name):
        report, table = mined(code_rows(), tmp_path / name, pool_size=9, seed=seed)
        assert report.pool == {"eng_Latn": 9}
        return {n for row in table["hard_negatives"] for n in row}

    first = used(0, "a.parquet")
    assert first == used(0, "b.parquet") and first != used(1, "c.parquet") and len(first) <= 9


def test_code_is_told_apart_by_its_signs():
    rows = {"target": ["a+b", "a-b", "a +  b", "a + b", "A + b"] * 2, "target_lang": ["python"] * 5 + ["eng_Latn"] * 5}
    keys = row_keys(Dataset.from_dict(rows), "target", progress=False).tolist()
    assert len(set(keys[:5])) == 4 and keys[2] == keys[3]
    assert len(set(keys[5:])) == 1  # in a sentence signs and case do not count
    assert not set(keys[:5]) & set(keys[5:])


def test_a_stopped_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("hf_echo.inference.embedding_store.CALL_CHUNK", 20)
    calls = []

    def counted(texts, lang):
        calls.append(len(texts))
        if sum(calls) > 45:
            raise RuntimeError("power cut")
        return encode(texts)

    out = tmp_path / "o.parquet"
    with pytest.raises(RuntimeError):
        mined(code_rows(), out, counted)
    assert not out.exists()
    calls[:] = [-10_000]
    _, table = mined(code_rows(), out, counted)
    assert sum(calls) + 10_000 <= 120 - 20 * 2 + 2  # two finished chunks are not encoded again; the probe is
    _, whole = mined(code_rows(), tmp_path / "whole.parquet")
    assert table["hard_negatives"][:] == whole["hard_negatives"][:]


def test_broken_embedding_names_its_row(tmp_path):
    def broken(texts, lang):
        return encode(texts) * np.array([[0.0 if "no vector" in t else 1.0] for t in texts], np.float32)

    rows = code_rows(20)
    rows[12]["target"] = "no vector"
    refuses("target 13 of the data: a NaN, infinite or zero embedding", mined, rows, tmp_path / "o.parquet", broken)
    refuses("k is 0", mined, rows, tmp_path / "o.parquet", k=0)


def consistent_by_hand(rows):
    keep = []
    for row in rows:
        snippets = [r["source"] for r in rows if r["source_lang"] == row["source_lang"]]
        others = [s for s in snippets if s.split() != row["source"].split()]
        query, own, *rest = unit([row["target"], row["source"], *others])
        keep.append(all(query @ own >= query @ other for other in rest))
    return keep


@pytest.fixture
def described():
    rows = code_rows()
    for i in range(0, 60, 6):  # ten descriptions of other snippets of the same language: these are always nearer
        rows[i]["target"] = rows[(i + 16) % 60]["target"]
    return rows


def test_consistency_keeps_what_a_loop_keeps(tmp_path, described):
    options = dict(pool_size=None, progress=False)
    report = filter_consistent(Dataset.from_list(described), encode, tmp_path / "k.parquet", **options)
    want = consistent_by_hand(described)
    assert 10 < sum(want) < 60 and not any(want[0:60:6])
    kept = load_parallel(tmp_path / "k.parquet")
    assert kept["target"][:] == [r["target"] for r, good in zip(described, want) if good]
    for lang in ("python", "go"):
        mine = [good for r, good in zip(described, want) if r["source_lang"] == lang]
        assert (report.kept[lang], report.dropped[lang]) == (sum(mine), len(mine) - sum(mine))
    assert report.share == pytest.approx(sum(want) / 60)
    names = {"source": "target", "target": "source", "source_lang": "target_lang", "target_lang": "source_lang"}
    turned = Dataset.from_list(described).rename_columns(names)
    report = filter_consistent(turned, encode, tmp_path / "t.parquet", snippets="target", **options)
    assert sum(report.kept.values()) == sum(want)


def test_commands(run_main, main_refused, tmp_path, described, monkeypatch):
    monkeypatch.setattr("hf_echo.inference.any_encoder.any_encoder", lambda name: encode)
    Dataset.from_list(described).to_parquet(tmp_path / "rows.parquet")
    places, options = (tmp_path / "rows.parquet", tmp_path / "k.parquet"), ("--model", "any", "--pool-size", 0)
    code, out, err = run_main([mine, consistency], "mine", *places, *options, "--k", 3)
    assert code == 0 and json.loads(out)["rows"] == 60, err
    mined = load_parallel(tmp_path / "k.parquet")["hard_negatives"][:]
    assert mined == negatives_by_hand(described, [r["target"] for r in described], 3, 0.95)
    code, out, _ = run_main([mine, consistency], "consistency", *places, *options)
    counts = json.loads(out)
    assert code == 0 and counts["kept/go"] + counts["dropped/go"] == 30
    assert len(load_parallel(tmp_path / "k.parquet")) == sum(consistent_by_hand(described))
    main_refused("must end in .parquet", consistency, places[0], tmp_path / "k.tsv", *options)
    main_refused("snippets is 'x'", consistency, *places, *options, "--snippets", "x")
