"""Mining of files: what is finished is not done again, rows find back to their lines, errors name the line."""

import gzip
import json
import os
import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from hf_echo.search import align_files, mine, mine_files, open_pairs, score_pairs
from hf_echo.search.blocks import Rows
from hf_echo.search.file_mining import plan_mining
from hf_echo.utils.text import TextLines

from ..refusals import refuses
from .words import encode, sentences


@pytest.fixture
def files(tmp_path):
    """Forty sentences, and the same with their words in another order, in another order, with strangers."""
    source_lines = sentences(40, 0)
    rng = np.random.default_rng(1)
    target_lines = [" ".join(rng.permutation(line.split())) for line in source_lines]
    target_lines += sentences(15, 2)
    rng.shuffle(target_lines)
    (tmp_path / "a.txt").write_text("\n".join(source_lines) + "\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("\n".join(target_lines), encoding="utf-8")
    return tmp_path


def mined(files, encoder=encode, names="ab", out="out.tsv", **options):
    """The report of two of the files a, b and c, mined into `out`."""
    source, target = (files / f"{name}.txt" for name in names)
    return mine_files(source, target, files / out, encoder, **{"progress": False} | options)


def rows(path) -> list[list[str]]:
    header, *lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    assert header == "score\tsource\ttarget"
    return [line.split("\t") for line in lines]


def test_files_give_what_arrays_give(files):
    source_lines = (files / "a.txt").read_text().splitlines()
    target_lines = (files / "b.txt").read_text().splitlines()

    report = mined(files, shard=7)

    expected = mine(encode(source_lines), encode(target_lines))
    table = rows(files / "out.tsv")
    assert [row[1:] for row in table] == [
        [source_lines[i], target_lines[j]] for i, j in expected.pairs()
    ]
    np.testing.assert_allclose([float(row[0]) for row in table], expected.scores, atol=1e-5)
    assert (report.sources, report.targets, report.pairs) == (40, 55, len(expected.scores))
    assert len(list((files / "out.tsv.work" / "source").glob("*.npy"))) == 6


def test_the_best_pairs_have_the_same_words(files):
    mined(files)
    for _, source, target in rows(files / "out.tsv")[:30]:
        assert sorted(source.split()) == sorted(target.split())


class Counting:
    """An encoder that notes the size of each call, and stops the run at one of them."""

    def __init__(self, stops_at: int | None = None):
        self.sizes: list[int] = []
        self.stops_at = stops_at

    def __call__(self, texts, lang):
        self.sizes.append(len(texts))
        if len(self.sizes) == self.stops_at:
            raise KeyboardInterrupt
        return encode(texts, lang)


def killed_run(files) -> Counting:
    stopping = Counting(stops_at=6)  # the probe of the model and four shards come before
    with pytest.raises(KeyboardInterrupt):
        mined(files, stopping, shard=7)
    return stopping


def test_a_killed_run_writes_no_output(files):
    assert killed_run(files).sizes == [1, 7, 7, 7, 7, 7]
    assert not (files / "out.tsv").exists()


def test_a_killed_run_goes_on_with_the_first_missing_shard(files):
    killed_run(files)
    (files / "out.tsv.work" / "source" / "000004.part").write_bytes(b"half a shard")

    counting = Counting()
    mined(files, counting, shard=7)

    assert counting.sizes == [1, 7, 5, 1, *[7] * 7, 6]
    mined(files, out="fresh.tsv")
    assert (files / "fresh.tsv").read_bytes() == (files / "out.tsv").read_bytes()


def test_another_threshold_costs_no_encoding(files):
    arguments = (files / "a.txt", files / "b.txt", files / "out.tsv")
    pairs = mine_files(*arguments, encode, shard=7, progress=False).pairs

    counting = Counting()
    report = mine_files(*arguments, counting, shard=7, progress=False, threshold=1.2)

    assert counting.sizes == [1, 1]  # the probes
    assert 0 < report.pairs < pairs


@pytest.fixture
def odd_file(tmp_path):
    """A byte order mark, blank lines of several kinds, and one text twice."""
    path = tmp_path / "x.txt"
    path.write_bytes("\ufeffun\r\n\u200b\ufeff \u00ad\n deux \n un\n\u2028\ntrois".encode())
    return path


def test_rows_find_back_to_their_lines(odd_file):
    lines = TextLines(odd_file)
    assert lines.read(0, 9) == ["un", "deux", "un", "trois"]
    assert [lines.line_of(i) for i in range(4)] == [1, 3, 4, 6]
    assert list(lines.texts([3, 0])) == ["trois", "un"]


def test_of_equal_lines_only_the_first_is_a_row(odd_file):
    lines = TextLines(odd_file, dedup=True)
    assert lines.read(0, 9) == ["un", "deux", "trois"]
    assert lines.line_of(2) == 6
    assert lines.digest == TextLines(odd_file).digest


def test_fields_are_safe(tmp_path):
    (tmp_path / "a.txt").write_text("red\tcat\u2028runs\x0bfast\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("red cat runs fast\n", encoding="utf-8")
    mine_files(tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "o.tsv", encode, progress=False)
    assert rows(tmp_path / "o.tsv")[0][1:] == ["red cat runs fast"] * 2


def zero_at_fish(texts, lang):
    return encode(texts) * np.array([["fish" not in text.split()] for text in texts])


def nan_at_fish(texts, lang):
    return np.where(np.array([["fish" in text.split()] for text in texts]), np.nan, encode(texts))


def test_texts_without_direction_are_left_out(files, caplog):
    (files / "c.txt").write_text("red cat\n\nold fish\nblue dog\nfish\n")

    report = mined(files, zero_at_fish, names="cc", out="o.tsv")

    assert (report.sources, report.sources_left_out, report.targets_left_out) == (2, 3, 3)
    assert [row[1:] for row in rows(files / "o.tsv")] == [["red cat"] * 2, ["blue dog"] * 2]
    assert "x: left out 2 (rows whose embedding is zero, the first is row 1)" in caplog.text


@pytest.mark.parametrize(
    "content, encoder, message",
    [
        (
            b"red cat\n\nblue dog\nold fish\n",
            nan_at_fish,
            r"c.txt:4: a NaN, infinite or zero embedding",
        ),
        (
            b"a\nb\nc\n",
            lambda t, lang: encode(t[: max(1, len(t) - 1)]),
            r"shape \(2, 24\) for 3 lines of .*c.txt",
        ),
        (b"fine\n\xff\xfe\n", encode, r"c.txt:2: not UTF-8"),
        (b"\n \n", encode, "c.txt is empty"),
        (
            gzip.compress(bytes(99), mtime=0)[:20],
            lambda *_: pytest.fail("encoded"),
            "c.txt: damaged",
        ),
        (None, lambda *_: pytest.fail("encoded"), "no file .*c.txt"),
    ],
)
def test_errors_name_the_file_with_the_line(files, content, encoder, message):
    if content is not None:
        (files / "c.txt").write_bytes(content)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        mined(files, encoder, names="cb", out="o.tsv")
    for path in files.iterdir():
        assert path.is_file() or any(path.iterdir())  # no empty folder is left


def test_a_missing_target_is_named(files):
    with pytest.raises(FileNotFoundError, match="no file .*c.txt"):
        mined(files, names="bc", out="o.tsv")


@pytest.fixture
def moses_pair(files):
    """Source, target, and their name as a pair."""
    source = (files / "a.txt").rename(files / "p.fr-en.fr")
    target = (files / "b.txt").rename(files / "p.fr-en.en")
    return source, target, files / "p.fr-en"


@pytest.mark.parametrize("function", [mine_files, align_files])
def test_a_moses_pair_is_not_written_over_its_inputs(moses_pair, function):
    source, target, pair = moses_pair
    before = source.read_bytes()
    refuses("p.fr-en.fr is an input too", function, source, target, pair, encode)
    assert source.read_bytes() == before


def test_scores_are_not_written_over_their_inputs(moses_pair):
    source, target, pair = moses_pair
    before = (source.read_bytes(), target.read_bytes())
    refuses("p.fr-en.(fr|en) is an input too", score_pairs, open_pairs(pair), pair, "m")
    refuses("p.fr-en.en is an input too", score_pairs, open_pairs(source, target), target, "m")
    refuses("p.fr-en.(fr|en) is an input too", score_pairs, open_pairs(source, target), pair, "m")
    assert (source.read_bytes(), target.read_bytes()) == before


def test_one_run_at_a_time_in_a_folder(files):
    """The second run would write over the plain copy that the first one reads."""
    packed = files / "a.txt.gz"
    packed.write_bytes(gzip.compress((files / "a.txt").read_bytes()))
    arguments = (packed, files / "b.txt", files / "o.tsv")

    def encode_beside_another(texts, lang):
        refuses("another run writes .*o.tsv.work", mine_files, *arguments, encode, progress=False)
        refuses("another run writes .*o.tsv.work", align_files, *arguments, encode, progress=False)
        return encode(texts, lang)

    mine_files(*arguments, encode_beside_another, progress=False)


def test_command_mines_with_the_toy_model(answer, refused, toy, toy_folders, tmp_path):
    meanings = toy.split("dev")
    french = [toy.say(meaning, "fra_Latn") for meaning in meanings[:24]]
    english = [toy.say(meaning, "eng_Latn") for meaning in meanings[8:]]
    (tmp_path / "fr.txt").write_text("\n".join([*french, french[0], ""]), encoding="utf-8")
    (tmp_path / "en.txt").write_text("\n".join(reversed(english)), encoding="utf-8")
    options = [
        "--model",
        toy_folders["release"],
        "--source-lang",
        "fra_Latn",
        "--target-lang",
        "eng_Latn",
        "--dedup",
    ]
    options += ["--out", tmp_path / "p" / "pairs.tsv", "--json", tmp_path / "report.json"]

    report = answer("mine", tmp_path / "fr.txt", tmp_path / "en.txt", *options)

    assert report == json.loads((tmp_path / "report.json").read_text())
    assert (report["sources"], report["targets"]) == (24, 24)
    mined = {(source, target) for _, source, target in rows(tmp_path / "p" / "pairs.tsv")}
    gold = set(zip(french[8:], english[:16], strict=True))
    assert len(mined & gold) >= 8  # half of the pairs of held-out sentences, among strangers

    options += ["--retrieval", "intersection", "--margin", "cosine", "--overwrite"]
    assert answer("mine", tmp_path / "fr.txt", tmp_path / "en.txt", *options)["pairs"] > 0
    refused("no.txt", "mine", tmp_path / "no.txt", tmp_path / "en.txt", *options)


@pytest.mark.parametrize("folder, fresh", [("source", True), ("source", False), ("search", True)])
def test_a_folder_of_another_kind_is_left_alone(files, folder, fresh):
    corpus = files / "work" / folder / "corpus.txt"
    corpus.parent.mkdir(parents=True)
    corpus.write_text("a")
    options = dict(work=files / "work", fresh=fresh, progress=False)
    with pytest.raises(
        ValueError, match=f"{folder} holds (other files than|no) embeddings of hf-echo mine"
    ):
        mine_files(files / "a.txt", files / "b.txt", files / "out.tsv", encode, **options)
    assert corpus.exists()


def test_fresh_discards_the_folders_of_an_earlier_run(files):
    arguments = (files / "a.txt", files / "b.txt", files / "out.tsv")
    mine_files(*arguments, encode, progress=False)
    counting = Counting()
    mine_files(*arguments, counting, progress=False, fresh=True)
    assert sum(counting.sizes) == 1 + 40 + 1 + 55  # probes of the model, and all lines again


def encode_by_language(texts, lang):
    """As Echo's embeddings, these depend on the language: it alone does not make another model."""
    mark = 50.0 * (lang == "fra_Latn")
    return np.hstack([encode(texts, lang), np.full((len(texts), 1), mark)])


def mine_french(files, encode=encode_by_language, source_lang="fra_Latn", **options):
    arguments = (files / "a.txt", files / "b.txt", files / "out.tsv", encode)
    return mine_files(*arguments, source_lang=source_lang, progress=False, **options)


@pytest.mark.parametrize(
    "options, words",
    [
        (
            {"encode": lambda texts, lang: encode_by_language(texts, lang)[:, ::-1]},
            r"changed: model\)",
        ),
        (
            {"encode": lambda texts, lang: encode_by_language(texts, lang)[:, :8]},
            r"changed: model\)",
        ),
        ({"source_lang": "deu_Latn"}, r"source holds .*changed: language\)"),
        ({"shard": 9}, r"changed: shard size\)"),
    ],
)
def test_another_setting_is_refused_with_advice(files, options, words):
    mine_french(files)
    with pytest.raises(ValueError, match=words + ".*--work"):
        mine_french(files, **options)


def test_another_text_is_refused(files):
    mine_french(files)
    (files / "a.txt").write_text("another text\n")
    with pytest.raises(
        ValueError, match="source holds embeddings of .*changed: contents of the file, rows"
    ):
        mine_french(files)
    assert mine_french(files, work=files / "elsewhere").sources == 1


@pytest.mark.parametrize("options", [{}, {"index": "IVF2,SQ8;nprobe=2"}])
def test_workers_write_the_same_file(files, far_executor, monkeypatch, options):
    options = {"block": 9, "shard": 7, "progress": False, **options}
    monkeypatch.chdir(files)  # the workers run in another folder
    inputs = (Path("a.txt"), Path("b.txt"))
    mine_files(*inputs, Path("near.tsv"), encode, **options)

    mine_files(*inputs, Path("far.tsv"), encode, executor=far_executor, **options)

    tasks = Counter(label for label, _ in far_executor.items)
    assert tasks == {"Encoding a.txt": 6, "Encoding b.txt": 8, "Searching y": 5, "Searching x": 7}
    assert Path("far.tsv").read_bytes() == Path("near.tsv").read_bytes()

    far_executor.items.clear()
    mine_files(*inputs, Path("far.tsv"), encode, executor=far_executor, **options)
    assert far_executor.items == []  # nothing is done twice
    assert Path("far.tsv").read_bytes() == Path("near.tsv").read_bytes()


def test_a_pickled_collection_holds_file_names(tmp_path):
    rows = np.random.default_rng(0).normal(size=(300, 8))
    np.save(tmp_path / "y.npy", rows)
    mapped = np.load(tmp_path / "y.npy", mmap_mode="r")
    # a slice has no place of its own in the file
    sent = pickle.dumps(Rows([mapped, mapped[290:]], "y"))
    assert 10 * 64 < len(sent) < 40 * 64
    received = pickle.loads(sent)
    assert received.digest() == Rows([rows, rows[290:]], "y").digest()
    np.testing.assert_array_equal(
        received.read(288, 292), Rows(np.vstack([rows, rows[290:]]), "y").read(288, 292)
    )


@pytest.fixture
def sides():
    """Whole numbers: many cosines are equal, and their order must not change."""
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, (23, 6)) + 0.0
    y = np.concatenate([x[5:], rng.integers(-2, 3, (20, 6)) + 0.0])
    y = y[rng.permutation(38)]
    x[~x.any(1)] = 1.0
    y[~y.any(1)] = 1.0
    return x, y


def times(folder) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in folder.rglob("*.npz")}


@pytest.mark.parametrize("index", [None, "Flat"])
@pytest.mark.parametrize("writes", [0, 1, 3, 6])  # 3 and 4 blocks, and an index a side
def test_a_search_killed_at_any_write_resumes(sides, tmp_path, monkeypatch, writes, index):
    options = dict(block=10, k=3, index=index)
    expected = mine(*sides, **options)
    replace = os.replace
    calls = []

    def dies(*arguments):
        calls.append(arguments)
        if len(calls) > writes:
            raise KeyboardInterrupt
        replace(*arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("os.replace", dies)
        mine(*sides, work=tmp_path, **options)
    finished = times(tmp_path)

    pairs = mine(*sides, work=tmp_path, **options)

    assert finished.items() <= times(tmp_path).items()  # what was finished is not written again
    assert pairs.pairs() == expected.pairs()
    np.testing.assert_array_equal(pairs.scores, expected.scores)
    assert len(times(tmp_path)) == 7
    assert not list(tmp_path.rglob("*.faiss"))


@pytest.mark.parametrize("margin", ["ratio", "distance", "cosine"])
@pytest.mark.parametrize(
    "block", [22, 20, 19, 13, 1]
)  # 23 and 38 rows: last blocks of fewer rows than k
def test_blocks_do_not_change_the_result(sides, margin, block):
    whole = mine(*sides, k=4, margin=margin, block=1000)
    in_blocks = mine(*sides, k=4, margin=margin, block=block)
    assert in_blocks.pairs() == whole.pairs()
    np.testing.assert_allclose(in_blocks.scores, whole.scores, rtol=1e-6)


@pytest.mark.parametrize(
    "options", [{}, {"margin": "distance"}, {"retrieval": "forward"}, {"threshold": 1.1}]
)
def test_what_only_chooses_pairs_is_the_same_search(sides, tmp_path, options):
    mine(*sides, block=10, work=tmp_path)
    mine(*sides, block=10, work=tmp_path, **options)
    assert len(list(tmp_path.iterdir())) == 1


def test_shards_are_the_same_search(sides, tmp_path):
    x, y = sides
    whole = mine(x, y, block=10, work=tmp_path)
    in_shards = mine([x[:9], x[9:]], y, block=10, work=tmp_path)
    assert in_shards.pairs() == whole.pairs()
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("change", ["a number", "the order", "k", "a row"])
def test_what_is_another_search(sides, tmp_path, change):
    x, y = sides
    mine(x, y, block=10, work=tmp_path)
    options = {}
    if change == "a number":
        x = x.copy()
        x[22, 5] += 1e-9
    elif change == "the order":
        x, y = y, x
    elif change == "k":
        options["k"] = 2
    else:
        y = y[:-1]

    pairs = mine(x, y, block=10, work=tmp_path, **options)

    assert pairs.pairs() == mine(x, y, **options).pairs()
    assert len(list(tmp_path.iterdir())) == 2


def test_a_full_disk_is_one_line_with_the_file(files):
    """A limit on the size of files stands for a full disk: both fail in the write."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4200, hard))
    wide = lambda texts, lang: np.tile(encode(texts, lang), 4)  # noqa: E731
    try:
        with pytest.raises(OSError, match=r"source.000000\.npy cannot be written: \S"):
            mined(files, wide, out="o.tsv")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("index", [None, "SQ8"])
def test_a_plan_counts_what_mining_writes(files, index):
    inputs = (files / "a.txt", files / "b.txt")

    plan = plan_mining(*inputs, encode, k=2, index=index)

    mine_files(*inputs, files / "out.tsv", encode, k=2, progress=False)
    work = files / "out.tsv.work"
    written = 0
    for file in work.glob("*/*.npy"):
        written += np.load(file).nbytes
    for file in (work / "search").rglob("*.npz"):
        written += sum(array.nbytes for array in np.load(file).values())
    if index is not None:
        written += 55 * 16
    assert (plan["sources"], plan["targets"]) == (40, 55)
    assert written <= plan["disk_gigabytes"] * 1e9 <= written + 1000
    assert plan["encode_hours"] > 0
    assert plan["search_hours"] > 0
    assert plan["memory_gigabytes"] > 0
