"""`adapter` of a recipe: what learns, what is saved, and how its folder opens."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

from hf_echo.checkpoints.open_text import open_checkpoint
from hf_echo.hub.release import release_checkpoint
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.modeling import EchoForTranslation
from hf_echo.modeling.adapters_echo import adapter_parameters
from hf_echo.steps.dry_run import dry_run
from hf_echo.steps.recipe import read_recipe
from hf_echo.steps.training import train_recipe

from ..toy import save

TEXTS = ["un chat rouge.", "deux chien bleu."]


@pytest.fixture
def base(tmp_path, toy, toy_tokenizer):
    return str(save(tmp_path / "base", toy.make_model(toy_tokenizer), toy_tokenizer))


@pytest.fixture
def adapter_recipe(recipe, base):
    """adapter_recipe(stage, name): trains an adapter on the toy base for four steps."""

    def write(stage="contrastive", name="adapted", **fields):
        options = dict(
            adapter=dict(r=4, alpha=8), model_name_or_path=base, shape={}, max_steps=4, save_steps=2
        )
        options |= dict(dev_data={}, bf16=False, learning_rate=0.05, warmup_steps=0)
        return recipe(name, stage, **options | fields)

    return write


def embeddings(model, folder) -> torch.Tensor:
    inputs = AutoTokenizer.from_pretrained(folder)(
        TEXTS, lang="fra_Latn", return_tensors="pt", padding=True
    )
    with torch.no_grad():
        return model.eval()(**inputs).sentence_embedding


@pytest.mark.parametrize("stage", ["contrastive", "long_context", "seq2seq"])
def test_only_the_adapter_learns(adapter_recipe, caught, stage):
    """Without an adapter, seq2seq and contrastive train the decoder,
    and long_context the whole encoder."""
    trainer = caught(adapter_recipe(stage))
    learning = [
        name for name, parameter in trainer.model.named_parameters() if parameter.requires_grad
    ]
    assert learning
    assert all("lora_" in name for name in learning)
    blocks = {name.split(".lora_")[0].rpartition(".")[2] for name in learning}
    assert blocks == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}


def test_the_decoder_stage_adapts_the_decoder(adapter_recipe, caught):
    trainer = caught(adapter_recipe("decoder"))
    learning = [
        name for name, parameter in trainer.model.named_parameters() if parameter.requires_grad
    ]
    assert learning
    assert all(name.startswith("decoder.") and "lora_" in name for name in learning)


@pytest.mark.parametrize("stage", ["contrastive", "decoder"])
def test_the_dry_run_counts_what_learns(adapter_recipe, caught, stage):
    path = adapter_recipe(stage, adapter=dict(r=4, use_dora=True))
    model = caught(path).model
    learning = [p.numel() for p in model.parameters() if p.requires_grad]

    report = dry_run(path)

    assert report["parameters"]["adapter"] == sum(learning)
    assert report["parameters"]["total"] == sum(p.numel() for p in model.parameters())
    # A gradient and two moments of AdamW, of 4 bytes each.
    assert report["memory_gib"]["gradients and AdamW"] == pytest.approx(12 * sum(learning) / 2**30)


def test_the_dry_run_names_an_unknown_layer(adapter_recipe):
    report = dry_run(adapter_recipe(adapter={"target_modules": ["q_pro"]}))
    assert report["problems"] == [
        "model: adapter.target_modules: no linear layer 'q_pro'; did you mean 'q_proj'?"
    ]


@pytest.fixture(params=[False, True], ids=["lora", "dora"])
def adapted(request, adapter_recipe, tmp_path):
    """The folder of a trained adapter."""
    train_recipe(adapter_recipe(adapter=dict(r=4, alpha=8, use_dora=request.param)))
    return tmp_path / "adapted"


def opened_embeddings(folder) -> torch.Tensor:
    return embeddings(AutoModel.from_pretrained(folder, dtype=torch.float32), folder)


def test_its_folder_opens_on_its_base(adapted, base):
    difference = opened_embeddings(adapted) - opened_embeddings(base)

    assert not (adapted / "model.safetensors").exists()
    assert difference.abs().max() > 1e-3


def test_sentence_transformers_opens_its_folder(adapted):
    vectors = SentenceTransformer(str(adapted)).encode(TEXTS, prompt_name="fra_Latn")

    np.testing.assert_allclose(vectors, opened_embeddings(adapted).numpy(), atol=1e-5)


def test_a_release_merges_it(adapted, tmp_path):
    release = release_checkpoint(adapted, tmp_path / "release")

    merged = opened_embeddings(release)
    torch.testing.assert_close(merged, opened_embeddings(adapted), atol=1e-5, rtol=1e-4)
    assert not any("lora" in name for name in load_file(release / "model.safetensors"))


def test_the_decoder_of_a_merged_adapter_is_the_bases(adapter_recipe, base, tmp_path):
    train_recipe(adapter_recipe())
    merged = open_checkpoint(tmp_path / "adapted").decoder.state_dict()
    before = EchoForTranslation.from_pretrained(base, dtype=torch.float32).decoder.state_dict()
    assert all(torch.equal(merged[name], before[name]) for name in before)


def test_an_interrupted_run_ends_as_an_unbroken_one(adapter_recipe, train_stopped, tmp_path):
    options = dict(adapter=dict(r=4, dropout=0.2))
    train_recipe(adapter_recipe(name="whole", **options))
    again = adapter_recipe(name="again", **options)
    train_stopped(again, 2)
    checkpoint = load_file(tmp_path / "again" / "checkpoint-2" / "model.safetensors")
    assert checkpoint
    assert all("lora_" in name for name in checkpoint)
    train_recipe(again)
    whole, resumed = (
        load_file(tmp_path / name / "adapter_model.safetensors") for name in ("whole", "again")
    )
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_two_adapters_on_one_base(adapter_recipe, base, tmp_path):
    for name, seed in (("first", 1), ("second", 2)):
        train_recipe(adapter_recipe(name=name, seed=seed))
    both = AutoModel.from_pretrained(base, dtype=torch.float32)
    for name in ("first", "second"):
        both.load_adapter(str(tmp_path / name), name)
    for name in ("first", "second"):
        both.set_adapter(name)
        # The adapter opened by itself.
        alone = AutoModel.from_pretrained(tmp_path / name, dtype=torch.float32)
        torch.testing.assert_close(embeddings(both, base), embeddings(alone, tmp_path / name))


def test_the_next_stage_starts_from_a_merged_adapter(adapter_recipe, recipe, caught, tmp_path):
    train_recipe(adapter_recipe())
    start = dict(model_name_or_path=str(tmp_path / "adapted"), shape={}, dev_data={})
    trainer = caught(recipe("next", "contrastive", **start))
    adapted = AutoModel.from_pretrained(tmp_path / "adapted", dtype=torch.float32)
    vectors = embeddings(trainer.model.encoder, tmp_path / "adapted")
    # The adapter on its base, before it was merged.
    torch.testing.assert_close(
        vectors, embeddings(adapted, tmp_path / "adapted"), atol=1e-5, rtol=1e-4
    )


def test_an_adapter_of_another_base_is_refused(adapter_recipe, toy, toy_tokenizer, tmp_path):
    train_recipe(adapter_recipe())
    save(tmp_path / "base", toy.make_model(toy_tokenizer, seed=8), toy_tokenizer)
    with pytest.raises(
        ValueError, match="adapted is an adapter on .*base as it was when it was trained"
    ) as refusal:
        release_checkpoint(tmp_path / "adapted", tmp_path / "release")
    assert "\n" not in str(refusal.value)


def test_an_encoder_on_another_base_is_refused(adapter_recipe, toy, toy_tokenizer, tmp_path):
    """It would embed, with other vectors than those that were trained."""
    train_recipe(adapter_recipe())
    save(tmp_path / "base", toy.make_model(toy_tokenizer, seed=8), toy_tokenizer)
    with pytest.raises(ValueError, match="and .*base is another model: give that base"):
        any_encoder(str(tmp_path / "adapted"))(TEXTS, "fra_Latn")


@pytest.mark.parametrize("opened_with", ["AutoModel", "SentenceTransformer", "load_adapter"])
def test_libraries_refuse_another_base_too(
    adapter_recipe, toy, toy_tokenizer, base, tmp_path, opened_with
):
    train_recipe(adapter_recipe())
    save(tmp_path / "base", toy.make_model(toy_tokenizer, seed=8), toy_tokenizer)
    folder = str(tmp_path / "adapted")
    opening = {
        "AutoModel": lambda: AutoModel.from_pretrained(folder),
        "SentenceTransformer": lambda: SentenceTransformer(folder),
        "load_adapter": lambda: AutoModel.from_pretrained(base).load_adapter(folder, "news"),
    }
    with pytest.raises(ValueError, match="and .*base is another model: give that base"):
        opening[opened_with]()


def test_an_adapter_of_the_decoder_is_loaded_on_the_decoder_alone(adapter_recipe, base, tmp_path):
    """Its part has no folder of its own to compare with."""
    train_recipe(adapter_recipe("decoder"))
    model = EchoForTranslation.from_pretrained(base, dtype=torch.float32)

    model.decoder.load_adapter(str(tmp_path / "adapted"))

    saved = load_file(tmp_path / "adapted" / "adapter_model.safetensors")
    loaded = adapter_parameters(model.decoder, "default")
    assert loaded.keys() == saved.keys()
    assert all(torch.equal(loaded[name], saved[name]) for name in saved)


def test_an_adapter_of_another_shape_is_refused(adapter_recipe, toy, toy_tokenizer, tmp_path):
    train_recipe(adapter_recipe())
    other = save(tmp_path / "other", toy.make_model(toy_tokenizer, hidden_size=64), toy_tokenizer)
    config = tmp_path / "adapted" / "adapter_config.json"
    config.write_text(
        json.dumps(json.loads(config.read_text()) | {"base_model_name_or_path": str(other)})
    )
    (tmp_path / "adapted" / "adapter_base.json").unlink()
    with pytest.raises(ValueError, match="does not fit the backbone: it belongs to another one"):
        open_checkpoint(tmp_path / "adapted")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (dict(model_name_or_path=None), "model_name_or_path"),
        (dict(adapter=[16]), r"adapter is \[16\]; it must be a mapping"),
        (dict(adapter={"rank": 16}), "unknown field 'rank'"),
        (dict(adapter={"r": 0}), "r is 0; it must be at least 1"),
    ],
)
def test_recipes_that_cannot_be(adapter_recipe, fields, message):
    with pytest.raises(ValueError, match=message):
        read_recipe(adapter_recipe(**fields))


def test_a_base_without_the_tokens_of_the_stage_is_refused(adapter_recipe):
    with pytest.raises(
        ValueError, match="the base lacks a mask token, and a new one would change it"
    ):
        train_recipe(adapter_recipe("mexma", head_layers=1, head_heads=4, head_ffn=32))


def test_an_unknown_layer_is_refused(adapter_recipe):
    with pytest.raises(
        ValueError, match="adapter.target_modules: no linear layer 'q_pro'; did you mean 'q_proj'"
    ):
        train_recipe(adapter_recipe(adapter={"target_modules": ["q_pro"]}))
