"""`load_parallel` on each type of file: the rows come back unchanged; errors name file and line."""

import gzip
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_echo.data import load_parallel
from hf_echo.data.builtin import builtin_parallel
from hf_echo.data.formats import open_file
from hf_echo.utils.text import BLOCK

from ..refusals import refusals, refuses

FRENCH = {"source_lang": "fra_Latn", "target_lang": "eng_Latn"}


def example_row(number: int) -> dict:
    """Quotes, accents and a line separator; every third row has no negative."""
    return {
        "source": f'Phrase n° {number}, « {"é" * (number % 3)} »\u2028 "',
        "source_lang": "fra_Latn",
        "target": f"Sentence {number}: 'quoted\" text",
        "target_lang": "eng_Latn",
        "provenance": "mined" if number % 2 else "primary",
        "hard_negatives": [f"Sentence {other}" for other in range(number % 3)],
        "quality": number / 8,
    }


ROWS = [example_row(number) for number in range(20)]


def as_field(value) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def write(path, rows=ROWS):
    """The rows in the format that the suffix names."""
    name = path.name.lower()
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path)
        return path
    if ".json" in name:
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    else:
        lines = ["\t".join(rows[0])]
        for row in rows:
            lines.append("\t".join(map(as_field, row.values())))
    content = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def tsv(path, *lines):
    """A file of lines, which are texts or bytes."""
    with path.open("wb") as file:
        for line in lines:
            file.write(line if isinstance(line, bytes) else line.encode())
            file.write(b"\n")
    return path


KINDS = ["c.tsv", "c.tsv.gz", "c.jsonl", "c.jsonl.gz", "c.json", "c.parquet", "c.tsv.GZ", "C.JSON"]


@pytest.mark.parametrize("name", KINDS)
def test_what_went_in_comes_out(tmp_path, name):
    rows = load_parallel(write(tmp_path / name))

    assert list(rows) == ROWS
    assert rows.column_names == list(ROWS[0])


def test_a_json_array_is_read_row_by_row(tmp_path):
    (tmp_path / "array.json").write_text(json.dumps(ROWS, indent=2), encoding="utf-8-sig")

    assert list(load_parallel(tmp_path / "array.json")) == ROWS


@pytest.fixture
def two_blocks(tmp_path):
    """Numbered rows, one of the second block without a target."""
    rows = [{"src": f"s{number}", "tgt": "t"} for number in range(2 * BLOCK + 3)]
    rows[BLOCK + 1]["tgt"] = " "
    return write(tmp_path / "c.tsv", rows)


def test_a_bad_row_behind_a_block_is_skipped(two_blocks):
    sources = load_parallel(two_blocks, on_bad_row="skip", **FRENCH)["source"][:]

    expected = [f"s{number}" for number in range(2 * BLOCK + 3)]
    expected.remove(f"s{BLOCK + 1}")
    assert sources == expected


def test_a_bad_row_behind_a_block_is_named(two_blocks):
    with pytest.raises(ValueError, match=f"c.tsv:{BLOCK + 3}: target is empty"):
        load_parallel(two_blocks, **FRENCH)


@pytest.fixture
def without_header(tmp_path):
    """As a spreadsheet on Windows writes it."""
    return tsv(tmp_path / "c.tsv", b"\xef\xbb\xbfun\tone\r", "deux\ttwo\r")


def test_tsv_without_a_header(without_header):
    rows = load_parallel(without_header, provenance="dictionary", **FRENCH)

    constants = FRENCH | {"provenance": "dictionary"}
    first = {"source": "un", "target": "one"} | constants
    second = {"source": "deux", "target": "two"} | constants
    assert list(rows) == [first, second]


def test_tsv_without_a_header_needs_its_languages(without_header):
    with pytest.raises(ValueError, match="no columns for source and target; found: un, one"):
        load_parallel(without_header)


HEADER = "source\tsource_lang\ttarget\ttarget_lang"
FINE = "un\tfra_Latn\tone\teng_Latn"


@pytest.fixture
def with_bad_line(tmp_path):
    """with_bad_line(name, line): the line is the third of a file whose other rows are good,
    and load options."""

    def make(name, line):
        if name == "c.tsv":
            return tsv(tmp_path / name, HEADER, FINE, line, FINE), {}
        # The reader skips an empty line in JSONL, and does not count it as a bad row.
        return tsv(tmp_path / name, FINE_JSON, "", line, FINE_JSON), FRENCH

    return make


FINE_JSON = json.dumps({"source": "un", "target": "one", "hard_negatives": [], "quality": 1})
BAD_LINES = [
    ("c.tsv", "\tfra_Latn\tone\teng_Latn", "source is empty"),
    ("c.tsv", "un\tfra_Latn\tone\tenglisch", "target_lang: unknown language code 'englisch'"),
    ("c.tsv", b"un caf\xe9\tfra_Latn\tone\teng_Latn", "not UTF-8 (byte 0xe9 at position 7)"),
    ("c.tsv", "un\tfra_Latn\tone", "3 fields instead of 4"),
    ("c.tsv", "un\tfra_Latn\tone\teng_Latn\tmore", "5 fields instead of 4"),
    ("c.tsv", "", "the line is empty"),
    ("c.jsonl", '{"source": "un", "target"', "not valid JSON ("),
    ("c.jsonl", '["un", "one"]', "not a JSON object"),
    ("c.jsonl", '{"source": "un", "target": "\\ud800"}', "target is not UTF-8"),
    ("c.jsonl", b'{"source": "un", "target": "caf\xe9"}', "not UTF-8 (byte 0xe9 at position 32)"),
    (
        "c.jsonl",
        '{"source": "un", "target": "one", "quality": "good"}',
        "quality 'good' is not a finite number",
    ),
]


@pytest.mark.parametrize(("name", "line", "reason"), BAD_LINES)
def test_a_bad_line_is_named(with_bad_line, name, line, reason):
    path, options = with_bad_line(name, line)
    with pytest.raises(ValueError) as error:
        load_parallel(path, **options)
    assert f"{name}:3: {reason}" in str(error.value)
    assert "1 bad row" in str(error.value)
    assert "set on_bad_row to skip" in str(error.value)


@pytest.mark.parametrize(("name", "line", "reason"), BAD_LINES)
def test_a_skipped_line_is_reported(with_bad_line, caplog, name, line, reason):
    path, options = with_bad_line(name, line)

    rows = load_parallel(path, on_bad_row="skip", **options)

    assert len(rows) == 2
    assert f"skipped 1 bad row ({reason}" in caplog.messages[0]
    assert f"{name}:3" in caplog.messages[0]


@pytest.mark.parametrize(
    "column, value", [("quality", 0.5), ("hard_negatives", ["two"]), ("provenance", "mined")]
)
def test_a_column_that_begins_after_the_first_block_is_read(tmp_path, column, value):
    rows = [{"source": "un", "target": "one"}] * (BLOCK + 1)
    path = write(tmp_path / "c.jsonl", [*rows, {**rows[0], column: value}])
    assert load_parallel(path, **FRENCH)[BLOCK + 1][column] == value


def test_bad_rows_of_parquet_are_counted_by_row(tmp_path):
    sources = pa.array([b"un", b"caf\xe9", None, b" "], pa.binary()).view(pa.string())
    table = pa.table({"src": sources, "tgt": ["one", "two", "three", "four"]})
    pq.write_table(table, tmp_path / "c.parquet")
    reasons = (
        "c.parquet:2: source is not UTF-8.*:3: source is missing.*:4: source is empty.*3 bad rows"
    )
    with pytest.raises(ValueError, match=reasons):
        load_parallel(tmp_path / "c.parquet", **FRENCH)


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


@pytest.fixture(params=["c.parquet", "c.jsonl"])
def nested(request, tmp_path):
    """As translation corpora on the Hub are."""
    row = {"id": "0", "translation": {"fr": "un", "en": "one"}}
    return write(tmp_path / request.param, [row])


def test_nested_columns_are_named_with_a_dot(nested):
    columns = {"source": "translation.fr", "target": "translation.en"}

    rows = load_parallel(nested, columns=columns, **FRENCH)

    assert rows[0]["target"] == "one"


def test_nested_columns_are_among_those_that_there_are(nested):
    with pytest.raises(ValueError, match="found: id, translation.fr, translation.en"):
        load_parallel(nested, **FRENCH)


@pytest.fixture
def package_corpus(tmp_path):
    """A corpus as the package writes it: the column `source` names the origin of a row."""
    header = "src_lang\tsrc\ttgt_lang\ttgt\tsource"
    return tsv(tmp_path / "c.tsv", header, "eng_Latn\tone\tfra_Latn\tun\tdjango")


def test_a_column_source_of_packages_is_no_source(package_corpus):
    assert load_parallel(package_corpus)[0]["source"] == "one"


def test_a_corpus_turned_round(package_corpus):
    turned = {
        "source": "tgt",
        "target": "src",
        "source_lang": "tgt_lang",
        "target_lang": "src_lang",
    }

    (row,) = load_parallel(package_corpus, columns=turned)

    assert row == {"source": "un", "target": "one", "provenance": "primary"} | FRENCH


def test_a_folder_in_order_of_names_with_all_formats(tmp_path):
    """Pages and hidden folders are no data."""
    (tmp_path / "sub").mkdir()
    (tmp_path / ".cache").mkdir()
    (tmp_path / "README.md").write_text("not data")
    write(tmp_path / "sub" / "b.jsonl", ROWS[5:])
    write(tmp_path / "a.parquet", ROWS[:5])
    write(tmp_path / ".cache" / "x.jsonl")

    assert list(load_parallel(tmp_path)) == ROWS


def test_a_parquet_file_is_not_kept_in_memory(tmp_path):
    """Arrow counts its own memory; before, it grew to the size of the file."""
    path = tmp_path / "large.parquet"
    random_letters = os.urandom(4_000_000).hex()
    texts = [random_letters[start : start + 400] for start in range(0, 8_000_000, 400)]
    table = pa.table({"source": texts, "target": texts[::-1]})
    pq.write_table(table, path, row_group_size=1_000, compression="none", use_dictionary=False)
    del table
    held_before = pa.total_allocated_bytes()

    held_while_reading = []
    for _ in open_file(path).read(["source", "target"]):
        held_while_reading.append(pa.total_allocated_bytes() - held_before)

    assert len(held_while_reading) == len(texts) / BLOCK
    assert held_while_reading[-1] < path.stat().st_size * 0.75


def test_a_broken_link_in_a_folder_is_named(tmp_path):
    write(tmp_path / "a.parquet")
    (tmp_path / "c.tsv").symlink_to("missing.tsv")
    with pytest.raises(FileNotFoundError, match="c.tsv is a link to a file that does not exist"):
        load_parallel(tmp_path)


def test_optional_columns_that_one_file_lacks(tmp_path):
    plain = {"src": "un", "tgt": "one"}
    write(tmp_path / "a.jsonl", [plain])
    write(tmp_path / "b.jsonl", [plain | {"hard_negatives": ["three"], "quality": 1}])

    rows = load_parallel(tmp_path, **FRENCH)

    assert rows["hard_negatives"][:] == [[], ["three"]]
    assert rows["quality"][:] == [None, 1.0]


@pytest.fixture
def split_folder(tmp_path):
    """A file of each of two splits, and one of none, which counts as training data."""
    tsv(tmp_path / "train-00000.tsv", "src\ttgt", "train\tx")
    tsv(tmp_path / "dev.tsv", "src\ttgt", "dev\tx")
    tsv(tmp_path / "more.tsv", "src\ttgt", "more\tx")
    return tmp_path


def french_sources(path, **options):
    return load_parallel(path, **options, **FRENCH)["source"][:]


@pytest.mark.parametrize(
    "options, sources",
    [
        ({}, ["more", "train"]),
        ({"split": "validation"}, ["dev"]),
        ({"split": None}, ["dev", "more", "train"]),
    ],
)
def test_splits_by_file_name(split_folder, options, sources):
    assert french_sources(split_folder, **options) == sources


def test_a_split_without_a_file_is_refused(split_folder):
    message = "no file of split 'test'; there are train, validation"
    with pytest.raises(FileNotFoundError, match=message):
        french_sources(split_folder, split="test")


@pytest.fixture(params=["c.parquet", "c.jsonl"])
def split_column(request, tmp_path):
    rows = [
        {"src": "s0", "tgt": "t", "split": "train"},
        {"src": "s1", "tgt": "t", "split": "dev"},
        {"src": "s2", "tgt": "t", "split": "train"},
    ]
    return write(tmp_path / request.param, rows)


@pytest.mark.parametrize("split, sources", [("dev", ["s1"]), (None, ["s0", "s1", "s2"])])
def test_splits_by_column(split_column, split, sources):
    assert french_sources(split_column, split=split) == sources


def test_a_split_that_a_column_does_not_hold_is_refused(split_column):
    message = "no good row of split 'test'; the column split holds dev, train"
    with pytest.raises(ValueError, match=message):
        french_sources(split_column, split="test")


@pytest.mark.parametrize("name", ["", "c.tsv"])
def test_a_split_of_a_table_without_one_is_refused(tmp_path, name):
    write(tmp_path / "c.tsv")
    with pytest.raises(ValueError, match="has no column split; leave split 'dev' out"):
        load_parallel(tmp_path / name, split="dev")


@pytest.fixture
def long_table(tmp_path):
    """A bad row among the first rows, and one behind the first block."""
    block = ["trois\tthree"] * BLOCK
    return tsv(tmp_path / "c.tsv", "src\ttgt", "un\tone", "\tx", "deux\ttwo", *block, "\tx")


def test_limit_counts_good_rows(long_table):
    rows = load_parallel(long_table, limit=2, on_bad_row="skip", **FRENCH)

    assert rows["target"][:] == ["one", "two"]


def test_limit_reads_no_further(long_table):
    assert load_parallel(long_table, limit=1, **FRENCH)["target"][:] == ["one"]


def test_a_bad_row_before_the_limit_is_named(long_table):
    with pytest.raises(ValueError, match=r"c.tsv:3: source is empty \(1 bad row"):
        load_parallel(long_table, limit=2, **FRENCH)


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
    ("c.tsv", "", "c.tsv is empty; it needs a header or rows of two texts"),
    ("c.tsv", "\n", "c.tsv: the first line is empty; it should name the columns"),
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

    rows = load_parallel("builtin", **options, limit=5)

    assert rows.to_list() == builtin_parallel(**options).to_list()[:5]


@pytest.mark.parametrize(
    "kind",
    [pa.string_view(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)
def test_every_kind_of_arrow_text_has_splits(tmp_path, kind):
    columns = {"src": ["un", "deux"], "tgt": ["one", "two"], "split": ["train", "dev"]}
    table = pa.table(columns).cast(pa.schema(dict.fromkeys(columns, kind)))
    pq.write_table(table, tmp_path / "c.parquet")

    assert french_sources(tmp_path / "c.parquet", split="dev") == ["deux"]
