"""The Bible builder on small editions with known errors: removed verses, kept verses, and the report."""

import json
import random
from pathlib import Path

import bible
import bible_filters as filters
import numpy as np
import pyarrow.parquet as pq
import pytest
from bible import build_bible
from bible_filters import label_of
from bible_sources import find_sources
from sacrebleu.metrics import CHRF

from hf_echo.data import load_nway, load_parallel

from ..refusals import refuses

# A small Bible in invented languages, with known translations.
VERSES = [f"GEN {c}:{v}" for c in (1, 2, 3) for v in range(1, 31)]
VERSES += [f"JHN {c}:{v}" for c in (1, 11) for v in range(1, 21)]
CODES = "eng fra spa deu rus por ita nld pol ces fin hun tur".split()
_rng = random.Random(7)
MEANINGS = {verse: [_rng.randrange(300) for _ in range(_rng.randint(6, 14))] for verse in VERSES}


def edition(code: str, number: int = 0) -> dict[str, str]:
    """An edition of a language: source 0 has the usual words; the others replace every fourth word."""
    rng = random.Random(f"{code}{number}")
    letters = "абвгдежзиклмнопрстуфхцчшщэюя" if code == "rus" else "abcdefghijklmnopqrstuvwxyz"
    words = random.Random(code)
    usual = ["".join(words.choices(letters, k=words.randint(4, 6))) for _ in range(300)]
    other = ["".join(rng.choices(letters, k=5)) if rng.random() < 0.25 else word for word in usual]
    lexicon = other if number else usual
    return {verse: " ".join(lexicon[m] for m in meaning) + "." for verse, meaning in MEANINGS.items()}


def garbage(texts: dict[str, str]) -> dict[str, str]:
    """Imitate OCR of a bad scan: lengths stay, most letters change."""
    rng = random.Random(3)
    scan = lambda c: rng.choice("klmnop|1;") if c != " " and rng.random() < 0.6 else c  # noqa: E731
    return {verse: "".join(map(scan, text)) for verse, text in texts.items()}


def write(folder: Path, lang: str, name: str, texts: dict[str, str]) -> None:
    (folder / lang).mkdir(parents=True, exist_ok=True)
    text = "".join(f"{verse}\t{line}\n" for verse, line in texts.items())
    (folder / lang / f"{name}.tsv").write_text(text, encoding="utf-8")


def lid(texts):
    """Identify a language by its words; None for a text without known words."""
    known = {code: words(" ".join(edition(code).values())) for code in CODES}
    found = [{code: len(known[code] & words(text)) for code in known} for text in texts]
    return [max(counts, key=counts.get) if any(counts.values()) else None for counts in found]


def words(text):
    return set(text.replace(".", "").split())


def build(folder, out, **options):
    report = build_bible(find_sources([folder]), out, progress=False, **options)
    removed = pq.read_table(out / "removed.parquet").to_pylist()
    return report, {row["source"]: row for row in report["by_source"]}, removed


@pytest.fixture
def folder(tmp_path):
    for code in CODES:
        write(tmp_path / "in", code, "a", edition(code))
    return tmp_path / "in"


def test_clean_sources_lose_nothing(folder, tmp_path):
    report, _, removed = build(folder, tmp_path / "out")
    assert not removed and report["sources"] == report["languages"] == len(CODES)
    assert report["verses"] == {"train": 90 * 13, "dev": 20 * 13, "test": 20 * 13}
    # each language into five pivots, less a pivot into itself
    pivots = ["deu_Latn", "eng_Latn", "fra_Latn", "rus_Cyrl", "spa_Latn"]
    assert report["pairs"]["dev"] == dict.fromkeys(pivots, 20 * 12)
    pairs = load_parallel(tmp_path / "out" / "pairs", split="test")
    assert len(pairs) == 5 * 20 * 12 and set(pairs["provenance"]) == {"primary"}
    row = next(r for r in pairs if r["source_lang"] == "tur_Latn" and r["target_lang"] == "rus_Cyrl")
    turkish, russian = edition("tur"), edition("rus")
    verse = next(v for v, text in turkish.items() if text == row["source"])
    assert verse.startswith("JHN 11:") and row["target"] == russian[verse]
    assert len(load_nway(tmp_path / "out" / "nway.parquet", split=None)) == 130 * 13
    assert not list((tmp_path / "out").glob(".texts*"))


def test_planted_faults(folder, tmp_path):
    for n in (1, 2):
        write(folder, "fin", f"good{n}", edition("fin", n))
    write(folder, "fin", "ocr", garbage(edition("fin", 3)))
    swapped = edition("fin", 4)
    texts = list(swapped.values())
    write(folder, "fin", "swapped", dict(zip(swapped, texts[50:] + texts[:50])))
    write(folder, "fin", "mislabelled", edition("hun", 1))
    merged = edition("ita", 0)
    merged["GEN 1:4"] += " " + merged["GEN 1:5"] + " " + merged["GEN 1:6"]
    merged["GEN 1:7"] = "  \u00a0 "
    write(folder, "ita", "a", merged)

    report, by, removed = build(folder, tmp_path / "out", lid=lid)
    assert report["removed_sources"] == {"quality": 2}
    assert by["ocr"]["removed"] == by["swapped"]["removed"] == "quality"
    assert by["ocr"]["quality"] < 0.75 and by["swapped"]["quality"] < 0.75
    assert by["good1"]["quality"] > 0.9 and by["good1"]["removed"] is None
    assert by["mislabelled"]["lang"] == "hun_Latn" and by["mislabelled"]["predicted"] == "hun"
    assert [(r["source"], r["lang"]) for r in report["relabelled"]] == [("mislabelled", "hun_Latn")]
    gone = {(r["lang"], r["id"], r["reason"]) for r in removed if r["lang"] == "ita_Latn"}
    assert gone == {("ita_Latn", "GEN 1:4", "crosslingual length"), ("ita_Latn", "GEN 1:7", "empty")}

    # every verse is either kept or removed for one reason
    nway = pq.read_table(tmp_path / "out" / "nway.parquet").to_pylist()
    keys = [(r["lang"], r["source"], r["id"]) for r in (*nway, *removed)]
    assert len(keys) == len(set(keys)) == 130 * (len(CODES) + 5)
    assert sum(report["removed_verses"].values()) == len(removed)
    # dev and test: the best source only, which also comes first
    held_out = {(r["source"]) for r in nway if r["lang"] == "fin_Latn" and r["split"] != "train"}
    best = next(r["source"] for r in report["by_source"] if r["best"] and r["lang"] == "fin_Latn")
    assert held_out == {best} and next(r for r in nway if r["lang"] == "fin_Latn")["source"] == best
    assert {r["source"] for r in nway if r["lang"] == "fin_Latn"} == {"a", "good1", "good2"}
    assert json.loads((tmp_path / "out" / "report.json").read_text()) == report


def test_scorer_chooses_the_pivot_text(folder, tmp_path):
    second = edition("eng", 1)
    second.pop("GEN 2:1")
    write(folder, "eng", "z", second)

    def likes_z(a, b, a_langs, b_langs):
        mine = set(second.values()) - set(edition("eng").values())
        return [float(x in mine or y in mine) for x, y in zip(a, b, strict=True)]

    build(folder, tmp_path / "with", scorer=likes_z)
    build(folder, tmp_path / "without", sample=20)
    build(folder, tmp_path / "again", sample=20)
    for name in ("nway.parquet", "removed.parquet", "pairs/train.parquet", "report.json"):
        assert (tmp_path / "without" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    for out, wanted in (("with", second), ("without", edition("eng"))):
        pairs = load_parallel(tmp_path / out / "pairs")
        english = {r["target"] for r in pairs if (r["source_lang"], r["target_lang"]) == ("fra_Latn", "eng_Latn")}
        rest = {v: edition("eng")[v] for v in ("GEN 2:1",)}  # only one source has it
        train = {v: t for v, t in (wanted | rest).items() if v.startswith("GEN")}
        assert english == set(train.values())
    refuses(r"the scorer returned shape \(1,\) for", build, folder, tmp_path / "wrong", scorer=lambda *columns: [1.0])


def test_chrf_is_that_of_sacrebleu(tmp_path):
    numbers, texts = filters.VerseNumbers(), [edition("fin", n) for n in range(3)]
    texts[2] = {v: t for v, t in list(texts[2].items())[40:]}
    editions = []
    for i, known in enumerate(texts):
        column, length = filters.spool(list(known.values()), tmp_path / f"{i}.arrow")
        assert length.tolist() == [len(t) for t in known.values()]
        keep = np.ones(len(known), bool)
        editions.append(filters.Edition("fin_Latn", str(i), None, numbers(known), length, column, keep))
    score = CHRF(word_order=2).corpus_score
    expected = []
    for i, own in enumerate(texts):
        shared = [([v for v in own if v in other], other) for j, other in enumerate(texts) if i != j]
        against = [score([own[v] for v in verses], [[other[v] for v in verses]]).score for verses, other in shared]
        expected.append(sum(against) / 2)
    assert filters.mutual_chrf(editions, sample=None) == pytest.approx(expected)
    assert filters.mutual_chrf(editions, sample=20) == pytest.approx(expected, abs=15)
    assert filters.mutual_chrf(editions[:1]) == [None]


def test_outliers_by_length():
    verse, length = np.array([0, 0, 0, 1, 1, 2]), np.array([100, 110, 200, 50, 52, 9])
    # means 136.7, 51, 9: only 200 lies more than 40 % away
    assert filters.monolingual_outliers(verse, length, 0.4).tolist() == [False, False, True, False, False, False]
    # Across languages, after each is scaled.
    rng = np.random.default_rng(0)
    langs, verses = 20, 200
    scale, base = rng.uniform(0.3, 2, langs), rng.uniform(40, 200, verses)
    length = base * scale[:, None] * rng.normal(1, 0.05, (langs, verses))
    lang, verse = np.divmod(np.arange(langs * verses), verses)
    factors = filters.language_factors(lang, verse, length.ravel())
    assert factors / factors.mean() == pytest.approx(scale / scale.mean(), rel=0.02)
    length[3, 7] *= 2  # two verses in one
    flagged = np.flatnonzero(filters.crosslingual_outliers(lang, verse, length.ravel()))
    assert 3 * verses + 7 in flagged and len(flagged) < 10
    few = lang < 10  # nobody lies three deviations off among ten
    assert not filters.crosslingual_outliers(lang[few], verse[few], length.ravel()[few]).any()


def test_factors_do_not_depend_on_which_books_a_language_has():
    rng = np.random.default_rng(1)
    base = np.concatenate([np.full(50, 50.0), np.full(50, 200.0)])  # a book of short verses, one of long ones
    lang = np.repeat([0, 1, 2], [100, 50, 50])
    verse = np.concatenate([np.arange(100), np.arange(50), np.arange(50, 100)])
    length = base[verse] * np.array([1, 0.5, 0.5])[lang] * rng.normal(1, 0.01, 200)
    factors = filters.language_factors(lang, verse, length)
    assert factors[1] / factors[0] == pytest.approx(0.5, rel=0.02)
    assert factors[2] / factors[0] == pytest.approx(0.5, rel=0.02)


def test_labels():
    russian, chinese = ["В начале было Слово"], ["太初有道，道與神同在"]
    japanese = ["初めに言があった。言は神と共にあった"]
    assert [filters.script_of(t) for t in (russian, chinese, japanese, ["1 2 3"])] == ["Cyrl", "Hani", "Jpan", None]
    assert label_of(russian, "ru").lang == "rus_Cyrl"
    assert label_of(russian, "aai").lang == "aai_Cyrl"  # no table knows Arifama-Miniafia; its script is seen
    assert label_of(chinese, "zho_Hant").lang == "zho_Hant"
    assert label_of(chinese, "zho_Hant", lambda texts: ["cmn"]).lang == "zho_Hant"
    assert label_of(chinese, "zh", lambda texts: ["zho_Hant"]).lang == "zho_Hant"
    assert label_of(russian * 4, "bul", lambda texts: ["rus", "rus", "rus", "bul"]) == ("rus_Cyrl", "rus", 0.75)
    assert label_of(russian * 4, "bul", lambda texts: ["rus", None, "ukr", "bul"]).lang == "bul_Cyrl"
    contradicts = lambda code, predicted: code != "aai_Cyrl"  # noqa: E731
    assert label_of(russian, "aai", lambda texts: ["rus"], contradicts=contradicts).lang == "aai_Cyrl"
    assert label_of(russian, None).lang is None


def test_broken_files_stop_or_are_skipped_by_flag(folder, tmp_path):
    (folder / "xho").mkdir()
    (folder / "xho" / "b.usfm").write_bytes(b"\\id GEN\n\\c 1\n\\p\n\\v 1 \xff\n")
    write(folder, "zul", "odd", {"GEN 1:1": "x" * 40, "XYZ 1:1": "y"})
    refuses(r"b.usfm:4: not UTF-8", build, folder, tmp_path / "out")
    report, _, _ = build(folder, tmp_path / "out", on_bad="skip")
    assert len(report["unreadable"]) == 1 and "b.usfm:4: not UTF-8" in report["unreadable"][0]["reason"]
    assert "skipped 1 bad row (unknown book 'XYZ'" in report["bad_rows"] and "odd.tsv:2" in report["bad_rows"]
    (folder / "xho" / "b.usfm").unlink()
    refuses(r"odd.tsv:2: unknown book 'XYZ'", build, folder, tmp_path / "out")


def test_a_ces_file_tells_its_own_language(folder, tmp_path):
    places = {v: v.replace("JHN", "JOH").replace(" ", ".").replace(":", ".") for v in VERSES}
    segs = "\n".join(f'<seg id="b.{places[v]}" type="verse">{t}</seg>' for v, t in edition("por", 5).items())
    text = f'<cesDoc><language id="gv" iso639="glv">Manx</language>\n{segs}</cesDoc>'
    (folder / "Manx.xml").write_text(text, encoding="utf-8")
    _, by, _ = build(folder, tmp_path / "out")
    assert (by["Manx"]["lang"], by["Manx"]["declared"], by["Manx"]["kept"]) == ("glv_Latn", "glv", 130)


def test_command(folder, tmp_path, run_main, main_refused):
    code, out, _ = run_main(bible.main, folder, "--out", tmp_path / "out", "--pivots", "eng,fr")
    report = json.loads(out)
    assert code == 0 and report["languages"] == 13 and set(report["pairs"]["train"]) == {"eng_Latn", "fra_Latn"}
    main_refused("no file or folder", bible.main, tmp_path / "none", "--out", tmp_path / "x")
    (tmp_path / "plain.tsv").write_text("GEN 1:1\thello there\n")
    code, _, err = run_main(bible.main, tmp_path / "plain.tsv", "--out", tmp_path / "x")
    assert code == 2 and "unknown language; write fra_Latn=" in err
    main_refused("on_bad_row is 'sometimes'", bible.main, folder, "--out", tmp_path / "x", "--on-bad", "sometimes")
