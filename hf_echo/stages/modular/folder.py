"""The folder of a modular encoder: make it from an encoder, look into it, remove a language."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from ...languages import language
from ...utils.did_you_mean import did_you_mean
from ...utils.files import write_json
from ...utils.folders import write_folder
from ...utils.hub import snapshot
from ...utils.lineage import write_lineage

LANGUAGES, LANGUAGE, SETTINGS = "languages", "language.json", "modular.json"
CODE = "sentence_transformer_modular"


def modular_backbone(
    base: str | Path, output_dir: str | Path, *, pivot: str = "eng_Latn", max_seq_length: int = 128
) -> None:
    """Make a modular encoder without languages from an encoder; its sentence embedding is the mean of its states.

    Args:
        base: folder or Hub name of an encoder with the layers of BERT or XLM-R (LaBSE, multilingual E5, MiniLM), or of
            an Echo checkpoint on such a backbone (MEXMA). Only the backbone is taken: layers behind it are left out.
        pivot: the language that the others are aligned to.

    Raises:
        ValueError: another kind of encoder, or an unknown language.
    """
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling
    from transformers import AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerFast

    from ...modeling import EchoEncoder, EchoTokenizer
    from ...modeling.sentence_transformer_modular import ModularEncoder

    language(pivot)
    if any(Path(output_dir, "languages").glob("*")):
        raise ValueError(f"{output_dir} is a modular encoder with languages: name another folder")
    place = snapshot(base)
    is_echo = PreTrainedConfig.get_config_dict(place)[0].get("model_type") == "echo"
    opened = (EchoEncoder.from_pretrained if is_echo else EchoEncoder.from_backbone)(place, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(place)
    if isinstance(tokenizer, EchoTokenizer):  # a language has its own vocabulary and no prompt
        special, longest = tokenizer.special_tokens_map, tokenizer.model_max_length
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer, **special)
        tokenizer.model_max_length = longest
    module = ModularEncoder(opened.backbone, tokenizer, pivot, max_seq_length)
    pooling = Pooling(module.get_embedding_dimension(), pooling_mode="mean")
    with write_folder(output_dir) as out:
        SentenceTransformer(modules=[module, pooling]).save(str(out), create_model_card=False)
        modules = json.loads((out / "modules.json").read_text(encoding="utf-8"))
        modules[0]["type"] = f"{CODE}.ModularEncoder"  # the file beside it, without this package
        write_json(out / "modules.json", modules)
        values = {"pivot": pivot, "max_seq_length": max_seq_length}
        write_lineage(out, "modular_backbone", values, parents={"model": base}, output_dir=output_dir)


def check_modular(folder: str | Path) -> None:
    if not (Path(folder) / SETTINGS).is_file():
        raise FileNotFoundError(f"{folder} has no {SETTINGS}; give a modular encoder (hf-echo modular start)")


def language_folder(folder: str | Path, code: str) -> Path:
    """The folder of a language that is there.

    Raises:
        FileNotFoundError: this is not a modular encoder. ValueError: it does not have the language.
    """
    check_modular(folder)
    here = languages_of(folder)
    if code not in here:
        names = f"it has {', '.join(here) or 'none'}"
        raise ValueError(f"{folder}: no language {code!r}{did_you_mean(code, here, names)}")
    return Path(folder) / LANGUAGES / code


def languages_of(folder: str | Path) -> list[str]:
    return sorted(p.name for p in (Path(folder) / LANGUAGES).glob("*") if p.is_dir() and not p.name.startswith("."))


def pivot_of(folder: str | Path) -> str:
    return json.loads((Path(folder) / SETTINGS).read_text(encoding="utf-8"))["pivot"]


def aligned_languages(folder: str | Path) -> list[str]:
    """Languages with an alignment adapter: they depend on the pivot's folder."""
    found = []
    for code in languages_of(folder):
        file = Path(folder) / LANGUAGES / code / LANGUAGE
        if file.is_file() and "alignment" in json.loads(file.read_text(encoding="utf-8"))["parts"]:
            found.append(code)
    return found


def check_pivot_is_free(folder: str | Path, code: str) -> None:
    """Raises ValueError for a change of the pivot language while other languages are aligned to it."""
    if code == pivot_of(folder) and (aligned := aligned_languages(folder)):
        raise ValueError(
            f"{code} is the pivot and {', '.join(aligned)} are aligned to it: remove these languages first"
        )


def remove_language(folder: str | Path, code: str) -> None:
    """Delete the folder of a language; no other file changes.

    Raises:
        FileNotFoundError: this is not a modular encoder.
        ValueError: it does not have the language, or others are aligned to it.
    """
    place = language_folder(folder, code)
    check_pivot_is_free(folder, code)
    shutil.rmtree(place)
