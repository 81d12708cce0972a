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

from .conftest import LANGUAGES, TEXTS

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


def steps(model, forward) -> list[torch.Tensor]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    parameters = list(model.parameters())
    for _ in range(3):
        model.train()
        (forward(model) ** 2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    return [parameter.detach().clone() for parameter in parameters]


def test_training_is_float32_where_nobody_chose_a_dtype(folder, batch, fast_bf16):
    """bf16 weights would lose updates of 1e-5; the same steps in float32 from the start are the truth."""

    def forward(model):
        return model(**batch).sentence_embedding

    automatic = AutoModel.from_pretrained(folder)
    assert automatic.dtype == torch.bfloat16
    start = [weight.detach().float() for weight in automatic.parameters()]
    have = steps(automatic, forward)
    want = steps(AutoModel.from_pretrained(folder, dtype=torch.float32), forward)
    torch.testing.assert_close(have, want, atol=1e-7, rtol=0)
    assert max((a - b).abs().max() for a, b in zip(have, start, strict=True)) > 1e-6
    chosen = AutoModel.from_pretrained(folder, dtype=torch.bfloat16).train()
    assert chosen.dtype == torch.bfloat16


def test_default_target_language(folder, batch, tokenizer):
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32)
    prompt = torch.tensor([tokenizer.decoder_prompt_ids("eng_Latn")] * len(TEXTS))
    want = model.generate(**batch, decoder_input_ids=prompt, max_new_tokens=5)
    assert torch.equal(model.generate(**batch, max_new_tokens=5), want)
    labels = torch.tensor([[9, 8, 7, 3], [6, 5, 3, -100]])
    two = {name: values[:2] for name, values in batch.items()}
    inputs = torch.cat([prompt[:2], labels[:, :-1].clamp(min=0)], 1)
    logits = model(**two, decoder_input_ids=inputs).logits[:, prompt.shape[1] - 1 :]
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    torch.testing.assert_close(model(**two, labels=labels).loss, loss)


@pytest.mark.parametrize("languages", [None, ["eng_Latn", "fra_Latn"]])
def test_several_target_languages_need_a_prompt(folder, batch, languages):
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    model.decoder.config.languages = languages
    for call in (
        lambda: model.generate(**batch),
        lambda: model(**batch, labels=batch["input_ids"]),
    ):
        with pytest.raises(
            ValueError, match="needs a prompt that names one: give decoder_input_ids"
        ):
            call()


def test_on_long_in_every_way_in(folder):
    texts = ["Le chat.", "Le chat dort. " * 60]
    option = {"processing_kwargs": {"text": {"on_long": "error"}}}
    loaded = SentenceTransformer(str(folder), device="cpu", processor_kwargs={"on_long": "error"})
    model = SentenceTransformer(str(folder), device="cpu")
    tokenizer = EchoTokenizer.from_pretrained(folder)
    translator = pipeline("sonar-translation", model=str(folder), device="cpu")
    for refuses in (
        lambda: tokenizer(texts, on_long="error"),
        lambda: tokenizer(texts, truncation=True, on_long="error"),
        lambda: loaded.encode(texts),
        lambda: model.encode(texts, **option),
        lambda: translator(texts, on_long="error"),
    ):
        with pytest.raises(ValueError, match="longer than 128 tokens"):
            refuses()
    with pytest.raises(
        ValueError, match="use encode.texts, processing_kwargs=.*'on_long': 'split'"
    ):
        model.encode(texts, on_long="split")
    for wrong in (
        lambda: tokenizer(texts, on_long="cut"),
        lambda: translator(texts, on_long="cut"),
    ):
        with pytest.raises(
            ValueError, match="on_long must be one of warn, error, split, not 'cut'"
        ):
            wrong()
    assert len(tokenizer(texts, on_long="split")["input_ids"]) > 2
    assert len(tokenizer(texts, on_long="warn")["input_ids"][1]) == 128
    option["processing_kwargs"]["text"]["on_long"] = "split"
    splits = SentenceTransformer(str(folder), device="cpu", processor_kwargs={"on_long": "split"})
    np.testing.assert_array_equal(model.encode(texts, **option), splits.encode(texts))
    assert np.abs(model.encode(texts)[1] - splits.encode(texts)[1]).max() > 1e-3


DAMAGES = {
    "truncated": lambda data: data[:-100],
    "truncated in the header": lambda data: data[:50],
    "empty": lambda data: b"",
    "pointer": lambda data: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
    "html": lambda data: b"<!DOCTYPE html><html>404</html>",
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("part", ["", "decoder"])
def test_damaged_weights_are_named(copy, damage, part):
    file = copy / part / "model.safetensors"
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    openers = [load_translator, AutoModelForSeq2SeqLM.from_pretrained]
    for opens in openers if part else [*openers, load_encoder, AutoModel.from_pretrained]:
        with pytest.raises((ValueError, OSError)) as error:
            opens(copy)
        assert str(file) in str(error.value)
        expected = "damaged or incomplete"
        assert expected in str(error.value)


def test_broken_weights_are_refused(copy):
    file = copy / "model.safetensors"
    name = "backbone.layers.1.mlp.up_proj.weight"
    weights = load_file(file)
    infinite = weights | {name: weights[name].clone().index_fill_(0, torch.tensor(3), torch.nan)}
    missing = {key: value for key, value in weights.items() if key != name}
    for content, message in (
        (missing, "lack the tensor {}"),
        (infinite, "NaN or infinite values, first in {}"),
    ):
        save_file(content, file, {"format": "pt"})
        for opens in (
            AutoModel.from_pretrained,
            load_encoder,
            SentenceTransformer,
            load_translator,
        ):
            with pytest.raises(ValueError, match=message.format(name)):
                opens(str(copy))


def test_embeddings_that_are_no_numbers_are_refused(folder):
    model, tokenizer = load_translator(folder, dtype="fp32")
    translator = pipeline("sonar-translation", model=model, tokenizer=tokenizer)
    good = encode(model, tokenizer, TEXTS, LANGUAGES)
    bad = [good.copy(), good.copy()]
    bad[0][2, 5] = np.nan
    bad[1][2, 5] = np.inf
    for vectors, message in (
        (bad[0], "row 3 holds NaN"),
        (bad[1], "row 3 holds NaN"),
        (good.astype(np.int8), "int8"),
    ):
        for call in (lambda x: translate(model, tokenizer, x), translator):
            with pytest.raises(ValueError, match=message):
                call(vectors)
    with torch.no_grad():
        model.encoder.projection.weight[0, 0] = torch.nan
    for call in (lambda: encode(model, tokenizer, TEXTS), lambda: translator(TEXTS)):
        with pytest.raises(ValueError, match="row 1 holds NaN"):
            call()


@pytest.mark.parametrize("shard", ["../secret.safetensors", "/etc/secret", "a/b.safetensors", 3])
def test_an_index_names_files_of_its_folder_only(copy, shard):
    index = copy / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": {"projection.weight": shard}}))
    for opens in (load_encoder, AutoModel.from_pretrained):
        with pytest.raises(
            ValueError, match="which is not a file of this folder: do not open it"
        ) as error:
            opens(copy)
        assert f"{index} names {str(shard)!r}" in str(error.value)
    index.write_text("{")
    with pytest.raises(ValueError, match=r"index\.json is damaged"):
        AutoModel.from_pretrained(copy)


@pytest.mark.parametrize("content", [b"", b"<html></html>", DAMAGES["pointer"](b""), 500, b"{}"])
def test_a_damaged_tokenizer_is_named_in_every_way_in(copy, content):
    """The SentenceTransformer sees what was cut off; a whole JSON object that is not a tokenizer it does not name."""
    file = copy / "tokenizer.json"
    whole = file.read_bytes()
    file.write_bytes(whole[:content] if isinstance(content, int) else content)
    ways = [AutoTokenizer.from_pretrained, EchoTokenizer.from_pretrained, load_encoder]
    ways += [] if content == b"{}" else [SentenceTransformer, AutoModel.from_pretrained]
    for opens in ways:
        with pytest.raises(ValueError, match=r"tokenizer\.json is damaged or incomplete"):
            opens(str(copy))
    file.write_bytes(whole)
    (copy / "tokenizer_config.json").write_text('{"cls_token": "<s')
    with pytest.raises(ValueError, match=r"tokenizer_config\.json is damaged or incomplete"):
        SentenceTransformer(str(copy))


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
    """The model loads (unchanged, unless a bit was flipped), or one line names the file or the folder."""
    copy = tmp_path / "fuzz"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    content = (copy / name).read_bytes()
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
    assert embeddings.dtype == np.float32
    assert np.isfinite(embeddings).all()
    if how in ("cut", "replace") and name != "tokenizer_config.json":
        np.testing.assert_array_equal(
            embeddings, encode(*load_encoder(folder, dtype="fp32"), TEXTS)
        )
