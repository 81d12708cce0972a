"""Static embeddings: they learn, and are a checkpoint of their own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

from hf_echo.inference import encode
from hf_echo.stages import StaticTrainer, static_encoder

pytestmark = pytest.mark.trains


STATIC = dict(hidden_size=16, embedding_size=16, head_dim=8, pooling="mean", final_norm=False, num_hidden_layers=2)


TEXTS = ["un chat rouge dort.", "", "one two <SEP> nine", "Кот!  спит", "zebra 12 ∑ éèê 猫", "a" * 40]


LANGUAGES = ["fra_Latn", "eng_Latn", None, "rus_Cyrl", "jpn_Jpan", None]


def test_it_learns(make_trainer):
    trainer = make_trainer()
    before = trainer.evaluate()["eval_xsim"]
    trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    assert losses[-1] < 0.3 * losses[0]
    assert trainer.evaluate()["eval_xsim"] < before / 4
    assert trainer.model.log_weight.std() > 0  # some words tell more than others


def test_best_checkpoint(make_trainer, tmp_path, monkeypatch):
    import hf_echo.stages.core.base as core

    errors = iter([40.0, 10.0, 30.0])
    monkeypatch.setattr(core, "evaluate_sets", lambda *a, **k: {"eval_xsim": next(errors)})
    steps = {"eval_strategy": "steps", "eval_steps": 2, "save_strategy": "steps", "save_steps": 2}
    trainer = make_trainer(max_steps=6, load_best_model_at_end=True, **steps)
    trainer.train()
    assert trainer.state.best_metric == 10.0
    best = load_file(tmp_path / "static" / "checkpoint-4" / "model.safetensors")
    assert all(torch.equal(weight, best[name]) for name, weight in trainer.model.state_dict().items())


def test_loss_by_hand(make_trainer, toy_data):
    """Both directions of the softmax at scale 30; equal targets are not negatives of each other."""
    trainer = make_trainer(language_drop=0.0)
    trainer.model.log_weight.data.normal_()
    rows = [toy_data[i] for i in (0, 1, 8, 15, 40)]
    batch = trainer.data_collator(rows)
    table = (trainer.model.embedding.weight * trainer.model.log_weight.exp()[:, None]).detach().double().numpy()

    def embed(side):
        collator = trainer.data_collator
        vectors = [table[collator.encoder_ids(row[side], row[f"{side}_lang"])].sum(0) for row in rows]
        return np.array(vectors) / np.linalg.norm(vectors, axis=1, keepdims=True)

    logits = 30.0 * embed("source") @ embed("target").T
    logits[[0, 1], [1, 0]] = -np.inf
    losses = []
    for direction in (logits, logits.T):
        losses.append(np.mean(np.log(np.exp(direction).sum(1)) - np.diag(direction)))
    assert trainer.compute_loss(trainer.model, batch).item() == pytest.approx(np.mean(losses), rel=1e-5)


def test_language_drop(make_trainer, toy_data):
    trainer = make_trainer(language_drop=1.0)
    batch = trainer.data_collator([toy_data[0]])
    want = trainer.data_collator.encoder_ids(toy_data[0]["source"], None)
    assert batch["ids"][: len(want)].tolist() == want.tolist()


def test_encoder_equals_the_static_embeddings(static, toy_tokenizer):
    encoder = static_encoder(static, toy_tokenizer, ["fra_Latn"])
    vectors = encode(encoder, toy_tokenizer, TEXTS, LANGUAGES)
    for text, lang, vector in zip(TEXTS, LANGUAGES, vectors, strict=True):
        ids = torch.tensor(toy_tokenizer(text, lang=lang)["input_ids"])
        want = static(ids, torch.tensor([0]))[0] / len(ids)
        torch.testing.assert_close(torch.from_numpy(vector), want.detach(), atol=1e-6, rtol=1e-5)


def test_static_opens_as_other_checkpoints_do(static, toy_tokenizer, tmp_path):
    encoder = static_encoder(static, toy_tokenizer, ["fra_Latn", "rus_Cyrl"])
    encoder.save_pretrained(tmp_path)
    toy_tokenizer.save_pretrained(tmp_path)
    want = encode(encoder, toy_tokenizer, TEXTS[:4], ["fra_Latn"] * 4)
    again, tokenizer = AutoModel.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    np.testing.assert_array_equal(encode(again, tokenizer, TEXTS[:4], ["fra_Latn"] * 4), want)
    model = SentenceTransformer(str(tmp_path), device="cpu")
    np.testing.assert_allclose(model.encode(TEXTS[:4], prompt_name="fra_Latn"), want, atol=1e-6)
    assert model.get_embedding_dimension() == 16


def test_teacher_loss_by_hand(make_trainer, toy_data, teacher):
    trainer = make_trainer(mse_weight=0.25, logit_scale=7.0, language_drop=0.0)
    trainer.teacher = teacher
    batch = trainer.data_collator([toy_data[i] for i in range(8)])
    loss = trainer.compute_loss(trainer.model, batch).item()

    with torch.no_grad():
        sides = np.split(trainer.model(batch["ids"], batch["offsets"]).double().numpy(), 2)
    goal, keys = teacher[0][batch["index"].numpy()].astype(float), batch["target_key"].numpy()
    unit = goal / np.linalg.norm(goal, axis=1, keepdims=True)
    total = 0.0
    for side in sides:
        scores = 7 * (side / np.linalg.norm(side, axis=1, keepdims=True)) @ unit.T
        for i in range(8):
            others = [j for j in range(8) if j == i or keys[j] != keys[i]]
            forward = np.log(np.exp(scores[i, others]).sum()) - scores[i, i]
            back = np.log(np.exp(scores[others, i]).sum()) - scores[i, i]
            total += forward + 0.5 * back + 0.25 * ((side[i] - goal[i]) ** 2).sum()
    assert loss == pytest.approx(total / 16, rel=1e-4)


def test_it_learns_the_teachers_space(make_trainer, toy, toy_data, toy_tokenizer, teacher, tmp_path):
    own = make_trainer()
    own.train()
    static = static_encoder(own.model, toy_tokenizer)
    targets = [toy_tokenizer.decode(toy_data[i]["target"]) for i in range(len(toy_data))]
    from hf_echo.inference.embedding_store import StoredRows

    matrix = encode(static, toy_tokenizer, targets, "eng_Latn").astype(np.float16)
    args = make_trainer(learning_rate=5e-2, max_steps=120).args
    student = StaticTrainer(
        args,
        train_dataset=toy_data,
        tokenizer=toy_tokenizer,
        teacher=(StoredRows(matrix, np.arange(len(targets))),),
    )
    sources = [toy_tokenizer.decode(toy_data[i]["source"]) for i in range(len(toy_data))]

    def cosine():
        found = encode(static_encoder(student.model, toy_tokenizer), toy_tokenizer, sources)
        return float(F.cosine_similarity(torch.tensor(found), torch.tensor(matrix).float()).mean())

    before = cosine()
    student.train()
    assert before < 0.3 and cosine() > 0.8


def test_teacher_of_another_size(make_trainer, teacher, toy_data, toy_tokenizer):
    args = make_trainer(dim=8).args
    with pytest.raises(ValueError, match="dim is 8, the teacher's 16: one space needs one size"):
        StaticTrainer(args, train_dataset=toy_data, tokenizer=toy_tokenizer, teacher=teacher)


def test_continued_static_embeddings_cannot_take_a_teachers_length(
    make_trainer, teacher, static, toy_data, toy_tokenizer
):
    args = make_trainer(mse_weight=0.5).args
    options = dict(
        train_dataset=toy_data, tokenizer=toy_tokenizer, teacher=teacher, start=static_encoder(static, toy_tokenizer)
    )
    with pytest.raises(ValueError, match="mse_weight=0.5 compares lengths.* set mse_weight=0"):
        StaticTrainer(args, **options)
    args.mse_weight = 0
    StaticTrainer(args, **options)


def test_it_continues_from_static_embeddings(make_trainer, static, toy_data, toy_tokenizer):
    start = static_encoder(static, toy_tokenizer)
    trainer = StaticTrainer(make_trainer().args, train_dataset=toy_data, tokenizer=toy_tokenizer, start=start)
    np.testing.assert_allclose(
        encode(static_encoder(trainer.model, toy_tokenizer), toy_tokenizer, TEXTS, None, on_long="split"),
        encode(start, toy_tokenizer, TEXTS, None, on_long="split"),
        atol=1e-6,
    )
    with pytest.raises(ValueError, match=r"\(400, 16\) \(vocabulary, size\), the new ones \(400, 8\)"):
        StaticTrainer(make_trainer(dim=8).args, train_dataset=toy_data, tokenizer=toy_tokenizer, start=start)
