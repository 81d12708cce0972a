"""What a published SentenceTransformer says beside its weights, and whether an Echo checkpoint can
say the same.

sentence-transformers itself opens the folder, so that old names, layouts and defaults mean what
they mean there. What an Echo checkpoint cannot hold is refused by its name; what this file does not
know is found by `check_vectors`, which compares vectors of both.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import CONFIG_MAPPING, PreTrainedConfig, PreTrainedTokenizerBase
from transformers.utils import cached_file

from ...inference.encode import encode
from ...modeling import EchoConfig, EchoEncoder, EchoTokenizer
from ...modeling.modeling_echo_encoder import config_of_backbone
from ...modeling.pooling_echo import POOLINGS, pooling_of_module
from ...utils.files import first_line, read_json
from ...utils.hub import auto_map_names
from ...utils.quiet import opening_quietly

LIBRARY = "sentence_transformers."  # the package of modules that need no code of their own
# modules that an Echo checkpoint has a place for
HELD = ("Transformer", "Pooling", "Dense", "Normalize")
WAYS_OUT = {
    "StaticEmbedding": "it is a table of token vectors without layers; hf-echo encode and mine open it as it is",
    "Router": "it has one model for each kind of text; convert the model in one of its folders",
}
PROBES = (
    "The cat sleeps.",
    "a",
    "Le CHAT dort, et Émile regarde par la fenêtre !",
    "猫はマットの上で眠っています。",
    "Мама мыла раму, а кот спал. " * 3,
    "One two three four five six seven, and so on until the text is long. " * 40,
)
LEAST_COSINE = {torch.float32: 0.9999}
LEAST_COSINE_OF_HALF = 0.99  # of 16-bit weights, which every order of sums rounds in another way


@dataclass
class Modules:
    """What stands around the transformer of a SentenceTransformer.

    Attributes:
        subfolder: of the transformer in the repository; "" is its root.
        pooling: a name in `POOLINGS`.
        dense: the Dense modules as one projection, or None.
        normalizes: whether embeddings have length 1.
    """

    subfolder: str
    pooling: str
    dense: Projection | None
    normalizes: bool


@dataclass
class FinishedModel:
    """How a SentenceTransformer reads texts and what it gives.

    Attributes:
        part: "encoder" of an encoder-decoder, as sentence-transformers opens it.
        tokenizer: with its longest text, its lower case and the side where it cuts.
        served: `EchoConfig.sentence_transformer`.
        dtype: of the weights.
        vectors: (len(PROBES), size) float32, its embeddings of `PROBES`.
    """

    part: str | None
    tokenizer: PreTrainedTokenizerBase
    served: dict[str, Any]
    dtype: torch.dtype
    vectors: np.ndarray


@dataclass
class Projection:
    """A linear map (out, in), with or without a bias (out,), and a tanh or none behind it."""

    weight: Tensor
    bias: Tensor | None
    tanh: bool

    @property
    def kind(self) -> str:
        """As `EchoConfig.projection`."""
        if self.tanh:
            return "tanh"
        return "linear" if self.bias is None else "affine"

    def state_dict(self) -> dict[str, Tensor]:
        """As that of `EchoProjection`."""
        tensors = {"weight": self.weight}
        if self.bias is not None:
            tensors["bias"] = self.bias
        return tensors


def read_modules(place: str, attention: str) -> Modules | None:
    """The modules of a SentenceTransformer in a folder or on the Hub; None without modules.json, or
    of an Echo model.

    Args:
        attention: "own" refuses code beside a model type of transformers; see `refuse_own_code`.

    Raises:
        ValueError: a module or code that an Echo checkpoint has no place for.
    """
    # Adapters and code of its own are refused by the files that name them.
    entries = json_of(place, "modules.json")
    refuse_adapter(place, "")
    if entries is None:
        return None
    for entry in entries:
        refuse_module(place, entry["type"])
    subfolder = entries[0]["path"]
    refuse_adapter(place, subfolder)
    config = json_of(place, "config.json", subfolder)
    if config is None:
        raise ValueError(f"{Path(place, subfolder)} has no config.json: it is not a whole model")
    if config.get("model_type") == EchoConfig.model_type:
        return None
    refuse_own_code(place, attention, {"subfolder": subfolder})
    tokenizer_settings = json_of(place, "tokenizer_config.json", subfolder) or {}
    for class_name in auto_map_names(tokenizer_settings):
        raise misfit(place, f"a tokenizer with code of its own ({class_name})")

    from sentence_transformers.base.modules import Dense, Normalize
    from sentence_transformers.sentence_transformer.modules import Pooling

    # Transformer and pooling, then linear maps and a normalisation.
    kinds = [entry["type"].rpartition(".")[2] for entry in entries]
    if kinds[:2] != ["Transformer", "Pooling"]:
        raise misfit(place, f"another order than Transformer, Pooling ({', '.join(kinds)})")
    pooling = known_pooling(place, Pooling.load(place, subfolder=entries[1]["path"]))
    modules_behind = []
    for kind, entry in zip(kinds[2:], entries[2:], strict=True):
        if kind not in ("Dense", "Normalize"):
            raise misfit(place, f"the module {kind} behind the pooling")
        module_class: Any = Dense if kind == "Dense" else Normalize
        modules_behind.append(module_class.load(place, subfolder=entry["path"]))
    dense, normalizes = projection_of(place, modules_behind)
    return Modules(subfolder, pooling, dense, normalizes)


def open_finished(place: str, modules: Modules) -> FinishedModel:
    """The rest of a SentenceTransformer, opened by sentence-transformers.

    Raises:
        ValueError: it cannot be opened, or has settings that an Echo checkpoint has no place for.
    """
    from sentence_transformers import SentenceTransformer

    try:
        with opening_quietly():
            model = SentenceTransformer(place, device="cpu")
    except Exception as error:  # whatever its modules, transformers and tokenizers raise
        raise ValueError(
            f"sentence-transformers cannot open {place}: {first_line(error)}"
        ) from error
    transformer = model[0]
    prompts = {name: text for name, text in (model.prompts or {}).items() if text is not None}
    served: dict[str, Any] = {
        "prompts": prompts,
        "default_prompt_name": model.default_prompt_name,
        "similarity_fn_name": str(model.similarity_fn_name),
        "normalize": modules.normalizes,
    }
    if model.truncate_dim is not None:
        served["truncate_dim"] = model.truncate_dim
    return FinishedModel(
        part="encoder" if type(transformer.config).is_encoder_decoder else None,
        tokenizer=transformer.tokenizer,
        served=served,
        dtype=transformer.model.dtype,
        vectors=model.encode(list(PROBES), show_progress_bar=False).astype(np.float32),
    )


def misfit(place: str, part: str) -> ValueError:
    return ValueError(
        f"{place}: {part} has no place in an Echo checkpoint; give a model without it"
    )


def refuse_adapter(place: str, subfolder: str) -> None:
    """Raises ValueError for a folder that holds the adapter of another model instead of a model."""
    adapter = json_of(place, "adapter_config.json", subfolder)
    if adapter is not None:
        base = adapter.get("base_model_name_or_path")
        raise ValueError(
            f"{place} is a {adapter.get('peft_type', 'LoRA')} adapter of {base}, not a whole model: "
            "merge the two first (merge_and_unload of peft), save the result, and convert that"
        )


def refuse_own_code(place: str, attention: str, options: Mapping[str, str]) -> None:
    """Raises ValueError for a model that needs code of its own;
    `options` are those of `from_pretrained`."""
    values, _ = PreTrainedConfig.get_config_dict(place, **options)
    model_type = values.get("model_type")
    if model_type not in CONFIG_MAPPING:
        raise ValueError(
            f"{place} is a model of type {model_type!r}, whose own code an Echo checkpoint cannot carry"
        )
    if attention == "own":
        config_of_backbone(
            place, attention, {"revision": None, "trust_remote_code": False, **options}
        )


def refuse_module(place: str, class_name: str) -> None:
    """Raises ValueError for a module that is not one of sentence-transformers,
    or that Echo checkpoints lack."""
    kind = class_name.rpartition(".")[2]
    if not class_name.startswith(LIBRARY):
        raise misfit(place, f"the module {class_name}, which is code of its own,")
    if kind in WAYS_OUT:
        raise ValueError(
            f"{place}: the module {kind} has no place in an Echo checkpoint: {WAYS_OUT[kind]}"
        )
    if kind not in HELD:
        raise misfit(place, f"the module {kind}")


def known_pooling(place: str, pooling: Any) -> str:
    """Our name of a module Pooling."""
    # `check_vectors` compares texts without a prompt.
    if not pooling.include_prompt:
        raise misfit(place, "pooling without the prompt")
    name = pooling_of_module(pooling.pooling_mode)
    if name is None:
        raise misfit(place, f"pooling {pooling.pooling_mode!r} (there are {', '.join(POOLINGS)})")
    return name


def projection_of(place: str, modules: Sequence[nn.Module]) -> tuple[Projection | None, bool]:
    """(what the modules Dense compute, as one linear map; whether the embedding has length 1).

    A Normalize in front of linear maps without a bias changes lengths alone, so it may be left out
    there.
    """
    projection = None
    normalizes = False
    for module in modules:
        if type(module).__name__ == "Normalize":
            normalizes = True
            continue
        activation = type(module.activation_function)
        if module.use_residual:
            raise misfit(place, "a Dense with a residual path")
        if activation not in (nn.Identity, nn.Tanh):
            raise misfit(place, f"a Dense with {activation.__name__}")
        normalizes = False
        projection = composed(projection, module.linear, tanh=activation is nn.Tanh)
    return projection, normalizes


def composed(first: Projection | None, second: nn.Linear, *, tanh: bool) -> Projection:
    """One linear map that computes the same as `first` and then `second`;
    a tanh comes with a bias."""
    weight = second.weight.detach()
    bias = None if second.bias is None else second.bias.detach()
    if first is not None:
        if first.bias is not None:
            moved = weight.double() @ first.bias.double()
            bias = (moved if bias is None else moved + bias.double()).to(weight.dtype)
        weight = (weight.double() @ first.weight.double()).to(weight.dtype)
    if tanh and bias is None:
        bias = weight.new_zeros(len(weight))
    return Projection(weight, bias, tanh)


def check_vectors(
    place: str, model: FinishedModel, encoder: EchoEncoder, tokenizer: EchoTokenizer
) -> None:
    """Compare the embeddings of `PROBES` by the checkpoint with those of the SentenceTransformer.

    Raises:
        ValueError: a cosine is too small.
    """
    reports_long_texts = logging.getLogger(encode.__module__)
    reports_long_texts.disabled = True  # one of the probes is long, to see where it is cut
    try:
        vectors = encode(encoder, tokenizer, list(PROBES))
    finally:
        reports_long_texts.disabled = False
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(model.vectors, axis=1)
    cosines = (vectors * model.vectors).sum(1) / np.maximum(lengths, 1e-30)
    least = LEAST_COSINE.get(model.dtype, LEAST_COSINE_OF_HALF)
    if not cosines.min() >= least:
        raise ValueError(
            f"{place}: the converted model would give other vectors (cosine {cosines.min():.4f} to those of "
            "sentence-transformers), so it is not written; --as start makes a start for training of it"
        )


def json_of(place: str, name: str, subfolder: str = "") -> Any:
    """The content of a JSON file of a folder or Hub name; None where there is none."""
    silent: Mapping[str, Any] = {"_raise_exceptions_for_missing_entries": False}
    file = cached_file(place, name, subfolder=subfolder, **silent)
    return read_json(file) if file else None
