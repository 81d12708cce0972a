"""Averages of speech encoders: weights, feature extractor, recordings on the card, recipes and refusals."""

import numpy as np
import pytest
import yaml

from hf_echo.checkpoints import average_checkpoints, prune_checkpoint
from hf_echo.inference.encode_speech import encode_speech, load_speech_encoder
from hf_echo.modeling import EchoSpeechEncoder
from hf_echo.steps.dry_run import dry_run
from hf_echo.steps.run import run_operation
from hf_echo.utils.speech_data import merge_speech_data, read_speech_data, write_speech_data

from ..speech_toy import save_random_encoder, say


def row(lang: str, source: str, hours: float) -> dict:
    return {"lang": lang, "source": source, "voices": 1, "recordings": 3, "hours": hours}


BOTH = [row("eng_Latn", "flite", 3.0), row("swh_Latn", "espeak-ng", 1.0)]
HEARD = [
    {"rows": [row("eng_Latn", "flite", 2.0)], "voices": {"flite": ["slt", "awb"]}},
    {"rows": BOTH, "voices": {"flite": ["kal"], "espeak-ng": ["sw"]}},
]


@pytest.fixture
def two(tmp_path):
    """Folders of two speech encoders of different weights, languages and recordings."""
    folders = [tmp_path / "a", tmp_path / "b"]
    for seed, folder in enumerate(folders):
        save_random_encoder(folder, 16, seed, languages=["eng_Latn", "swh_Latn"][: seed + 1])
        write_speech_data(folder, HEARD[seed])
    return folders


def weights(folder) -> dict[str, np.ndarray]:
    return {name: weight.numpy() for name, weight in EchoSpeechEncoder.from_pretrained(folder).state_dict().items()}


def test_weights_are_the_formula_and_the_folder_encodes(two, tmp_path):
    out = average_checkpoints(*two, tmp_path / "out", 0.25)
    a, b, found = (weights(folder) for folder in (*two, out))
    assert len(found) > 10
    for name in found:
        np.testing.assert_allclose(found[name], 0.75 * a[name] + 0.25 * b[name], atol=1e-6)
    vectors = encode_speech(*load_speech_encoder(out, dtype="fp32"), [say("a b c")])
    assert vectors.shape == (1, 16) and np.isfinite(vectors).all()


def test_recordings_of_both_are_named_once(two, tmp_path):
    out = average_checkpoints(*two, tmp_path / "out")
    assert read_speech_data(out) == {"rows": BOTH, "voices": {"espeak-ng": ["sw"], "flite": ["awb", "kal", "slt"]}}
    assert EchoSpeechEncoder.from_pretrained(out).config.languages == ["eng_Latn", "swh_Latn"]
    assert merge_speech_data([{}, {}]) == {}


def test_the_decoder_of_a_release_is_left_out(two, toy, toy_tokenizer, tmp_path, caplog):
    toy.make_model(toy_tokenizer).decoder.save_pretrained(two[0] / "decoder")
    out = average_checkpoints(*two, tmp_path / "out")
    assert not (out / "decoder").exists()
    said = f"the decoder of {two[0]} is left out: hf-echo release --decoder adds it again"
    assert caplog.messages.count(said) == 1


def test_recipe_and_card(two, tmp_path):
    """The operation of a recipe writes the card; a later recipe's dry run starts from the planned folder."""
    average = {"operation": "average", "model": str(two[0]), "other": str(two[1])}
    (tmp_path / "1_average.yaml").write_text(yaml.safe_dump(average | {"output_dir": str(tmp_path / "out")}))
    stage = {"stage": "speech", "model_name_or_path": str(tmp_path / "out"), "output_dir": str(tmp_path / "next")}
    (tmp_path / "2_speech.yaml").write_text(yaml.safe_dump(stage | {"train_data": "none.tsv", "teacher": "none"}))
    recipes = [tmp_path / "1_average.yaml", tmp_path / "2_speech.yaml"]
    planned = dry_run(recipes[1], journey=recipes)
    assert planned["parameters"]["total"] == sum(p.size for p in weights(two[0]).values())
    run_operation(recipes[0])
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| eng_Latn | flite | 1 | 3 | 3.00 |" in card and "| average |" in card


def test_what_is_refused(two, toy, toy_tokenizer, tmp_path):
    text = toy.save(tmp_path / "text", toy.make_model(toy_tokenizer), toy_tokenizer)
    with pytest.raises(ValueError, match="one of .*a and .*text is a speech encoder, the other is not"):
        average_checkpoints(two[0], text, tmp_path / "out")
    with pytest.raises(ValueError, match="a is an encoder: it has no decoder to average"):
        average_checkpoints(*two, tmp_path / "out", part="decoder")
    with pytest.raises(ValueError, match="a is a speech encoder: this operation is for text encoders"):
        prune_checkpoint(two[0], tmp_path / "out", size="half")
    assert not (tmp_path / "out").exists()
