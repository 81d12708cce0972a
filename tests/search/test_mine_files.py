"""Mining of files: what is encoded once stays encoded, rows find back to their lines, errors name the line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hf_echo.search import mine, mine_files
from hf_echo.search.lines import TextLines
from hf_echo.search.shards import encode_to_shards

WORDS = "red blue old small cat dog bird fish sleeps runs eats waits".split()


def encode(texts, lang):
    """Bag of words: a text and its shuffled words are the same."""
    vectors = np.zeros((len(texts), 16), np.float32)
    for row, text in zip(vectors, texts, strict=True):
        for word in text.split():
            row += np.random.default_rng(list(word.encode())).normal(size=16)
    return vectors


def sentences(count: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, size=5, replace=False)) for _ in range(count)]


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


@pytest.mark.parametrize("folder", ["source", "search"])
def test_fresh_deletes_nothing_of_the_user(files, folder):
    (files / "work" / folder).mkdir(parents=True)
    (files / "work" / folder / "corpus.txt").write_text("a")
    options = dict(work=files / "work", fresh=True, progress=False)
    with pytest.raises(ValueError, match=f"{folder} holds no embeddings of hf-echo mine"):
        mine_files(files / "a.txt", files / "b.txt", files / "out.tsv", encode, **options)
    assert (files / "work" / folder / "corpus.txt").exists()
    (files / "work" / folder / "corpus.txt").unlink()
    for _ in range(2):  # its own folders it does delete
        assert mine_files(files / "a.txt", files / "b.txt", files / "out.tsv", encode, **options).pairs


def test_files_give_what_arrays_give(files):
    report = mine_files(files / "a.txt", files / "b.txt", files / "out.tsv", encode, shard=7, progress=False)
    one, two = ((files / name).read_text().split("\n") for name in ("a.txt", "b.txt"))
    one = one[:-1]
    found = mine(encode(one, None), encode(two, None))
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


@pytest.mark.parametrize("options", [{}, {"k": 1}, {"index": "Flat"}, {"index": "IVF2,SQ8;nprobe=2"}])
def test_workers_write_the_same_file_and_repeat_nothing(files, far_executor, monkeypatch, options):
    options = {"block": 9, "shard": 7, "progress": False, **options}
    monkeypatch.chdir(files)  # the workers run in another folder
    a, b = Path("a.txt"), Path("b.txt")
    mine_files(a, b, Path("near.tsv"), encode, **options)
    mine_files(a, b, Path("far.tsv"), encode, executor=far_executor, **options)
    assert Path("far.tsv").read_bytes() == Path("near.tsv").read_bytes()
    done = [desc for desc, _ in far_executor.items]
    assert done.count("Encoding a.txt") == 6 and done.count("Encoding b.txt") == 8
    if "index" in options:
        counts = {"Indexing target": 1, "Searching target": 5, "Indexing source": 1, "Searching source": 7}
        counts = {desc.replace("target", "y").replace("source", "x"): n for desc, n in counts.items()}
    else:
        counts = {"Searching": 5 if options.get("k") else 1}  # stripes of the 5 blocks of a.txt
    assert {desc: done.count(desc) for desc in done if "Encoding" not in desc} == counts
    far_executor.items.clear()
    mine_files(a, b, Path("far.tsv"), encode, executor=far_executor, **options)  # another run finds all neighbours
    assert [desc for desc, _ in far_executor.items] == ["Searching"] * counts.get("Searching", 0)
    mine_files(a, b, Path("far.tsv"), encode, executor=far_executor, fresh=True, **options)
    assert [desc for desc, _ in far_executor.items].count("Encoding a.txt") == 6
    assert Path("far.tsv").read_bytes() == Path("near.tsv").read_bytes()


@pytest.mark.parametrize("index", ["Nonsense", "IVF2,Nonsense", "IVF2,Flat;probes=2"])
def test_an_unknown_index_is_refused_before_encoding(files, index):
    pytest.importorskip("faiss")
    with pytest.raises(ValueError, match=f"index '{index}' is refused by faiss") as error:
        mine_files(files / "a.txt", files / "b.txt", files / "out.tsv", lambda *_: pytest.fail("encoded"), index=index)
    assert "\n" not in str(error.value) and not (files / "out.tsv.work").exists()


def test_a_cluster_needs_a_folder(far_executor):
    with pytest.raises(ValueError, match="work is None: a search on a cluster needs a folder"):
        mine(np.eye(3), np.eye(3), executor=far_executor)


def test_changed_input_or_model_is_refused_with_advice(files):
    def run(encode=encode, **options):
        mine_files(files / "a.txt", files / "b.txt", files / "out.tsv", encode, progress=False, **options)

    run()
    cases = [
        (dict(encode=lambda t, lang: encode(t, lang)[:, ::-1]), "changed: model"),
        (dict(encode=lambda t, lang: encode(t, lang)[:, :8]), "changed: model"),
        (dict(target_lang="eng_Latn"), "target holds .*changed: language"),
        (dict(shard=9), "changed: shard size"),
    ]
    for options, words in cases:
        with pytest.raises(ValueError, match=words + r".*--work") as error:
            run(**options)
        assert "\n" not in str(error.value)
    (files / "a.txt").write_text("another text\n")
    with pytest.raises(ValueError, match="source holds embeddings of .*changed: contents of the file, rows"):
        run()
    run(work=files / "elsewhere")


def test_rows_find_back_to_their_lines(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes("\ufeffun\r\n\n deux \n un\n\u2028\ntrois".encode())
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


def test_shards_are_mapped_not_loaded(files):
    shards = encode_to_shards(TextLines(files / "a.txt"), encode, None, files / "w", shard=16, progress=False)
    assert [len(s) for s in shards] == [16, 16, 8] and all(isinstance(s, np.memmap) for s in shards)
    np.testing.assert_array_equal(np.concatenate(shards), encode(TextLines(files / "a.txt").read(0, 40), None))


def test_errors_name_file_and_line(files):
    def zero_at(word):
        return lambda texts, lang: encode(texts, lang) * np.array([[word not in t.split()] for t in texts])

    (files / "c.txt").write_text("red cat\n\nblue dog\nold fish\n")
    arguments = (files / "c.txt", files / "b.txt", files / "o.tsv")
    with pytest.raises(ValueError, match=r"c.txt:4: a NaN, infinite or zero embedding"):
        mine_files(*arguments, zero_at("fish"), progress=False)
    with pytest.raises(ValueError, match=r"shape \(2, 16\) for 3 lines of .*c.txt"):
        mine_files(*arguments, lambda t, lang: encode(t[: max(1, len(t) - 1)], lang), progress=False)
    (files / "c.txt").write_bytes(b"fine\n\xff\xfe\n")
    with pytest.raises(ValueError, match=r"c.txt:2: not UTF-8"):
        mine_files(*arguments, encode, progress=False)
    (files / "c.txt").write_text("\n \n")
    with pytest.raises(ValueError, match=r"c.txt has no text"):
        mine_files(*arguments, encode, progress=False)
    with pytest.raises(FileNotFoundError, match="no file .*absent.txt"):
        mine_files(files / "absent.txt", files / "b.txt", files / "o.tsv", encode, progress=False)


def test_command_mines_with_the_toy_model(run, toy, toy_folders, tmp_path):
    meanings = toy.split("dev")
    french = [toy.say(m, "fra_Latn") for m in meanings[:24]]
    english = [toy.say(m, "eng_Latn") for m in meanings[8:]][::-1]
    (tmp_path / "fr.txt").write_text("\n".join([*french, french[0], ""]), encoding="utf-8")
    (tmp_path / "en.txt").write_text("\n".join(english), encoding="utf-8")
    command = ["mine", tmp_path / "fr.txt", tmp_path / "en.txt", "--model", toy_folders["release"]]
    command += ["--source-lang", "fra_Latn", "--target-lang", "eng_Latn", "--dedup"]
    command += ["--out", tmp_path / "p" / "pairs.tsv"]
    code, out, err = run(*command, "--json", tmp_path / "report.json")
    assert code == 0, err
    report = json.loads(out)
    assert report == json.loads((tmp_path / "report.json").read_text())
    assert (report["sources"], report["targets"]) == (24, 24) and "Encoding fr.txt" in err
    found = {(s, t) for _, s, t in rows(tmp_path / "p" / "pairs.tsv")}
    gold = {(toy.say(m, "fra_Latn"), toy.say(m, "eng_Latn")) for m in meanings[8:24]}
    assert len(found & gold) >= 8  # half of the pairs of held-out sentences, among strangers

    assert run(*command, "--retrieval", "intersection", "--margin", "cosine")[0] == 0
    code, _, err = run(*command, "--retrieval", "both")
    assert code == 2 and "retrieval is 'both'" in err and err.count("hf-echo:") == 1
    code, _, err = run("mine", tmp_path / "no.txt", *command[2:])
    assert code == 2 and "no.txt" in err


def test_another_language_is_not_another_model(files):
    """A model whose embeddings depend on the language, as Echo's do."""

    def encode(texts, lang):
        return np.array([[1.0, len(text), 50.0 * (lang == "fra_Latn")] for text in texts])

    options = dict(progress=False, target_lang="eng_Latn")
    mine_files(files / "a.txt", files / "b.txt", files / "o.tsv", encode, source_lang="fra_Latn", **options)
    with pytest.raises(ValueError, match=r"changed: language\)"):
        mine_files(files / "a.txt", files / "b.txt", files / "o.tsv", encode, source_lang="deu_Latn", **options)
    with pytest.raises(ValueError, match=r"changed: model\)"):
        other = lambda texts, lang: np.ones((len(texts), 3)) * [1, -1, 5]  # noqa: E731
        mine_files(files / "a.txt", files / "b.txt", files / "o.tsv", other, source_lang="fra_Latn", **options)


def test_the_output_is_no_input(files):
    before = (files / "a.txt").read_bytes()
    (files / "l.txt").symlink_to(files / "a.txt")
    with pytest.raises(ValueError, match="is an input too"):
        mine_files(files / "a.txt", files / "b.txt", files / "l.txt", lambda *_: pytest.fail("encoded"))
    assert (files / "a.txt").read_bytes() == before
