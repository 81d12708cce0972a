"""The files that make a saved folder a SentenceTransformer, and its own remote code.

sentence-transformers' stock `Transformer` module is enough: the tokenizer understands language prompts, the encoder
returns the embedding, so nothing of ours has to be trusted beyond the model itself.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from .language_names_echo import LANGUAGE_NAMES
from .prompting_echo import PROMPT_END, encoder_prompt

DEFAULT_PROMPT = "unspecified"


def sentence_transformer_prompts(languages: list[str] | None = None) -> dict[str, str]:
    """One prompt a language: ``{"unspecified": "Unspecified language:\\x1f", "fra_Latn": "French:\\x1f", ...}``."""
    codes = languages or sorted(LANGUAGE_NAMES)
    return {DEFAULT_PROMPT: encoder_prompt() + PROMPT_END} | {c: encoder_prompt(c) + PROMPT_END for c in codes}


def write_sentence_transformer_files(
    folder: str | Path, languages: list[str] | None = None, *, modality: str = "text"
) -> None:
    """Write modules.json and its companions into a folder that holds an Echo encoder of "text" or "audio"."""
    folder = Path(folder)
    files = {
        "modules.json": [
            {
                "idx": 0,
                "name": "0",
                "path": "",
                "type": "sentence_transformers.base.modules.transformer.Transformer",
                "kwargs": ["on_long"],  # or encode(on_long=...) would fail without saying what to use
            }
        ],
        "sentence_bert_config.json": {
            "transformer_task": "feature-extraction",
            "modality_config": {modality: {"method": "forward", "method_output_name": "sentence_embedding"}},
            "module_output_name": "sentence_embedding",
            "unpad_inputs": False,  # one packed row would be pooled into one vector
        },
        "config_sentence_transformers.json": {
            "model_type": "SentenceTransformer",
            "prompts": sentence_transformer_prompts(languages) if modality == "text" else {},
            "default_prompt_name": None,  # the tokenizer reads a text without prompt as DEFAULT_PROMPT
            "similarity_fn_name": "cosine",
        },
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_remote_code(folder: str | Path) -> None:
    """Copy these files beside the weights, so that trust_remote_code=True needs no package."""
    here = Path(__file__).parent
    for file in here.glob("*_echo*.py"):
        if file.parent.resolve() != Path(folder).resolve():
            shutil.copyfile(file, Path(folder) / file.name)
