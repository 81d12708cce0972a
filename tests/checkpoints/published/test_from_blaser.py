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

COMMAND = "convert blaser"
SIZES = {"ref": 6, "qe": 4}


def published(kind: str, folder):
    """fairseq2's file with two small hidden layers: between the linear layers stand dropouts and tanhs."""
    rng, sizes = np.random.default_rng(0), [SIZES[kind] * 1024, 12, 6, 1]
    tensors = {}
    for number, (read, written) in zip((1, 4, 7), zip(sizes, sizes[1:])):
        tensors[f"mlp.{number}.weight"] = torch.tensor(rng.normal(size=(written, read)), dtype=torch.float32)
        tensors[f"mlp.{number}.bias"] = torch.tensor(rng.normal(size=written), dtype=torch.float32)
    torch.save({"model": tensors}, folder / f"{kind}.pt")
    return folder / f"{kind}.pt", {name: tensor.double().numpy() for name, tensor in tensors.items()}


def by_hand(kind: str, tensors, s, t, r):
    """numpy, float64."""
    s, t, r = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (s, t, r))
    parts = [s, t, s * t, abs(t - s)] if kind == "qe" else [r, t, s * t, r * t, abs(t - s), abs(t - r)]
    x = np.concatenate(parts, axis=1)
    for number in (1, 4):
        x = np.tanh(x @ tensors[f"mlp.{number}.weight"].T + tensors[f"mlp.{number}.bias"])
    return (x @ tensors["mlp.7.weight"].T + tensors["mlp.7.bias"])[:, 0]


@pytest.mark.parametrize("kind", SIZES)
def test_scores_are_those_of_the_formula(kind, run, tmp_path):
    file, tensors = published(kind, tmp_path)
    code, _, err = run(file, tmp_path / "out")
    assert code == 0, err
    model = AutoModel.from_pretrained(tmp_path / "out").eval()
    assert type(model) is BlaserModel and model.config.kind == kind
    vectors = np.random.default_rng(1).normal(size=(3, 5, 1024)) * 7
    inputs = [torch.tensor(x, dtype=torch.float32) for x in vectors[: 2 + (kind == "ref")]]
    with torch.inference_mode():
        found = model(*inputs).scores.numpy()
    assert np.abs(found - by_hand(kind, tensors, *vectors)).max() < 1e-4
    assert read_lineage(tmp_path / "out")["parents"]["source"]["fingerprint"].startswith("sha256:")
    data = ModelCard.load(tmp_path / "out" / "README.md").data
    assert data["license"] == "cc-by-nc-4.0" and data["base_model"] == f"facebook/blaser-2.0-{kind}"

    with pytest.raises(ValueError, match="takes no reference|needs reference"):
        model(*(inputs[:2] if kind == "ref" else [*inputs, inputs[0]]))


def test_unfit_files_are_refused(refused, tmp_path):
    out = tmp_path / "out"
    refused("no file", tmp_path / "none.pt", out)
    _, tensors = published("qe", tmp_path)
    tensors = {name: torch.tensor(tensor) for name, tensor in tensors.items()}
    torch.save(tensors | {"extra": torch.ones(1)}, tmp_path / "a.pt")
    refused("is not BLASER 2.0", tmp_path / "a.pt", out)
    torch.save(tensors | {"mlp.1.weight": torch.ones(12, 100)}, tmp_path / "b.pt")
    refused("reads 100 numbers", tmp_path / "b.pt", out)
    torch.save([1], tmp_path / "c.pt")
    refused("not a dictionary", tmp_path / "c.pt", out)
    assert not out.exists()


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
    sides = zip(zip(*TRIPLES), ("fra_Latn", "eng_Latn", "eng_Latn"))
    s, t, r = (torch.tensor(inference.encode(model, tokenizer, *side)) for side in sides)
    with torch.inference_mode():
        return blaser(s, t, *([r] if kind == "ref" else [])).scores.numpy()


@pytest.mark.parametrize("kind", SIZES)
def test_evaluate_translation_gives_the_mean_score(kind, small, toy_folders, hf_echo_cli, tmp_path, monkeypatch):
    monkeypatch.setattr(inference, "translate", lambda *a, **k: [row[1] for row in TRIPLES])
    for name, column in (("a", 0), ("b", 2)):
        (tmp_path / f"{name}.txt").write_text("".join(row[column] + "\n" for row in TRIPLES), encoding="utf-8")
    release = toy_folders["release"]
    sides = ["--source", tmp_path / "a.txt", "--source-lang", "fra_Latn", "--target", tmp_path / "b.txt"]
    options = ["--blaser", small[kind], "--blaser-encoder", release]
    code, out, err = hf_echo_cli("evaluate", "translation", "--model", release, *sides, *options)
    assert code == 0, err
    wanted = expected_scores(small[kind], release, kind).mean()
    assert abs(json.loads(out)["blaser"] - wanted) < 1e-5
    # A table of directions; the encoder is --model's by default.
    sides = [("fra_Latn", 0), ("eng_Latn", 2)]
    rows = [{"id": i, "lang": lang, "text": row[n]} for i, row in enumerate(TRIPLES) for lang, n in sides]
    (nway := tmp_path / "nway.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    code, out, err = hf_echo_cli("evaluate", "translation", "--model", release, "--data", nway, "--blaser", small[kind])
    assert code == 0, err
    assert abs(json.loads(out)["average"]["blaser"] - wanted) < 1e-5


def test_the_data_filter_scores_with_it(small, toy_folders, hf_echo_cli, tmp_path):
    lines = ["source\tsource_lang\ttarget\ttarget_lang"]
    lines += [f"{source}\tfra_Latn\t{target}\teng_Latn" for source, target, _ in TRIPLES]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    wanted = expected_scores(small["qe"], toy_folders["release"], "qe")
    floor = float(np.sort(wanted)[:2].mean())  # between the worst and the second
    recipe = (
        f"sources: [{tmp_path / 'pairs.tsv'}]\nsteps:\n"
        f"  - score: {toy_folders['release']}\n    dtype: fp32\n    blaser: {small['qe']}\n"
        f"  - filter: threshold\n    floor: {floor}\n    unscored: drop\n"
    )
    (tmp_path / "recipe.yaml").write_text(recipe, encoding="utf-8")
    code, _, err = hf_echo_cli("data", "filter", tmp_path / "recipe.yaml", "--out", tmp_path / "kept")
    assert code == 0, err
    rows = load_dataset("parquet", data_dir=str(tmp_path / "kept" / "data"), split="train", cache_dir=str(tmp_path))
    kept = {row["source"]: row["quality"] for row in rows}
    assert set(kept) == {row[0] for row, score in zip(TRIPLES, wanted) if score >= floor} and len(kept) == 2
    for row, score in zip(TRIPLES, wanted):
        assert abs(kept.get(row[0], score) - score) < 1e-5
    options = ("--model", toy_folders["release"], "--blaser", small["qe"], "--out", tmp_path / "dev.json")
    code, _, err = hf_echo_cli("data", "calibrate", tmp_path / "pairs.tsv", *options)
    assert code == 2 and "20 scored rows" in err  # it has scored them: three are too few


def test_unfit_models_are_refused(small, toy_folders, hf_echo_cli, tmp_path):
    release = str(toy_folders["release"])
    BlaserModel(BlaserConfig(kind="qe", embedding_size=16, hidden_sizes=[4])).save_pretrained(tmp_path / "other")
    pair, two = (["a"], ["b"], ["fra_Latn"], ["eng_Latn"]), (["a", "b"], ["b"], ["fra_Latn"] * 2, ["eng_Latn"] * 2)
    for blaser, texts, message in (
        (small["ref"], pair, "compares with a reference"),
        (tmp_path / "other", pair, "reads embeddings of 16 dimensions"),
        (small["qe"], two, "1 texts but 2 languages"),
        (hf_echo.pretrained("echo-nano"), pair, "not a BLASER model"),
    ):
        with pytest.raises(ValueError, match=message):
            inference.EchoScorer(release, blaser=str(blaser))(*texts)
    pytest.raises(ValueError, BlaserConfig, kind="other").match("'other'.*ref, qe|ref, qe.*'other'")
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("a\n")
    command = ("evaluate", "translation", "--source", tmp_path / "a.txt", "--target", tmp_path / "b.txt")
    code, _, err = hf_echo_cli(*command, "--model", release, "--blaser-encoder", release)
    assert code == 2 and "--blaser-encoder needs --blaser" in err
