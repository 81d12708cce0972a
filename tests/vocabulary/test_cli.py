"""`hf-echo vocabulary`: each command end to end on tiny text;
errors are one line and exit code 2."""

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
    pairs = ["source_lang\tsource\ttarget_lang\ttarget"]
    dev = ["id\tlang\ttext"]
    for number, (french, greek) in enumerate(zip(FRENCH, GREEK, strict=True)):
        pairs.append(f"fra_Latn\t{french}\tell_Grek\t{greek}")
        dev.append(f"{number}\tfra_Latn\t{french}")
        dev.append(f"{number}\tell_Grek\t{greek}")
    for path, lines in (
        (folder / "fra_Latn.txt", FRENCH * 5),
        (folder / "pairs.tsv", pairs),
        (tmp_path / "dev.tsv", dev),
    ):
        path.write_text("\n".join(lines) + "\n", "utf-8")
    return [folder / "fra_Latn.txt", folder / "pairs.tsv"]


@pytest.fixture
def counts(succeeds, texts, tmp_path):
    out = tmp_path / "counts.parquet"
    assert json.loads(succeeds("count", *texts, "--out", out))["languages"] == 2
    return out


@pytest.fixture
def old(tmp_path):
    """A byte-level BPE without merges, as a folder."""
    backend = Tokenizer(
        models.BPE({b: i for i, b in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, [])
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    EchoTokenizer.from_backend(backend).save_pretrained(tmp_path / "old")
    return tmp_path / "old"


def test_count(succeeds, texts, tmp_path):
    report = json.loads(succeeds("count", *texts, "--out", tmp_path / "a.parquet"))
    assert report["sentences"] == 28
    assert report["pattern"] == "echo"
    rows = pq.read_table(tmp_path / "a.parquet").to_pylist()
    chat = {(row["lang"], row["kind"]): row["count"] for row in rows if row["word"] == " chat"}
    assert chat == {("fra_Latn", "monolingual"): 10, ("fra_Latn", "parallel"): 2}


def test_extend(succeeds, counts, old, tmp_path):
    report = json.loads(
        succeeds("extend", old, tmp_path / "new", "--counts", counts, "--merges", 20)
    )
    before = AutoTokenizer.from_pretrained(old)
    after = AutoTokenizer.from_pretrained(tmp_path / "new")
    assert report["tokens"] == len(after) == len(before) + 20
    assert before.get_vocab().items() <= after.get_vocab().items()
    assert len(after.tokenize("le chat")) < len(before.tokenize("le chat"))


def test_extend_to_a_size(succeeds, counts, old, tmp_path):
    size = len(AutoTokenizer.from_pretrained(old)) + 20
    succeeds("extend", old, tmp_path / "by-merges", "--counts", counts, "--merges", 20)
    succeeds("extend", old, tmp_path / "by-size", "--counts", counts, "--vocab-size", size)
    by_merges = AutoTokenizer.from_pretrained(tmp_path / "by-merges")
    by_size = AutoTokenizer.from_pretrained(tmp_path / "by-size")
    assert by_merges.get_vocab() == by_size.get_vocab()


def test_the_folder_of_a_model_is_refused(refused, counts, old, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    refused(
        "model holds a model", "extend", old, tmp_path / "model", "--counts", counts, "--merges", 20
    )
    refused(
        "model holds a model", "train", tmp_path / "model", "--counts", counts, "--vocab-size", 300
    )
    assert [file.name for file in (tmp_path / "model").iterdir()] == ["config.json"]


def test_train(succeeds, counts, tmp_path):
    options = ("--vocab-size", 285, "--reserved", 4, "--max-length", 64)
    report = json.loads(succeeds("train", tmp_path / "t", "--counts", counts, *options))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "t")
    assert report["tokens"] == len(tokenizer) == 285
    assert tokenizer.model_max_length == 64


def test_texts_give_the_tokenizer_of_their_counts(succeeds, counts, tmp_path):
    options = ("--vocab-size", 285, "--reserved", 4)
    succeeds("train", tmp_path / "by-counts", "--counts", counts, *options)

    succeeds("train", tmp_path / "by-texts", "--texts", tmp_path / "texts", *options)

    by_counts = (tmp_path / "by-counts" / "tokenizer.json").read_bytes()
    assert (tmp_path / "by-texts" / "tokenizer.json").read_bytes() == by_counts


def test_a_tokenizer_needs_text(refused, tmp_path):
    refused("give --counts, or --texts to count", "train", tmp_path / "t", "--vocab-size", 285)


def test_a_weight_is_a_number_for_a_language(refused, counts, tmp_path):
    message = "--language-weight 'ell_Grek' is not FIELD=VALUE: factors of the shares of languages"
    options = ("--counts", counts, "--vocab-size", 285, "--language-weight", "ell_Grek")
    refused(message, "train", tmp_path / "t", *options)


def test_the_working_folder_is_not_replaced(refused, counts, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    refused(". is the working folder", "train", ".", "--counts", counts, "--vocab-size", 285)


def test_a_split_that_the_data_do_not_have_is_refused(refused, old, tmp_path, texts):
    data = tmp_path / "dev.tsv"
    message = "dev.tsv has no column split; leave split 'blind' out"
    refused(message, "report", old, "--data", data, "--split", "blind")


def test_a_tokenizer_alone_is_no_checkpoint(refused, old, tmp_path):
    refused(
        "holds no config.json: give the folder of a checkpoint", "swap", old, old, tmp_path / "o"
    )


def test_language_weights(succeeds, counts, tmp_path):
    """Greek gets what French loses when it counts a thousand times as much."""
    options = ("--counts", counts, "--vocab-size", 285, "--reserved", 4)
    succeeds("train", tmp_path / "even", *options)
    succeeds("train", tmp_path / "greek", *options, "--language-weight", "ell_Grek=1000")
    even = AutoTokenizer.from_pretrained(tmp_path / "even")
    greek = AutoTokenizer.from_pretrained(tmp_path / "greek")
    assert len(greek.tokenize(FRENCH[0])) > len(even.tokenize(FRENCH[0]))
    assert len(greek.tokenize(GREEK[0])) < len(even.tokenize(GREEK[0]))


def test_swap(succeeds, counts, toy, toy_tokenizer, tmp_path):
    toy.make_model(toy_tokenizer).save_pretrained(tmp_path / "model")
    toy_tokenizer.save_pretrained(tmp_path / "model")
    succeeds("train", tmp_path / "t", "--counts", counts, "--vocab-size", 300, "--reserved", 0)

    out = succeeds(
        "swap", tmp_path / "model", tmp_path / "t", tmp_path / "swapped", "--method", "random"
    )

    assert json.loads(out)["tokens"] == 300
    assert EchoForTranslation.from_pretrained(tmp_path / "swapped").config.vocab_size >= 300


def test_report(succeeds, counts, old, tmp_path):
    succeeds("extend", old, tmp_path / "new", "--counts", counts, "--merges", 30)
    pages = ("--json", tmp_path / "r.json", "--markdown", tmp_path / "tables" / "r.md")

    out = succeeds("report", old, tmp_path / "new", "--data", tmp_path / "dev.tsv", *pages)

    content = json.loads((tmp_path / "r.json").read_text())
    assert list(content["sizes"]) == ["old", "new"]
    (row,) = [
        row for row in content["rows"] if row["tokenizer"] == "old" and row["name"] == "fra_Latn"
    ]
    sizes = [len(f" {text}".encode()) for text in FRENCH]
    assert row["tokens_per_sentence"] == sum(sizes) / len(sizes)
    assert row["failures"] == 0
    assert "| script | languages | sentences | old | new | new / old |" in out
    assert "| ell_Grek | Greek | 4 |" in (tmp_path / "tables" / "r.md").read_text()


def test_tokenizers_of_one_name(succeeds, old, texts, tmp_path):
    """Folders of the same name are called by their whole paths."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "old").symlink_to(old)
    out = succeeds("report", old, tmp_path / "b" / "old", "--data", tmp_path / "dev.tsv")
    assert f"| {old} | {tmp_path / 'b' / 'old'} |" in out


def test_a_tokenizer_twice_is_refused(refused, old, texts, tmp_path):
    refused("give each tokenizer once", "report", old, old, "--data", tmp_path / "dev.tsv")


@pytest.fixture
def recipe(counts, tmp_path):
    fields = {
        "operation": "train_tokenizer",
        "counts": str(counts),
        "output_dir": str(tmp_path / "t"),
        "vocab_size": 305,
        "reserved": 2,
        "language_weight": {"ell_Grek": 3},
        "top_languages": 1,
    }
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(fields))
    return tmp_path / "r.yaml"


def test_a_recipe_is_the_command(succeeds, hf_echo_cli, recipe, counts, tmp_path):
    code, out, err = hf_echo_cli("train", recipe)
    assert code == 0, err
    assert json.loads(out)["tokens"] == 305

    # The command with the recipe's settings writes the same bytes.
    options = (
        "--vocab-size",
        305,
        "--reserved",
        2,
        "--language-weight",
        "ell_Grek=3",
        "--top-languages",
        1,
    )
    succeeds("train", tmp_path / "by-hand", "--counts", counts, *options)
    by_recipe = (tmp_path / "t" / "tokenizer.json").read_bytes()
    assert by_recipe == (tmp_path / "by-hand" / "tokenizer.json").read_bytes()


def test_another_size_is_refused(hf_echo_cli, recipe):
    assert hf_echo_cli("train", recipe)[0] == 0
    code, _, err = hf_echo_cli("train", recipe, "vocab_size=300")
    assert code == 2
    assert "vocab_size was 305, now 300; --fresh replaces it" in err


@pytest.mark.parametrize("name", ["languages_200", "omnilingual"])
def test_package_recipes(hf_echo_cli, old, counts, name, tmp_path):
    """Greek and Korean weigh twice, so counts without Korean are refused by name."""
    fields = [f"counts={counts}", f"output_dir={tmp_path / 't'}"]
    if name == "languages_200":
        fields.append(f"tokenizer={old}")
    code, _, err = hf_echo_cli("train", f"vocabulary/{name}", *fields)
    assert code == 2
    assert "kor_Hang" in err
    assert not (tmp_path / "t").exists()


def test_bad_input(refused, counts, old, tmp_path):
    new = tmp_path / "new"
    refused("no.parquet", "extend", old, new, "--counts", tmp_path / "no.parquet", "--merges", 3)
    refused("give either --merges or --vocab-size", "extend", old, new, "--counts", counts)
