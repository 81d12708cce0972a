"""`load_parallel` on each type of file: the rows come back unchanged; errors name file and line."""

import gzip
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_echo.data import load_parallel
from hf_echo.data.builtin import builtin_parallel
from hf_echo.data.formats import BLOCK

from ..refusals import refusals, refuses

FRENCH = {"source_lang": "fra_Latn", "target_lang": "eng_Latn"}
NAMES = (
    "source",
    "source_lang",
    "target",
    "target_lang",
    "provenance",
    "hard_negatives",
    "quality",
)
ROWS = []
for i in range(20):
    source = f'Phrase n° {i}, « {"é" * (i % 3)} »\u2028 "'
    target = f"Sentence {i}: 'quoted\" text"
    negatives = [f"Sentence {j}" for j in range(i % 3)]
    values = (source, "fra_Latn", target, "eng_Latn", ["primary", "mined"][i % 2], negatives, i / 8)
    ROWS.append(dict(zip(NAMES, values)))


def write(path, rows=ROWS):
    """The rows in the format that the suffix names."""
    name = path.name.lower()
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path)
        return path
    if ".json" in name:
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    else:
        fields = [
            [v if isinstance(v, str) else json.dumps(v) for v in row.values()] for row in rows
        ]
        text = "".join("\t".join(line) + "\n" for line in [list(rows[0]), *fields])
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def tsv(path, *lines):
    path.write_bytes(b"".join((x if isinstance(x, bytes) else x.encode()) + b"\n" for x in lines))
    return path


KINDS = [
    "c.tsv",
    "c.tsv.gz",
    "c.jsonl",
    "c.jsonl.gz",
    "c.json",
    "c.parquet",
    "c.tsv.GZ",
    "C.JSON",
    "array.json",
]


@pytest.mark.parametrize("name", KINDS)
def test_what_went_in_comes_out(tmp_path, name):
    path = write(tmp_path / name)
    if name == "array.json":
        path.write_text(json.dumps(ROWS, indent=2), encoding="utf-8-sig")
    loaded = load_parallel(path)
    assert list(loaded) == ROWS
    assert loaded.column_names == list(ROWS[0])


def test_more_than_a_block(tmp_path):
    rows = [{"src": f"s{i}", "tgt": f"t{i}"} for i in range(2 * BLOCK + 3)]
    rows[BLOCK + 1]["tgt"] = " "
    loaded = load_parallel(write(tmp_path / "c.tsv", rows), on_bad_row="skip", **FRENCH)
    expected = [row["src"] for row in rows if row["tgt"] != " "]
    assert [row["source"] for row in loaded] == expected
    refuses(f"c.tsv:{BLOCK + 3}: target is empty", load_parallel, tmp_path / "c.tsv", **FRENCH)


def test_tsv_without_a_header(tmp_path):
    # as a spreadsheet on Windows writes it
    path = tsv(tmp_path / "c.tsv", b"\xef\xbb\xbfun\tone\r", "deux\ttwo\r")
    rows = [{"source": "un", "target": "one"}, {"source": "deux", "target": "two"}]
    loaded = load_parallel(path, provenance="dictionary", **FRENCH)
    assert list(loaded) == [row | FRENCH | {"provenance": "dictionary"} for row in rows]
    refuses(r"no columns for source and target; found: un, one", load_parallel, path)
    assert load_parallel(tsv(path, "src\ttgt", "un\tone"), **FRENCH)["source"][:] == ["un"]


HEADER = "source\tsource_lang\ttarget\ttarget_lang"
FINE = "un\tfra_Latn\tone\teng_Latn"


@pytest.mark.parametrize(
    ("name", "line", "reason"),
    [
        ("c.tsv", "\tfra_Latn\tone\teng_Latn", "source is empty"),
        ("c.tsv", "un\tfra_Latn\tone\tenglisch", "target_lang: unknown language code 'englisch'"),
        ("c.tsv", b"un caf\xe9\tfra_Latn\tone\teng_Latn", "not UTF-8 (byte 0xe9 at position 7)"),
        ("c.tsv", "un\tfra_Latn\tone", "3 fields instead of 4"),
        ("c.tsv", "un\tfra_Latn\tone\teng_Latn\tmore", "5 fields instead of 4"),
        ("c.tsv", "", "the line is empty"),
        ("c.jsonl", '{"source": "un", "target"', "not valid JSON ("),
        ("c.jsonl", '["un", "one"]', "not a JSON object"),
        ("c.jsonl", '{"source": "un", "target": "\\ud800"}', "target is not UTF-8"),
        (
            "c.jsonl",
            b'{"source": "un", "target": "caf\xe9"}',
            "not UTF-8 (byte 0xe9 at position 32)",
        ),
        (
            "c.jsonl",
            '{"source": "un", "target": "one", "quality": "good"}',
            "quality 'good' is not a finite number",
        ),
    ],
)
def test_bad_lines(tmp_path, caplog, name, line, reason):
    fine = '{"source": "un", "target": "one", "hard_negatives": [], "quality": 1, "provenance": "mined"}'
    # An empty line in JSONL is no row, and no bad one.
    lines = (HEADER, FINE, line, FINE) if name == "c.tsv" else (fine, "", line, fine)
    path = tsv(tmp_path / name, *lines)
    languages = {} if name == "c.tsv" else FRENCH
    with pytest.raises(ValueError) as error:
        load_parallel(path, **languages)
    assert f"{name}:3: {reason}" in str(error.value)
    assert "1 bad row" in str(error.value)
    assert "set on_bad_row to skip" in str(error.value)
    assert len(load_parallel(path, on_bad_row="skip", **languages)) == 2
    message, *others = caplog.messages
    assert all("left out 1 (blank lines: 1)" in other for other in others)
    assert f"skipped 1 bad row ({reason}" in message
    assert f"{name}:3" in message


@pytest.mark.parametrize(
    "column, value", [("quality", 0.5), ("hard_negatives", ["two"]), ("provenance", "mined")]
)
def test_a_column_that_begins_after_the_first_block_is_read(tmp_path, column, value):
    rows = [{"source": "un", "target": "one"}] * (BLOCK + 1)
    path = write(tmp_path / "c.jsonl", [*rows, {**rows[0], column: value}])
    assert load_parallel(path, **FRENCH)[BLOCK + 1][column] == value


def test_bad_rows_of_parquet_are_counted_by_row(tmp_path):
    text = pa.array([b"un", b"caf\xe9", None, b" "], pa.binary()).view(pa.string())
    pq.write_table(
        pa.table({"src": text, "tgt": ["one", "two", "three", "four"]}), tmp_path / "c.parquet"
    )
    reasons = (
        "c.parquet:2: source is not UTF-8.*:3: source is missing.*:4: source is empty.*3 bad rows"
    )
    refuses(reasons, load_parallel, tmp_path / "c.parquet", **FRENCH)


@pytest.fixture
def many_bad_rows(tmp_path):
    return tsv(tmp_path / "c.tsv", HEADER, FINE, *["\tfra_Latn\tone\teng_Latn"] * 8, *["x"] * 4)


def test_many_bad_rows_are_listed_in_part(many_bad_rows):
    with pytest.raises(ValueError) as error:
        load_parallel(many_bad_rows)
    assert str(error.value).count("c.tsv:") == 5
    assert "(12 bad rows;" in str(error.value)


def test_skipped_rows_are_counted_by_reason(many_bad_rows, caplog):
    assert len(load_parallel(many_bad_rows, on_bad_row="skip")) == 1
    assert "source is empty: 8; 1 fields instead of 4: 4" in caplog.text


def test_skipped_rows_are_counted_when_the_cache_is_read(many_bad_rows, caplog):
    load_parallel(many_bad_rows, on_bad_row="skip")
    caplog.clear()
    assert len(load_parallel(many_bad_rows, on_bad_row="skip")) == 1
    assert "skipped 12 bad rows" in caplog.text


def test_a_file_without_a_good_row_is_refused(tmp_path):
    path = tsv(tmp_path / "c.tsv", HEADER, "x")
    refuses("no good row", load_parallel, path, on_bad_row="skip")


@pytest.mark.parametrize("name", ["c.parquet", "c.jsonl"])
def test_nested_columns_as_translation_corpora_on_the_hub_have(tmp_path, name):
    path = write(tmp_path / name, [{"id": "0", "translation": {"fr": "un", "en": "one"}}])
    columns = {"source": "translation.fr", "target": "translation.en"}
    assert load_parallel(path, columns=columns, **FRENCH)[0]["target"] == "one"
    refuses("found: id, translation.fr, translation.en", load_parallel, path, **FRENCH)


def test_a_corpus_turned_round(tmp_path):
    path = tsv(
        tmp_path / "c.tsv",
        "src_lang\tsrc\ttgt_lang\ttgt\tsource",
        "eng_Latn\tone\tfra_Latn\tun\tdjango",
    )
    assert load_parallel(path)[0]["source"] == "one"
    turned = {
        "source": "tgt",
        "target": "src",
        "source_lang": "tgt_lang",
        "target_lang": "src_lang",
    }
    row = {"source": "un", "target": "one", "provenance": "primary"} | FRENCH
    assert list(load_parallel(path, columns=turned)) == [row]


def test_a_folder_in_order_of_names_with_all_formats(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / ".cache").mkdir()
    (tmp_path / "README.md").write_text("not data")
    write(tmp_path / "sub" / "b.jsonl", ROWS[5:])
    write(tmp_path / "a.parquet", ROWS[:5])
    write(tmp_path / ".cache" / "x.jsonl")
    assert list(load_parallel(tmp_path)) == ROWS
    (tmp_path / "c.tsv").symlink_to("missing.tsv")
    refuses(
        "c.tsv is a link to a file that does not exist",
        load_parallel,
        tmp_path,
        error=FileNotFoundError,
    )


def test_optional_columns_that_one_file_lacks(tmp_path):
    write(tmp_path / "a.jsonl", [{"src": "un", "tgt": "one"}])
    write(
        tmp_path / "b.jsonl",
        [{"src": "deux", "tgt": "two", "hard_negatives": ["three"], "quality": 1}],
    )
    loaded = load_parallel(tmp_path, **FRENCH)
    assert loaded["hard_negatives"][:] == [[], ["three"]]
    assert loaded["quality"][:] == [None, 1.0]


@pytest.fixture
def split_folder(tmp_path):
    for name, source in [("train-00000.tsv", "train"), ("dev.tsv", "dev"), ("more.tsv", "more")]:
        tsv(tmp_path / name, "src\ttgt", f"{source}\tx")
    return tmp_path


def french_sources(path, **options):
    return load_parallel(path, **options, **FRENCH)["source"][:]


def test_splits_by_file_name(split_folder):
    assert french_sources(split_folder) == ["more", "train"]
    assert french_sources(split_folder, split="validation") == ["dev"]
    assert french_sources(split_folder, split=None) == ["dev", "more", "train"]
    message = "no file of split 'test'; there are train, validation"
    refuses(message, french_sources, split_folder, split="test", error=FileNotFoundError)


@pytest.mark.parametrize("name", ["c.parquet", "c.jsonl"])
def test_splits_by_column(tmp_path, name):
    rows = [{"src": f"s{i}", "tgt": "t", "split": ["train", "dev"][i % 2]} for i in range(4)]
    path = write(tmp_path / name, rows)
    assert french_sources(path, split="dev") == ["s1", "s3"]
    assert french_sources(path, split=None) == ["s0", "s1", "s2", "s3"]
    message = "no good row of split 'test'; the column split holds dev, train"
    refuses(message, french_sources, path, split="test")


@pytest.mark.parametrize("name", ["", "c.tsv"])
def test_a_split_of_a_table_without_one_is_refused(tmp_path, name):
    write(tmp_path / "c.tsv")
    message = "has no column split; leave split 'dev' out"
    refuses(message, load_parallel, tmp_path / name, split="dev")


@pytest.fixture
def long_table(tmp_path):
    """A bad row among the first rows, and one behind the first block."""
    block = ["trois\tthree"] * BLOCK
    return tsv(tmp_path / "c.tsv", "src\ttgt", "un\tone", "\tx", "deux\ttwo", *block, "\tx")


def test_limit_counts_good_rows(long_table):
    loaded = load_parallel(long_table, limit=2, on_bad_row="skip", **FRENCH)
    assert loaded["target"][:] == ["one", "two"]


def test_limit_reads_no_further(long_table):
    assert load_parallel(long_table, limit=1, **FRENCH)["target"][:] == ["one"]
    refuses(r"c.tsv:3: source is empty \(1 bad row", load_parallel, long_table, limit=2, **FRENCH)


def test_an_unchanged_file_is_read_once(tmp_path, own_cache):
    path = tsv(tmp_path / "c.tsv", "src\ttgt", "un\tone")
    first = load_parallel(path, **FRENCH)
    again = load_parallel(path, **FRENCH)
    assert again._fingerprint == first._fingerprint
    assert len(list(own_cache.rglob("*.arrow"))) == 1


@pytest.mark.usefixtures("own_cache")
def test_a_file_of_other_content_is_read_again(tmp_path):
    """Though its size and its time are the same."""
    path = tsv(tmp_path / "c.tsv", "src\ttgt", "un\tone")
    before = path.stat().st_mtime_ns
    first = load_parallel(path, **FRENCH)
    tsv(path, "src\ttgt", "un\ttwo")
    os.utime(path, ns=(before, before))

    changed = load_parallel(path, **FRENCH)

    assert changed["target"][:] == ["two"]
    assert changed._fingerprint != first._fingerprint
    assert first["target"][:] == ["one"]


def load(options, tmp_path):
    load_parallel(**{"path_or_name": write(tmp_path / "c.jsonl")} | options)


def load_file(name, content, tmp_path):
    if isinstance(content, str):
        (tmp_path / name).write_text(content)
    else:
        pq.write_table(content, tmp_path / name)
    load_parallel(tmp_path / name, **FRENCH)


TWICE = pa.table([pa.array(["un"])] * 3, names=["src", "tgt", "src"])
test_wrong_arguments = refusals(
    ({"path_or_name": "missing.tsv"}, "missing.tsv: no such file or folder", FileNotFoundError),
    ({"path_or_name": "/no/such/folder"}, "no such file or folder", FileNotFoundError),
    (
        {"path_or_name": os.path.dirname(__file__)},
        "no file of a known type in this folder",
        FileNotFoundError,
    ),
    ({"on_bad_row": "drop"}, "on_bad_row is 'drop'; it must be error or skip"),
    ({"source_lang": "frx"}, "unknown language 'frx'"),
    ({"provenance": "web"}, "provenance='web' is not one of primary"),
    ({"limit": 0}, "limit=0 is not a positive number"),
    ({"direction": "all"}, "unknown option 'direction'"),
    ({"path_or_name": "builtin", "rows": 3}, "unknown option 'rows': the built-in corpus"),
    call=load,
)
test_unreadable_files = refusals(
    ("c.odt", "a,b", "c.odt: unknown file type; use one of .tsv"),
    ("c.csv", "a,b,c", "c.csv has no columns for source and target; found: a, b, c"),
    ("c.parquet", "no", "c.parquet: damaged, incomplete, or not what its name says"),
    ("c.parquet", TWICE, "c.parquet: the column name 'src' appears twice"),
    ("c.tsv", '"src"\t"tgt"\tx\nun "1"\tone\tdeux\n', 'c.tsv: the column name "src" has quotes'),
    ("c.tsv", "src\ttgt\tsrc\nun\tone\tdeux\n", "c.tsv: the column name 'src' appears twice"),
    ("c.tsv", "", "c.tsv: the first line is empty"),
    (
        "c.json",
        '[{"source": "un"},\n {"source" "deux"}]',
        r"c.json:2: not a valid JSON array \(.* at column 12",
    ),
    ("c.json", '[1, {"source": "un", "target": "one"}]', "c.json:1: not a JSON object"),
    (
        "c.json",
        '[[{"source": "un"}]]',
        "c.json:1: not a JSON object; write one JSON object per line, or",
    ),
    (
        "c.json",
        '{\n"source": "un"}',
        "c.json:1: not valid JSON .*; write one JSON object per line, or",
    ),
    ("c.json", "", "c.json: no row; write one JSON object per line"),
    call=load_file,
)


def test_builtin_passes_its_options_on():
    options = {"n": 20, "languages": ["fra_Latn"], "split": "dev"}
    assert (
        list(load_parallel("builtin", **options, limit=5))
        == builtin_parallel(**options).to_list()[:5]
    )


@pytest.mark.parametrize(
    "kind", [pa.string_view(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
)
def test_every_kind_of_arrow_text_has_splits(tmp_path, kind):
    table = {"src": ["un", "deux"], "tgt": ["one", "two"], "split": ["train", "dev"]}
    path = tmp_path / "c.parquet"
    pq.write_table(
        pa.table({name: pa.array(values).cast(kind) for name, values in table.items()}), path
    )
    assert load_parallel(path, split="dev", **FRENCH)["source"][:] == ["deux"]
