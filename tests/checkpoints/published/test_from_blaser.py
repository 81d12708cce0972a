"""BLASER 2.0: the formula by hand, the file of fairseq2, and where its scores are used."""

import json

import numpy as np
import pytest
import torch
from datasets import load_dataset
from huggingface_hub import ModelCard
from transformers import AutoModel

import hf_echo
from hf_echo import inference
from hf_echo.modeling import BlaserConfig, BlaserModel
from hf_echo.utils.lineage import read_lineage

from ...formulas import unit

COMMAND = "convert blaser"
SIZES = {"ref": 6, "qe": 4}


def published(kind: str, folder):
    """fairseq2's file with two small hidden layers:
    between the linear layers stand dropouts and tanhs."""
    rng = np.random.default_rng(0)
    shapes = {1: (12, SIZES[kind] * 1024), 4: (6, 12), 7: (1, 6)}
    tensors = {}
    for number, (written, read) in shapes.items():
        tensors[f"mlp.{number}.weight"] = torch.tensor(
            rng.normal(size=(written, read)), dtype=torch.float32
        )
        tensors[f"mlp.{number}.bias"] = torch.tensor(rng.normal(size=written), dtype=torch.float32)
    torch.save({"model": tensors}, folder / f"{kind}.pt")
    return folder / f"{kind}.pt", tensors


def by_hand(kind: str, tensors, source, translation, reference):
    """numpy, float64."""
    layers = {name: tensor.double().numpy() for name, tensor in tensors.items()}
    s, t, r = map(unit, (source, translation, reference))
    if kind == "qe":
        parts = [s, t, s * t, abs(t - s)]
    else:
        parts = [r, t, s * t, r * t, abs(t - s), abs(t - r)]
    x = np.concatenate(parts, axis=1)
    x = np.tanh(x @ layers["mlp.1.weight"].T + layers["mlp.1.bias"])
    x = np.tanh(x @ layers["mlp.4.weight"].T + layers["mlp.4.bias"])
    return (x @ layers["mlp.7.weight"].T + layers["mlp.7.bias"])[:, 0]


@pytest.fixture(params=SIZES)
def converted(request, run, tmp_path):
    """(kind, folder, tensors of the published file)"""
    file, tensors = published(request.param, tmp_path)
    code, _, err = run(file, tmp_path / "out")
    assert code == 0, err
    return request.param, tmp_path / "out", tensors


VECTORS = np.random.default_rng(1).normal(size=(3, 5, 1024)) * 7  # source, translation, reference
INPUTS = torch.tensor(VECTORS, dtype=torch.float32)


def test_scores_are_those_of_the_formula(converted):
    kind, folder, tensors = converted
    model = AutoModel.from_pretrained(folder).eval()
    inputs = INPUTS if kind == "ref" else INPUTS[:2]

    with torch.inference_mode():
        scores = model(*inputs).scores.numpy()

    assert type(model) is BlaserModel
    assert model.config.kind == kind
    assert np.abs(scores - by_hand(kind, tensors, *VECTORS)).max() < 1e-4


def test_the_lineage_names_the_file(converted):
    _, folder, _ = converted
    assert read_lineage(folder)["parents"]["source"]["fingerprint"].startswith("sha256:")


def test_the_card_names_what_was_converted(converted):
    kind, folder, _ = converted
    header = ModelCard.load(folder / "README.md").data
    assert header["license"] == "cc-by-nc-4.0"
    assert header["base_model"] == f"facebook/blaser-2.0-{kind}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"extra": torch.ones(1)}, "is not BLASER 2.0"),
        ({"mlp.1.weight": torch.ones(12, 100)}, "reads 100 numbers"),
    ],
)
def test_other_tensors_are_refused(refused, tmp_path, change, message):
    _, tensors = published("qe", tmp_path)
    torch.save(tensors | change, tmp_path / "other.pt")
    refused(message, tmp_path / "other.pt", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def small(tmp_path):
    torch.manual_seed(0)
    for kind in SIZES:
        config = BlaserConfig(kind=kind, embedding_size=32, hidden_sizes=[8, 4])
        BlaserModel(config).eval().save_pretrained(tmp_path / kind)
    return {kind: tmp_path / kind for kind in SIZES}


TRIPLES = [
    ("un rouge chat dort.", "one red cat sleeps.", "one red cat sleeps."),
    ("deux bleu chien court.", "two blue dog eats.", "two blue dog runs."),
    ("quatre vieux oiseau mange.", "nine small fish waits.", "four old bird eats."),
]


def expected_scores(folder, encoder, kind):
    """The model on vectors of `encode`, a row at a time."""
    model, tokenizer = inference.load_encoder(encoder, dtype="fp32")
    blaser = BlaserModel.from_pretrained(folder).eval()
    sources, translations, references = zip(*TRIPLES, strict=True)
    vectors = [
        torch.tensor(inference.encode(model, tokenizer, sources, "fra_Latn")),
        torch.tensor(inference.encode(model, tokenizer, translations, "eng_Latn")),
    ]
    if kind == "ref":
        vectors.append(torch.tensor(inference.encode(model, tokenizer, references, "eng_Latn")))
    with torch.inference_mode():
        return blaser(*vectors).scores.numpy()


@pytest.fixture
def fixed_translations(monkeypatch):
    monkeypatch.setattr(
        inference, "translate", lambda *arguments, **options: [row[1] for row in TRIPLES]
    )


@pytest.mark.parametrize("kind", SIZES)
def test_evaluate_translation_gives_the_mean_score_of_two_files(
    kind, small, toy_folders, hf_echo_cli, tmp_path, fixed_translations
):
    sources, _, references = zip(*TRIPLES, strict=True)
    (tmp_path / "a.txt").write_text("\n".join(sources) + "\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("\n".join(references) + "\n", encoding="utf-8")
    release = toy_folders["release"]
    sides = [
        "--source",
        tmp_path / "a.txt",
        "--source-lang",
        "fra_Latn",
        "--target",
        tmp_path / "b.txt",
    ]
    options = ["--blaser", small[kind], "--blaser-encoder", release]
    code, out, err = hf_echo_cli("evaluate", "translation", "--model", release, *sides, *options)
    assert code == 0, err
    # The formula in NumPy, on the translations that the fixture fixes.
    assert (
        abs(json.loads(out)["blaser"] - expected_scores(small[kind], release, kind).mean()) < 1e-5
    )


@pytest.mark.parametrize("kind", SIZES)
def test_evaluate_translation_gives_the_mean_score_of_a_table(
    kind, small, toy_folders, hf_echo_cli, tmp_path, fixed_translations
):
    """The encoder is --model's by default."""
    lines = []
    for number, (source, _, reference) in enumerate(TRIPLES):
        lines.append(json.dumps({"id": number, "lang": "fra_Latn", "text": source}))
        lines.append(json.dumps({"id": number, "lang": "eng_Latn", "text": reference}))
    table = tmp_path / "nway.jsonl"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    release = toy_folders["release"]
    options = ["--data", table, "--blaser", small[kind]]
    code, out, err = hf_echo_cli("evaluate", "translation", "--model", release, *options)
    assert code == 0, err
    mean = expected_scores(small[kind], release, kind).mean()
    assert abs(json.loads(out)["average"]["blaser"] - mean) < 1e-5


@pytest.fixture
def pairs(tmp_path):
    lines = ["source\tsource_lang\ttarget\ttarget_lang"]
    for source, translation, _ in TRIPLES:
        lines.append(f"{source}\tfra_Latn\t{translation}\teng_Latn")
    (tmp_path / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "pairs.tsv"


def test_the_data_filter_keeps_rows_by_their_score(
    pairs, small, toy_folders, hf_echo_cli, tmp_path
):
    scores = expected_scores(small["qe"], toy_folders["release"], "qe")
    floor = float(np.sort(scores)[:2].mean())  # between the worst and the second
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"sources: [{pairs}]\nsteps:\n"
        f"  - score: {toy_folders['release']}\n    dtype: fp32\n    blaser: {small['qe']}\n"
        f"  - filter: threshold\n    floor: {floor}\n    unscored: drop\n",
        encoding="utf-8",
    )

    code, _, err = hf_echo_cli("data", "filter", recipe, "--out", tmp_path / "kept")

    assert code == 0, err
    rows = load_dataset(
        "parquet", data_dir=str(tmp_path / "kept" / "data"), split="train", cache_dir=str(tmp_path)
    )
    qualities = {row["source"]: row["quality"] for row in rows}
    expected = {}
    for (source, _, _), score in zip(TRIPLES, scores, strict=True):
        if score >= floor:
            expected[source] = pytest.approx(score, abs=1e-5)
    assert qualities == expected
    assert len(qualities) == 2


def test_calibration_scores_with_it(pairs, small, toy_folders, hf_echo_cli, tmp_path):
    options = (
        "--model",
        toy_folders["release"],
        "--blaser",
        small["qe"],
        "--out",
        tmp_path / "dev.json",
    )
    code, _, err = hf_echo_cli("data", "calibrate", pairs, *options)
    assert code == 2
    assert "20 scored rows" in err  # it has scored them: three are too few


PAIR = (["a"], ["b"], ["fra_Latn"], ["eng_Latn"])


def refuses(message: str, release, blaser, *texts) -> None:
    with pytest.raises(ValueError, match=message):
        inference.EchoScorer(str(release), blaser=str(blaser))(*texts)


def test_a_scorer_has_no_reference(small, toy_folders):
    refuses("compares with a reference", toy_folders["release"], small["ref"], *PAIR)


def test_a_scorer_of_another_size_is_refused(toy_folders, tmp_path):
    BlaserModel(BlaserConfig(kind="qe", embedding_size=16, hidden_sizes=[4])).save_pretrained(
        tmp_path / "other"
    )
    refuses("reads embeddings of 16 dimensions", toy_folders["release"], tmp_path / "other", *PAIR)


def test_texts_that_do_not_pair_are_refused(small, toy_folders):
    texts = (["a", "b"], ["b"], ["fra_Latn"] * 2, ["eng_Latn"] * 2)
    refuses("1 texts but 2 languages", toy_folders["release"], small["qe"], *texts)


def test_a_scorer_of_another_kind_is_refused(toy_folders):
    refuses("not a BLASER model", toy_folders["release"], hf_echo.pretrained("echo-nano"), *PAIR)


def test_an_encoder_of_blaser_needs_blaser(toy_folders, hf_echo_cli, tmp_path):
    (tmp_path / "a.txt").write_text("a\n")
    (tmp_path / "b.txt").write_text("a\n")
    sides = ("--source", tmp_path / "a.txt", "--target", tmp_path / "b.txt")
    options = ("--model", toy_folders["release"], "--blaser-encoder", toy_folders["release"])
    code, _, err = hf_echo_cli("evaluate", "translation", *sides, *options)
    assert code == 2
    assert "--blaser-encoder needs --blaser" in err
