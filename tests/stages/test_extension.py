"""Teacher to student: totals by hand, languages that are dropped, texts without prompts, longer contexts."""

import copy

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, processors
from transformers import PreTrainedTokenizerFast

from hf_echo.data.directions import extension_pairs, monolingual
from hf_echo.data.tokenized import tokenize_parallel
from hf_echo.inference import encode
from hf_echo.inference.embedding_store import LiveRows, frozen_embeddings
from hf_echo.modeling import EchoTokenizer
from hf_echo.stages.token import own_tokens

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
    ask = lambda texts, lang: encode(teacher, toy_tokenizer, texts, lang)  # noqa: E731
    sides = frozen_embeddings(data, ask, "t", tmp_path_factory.mktemp("c"))
    return tokenize_parallel(data, toy_tokenizer, progress=False), sides


@pytest.fixture
def extend(make_trainer, teacher, pairs):
    def make(**fields):
        given = dict(model=copy.deepcopy(teacher), data=pairs[0], extra={"teacher": pairs[1]})
        options = dict(base_languages=BASE, max_steps=100, lr_scheduler_type="cosine")
        return make_trainer("extension", **given, **options | fields)

    return make


def kind(lang):
    return {"rus_Cyrl": "new", "eng_Latn": "english"}.get(lang, "base")


def test_total_is_algorithm_2(toy_tokenizer, extend, pairs):
    """A batch of all three kinds, no two with the same target text; dropout off."""
    trainer = extend(dropout=0.0, language_drop=0.0, new_language_drop=0.0)
    data, (source, target) = pairs
    rows = []
    seen = set()
    for i in range(0, len(data), 7):
        if data[i]["target_key"] not in seen:
            seen.add(data[i]["target_key"])
            rows.append(i)
    kinds = [kind(data[i]["source_lang"]) for i in rows]
    assert {"new", "english", "base"} == set(kinds)
    batch = trainer.data_collator([data[i] for i in rows])
    with torch.no_grad():
        have = trainer.compute_loss(trainer.model, batch).item()
        inputs = {key: batch[key] for key in ("input_ids", "attention_mask")}
        student = trainer.model.encoder(**inputs).sentence_embedding.double().numpy()
    want = algorithm_2(
        student, source[rows].astype(float), target[rows].astype(float), kinds, FIGURES
    )
    assert have == pytest.approx(want, rel=1e-4)


@pytest.mark.parametrize("base_target", ["source", "target"])
def test_base_languages_take_the_embedding_of_table_14c(extend, pairs, base_target):
    """As Algorithm 2, where the mean of a base row's two embeddings is the mean of one with itself."""
    options = dict(dropout=0.0, language_drop=0.0, new_language_drop=0.0)
    trainer = extend(base_teacher_target=base_target, **options)
    data, (source, target) = pairs
    rows = [0, *range(3, len(data), 41)]
    kinds = [kind(data[row]["source_lang"]) for row in rows]
    assert {"new", "english", "base"} == set(kinds)
    assert len({data[row]["target_key"] for row in rows}) == len(rows)
    of_source = source[rows].astype(float)
    of_target = target[rows].astype(float)
    is_base = np.array(kinds) == "base"
    if base_target == "source":
        of_target[is_base] = of_source[is_base]
    else:
        of_source[is_base] = of_target[is_base]
    batch = trainer.data_collator([data[row] for row in rows])

    with torch.no_grad():
        loss = trainer.compute_loss(trainer.model, batch).item()
        inputs = {key: batch[key] for key in ("input_ids", "attention_mask")}
        student = trainer.model.encoder(**inputs).sentence_embedding.double().numpy()

    assert loss == pytest.approx(
        algorithm_2(student, of_source, of_target, kinds, FIGURES), rel=3e-5
    )
    interpolated = algorithm_2(
        student, source[rows].astype(float), target[rows].astype(float), kinds, FIGURES
    )
    assert loss != pytest.approx(interpolated, rel=1e-4)


def test_languages_are_dropped_by_kind(extend, pairs, toy_tokenizer):
    trainer = extend(language_drop=0.0, new_language_drop=1.0)
    data = pairs[0]
    rows = [
        next(i for i in range(len(data)) if data[i]["source_lang"] == lang)
        for lang in (*BASE, "rus_Cyrl")
    ]
    batch = trainer.data_collator([data[i] for i in rows])
    texts = toy_tokenizer.batch_decode(batch["input_ids"])
    assert ["Unspecified" in text for text in texts] == [False, False, True]


# Distillation


@pytest.fixture(scope="module")
def sentences(toy, toy_tokenizer, teacher):
    data = monolingual(toy.dataset(), BASE)
    live = LiveRows(data, "source", lambda texts, lang: encode(teacher, toy_tokenizer, texts, lang))
    return tokenize_parallel(data, toy_tokenizer, progress=False), (live, live)


def test_what_cannot_be_is_refused(toy, toy_tokenizer, extend, sentences, make_trainer):
    small = toy.make_model(toy_tokenizer, embedding_size=16)
    distil = lambda **given: make_trainer("distillation", data=sentences[0], **given)  # noqa: E731
    for call, message in (
        (lambda: extend(base_languages=[]), "base_languages is empty"),
        (
            lambda: extend(base_languages=["fra_Latn"]),
            "target language 'eng_Latn' is not a base language",
        ),
        (
            lambda: distil(model=small, extra={"teacher": sentences[1]}),
            "embedding_size is 16, the teacher's 32",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()


# Tokens


@pytest.mark.parametrize(
    "layout", [None, "$A", "<s> $A", "<CLS> $A <SEP>"], ids=["Echo", "Qwen", "Llama", "BERT"]
)
def test_the_tokens_are_the_texts_own(toy_tokenizer, layout):
    texts = ["un chat.", "", "deux chat chien"]
    tokenizer = toy_tokenizer
    if layout:  # the tokenizer of a backbone, without prompts
        backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        ends = [(name, backend.token_to_id(name)) for name in layout.split() if name != "$A"]
        backend.post_processor = processors.TemplateProcessing(single=layout, special_tokens=ends)
        roles = dict(bos_token="<s>", eos_token="</s>", cls_token="<CLS>", sep_token="<SEP>")
        tokenizer = EchoTokenizer.around(PreTrainedTokenizerFast(tokenizer_object=backend, **roles))
    batch = tokenizer(texts, lang=["fra_Latn", None, "fra_Latn"], padding=True, return_tensors="pt")
    own = own_tokens(batch["input_ids"], batch["attention_mask"], tokenizer)
    for ids, mask, text in zip(batch["input_ids"], own, texts):
        assert ids[mask].tolist() == tokenizer.text_ids([text])[0]


# Long context


def test_long_context_learns_and_has_room(toy, toy_tokenizer, make_trainer):
    model = toy.make_model(toy_tokenizer)
    tokenizer = copy.deepcopy(toy_tokenizer)
    trainer = make_trainer(
        "long_context", model=model, tokenizer=tokenizer, max_length=200, logit_scale=20.0
    )
    assert model.encoder.config.max_position_embeddings >= 200 <= tokenizer.model_max_length
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(0, 40, 5)])
    with torch.no_grad():
        have = trainer.compute_loss(model.eval(), batch).item()
        inputs = {key: batch[key] for key in ("input_ids", "attention_mask")}
        x, y = model.encoder(**inputs).sentence_embedding.double().chunk(2)
    logits = 20 * torch.nn.functional.cosine_similarity(x[:, None], y[None], dim=-1)
    want = (logits.logsumexp(1) - logits.diagonal()).mean()  # Eq. 15; the eight targets differ
    assert have == pytest.approx(want.item(), rel=1e-4)
    trainer.train()
    losses = [
        row["contrastive_loss"] for row in trainer.state.log_history if "contrastive_loss" in row
    ]
    assert losses[-1] < losses[0] / 2
