"""The folder of a modular encoder: make it from an encoder, look into it.

Deleting `languages/CODE` removes a language; only languages that are aligned to it depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...languages import ENGLISH, language
from ...utils.files import read_json, write_json
from ...utils.folders import write_folder
from ...utils.hub import snapshot
from ...utils.lineage import write_lineage

LANGUAGES = "languages"
SETTINGS = "modular.json"
CODE = "sentence_transformer_modular"


def modular_backbone(
    base: str | Path, output_dir: str | Path, *, pivot: str = ENGLISH, max_seq_length: int = 128
) -> None:
    """Make a modular encoder without languages from an encoder; its sentence embedding is the mean
    of its states.

    `base` has the layers of BERT or XLM-R (LaBSE, multilingual E5, MiniLM), or is an Echo
    checkpoint on such a backbone (MEXMA). Only the backbone is taken. The other languages are
    aligned to `pivot`.

    Raises:
        ValueError: another kind of encoder, or an unknown language.
    """
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling
    from transformers import AutoTokenizer, PreTrainedConfig

    from ...modeling import EchoEncoder, EchoTokenizer
    from ...modeling.sentence_transformer_modular import ModularEncoder, plain

    language(pivot)
    if any(Path(output_dir, "languages").glob("*")):
        raise ValueError(f"{output_dir} is a modular encoder with languages: name another folder")
    # The backbone alone, of an Echo checkpoint or of any encoder.
    place = snapshot(base)
    config, _ = PreTrainedConfig.get_config_dict(place)
    if config.get("model_type") == "echo":
        encoder = EchoEncoder.from_pretrained(place, dtype=torch.float32)
    else:
        encoder = EchoEncoder.from_backbone(place, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(place)
    if isinstance(tokenizer, EchoTokenizer):
        tokenizer = plain(tokenizer)
    module = ModularEncoder(encoder.backbone, tokenizer, pivot, max_seq_length)
    pooling = Pooling(module.get_embedding_dimension(), pooling_mode="mean")
    # A SentenceTransformer whose module is the file beside it.
    with write_folder(output_dir) as out:
        SentenceTransformer(modules=[module, pooling]).save(str(out), create_model_card=False)
        modules = read_json(out / "modules.json")
        modules[0]["type"] = f"{CODE}.ModularEncoder"  # the file beside it, without this package
        write_json(out / "modules.json", modules)
        values = {"pivot": pivot, "max_seq_length": max_seq_length}
        write_lineage(
            out, "modular_backbone", values, parents={"model": base}, output_dir=output_dir
        )


def check_modular(folder: str | Path) -> None:
    if not (Path(folder) / SETTINGS).is_file():
        raise FileNotFoundError(
            f"{folder} has no {SETTINGS}; give a modular encoder (hf-echo modular start)"
        )


def check_addition(
    folder: str | Path,
    code: str,
    data: Mapping[str, Any],
    spelled: Callable[[str], str] = str,
) -> None:
    """Check all that adding a language needs, before a model or a file is read.

    Args:
        data: the files of `add_language` by the name of their argument; None where there is none.
        spelled: how messages name an argument, such as "--texts" on a command line.

    Raises:
        FileNotFoundError: `folder` is no modular encoder, or a file is missing.
        ValueError: an unknown language, or one that is there; no data; alignment data for the pivot
            language, or before it is there.
    """
    check_modular(folder)
    language(code)
    pivot = pivot_of(folder)
    languages = languages_of(folder)
    if code in languages:
        raise ValueError(f"{folder} has {code} already: remove its folder {LANGUAGES}/{code} first")
    # Data of two languages need the pivot; the pivot has none of them.
    for name in ("cross_paraphrases", "parallel"):
        if data[name] is None:
            continue
        if code == pivot:
            raise ValueError(
                f"{code} is the pivot, which is not aligned: leave out {spelled(name)}"
            )
        if pivot not in languages:
            raise ValueError(
                f"{folder} does not have the pivot {pivot} yet: add {pivot} first, then align {code}"
            )
    if all(file is None for file in data.values()) and code != pivot:
        *names, last = [spelled(name) for name in data]
        raise ValueError(f"nothing to train {code} on: give {', '.join(names)} or {last}")
    for name, file in data.items():
        if file is not None and not Path(file).exists():
            raise FileNotFoundError(f"{spelled(name)}: no file {file}")


def languages_of(folder: str | Path) -> list[str]:
    languages = []
    for place in Path(folder, LANGUAGES).glob("*"):
        if place.is_dir() and not place.name.startswith("."):  # one that is being written has a dot
            languages.append(place.name)
    return sorted(languages)


def pivot_of(folder: str | Path) -> str:
    return read_json(Path(folder) / SETTINGS)["pivot"]
