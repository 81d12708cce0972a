"""Teacher to student: totals by hand, languages that are dropped, texts without prompts,
longer contexts."""

import copy

import numpy as np
import pytest
import torch
from datasets import Dataset
from scipy.special import logsumexp
from tokenizers import Tokenizer, processors
from transformers import PreTrainedTokenizerFast

from hf_echo.data.directions import extension_pairs, monolingual
from hf_echo.data.tokenized import tokenize_parallel
from hf_echo.inference import encode
from hf_echo.inference.embedding_store import LiveNegatives, LiveRows, frozen_embeddings
from hf_echo.modeling import EchoTokenizer
from hf_echo.stages.token import own_tokens

from ..formulas import unit
from ..losses.test_distillation import FIGURES, algorithm_2

pytestmark = pytest.mark.trains

BASE = ["eng_Latn", "fra_Latn"]


@pytest.fixture(scope="module")
def teacher(toy_trained):
    return toy_trained


@pytest.fixture(scope="module")
def pairs(toy, toy_tokenizer, teacher, tmp_path_factory):
    """(tokenized pairs, the teacher's rows)."""
    data = extension_pairs(toy.dataset(), BASE)
    sides = frozen_embeddings(
        data,
        lambda texts, lang: encode(teacher, toy_tokenizer, texts, lang),
        "t",
        tmp_path_factory.mktemp("c"),
    )
    return tokenize_parallel(data, toy_tokenizer, progress=False), sides


@pytest.fixture
def extend(make_trainer, teacher, pairs):
    """extend(**fields): a trainer that starts from a copy of the teacher."""
    data, sides = pairs

    def make(**fields):
        options = dict(base_languages=BASE, max_steps=100, lr_scheduler_type="cosine")
        model = copy.deepcopy(teacher)
        return make_trainer(
            "extension", model=model, data=data, extra={"teacher": sides}, **options | fields
        )

    return make


WITHOUT_DROPOUT = dict(dropout=0.0, language_drop=0.0, new_language_drop=0.0)


def kind_of(row) -> str:
    return {"rus_Cyrl": "new", "eng_Latn": "english"}.get(row["source_lang"], "base")


@pytest.fixture
def of_all_kinds(pairs):
    """(rows of all three kinds, no two with the same target; their kinds;
    the teacher's vectors of both sides)"""
    data, (source, target) = pairs
    rows = [0, *range(3, len(data), 41)]
    kinds = [kind_of(data[row]) for row in rows]
    assert set(kinds) == {"new", "english", "base"}
    assert len({data[row]["target_key"] for row in rows}) == len(rows)
    return rows, kinds, source[rows].astype(float), target[rows].astype(float)


@torch.no_grad()
def loss_of_rows(trainer, rows) -> tuple[float, np.ndarray]:
    """(loss, embeddings of the student)"""
    batch = trainer.data_collator([trainer.train_dataset[row] for row in rows])
    loss = trainer.compute_loss(trainer.model, batch).item()
    output = trainer.model.encoder(batch["input_ids"], batch["attention_mask"])
    return loss, output.sentence_embedding.double().numpy()


def test_total_is_algorithm_2(extend, of_all_kinds):
    rows, kinds, source, target = of_all_kinds

    loss, student = loss_of_rows(extend(**WITHOUT_DROPOUT), rows)

    assert loss == pytest.approx(algorithm_2(student, source, target, kinds, FIGURES), rel=1e-4)


def test_hard_negatives_have_a_softmax_of_their_own(extend, of_all_kinds, teacher, toy_tokenizer):
    """OS Eq. 5's hard term in numpy, with the scale of a row's kind, added to Algorithm 2."""
    rows, kinds, source, target = of_all_kinds
    texts = ["A cat sleeps.", "A dog sleeps.", "No cat sleeps."]
    live = LiveNegatives(
        Dataset.from_dict({"hard_negatives": [texts[: row % 4] for row in range(max(rows) + 1)]}),
        lambda texts, lang: encode(teacher, toy_tokenizer, texts, lang),
    )
    trainer = extend(**WITHOUT_DROPOUT)
    trainer.negatives = live

    loss, student = loss_of_rows(trainer, rows)

    vectors = encode(teacher, toy_tokenizer, texts, "eng_Latn").astype(float)
    hard_losses = []
    for place, (row, kind) in enumerate(zip(rows, kinds, strict=True)):
        # A base language's target is the mean of both sides, English its own, a new one's the target.
        share = {"new": 0.0, "english": 1.0, "base": 0.5}[kind]
        own_target = share * source[place] + (1 - share) * target[place]
        candidates = np.vstack([own_target, vectors[: row % 4]])
        cosines = unit(candidates) @ unit(student[place, None])[0]
        logits = (60.0 if kind == "new" else 10.0) * cosines
        hard_losses.append(logsumexp(logits) - logits[0])
    total = algorithm_2(student, source, target, kinds, FIGURES) + np.mean(hard_losses)
    assert loss == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize("base_target", ["source", "target"])
def test_base_languages_take_the_embedding_of_table_14c(extend, of_all_kinds, base_target):
    """As Algorithm 2, where the mean of a base row's two embeddings is the mean of one with
    itself."""
    rows, kinds, source, target = of_all_kinds
    trainer = extend(base_teacher_target=base_target, **WITHOUT_DROPOUT)

    loss, student = loss_of_rows(trainer, rows)

    interpolated = algorithm_2(student, source, target, kinds, FIGURES)
    is_base = np.array(kinds) == "base"
    chosen = source if base_target == "source" else target
    source[is_base] = chosen[is_base]
    target[is_base] = chosen[is_base]
    assert loss == pytest.approx(algorithm_2(student, source, target, kinds, FIGURES), rel=3e-5)
    assert loss != pytest.approx(interpolated, rel=1e-4)


@pytest.mark.parametrize(
    ("lang", "is_dropped"), [("eng_Latn", False), ("fra_Latn", False), ("rus_Cyrl", True)]
)
def test_languages_are_dropped_by_kind(extend, pairs, toy_tokenizer, lang, is_dropped):
    trainer = extend(language_drop=0.0, new_language_drop=1.0)
    data, _ = pairs
    row = next(data[i] for i in range(len(data)) if data[i]["source_lang"] == lang)
    batch = trainer.data_collator([row])
    text = toy_tokenizer.decode(batch["input_ids"][0])
    assert ("Unspecified" in text) == is_dropped


# Distillation


@pytest.fixture(scope="module")
def sentences(toy, toy_tokenizer, teacher):
    data = monolingual(toy.dataset(), BASE)
    live = LiveRows(data, "source", lambda texts, lang: encode(teacher, toy_tokenizer, texts, lang))
    return tokenize_parallel(data, toy_tokenizer, progress=False), (live, live)


def test_an_extension_needs_base_languages(extend):
    with pytest.raises(ValueError, match="base_languages is empty"):
        extend(base_languages=[])


def test_a_target_of_another_language_is_refused(extend):
    with pytest.raises(ValueError, match="target language 'eng_Latn' is not a base language"):
        extend(base_languages=["fra_Latn"])


def test_a_student_of_another_size_than_the_teacher_is_refused(
    toy, toy_tokenizer, sentences, make_trainer
):
    data, sides = sentences
    small = toy.make_model(toy_tokenizer, embedding_size=16)
    with pytest.raises(ValueError, match="embedding_size is 16, the teacher's 32"):
        make_trainer("distillation", model=small, data=data, extra={"teacher": sides})


@pytest.mark.parametrize(("dropout", "of_attention"), [(0.3, 0.3), (0.0, 0.0), (None, 0.1)])
def test_the_recipe_sets_the_dropout_of_a_student(
    toy, toy_tokenizer, sentences, make_trainer, dropout, of_attention
):
    """OS 5: 0.05 in the adaptation to a vocabulary; without a value the student keeps its own."""
    data, sides = sentences
    model = toy.make_model(toy_tokenizer, attention_dropout=0.1)

    trainer = make_trainer(
        "distillation", model=model, data=data, extra={"teacher": sides}, dropout=dropout
    )

    layers = trainer.model.encoder.backbone.layers
    assert {layer.self_attn.attention_dropout for layer in layers} == {of_attention}


# Tokens


def of_backbone(tokenizer, layout: str) -> EchoTokenizer:
    """The tokenizer of a backbone, without prompts, whose special tokens stand around a text as the
    layout says."""
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    special = [(name, backend.token_to_id(name)) for name in layout.split() if name != "$A"]
    backend.post_processor = processors.TemplateProcessing(single=layout, special_tokens=special)
    roles = dict(bos_token="<s>", eos_token="</s>", cls_token="<CLS>", sep_token="<SEP>")
    return EchoTokenizer.around(PreTrainedTokenizerFast(tokenizer_object=backend, **roles))


@pytest.mark.parametrize(
    "layout", [None, "$A", "<s> $A", "<CLS> $A <SEP>"], ids=["Echo", "Qwen", "Llama", "BERT"]
)
def test_the_tokens_are_the_texts_own(toy_tokenizer, layout):
    texts = ["un chat.", "", "deux chat chien"]
    tokenizer = of_backbone(toy_tokenizer, layout) if layout else toy_tokenizer
    batch = tokenizer(texts, lang=["fra_Latn", None, "fra_Latn"], padding=True, return_tensors="pt")

    masks = own_tokens(batch["input_ids"], batch["attention_mask"], tokenizer)

    own_ids = [ids[mask].tolist() for ids, mask in zip(batch["input_ids"], masks, strict=True)]
    assert own_ids == tokenizer.text_ids(texts)


# Long context


@pytest.fixture
def of_long_texts(toy, toy_tokenizer, make_trainer):
    """A trainer on texts of up to 200 tokens."""
    options = dict(max_length=200, logit_scale=20.0)
    model = toy.make_model(toy_tokenizer)
    tokenizer = copy.deepcopy(toy_tokenizer)
    return make_trainer("long_context", model=model, tokenizer=tokenizer, **options)


def test_long_context_has_room(of_long_texts):
    assert of_long_texts.model.encoder.config.max_position_embeddings >= 200
    assert of_long_texts.tokenizer.model_max_length >= 200


def test_long_context_is_eq_15(of_long_texts):
    """The eight targets differ."""
    loss, embeddings = loss_of_rows(of_long_texts, range(0, 40, 5))
    source, target = np.split(embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True), 2)
    logits = 20 * source @ target.T
    expected = (logsumexp(logits, axis=1) - np.diag(logits)).mean()
    assert loss == pytest.approx(expected, rel=1e-4)
