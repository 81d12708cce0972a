"""The folder of a modular encoder: make it from an encoder, look into it.

Deleting `languages/CODE` removes a language; only languages that are aligned to it depend on it.
"""

from __future__ import annotations

from pathlib import Path

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


def languages_of(folder: str | Path) -> list[str]:
    languages = []
    for place in Path(folder, LANGUAGES).glob("*"):
        if place.is_dir() and not place.name.startswith("."):  # one that is being written has a dot
            languages.append(place.name)
    return sorted(languages)


def pivot_of(folder: str | Path) -> str:
    return read_json(Path(folder) / SETTINGS)["pivot"]
