"""A release: encoder in the root folder, decoder in `decoder/`, tokenizer, lineage and card, ready
for the Hub.

A folder saved by transformers carries the model code, so that it opens without this package.
Checkpoints inside the package need no copy of the code (`code="installed"`).
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import GenerationConfig

from ..cards.model_card import checkpoint_card, write_checkpoint_card
from ..checkpoints.few_bits import store_few_bits
from ..checkpoints.open_text import encoder_of, open_checkpoint
from ..data.leaks import REPORT
from ..export.folder import GRAPHS, check_packages
from ..export.stock import open_stock, write_stock
from ..inference.encode import open_tokenizer, opening, pick_dtype
from ..inference.encode_speech import load_speech_encoder
from ..inference.translate import load_translator
from ..modeling import EchoForTranslation
from ..modeling.modeling_echo_base import DECODER_FOLDER
from ..utils.adapter_base import base_of, is_adapter
from ..utils.did_you_mean import did_you_mean
from ..utils.files import read_json, write_json
from ..utils.fingerprint import write_checksums
from ..utils.folders import write_folder
from ..utils.hub import snapshot
from ..utils.lineage import FILE, all_steps, portable, read_lineage, write_lineage
from ..utils.speech_data import read_speech_data, write_speech_data

LOADED_BY_NAME = ("EchoConfig", "EchoEncoder", "EchoForTranslation", "EchoTokenizer")
SHOWN_OF_LEAKS = ("train", "test", "test_texts", "leaks")
SPEECH_BY_NAME = (
    "EchoSpeechConfig",
    "EchoSpeechEncoder",
    "EchoSpeechForTranslation",
    "EchoAudioFeatureExtractor",
)


def release_checkpoint(  # noqa: PLR0913 (the options of `hf-echo release`)
    model: str | Path,
    out: str | Path,
    *,
    dtype: str = "fp32",
    matrix_dtype: str | None = None,
    token_dtype: str | None = None,
    generation: Mapping[str, Any] | None = None,
    code: str = "carried",
    also: str | None = None,
    license: str | None = None,
    leaks: str | Path | None = None,
) -> Path:
    """Write the release of a training checkpoint, with a card written from the lineage, or its own
    if that was changed.

    Arguments as in `hf-echo release --help`. "int8" has a scale per row, "int4" per 32 values
    (convolutions have 8 bits); they load in `dtype`. `leaks` is a report of `hf-echo data leaks`.
    """
    kinds = {"matrix_dtype": matrix_dtype, "token_dtype": token_dtype}
    settings = {"dtype": dtype, **kinds, "generation": dict(generation or {}), "code": code}
    if license:
        settings["license"] = license
    if also:
        check_packages(also)
    found_leaks = leak_reports(model, leaks)
    whole = open_checkpoint(model)
    encoder = encoder_of(whole)
    decoder = None
    counts: dict[str, Any] = {"encoder_parameters": encoder.num_parameters()}
    if isinstance(whole, EchoForTranslation):
        decoder = whole.decoder
        counts["decoder_parameters"] = decoder.num_parameters()
        set_generation(whole.generation_config, settings["generation"])
    elif generation:
        raise ValueError(f"{model} holds an encoder only: leave generation={generation!r} out")
    with opening(model) as place:
        # The decoder's own tokenizer, if it has one, stands beside the base.
        base = base_of(model) if is_adapter(model) else place
        tokenizer = open_tokenizer(place).open_target(base)
    # The dtype of the release; matrices in few bits are made of these weights below.
    whole.to(pick_dtype(dtype, "cpu"))
    out = Path(out)
    with write_folder(out) as folder:
        encoder.save_pretrained(folder)
        if decoder is not None:
            decoder.save_pretrained(folder / DECODER_FOLDER)
        store_few_bits(folder, matrix_dtype, token_dtype)
        tokenizer.save_pretrained(folder)
        if tokenizer.target is not tokenizer:
            tokenizer.target.save_pretrained(folder / DECODER_FOLDER)
        for file in folder.rglob("tokenizer.json"):
            write_compact(file)
        if code == "installed":
            leave_code_out(folder)
        if also:
            stock = open_stock(model)
            counts |= GRAPHS[also](stock, folder / also)
            # Optimum reads no code of transformers 5.
            write_stock(stock, folder / also, weights=False)
            settings["also"] = also
        if found_leaks:
            counts["leaks"] = found_leaks
        write_lineage(
            folder,
            "release",
            settings,
            parents={"model": model},
            data={"leaks": leaks},
            results=counts,
            output_dir=out,
        )
        # The card comes last: it may be changed later, so that it has no checksum.
        write_checksums(folder)
        copy_own_card(model, folder)
        write_checkpoint_card(folder, license)
    return out


def release_speech(
    model: str | Path,
    out: str | Path,
    *,
    decoder: str | Path | None = None,
    dtype: str = "fp32",
    matrix_dtype: str | None = None,
    code: str = "carried",
    license: str | None = None,
    leaks: str | Path | None = None,
) -> Path:
    """Write the release of a speech encoder, with the decoder and tokenizer of a checkpoint of its
    text space, or none."""
    found_leaks = leak_reports(model, leaks)
    encoder, extractor = load_speech_encoder(model, device="cpu", dtype="fp32")
    encoder.to(pick_dtype(dtype, "cpu"))
    parents = {"model": model}
    translator = None
    if decoder is not None:
        translator, tokenizer = load_translator(decoder, device="cpu", dtype="fp32")
        # The decoder must read vectors of the size that the encoder writes.
        written = encoder.config.embedding_size
        read = translator.decoder.config.embedding_size
        if written != read:
            raise ValueError(
                f"{model} writes {written} dimensions and the decoder of {decoder} reads {read}"
            )
        translator.decoder.to(pick_dtype(dtype, "cpu"))
        parents["decoder"] = decoder
    with write_folder(out) as folder:
        encoder.save_pretrained(folder)
        extractor.save_pretrained(folder)
        if translator is not None:
            translator.decoder.save_pretrained(folder / DECODER_FOLDER)
            # Not in the root: sentence-transformers would take the tokenizer for the encoder's
            # processor.
            tokenizer.save_pretrained(folder / DECODER_FOLDER)
            write_compact(folder / DECODER_FOLDER / "tokenizer.json")
        store_few_bits(folder, matrix_dtype, None)
        if code == "installed":
            leave_code_out(folder, SPEECH_BY_NAME)
        settings = {"dtype": dtype, "matrix_dtype": matrix_dtype, "code": code, "license": license}
        write_lineage(
            folder,
            "release",
            settings,
            parents=parents,
            data={"leaks": leaks},
            results={"leaks": found_leaks} if found_leaks else None,
            output_dir=out,
        )
        write_speech_data(folder, read_speech_data(model))
        write_checksums(folder)
        write_checkpoint_card(folder)
    return Path(out)


def leak_reports(model: str | Path, given: str | Path | None) -> list[dict[str, Any]]:
    """Which test sentences stand in the training text: {train, test, test_texts, leaks} of each
    report.

    Args:
        given: a report of `hf-echo data leaks --json`; None: those that `collect_data` wrote beside
            the training data of the model's steps, as far as they are still there.

    Raises:
        FileNotFoundError: no such file. ValueError: it is no such report.
    """
    files = [] if given is None else [Path(given)]
    if given is None:
        for step in all_steps(read_lineage(model)).values():
            beside = Path(str(step["values"].get("train_data"))).parent / REPORT
            if beside.is_file() and beside not in files:
                files.append(beside)
    reports = []
    for file in files:
        report = read_json(file)
        if not isinstance(report, dict) or not set(SHOWN_OF_LEAKS) <= set(report):
            raise ValueError(f"{file} is not a report of hf-echo data leaks TRAIN TEST --json FILE")
        reports.append(portable({name: report[name] for name in SHOWN_OF_LEAKS}))
    return reports


def copy_own_card(model: str | Path, folder: Path) -> None:
    """Copy the card of a checkpoint where somebody changed it;
    one that was only written from its lineage is not."""
    place = Path(snapshot(model))
    card = place / "README.md"
    if not card.exists():
        return
    has_lineage = (place / FILE).exists()
    if not has_lineage or card.read_text(encoding="utf-8") != checkpoint_card(place):
        shutil.copy(card, folder / "README.md")


def set_generation(config: GenerationConfig, settings: Mapping[str, Any]) -> None:
    """Set fields of a generation configuration;
    raises ValueError for a field that it does not have."""
    names = [name for name in config.to_dict() if not name.startswith("_")]
    names.append("rerank_weight")  # ours
    for name, value in settings.items():
        if name not in names:
            raise ValueError(f"generation: unknown setting {name!r}{did_you_mean(name, names)}")
        setattr(config, name, value)
    # Otherwise transformers drops fields that are not its own when it reads the file.
    config._from_model_config = False


def write_compact(file: Path) -> None:
    """Rewrite a JSON file without line breaks and spaces:
    a tokenizer.json is half as large then."""
    if file.exists():
        file.write_text(
            json.dumps(read_json(file), ensure_ascii=False, separators=(",", ":")), encoding="utf-8"
        )


def leave_code_out(folder: Path, names: Sequence[str] = LOADED_BY_NAME) -> None:
    """Remove the model code from a folder that the installed package reads;
    a checkpoint saved from it has it again."""
    for file in folder.rglob("*.py"):
        file.unlink()
    (folder / "installed_echo.py").write_text(
        '"""For trust_remote_code=True: the code of this checkpoint is the installed package."""\n\n'
        f"from hf_echo.modeling import {', '.join(names)}  # noqa: F401\n"
    )
    # Classes of the root are found in that file; the decoder's folder is opened by the package.
    configs = list(folder.rglob("config.json"))
    for name in ("tokenizer_config.json", "preprocessor_config.json"):
        if (folder / name).exists():
            configs.append(folder / name)
    for file in configs:
        config = read_json(file)
        config.pop("custom_pipelines", None)
        auto_map = config.pop("auto_map")
        if file.parent == folder:
            text = re.sub(r'"\w+\.(Echo\w+)"', r'"installed_echo.\1"', json.dumps(auto_map))
            config["auto_map"] = json.loads(text)
        write_json(file, config)
