"""Mining of files: what is finished is not done again, rows find back to their lines,
errors name the line."""

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

from .words import encode, sentences


@pytest.fixture
def files(tmp_path):
    """Forty sentences, and the same with their words in another order, in another order,
    with strangers."""
    source_lines = sentences(40, 0)
    rng = np.random.default_rng(1)
    target_lines = sentences(15, 2)
    for line in source_lines:
        target_lines.append(" ".join(rng.permutation(line.split())))
    rng.shuffle(target_lines)
    (tmp_path / "a.txt").write_text("\n".join(source_lines) + "\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("\n".join(target_lines), encoding="utf-8")
    return tmp_path


def mined(files, encoder=encode, source="a", target="b", out="out.tsv", **options):
    """The report of two of the files a, b and c, mined into `out`."""
    options.setdefault("progress", False)
    return mine_files(
        files / f"{source}.txt", files / f"{target}.txt", files / out, encoder, **options
    )


def rows(path) -> list[list[str]]:
    header, *lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    assert header == "score\tsource\ttarget"
    return [line.split("\t") for line in lines]


def test_files_give_what_arrays_give(files):
    source_lines = (files / "a.txt").read_text().splitlines()
    target_lines = (files / "b.txt").read_text().splitlines()

    report = mined(files, shard=7)

    # The function for arrays that fit into memory.
    expected = mine(encode(source_lines), encode(target_lines))
    expected_texts = [(source_lines[i], target_lines[j]) for i, j in expected.pairs()]
    scores, sources, targets = zip(*rows(files / "out.tsv"), strict=True)
    assert [*zip(sources, targets, strict=True)] == expected_texts
    np.testing.assert_allclose(np.array(scores, float), expected.scores, atol=1e-5)
    assert (report.sources, report.targets, report.pairs) == (40, 55, len(scores))
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
    pairs = mined(files, shard=7).pairs

    counting = Counting()
    report = mined(files, counting, shard=7, threshold=1.2)

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


def test_fields_are_safe(files):
    """What ends a line or a field for other readers becomes a space."""
    (files / "a.txt").write_text("red\tcat\u2028runs\x0bfast\n", encoding="utf-8")
    (files / "b.txt").write_text("red cat runs fast\n", encoding="utf-8")

    mined(files)

    ((_, source, target),) = rows(files / "out.tsv")
    assert source == "red cat runs fast"
    assert target == "red cat runs fast"


def encode_fish_as(value: float):
    """The encoder of words, with this value in each dimension of a text about fish."""

    def encode_texts(texts, lang):
        vectors = encode(texts)
        for vector, text in zip(vectors, texts, strict=True):
            if "fish" in text:
                vector[:] = value
        return vectors

    return encode_texts


def test_texts_without_direction_are_left_out(files, caplog):
    (files / "c.txt").write_text("red cat\n\nold fish\nblue dog\nfish\n")

    report = mined(files, encode_fish_as(0.0), source="c", target="c", out="o.tsv")

    assert (report.sources, report.sources_left_out, report.targets_left_out) == (2, 3, 3)
    assert [row[1:] for row in rows(files / "o.tsv")] == [["red cat"] * 2, ["blue dog"] * 2]
    assert "x: left out 2 (rows whose embedding is zero, the first is row 1)" in caplog.text


def never(texts, lang):
    raise AssertionError("encoded")


def encode_all_but_one(texts, lang):
    return encode(texts[:-1] or texts)


CUT_GZIP = gzip.compress(bytes(99), mtime=0)[:20]
FISH_IN_LINE_4 = b"red cat\n\nblue dog\nold fish\n"


@pytest.mark.parametrize(
    "content, encoder, message",
    [
        (FISH_IN_LINE_4, encode_fish_as(np.nan), "c.txt:4: a NaN, infinite or zero embedding"),
        (b"a\nb\nc\n", encode_all_but_one, r"shape \(2, 24\) for 3 lines of .*c.txt"),
        (b"fine\n\xff\xfe\n", encode, "c.txt:2: not UTF-8"),
        (b"\n \n", encode, "c.txt is empty"),
        (CUT_GZIP, never, "c.txt: damaged"),
    ],
)
def test_errors_name_the_file_with_the_line(files, content, encoder, message):
    (files / "c.txt").write_bytes(content)

    with pytest.raises(ValueError, match=message):
        mined(files, encoder, source="c", out="o.tsv")

    for path in files.iterdir():
        assert path.is_file() or any(path.iterdir())  # no empty folder is left


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_missing_file_is_named(files, side):
    with pytest.raises(FileNotFoundError, match="no file .*c.txt"):
        mined(files, never, **{side: "c"})


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

    with pytest.raises(ValueError, match="p.fr-en.fr is an input too"):
        function(source, target, pair, encode)

    assert source.read_bytes() == before


def test_scores_are_not_written_over_a_file_of_their_input(moses_pair):
    source, target, _ = moses_pair
    before = target.read_bytes()

    with pytest.raises(ValueError, match="p.fr-en.en is an input too"):
        score_pairs(open_pairs(source, target), target, "m")

    assert target.read_bytes() == before


def test_scores_are_not_written_over_the_pair_of_their_input(moses_pair):
    _, _, pair = moses_pair

    with pytest.raises(ValueError, match="p.fr-en.(fr|en) is an input too"):
        score_pairs(open_pairs(pair), pair, "m")


@pytest.mark.parametrize("function", [mine_files, align_files])
def test_one_run_at_a_time_in_a_folder(files, function):
    """The second run would write over the plain copy that the first one reads."""
    packed = files / "a.txt.gz"
    packed.write_bytes(gzip.compress((files / "a.txt").read_bytes()))
    arguments = (packed, files / "b.txt", files / "o.tsv")

    def encode_beside_another(texts, lang):
        with pytest.raises(ValueError, match="another run writes .*o.tsv.work"):
            function(*arguments, encode, progress=False)
        return encode(texts, lang)

    mine_files(*arguments, encode_beside_another, progress=False)


@pytest.fixture
def toy_mining(toy, toy_folders, tmp_path):
    """(arguments of the command, gold pairs):
    24 held-out sentences a side, 16 of them in common, one line twice."""
    meanings = toy.split("dev")
    french = [toy.say(meaning, "fra_Latn") for meaning in meanings[:24]]
    english = [toy.say(meaning, "eng_Latn") for meaning in meanings[8:]]
    (tmp_path / "fr.txt").write_text("\n".join([*french, french[0], ""]), encoding="utf-8")
    (tmp_path / "en.txt").write_text("\n".join(reversed(english)), encoding="utf-8")
    files = f"{tmp_path}/fr.txt {tmp_path}/en.txt --out {tmp_path}/p/pairs.tsv"
    langs = "--source-lang fra_Latn --target-lang eng_Latn --dedup"
    arguments = f"mine {files} {langs} --model {toy_folders['release']}".split()
    return arguments, set(zip(french[8:], english[:16], strict=True))


def test_command_mines_with_the_toy_model(answer, toy_mining, tmp_path):
    arguments, gold = toy_mining

    report = answer(*arguments, "--json", tmp_path / "report.json")

    assert report == json.loads((tmp_path / "report.json").read_text())
    assert (report["sources"], report["targets"]) == (24, 24)
    pairs = {(source, target) for _, source, target in rows(tmp_path / "p" / "pairs.tsv")}
    assert len(pairs & gold) >= 8  # half of the pairs of held-out sentences, among strangers


@pytest.mark.parametrize("folder, fresh", [("source", True), ("source", False), ("search", True)])
def test_a_folder_of_another_kind_is_left_alone(files, folder, fresh):
    corpus = files / "work" / folder / "corpus.txt"
    corpus.parent.mkdir(parents=True)
    corpus.write_text("a")
    message = f"{folder} holds (other files than|no) embeddings of hf-echo mine"

    with pytest.raises(ValueError, match=message):
        mined(files, work=files / "work", fresh=fresh)

    assert corpus.exists()


def test_fresh_discards_the_folders_of_an_earlier_run(files):
    mined(files)

    counting = Counting()
    mined(files, counting, fresh=True)

    assert sum(counting.sizes) == 1 + 40 + 1 + 55  # probes of the model, and all lines again


def encode_by_language(texts, lang):
    """As Echo's embeddings, these depend on the language: it alone does not make another model."""
    mark = 50.0 if lang == "fra_Latn" else 0.0
    return np.hstack([encode(texts), np.full((len(texts), 1), mark)])


def encode_in_reverse(texts, lang):
    return encode_by_language(texts, lang)[:, ::-1]


def encode_narrower(texts, lang):
    return encode_by_language(texts, lang)[:, :8]


def mine_french(files, encoder=encode_by_language, source_lang="fra_Latn", **options):
    return mined(files, encoder, source_lang=source_lang, **options)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"encoder": encode_in_reverse}, r"changed: model\)"),
        ({"encoder": encode_narrower}, r"changed: model\)"),
        ({"source_lang": "deu_Latn"}, r"source holds .*changed: language\)"),
        ({"shard": 9}, r"changed: shard size\)"),
    ],
)
def test_another_setting_is_refused_with_advice(files, options, message):
    mine_french(files)
    with pytest.raises(ValueError, match=message + ".*--work"):
        mine_french(files, **options)


def test_another_text_is_refused(files):
    mine_french(files)
    (files / "a.txt").write_text("another text\n")
    message = "source holds embeddings of .*changed: contents of the file, rows"
    with pytest.raises(ValueError, match=message):
        mine_french(files)


def test_another_text_has_another_work_folder(files):
    mine_french(files)
    (files / "a.txt").write_text("another text\n")

    report = mine_french(files, work=files / "elsewhere")

    assert report.sources == 1


@pytest.mark.parametrize("index", [None, "IVF2,SQ8;nprobe=2"])
def test_workers_write_the_same_file(files, far_executor, monkeypatch, index):
    monkeypatch.chdir(files)  # the workers run in another folder
    options = {"block": 9, "shard": 7, "index": index}
    mined(Path(), out="near.tsv", **options)

    mined(Path(), out="far.tsv", executor=far_executor, **options)

    tasks = Counter(label for label, _ in far_executor.items)
    assert tasks == {"Encoding a.txt": 6, "Encoding b.txt": 8, "Searching y": 5, "Searching x": 7}
    assert Path("far.tsv").read_bytes() == Path("near.tsv").read_bytes()


def test_workers_do_nothing_twice(files, far_executor, monkeypatch):
    monkeypatch.chdir(files)
    mined(Path(), executor=far_executor)
    far_executor.items.clear()

    mined(Path(), executor=far_executor)

    assert far_executor.items == []


def test_a_pickled_collection_holds_file_names(tmp_path):
    """A slice has no place of its own in the file: its ten rows are sent, and nothing else."""
    numbers = np.random.default_rng(0).normal(size=(300, 8))
    np.save(tmp_path / "y.npy", numbers)
    mapped = np.load(tmp_path / "y.npy", mmap_mode="r")

    pickled = pickle.dumps(Rows([mapped, mapped[290:]], "y"))
    received = pickle.loads(pickled)

    assert 10 * 64 < len(pickled) < 40 * 64
    expected = Rows([numbers, numbers[290:]], "y")
    assert received.digest() == expected.digest()
    np.testing.assert_array_equal(received.read(288, 292), expected.read(288, 292))


@pytest.fixture
def sides():
    """Whole numbers: many cosines are equal, and their order must not change."""
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, (23, 6)).astype(float)
    strangers = rng.integers(-2, 3, (20, 6))
    y = rng.permutation(np.concatenate([x[5:], strangers]))
    x[~x.any(axis=1)] = 1.0
    y[~y.any(axis=1)] = 1.0
    return x, y


def times(folder) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in folder.rglob("*.npz")}


@pytest.mark.parametrize("index", [None, "Flat"])
@pytest.mark.parametrize("writes", [0, 1, 3, 6])  # 3 and 4 blocks, and an index a side
def test_a_search_killed_at_any_write_resumes(sides, tmp_path, monkeypatch, writes, index):
    options = dict(block=10, k=3, index=index)
    replace = os.replace
    calls = []

    def replace_until_killed(*arguments):
        calls.append(arguments)
        if len(calls) > writes:
            raise KeyboardInterrupt
        replace(*arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("os.replace", replace_until_killed)
        mine(*sides, work=tmp_path, **options)
    finished = times(tmp_path)

    pairs = mine(*sides, work=tmp_path, **options)

    assert finished.items() <= times(tmp_path).items()  # what was finished is not written again
    expected = mine(*sides, **options)
    assert pairs.pairs() == expected.pairs()
    np.testing.assert_array_equal(pairs.scores, expected.scores)
    assert len(times(tmp_path)) == 7
    assert not list(tmp_path.rglob("*.faiss"))


@pytest.mark.parametrize("margin", ["ratio", "distance", "cosine"])
@pytest.mark.parametrize("block", [22, 20, 19, 13, 1])
def test_blocks_do_not_change_the_result(sides, margin, block):
    """23 and 38 rows: last blocks of fewer rows than k."""
    in_blocks = mine(*sides, k=4, margin=margin, block=block)

    whole = mine(*sides, k=4, margin=margin, block=1000)
    assert in_blocks.pairs() == whole.pairs()
    np.testing.assert_allclose(in_blocks.scores, whole.scores, rtol=1e-6)


@pytest.mark.parametrize(
    "options", [{"margin": "distance"}, {"retrieval": "forward"}, {"threshold": 1.1}]
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


def with_another_number(x, y):
    changed = x.copy()
    changed[22, 5] += 1e-9
    return changed, y


@pytest.mark.parametrize(
    "change, options",
    [
        (with_another_number, {}),
        (lambda x, y: (y, x), {}),
        (lambda x, y: (x, y[:-1]), {}),
        (lambda x, y: (x, y), {"k": 2}),
    ],
    ids=["a number", "the order", "a row", "k"],
)
def test_what_is_another_search(sides, tmp_path, change, options):
    mine(*sides, block=10, work=tmp_path)
    changed = change(*sides)

    pairs = mine(*changed, block=10, work=tmp_path, **options)

    assert pairs.pairs() == mine(*changed, **options).pairs()
    assert len(list(tmp_path.iterdir())) == 2


def encode_widely(texts, lang):
    return np.tile(encode(texts), 4)


def test_a_full_disk_is_one_line_with_the_file(files):
    """A limit on the size of files stands for a full disk: both fail in the write."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4200, hard))
    try:
        with pytest.raises(OSError, match=r"source.000000\.npy cannot be written: \S"):
            mined(files, encode_widely)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("index, index_bytes", [(None, 0), ("SQ8", 55 * 16)])
def test_a_plan_counts_what_mining_writes(files, index, index_bytes):
    """The bytes of all arrays on disk; a row of SQ8 has sixteen more."""
    plan = plan_mining(files / "a.txt", files / "b.txt", encode, k=2, index=index)

    mined(files, k=2)
    work = files / "out.tsv.work"
    written = index_bytes
    for file in work.glob("*/*.npy"):
        written += np.load(file).nbytes
    for file in work.glob("search/**/*.npz"):
        written += sum(array.nbytes for array in np.load(file).values())
    assert (plan["sources"], plan["targets"]) == (40, 55)
    assert written <= plan["disk_gigabytes"] * 1e9 <= written + 1000
    assert plan["encode_hours"] > 0
    assert plan["search_hours"] > 0
    assert plan["memory_gigabytes"] > 0
