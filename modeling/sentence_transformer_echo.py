"""Writes the files that make a saved folder a SentenceTransformer, and its remote code.

sentence-transformers' own `Transformer` module is enough, because the tokenizer reads language
prompts and the encoder returns the embedding. Users therefore trust the model's code only.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from .language_names_echo import LANGUAGE_NAMES
from .prompting_echo import NAME_END, encoder_prompt

DEFAULT_PROMPT = "unspecified"
NORMALIZE = "sentence_transformers.base.modules.normalize.Normalize"


def sentence_transformer_prompts(
    languages: list[str] | None = None, kind: str = "name"
) -> dict[str, str]:
    """One prompt per language: ``{"unspecified": "Unspecified language:<SEP>", "fra_Latn":
    "French:<SEP>", ...}``.

    "query" and "document", which `encode_query` and other libraries look for, are those of a text
    without language.

    Args:
        kind: as `EchoConfig.prompts`; "tokens": ``{"fra_Latn": "fra_Latn ", ...}``; "none": empty
            prompts, so that the same calls work with every checkpoint.
    """
    plain = encoder_prompt() + NAME_END if kind == "name" else ""
    prompts = {"query": plain, "document": plain}
    if kind == "name":
        prompts[DEFAULT_PROMPT] = plain
        for code in languages or sorted(LANGUAGE_NAMES):
            prompts[code] = encoder_prompt(code) + NAME_END
        return prompts
    for code in languages or []:
        prompts[code] = f"{code} " if kind == "tokens" else ""
    return prompts


def write_sentence_transformer_files(
    folder: str | Path,
    languages: list[str] | None = None,
    *,
    prompts: str = "name",
    modality: str = "text",
    settings: dict[str, Any] | None = None,
) -> None:
    """Write modules.json and the other SentenceTransformer files of an Echo encoder of "text" or
    "audio".

    Args:
        prompts: as in EchoConfig.
        settings: `EchoConfig.sentence_transformer`.
    """
    folder = Path(folder)
    files: dict[str, Any] = {
        "modules.json": [
            {
                "idx": 0,
                "name": "0",
                "path": "",
                "type": "sentence_transformers.base.modules.transformer.Transformer",
                "kwargs": [
                    "on_long"
                ],  # so that encode(on_long=...) reaches EchoEncoder's error message
            }
        ],
        "sentence_bert_config.json": {
            "transformer_task": "feature-extraction",
            "modality_config": {
                modality: {"method": "forward", "method_output_name": "sentence_embedding"}
            },
            "module_output_name": "sentence_embedding",
            "unpad_inputs": False,  # a batch packed into one row would be pooled into one vector
        },
        "config_sentence_transformers.json": {
            "model_type": "SentenceTransformer",
            "prompts": sentence_transformer_prompts(languages, prompts)
            if modality == "text"
            else {},
            "default_prompt_name": None,  # the tokenizer treats a text without prompt like DEFAULT_PROMPT
            "similarity_fn_name": "cosine",
        },
    }
    if settings is not None:
        served = dict(settings)
        if served.pop("normalize", False):
            module = {"idx": 1, "name": "1", "path": "1_Normalize", "type": NORMALIZE}
            files["modules.json"].append(module)
        files["config_sentence_transformers.json"].update(served)
    for name, content in files.items():
        # SentenceTransformer.save writes its settings (prompts, default prompt, similarity) before
        # its modules.
        if name == "config_sentence_transformers.json" and _is_of_sentence_transformers(
            folder / name
        ):
            continue
        (folder / name).write_text(
            json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )


def _is_of_sentence_transformers(file: Path) -> bool:
    return file.is_file() and "__version__" in json.loads(file.read_text(encoding="utf-8"))


def write_remote_code(
    folder: str | Path, *, speech: bool = False, sonar: bool = False, spectrum: bool = False
) -> None:
    """Copy these files beside the weights, so that trust_remote_code=True needs no package.

    The files `*_echo_speech.py` are copied for a speech encoder only, `*_echo_sonar.py` for SONAR
    only, `*_spectrum.py` for Spectrum only.
    """
    here = Path(__file__).parent
    if here.resolve() == Path(folder).resolve():
        return
    files = set(here.glob("*_echo*.py"))
    if not speech:
        files -= set(here.glob("*_echo_speech.py"))
    if not sonar:
        files -= set(here.glob("*_echo_sonar.py"))
    if spectrum:
        files |= set(here.glob("*_spectrum.py"))
    for file in files:
        shutil.copyfile(file, Path(folder) / file.name)
