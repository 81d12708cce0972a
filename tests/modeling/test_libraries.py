"""Echo models in the hands of other libraries:
Trainer, peft, datasets, sentence-transformers, `generate`."""

import pytest
import torch
from peft import LNTuningConfig, LoraConfig, get_peft_model
from sentence_transformers import SentenceTransformer
from torch import nn
from transformers import (
    AutoModel,
    AutoModelForSeq2SeqLM,
    GenerationConfig,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from hf_echo.inference import translate
from hf_echo.modeling import (
    EchoEncoder,
    EchoForTranslation,
    modeling_echo_encoder,
    packed_echo,
)
from hf_echo.modeling.generation_echo import greedy_decode

from ..processes import SCRIPTS, WITHOUT_PACKAGE, python
from ..toy import QUIET
from .conftest import LANGUAGES, TEXTS

# Trainer


@pytest.fixture
def train(make_model, tokenizer, tmp_path):
    """train(rows of a batch, batches of a step) -> log of one step of Seq2SeqTrainer on four
    pairs."""
    ids = (
        tokenizer.decoder_prompt_ids("eng_Latn")
        + tokenizer("one red cat", add_special_tokens=False)["input_ids"]
    )
    # Every row has the same target; the texts are padded to one length.
    targets = {"decoder_input_ids": ids, "labels": [*ids[1:], tokenizer.eos_token_id]}
    rows = [
        dict(tokenizer(text, lang=lang, padding="max_length", max_length=128)) | targets
        for text, lang in zip(TEXTS[:4], LANGUAGES[:4], strict=True)
    ]

    def run(rows_of_a_batch: int, batches: int, **options) -> dict[str, float]:
        sizes = dict(
            per_device_train_batch_size=rows_of_a_batch,
            gradient_accumulation_steps=batches,
            max_steps=1,
        )
        args = Seq2SeqTrainingArguments(
            output_dir=str(tmp_path), logging_steps=1, **sizes, **QUIET, **options
        )
        trainer = Seq2SeqTrainer(make_model(), args, train_dataset=rows)
        trainer.train()
        return trainer.state.log_history[0]

    return run


def test_accumulated_batches_have_the_loss_of_one(train):
    """All targets have the same length, so that the mean of means is the mean."""
    whole = train(4, 1)
    parts = train(1, 4)
    assert train(4, 1, label_smoothing_factor=0.5)["loss"] != pytest.approx(whole["loss"], rel=1e-3)
    for name in ("loss", "grad_norm"):
        assert parts[name] == pytest.approx(whole[name], rel=1e-3)


def test_weights_of_a_training_in_float32_are_loaded_as_such(make_model, tmp_path):
    """A Trainer that resumes loads the weights before the optimizer,
    whose states take their dtype."""
    model = make_model()
    model.encoder.save_pretrained(tmp_path)
    again = EchoEncoder.from_pretrained(tmp_path, dtype=torch.bfloat16)
    again.load_state_dict(model.encoder.state_dict())
    assert again.dtype == torch.bfloat16  # as it was asked for
    again._dtype_was_chosen = True
    again.load_state_dict(model.encoder.state_dict())
    assert again.dtype == torch.float32
    assert all(
        torch.equal(a, b)
        for a, b in zip(again.parameters(), model.encoder.parameters(), strict=True)
    )


def test_targets_with_the_prompt_of_the_encoder_are_refused(make_model, tokenizer, batch):
    model = make_model({"languages": ["eng_Latn"]})
    model._default_prompt = tokenizer.decoder_prompt_ids("eng_Latn")
    both = tokenizer(TEXTS, text_target=TEXTS, padding=True, return_tensors="pt")
    with pytest.raises(
        ValueError, match="labels begin with the encoder's prompt: .* add_special_tokens=False"
    ):
        model(**both)
    ids = tokenizer(TEXTS, add_special_tokens=False, padding=True, return_tensors="pt")["input_ids"]
    assert model(**batch, labels=ids).loss > 0


# generate


def test_generation_config_is_saved(make_model, tmp_path):
    """What a release saves of `num_beams` is in test_reranking.py."""
    model = make_model()
    model.generation_config.no_repeat_ngram_size = 3
    model.generation_config.num_beams = 2
    model.save_pretrained(tmp_path)
    opened = EchoForTranslation.from_pretrained(tmp_path).decoder.generation_config
    assert (opened.no_repeat_ngram_size, opened.num_beams) == (3, 2)


def test_generation_config_is_obeyed(make_model, tokenizer):
    model = make_model()
    prompt = torch.tensor([tokenizer.decoder_prompt_ids("eng_Latn")] * 3)
    start = model.config.decoder.bos_token_id
    model.generation_config = GenerationConfig(
        max_new_tokens=2, decoder_start_token_id=start, pad_token_id=0
    )
    ids = model.generate(sentence_embedding=torch.randn(3, 24), decoder_input_ids=prompt)
    assert ids.shape[1] == prompt.shape[1] + 2


def test_what_generate_reads(model, make_model, tokenizer, batch):
    prompt = torch.tensor([tokenizer.decoder_prompt_ids("eng_Latn")] * len(TEXTS))
    options = dict(decoder_input_ids=prompt, max_new_tokens=5, do_sample=False)
    for one in (model, make_model({"bottleneck": False})):
        expected = one.generate(**batch, **options)
        encoded = one.encoder(**batch)
        mask = batch["attention_mask"]
        assert torch.equal(
            one.generate(inputs=batch["input_ids"], attention_mask=mask, **options), expected
        )
        assert torch.equal(
            one.generate(encoder_outputs=encoded, attention_mask=mask, **options), expected
        )


# peft


@pytest.mark.parametrize("kind", ["token embeddings", "norms"])
def test_adapters_that_the_packed_path_does_not_know(model, batch, monkeypatch, kind):
    monkeypatch.setattr(packed_echo, "MIN_TOKENS", 1)
    if kind == "norms":
        config = LNTuningConfig(target_modules=["input_layernorm", "post_attention_layernorm"])
    else:
        config = LoraConfig(r=4, target_modules=["embed_tokens"])
    adapted = get_peft_model(model.encoder, config).eval()
    with torch.no_grad():
        for weight in adapted.parameters():
            if weight.requires_grad:
                weight.add_(torch.randn_like(weight) * 0.3)
        computed = adapted(**batch).sentence_embedding
    expected = adapted(**batch).sentence_embedding.detach()  # with gradients nothing is packed
    torch.testing.assert_close(computed, expected, rtol=1e-4, atol=1e-5)
    assert (
        not isinstance(model.encoder.backbone.layers[0].input_layernorm, LlamaRMSNorm)
        or kind == "token embeddings"
    )


def test_lora_of_the_whole_model(make_model, tokenizer, batch):
    model = make_model()
    adapted = get_peft_model(
        model, LoraConfig(r=4, task_type="SEQ_2_SEQ_LM", target_modules=["q_proj", "v_proj"])
    )
    # A new adapter changes nothing: give it weights.
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.normal_()
    prompt = tokenizer.decoder_prompt_ids("eng_Latn")
    options = dict(
        decoder_input_ids=torch.tensor([prompt] * len(TEXTS)), max_new_tokens=6, do_sample=False
    )
    ids = adapted.generate(**batch, **options)
    # Merged into the weights it writes the same, and not what the plain model writes.
    merged = adapted.merge_and_unload()
    assert torch.equal(ids, merged.generate(**batch, **options))
    assert not torch.equal(ids, make_model().generate(**batch, **options))
    assert isinstance(merged.decoder.lm_head, nn.Linear)
    # The fast decoder reads the merged weights.
    with torch.no_grad():
        vectors = merged.encoder(**batch).sentence_embedding
    rows = greedy_decode(merged.decoder, vectors, prompt, max_new_tokens=6)
    assert [
        row[: len(fast_ids)]
        for row, fast_ids in zip(ids[:, len(prompt) :].tolist(), rows, strict=True)
    ] == rows
    assert translate(merged, tokenizer, TEXTS, LANGUAGES, "eng_Latn", num_beams=1, max_new_tokens=6)


# sentence-transformers


@pytest.fixture
def served(make_model, tokenizer, tmp_path):
    """(SentenceTransformer, encoder and tokenizer by transformers) of one folder."""
    make_model().encoder.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    encoder = AutoModel.from_pretrained(tmp_path, dtype=torch.float32)
    return SentenceTransformer(str(tmp_path), device="cpu"), encoder, tokenizer


def states_alone(encoder, tokenizer, text) -> torch.Tensor:
    """(tokens, hidden) of a text alone, as AutoModel gives them."""
    with torch.no_grad():
        return encoder(**tokenizer([text], return_tensors="pt")).last_hidden_state[0]


@pytest.mark.parametrize("batch_size", [2, 200])
@pytest.mark.parametrize("output_value", ["token_embeddings", None])
def test_sentence_transformers_gives_states_of_tokens(
    served, batch_size, output_value, monkeypatch
):
    """With the two settings of docs/start.md, as AutoModel gives them for each text alone; large
    batches take the packed path of a CPU."""
    model, encoder, tokenizer = served
    model[0].modality_config["text"]["method_output_name"] = "last_hidden_state"
    model[0].module_output_name = "token_embeddings"
    texts = [text * (1 + number % 3) for number in range(40) for text in TEXTS]
    is_packed = []
    packed_states = modeling_echo_encoder.packed_states

    def noted(*arguments):
        states = packed_states(*arguments)
        is_packed.append(states is not None)
        return states

    monkeypatch.setattr(modeling_echo_encoder, "packed_states", noted)
    outputs = model.encode(texts, output_value=output_value, batch_size=batch_size)

    assert set(is_packed) == {batch_size == 200}
    for text, output in zip(texts, outputs, strict=True):
        expected = states_alone(encoder, tokenizer, text)
        if output_value is None:
            output = output["token_embeddings"][output["attention_mask"].bool()]
        torch.testing.assert_close(output, expected, rtol=0, atol=1e-5)


def test_sentence_transformers_gives_all_features_of_a_text(served):
    """Without settings: ids, mask and the sentence embedding."""
    model, encoder, tokenizer = served
    (features,) = model.encode(TEXTS[:1], output_value=None)
    batch = tokenizer(TEXTS[:1], return_tensors="pt")
    assert torch.equal(features["input_ids"], batch["input_ids"][0])
    assert torch.equal(features["attention_mask"], batch["attention_mask"][0])
    with torch.no_grad():
        expected = encoder(**batch).sentence_embedding[0]
    torch.testing.assert_close(features["sentence_embedding"], expected)


def test_settings_of_a_sentence_transformer_are_saved(make_model, tokenizer, tmp_path):
    make_model().encoder.save_pretrained(tmp_path / "a")
    tokenizer.save_pretrained(tmp_path / "a")
    options = dict(truncate_dim=8, default_prompt_name="query", similarity_fn_name="dot")
    model = SentenceTransformer(
        str(tmp_path / "a"), prompts={"query": "French:<SEP>"}, device="cpu", **options
    )
    model.save(str(tmp_path / "b"))
    again = SentenceTransformer(str(tmp_path / "b"), device="cpu")
    for name in ("truncate_dim", "default_prompt_name", "similarity_fn_name"):
        assert getattr(again, name) == getattr(model, name) == options[name]
    assert again.prompts["query"] == "French:<SEP>"
    assert (again.encode(TEXTS) == model.encode(TEXTS)).all()


# datasets


@pytest.mark.slow
def test_tokenizer_of_remote_code_in_the_processes_of_a_map(make_model, tokenizer, tmp_path):
    """Its lock must not be copied into the processes: nobody could acquire the copy."""
    make_model().encoder.save_pretrained(tmp_path / "a")
    tokenizer.save_pretrained(tmp_path / "a")
    python(WITHOUT_PACKAGE, SCRIPTS / "map_tokenizer.py", tmp_path / "a", timeout=240)


@pytest.mark.parametrize("base", ["training", "release"])
def test_a_folder_of_an_adapter_opens_as_the_whole_model(
    toy_folders, toy_tokenizer, tmp_path, base
):
    model = AutoModelForSeq2SeqLM.from_pretrained(toy_folders[base], dtype=torch.float32)
    adapted = get_peft_model(model, LoraConfig(target_modules=["q_proj", "v_proj"], r=2)).eval()
    # A new adapter changes nothing: give it weights.
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.1)
    adapted.save_pretrained(tmp_path)
    opened = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    inputs = toy_tokenizer(["un chat"], lang="fra_Latn", return_tensors="pt")
    inputs["decoder_input_ids"] = torch.tensor([toy_tokenizer.decoder_prompt_ids("eng_Latn")])
    # The logits of peft's own model, which the plain model does not have.
    with torch.no_grad():
        expected = adapted.base_model.model(**inputs).logits
        computed = opened(**inputs).logits
        plain = AutoModelForSeq2SeqLM.from_pretrained(toy_folders[base], dtype=torch.float32)(
            **inputs
        ).logits
    assert torch.equal(computed, expected)
    assert (computed - plain).abs().max() > 1e-3
