"""`hf-echo vocabulary`: each command end to end on tiny text; errors are one line and exit code 2."""

import json

import pyarrow.parquet as pq
import pytest
import yaml
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer

from hf_echo.modeling import EchoForTranslation, EchoTokenizer

FRENCH = ["le chat dort", "le chat mange", "la chatte dort", "les chats dorment"]
GREEK = ["η γάτα κοιμάται", "η γάτα τρώει", "οι γάτες κοιμούνται", "η γάτα"]


COMMAND = "vocabulary"


@pytest.fixture
def texts(tmp_path):
    """Monolingual text and pairs, and n-way dev text."""
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "fra_Latn.txt").write_text("\n".join(FRENCH * 5) + "\n", "utf-8")
    rows = "".join(f"fra_Latn\t{f}\tell_Grek\t{g}\n" for f, g in zip(FRENCH, GREEK, strict=True))
    (folder / "pairs.tsv").write_text("source_lang\tsource\ttarget_lang\ttarget\n" + rows, "utf-8")
    dev = "".join(f"{i}\tfra_Latn\t{f}\n{i}\tell_Grek\t{g}\n" for i, (f, g) in enumerate(zip(FRENCH, GREEK)))
    (tmp_path / "dev.tsv").write_text("id\tlang\ttext\n" + dev, "utf-8")
    return [folder / "fra_Latn.txt", folder / "pairs.tsv"]


@pytest.fixture
def counts(run, texts, tmp_path):
    out = tmp_path / "counts.parquet"
    code, text, err = run("count", *texts, "--out", out)
    assert code == 0, err
    assert json.loads(text)["languages"] == 2
    return out


@pytest.fixture
def old(tmp_path):
    """A byte-level BPE without merges, as a folder."""
    backend = Tokenizer(models.BPE({b: i for i, b in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    EchoTokenizer.from_backend(backend).save_pretrained(tmp_path / "old")
    return tmp_path / "old"


def test_count(run, texts, tmp_path):
    code, out, _ = run("count", *texts, "--out", tmp_path / "a.parquet")
    report = json.loads(out)
    assert code == 0 and report["sentences"] == 28 and report["pattern"] == "echo"
    rows = pq.read_table(tmp_path / "a.parquet").to_pylist()
    chat = {(r["lang"], r["kind"]): r["count"] for r in rows if r["word"] == " chat"}
    assert chat == {("fra_Latn", "monolingual"): 10, ("fra_Latn", "parallel"): 2}


def test_extend(run, counts, old, tmp_path):
    code, out, err = run("extend", old, tmp_path / "new", "--counts", counts, "--merges", 20)
    assert code == 0, err
    before, after = AutoTokenizer.from_pretrained(old), AutoTokenizer.from_pretrained(tmp_path / "new")
    assert json.loads(out)["tokens"] == len(after) == len(before) + 20
    assert before.get_vocab().items() <= after.get_vocab().items()
    ids = [t.encode("le chat", add_special_tokens=False) for t in (before, after)]
    assert len(ids[1]) < len(ids[0])
    size = len(before) + 20
    code, _, err = run("extend", old, tmp_path / "same", "--counts", counts, "--vocab-size", size)
    assert code == 0, err
    assert AutoTokenizer.from_pretrained(tmp_path / "same").get_vocab() == after.get_vocab()


def test_the_folder_of_a_model_is_refused(refused, counts, old, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    refused("model holds a model", "extend", old, tmp_path / "model", "--counts", counts, "--merges", 20)
    refused("model holds a model", "train", tmp_path / "model", "--counts", counts, "--vocab-size", 300)
    assert [file.name for file in (tmp_path / "model").iterdir()] == ["config.json"]


def test_train_and_language_weights(run, counts, tmp_path):
    """Greek gets what French loses when it counts a thousand times as much."""
    tokens = {}
    for weight in (1, 1000):
        options = ("--vocab-size", 285, "--reserved", 4, "--language-weight", f"ell_Grek={weight}", "--max-length", 64)
        code, out, err = run("train", tmp_path / "t", "--counts", counts, *options)
        assert code == 0, err
        tokenizer = AutoTokenizer.from_pretrained(tmp_path / "t")
        assert json.loads(out)["tokens"] == len(tokenizer) == 285 and tokenizer.model_max_length == 64
        tokens[weight] = [len(tokenizer.encode(text, add_special_tokens=False)) for text in (FRENCH[0], GREEK[0])]
    assert tokens[1000][0] > tokens[1][0] and tokens[1000][1] < tokens[1][1]


def test_swap(run, counts, toy, toy_tokenizer, tmp_path):
    toy.make_model(toy_tokenizer).save_pretrained(tmp_path / "model")
    toy_tokenizer.save_pretrained(tmp_path / "model")
    run("train", tmp_path / "t", "--counts", counts, "--vocab-size", 300, "--reserved", 0)
    code, out, err = run("swap", tmp_path / "model", tmp_path / "t", tmp_path / "swapped", "--method", "random")
    assert code == 0, err
    assert json.loads(out)["tokens"] == 300
    assert EchoForTranslation.from_pretrained(tmp_path / "swapped").config.vocab_size >= 300


def test_report(run, counts, old, tmp_path):
    run("extend", old, tmp_path / "new", "--counts", counts, "--merges", 30)
    pages = ("--json", tmp_path / "r.json", "--markdown", tmp_path / "tables" / "r.md")
    code, out, err = run("report", old, tmp_path / "new", "--data", tmp_path / "dev.tsv", *pages)
    assert code == 0, err
    found = json.loads((tmp_path / "r.json").read_text())
    assert list(found["sizes"]) == ["old", "new"]
    bytes_of = sum(len(f" {text}".encode()) for text in FRENCH) / len(FRENCH)
    (row,) = [r for r in found["rows"] if r["tokenizer"] == "old" and r["name"] == "fra_Latn"]
    assert row["tokens_per_sentence"] == bytes_of and row["failures"] == 0
    assert "| script | languages | sentences | old | new | new / old |" in out
    assert "| ell_Grek | Greek | 4 |" in (tmp_path / "tables" / "r.md").read_text()


def test_tokenizers_of_one_name(run, refused, old, texts, tmp_path):
    """Folders of the same name are called by their whole paths."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "old").symlink_to(old)
    code, out, _ = run("report", old, tmp_path / "b" / "old", "--data", tmp_path / "dev.tsv")
    assert code == 0 and f"| {old} | {tmp_path / 'b' / 'old'} |" in out
    refused("give each tokenizer once", "report", old, old, "--data", tmp_path / "dev.tsv")


def test_a_recipe_is_the_command(run, hf_echo_cli, counts, tmp_path):
    fields = {"vocab_size": 305, "reserved": 2, "language_weight": {"ell_Grek": 3}, "top_languages": 1}
    whole = {"operation": "train_tokenizer", "counts": str(counts), "output_dir": str(tmp_path / "t"), **fields}
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(whole))
    code, out, err = hf_echo_cli("train", tmp_path / "r.yaml")
    assert code == 0 and json.loads(out)["tokens"] == 305, err
    options = ("--vocab-size", 305, "--reserved", 2, "--language-weight", "ell_Grek=3", "--top-languages", 1)
    assert run("train", tmp_path / "by-hand", "--counts", counts, *options)[0] == 0
    files = [tmp_path / name / "tokenizer.json" for name in ("t", "by-hand")]
    assert files[0].read_bytes() == files[1].read_bytes()
    code, _, err = hf_echo_cli("train", tmp_path / "r.yaml", "vocab_size=300")
    assert code == 2 and "vocab_size was 305, now 300; --fresh replaces it" in err


@pytest.mark.parametrize("name", ["languages_200", "omnilingual"])
def test_package_recipes(hf_echo_cli, old, counts, name, tmp_path):
    """Greek and Korean weigh twice, so counts without Korean are refused by name."""
    own = [f"tokenizer={old}"] if name == "languages_200" else []
    words = (f"counts={counts}", f"output_dir={tmp_path / 't'}", *own)
    code, _, err = hf_echo_cli("train", f"vocabulary/{name}", *words)
    assert code == 2 and "kor_Hang" in err and not (tmp_path / "t").exists()


def test_bad_input(refused, counts, old, tmp_path):
    new = tmp_path / "new"
    refused("no.parquet", "extend", old, new, "--counts", tmp_path / "no.parquet", "--merges", 3)
    refused("give either merges or vocab_size", "extend", old, new, "--counts", counts)
