"""Averaged weights of text and speech encoders against the formula in numpy,
and what cannot be averaged."""

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
from hf_echo.utils.speech_data import merge_speech_data, read_speech_data, write_speech_data
from hf_echo.vocabulary import train_tokenizer

from ..speech_toy import save_random_encoder, say


@pytest.fixture
def two(toy, toy_tokenizer, tmp_path):
    """Folders of two training checkpoints."""
    folders = []
    for seed, name in enumerate("ab"):
        model = toy.make_model(toy_tokenizer, seed=seed)
        folders.append(toy.save(tmp_path / name, model, toy_tokenizer))
    return folders


def weights(folder, kind=EchoForTranslation) -> dict[str, np.ndarray]:
    return {
        name: weight.numpy() for name, weight in kind.from_pretrained(folder).state_dict().items()
    }


def mean(first: np.ndarray, second: np.ndarray, share: float) -> np.ndarray:
    """The formula, in float64."""
    return (1 - share) * first.astype(np.float64) + share * second


@pytest.mark.parametrize("part", ["model", "encoder", "decoder"])
def test_average_is_the_formula_on_its_part(two, tmp_path, part):
    first = weights(two[0])
    second = weights(two[1])

    averaged = weights(average_checkpoints(*two, tmp_path / "out", 0.3, part=part))

    prefix = "" if part == "model" else f"{part}."
    # The weighted mean in NumPy; the other tensors stay as in the first model.
    for name in first:
        if name.startswith(prefix):
            np.testing.assert_allclose(
                averaged[name], mean(first[name], second[name], 0.3), atol=1e-6
            )
        else:
            np.testing.assert_array_equal(averaged[name], first[name])
    moved = [name for name in first if not np.array_equal(averaged[name], first[name])]
    assert len(moved) > 5


@pytest.fixture
def encoders(two, toy, toy_tokenizer):
    """Folders of the encoders alone, a_encoder and b_encoder."""
    folders = []
    for folder in two:
        encoder = EchoForTranslation.from_pretrained(folder).encoder
        folders.append(toy.save(folder.with_name(f"{folder.name}_encoder"), encoder, toy_tokenizer))
    return folders


def test_encoders_alone_are_the_formula(encoders, tmp_path):
    out = average_checkpoints(*encoders, tmp_path / "out", part="encoder")
    first = weights(encoders[0], EchoEncoder)
    second = weights(encoders[1], EchoEncoder)
    for name, weight in weights(out, EchoEncoder).items():
        np.testing.assert_allclose(weight, mean(first[name], second[name], 0.5), atol=1e-6)


def test_encoders_have_no_decoder_to_average(encoders, tmp_path):
    with pytest.raises(ValueError, match="a_encoder is an encoder: it has no decoder to average"):
        average_checkpoints(*encoders, tmp_path / "none", part="decoder")


def test_an_encoder_averages_with_the_encoder_of_a_whole_model_only(two, encoders, tmp_path):
    with pytest.raises(ValueError, match="is an encoder without a decoder: give --part encoder"):
        average_checkpoints(encoders[0], two[1], tmp_path / "none")


@pytest.fixture
def releases(two, toy, toy_tokenizer):
    folders = []
    for folder in two:
        model = EchoForTranslation.from_pretrained(folder)
        folders.append(
            toy.save(folder.with_name(f"{folder.name}_release"), model, toy_tokenizer, release=True)
        )
    return folders


@pytest.mark.parametrize("part", ["model", "encoder", "decoder"])
def test_releases_are_averaged_with_their_decoders(two, releases, tmp_path, part, caplog):
    """As their training checkpoints are, and the result is a release."""
    expected = weights(average_checkpoints(*two, tmp_path / "training", 0.3, part=part))

    out = average_checkpoints(*releases, tmp_path / "out", 0.3, part=part)

    averaged = weights(out)
    assert averaged.keys() == expected.keys()
    for name, weight in expected.items():
        np.testing.assert_array_equal(averaged[name], weight)
    assert (out / "decoder" / "model.safetensors").is_file()
    assert EchoEncoder.from_pretrained(out).config.decoder is None
    assert "left out" not in caplog.text


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_decoder_that_one_release_alone_has_is_left_out(releases, tmp_path, order, caplog):
    shutil.rmtree(releases[1] / "decoder")
    first = weights(releases[0], EchoEncoder)
    second = weights(releases[1], EchoEncoder)

    out = average_checkpoints(releases[order[0]], releases[order[1]], tmp_path / "average")

    assert not (out / "decoder").exists()
    # The encoders are averaged as usual.
    for name, weight in weights(out, EchoEncoder).items():
        np.testing.assert_allclose(weight, mean(first[name], second[name], 0.5), atol=1e-6)
    message = f"the decoder of {releases[0]} is left out: {releases[1]} has none to mix it with"
    assert [line for line in caplog.messages if "left out" in line] == [message]


def refuses(message: str, *arguments) -> None:
    with pytest.raises(ValueError, match=message):
        average_checkpoints(*arguments)


def test_encoders_of_other_shapes_are_refused(two, toy, toy_tokenizer, tmp_path):
    wide = toy.save(
        tmp_path / "wide", toy.make_model(toy_tokenizer, intermediate_size=48), toy_tokenizer
    )
    refuses(
        r"the models differ in .*mlp.*\(64, 32\) and \(48, 32\)|\(32, 64\)",
        two[0],
        wide,
        tmp_path / "out",
    )


def test_decoders_of_other_shapes_are_refused(two, toy, toy_tokenizer, tmp_path):
    model = toy.make_model(toy_tokenizer, decoder={"intermediate_size": 48})
    wide = toy.save(tmp_path / "wide", model, toy_tokenizer)
    refuses(
        r"differ in decoder.*--part encoder .* averages the encoders alone",
        two[0],
        wide,
        tmp_path / "out",
    )


def test_other_kinds_of_models_are_refused(two, tmp_path):
    config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
    BertModel(config).save_pretrained(tmp_path / "bert")
    refuses(
        "bert is a model of type 'bert', not an Echo checkpoint",
        two[0],
        tmp_path / "bert",
        tmp_path / "out",
    )


def test_other_tokenizers_are_refused(two, toy, toy_tokenizer, tmp_path):
    words = train_tokenizer(["other words in another order"] * 9, 270, progress=False)
    moved = toy.save(tmp_path / "moved", toy.make_model(toy_tokenizer, seed=4), words)
    refuses("have different tokenizers", two[0], moved, tmp_path / "out")


def test_a_training_run_is_not_replaced(two, tmp_path):
    average_checkpoints(*two, tmp_path / "out")
    (tmp_path / "out" / "checkpoint-5").mkdir()
    with pytest.raises(ValueError, match="out holds a training run: name another folder"):
        average_checkpoints(*two, tmp_path / "out")
    assert (tmp_path / "out" / "checkpoint-5").is_dir()


def test_statistics_of_batch_norm_are_averaged():
    model = nn.BatchNorm1d(2)
    other = nn.BatchNorm1d(2)
    other.running_mean += 4
    average_weights(model, other, 0.25)
    assert model.running_mean.tolist() == [1, 1]


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


def test_speech_encoders_are_the_formula(two_speech, tmp_path):
    out = average_checkpoints(*two_speech, tmp_path / "out", 0.25)
    first = weights(two_speech[0], EchoSpeechEncoder)
    second = weights(two_speech[1], EchoSpeechEncoder)
    averaged = weights(out, EchoSpeechEncoder)
    assert len(averaged) > 10
    # The weighted mean in NumPy, weight by weight.
    for name, weight in averaged.items():
        np.testing.assert_allclose(weight, mean(first[name], second[name], 0.25), atol=1e-6)


def test_averaged_speech_encoders_encode(two_speech, tmp_path):
    out = average_checkpoints(*two_speech, tmp_path / "out")
    vectors = encode_speech(*load_speech_encoder(out, dtype="fp32"), [say("a b c")])
    assert vectors.shape == (1, 16)
    assert np.isfinite(vectors).all()


def test_recordings_of_both_are_named_once(two_speech, tmp_path):
    out = average_checkpoints(*two_speech, tmp_path / "out")
    assert read_speech_data(out) == {
        "rows": BOTH,
        "voices": {"espeak-ng": ["sw"], "flite": ["awb", "kal", "slt"]},
    }


def test_no_recordings_are_no_table():
    assert merge_speech_data([{}, {}]) == {}


def test_the_languages_are_those_of_both(two_speech, tmp_path):
    out = average_checkpoints(*two_speech, tmp_path / "out")
    assert EchoSpeechEncoder.from_pretrained(out).config.languages == ["eng_Latn", "swh_Latn"]


def test_the_decoder_of_a_release_is_left_out(two_speech, toy, toy_tokenizer, tmp_path, caplog):
    toy.make_model(toy_tokenizer).decoder.save_pretrained(two_speech[0] / "decoder")
    out = average_checkpoints(*two_speech, tmp_path / "out")
    assert not (out / "decoder").exists()
    message = f"the decoder of {two_speech[0]} is left out: hf-echo release --decoder adds it again"
    assert caplog.messages.count(message) == 1


@pytest.fixture
def recipe(two_speech, tmp_path):
    """A recipe that averages two speech encoders into `out`."""
    values = {
        "operation": "average",
        "model": str(two_speech[0]),
        "other": str(two_speech[1]),
        "output_dir": str(tmp_path / "out"),
    }
    file = tmp_path / "1_average.yaml"
    file.write_text(yaml.safe_dump(values))
    return file


def test_a_later_recipe_starts_from_the_planned_folder(two_speech, recipe, tmp_path):
    values = {
        "stage": "speech",
        "model_name_or_path": str(tmp_path / "out"),
        "output_dir": str(tmp_path / "next"),
        "train_data": "none.tsv",
        "teacher": "none",
    }
    later = tmp_path / "2_speech.yaml"
    later.write_text(yaml.safe_dump(values))
    size = sum(weight.size for weight in weights(two_speech[0], EchoSpeechEncoder).values())
    assert dry_run(later, journey=[recipe, later])["parameters"]["total"] == size


def test_a_recipe_writes_the_card(recipe, tmp_path):
    run_operation(recipe)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| eng_Latn | flite | 1 | 3 | 3.00 |" in card
    assert "| average |" in card


def test_text_averages_with_no_speech(two_speech, toy, toy_tokenizer, tmp_path):
    text = toy.save(tmp_path / "text", toy.make_model(toy_tokenizer), toy_tokenizer)
    message = "one of .*a and .*text is a speech encoder, the other is not"
    refuses(message, two_speech[0], text, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_operations_on_text_refuse_speech_encoders(two_speech, tmp_path):
    with pytest.raises(
        ValueError, match="a is a speech encoder: this operation is for text encoders"
    ):
        prune_checkpoint(two_speech[0], tmp_path / "out", size="half")
