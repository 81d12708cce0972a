"""Static embeddings solved in closed form: against numpy's solver, its limits, and a word that had no training pair."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from datasets import Dataset
from transformers import AutoModel, AutoTokenizer

from hf_echo.checkpoints import ridge_refit as refit
from hf_echo.checkpoints.ridge_refit import NormalEquations, ridge_refit_encoder, softmax_change
from hf_echo.data.tokenized import tokenize_parallel
from hf_echo.evaluation import xsim
from hf_echo.inference import encode, load_encoder
from hf_echo.modeling import EchoConfig, EchoEncoder, EchoForTranslation
from hf_echo.stages import static_encoder
from hf_echo.stages.operations.ridge_refit import pair_batches, ridge_refit_on_pairs
from hf_echo.stages.static_embeddings import StaticCollator, StaticEmbeddings

pytestmark = pytest.mark.trains

COMMAND = "convert ridge-refit"
VOCAB, DIM = 30, 4


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def toy_static(layers: int = 0) -> EchoEncoder:
    torch.manual_seed(0)
    return EchoEncoder(
        EchoConfig(
            vocab_size=VOCAB,
            hidden_size=DIM,
            embedding_size=DIM,
            num_hidden_layers=layers,
            num_attention_heads=1,
            num_key_value_heads=1,
            intermediate_size=8,
            pooling="mean",
            final_norm=False,
        )
    ).eval()


def toy_batch(rng, pairs: int) -> dict[str, torch.Tensor]:
    texts = [rng.integers(0, VOCAB, size=rng.integers(1, 6)) for _ in range(2 * pairs)]
    return {
        "ids": torch.from_numpy(np.concatenate(texts)),
        "offsets": torch.tensor(np.cumsum([0, *map(len, texts[:-1])])),
    }


def rows_of(batch) -> list[np.ndarray]:
    return np.split(batch["ids"].numpy(), batch["offsets"].numpy()[1:])


def solved_by_numpy(vectors: np.ndarray, batches, ridge: float) -> np.ndarray:
    """The minimum of the docstring's sum: one row of counts and one residual for each text of each pair."""
    counts, residuals = [], []
    for batch in batches:
        texts = rows_of(batch)
        embeddings = [vectors[ids].sum(0) for ids in texts]
        unit = [e / np.linalg.norm(e) for e in embeddings]
        for i, (ids, e) in enumerate(zip(texts, embeddings)):
            other = unit[(i + len(texts) // 2) % len(texts)]
            counts.append(np.bincount(ids, minlength=VOCAB) / np.linalg.norm(e))
            residuals.append(other - unit[i])
    design = np.concatenate([np.stack(counts), ridge**0.5 * np.eye(VOCAB)])
    wanted = np.concatenate([np.stack(residuals), np.zeros((VOCAB, DIM))])
    return np.linalg.lstsq(design, wanted, rcond=None)[0]


@pytest.mark.parametrize("ridge", [0.1, 1.0, 30.0])
def test_the_change_is_the_ridge_solution(rng, ridge):
    encoder = toy_static()
    vectors = (encoder.embed_tokens.weight @ encoder.projection.weight.T).detach()
    batches = [toy_batch(rng, pairs) for pairs in (40, 25)]
    equations = NormalEquations(vectors)
    for batch in batches:
        unit, lengths = equations.embed(batch)
        equations.add(batch, lengths, unit.roll(len(unit) // 2, 0) - unit)
    expected = solved_by_numpy(vectors.double().numpy(), batches, ridge)
    np.testing.assert_allclose(equations.solve(ridge, iterations=60), expected, atol=1e-4)
    assert np.abs(expected).max() > 0.01
    refitted = ridge_refit_encoder(encoder, batches, ridge=ridge, step=1.0).embed_tokens.weight - vectors
    np.testing.assert_allclose(refitted.detach(), equations.solve(ridge), atol=1e-5)


def test_the_softmax_change_is_the_gradient_of_the_contrastive_loss(rng):
    source, target = (
        torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(7, DIM))), dim=1).requires_grad_()
        for _ in range(2)
    )
    keys = torch.tensor([1, 2, 3, 2, 4, 5, 1])
    found = softmax_change(source.detach(), target.detach(), keys, torch.zeros(7))
    logits = refit.LOGIT_SCALE * source @ target.T
    same = (keys[:, None] == keys) & ~torch.eye(7, dtype=torch.bool)
    logits = logits.masked_fill(same, -1e9)
    for i, (text, dim) in enumerate(((source, 1), (target, 0))):  # each side as the anchor of its own softmax
        loss = -logits.log_softmax(dim).diagonal().sum()
        (gradient,) = torch.autograd.grad(loss, text, retain_graph=True)
        torch.testing.assert_close(found[i], -gradient / refit.LOGIT_SCALE)


def test_languages_and_blocks_are_told_apart_alone(rng, monkeypatch):
    source, target = (
        torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(6, DIM))), dim=1) for _ in range(2)
    )
    keys, groups = torch.arange(6), torch.tensor([0, 1, 0, 1, 1, 0])
    found = softmax_change(source, target, keys, groups)
    for group in (0, 1):
        rows = groups == group
        alone = softmax_change(source[rows], target[rows], keys[rows], torch.zeros(3))
        for a, b in zip(found, alone):
            torch.testing.assert_close(a[rows], b)
    monkeypatch.setattr(refit, "SOFTMAX_ROWS", 1)
    for change in softmax_change(source, target, keys, groups):
        torch.testing.assert_close(change, torch.zeros_like(change))


def test_the_softmax_weight_changes_what_is_wanted(rng):
    batch = toy_batch(rng, 40) | {"target_key": torch.arange(40), "group": torch.zeros(40)}
    encoder = toy_static()
    vectors = (encoder.embed_tokens.weight @ encoder.projection.weight.T).detach()
    equations = NormalEquations(vectors)
    unit, lengths = equations.embed(batch)
    source, target = unit.chunk(2)
    more = torch.cat(softmax_change(source, target, batch["target_key"], batch["group"]))
    equations.add(batch, lengths, unit.roll(40, 0) - unit + 3 * more)
    refitted = ridge_refit_encoder(encoder, [batch], step=1.0, softmax_weight=3.0).embed_tokens.weight - vectors
    torch.testing.assert_close(refitted.detach(), equations.solve(1.0), atol=1e-5, rtol=1e-4)


def test_a_step_is_a_share_of_the_change_and_none_changes_no_embedding(rng):
    batch, moved = toy_batch(rng, 50), {}
    for step in (0.0, 0.5, 1.0):
        encoder = ridge_refit_encoder(toy_static(), [batch], step=step)
        with torch.no_grad():
            moved[step] = encoder.projection(encoder.embed_tokens.weight)
    before = toy_static()
    with torch.no_grad():
        torch.testing.assert_close(moved[0.0], before.projection(before.embed_tokens.weight))
    torch.testing.assert_close(moved[0.5], (moved[0.0] + moved[1.0]) / 2)
    assert not torch.allclose(moved[0.5], moved[0.0], atol=1e-3)


def test_a_token_that_no_pair_has_stays(rng):
    batch = toy_batch(rng, 50)
    batch["ids"] = batch["ids"].clamp(max=VOCAB - 2)
    encoder, before = ridge_refit_encoder(toy_static(), [batch], step=1.0), toy_static()
    with torch.no_grad():
        last = before.projection(before.embed_tokens.weight)[-1]
        torch.testing.assert_close(encoder.projection(encoder.embed_tokens.weight)[-1], last)


@pytest.mark.parametrize(
    "layers, options, said",
    [
        (0, {"ridge": 0}, "ridge must be above 0, not 0"),
        (0, {"step": 1.5}, "step is between 0 .* and 1 .*, not 1.5"),
        (0, {"softmax_weight": -2}, "softmax_weight must be 0 or more, not -2"),
        (1, {}, "this encoder has 1 layers"),
    ],
)
def test_wrong_settings(rng, layers, options, said):
    with pytest.raises(ValueError, match=said):
        ridge_refit_encoder(toy_static(layers), [toy_batch(rng, 4)], **options)


def test_no_pairs_and_too_many_tokens(monkeypatch):
    with pytest.raises(ValueError, match="no pairs"):
        ridge_refit_encoder(toy_static(), [])
    monkeypatch.setattr("hf_echo.checkpoints.ridge_refit.MOST_TOKENS", 20)
    with pytest.raises(ValueError, match="the model has 30 tokens.* at most 20"):
        ridge_refit_encoder(toy_static(), [])


@pytest.fixture(scope="module")
def words():
    """Pairs of four words in two invented languages, and a tokenizer that knows every word."""
    from hf_echo.vocabulary import train_tokenizer

    rng = np.random.default_rng(1)
    makes = ["".join(rng.choice(list(letters), size=6)) for letters in ("abcdefg", "nopqrst") for _ in range(60)]
    pairs = []
    for _ in range(800):
        chosen = rng.permutation(60)[:4]
        pairs.append([" ".join(makes[i] for i in rng.permutation(c)) for c in (chosen, chosen + 60)])
    tokenizer = train_tokenizer((t for pair in pairs for t in pair), 900, max_length=64, progress=False)
    return pairs, tokenizer


@pytest.fixture
def folder(words, tmp_path):
    """Untrained static embeddings, and pairs as a file."""
    pairs, tokenizer = words
    torch.manual_seed(0)
    static_encoder(StaticEmbeddings(len(tokenizer), 32), tokenizer, ["eng_Latn", "fra_Latn"]).save_pretrained(
        tmp_path / "static"
    )
    tokenizer.save_pretrained(tmp_path / "static")
    table = {
        "source": [p[0] for p in pairs],
        "source_lang": ["fra_Latn"] * len(pairs),
        "target": [p[1] for p in pairs],
        "target_lang": ["eng_Latn"] * len(pairs),
    }
    pq.write_table(pa.table(table), tmp_path / "pairs.parquet")
    return tmp_path


def error(folder, pairs) -> float:
    model, tokenizer = load_encoder(folder, dtype="fp32")
    source, target = (
        encode(model, tokenizer, [p[i] for p in pairs], lang) for i, lang in enumerate(("fra_Latn", "eng_Latn"))
    )
    return xsim(source, target).error_rate


def test_words_are_learnt_from_sentences(folder, words):
    pairs = words[0]
    out = ridge_refit_on_pairs(
        folder / "static", str(folder / "pairs.parquet"), folder / "out", step=0.5, language_drop=0
    )
    before, after = error(folder / "static", pairs[:100]), error(out, pairs[:100])
    assert before > 90 and after < 10
    made = json.loads((out / "recipe.json").read_text())
    assert made["stage"] == "ridge_refit" and made["values"]["step"] == 0.5 and made["values"]["ridge"] == 1.0
    results = made["results"]
    assert results["pairs"] == len(pairs) and results["seconds"] >= 0
    assert len(AutoTokenizer.from_pretrained(out)) == len(AutoTokenizer.from_pretrained(folder / "static"))
    assert AutoModel.from_pretrained(out).config.num_hidden_layers == 0


def tokenized(pairs, tokenizer, **columns):
    rows = {"source": [p[0] for p in pairs], "target": [p[1] for p in pairs]} | columns
    rows |= {"source_lang": ["fra_Latn"] * len(pairs), "target_lang": ["eng_Latn"] * len(pairs)}
    rows["provenance"] = ["primary"] * len(pairs)
    return rows, tokenize_parallel(Dataset.from_dict(rows), tokenizer, progress=False)


def test_batches_hold_every_pair_once(words):
    pairs, tokenizer = words
    rows, dataset = tokenized(pairs[:10], tokenizer)
    batches = list(pair_batches(dataset, StaticCollator(tokenizer, language_drop=0), rows=4))
    assert [len(b["offsets"]) for b in batches] == [8, 8, 4]
    assert [i for b in batches for i in b["index"].tolist()] == list(range(10))
    for batch in batches:
        texts = rows_of(batch)
        for place, i in enumerate(batch["index"].tolist()):
            expected = tokenizer(rows["source"][i], lang="fra_Latn")["input_ids"]
            assert texts[place].tolist() == expected


def test_a_release_loses_its_decoder(folder, words, toy, caplog):
    """Its encoder is refitted as without the decoder."""
    pairs, tokenizer = words
    static = AutoModel.from_pretrained(folder / "static")
    flat = dict(num_hidden_layers=0, pooling="mean", final_norm=False)
    model = EchoForTranslation.from_parts(static, toy.make_model(tokenizer, **flat).decoder)
    model.save_release(folder / "release")
    tokenizer.save_pretrained(folder / "release")
    options = dict(step=0.5, language_drop=0)
    for name in ("static", "release"):
        ridge_refit_on_pairs(folder / name, str(folder / "pairs.parquet"), folder / f"{name}_out", **options)
    want, found = (AutoModel.from_pretrained(folder / f"{name}_out") for name in ("static", "release"))
    assert torch.equal(found.embed_tokens.weight, want.embed_tokens.weight)
    assert not (folder / "release_out" / "decoder").exists()
    assert "release is left out: it does not read the space that ridge_refit makes" in caplog.text


def test_command(folder, run, refused):
    static, data = folder / "static", folder / "pairs.parquet"
    code, _, said = run(static, data, folder / "out", "--step", "0.3")
    assert code == 0 and "refitted" in said and (folder / "out" / "config.json").exists()
    refused("step is between 0", static, data, folder / "b", "--step", "2")
