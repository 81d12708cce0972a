"""Mining of files: what is finished is not done again, rows find back to their lines, errors name the line."""

import gzip
import json
import os
import pickle
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
    one = sentences(40, 0)
    rng = np.random.default_rng(1)
    two = [" ".join(rng.permutation(text.split())) for text in one] + sentences(15, 2)
    two = [two[i] for i in rng.permutation(len(two))]
    (tmp_path / "a.txt").write_text("\n".join(one) + "\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("\n".join(two), encoding="utf-8")
    return tmp_path


def rows(path) -> list[list[str]]:
    header, *lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    assert header == "score\tsource\ttarget"
    return [line.split("\t") for line in lines]


def test_files_give_what_arrays_give(files):
    report = mine_files(files / "a.txt", files / "b.txt", files / "out.tsv", encode, shard=7, progress=False)
    one, two = ((files / name).read_text().split("\n") for name in ("a.txt", "b.txt"))
    one = one[:-1]
    found = mine(encode(one), encode(two))
    assert [(s, t) for _, s, t in rows(files / "out.tsv")] == [(one[i], two[j]) for i, j in found.pairs()]
    np.testing.assert_allclose([float(r[0]) for r in rows(files / "out.tsv")], found.scores, atol=1e-5)
    assert (report.sources, report.targets, report.pairs) == (40, 55, len(found.scores))
    assert len(list((files / "out.tsv.work" / "source").glob("*.npy"))) == 6
    top = rows(files / "out.tsv")[:30]
    assert all(sorted(s.split()) == sorted(t.split()) for _, s, t in top)


def test_a_killed_run_goes_on_with_the_first_missing_shard(files):
    calls = []

    def dies(texts, lang):
        calls.append(len(texts))
        if len(calls) == 6:  # the probe of the model and four shards came before
            raise KeyboardInterrupt
        return encode(texts, lang)

    arguments = (files / "a.txt", files / "b.txt", files / "out.tsv")
    with pytest.raises(KeyboardInterrupt):
        mine_files(*arguments, dies, shard=7, progress=False)
    assert calls == [1, 7, 7, 7, 7, 7] and not (files / "out.tsv").exists()
    (files / "out.tsv.work" / "source" / "000004.part").write_bytes(b"half a shard")
    calls.clear()
    calls += [0] * 10
    mine_files(*arguments, dies, shard=7, progress=False)
    assert calls[10:] == [1, 7, 5, 1, *[7] * 7, 6]
    after = (files / "out.tsv").read_bytes()
    mine_files(files / "a.txt", files / "b.txt", files / "fresh.tsv", encode, progress=False)
    assert (files / "fresh.tsv").read_bytes() == after
    # another threshold costs no encoding
    calls.clear()
    calls += [0] * 10
    mine_files(*arguments, dies, shard=7, progress=False, threshold=1.2)
    assert calls[10:] == [1, 1] and 0 < len(rows(files / "out.tsv")) < after.count(b"\n") - 1


def test_rows_find_back_to_their_lines(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes("\ufeffun\r\n\u200b\ufeff \u00ad\n deux \n un\n\u2028\ntrois".encode())
    lines = TextLines(path)
    assert lines.read(0, 9) == ["un", "deux", "un", "trois"]
    assert [lines.line_of(i) for i in range(4)] == [1, 3, 4, 6]
    assert list(lines.texts([3, 0])) == ["trois", "un"]
    once = TextLines(path, dedup=True)
    assert once.read(0, 9) == ["un", "deux", "trois"] and once.line_of(2) == 6
    assert once.digest == lines.digest


def test_fields_are_safe(tmp_path):
    (tmp_path / "a.txt").write_text("red\tcat\u2028runs\x0bfast\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("red cat runs fast\n", encoding="utf-8")
    mine_files(tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "o.tsv", encode, progress=False)
    assert rows(tmp_path / "o.tsv")[0][1:] == ["red cat runs fast"] * 2


def zero_at_fish(texts, lang):
    return encode(texts) * np.array([["fish" not in text.split()] for text in texts])


@pytest.mark.parametrize(
    "content, encoder, message",
    [
        (b"red cat\n\nblue dog\nold fish\n", zero_at_fish, r"c.txt:4: a NaN, infinite or zero embedding"),
        (b"a\nb\nc\n", lambda t, lang: encode(t[: max(1, len(t) - 1)]), r"shape \(2, 24\) for 3 lines of .*c.txt"),
        (b"fine\n\xff\xfe\n", encode, r"c.txt:2: not UTF-8"),
        (b"\n \n", encode, "c.txt is empty"),
        (gzip.compress(bytes(99))[:20], lambda *_: pytest.fail("encoded"), "c.txt: damaged"),
        (None, lambda *_: pytest.fail("encoded"), "no file .*c.txt"),
    ],
)
def test_errors_name_file_and_line(files, content, encoder, message):
    if content is not None:
        (files / "c.txt").write_bytes(content)
    for pair in ("cb", "bc") if content is None else ("cb",):
        one, two = (files / f"{name}.txt" for name in pair)
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            mine_files(one, two, files / f"{pair}.tsv", encoder, progress=False)
    assert all(path.is_file() or any(path.iterdir()) for path in files.iterdir())  # no empty folder is left


def test_inputs_are_never_written(files):
    """Neither where they and the output are a Moses pair."""
    one, two, pair = (files / name for name in ("p.fr-en.fr", "p.fr-en.en", "p.fr-en"))
    (files / "a.txt").rename(one)
    (files / "b.txt").rename(two)
    before = {file: file.read_bytes() for file in files.iterdir()}
    for call in (mine_files, align_files):
        refuses("p.fr-en.fr is an input too", call, one, two, pair, encode)
    for source, target, out in ((pair, None, pair), (one, two, two), (one, two, pair)):
        refuses("p.fr-en.(fr|en) is an input too", score_pairs, open_pairs(source, target), out, "m")
    assert {file: file.read_bytes() for file in files.iterdir()} == before


def test_one_run_at_a_time_in_a_folder(files):
    """The second run would write over the plain copy that the first one reads."""
    one, two = (files / name for name in ("a.txt.gz", "b.txt"))
    one.write_bytes(gzip.compress((files / "a.txt").read_bytes()))

    def encode_beside_another(texts, lang):
        for other in (mine_files, align_files):
            refuses("another run writes .*o.tsv.work", other, one, two, files / "o.tsv", encode, progress=False)
        return encode(texts, lang)

    mine_files(one, two, files / "o.tsv", encode_beside_another, progress=False)


def test_command_mines_with_the_toy_model(run, answer, refused, toy, toy_folders, tmp_path):
    meanings = toy.split("dev")
    french = [toy.say(m, "fra_Latn") for m in meanings[:24]]
    english = [toy.say(m, "eng_Latn") for m in meanings[8:]][::-1]
    (tmp_path / "fr.txt").write_text("\n".join([*french, french[0], ""]), encoding="utf-8")
    (tmp_path / "en.txt").write_text("\n".join(english), encoding="utf-8")
    command = ["mine", tmp_path / "fr.txt", tmp_path / "en.txt", "--model", toy_folders["release"]]
    command += ["--source-lang", "fra_Latn", "--target-lang", "eng_Latn", "--dedup"]
    command += ["--out", tmp_path / "p" / "pairs.tsv"]
    report = answer(*command, "--json", tmp_path / "report.json")
    assert report == json.loads((tmp_path / "report.json").read_text())
    assert (report["sources"], report["targets"]) == (24, 24)
    found = {(s, t) for _, s, t in rows(tmp_path / "p" / "pairs.tsv")}
    gold = {(toy.say(m, "fra_Latn"), toy.say(m, "eng_Latn")) for m in meanings[8:24]}
    assert len(found & gold) >= 8  # half of the pairs of held-out sentences, among strangers

    assert run(*command, "--retrieval", "intersection", "--margin", "cosine")[0] == 0
    refused("no.txt", "mine", tmp_path / "no.txt", *command[2:])


def test_only_its_own_folders_are_deleted_or_used(files):
    options = dict(work=files / "work", progress=False)
    for folder in ("source", "search"):
        texts = files / "work" / folder / "corpus.txt"
        texts.parent.mkdir(parents=True)
        texts.write_text("a")
        for fresh in (True, False) if folder == "source" else (True,):
            with pytest.raises(ValueError, match=f"{folder} holds (other files than|no) embeddings of hf-echo mine"):
                mine_files(files / "a.txt", files / "b.txt", files / "out.tsv", encode, fresh=fresh, **options)
        assert texts.exists()
        texts.unlink()
        texts.parent.rmdir()
    for _ in range(2):  # its own folders it does delete
        assert mine_files(files / "a.txt", files / "b.txt", files / "out.tsv", encode, fresh=True, **options).pairs


def test_changed_input_or_model_is_refused_with_advice(files):
    def of_language(texts, lang):
        """As Echo's embeddings, these depend on the language: it alone does not make another model."""
        return np.hstack([encode(texts, lang), np.full((len(texts), 1), 50.0 * (lang == "fra_Latn"))])

    def run(encode=of_language, source_lang="fra_Latn", **options):
        options = {"progress": False, "source_lang": source_lang, **options}
        mine_files(files / "a.txt", files / "b.txt", files / "out.tsv", encode, **options)

    run()
    cases = [
        (dict(encode=lambda t, lang: of_language(t, lang)[:, ::-1]), r"changed: model\)"),
        (dict(encode=lambda t, lang: of_language(t, lang)[:, :8]), r"changed: model\)"),
        (dict(source_lang="deu_Latn"), r"source holds .*changed: language\)"),
        (dict(shard=9), r"changed: shard size\)"),
    ]
    for options, words in cases:
        with pytest.raises(ValueError, match=words + ".*--work"):
            run(**options)
    (files / "a.txt").write_text("another text\n")
    with pytest.raises(ValueError, match="source holds embeddings of .*changed: contents of the file, rows"):
        run()
    run(work=files / "elsewhere")


@pytest.mark.parametrize("options", [{}, {"index": "IVF2,SQ8;nprobe=2"}])
def test_workers_write_the_same_file_and_repeat_nothing(files, far_executor, monkeypatch, options):
    options = {"block": 9, "shard": 7, "progress": False, **options}
    monkeypatch.chdir(files)  # the workers run in another folder
    a, b = Path("a.txt"), Path("b.txt")
    with pytest.raises(ValueError, match="work is None: a search on a cluster needs a folder"):
        mine(np.eye(3), np.eye(3), executor=far_executor)
    mine_files(a, b, Path("near.tsv"), encode, **options)
    mine_files(a, b, Path("far.tsv"), encode, executor=far_executor, **options)
    done = [desc for desc, _ in far_executor.items]
    counts = {"Encoding a.txt": 6, "Encoding b.txt": 8, "Searching y": 5, "Searching x": 7}
    assert {desc: done.count(desc) for desc in done} == counts
    assert Path("far.tsv").read_bytes() == Path("near.tsv").read_bytes()
    far_executor.items.clear()
    mine_files(a, b, Path("far.tsv"), encode, executor=far_executor, **options)
    assert far_executor.items == [] and Path("far.tsv").read_bytes() == Path("near.tsv").read_bytes()


def test_a_pickled_collection_holds_file_names(tmp_path):
    rows = np.random.default_rng(0).normal(size=(300, 8))
    np.save(tmp_path / "y.npy", rows)
    mapped = np.load(tmp_path / "y.npy", mmap_mode="r")
    sent = pickle.dumps(Rows([mapped, mapped[290:]], "y"))  # a slice has no place of its own in the file
    assert 10 * 64 < len(sent) < 40 * 64
    received = pickle.loads(sent)
    assert received.digest() == Rows([rows, rows[290:]], "y").digest()
    np.testing.assert_array_equal(received.read(288, 292), Rows(np.vstack([rows, rows[290:]]), "y").read(288, 292))


@pytest.fixture
def sides():
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, (23, 6)) + 0.0  # whole numbers: equal cosines, whose order must not change
    y = np.concatenate([x[5:], rng.integers(-2, 3, (20, 6)) + 0.0])[rng.permutation(38)]
    x[~x.any(1)], y[~y.any(1)] = 1.0, 1.0
    return x, y


@pytest.mark.parametrize("index", [None, "Flat"])
@pytest.mark.parametrize("writes", [0, 1, 3, 6])  # 3 and 4 blocks, and an index a side
def test_a_search_killed_at_any_write_resumes(sides, tmp_path, monkeypatch, writes, index):
    options = dict(block=10, k=3, index=index)
    want = mine(*sides, **options)
    left, replace = [writes], os.replace

    def dies(*arguments):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        replace(*arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("os.replace", dies)
        mine(*sides, work=tmp_path, **options)
    finished = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.npz")}
    found = mine(*sides, work=tmp_path, **options)
    assert finished.items() <= {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.npz")}.items()
    assert found.pairs() == want.pairs()
    np.testing.assert_array_equal(found.scores, want.scores)
    assert len(list(tmp_path.rglob("*.npz"))) == 7 and not list(tmp_path.rglob("*.faiss"))


@pytest.mark.parametrize("margin", ["ratio", "distance", "cosine"])
@pytest.mark.parametrize("block", [22, 20, 19, 13, 1])  # 23 and 38 rows: last blocks of fewer rows than k
def test_blocks_do_not_change_the_result(sides, margin, block):
    want, found = (mine(*sides, k=4, block=size, margin=margin) for size in (1000, block))
    assert found.pairs() == want.pairs()
    np.testing.assert_allclose(found.scores, want.scores, rtol=1e-6)


def test_what_is_another_search_and_what_is_not(sides, tmp_path):
    x, y = sides
    searches = lambda: len(list(tmp_path.iterdir()))  # noqa: E731
    first = mine(x, y, block=10, work=tmp_path)
    for options in ({}, {"margin": "distance"}, {"retrieval": "forward"}, {"threshold": 1.1}):
        mine(x, y, block=10, work=tmp_path, **options)
    assert mine([x[:9], x[9:]], y, block=10, work=tmp_path).pairs() == first.pairs() and searches() == 1
    changed = x.copy()
    changed[22, 5] += 1e-9
    cases = [((changed, y), {}), ((y, x), {}), ((x, y), {"k": 2}), ((x, y[:-1]), {})]
    for count, (arguments, options) in enumerate(cases, 2):
        assert mine(*arguments, block=10, work=tmp_path, **options).pairs() == mine(*arguments, **options).pairs()
        assert searches() == count


def test_a_full_disk_is_one_line_with_the_file(files):
    """A limit on the size of files stands for a full disk: both fail in the write."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4200, hard))
    wide = lambda texts, lang: np.tile(encode(texts, lang), 4)  # noqa: E731
    try:
        with pytest.raises(OSError, match=r"source.000000\.npy cannot be written: \S"):
            mine_files(files / "a.txt", files / "b.txt", files / "o.tsv", wide, progress=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("index", [None, "SQ8"])
def test_a_plan_counts_what_mining_writes(files, index):
    sources = (files / "a.txt", files / "b.txt")
    plan = plan_mining(*sources, encode, k=2, index=index)
    assert (plan["sources"], plan["targets"]) == (40, 55)
    mine_files(*sources, files / "out.tsv", encode, k=2, progress=False)
    parts = [np.load(file) for file in (files / "out.tsv.work").glob("*/*.npy")]
    found = [np.load(file) for file in (files / "out.tsv.work" / "search").rglob("*.npz")]
    written = sum(part.nbytes for part in parts) + sum(one[name].nbytes for one in found for name in one)
    written += 0 if index is None else 55 * 16
    assert written <= plan["disk_gigabytes"] * 1e9 <= written + 1000
    assert min(plan[name] for name in ("encode_hours", "search_hours", "memory_gigabytes")) > 0
