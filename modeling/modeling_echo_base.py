"""Base class of encoder, decoder and EchoForTranslation:
attention interfaces, initialisation, loading, saving."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers import initialization as init

from .configuration_echo import DECODER_FOLDER, EchoConfig  # noqa: F401 (others import the folder from here)
from .few_bits_echo import read_few_bits
from .precision_echo import HALF, automatic_dtype
from .sentence_transformer_echo import write_remote_code, write_sentence_transformer_files

HUB_OPTIONS = ("revision", "cache_dir", "token", "local_files_only")


class EchoPreTrainedModel(PreTrainedModel):
    """Base class of EchoEncoder, EchoDecoder and EchoForTranslation."""

    config_class: type[PreTrainedConfig] = EchoConfig
    base_model_prefix = "encoder"
    supports_gradient_checkpointing = True
    _no_split_modules = ["LlamaDecoderLayer", "EchoDecoderLayer"]
    _skip_keys_device_placement = ["past_key_values"]
    _supports_flash_attn = True
    _supports_sdpa = True
    _supports_flex_attn = True
    _supports_attention_backend = True

    # Losses are means over a batch: the Trainer divides by its accumulation steps.
    accepts_loss_kwargs = False
    needed_files: tuple[str, ...] = ("config.json",)  # beside the weights
    _dtype_was_chosen = False
    # Refuses an adapter's folder on a base that it was not trained on. The package sets it: where
    # hf-echo is not installed, nothing compares the two.
    check_adapter: Callable[[str | Path, str], None] | None = None

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path | None,
        *args: Any,
        dtype: str | torch.dtype | None = None,
        torch_dtype: str | torch.dtype | None = None,
        config: PreTrainedConfig | None = None,
        **kwargs: Any,
    ) -> Any:
        """Load a model as transformers does, with three differences.

        - Without a dtype (or with "auto"), half-precision weights load in float32 where bf16 is
          slow, and `train()` converts them to float32, because bf16 loses most of an optimizer's
          small updates.
        - Damaged weights raise an error: missing tensors are never initialised at random.
        - A tokenizer.json beside the weights that is cut off, or another kind of file, raises an
        error too.

        Raises:
            OSError: a weight file cannot be read.
            ValueError: no config.json, shapes differ from it, tensors are missing, or values are
                NaN or infinite.
        """
        name = pretrained_model_name_or_path
        if name is not None:
            check_files(cls, _place(name, kwargs))
            refuse_outside_shards(Path(_place(name, kwargs)))

        # The dtype: what the caller chose, or what is fast on this machine.
        if dtype is None:
            dtype = torch_dtype
        is_automatic = dtype is None or (isinstance(dtype, str) and dtype == "auto")
        if is_automatic and name is not None:
            if config is None:
                hub = {
                    option: kwargs[option]
                    for option in (*HUB_OPTIONS, "subfolder")
                    if option in kwargs
                }
                config = cls.config_class.from_pretrained(name, **hub)
            dtype = automatic_dtype(getattr(config, "dtype", None)) or "auto"

        # The weights, by transformers; its errors become one line.
        returns_info = kwargs.pop("output_loading_info", False)
        kwargs |= {"config": config, "dtype": dtype, "output_loading_info": True}
        try:
            loaded: Any = super().from_pretrained(name, *args, **kwargs)
        except SafetensorError as error:
            raise OSError(why_unreadable(weight_files(name, kwargs), error)) from error
        except RuntimeError as error:
            if "size mismatch" not in str(error) and "mismatched" not in str(error):
                raise
            raise ValueError(
                f"{_place(name, kwargs)}: the weights' shapes differ from config.json; use the config.json that was "
                "saved with them"
            ) from error
        model, info = loaded
        if name is not None and kwargs.get("state_dict") is None:
            _refuse_incomplete(model, info, _place(name, kwargs))
        if is_automatic:
            for part in model.modules():
                if hasattr(part, "_dtype_was_chosen"):
                    part._dtype_was_chosen = True
        return (model, info) if returns_info else model

    @staticmethod
    def _load_pretrained_model(
        model: PreTrainedModel,
        state_dict: dict[str, torch.Tensor] | None,
        checkpoint_files: list[str] | None,
        load_config: Any,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Unpack the weights of a release in few bits first."""
        if state_dict is None:
            state_dict = read_few_bits(checkpoint_files, load_config.dtype)
        return PreTrainedModel._load_pretrained_model(
            model, state_dict, checkpoint_files, load_config, *args, **kwargs
        )

    def load_adapter(self, peft_model_id: str | None = None, *args: Any, **kwargs: Any) -> Any:
        """Load an adapter as transformers does.

        Raises:
            ValueError: the files of the model have changed since the adapter was trained on it
                (where hf-echo is installed).
        """
        check = type(self).check_adapter
        if check is not None and peft_model_id is not None and self.name_or_path:
            check(peft_model_id, self.name_or_path)
        return super().load_adapter(peft_model_id, *args, **kwargs)

    def train(self, mode: bool = True) -> EchoPreTrainedModel:
        """Switch to training mode; if the loader chose a half-precision dtype, convert weights to
        float32 in place.

        Parameters stay the same objects, so the optimizer may be created before or after this call.
        """
        if (
            mode
            and self._dtype_was_chosen
            and any(weight.dtype in HALF for weight in self.parameters())
        ):
            self.float()
            self.config.dtype = torch.float32
        return super().train(mode)

    def _load_from_state_dict(self, state_dict: dict[str, torch.Tensor], prefix: str, *args: Any):
        """A Trainer that resumes loads weights, then the optimizer's states in their dtype,
        then calls `train()`."""
        own_weights = [weight for name, weight in state_dict.items() if name.startswith(prefix)]
        if self._dtype_was_chosen and any(weight.dtype == torch.float32 for weight in own_weights):
            self.float()
            self.config.dtype = torch.float32
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _init_weights(self, module: nn.Module):
        super()._init_weights(module)
        if isinstance(module, EchoProjection):
            module.start()

    def save_pretrained(self, save_directory: str | Path, *args: Any, **kwargs: Any) -> None:
        """Save the model, the files of a SentenceTransformer and the code for trust_remote_code."""
        super().save_pretrained(save_directory, *args, **kwargs)
        if kwargs.get("is_main_process", True):
            prompts = getattr(self.config, "prompts", "name")
            model_type = self.config.model_type
            write_remote_code(
                save_directory,
                speech=model_type == "echo_speech",
                sonar=prompts == "tokens",
                spectrum=model_type == "spectrum",
            )
            if model_type == "echo":
                settings = self.config.sentence_transformer
                write_sentence_transformer_files(
                    save_directory, self.config.languages, prompts=prompts, settings=settings
                )


class EchoProjection(nn.Linear):
    """Linear map between hidden size and embedding size, initialised to (part of) the identity.

    Args:
        kind: "linear" (without bias), "affine" (with bias) or "tanh"
            (with bias and a tanh behind it, as LaBSE's).
    """

    def __init__(self, in_features: int, out_features: int, *, kind: str = "linear"):
        super().__init__(in_features, out_features, bias=kind != "linear")
        self.tanh = kind == "tanh"

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Project in the precision of the vectors:
        normalised float32 embeddings of a bf16 model have length 1."""
        bias = self.bias if self.bias is None else self.bias.to(vectors.dtype)
        projected = nn.functional.linear(vectors, self.weight.to(vectors.dtype), bias)
        return projected.tanh() if self.tanh else projected

    def start(self) -> EchoProjection:
        """An isometry: the projections into and out of the embedding start as inverses of each
        other."""
        init.eye_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)
        return self


def _place(name: str | Path, options: dict) -> str:
    return str(Path(str(name)) / (options.get("subfolder") or ""))


def check_files(model_class: type[EchoPreTrainedModel], folder: str) -> None:
    """Check the files of a local folder that a class needs beside the weights, and its tokenizer.

    Without config.json transformers builds a model of the default size, of many GiB; without
    generation_config.json beams and limits are others; SentenceTransformer, which opens the model
    first, does not name a damaged tokenizer.
    """
    if not Path(folder).is_dir():
        return
    for name in model_class.needed_files:
        if not (Path(folder) / name).is_file():
            raise ValueError(
                f"{folder} has no {name}: it is not a checkpoint that {model_class.__name__} opens"
            )
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        reason = why_incomplete(Path(folder) / name)
        if reason:
            raise ValueError(reason)


def refuse_outside_shards(folder: Path) -> None:
    """Raises ValueError for an index of shards that is no JSON,
    or names files outside of its folder."""
    for file in folder.glob("*.safetensors.index.json"):
        try:
            names = set(json.loads(file.read_text(encoding="utf-8"))["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(
                f"{file} is damaged or incomplete: download or copy it again"
            ) from None
        for name in sorted(names, key=str):
            if Path(str(name)).name != name:
                raise ValueError(
                    f"{file} names {str(name)!r}, which is not a file of this folder: do not open it"
                )


def why_incomplete(file: Path) -> str | None:
    """One line about a JSON file that does not begin and end as an object; None where it does or
    does not exist.

    A fast look: most damaged files were cut off, are empty, a Git LFS pointer or an HTML page.
    """
    if not file.is_file():
        return None
    with open(file, "rb") as stream:
        start = stream.read(64).lstrip()
        stream.seek(max(0, file.stat().st_size - 64))
        end = stream.read().rstrip()
    if start.startswith(b"{") and end.endswith(b"}"):
        return None
    return f"{file} is damaged or incomplete: download or copy it again"


def weight_files(name: str | Path, options: dict | None = None) -> list[Path]:
    """The safetensors files of a local folder, or of a Hub name those in the local cache."""
    options = options or {}
    folder = Path(_place(name, options))
    if not folder.is_dir():
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(
            str(name),
            str(Path(options.get("subfolder") or "") / "model.safetensors"),
            cache_dir=options.get("cache_dir"),
            revision=options.get("revision"),
        )
        return [Path(cached)] if isinstance(cached, str) else []
    return sorted(folder.glob("*.safetensors"))


def why_unreadable(files: list[Path], error: Exception | None = None) -> str | None:
    """One line about the first file that is not a complete safetensors file;
    None if all are complete."""
    for file in files:
        try:
            with safe_open(file, "pt") as opened:
                for key in opened.keys():
                    opened.get_slice(key).get_shape()
        except (SafetensorError, OSError) as reason:
            return f"{file} is damaged or incomplete ({str(reason).splitlines()[0]}): download or copy it again"
    return f"weights cannot be read: {str(error).splitlines()[0]}" if error else None


def _refuse_incomplete(model: nn.Module, info: dict, place: str) -> None:
    """Check that all tensors are present and finite."""
    missing = sorted(info["missing_keys"])
    if missing:
        ending = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(
            f"{place}: the weights lack the tensor {missing[0]}{ending}: download or copy them again"
        )
    for name, weight in model.named_parameters():
        if weight.is_meta or not weight.is_floating_point():
            continue
        values = weight.detach()
        if not values.sum(dtype=torch.float32).isfinite() and not values.isfinite().all():
            raise ValueError(
                f"{place}: the weights hold NaN or infinite values, first in {name}: use an earlier checkpoint"
            )


def check_finite(embeddings: torch.Tensor) -> torch.Tensor:
    """Return the embeddings (n, size) unchanged if all values are finite."""
    finite = embeddings.isfinite().all(-1)
    if not finite.all():
        row = int((~finite).long().argmax()) + 1
        raise ValueError(
            f"the embedding of row {row} holds NaN or infinite values: the model's weights or these inputs are damaged"
        )
    return embeddings
