"""The code of every kind of card, pushed to a Hub on this machine and run from there,
without the package if it can."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import DatasetCard, ModelCard, RepoCard
from transformers import BertConfig, BertModel, Wav2Vec2BertConfig, Wav2Vec2BertModel, WhisperModel

import hf_echo
from hf_echo.cards.model_card import write_checkpoint_card
from hf_echo.checkpoints import convert_blaser, convert_mexma, convert_wav2vec2, convert_whisper
from hf_echo.hub.dataset_card import write_card
from hf_echo.hub.release import release_checkpoint, release_speech
from hf_echo.hub.upload_checks import kind_of
from hf_echo.stages.modular import add_language, modular_backbone
from hf_echo.steps.recipe import find_recipes
from hf_echo.utils.lineage import write_lineage

from .. import sonar_toy, toy
from ..checkpoints.published.test_from_blaser import published
from ..checkpoints.published.test_from_whisper import toy_config
from ..modeling.spectrum_toy import make_spectrum
from ..speech_toy import save_random_encoder

pytestmark = pytest.mark.slow  # thirteen models are made, pushed and opened

BLOCK = re.compile(r"^```python\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
VERSION, LICENSE = "1.2.0", "mit"
POOLER = dict(embedding_size=12, pooler_heads=4, pooler_layers=1)


def trained(place: Path) -> Path:
    """A training checkpoint as the stages leave it: lineage, card, no decoder folder."""
    tokenizer = toy.make_tokenizer()
    toy.save(place / "trained", toy.make_model(tokenizer), tokenizer)
    run = {
        "stage": "seq2seq",
        "values": {"output_dir": "o/trained", "license": LICENSE},
        "from": None,
    }
    (place / "trained" / "recipe.json").write_text(json.dumps(run))
    write_checkpoint_card(place / "trained")
    return place / "trained"


def released(place: Path) -> Path:
    return release_checkpoint(trained(place), place / "release")


def mexma(place: Path) -> Path:
    tokenizer = toy.plain_tokenizer()
    toy.plain_encoder(tokenizer).save_pretrained(place / "weights")
    tokenizer.save_pretrained(place / "tokenizer")
    return convert_mexma(
        place / "weights", place / "mexma", tokenizer=place / "tokenizer", license=LICENSE
    )


def blaser(kind: str):
    return lambda place: convert_blaser(published(kind, place)[0], place / "blaser")


def wav2vec2(place: Path) -> Path:
    sizes = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4)
    Wav2Vec2BertModel(Wav2Vec2BertConfig(**sizes)).save_pretrained(place / "audio")
    return convert_wav2vec2(place / "audio", place / "wav2vec2", license=LICENSE, **POOLER)


def whisper(place: Path) -> Path:
    WhisperModel(toy_config()).save_pretrained(place / "audio")
    return convert_whisper(place / "audio", place / "whisper", license=LICENSE, **POOLER)


def speech(place: Path) -> Path:
    spoken = save_random_encoder(place / "speech", 32)
    return release_speech(spoken, place / "spoken", decoder=released(place), license=LICENSE)


def spectrum(place: Path) -> Path:
    tokenizer = toy.make_tokenizer()
    folder = toy.save(
        place / "spectrum", make_spectrum(decoder={"vocab_size": len(tokenizer)}), tokenizer
    )
    write_lineage(
        folder,
        "spectrum_prefix",
        {"license": LICENSE, "teacher": "org/encoder"},
        parents={"model": folder},
    )
    write_checkpoint_card(folder)
    return folder


def modular(place: Path) -> Path:
    """A modular encoder of one language with its card."""
    tokenizer = toy.plain_tokenizer()
    sizes = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
    toy.save(place / "base", BertModel(BertConfig(vocab_size=len(tokenizer), **sizes)), tokenizer)
    modular_backbone(place / "base", place / "modular")
    add_language(place / "modular", "eng_Latn")  # the pivot needs no training
    write_checkpoint_card(place / "modular", LICENSE)
    return place / "modular"


def dataset(place: Path) -> Path:
    rows = toy.parallel_rows()[:20]
    (place / "data" / "data").mkdir(parents=True)
    pq.write_table(
        pa.Table.from_pylist(rows), place / "data" / "data" / "train-00000-of-00001.parquet"
    )
    write_card(place / "data", version=VERSION, license=LICENSE)
    return place / "data"


TOYS = (trained, released, mexma, wav2vec2, whisper, speech, spectrum, modular, dataset)
CARDS = {make.__name__: make for make in TOYS} | {
    "echo-nano": lambda place: hf_echo.pretrained("echo-nano"),
    "sonar": lambda place: sonar_toy.convert(place / "sonar"),
    "blaser-ref": blaser("ref"),
    "blaser-qe": blaser("qe"),
}
# The others run where the package cannot be imported.
NEED_THE_PACKAGE = ("echo-nano", "speech")


@pytest.fixture(scope="module")
def pushed(on_the_hub, tmp_path_factory) -> dict[str, dict]:
    """{name: {"status", "text", "result", "blocks", "shapes"}} of every card, from the Hub."""
    folders = {}
    for name, make in CARDS.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(tmp_path_factory.mktemp(name))  # a lineage with absolute paths is refused
            folders[name] = str(Path(make(Path("."))).resolve())
    copies = tmp_path_factory.mktemp("copies")
    statuses = on_the_hub("push_cards.py", json.dumps(folders), copies)

    # The blocks of each card, with the package or without it.
    cards = {name: {"status": status} for name, status in statuses.items()}
    kinds: dict[str, dict[str, str]] = {"with": {}, "without": {}}
    for name, folder in folders.items():
        if statuses[name] == "pushed":
            package = "with" if name in NEED_THE_PACKAGE else "without"
            kinds[package][name] = kind_of(folder)
    for package, kinds_of_cards in kinds.items():
        words = [package, json.dumps(kinds_of_cards), BLOCK.pattern]
        for name, result in on_the_hub("run_hub_cards.py", *words).items():
            cards[name] |= result
    return cards


@pytest.mark.parametrize("name", CARDS)
def test_the_code_of_a_card_runs_from_the_hub(pushed, name):
    card = pushed[name]
    assert card["status"] == "pushed"
    assert card["result"] == "ran", card["result"]
    assert card["blocks"] > 0
    parsed = {"dataset": DatasetCard}.get(name, ModelCard)(card["text"])
    assert parsed.data.to_dict()["license"] in (
        LICENSE,
        "cc-by-nc-4.0",
        "cc-by-sa-4.0",
        "apache-2.0",
    )
    assert "THIS_" not in card["text"]
    if name != "echo-nano":  # its card names the package
        for code in BLOCK.findall(card["text"]):
            assert f'"tester/{name}"' in code
            assert code.count(f'revision="v{VERSION}"') == code.count(f'"tester/{name}"')


def test_what_the_cards_give(pushed):
    """Rows and dimensions of the toys: a card that opened another model would give others."""
    shapes = {name: card.get("shapes") for name, card in pushed.items()}
    for name, rows in {"trained": 1, "released": 1, "mexma": 2, "modular": 1}.items():
        assert shapes[name] == {"vectors": [rows, 32]}, name
    assert shapes["wav2vec2"] == shapes["whisper"] == {"vectors": [1, 12]}
    assert shapes["speech"] == {"vectors": [1, 32]}
    assert shapes["blaser-ref"] == shapes["blaser-qe"] == {"scores": [5]}


def test_recipes_that_cards_name(pushed):
    commands = {
        name: re.findall(r"`hf-echo train ([\w/-]+)", card["text"]) for name, card in pushed.items()
    }
    assert commands["wav2vec2"] == ["speech-large"]
    assert commands["whisper"] == ["echo-nano-speech/02_pooling"]
    assert all(find_recipes(recipe) for recipes in commands.values() for recipe in recipes)


def test_licenses_of_the_sources(pushed):
    licenses = {name: RepoCard(card["text"]).data.license for name, card in pushed.items()}
    assert licenses["sonar"] == licenses["blaser-qe"] == "cc-by-nc-4.0"
    assert {
        licenses[name] for name in ("trained", "released", "speech", "spectrum", "modular")
    } == {LICENSE}


REPORT = {"train": "data/train.parquet", "test": "corpora/test", "test_texts": 12345, "leaks": 67}


def test_a_release_shows_the_leaks_of_its_training_data(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "leaks.json").write_text(json.dumps(REPORT))
    model = trained(tmp_path)
    lineage = json.loads((model / "recipe.json").read_text())
    lineage["values"]["train_data"] = str(tmp_path / "data" / "train.parquet")
    (model / "recipe.json").write_text(json.dumps(lineage))

    card = (release_checkpoint(model, tmp_path / "release") / "README.md").read_text()

    assert "| data/train.parquet | corpora/test | 12,345 | 67 |" in card


def test_a_release_shows_the_leaks_of_a_report(tmp_path):
    (tmp_path / "report.json").write_text(json.dumps(REPORT))
    out = release_checkpoint(
        trained(tmp_path), tmp_path / "release", leaks=tmp_path / "report.json"
    )
    assert "| data/train.parquet | corpora/test | 12,345 | 67 |" in (out / "README.md").read_text()


def test_another_json_file_is_no_report_of_leaks(tmp_path):
    (tmp_path / "report.json").write_text('{"leaks": 3}')
    with pytest.raises(ValueError, match="is not a report of hf-echo data leaks"):
        release_checkpoint(trained(tmp_path), tmp_path / "release", leaks=tmp_path / "report.json")


def test_a_card_without_a_check_says_nothing_of_leaks(tmp_path):
    assert "Test sentences" not in (released(tmp_path) / "README.md").read_text()
