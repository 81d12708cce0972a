"""EchoEncoder (OS 4.2, ECHO 4.1): token ids -> one vector per sentence and one state per token,
on any text model."""

from __future__ import annotations

import inspect
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import (
    CONFIG_MAPPING,
    MODEL_MAPPING,
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.dynamic_module_utils import get_class_from_dynamic_module
from transformers.utils import ModelOutput, cached_file, can_return_tuple

from .configuration_echo import EchoConfig
from .modeling_echo_base import EchoPreTrainedModel, EchoProjection
from .packed_echo import can_train_packed, packed_states, states_of_packed_row
from .pooling_echo import POOLINGS

logger = logging.getLogger(__name__)


@dataclass
class EchoEncoderOutput(ModelOutput):
    """Args:
    last_hidden_state: (batch, seq, hidden), one state per token.
    pooler_output: (batch, embedding_size), the sentence embedding, not normalised.
    sentence_embedding: the same tensor as pooler_output.
    hidden_states, attentions: tuples with one tensor per layer, if requested.
    """

    last_hidden_state: torch.FloatTensor | None = None
    pooler_output: torch.FloatTensor | None = None
    sentence_embedding: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


class EchoEncoder(EchoPreTrainedModel):
    """A text model of transformers, whose pooled states become a sentence embedding.

    It attends in both directions, or with `attention="own"` as its configuration says.

    Example:
        >>> batch = tokenizer(["Bonjour"], lang="fra_Latn", return_tensors="pt")
        >>> encoder(**batch).sentence_embedding.shape
        torch.Size([1, 1024])
    """

    # The encoder of a training checkpoint loads without the decoder's weights.
    _keys_to_ignore_on_load_unexpected = [r"^decoder\."]

    def __init__(self, config: EchoConfig):
        super().__init__(config)
        self.backbone = backbone_model(config.backbone)
        self.projection: nn.Module = nn.Identity()
        if config.projection != "none":
            self.projection = EchoProjection(
                config.hidden_size, config.embedding_size, kind=config.projection
            )
        self.post_init()
        if config.attention == "both":
            check_attention(self.backbone)

    @classmethod
    def from_backbone(
        cls,
        name_or_path: str,
        *,
        pooling: str = "mean",
        embedding_size: int | None = None,
        part: str | None = None,
        attention: str | None = None,
        revision: str | None = None,
        subfolder: str = "",
        trust_remote_code: bool = False,
        **options: Any,
    ) -> EchoEncoder:
        """Start from the weights of any text model: an encoder or a language model, with or without
        a head.

        Args:
            pooling, embedding_size: see `EchoConfig`; a projection starts as (part of) the
                identity.
            part: "encoder" takes the encoder of an encoder-decoder.
            attention: "both" lets a language model read in both directions, as the start of a
                training; "own" keeps the vectors of a finished model; default: "own" for a
                SentenceTransformer, else "both".
            subfolder: where the model is in its repository.
            trust_remote_code: let the code of a repository run whose model type transformers does
                not know. Such a model opens again in this process only: an Echo checkpoint does not
                carry foreign code.
            options: other fields of `EchoConfig`; `dtype`, `attn_implementation` and `gguf_file`
                are those of transformers.

        Raises:
            ValueError: the model reads no text, its weights are not complete, it cannot attend in
                both directions, or its tokenizer does not fit.
        """
        if attention is None:
            attention = "own" if _is_sentence_transformer(name_or_path, revision) else "both"
        hub: dict[str, Any] = {
            "revision": revision,
            "trust_remote_code": trust_remote_code,
            "subfolder": subfolder,
        }
        if "gguf_file" in options:
            hub["gguf_file"] = options.pop("gguf_file")
        loading = {}
        for name in ("dtype", "attn_implementation", "device_map"):
            if name in options:
                loading[name] = options.pop(name)

        # The configuration of the backbone, and of the encoder around it.
        backbone = config_of_backbone(name_or_path, attention, hub)
        if backbone.model_type == EchoConfig.model_type:
            raise ValueError(
                f"{name_or_path} is an Echo checkpoint: EchoEncoder.from_pretrained opens it"
            )
        if part and not type(backbone).is_encoder_decoder:
            raise ValueError(f"{name_or_path} is no encoder-decoder: leave part={part!r} out")
        if part:
            backbone.is_encoder_decoder = False
        fields: dict[str, Any] = {
            "pooling": pooling,
            "embedding_size": embedding_size,
            "prompts": "none",
        }
        fields["attention"] = attention
        fields |= _ids_of_tokenizer(name_or_path, backbone, pooling, hub)
        config = EchoConfig(backbone=backbone, **fields | options)

        model = _whole_backbone(name_or_path, backbone, part, hub | loading)

        # The encoder is built without weights of its own, and gets those of the backbone.
        config.dtype = model.dtype
        config.backbone = model.config
        with torch.device("meta"):
            encoder = cls(config)
        encoder.backbone = model
        if isinstance(encoder.projection, EchoProjection):
            projection = encoder.projection.to_empty(device=model.device).to(model.dtype)
            encoder.projection = projection.start()
        if attention == "both":
            check_attention(model)
        return encoder.eval()

    def get_input_embeddings(self) -> nn.Module:
        return self.backbone.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.backbone.set_input_embeddings(value)

    def save_pretrained(self, save_directory: str | Path, *args: Any, **kwargs: Any) -> None:
        """Save the encoder alone; the saved configuration names no decoder."""
        original = self.config
        self.config = EchoConfig.from_dict(original.to_dict() | {"decoder": None})
        try:
            super().save_pretrained(save_directory, *args, save_original_format=False, **kwargs)
        finally:
            self.config = original

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.LongTensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        overflow_to_sample_mapping: torch.LongTensor | None = None,
        on_long: str | None = None,
        **kwargs: Any,
    ) -> EchoEncoderOutput:
        """
        Args:
            input_ids: (batch, seq). Give exactly one of this and `inputs_embeds`
                (batch, seq, hidden).
            attention_mask: (batch, seq), 1 for tokens, 0 for padding on either side.
            overflow_to_sample_mapping: (batch,), the text that each row is a piece of (the
                tokenizer's `return_overflowing_tokens`). The embedding of a text is the mean of its
                pieces, weighted by tokens.
            on_long: not accepted here: it is an option of the tokenizer.
            kwargs: of the backbone, such as `token_type_ids` and `output_hidden_states`.

        Raises:
            ValueError: `on_long` is given.
        """
        # SentenceTransformer.encode passes it to the model instead of the tokenizer.
        if on_long is not None:
            option = f"processing_kwargs={{'text': {{'on_long': {on_long!r}}}}}"
            raise ValueError(
                f"on_long={on_long!r} is an option of the tokenizer: use encode(texts, {option})"
            )
        for name in ("output_hidden_states", "output_attentions"):
            if getattr(self.config, name):
                kwargs.setdefault(name, True)
        inputs = {
            "input_ids": input_ids,
            "inputs_embeds": inputs_embeds,
            "position_ids": position_ids,
            **kwargs,
        }
        inputs = {name: value for name, value in inputs.items() if value is not None}
        # The packed path of a CPU reads ids alone, and gives last states alone.
        options = [value for name, value in inputs.items() if name != "input_ids"]
        output: dict[str, Any] = {"last_hidden_state": None}
        if input_ids is not None and all(value is False for value in options):
            output["last_hidden_state"] = packed_states(self, input_ids, attention_mask)
        if output["last_hidden_state"] is None:
            output = self.states(inputs, attention_mask)
        embedding = self.pool(
            output["last_hidden_state"], attention_mask, overflow_to_sample_mapping
        )
        return EchoEncoderOutput(
            last_hidden_state=output["last_hidden_state"],
            pooler_output=embedding,
            sentence_embedding=embedding,
            hidden_states=output.get("hidden_states"),
            attentions=output.get("attentions"),
        )

    def states(self, inputs: dict[str, Any], mask: torch.Tensor | None) -> dict[str, Any]:
        """The backbone's output, of a packed row after `train_packed`.

        Padding on the left is moved to the right and back, because some backbones count positions
        from the first column.
        """
        if can_train_packed(self, inputs, mask):
            return {"last_hidden_state": states_of_packed_row(self, inputs["input_ids"], mask)}
        if mask is None or mask.dim() != 2 or "position_ids" in inputs:
            return self.backbone(attention_mask=mask, **inputs, return_dict=True)
        # (batch, 1), tokens of padding before each text
        padding_on_left = mask.long().argmax(-1, keepdim=True)
        # a trace cannot branch on values
        is_traced = torch.compiler.is_compiling() or torch.jit.is_tracing()
        if not is_traced and not padding_on_left.any():
            return self.backbone(attention_mask=mask, **inputs, return_dict=True)

        # Each row is turned so that its first token comes first, and its states are turned back.
        columns = torch.arange(mask.shape[1], device=mask.device)
        turned = (columns + padding_on_left) % mask.shape[1]  # (batch, seq)
        turned_back = (columns - padding_on_left) % mask.shape[1]
        rows = torch.arange(len(mask), device=mask.device)[:, None]
        turned_inputs = {}
        for name, value in inputs.items():
            is_of_tokens = isinstance(value, torch.Tensor) and value.shape[:2] == mask.shape
            turned_inputs[name] = value[rows, turned] if is_of_tokens else value
        output = self.backbone(attention_mask=mask[rows, turned], **turned_inputs, return_dict=True)
        states = {"last_hidden_state": output["last_hidden_state"][rows, turned_back]}
        if output.get("hidden_states") is not None:
            states["hidden_states"] = tuple(
                layer[rows, turned_back] for layer in output["hidden_states"]
            )
        if output.get("attentions") is not None:
            attentions = []
            for weights in output["attentions"]:  # (batch, heads, queries, keys)
                heads_last = weights.permute(0, 2, 3, 1)
                back = heads_last[rows[..., None], turned_back[..., None], turned_back[:, None]]
                attentions.append(back.permute(0, 3, 1, 2))
            states["attentions"] = tuple(attentions)
        return states

    def pool(
        self,
        hidden: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        overflow_to_sample_mapping: torch.LongTensor | None = None,
    ) -> torch.Tensor:
        """(batch, seq, hidden) -> (batch or texts, embedding_size),
        by the pooling of the configuration."""
        if attention_mask is None:
            attention_mask = hidden.new_ones(hidden.shape[:2], dtype=torch.long)
        # bf16 models return float32 embeddings, too
        wide = torch.promote_types(hidden.dtype, torch.float32)
        pooled = POOLINGS[self.config.pooling].pool(hidden, attention_mask)
        embedding = self.projection(pooled.to(wide))
        if overflow_to_sample_mapping is None:
            return embedding
        # Pieces of a long text: their mean, weighted by their tokens.
        text_of_piece = overflow_to_sample_mapping.to(embedding.device)
        texts = int(text_of_piece.max()) + 1
        tokens = attention_mask.sum(-1, keepdim=True).to(embedding.dtype)  # (pieces, 1)
        total = embedding.new_zeros(texts, embedding.shape[1])
        total = total.index_add(0, text_of_piece, embedding * tokens)
        tokens_of_text = tokens.new_zeros(texts, 1).index_add(0, text_of_piece, tokens)
        return total / tokens_of_text.clamp(min=1)


def backbone_model(config: PreTrainedConfig) -> PreTrainedModel:
    """A new model of this configuration, without pooler; of an encoder-decoder the encoder."""
    model_class: Any = MODEL_MAPPING.get(type(config), None)
    if isinstance(model_class, (tuple, list)):
        model_class = model_class[0]
    if model_class is None or model_class.main_input_name != "input_ids":
        reason = "is not known to AutoModel"
        if model_class:
            reason = f"reads {model_class.main_input_name}"
        raise ValueError(
            f"a backbone of type {config.model_type!r} {reason}: give the configuration of a text model"
        )
    model = model_class(config, **_without_pooler(config))
    return model.get_encoder() if type(config).is_encoder_decoder else model


def _whole_backbone(
    name_or_path: str, config: PreTrainedConfig, part: str | None, options: dict[str, Any]
) -> PreTrainedModel:
    """The weights of a backbone, or of the encoder that is a part of it;
    ValueError where a tensor is missing."""
    model, loading_info = AutoModel.from_pretrained(
        name_or_path,
        config=config,
        output_loading_info=True,
        **_without_pooler(config),
        **options,
    )
    if part:
        model = model.get_encoder()
    tensor_names = set(model.state_dict())
    for name in sorted(loading_info["missing_keys"]):
        if (name.removeprefix("encoder.") if part else name) in tensor_names:
            raise ValueError(
                f"{name_or_path}: the weights lack the tensor {name}: it is not a whole model"
            )
    return model


def _without_pooler(config: PreTrainedConfig) -> dict[str, bool]:
    """The option that leaves out the pooler of transformers, for a model that has one."""
    model_class = MODEL_MAPPING.get(type(config), None)
    if model_class is None or "add_pooling_layer" not in inspect.signature(model_class).parameters:
        return {}
    return {"add_pooling_layer": False}


def check_attention(backbone: PreTrainedModel) -> None:
    """Check by one forward pass that the first token's state depends on the last token."""
    is_causal = getattr(backbone.config, "is_causal", False)
    if is_causal or type(backbone) in _attends_both_ways:
        return
    weight: Any = backbone.get_input_embeddings().weight
    if weight.is_meta or not weight.numel():
        return
    pad_id = getattr(backbone.config, "pad_token_id", None)
    ids = [number for number in range(min(len(weight), 8)) if number != pad_id]
    if len(ids) < 2 or not getattr(backbone.config, "num_hidden_layers", 1):
        return
    # Two texts that differ in their last token alone.
    rows = torch.tensor([[ids[0]] * 4, [ids[0]] * 3 + [ids[-1]]], device=weight.device)
    was_training = backbone.training
    with torch.no_grad():
        output = backbone.eval()(input_ids=rows, attention_mask=torch.ones_like(rows))
    backbone.train(was_training)
    first_states = output.last_hidden_state[:, 0]
    if torch.equal(first_states[0], first_states[1]):
        raise ValueError(
            f"a backbone of type {backbone.config.model_type!r} ignores is_causal=False: its first token does not see "
            "the last one; use another model"
        )
    _attends_both_ways.add(type(backbone))


_attends_both_ways: set[type] = set()  # classes that passed `check_attention`


def _is_sentence_transformer(name: str, revision: str | None) -> bool:
    file = cached_file(
        str(name),
        "modules.json",
        revision=revision,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return file is not None


def config_of_backbone(name: str, attention: str, hub: dict[str, Any]) -> PreTrainedConfig:
    """The configuration of a backbone; one that needs code of its own is registered with
    transformers, if trusted.

    Code beside a model type that transformers knows may compute something else than transformers'
    class: a start takes the class, with a warning.

    Raises:
        ValueError: code of its own that is not trusted, or beside a known type where the vectors
            must stay ("own").
    """
    options = {
        option: hub[option] for option in ("revision", "gguf_file", "subfolder") if option in hub
    }
    # A known type with code beside it: a start takes transformers' class, a finished model is
    # refused.
    values, _ = PreTrainedConfig.get_config_dict(name, **options)
    model_type = values.get("model_type")
    own_class = (values.get("auto_map") or {}).get("AutoModel")
    if model_type in CONFIG_MAPPING and own_class and model_type != EchoConfig.model_type:
        if attention == "own":
            raise ValueError(
                f"{name} computes with code of its own ({own_class}), which an Echo checkpoint cannot carry; where "
                f"transformers' class of type {model_type!r} gives the same, delete auto_map from its config.json"
            )
        logger.warning(
            "%s names code of its own (%s): the start takes transformers' class of type %r instead",
            name,
            own_class,
            model_type,
        )
    if model_type in CONFIG_MAPPING or model_type is None:
        return AutoConfig.from_pretrained(name, **hub | {"trust_remote_code": False})

    # An unknown type runs its own code, registered for this process alone.
    if not hub["trust_remote_code"]:
        raise ValueError(
            f"{name} is a model of type {model_type!r}, which needs code of its own: pass trust_remote_code=True "
            "to run it"
        )
    config = AutoConfig.from_pretrained(name, **hub)
    AutoConfig.register(config.model_type, type(config), exist_ok=True)
    code = get_class_from_dynamic_module(
        config.auto_map["AutoModel"], name, revision=hub["revision"]
    )
    AutoModel.register(type(config), code, exist_ok=True)
    return config


def _ids_of_tokenizer(
    name: str, backbone: PreTrainedConfig, pooling: str, hub: dict[str, Any]
) -> dict[str, int]:
    """Ids of CLS and SEP, if there is a tokenizer beside the model."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **hub)
    except (OSError, ValueError, TypeError):
        return {}  # there is none; each class of transformers says it in its own way
    if len(tokenizer) > backbone.vocab_size:
        raise ValueError(
            f"{name}: the tokenizer has {len(tokenizer)} tokens, the model {backbone.vocab_size}: they do not belong "
            "together"
        )
    if pooling == "cls" and tokenizer.cls_token_id is None:
        raise ValueError(
            f"pooling 'cls' needs a CLS token, which the tokenizer of {name} lacks: use 'mean' or 'last'"
        )
    return {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id") for role in ("cls", "sep")}
