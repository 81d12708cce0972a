"""N-way tables: reading, and pairs formed on the fly against pairs by brute force."""

from collections import Counter
from itertools import permutations

import datasets
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_echo.data import load_nway, load_parallel, nway_pairs
from hf_echo.data.nway import dev_split
from hf_echo.stages.core.arguments import DataArguments
from hf_echo.stages.core.text_pairs import load_dev_sets

from ..refusals import refusals, refuses

LANGUAGES = ["eng_Latn", "fra_Latn", "deu_Latn", "rus_Cyrl"]


def brute_force(rows, direction, languages=None):
    pairs = []
    for a, b in permutations(rows, 2):
        if a["id"] != b["id"] or a["lang"] == b["lang"]:
            continue
        x, y = (b, a) if direction == "eng_x" else (a, b)
        if direction != "all" and (
            y["lang"] != "eng_Latn" or (languages and x["lang"] not in languages)
        ):
            continue
        if direction == "all" and languages and not {x["lang"], y["lang"]} <= set(languages):
            continue
        pairs.append((a["text"], a["lang"], b["text"], b["lang"]))
    return Counter(pairs)


def as_pairs(dataset):
    return [(r["source"], r["source_lang"], r["target"], r["target_lang"]) for r in dataset]


def table(keys, name="id"):
    rows = [
        {name: str(i), "lang": lang, "text": f"{n}: {i} in {lang}"}
        for n, (i, lang) in enumerate(keys)
    ]
    return datasets.Dataset.from_list(rows)


FULL = table((i, lang) for i in range(5) for lang in LANGUAGES)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from(LANGUAGES)), min_size=1, max_size=25),
    st.sampled_from(["x_eng", "eng_x", "all"]),
    st.sampled_from([None, ["fra_Latn", "rus_Cyrl"], ["fra_Latn", "eng_Latn"]]),
    st.integers(0, 99),
)
def test_pairs_are_those_of_brute_force(keys, direction, languages, seed):
    rows = table(keys)  # with gaps, and with several rows of a language under one id
    expected = brute_force(list(rows), direction, languages)
    needed = set(languages or ()) | ({"eng_Latn"} if direction != "all" else set())
    if not expected or not needed <= set(rows["lang"][:]):
        with pytest.raises(ValueError, match="no id has two languages|no row in '"):
            nway_pairs(rows, direction=direction, languages=languages, seed=seed)
    else:
        pairs = nway_pairs(rows, direction=direction, languages=languages, seed=seed)
        assert Counter(as_pairs(pairs)) == expected


def test_texts_that_mean_the_same_stand_far_apart():
    rows = list(nway_pairs(FULL, seed=1))
    assert rows == list(nway_pairs(FULL, seed=1)) != list(nway_pairs(FULL, seed=2))
    meanings = [row["target"] for row in rows]
    # all 5 ids, then again
    assert all(len(set(meanings[i : i + 5])) == 5 for i in range(0, len(rows), 5))


def test_max_per_id_draws_other_pairs_for_other_ids():
    rows = table((i, lang) for i in range(40) for lang in LANGUAGES)
    pairs = as_pairs(nway_pairs(rows, max_per_id=1))
    assert len(pairs) == 40
    assert len({p[2] for p in pairs}) == 40
    assert {p[1] for p in pairs} == set(LANGUAGES) - {"eng_Latn"}
    several = table(
        [(0, lang) for lang in ["fra_Latn", "fra_Latn", "deu_Latn"]] + [(1, "eng_Latn")]
    )
    # of the 4 there are
    assert len(as_pairs(nway_pairs(several, direction="all", max_per_id=3))) == 3


def test_pairs_of_all_directions_are_on_disk(own_cache):
    pairs = nway_pairs(FULL, direction="all")
    assert len(pairs) == 5 * 4 * 3
    assert list(own_cache.rglob("*.arrow"))


@pytest.mark.usefixtures("own_cache")
def test_pairs_of_another_pivot_are_not_those_of_the_cache():
    nway_pairs(FULL, direction="all")
    turned = nway_pairs(FULL, pivot="deu_Latn", provenance="mined", limit=7)
    columns = [(row["target_lang"], row["provenance"]) for row in turned]
    assert columns == [("deu_Latn", "mined")] * 7


test_wrong_arguments = refusals(
    (lambda: nway_pairs(FULL, direction="x"), "direction='x' is not one of x_eng, eng_x, all"),
    (
        lambda: nway_pairs(FULL, languages=["spa_Latn"]),
        "no row in 'spa_Latn' in .* its languages: deu_Latn, eng_",
    ),
    (lambda: nway_pairs(FULL, pivot="spa_Latn"), "no row in 'spa_Latn'"),
    (lambda: load_nway("no.tsv"), "no.tsv: no such file or folder", FileNotFoundError),
)


def write(path, lines):
    path.write_text("\n".join("\t".join(line) for line in lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["id", "verse_id", "index_id"])
def test_a_file_with_any_of_the_usual_id_names(tmp_path, name):
    rows = table(((i, lang) for i in (0, 1) for lang in LANGUAGES), name).cast_column(
        name, datasets.Value("int64")
    )
    rows = rows.add_column("split", ["train"] * 4 + ["dev"] * 4)
    rows.to_parquet(tmp_path / "c.parquet")
    rows.to_json(tmp_path / "c.jsonl")
    for file in ("c.parquet", "c.jsonl"):
        loaded = load_nway(tmp_path / file, split="dev")
        assert (
            list(loaded)
            == [{"id": "1", "lang": row["lang"], "text": row["text"]} for row in rows][4:]
        )
        pairs = load_parallel(tmp_path / file, split=None)
        assert Counter(as_pairs(pairs)) == brute_force(
            list(load_nway(tmp_path / file, split=None)), "x_eng"
        )


def test_load_parallel_hands_its_options_on(tmp_path):
    path = write(
        tmp_path / "c.tsv",
        [("sid", "lang", "text"), ("a", "fra_Latn", "un"), ("a", "deu_Latn", "eins")],
    )
    pairs = load_parallel(
        path, id_column="sid", direction="all", languages=["fra_Latn", "deu_Latn"]
    )
    assert sorted(pairs["source"]) == ["eins", "un"]
    assert len(load_parallel(path, id_column="sid", direction="all", limit=1)) == 1
    with pytest.raises(
        ValueError, match="unknown option 'n': .*c.tsv is an n-way table, which accepts id_column"
    ):
        load_parallel(path, id_column="sid", n=3)
    refuses("no columns for source and target; found: sid, lang, text", load_parallel, path)
    refuses(
        r"needs the columns id \(or .*\), lang and text; found: sid, lang, text", load_nway, path
    )
    assert load_nway(path, "sid")["id"][:] == ["a", "a"]


@pytest.fixture
def bad_table(tmp_path):
    """An empty text, a second row of an id, an unknown language, a row without an id."""
    lines = [
        ("id", "lang", "text"),
        ("1", "fra_Latn", ""),
        ("1", "fra_Latn", "un"),
        ("1", "eng_Latn", "one"),
        ("1", "fra_Latn", "encore un"),
        ("2", "frenchish", "deux"),
        ("", "fra_Latn", "trois"),
    ]
    return write(tmp_path / "c.tsv", lines)


def test_bad_rows_are_reported(bad_table):
    reasons = r"c.tsv:2: text is empty.*:5: a second row for id '1' in fra_Latn.*unknown.*c.tsv:7: id.*\(4 bad rows"
    refuses(reasons, load_nway, bad_table)


def test_skipped_rows_are_counted(bad_table, caplog):
    assert load_nway(bad_table, on_bad_row="skip")["text"][:] == ["un", "one"]
    assert "skipped 4 bad rows" in caplog.text


DEV_SPLITS = [
    (["train", "dev", "test"], "dev"),
    (["train", "validation"], "validation"),
    (["train", "test"], "test"),
]


@pytest.mark.parametrize(("splits", "chosen"), [*DEV_SPLITS, (["train"], None), ([], None)])
def test_a_dev_set_is_the_dev_split(tmp_path, caplog, splits, chosen):
    header = "id\tlang\ttext" + "\tsplit" * bool(splits)
    rows = [f"{i}\t{lang}\tx{i}" for i in range(6) for lang in ("fra_Latn", "eng_Latn")]
    lines = [
        f"{row}\t{splits[i // 2 % len(splits)]}" if splits else row for i, row in enumerate(rows)
    ]
    (tmp_path / "n.tsv").write_text("\n".join([header, *lines]) + "\n")
    assert dev_split(tmp_path / "n.tsv") == chosen
    own = load_dev_sets(DataArguments(dev_data={"d": str(tmp_path / "n.tsv")}, dev_negatives=0))[
        "d"
    ].rows
    assert own["text"][:] == load_nway(tmp_path / "n.tsv", split=chosen)["text"][:]
    assert len(own) == (12 if chosen is None else 12 // len(splits))
    assert any(
        f"dev_data.d: the {len(own)} rows of split {chosen!r}" in m for m in caplog.messages
    ) == bool(chosen)
    if "train" in splits:
        given = {"d": {"path": str(tmp_path / "n.tsv"), "split": "train"}}
        assert (
            "x0"
            in load_dev_sets(DataArguments(dev_data=given, dev_negatives=0))["d"].rows["text"][:]
        )


def test_several_splits_without_dev_are_refused(tmp_path):
    rows = "id\tlang\ttext\tsplit\n1\tfra_Latn\tun\ta\n1\teng_Latn\tone\tb\n"
    (tmp_path / "n.tsv").write_text(rows)
    refuses("n.tsv has the splits a, b: say which one with split=", dev_split, tmp_path / "n.tsv")


def test_a_folder_called_dev_is_the_split(tmp_path):
    for name in ("train", "dev"):
        (tmp_path / name).mkdir()
        rows = "id\tlang\ttext\n1\tfra_Latn\tun\n1\teng_Latn\tone\n"
        (tmp_path / name / "n.tsv").write_text(rows)
    assert dev_split(tmp_path) == "validation"
    assert len(load_nway(tmp_path, split="validation")) == 2


def flores_200(folder, **changes):
    """The public archive's layout: three languages, two splits; sentences are ours."""
    contents = {"devtest/eng_Latn": "A cat\nA dog\n", "devtest/fra_Latn": "Un chat\nUn chien\n"}
    contents |= {
        "devtest/zho_Hans": "猫\n狗\n",
        "dev/eng_Latn": "Rain\n",
        "dev/fra_Latn": "La pluie\n",
    }
    for name, content in (contents | changes).items():
        file = folder / f"{name}.{name.split('/')[0]}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
    (folder / "metadata_devtest.tsv").write_text("URL\tdomain\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize("split", ["devtest", "test"])
def test_flores_200_as_it_is_downloaded(split, tmp_path):
    rows = load_nway(flores_200(tmp_path), split=split)
    by_language = {
        lang: [row["text"] for row in rows if row["lang"] == lang] for lang in set(rows["lang"])
    }
    assert by_language == {
        "eng_Latn": ["A cat", "A dog"],
        "fra_Latn": ["Un chat", "Un chien"],
        "zho_Hans": ["猫", "狗"],
    }
    assert rows["id"][:2] == ["1", "2"]
    assert Counter(rows["id"]) == {"1": 3, "2": 3}


def test_the_folder_of_one_split_of_flores(tmp_path):
    rows = load_nway(flores_200(tmp_path) / "dev", split=None)
    assert rows["text"][:] == ["Rain", "La pluie"]


def test_the_dev_split_of_flores(tmp_path):
    assert dev_split(flores_200(tmp_path)) == "dev"


def test_flores_plus_as_it_is_on_the_hub(tmp_path, caplog):
    (tmp_path / "devtest").mkdir()
    for code, text in (("cmn_Hans", "猫"), ("eng_Latn", "A cat"), ("cat_Latn_vale1252", "Un gat")):
        row = {"id": 7, "iso_639_3": code[:3], "iso_15924": code[4:8], "text": text}
        datasets.Dataset.from_list([row]).to_parquet(tmp_path / "devtest" / f"{code}.parquet")
    rows = load_nway(tmp_path, split="devtest")
    assert list(rows) == [
        {"id": "7", "lang": "zho_Hans", "text": "猫"},
        {"id": "7", "lang": "eng_Latn", "text": "A cat"},
    ]
    assert "left out, because NLLB has no code for it: cat_Latn_vale1252" in caplog.text


def test_other_tables_named_by_language_are_no_flores(tmp_path):
    (tmp_path / "dev").mkdir()
    row = {"id": "7", "lang": "fra_Latn", "text": "Un chat"}
    datasets.Dataset.from_list([row]).to_parquet(tmp_path / "dev" / "fra_Latn.parquet")
    assert list(load_nway(tmp_path, split="dev")) == [row]


test_flores_refusals = refusals(
    ({}, None, "has the splits dev and devtest: say which one"),
    ({}, "blind", "no file of split 'blind'; there are dev, devtest", FileNotFoundError),
    # A lost line would pair every later sentence with a wrong one.
    ({"devtest/fra_Latn": "Un chien\n"}, "devtest", "fra_Latn.devtest has 1 sentences"),
    ({"devtest/fra_Latn": "Un chat\n \n"}, "devtest", "fra_Latn.devtest:2: text"),
    call=lambda changes, split, tmp_path: load_nway(flores_200(tmp_path, **changes), split=split),
)
