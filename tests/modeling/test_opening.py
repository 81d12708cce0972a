"""Loading checkpoints: trust, dtype, training, default target language, damaged files."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

import hf_echo
from hf_echo.inference import encode, load_encoder, load_translator, translate
from hf_echo.modeling import EchoDecoder, EchoEncoder, EchoForTranslation, EchoTokenizer

from .conftest import TEXTS

NANO = hf_echo.pretrained("echo-nano")


@pytest.fixture(scope="module")
def folder(make_model, tokenizer, tmp_path_factory) -> Path:
    """A release in bf16 whose decoder writes English."""
    place = tmp_path_factory.mktemp("release")
    model = make_model()
    model.decoder.config.languages = ["eng_Latn"]
    model.to(torch.bfloat16).save_release(place)
    tokenizer.save_pretrained(place)
    return place


@pytest.fixture
def copy(folder, tmp_path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


@pytest.fixture
def fast_bf16(monkeypatch):
    monkeypatch.setattr("hf_echo.modeling.precision_echo.bf16_is_faster", lambda device="cpu": True)


def train_three_steps(model, batch) -> list[torch.Tensor]:
    """The weights after steps of 1e-5."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for _ in range(3):
        model.train()
        model(**batch).sentence_embedding.square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [weight.detach().float().clone() for weight in model.parameters()]


def test_training_is_float32_where_nobody_chose_a_dtype(folder, batch, fast_bf16):
    """bf16 weights would lose updates of 1e-5;
    the same steps in float32 from the start are the truth."""
    automatic = AutoModel.from_pretrained(folder)
    assert automatic.dtype == torch.bfloat16
    in_float32 = AutoModel.from_pretrained(folder, dtype=torch.float32)
    start = [weight.detach().clone() for weight in in_float32.parameters()]

    weights = train_three_steps(automatic, batch)

    expected = train_three_steps(in_float32, batch)
    torch.testing.assert_close(weights, expected, atol=1e-7, rtol=0)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(weights, start, atol=1e-6, rtol=0)


def test_training_keeps_a_dtype_that_was_chosen(folder):
    assert AutoModel.from_pretrained(folder, dtype=torch.bfloat16).train().dtype == torch.bfloat16


@pytest.fixture
def into_english(folder, tokenizer):
    """(model whose decoder writes English, prompts of the texts)"""
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32)
    return model, torch.tensor([tokenizer.decoder_prompt_ids("eng_Latn")] * len(TEXTS))


def test_the_only_target_language_is_generated_by_default(into_english, batch):
    model, prompt = into_english
    expected = model.generate(**batch, decoder_input_ids=prompt, max_new_tokens=5)
    assert torch.equal(model.generate(**batch, max_new_tokens=5), expected)


def test_labels_are_of_the_only_target_language_by_default(into_english, batch):
    """The loss is over what follows the prompt."""
    model, prompt = into_english
    labels = torch.tensor([[9, 8, 7, 3], [6, 5, 3, -100]])
    two = {name: values[:2] for name, values in batch.items()}

    loss = model(**two, labels=labels).loss

    inputs = torch.cat([prompt[:2], labels[:, :-1].clamp(min=0)], 1)
    logits = model(**two, decoder_input_ids=inputs).logits[:, prompt.shape[1] - 1 :]
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("languages", [None, ["eng_Latn", "fra_Latn"]])
def test_several_target_languages_need_a_prompt(folder, batch, languages):
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    model.decoder.config.languages = languages
    message = "needs a prompt that names one: give decoder_input_ids"
    with pytest.raises(ValueError, match=message):
        model.generate(**batch)
    with pytest.raises(ValueError, match=message):
        model(**batch, labels=batch["input_ids"])


# Long texts by SentenceTransformer (test_tokenization.py has those of the tokenizer,
# test_pipeline.py of the pipeline)

LONG_TEXTS = ["Le chat.", "Le chat dort. " * 60]


def sentence_transformer(folder, **options) -> SentenceTransformer:
    return SentenceTransformer(str(folder), device="cpu", **options)


def of_texts(on_long: str) -> dict:
    return {"processing_kwargs": {"text": {"on_long": on_long}}}


def test_a_sentence_transformer_refuses_long_texts_where_it_was_opened_so(folder):
    model = sentence_transformer(folder, processor_kwargs={"on_long": "error"})
    with pytest.raises(ValueError, match="longer than 128 tokens"):
        model.encode(LONG_TEXTS)


def test_a_sentence_transformer_refuses_long_texts_where_a_call_asks_for_it(folder):
    with pytest.raises(ValueError, match="longer than 128 tokens"):
        sentence_transformer(folder).encode(LONG_TEXTS, **of_texts("error"))


def test_an_option_in_the_wrong_place_is_shown_the_right_one(folder):
    message = "use encode.texts, processing_kwargs=.*'on_long': 'split'"
    with pytest.raises(ValueError, match=message):
        sentence_transformer(folder).encode(LONG_TEXTS, on_long="split")


def test_a_sentence_transformer_splits_long_texts(folder):
    model = sentence_transformer(folder)
    splitting = sentence_transformer(folder, processor_kwargs={"on_long": "split"})

    vectors = model.encode(LONG_TEXTS, **of_texts("split"))

    # A model that was opened with this setting.
    np.testing.assert_array_equal(vectors, splitting.encode(LONG_TEXTS))
    assert np.abs(vectors[1] - model.encode(LONG_TEXTS)[1]).max() > 1e-3


DAMAGES = {
    "truncated": lambda data: data[:-100],
    "truncated in the header": lambda data: data[:50],
    "empty": lambda data: b"",
    "pointer": lambda data: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
    "html": lambda data: b"<!DOCTYPE html><html>404</html>",
}


ENCODER_OPENERS = [load_encoder, AutoModel.from_pretrained]
WHOLE_OPENERS = [load_translator, AutoModelForSeq2SeqLM.from_pretrained]


def refused_by(openers, copy, message: str) -> None:
    for opens in openers:
        with pytest.raises((ValueError, OSError)) as refusal:
            opens(str(copy))
        assert message in str(refusal.value)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    ("part", "openers"), [("", [*ENCODER_OPENERS, *WHOLE_OPENERS]), ("decoder", WHOLE_OPENERS)]
)
def test_damaged_weights_are_named(copy, damage, part, openers):
    file = copy / part / "model.safetensors"
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    refused_by(openers, copy, f"{file} is damaged or incomplete")


BROKEN = "backbone.layers.1.mlp.up_proj.weight"
WAYS = [*ENCODER_OPENERS, SentenceTransformer, load_translator]


def test_a_missing_tensor_is_named(copy):
    weights = load_file(copy / "model.safetensors")
    del weights[BROKEN]
    save_file(weights, copy / "model.safetensors", {"format": "pt"})
    refused_by(WAYS, copy, f"lack the tensor {BROKEN}")


def test_weights_that_are_no_numbers_are_refused(copy):
    weights = load_file(copy / "model.safetensors")
    weights[BROKEN][3] = torch.nan
    save_file(weights, copy / "model.safetensors", {"format": "pt"})
    refused_by(WAYS, copy, f"NaN or infinite values, first in {BROKEN}")


@pytest.fixture
def opened(folder):
    """(model, tokenizer, pipeline)"""
    model, tokenizer = load_translator(folder, dtype="fp32")
    return model, tokenizer, pipeline("sonar-translation", model=model, tokenizer=tokenizer)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (np.float32, np.nan, "row 3 holds NaN"),
        (np.float32, np.inf, "row 3 holds NaN"),
        (np.int8, 0, "int8"),
    ],
)
def test_embeddings_that_are_no_floats_are_not_translated(opened, kind, value, message):
    model, tokenizer, translator = opened
    vectors = np.zeros((5, 24), kind)
    vectors[2, 5] = value
    with pytest.raises(ValueError, match=message):
        translate(model, tokenizer, vectors)
    with pytest.raises(ValueError, match=message):
        translator(vectors)


def test_a_model_that_gives_no_numbers_is_refused(opened):
    model, tokenizer, translator = opened
    with torch.no_grad():
        model.encoder.projection.weight[0, 0] = torch.nan
    with pytest.raises(ValueError, match="row 1 holds NaN"):
        encode(model, tokenizer, TEXTS)
    with pytest.raises(ValueError, match="row 1 holds NaN"):
        translator(TEXTS)


@pytest.mark.parametrize("shard", ["../secret.safetensors", "/etc/secret", "a/b.safetensors", 3])
def test_an_index_names_files_of_its_folder_only(copy, shard):
    index = copy / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": {"projection.weight": shard}}))
    message = f"{index} names {str(shard)!r}, which is not a file of this folder: do not open it"
    refused_by(ENCODER_OPENERS, copy, message)


def test_a_damaged_index_is_named(copy):
    (copy / "model.safetensors.index.json").write_text("{")
    refused_by([AutoModel.from_pretrained], copy, "index.json is damaged")


@pytest.mark.parametrize("content", [b"", b"<html></html>", DAMAGES["pointer"](b""), 500, b"{}"])
def test_a_damaged_tokenizer_is_named_in_every_way_in(copy, content):
    """The SentenceTransformer sees what was cut off;
    a whole JSON object that is not a tokenizer it does not name."""
    file = copy / "tokenizer.json"
    whole = file.read_bytes()
    file.write_bytes(whole[:content] if isinstance(content, int) else content)
    ways = [AutoTokenizer.from_pretrained, EchoTokenizer.from_pretrained, load_encoder]
    ways += [] if content == b"{}" else [SentenceTransformer, AutoModel.from_pretrained]
    for opens in ways:
        with pytest.raises(ValueError, match=r"tokenizer\.json is damaged or incomplete"):
            opens(str(copy))


def test_a_damaged_configuration_of_a_tokenizer_is_named(copy):
    (copy / "tokenizer_config.json").write_text('{"cls_token": "<s')
    refused_by([SentenceTransformer], copy, "tokenizer_config.json is damaged or incomplete")


def change_json(file: Path, **values) -> None:
    content = json.loads(file.read_text(encoding="utf-8")) | values
    file.write_text(
        json.dumps({key: value for key, value in content.items() if value is not None}),
        encoding="utf-8",
    )


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: change_json(f / "config.json", pooling=None), "config.json has no 'pooling'"),
        (
            lambda f: change_json(f / "decoder/config.json", model_type="llama"),
            "type 'llama', not 'echo_decoder'",
        ),
        (
            lambda f: (f / "decoder/generation_config.json").unlink(),
            "decoder has no generation_config.json",
        ),
        (
            lambda f: (f / "decoder/generation_config.json").write_text("{"),
            "generation_config.json is damaged",
        ),
    ],
)
def test_a_file_that_would_change_the_results_silently_is_refused(copy, damage, message):
    damage(copy)
    for opens in (
        EchoForTranslation.from_pretrained,
        load_translator,
        AutoModelForSeq2SeqLM.from_pretrained,
    ):
        with pytest.raises(ValueError, match=message):
            opens(str(copy))


@pytest.mark.parametrize("opens", [EchoEncoder, EchoDecoder, EchoForTranslation])
def test_a_folder_without_config_is_refused(copy, opens):
    """transformers would build a model of the default size, of many GiB."""
    (copy / "config.json").unlink()
    shutil.rmtree(copy / "decoder")
    with pytest.raises(
        ValueError,
        match=f"^{copy} has no config.json: it is not a checkpoint that [A-Za-z]+ opens$",
    ):
        opens.from_pretrained(copy)


FILES = ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"]


@given(st.sampled_from(FILES), st.sampled_from(["cut", "replace", "flip", "remove"]), st.data())
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_a_corrupted_checkpoint_opens_or_is_refused_by_name(folder, tmp_path, name, how, data):
    """The model loads (unchanged, unless a bit was flipped),
    or one line names the file or the folder."""
    copy = tmp_path / "fuzz"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    content = (copy / name).read_bytes()
    # One file is cut, replaced, changed by a bit, or gone.
    if how == "cut":
        (copy / name).write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    elif how == "replace":
        new = st.one_of(st.binary(max_size=80), st.sampled_from([b"[]", b"null", b"{}"]))
        (copy / name).write_bytes(data.draw(new))
    elif how == "flip":
        flipped = bytearray(content)
        at = data.draw(st.integers(0, len(content) - 1))
        flipped[at] ^= 1 << data.draw(st.integers(0, 7))
        (copy / name).write_bytes(flipped)
    else:
        (copy / name).unlink()
    try:
        embeddings = encode(*load_encoder(copy, dtype="fp32"), TEXTS)
    except (ValueError, OSError) as error:
        assert str(copy) in str(error) or "row 1" in str(error), error
        assert "\n" not in str(error)
        return
    # A model that opened is whole: only a flipped bit may change its vectors.
    assert embeddings.dtype == np.float32
    assert np.isfinite(embeddings).all()
    if how in ("cut", "replace") and name != "tokenizer_config.json":
        np.testing.assert_array_equal(
            embeddings, encode(*load_encoder(folder, dtype="fp32"), TEXTS)
        )
