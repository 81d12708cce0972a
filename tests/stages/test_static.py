"""Stage 0: the bag of sub-words learns, is a checkpoint of its own, and is what an encoder starts as."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

from hf_echo.inference import encode
from hf_echo.stages import DevSet, StaticConfig, StaticTrainer, start_from_static, static_encoder
from hf_echo.stages.static_embeddings import StaticCollator

pytestmark = pytest.mark.trains

BAG = dict(hidden_size=16, embedding_size=16, head_dim=8, pooling="mean", final_norm=False, num_hidden_layers=2)
TEXTS = ["un chat rouge dort.", "", "one two <SEP> nine", "Кот!  спит", "zebra 12 ∑ éèê 猫", "a" * 40]
LANGUAGES = ["fra_Latn", "eng_Latn", None, "rus_Cyrl", "jpn_Jpan", None]


@pytest.fixture
def make_trainer(toy, toy_data, toy_tokenizer, tmp_path):
    def make(**fields):
        defaults = dict(
            output_dir=str(tmp_path / "bag"),
            rows=64,
            dim=16,
            max_steps=60,
            learning_rate=2e-2,
            logging_steps=5,
            save_strategy="no",
            use_cpu=True,
            report_to="none",
            disable_tqdm=True,
        )
        torch.manual_seed(0)
        dev = {"toy": DevSet(toy.nway_rows())}
        args = StaticConfig(**defaults | fields)
        return StaticTrainer(args, train_dataset=toy_data, tokenizer=toy_tokenizer, dev_sets=dev)

    return make


@pytest.fixture(scope="module")
def bag(toy_tokenizer):
    """An untrained bag with weights other than one."""
    from hf_echo.stages.static_embeddings import StaticEmbeddings

    torch.manual_seed(4)
    bag = StaticEmbeddings(len(toy_tokenizer), 16)
    bag.log_weight.data.normal_()
    return bag


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
    best = load_file(tmp_path / "bag" / "checkpoint-4" / "model.safetensors")
    assert all(torch.equal(weight, best[name]) for name, weight in trainer.model.state_dict().items())


def test_loss_by_hand(make_trainer, toy_data):
    """Both directions of the softmax at scale 30; equal targets are no negatives of each other."""
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


def test_bag_encoder_is_the_bag(bag, toy_tokenizer):
    encoder = static_encoder(bag, toy_tokenizer, ["fra_Latn"])
    vectors = encode(encoder, toy_tokenizer, TEXTS, LANGUAGES)
    for text, lang, vector in zip(TEXTS, LANGUAGES, vectors, strict=True):
        ids = torch.tensor(toy_tokenizer(text, lang=lang)["input_ids"])
        want = bag(ids, torch.tensor([0]))[0] / len(ids)
        torch.testing.assert_close(torch.from_numpy(vector), want.detach(), atol=1e-6, rtol=1e-5)


def test_bag_opens_as_other_checkpoints_do(bag, toy_tokenizer, tmp_path):
    encoder = static_encoder(bag, toy_tokenizer, ["fra_Latn", "rus_Cyrl"])
    encoder.save_pretrained(tmp_path)
    toy_tokenizer.save_pretrained(tmp_path)
    want = encode(encoder, toy_tokenizer, TEXTS[:4], ["fra_Latn"] * 4)
    again, tokenizer = AutoModel.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    np.testing.assert_array_equal(encode(again, tokenizer, TEXTS[:4], ["fra_Latn"] * 4), want)
    model = SentenceTransformer(str(tmp_path), device="cpu")
    np.testing.assert_allclose(model.encode(TEXTS[:4], prompt_name="fra_Latn"), want, atol=1e-6)
    assert model.get_embedding_dimension() == 16


def test_start_from_bag(bag, toy, toy_tokenizer):
    """Before a step is trained the encoder is the bag, for any text; each layer can learn."""
    model = toy.make_model(toy_tokenizer, **BAG)
    teacher = static_encoder(bag, toy_tokenizer)
    assert start_from_static(model, teacher) is model
    rng = np.random.default_rng(0)
    texts = TEXTS + ["".join(map(chr, rng.integers(32, 0x2000, size=rng.integers(1, 40)))) for _ in range(50)]
    have, want = (encode(m, toy_tokenizer, texts, None, on_long="split") for m in (model, teacher))
    np.testing.assert_allclose(have, want, atol=1e-6)
    cosine = F.cosine_similarity(torch.from_numpy(have), torch.from_numpy(want))
    assert cosine.min() > 1 - 1e-5

    batch = toy_tokenizer(TEXTS[:1], lang="fra_Latn", return_tensors="pt")
    model(**batch).sentence_embedding.square().sum().backward()
    for layer in model.encoder.layers:  # what is zero gets a gradient, so the layer wakes up with the first step
        assert layer.self_attn.o_proj.weight.grad.abs().max() > 0
        assert layer.mlp.down_proj.weight.grad.abs().max() > 0


def test_short_vectors_are_lifted(bag, toy, toy_tokenizer):
    """The same embeddings from vectors of a size that layers can work with."""
    short = static_encoder(bag, toy_tokenizer)
    short.embed_tokens.weight.data *= 0.001
    model = start_from_static(toy.make_model(toy_tokenizer, **BAG), short)
    assert float(model.encoder.embed_tokens.weight.detach().square().mean().sqrt()) == pytest.approx(0.1, rel=1e-4)
    have, want = (encode(m, toy_tokenizer, TEXTS, None, on_long="split") for m in (model, short))
    np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-9)


def test_start_from_bag_gives_the_decoder_its_words(bag, toy, toy_tokenizer):
    """Directions of the bag, size of a fresh decoder: the output is tied, long vectors would be too sure."""
    model = start_from_static(toy.make_model(toy_tokenizer, **BAG), static_encoder(bag, toy_tokenizer))
    words, vectors = model.decoder.model.embed_tokens.weight, bag.weighted()
    assert model.decoder.lm_head.weight is words
    assert F.cosine_similarity(words, vectors).min() > 1 - 1e-5
    torch.testing.assert_close(words.norm(dim=1), torch.full((len(words),), 0.02 * 16**0.5))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 32}, r"static_embeddings are \(400, 16\) \(vocabulary, size\), the encoder \(400, 32\)"),
        ({"pooling": "cls"}, "needs pooling='mean' and final_norm=False"),
        ({"final_norm": True}, "needs pooling='mean' and final_norm=False"),
    ],
)
def test_an_encoder_that_cannot_be_the_bag(bag, toy, toy_tokenizer, changes, message):
    model = toy.make_model(toy_tokenizer, **BAG | changes)
    with pytest.raises(ValueError, match=message):
        start_from_static(model, static_encoder(bag, toy_tokenizer))


@pytest.fixture
def teacher(toy_data):
    """What a frozen encoder says of each target: equal texts have equal vectors."""
    from hf_echo.inference.embedding_store import StoredRows

    keys, index = np.unique(toy_data.labels["target_key"], return_inverse=True)
    matrix = np.random.default_rng(3).normal(size=(len(keys), 16)).astype(np.float16)
    return (StoredRows(matrix, index),)


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


def test_words_of_the_sentence_are_likely_from_the_start(bag, toy, toy_tokenizer):
    """With as many key-value heads as heads the embedding reaches the output: a word's own token leads there."""
    toy_bag = static_encoder(bag, toy_tokenizer)
    model = start_from_static(toy.make_model(toy_tokenizer, **BAG | dict(num_key_value_heads=2)), toy_bag).eval()
    tokens = torch.arange(100, 160)
    vectors = F.normalize(bag.weighted()[tokens], dim=1)
    start = torch.full((len(tokens), 1), toy_tokenizer.bos_token_id)

    def ranks(embedding):
        with torch.no_grad():
            logits = model.decoder(decoder_input_ids=start, sentence_embedding=embedding).logits[:, 0]
        return (logits > logits.gather(1, tokens[:, None])).sum(1).float()

    assert ranks(vectors).median() < 5  # of 400
    assert ranks(torch.zeros_like(vectors)).median() > 100


def test_it_learns_the_teachers_space(make_trainer, toy, toy_data, toy_tokenizer, teacher, tmp_path):
    own = make_trainer()
    own.train()
    bag = static_encoder(own.model, toy_tokenizer)
    targets = [toy_tokenizer.decode(toy_data[i]["target"]) for i in range(len(toy_data))]
    from hf_echo.inference.embedding_store import StoredRows

    matrix = encode(bag, toy_tokenizer, targets, "eng_Latn").astype(np.float16)
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


def test_a_bag_that_goes_on_cannot_take_a_teachers_length(make_trainer, teacher, bag, toy_data, toy_tokenizer):
    args = make_trainer(mse_weight=0.5).args
    options = dict(
        train_dataset=toy_data, tokenizer=toy_tokenizer, teacher=teacher, start=static_encoder(bag, toy_tokenizer)
    )
    with pytest.raises(ValueError, match="mse_weight=0.5 compares lengths.* set mse_weight=0"):
        StaticTrainer(args, **options)
    args.mse_weight = 0
    StaticTrainer(args, **options)


def test_it_goes_on_from_a_bag(make_trainer, bag, toy_data, toy_tokenizer):
    start = static_encoder(bag, toy_tokenizer)
    trainer = StaticTrainer(make_trainer().args, train_dataset=toy_data, tokenizer=toy_tokenizer, start=start)
    np.testing.assert_allclose(
        encode(static_encoder(trainer.model, toy_tokenizer), toy_tokenizer, TEXTS, None, on_long="split"),
        encode(start, toy_tokenizer, TEXTS, None, on_long="split"),
        atol=1e-6,
    )
    with pytest.raises(ValueError, match=r"\(400, 16\) \(vocabulary, size\), the new ones \(400, 8\)"):
        StaticTrainer(make_trainer(dim=8).args, train_dataset=toy_data, tokenizer=toy_tokenizer, start=start)


# Hard negatives


def test_hard_negatives_of_a_batch(make_trainer, toy_data, toy_tokenizer):
    """Behind sources and targets stand some of each row's own, other ones for another batch."""
    trainer = make_trainer(gamma=0.3, max_negatives=2, language_drop=0.0, equal_groups=False)
    rows = [toy_data[i] for i in range(12)]
    batch = trainer.data_collator(rows)
    ends = [*batch["offsets"].tolist()[1:], len(batch["ids"])]
    texts = [batch["ids"][a:b].tolist() for a, b in zip(batch["offsets"].tolist(), ends, strict=True)]
    index = batch["negative_index"]
    assert index.shape == (12, 2) and sorted(index[index >= 0].tolist()) == list(range(24, len(texts)))
    for row, places in zip(rows, index.tolist(), strict=True):
        own = [trainer.data_collator.encoder_ids(n, row["target_lang"]).tolist() for n in row["negatives"]]
        chosen = [texts[i] for i in places if i >= 0]
        assert len(chosen) == min(2, len(own)) and all(text in own for text in chosen)
        assert len({tuple(text) for text in chosen}) == len({tuple(text) for text in own[:2]})
    assert "negative_index" not in make_trainer().data_collator(rows)


def test_loss_with_hard_negatives_by_hand(make_trainer, toy_data):
    trainer = make_trainer(gamma=0.3, hard_logit_scale=50.0, logit_scale=9.0, max_negatives=2)
    batch = trainer.data_collator([toy_data[i] for i in range(10)])
    loss = trainer.compute_loss(trainer.model, batch).item()

    with torch.no_grad():
        unit = F.normalize(trainer.model(batch["ids"], batch["offsets"]).double(), dim=1).numpy()
    source, target, keys = unit[:10], unit[10:20], batch["target_key"].numpy()
    scores = 9.0 * source @ target.T
    contrast = hard = 0.0
    for i in range(10):
        others = [j for j in range(10) if j == i or keys[j] != keys[i]]
        contrast += np.log(np.exp(scores[i, others]).sum()) + np.log(np.exp(scores[others, i]).sum())
        contrast -= 2 * scores[i, i]
        own = [unit[j] for j in batch["negative_index"][i].tolist() if j >= 0]
        near = 50.0 * np.array([source[i] @ text for text in (target[i], *own)])
        hard += np.log(np.exp(near).sum()) - near[0]
    assert hard > 0
    assert loss == pytest.approx((0.7 * contrast / 2 + 0.3 * hard) / 10, rel=1e-4)


def test_hard_negatives_need_no_second_softmax_over_the_batch(make_trainer, toy_data, monkeypatch):
    trainer = make_trainer(gamma=0.3, max_negatives=2)
    batch = trainer.data_collator([toy_data[i] for i in range(10)])
    monkeypatch.setattr("hf_echo.losses.split_softmax.contrastive_loss", lambda *_, **__: pytest.fail("computed"))
    assert trainer.compute_loss(trainer.model, batch) > 0


def test_hard_negatives_go_away(make_trainer, toy_data):
    """What the batches' other targets do not ask for: the nearest hard negative further away than the target."""

    def gap(trainer):
        rows = [toy_data[i] for i in range(200)]
        batch = StaticCollator(trainer.tokenizer, max_negatives=5)(rows)
        with torch.no_grad():
            unit = F.normalize(trainer.model(batch["ids"], batch["offsets"]), dim=1)
        own = (unit[:200] * unit[200:400]).sum(1)
        index = batch["negative_index"]
        near = torch.einsum("nd,nkd->nk", unit[:200], unit[index.clamp(min=0)]).masked_fill(index < 0, -1)
        return (own - near.max(1).values).mean().item()

    options = dict(max_steps=100, logit_scale=60.0)
    without, trained = make_trainer(**options), make_trainer(**options, gamma=0.8, hard_logit_scale=10.0)
    for trainer in (without, trained):
        trainer.train()
    assert gap(trained) > gap(without) + 0.1  # 0.22 over seeds


def test_gamma_without_hard_negatives(make_trainer, toy_data, toy_tokenizer, teacher, tmp_path):
    plain = replace_negatives(toy_data)
    args = StaticConfig(str(tmp_path), use_cpu=True, dim=16, gamma=0.3)
    with pytest.raises(ValueError, match="gamma=0.3 weighs hard negatives, but the data have no hard_neg"):
        StaticTrainer(args, train_dataset=plain, tokenizer=toy_tokenizer)
    args = StaticConfig(str(tmp_path), use_cpu=True, dim=teacher[0][[0]].shape[1], gamma=0.3)
    with pytest.raises(ValueError, match="which cannot be used with a teacher"):
        StaticTrainer(args, train_dataset=toy_data, tokenizer=toy_tokenizer, teacher=teacher)


def replace_negatives(data):
    from hf_echo.data.tokenized import TokenizedParallel

    return TokenizedParallel(data.source, data.target, data.labels, data.names)


def test_equal_groups_reach_the_loader(toy_data, toy_tokenizer, tmp_path):
    groups = (np.arange(len(toy_data)) >= len(toy_data) - 100).astype(int)
    options = dict(use_cpu=True, dim=16, rows=50, report_to="none")
    args = StaticConfig(str(tmp_path), equal_groups=True, **options)
    with pytest.raises(ValueError, match="equal_groups needs groups: set language_batches or neighbour_groups"):
        StaticTrainer(args, train_dataset=toy_data, tokenizer=toy_tokenizer)
    trainer = StaticTrainer(args, train_dataset=toy_data, tokenizer=toy_tokenizer, groups=groups)
    found = [groups[batch["index"].numpy()] for batch in trainer.get_train_dataloader()]
    assert all(len(set(batch)) == 1 and len(batch) == 50 for batch in found)
    assert abs(sum(batch[0] for batch in found) - len(found) / 2) <= 1


def test_equal_groups_resume_exactly(toy_data, toy_tokenizer, tmp_path):
    """Over the end of an epoch too: an unbroken run, and one that goes on from its checkpoint."""

    def run(name, checkpoint=None):
        torch.manual_seed(0)
        args = StaticConfig(
            str(tmp_path / name),
            use_cpu=True,
            dim=16,
            rows=100,
            gamma=0.4,
            equal_groups=True,
            max_steps=14,
            save_steps=5,
            optim="sgd",
            optim_args="momentum=0.9",
            token_weights=False,
            report_to="none",
            disable_tqdm=True,
            learning_rate=1.0,
        )
        groups = np.arange(len(toy_data)) % 3
        trainer = StaticTrainer(args, train_dataset=toy_data, tokenizer=toy_tokenizer, groups=groups)
        assert len(trainer.get_train_dataloader()) < 9  # the checkpoint lies inside an epoch, the end beyond it
        trainer.train(resume_from_checkpoint=checkpoint)
        return trainer.model.embedding.weight

    whole = run("whole")
    again = run("again", str(tmp_path / "whole" / "checkpoint-5"))
    assert torch.equal(whole, again)
