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

NAMES = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def normal_vector(text: str) -> np.ndarray:
    """Random numbers that the text decides."""
    return np.random.default_rng(list(text.encode())).normal(size=24)


def encode(texts, lang=None):
    """Bag of words and signs; every text has a little of its own, so that no two score the same."""
    vectors = []
    for text in texts:
        words = text.replace("=", " sets ").replace("+", " plus ").lower().strip(".").split()
        vectors.append(sum(map(normal_vector, words)) + 0.01 * normal_vector(text))
    return np.array(vectors, np.float32)


def code_rows(count: int = 60, langs: tuple[str, ...] = ("python", "go")) -> list[dict]:
    """Assignments with a sentence that describes each."""
    rng = np.random.default_rng(0)
    rows = []
    for number in range(count):
        a, b, c = rng.choice(NAMES, size=3, replace=False)
        row = {
            "source": f"{a} = {b} + {c} {number % 7}",
            "source_lang": langs[number % len(langs)],
            "target": f"sets {a} to {b} plus {c} {number % 7}.",
            "target_lang": "eng_Latn",
        }
        rows.append(row | {"provenance": "code"})
    return rows


def mined(rows, out, embed=encode, **options):
    """Of the negatives mined for rows: the report and the lists."""
    report = mine_negatives(Dataset.from_list(rows), embed, out, progress=False, **options)
    return report, load_parallel(out)["hard_negatives"][:]


@cache
def unit(text: str) -> np.ndarray:
    vector = encode([text])[0].astype(np.float64)
    return vector / np.linalg.norm(vector)


def form(text: str) -> str:
    letters = [c if c.isalnum() else " " for c in text.lower()]
    return " ".join("".join(letters).split())


def negatives_by_hand(
    rows: list[dict], pool: list[str], k: int, max_cosine: float
) -> list[list[str]]:
    """For each row the k nearest texts of the pool below a cosine, that are none of its
    translations."""
    first: dict[str, str] = {}  # texts of one normal form count once: the first one is embedded
    for text in pool:
        first.setdefault(form(text), text)
    negatives = []
    for row in rows:
        positives = {form(other["target"]) for other in rows if other["source"] == row["source"]}
        scored = []
        for key, text in first.items():
            if key not in positives and unit(row["target"]) @ unit(text) <= max_cosine:
                scored.append((-(unit(row["source"]) @ unit(text)), text))
        negatives.append([text for _, text in sorted(scored)[:k]])
    return negatives


def assert_same_negatives(found, by_hand, rows):
    """Equal texts, or texts whose cosines differ by rounding alone:
    their order depends on the processor."""
    for row, texts, expected in zip(rows, found, by_hand, strict=True):
        if texts != expected:
            cosines = [unit(text) @ unit(row["source"]) for text in texts]
            expected_cosines = [unit(text) @ unit(row["source"]) for text in expected]
            np.testing.assert_allclose(cosines, expected_cosines, atol=1e-5)


class Mined:
    """Four negatives for each of 62 rows; two of these share their source or their normal form with
    others."""

    def __init__(self, out):
        self.rows = code_rows()
        self.rows.append(self.rows[0] | {"target": "another description of the first row"})
        self.rows.append(
            self.rows[1] | {"source": "x = 1", "target": self.rows[1]["target"].upper() + "!"}
        )
        self.report, self.negatives = mined(self.rows, out, k=4, max_cosine=0.9)
        self.targets = load_parallel(out)["target"][:]


@pytest.fixture(scope="module")
def of_sixty(tmp_path_factory):
    return Mined(tmp_path_factory.mktemp("mined") / "out.parquet")


def test_negatives_are_those_of_a_loop(of_sixty):
    targets = [row["target"] for row in of_sixty.rows]
    assert_same_negatives(
        of_sixty.negatives, negatives_by_hand(of_sixty.rows, targets, 4, 0.9), of_sixty.rows
    )


def test_the_rows_stay(of_sixty):
    assert of_sixty.targets == [row["target"] for row in of_sixty.rows]


def test_the_report_counts_the_negatives(of_sixty):
    assert of_sixty.report.negatives == 4 * len(of_sixty.rows)
    assert of_sixty.report.short == 0


@pytest.mark.parametrize("reason", ["positive", "same_source", "cosine"])
def test_what_is_left_out_is_counted_by_reason(of_sixty, reason):
    assert of_sixty.report.excluded[reason]


def test_negatives_may_come_from_another_pool(tmp_path):
    rows = code_rows(12)
    pool = code_rows(40, langs=("java",))

    _, negatives = mined(rows, tmp_path / "out.parquet", pool=Dataset.from_list(pool), k=2)

    assert negatives == negatives_by_hand(rows, [row["target"] for row in pool], 2, 0.95)


def test_a_language_without_a_pool_is_refused(tmp_path):
    rows = [row | {"target_lang": "deu_Latn"} for row in code_rows(12)]
    options = {"pool": Dataset.from_list(code_rows(40)), "k": 2}
    refuses(
        "the pool has no text in deu_Latn, the language of 12",
        mined,
        rows,
        tmp_path / "out.parquet",
        **options,
    )


class TwoLanguages:
    """Three rows in English and three in German:
    fewer than the five negatives that are asked for."""

    def __init__(self, out):
        rows = code_rows(6)
        for row in rows[3:]:
            row["target_lang"] = "deu_Latn"
        self.english = {row["target"] for row in rows[:3]}
        self.report, self.negatives = mined(rows, out, max_cosine=2)


@pytest.fixture(scope="module")
def two_languages(tmp_path_factory):
    return TwoLanguages(tmp_path_factory.mktemp("two") / "out.parquet")


def test_negatives_are_in_the_language_of_the_target(two_languages):
    for number, negatives in enumerate(two_languages.negatives):
        assert len(negatives) == 2
        assert (set(negatives) <= two_languages.english) == (number < 3)


def test_rows_with_too_few_negatives_are_counted(two_languages):
    assert (two_languages.report.short, two_languages.report.negatives) == (6, 12)
    assert two_languages.report.pool == {"deu_Latn": 3, "eng_Latn": 3}


def test_the_pool_is_drawn_by_seed(tmp_path):
    pools = []
    for number, seed in enumerate((0, 0, 1)):
        report, negatives = mined(
            code_rows(), tmp_path / f"{number}.parquet", pool_size=9, seed=seed
        )
        assert report.pool == {"eng_Latn": 9}
        pools.append({text for of_row in negatives for text in of_row})
    first, again, other = pools
    assert first == again != other
    assert len(first) <= 9


SIGNS = ["a+b", "a-b", "a +  b", "a + b", "A + b"]


def keys_of(lang: str) -> list[int]:
    rows = {"target": SIGNS, "target_lang": [lang] * len(SIGNS)}
    return row_keys(Dataset.from_dict(rows), "target", progress=False).tolist()


def test_code_is_told_apart_by_its_signs():
    keys = keys_of("python")
    assert len(set(keys)) == 4
    assert keys[2] == keys[3]  # white space does not count


def test_in_a_sentence_signs_do_not_count():
    assert len(set(keys_of("eng_Latn"))) == 1


def test_texts_of_two_languages_are_never_the_same():
    assert not set(keys_of("python")) & set(keys_of("eng_Latn"))


def test_a_stopped_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("hf_echo.inference.embedding_store.CALL_CHUNK", 20)
    out = tmp_path / "out.parquet"
    before = []

    def stops(texts, lang):
        before.append(len(texts))
        if sum(before) > 45:
            raise RuntimeError("power cut")
        return encode(texts)

    with pytest.raises(RuntimeError):
        mined(code_rows(), out, stops)
    assert not out.exists()
    after = []

    def counts(texts, lang):
        after.append(len(texts))
        return encode(texts)

    _, negatives = mined(code_rows(), out, counts)

    assert sum(after) <= 120 - 20 * 2 + 2  # two finished chunks are not encoded again; the probe is
    _, of_whole_run = mined(code_rows(), tmp_path / "whole.parquet")
    assert negatives == of_whole_run


def test_a_broken_embedding_names_its_row(tmp_path):
    rows = code_rows(20)
    rows[12]["target"] = "no vector"

    def broken(texts, lang):
        vectors = encode(texts)
        vectors[[text == "no vector" for text in texts]] = 0
        return vectors

    refuses(
        "target 13 of the data: a NaN, infinite or zero embedding",
        mined,
        rows,
        tmp_path / "out.parquet",
        broken,
    )


def test_a_row_needs_a_negative(tmp_path):
    refuses("k is 0", mined, code_rows(20), tmp_path / "out.parquet", k=0)


@pytest.fixture(scope="module")
def described():
    """Ten descriptions are of other snippets of the same language: these are always nearer."""
    rows = code_rows()
    for number in range(0, 60, 6):
        rows[number]["target"] = rows[(number + 16) % 60]["target"]
    return rows


@pytest.fixture(scope="module")
def consistent(described):
    """By a loop: whether no other snippet of the language is nearer to the description."""
    keep = []
    for row in described:
        query = unit(row["target"])
        to_source = query @ unit(row["source"])
        others = [
            other["source"]
            for other in described
            if other["source_lang"] == row["source_lang"]
            and other["source"].split() != row["source"].split()
        ]
        keep.append(all(to_source >= query @ unit(other) for other in others))
    assert not any(keep[0:60:6])
    return keep


@pytest.fixture
def filtered(described, tmp_path):
    """The report of the filter, and its file."""
    out = tmp_path / "kept.parquet"
    return filter_consistent(
        Dataset.from_list(described), encode, out, pool_size=None, progress=False
    ), out


def test_consistency_keeps_what_a_loop_keeps(filtered, described, consistent):
    kept = load_parallel(filtered[1])["target"][:]
    assert kept == [row["target"] for row, keep in zip(described, consistent) if keep]
    assert 10 < len(kept) < 60


@pytest.mark.parametrize("lang", ["python", "go"])
def test_consistency_counts_by_language(filtered, described, consistent, lang):
    of_language = [keep for row, keep in zip(described, consistent) if row["source_lang"] == lang]
    assert filtered[0].kept[lang] == sum(of_language)
    assert filtered[0].dropped[lang] == len(of_language) - sum(of_language)


def test_share_is_what_is_kept_of_all_rows(filtered, consistent):
    assert filtered[0].share == pytest.approx(sum(consistent) / 60)


def test_snippets_may_be_the_targets(described, consistent, tmp_path):
    names = {
        "source": "target",
        "target": "source",
        "source_lang": "target_lang",
        "target_lang": "source_lang",
    }
    turned = Dataset.from_list(described).rename_columns(names)
    options = {"snippets": "target", "pool_size": None, "progress": False}

    report = filter_consistent(turned, encode, tmp_path / "kept.parquet", **options)

    assert sum(report.kept.values()) == sum(consistent)


@pytest.fixture
def command(run_main, tmp_path, described, monkeypatch):
    """command(name) of a file of rows with a known encoder:
    (exit code, printed report, rows of the output)."""
    monkeypatch.setattr("hf_echo.inference.any_encoder.any_encoder", lambda name: encode)
    rows = tmp_path / "rows.parquet"
    out = tmp_path / "out.parquet"
    Dataset.from_list(described).to_parquet(rows)

    def call(name, *options):
        words = [rows, out, "--model", "any", "--pool-size", 0]
        code, printed, _ = run_main([mine, consistency], name, *words, *options)
        return code, json.loads(printed), load_parallel(out)

    return call


def test_the_command_mines(command, described):
    code, report, rows = command("mine", "--k", 3)

    assert code == 0
    assert report["rows"] == 60
    targets = [row["target"] for row in described]
    assert rows["hard_negatives"][:] == negatives_by_hand(described, targets, 3, 0.95)


def test_the_command_filters(command, consistent):
    code, report, rows = command("consistency")

    assert code == 0
    assert report["kept/go"] + report["dropped/go"] == 30
    assert len(rows) == sum(consistent)


def test_the_command_writes_parquet(main_refused, tmp_path):
    main_refused(
        "must end in .parquet", consistency, "rows.parquet", tmp_path / "out.tsv", "--model", "any"
    )


def test_a_wrong_side_is_named(described, tmp_path):
    out = tmp_path / "out.parquet"
    refuses(
        "snippets is 'x'",
        filter_consistent,
        Dataset.from_list(described),
        encode,
        out,
        snippets="x",
    )
