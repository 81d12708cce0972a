"""N-way tables: reading, and pairs formed on the fly against pairs by brute force."""

from collections import Counter
from itertools import permutations, product

import datasets
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_echo.data import load_nway, load_parallel, nway_pairs
from hf_echo.data.nway import dev_split
from hf_echo.stages.core.arguments import DataArguments
from hf_echo.stages.core.text_pairs import load_dev_sets

LANGUAGES = ["eng_Latn", "fra_Latn", "deu_Latn", "rus_Cyrl"]


def brute_force(rows, direction, languages=None):
    """All pairs of texts of one id in two languages that the direction asks for."""
    pairs = Counter()
    for source, target in permutations(rows, 2):
        langs = [source["lang"], target["lang"]]
        if source["id"] != target["id"] or langs[0] == langs[1]:
            continue
        if direction == "x_eng" and langs[1] != "eng_Latn":
            continue
        if direction == "eng_x" and langs[0] != "eng_Latn":
            continue
        # English itself need not be named
        chosen = set(languages or langs)
        if direction != "all":
            chosen.add("eng_Latn")
            if languages and not chosen.intersection(langs) - {"eng_Latn"}:
                continue
        if set(langs) <= chosen:
            pairs[source["text"], langs[0], target["text"], langs[1]] += 1
    return pairs


def as_pairs(dataset):
    columns = [dataset[name] for name in ("source", "source_lang", "target", "target_lang")]
    return list(zip(*columns, strict=True))


def table(keys, name="id"):
    """A row for each (id, language); all texts differ."""
    rows = []
    for number, (key, lang) in enumerate(keys):
        rows.append({name: str(key), "lang": lang, "text": f"{number}: {key} in {lang}"})
    return datasets.Dataset.from_list(rows)


FULL = table(product(range(5), LANGUAGES))


@settings(deadline=None, max_examples=40)
@given(
    keys=st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from(LANGUAGES)), min_size=1, max_size=25
    ),
    direction=st.sampled_from(["x_eng", "eng_x", "all"]),
    languages=st.sampled_from([None, ["fra_Latn", "rus_Cyrl"], ["fra_Latn", "eng_Latn"]]),
    seed=st.integers(0, 99),
)
def test_pairs_are_those_of_brute_force(keys, direction, languages, seed):
    """With gaps, and with several rows of a language under one id."""
    rows = table(keys)
    options = {"direction": direction, "languages": languages, "seed": seed}
    expected = brute_force(list(rows), direction, languages)
    needed = {*(languages or []), *(["eng_Latn"] if direction != "all" else [])}

    if expected and needed <= set(rows["lang"]):
        assert Counter(as_pairs(nway_pairs(rows, **options))) == expected
    else:
        with pytest.raises(ValueError, match="no id has two languages|no row in '"):
            nway_pairs(rows, **options)


def test_texts_that_mean_the_same_stand_far_apart():
    """All five ids, then again."""
    meanings = nway_pairs(FULL, seed=1)["target"][:]

    assert len(set(meanings[:5])) == 5
    assert len(set(meanings[5:10])) == 5
    assert len(set(meanings[10:15])) == 5


def test_the_order_of_pairs_follows_from_the_seed():
    rows = list(nway_pairs(FULL, seed=1))

    assert list(nway_pairs(FULL, seed=1)) == rows
    assert list(nway_pairs(FULL, seed=2)) != rows


def test_the_first_pairs_of_ids_are_of_other_languages():
    pairs = nway_pairs(table(product(range(40), LANGUAGES)), limit=40)

    assert len(set(pairs["target"])) == 40
    assert set(pairs["source_lang"]) == set(LANGUAGES) - {"eng_Latn"}


def test_several_rows_of_a_language_are_not_paired_with_each_other():
    """Two French rows and a German one have four pairs."""
    rows = table([(0, "fra_Latn"), (0, "fra_Latn"), (0, "deu_Latn"), (1, "eng_Latn")])

    assert len(nway_pairs(rows, direction="all")) == 4


def test_pairs_of_all_directions_are_on_disk(own_cache):
    pairs = nway_pairs(FULL, direction="all")
    assert len(pairs) == 5 * 4 * 3
    assert list(own_cache.rglob("*.arrow"))


@pytest.mark.usefixtures("own_cache")
def test_pairs_of_another_pivot_are_not_those_of_the_cache():
    nway_pairs(FULL, direction="all")

    turned = nway_pairs(FULL, pivot="deu_Latn", provenance="mined", limit=7)

    assert turned["target_lang"][:] == ["deu_Latn"] * 7
    assert turned["provenance"][:] == ["mined"] * 7


@pytest.mark.parametrize(
    "options, message",
    [
        ({"direction": "x"}, "direction='x' is not one of x_eng, eng_x, all"),
        ({"languages": ["spa_Latn"]}, "no row in 'spa_Latn' in .* its languages: deu_Latn, eng_"),
        ({"pivot": "spa_Latn"}, "no row in 'spa_Latn'"),
    ],
)
def test_wrong_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        nway_pairs(FULL, **options)


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(params=["c.parquet", "c.jsonl"])
def split_file(request, tmp_path):
    """write(name of the id column): two ids in four languages, the second one in the split dev;
    ids are numbers."""

    def make(name):
        rows = table(product((0, 1), LANGUAGES), name)
        rows = rows.cast_column(name, datasets.Value("int64"))
        rows = rows.add_column("split", ["train"] * 4 + ["dev"] * 4)
        path = tmp_path / request.param
        if path.suffix == ".parquet":
            rows.to_parquet(path)
        else:
            rows.to_json(path)
        return path

    return make


@pytest.mark.parametrize("name", ["id", "verse_id", "index_id"])
def test_a_file_with_any_of_the_usual_id_names(split_file, name):
    rows = load_nway(split_file(name), split="dev")

    assert list(rows) == list(table(product((0, 1), LANGUAGES)))[4:]


def test_an_nway_file_is_read_as_pairs(split_file):
    path = split_file("id")

    pairs = load_parallel(path, split=None)

    assert Counter(as_pairs(pairs)) == brute_force(load_nway(path, split=None), "x_eng")


@pytest.fixture
def odd_id(tmp_path):
    """A table whose id column has an unusual name."""
    return write(tmp_path / "c.tsv", "sid\tlang\ttext", "a\tfra_Latn\tun", "a\tdeu_Latn\teins")


def test_load_parallel_hands_its_options_on(odd_id):
    options = {"id_column": "sid", "direction": "all", "languages": ["fra_Latn", "deu_Latn"]}

    assert sorted(load_parallel(odd_id, **options)["source"]) == ["eins", "un"]
    assert len(load_parallel(odd_id, **options, limit=1)) == 1


def test_the_id_column_can_be_named(odd_id):
    assert load_nway(odd_id, "sid")["id"][:] == ["a", "a"]


def test_an_unknown_option_of_an_nway_table_is_refused(odd_id):
    message = "unknown option 'n': .*c.tsv is an n-way table, which accepts id_column"
    with pytest.raises(ValueError, match=message):
        load_parallel(odd_id, id_column="sid", n=3)


def test_pairs_of_an_unnamed_id_column_are_refused(odd_id):
    message = "no columns for source and target; found: sid, lang, text"
    with pytest.raises(ValueError, match=message):
        load_parallel(odd_id)


def test_an_unnamed_id_column_is_refused(odd_id):
    message = r"needs the columns id \(or .*\), lang and text; found: sid, lang, text"
    with pytest.raises(ValueError, match=message):
        load_nway(odd_id)


@pytest.fixture
def bad_table(tmp_path):
    """An empty text, a second row of an id, an unknown language, a row without an id."""
    return write(
        tmp_path / "c.tsv",
        "id\tlang\ttext",
        "1\tfra_Latn\t",
        "1\tfra_Latn\tun",
        "1\teng_Latn\tone",
        "1\tfra_Latn\tencore un",
        "2\tfrenchish\tdeux",
        "\tfra_Latn\ttrois",
    )


def test_bad_rows_are_reported(bad_table):
    reasons = r"c.tsv:2: text is empty.*:5: a second row for id '1' in fra_Latn.*unknown.*c.tsv:7: id.*\(4 bad rows"
    with pytest.raises(ValueError, match=reasons):
        load_nway(bad_table)


def test_skipped_rows_are_counted(bad_table, caplog):
    assert load_nway(bad_table, on_bad_row="skip")["text"][:] == ["un", "one"]
    assert "skipped 4 bad rows" in caplog.text


def nway_file(path, splits):
    """Six ids in two languages, whose splits alternate; no column of splits without them."""
    rows = [f"{i}\t{lang}\tx{i}" for i in range(6) for lang in ("fra_Latn", "eng_Latn")]
    if not splits:
        return write(path, "id\tlang\ttext", *rows)
    names = [splits[i // 2 % len(splits)] for i in range(12)]
    lines = [f"{row}\t{name}" for row, name in zip(rows, names, strict=True)]
    return write(path, "id\tlang\ttext\tsplit", *lines)


def dev_rows(dev_data):
    """The rows of one dev set of a recipe."""
    return load_dev_sets(DataArguments(dev_data={"d": dev_data}, dev_negatives=0))["d"].rows


DEV_SPLITS = [
    (["train", "dev", "test"], "dev"),
    (["train", "validation"], "validation"),
    (["train", "test"], "test"),
]


@pytest.mark.parametrize(("splits", "chosen"), DEV_SPLITS)
def test_a_dev_set_is_the_dev_split(tmp_path, caplog, splits, chosen):
    path = nway_file(tmp_path / "n.tsv", splits)

    rows = dev_rows(str(path))

    assert dev_split(path) == chosen
    assert len(rows) == 12 // len(splits)
    assert rows["text"][:] == load_nway(path, split=chosen)["text"][:]
    assert f"dev_data.d: the {len(rows)} rows of split {chosen!r}" in caplog.text


@pytest.mark.parametrize("splits", [["train"], []])
def test_a_dev_set_without_a_dev_split_is_the_whole_file(tmp_path, splits):
    path = nway_file(tmp_path / "n.tsv", splits)

    assert dev_split(path) is None
    assert len(dev_rows(str(path))) == 12


def test_a_recipe_can_choose_another_split(tmp_path):
    path = nway_file(tmp_path / "n.tsv", ["train", "dev"])

    rows = dev_rows({"path": str(path), "split": "train"})

    assert set(rows["text"]) == {"x0", "x2", "x4"}


def test_several_splits_without_dev_are_refused(tmp_path):
    path = nway_file(tmp_path / "n.tsv", ["a", "b"])
    with pytest.raises(ValueError, match="n.tsv has the splits a, b: say which one with split="):
        dev_split(path)


def test_a_folder_called_dev_is_the_split(tmp_path):
    for name in ("train", "dev"):
        (tmp_path / name).mkdir()
        nway_file(tmp_path / name / "n.tsv", [])

    assert dev_split(tmp_path) == "validation"
    assert len(load_nway(tmp_path, split="validation")) == 12


def flores_200(folder, **changes):
    """The public archive's layout: three languages, two splits; sentences are ours."""
    contents = {
        "devtest/eng_Latn": "A cat\nA dog\n",
        "devtest/fra_Latn": "Un chat\nUn chien\n",
        "devtest/zho_Hans": "猫\n狗\n",
        "dev/eng_Latn": "Rain\n",
        "dev/fra_Latn": "La pluie\n",
        **changes,
    }
    for name, content in contents.items():
        split, lang = name.split("/")
        (folder / split).mkdir(exist_ok=True)
        (folder / split / f"{lang}.{split}").write_text(content, encoding="utf-8")
    (folder / "metadata_devtest.tsv").write_text("URL\tdomain\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize("split", ["devtest", "test"])
def test_flores_200_as_it_is_downloaded(split, tmp_path):
    """A file a language; line i has the id i."""
    rows = load_nway(flores_200(tmp_path), split=split)

    assert sorted(zip(rows["id"], rows["lang"], rows["text"], strict=True)) == [
        ("1", "eng_Latn", "A cat"),
        ("1", "fra_Latn", "Un chat"),
        ("1", "zho_Hans", "猫"),
        ("2", "eng_Latn", "A dog"),
        ("2", "fra_Latn", "Un chien"),
        ("2", "zho_Hans", "狗"),
    ]


def test_the_folder_of_one_split_of_flores(tmp_path):
    rows = load_nway(flores_200(tmp_path) / "dev", split=None)
    assert rows["text"][:] == ["Rain", "La pluie"]


def test_the_dev_split_of_flores(tmp_path):
    assert dev_split(flores_200(tmp_path)) == "dev"


def test_flores_plus_as_it_is_on_the_hub(tmp_path, caplog):
    """FLORES+ has its own codes. NLLB has a code for Mandarin, and none for Valencian."""
    texts = {"cmn_Hans": "猫", "eng_Latn": "A cat", "cat_Latn_vale1252": "Un gat"}
    (tmp_path / "devtest").mkdir()
    for code, text in texts.items():
        columns = {"id": [7], "iso_639_3": [code[:3]], "iso_15924": [code[4:8]], "text": [text]}
        datasets.Dataset.from_dict(columns).to_parquet(tmp_path / "devtest" / f"{code}.parquet")

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


@pytest.mark.parametrize(
    "changes, split, error, message",
    [
        ({}, None, ValueError, "has the splits dev and devtest: say which one"),
        ({}, "blind", FileNotFoundError, "no file of split 'blind'; there are dev, devtest"),
        # A lost line would pair every later sentence with a wrong one.
        ({"devtest/fra_Latn": "Un chien\n"}, "devtest", ValueError, "devtest has 1 sentences"),
        ({"devtest/fra_Latn": "Un chat\n \n"}, "devtest", ValueError, "fra_Latn.devtest:2: text"),
    ],
)
def test_flores_of_another_form_is_refused(tmp_path, changes, split, error, message):
    folder = flores_200(tmp_path, **changes)
    with pytest.raises(error, match=message):
        load_nway(folder, split=split)
