"""Averaged weights of text and speech encoders against the formula in numpy, and what cannot be averaged."""

import shutil

import numpy as np
import pytest
import yaml
from torch import nn
from transformers import BertConfig, BertModel

from hf_echo.checkpoints import average_checkpoints, prune_checkpoint
from hf_echo.checkpoints.average import average_weights
from hf_echo.inference.encode_speech import encode_speech, load_speech_encoder
from hf_echo.modeling import EchoEncoder, EchoForTranslation, EchoSpeechEncoder
from hf_echo.steps.dry_run import dry_run
from hf_echo.steps.run import run_operation
from hf_echo.utils.lineage import read_lineage
from hf_echo.utils.speech_data import merge_speech_data, read_speech_data, write_speech_data
from hf_echo.vocabulary import train_tokenizer

from ..speech_toy import save_random_encoder, say


@pytest.fixture
def two(toy, toy_tokenizer, tmp_path):
    models = {name: toy.make_model(toy_tokenizer, seed=seed) for seed, name in enumerate("ab")}
    return [toy.save(tmp_path / name, model, toy_tokenizer) for name, model in models.items()]


def weights(folder, kind=EchoForTranslation) -> dict[str, np.ndarray]:
    return {name: weight.numpy() for name, weight in kind.from_pretrained(folder).state_dict().items()}


@pytest.mark.parametrize("part", ["model", "encoder", "decoder"])
def test_average_is_the_formula_on_its_part(two, tmp_path, part):
    out = average_checkpoints(*two, tmp_path / "out", 0.3, part=part)
    a, b, found = (weights(folder) for folder in (*two, out))
    for name in a:
        chosen = part == "model" or name.startswith(f"{part}.")
        want = 0.7 * a[name].astype(np.float64) + 0.3 * b[name] if chosen else a[name]
        np.testing.assert_allclose(found[name], want, atol=0 if not chosen else 1e-6)
    moved = [name for name in a if not np.array_equal(found[name], a[name])]
    assert len(moved) > 5 and all(part == "model" or name.startswith(f"{part}.") for name in moved)
    lineage = read_lineage(out)
    assert lineage["stage"] == "average" and set(lineage["parents"]) == {"model", "other"}
    assert (lineage["values"]["share"], lineage["values"]["part"]) == (0.3, part)


def test_encoders_alone(two, toy, toy_tokenizer, tmp_path):
    encoders = {folder.name: EchoForTranslation.from_pretrained(folder).encoder for folder in two}
    a, b = (toy.save(tmp_path / f"{name}_encoder", each, toy_tokenizer) for name, each in encoders.items())
    found = weights(average_checkpoints(a, b, tmp_path / "out", part="encoder"), EchoEncoder)
    one, other = weights(a, EchoEncoder), weights(b, EchoEncoder)
    assert all(np.allclose(found[name], (one[name] + other[name]) / 2, atol=1e-6) for name in found)
    with pytest.raises(ValueError, match="a_encoder is an encoder: it has no decoder to average"):
        average_checkpoints(a, b, tmp_path / "none", part="decoder")
    with pytest.raises(ValueError, match="is an encoder without a decoder: give part=encoder"):
        average_checkpoints(a, two[1], tmp_path / "none")


@pytest.fixture
def releases(two, toy, toy_tokenizer):
    models = {folder: EchoForTranslation.from_pretrained(folder) for folder in two}
    return [toy.save(f.with_name(f"{f.name}_release"), m, toy_tokenizer, release=True) for f, m in models.items()]


@pytest.mark.parametrize("part", ["model", "encoder", "decoder"])
def test_releases_are_averaged_with_their_decoders(two, releases, tmp_path, part, caplog):
    """As their training checkpoints are, and the result is a release."""
    want = weights(average_checkpoints(*two, tmp_path / "training", 0.3, part=part))
    out = average_checkpoints(*releases, tmp_path / "out", 0.3, part=part)
    found = weights(out)
    assert (out / "decoder" / "model.safetensors").is_file() and EchoEncoder.from_pretrained(out).config.decoder is None
    assert found.keys() == want.keys() and all(np.array_equal(found[name], want[name]) for name in want)
    assert "left out" not in caplog.text


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_decoder_that_one_release_alone_has_is_left_out(releases, tmp_path, order, caplog):
    shutil.rmtree(releases[1] / "decoder")
    one, other = (releases[i] for i in order)
    a, b = weights(one, EchoEncoder), weights(other, EchoEncoder)
    out = average_checkpoints(one, other, tmp_path / "average")
    assert not (out / "decoder").exists()
    found = weights(out, EchoEncoder)
    assert all(np.allclose(found[name], (a[name] + b[name]) / 2, atol=1e-6) for name in a)
    said = f"the decoder of {releases[0]} is left out: {releases[1]} has none to mix it with"
    assert [line for line in caplog.messages if "left out" in line] == [said]


def test_what_it_refuses(two, toy, toy_tokenizer, tmp_path):
    def refuses(message: str, other, *share):
        pytest.raises(ValueError, average_checkpoints, two[0], other, tmp_path / "out", *share).match(message)

    refuses("share must be between 0 and 1, not 1.5", two[1], 1.5)
    wide = toy.save(tmp_path / "wide", toy.make_model(toy_tokenizer, intermediate_size=48), toy_tokenizer)
    refuses(r"the models differ in .*mlp.*\(64, 32\) and \(48, 32\)|\(32, 64\)", wide)
    toy.make_model(toy_tokenizer, decoder={"intermediate_size": 48}).save_pretrained(wide)
    refuses(r"differ in decoder.*part=encoder averages the encoders alone", wide)
    BertModel(BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)).save_pretrained(wide)
    refuses("wide is a model of type 'bert', not an Echo checkpoint", wide)
    words = train_tokenizer(["other words in another order"] * 9, 270, progress=False)
    refuses("have different tokenizers", toy.save(tmp_path / "moved", toy.make_model(toy_tokenizer, seed=4), words))
    assert not (tmp_path / "out").exists()


def test_what_an_operation_made_is_replaced_but_no_training_run(two, tmp_path):
    average_checkpoints(*two, tmp_path / "out")
    average_checkpoints(*two, tmp_path / "out", 0.25)
    (tmp_path / "out" / "checkpoint-5").mkdir()
    with pytest.raises(ValueError, match="out holds a training run: name another folder"):
        average_checkpoints(*two, tmp_path / "out")
    assert (tmp_path / "out" / "checkpoint-5").is_dir()


def test_statistics_of_batch_norm_are_averaged():
    one, other = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    other.running_mean += 4
    assert average_weights(one, other, 0.25).running_mean.tolist() == [1, 1]


def row(lang: str, source: str, hours: float) -> dict:
    return {"lang": lang, "source": source, "voices": 1, "recordings": 3, "hours": hours}


BOTH = [row("eng_Latn", "flite", 3.0), row("swh_Latn", "espeak-ng", 1.0)]
HEARD = [
    {"rows": [row("eng_Latn", "flite", 2.0)], "voices": {"flite": ["slt", "awb"]}},
    {"rows": BOTH, "voices": {"flite": ["kal"], "espeak-ng": ["sw"]}},
]


@pytest.fixture
def two_speech(tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    for seed, folder in enumerate(folders):
        save_random_encoder(folder, 16, seed, languages=["eng_Latn", "swh_Latn"][: seed + 1])
        write_speech_data(folder, HEARD[seed])
    return folders


def test_speech_encoders_are_the_formula_and_the_folder_encodes(two_speech, tmp_path):
    out = average_checkpoints(*two_speech, tmp_path / "out", 0.25)
    a, b, found = (weights(folder, EchoSpeechEncoder) for folder in (*two_speech, out))
    assert len(found) > 10
    for name in found:
        np.testing.assert_allclose(found[name], 0.75 * a[name] + 0.25 * b[name], atol=1e-6)
    vectors = encode_speech(*load_speech_encoder(out, dtype="fp32"), [say("a b c")])
    assert vectors.shape == (1, 16) and np.isfinite(vectors).all()


def test_recordings_of_both_are_named_once(two_speech, tmp_path):
    out = average_checkpoints(*two_speech, tmp_path / "out")
    assert read_speech_data(out) == {"rows": BOTH, "voices": {"espeak-ng": ["sw"], "flite": ["awb", "kal", "slt"]}}
    assert EchoSpeechEncoder.from_pretrained(out).config.languages == ["eng_Latn", "swh_Latn"]
    assert merge_speech_data([{}, {}]) == {}


def test_the_decoder_of_a_release_is_left_out(two_speech, toy, toy_tokenizer, tmp_path, caplog):
    toy.make_model(toy_tokenizer).decoder.save_pretrained(two_speech[0] / "decoder")
    out = average_checkpoints(*two_speech, tmp_path / "out")
    assert not (out / "decoder").exists()
    said = f"the decoder of {two_speech[0]} is left out: hf-echo release --decoder adds it again"
    assert caplog.messages.count(said) == 1


def test_recipe_and_card(two_speech, tmp_path):
    """The operation of a recipe writes the card; a later recipe's dry run starts from the planned folder."""
    average = {"operation": "average", "model": str(two_speech[0]), "other": str(two_speech[1])}
    (tmp_path / "1_average.yaml").write_text(yaml.safe_dump(average | {"output_dir": str(tmp_path / "out")}))
    stage = {"stage": "speech", "model_name_or_path": str(tmp_path / "out"), "output_dir": str(tmp_path / "next")}
    (tmp_path / "2_speech.yaml").write_text(yaml.safe_dump(stage | {"train_data": "none.tsv", "teacher": "none"}))
    recipes = [tmp_path / "1_average.yaml", tmp_path / "2_speech.yaml"]
    planned = dry_run(recipes[1], journey=recipes)
    assert planned["parameters"]["total"] == sum(p.size for p in weights(two_speech[0], EchoSpeechEncoder).values())
    run_operation(recipes[0])
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| eng_Latn | flite | 1 | 3 | 3.00 |" in card and "| average |" in card


def test_what_it_refuses_of_speech(two_speech, toy, toy_tokenizer, tmp_path):
    text = toy.save(tmp_path / "text", toy.make_model(toy_tokenizer), toy_tokenizer)
    with pytest.raises(ValueError, match="one of .*a and .*text is a speech encoder, the other is not"):
        average_checkpoints(two_speech[0], text, tmp_path / "out")
    with pytest.raises(ValueError, match="a is an encoder: it has no decoder to average"):
        average_checkpoints(*two_speech, tmp_path / "out", part="decoder")
    with pytest.raises(ValueError, match="a is a speech encoder: this operation is for text encoders"):
        prune_checkpoint(two_speech[0], tmp_path / "out", size="half")
    assert not (tmp_path / "out").exists()
