"""EchoEncoder (OS 4.2, ECHO 4.1): token ids -> one vector per sentence and one state per token, on any text model."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
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
from transformers.utils import ModelOutput, can_return_tuple

from .configuration_echo import EchoConfig
from .modeling_echo_base import EchoPreTrainedModel, EchoProjection
from .packed_echo import can_train_packed, packed_states, states_of_packed_row
from .pooling_echo import POOLINGS


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
    """A text model of transformers that attends in both directions; its pooled states become a sentence embedding.

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
        self.projection = nn.Identity()
        if config.projection != "none":
            self.projection = EchoProjection(
                config.hidden_size, config.embedding_size, tanh=config.projection == "tanh"
            )
        self.post_init()
        check_attention(self.backbone)

    @classmethod
    def from_backbone(
        cls,
        name_or_path: str,
        *,
        pooling: str = "mean",
        embedding_size: int | None = None,
        part: str | None = None,
        revision: str | None = None,
        trust_remote_code: bool = False,
        **options: Any,
    ) -> EchoEncoder:
        """Start from the weights of any text model: an encoder or a language model, with or without a head.

        Args:
            pooling, embedding_size: see `EchoConfig`; a projection starts as (part of) the identity.
            part: "encoder" takes the encoder of an encoder-decoder.
            trust_remote_code: let the code of a repository run whose model type transformers does not know. Such a
                model opens again in this process only: an Echo checkpoint does not carry foreign code.
            options: other fields of `EchoConfig`; `dtype`, `attn_implementation` and `gguf_file` are those of
                transformers.

        Raises:
            ValueError: the model reads no text, its weights are not complete, it cannot attend in both directions, or
                its tokenizer does not fit.
        """
        hub = dict(revision=revision, trust_remote_code=trust_remote_code)
        hub |= {"gguf_file": options.pop("gguf_file")} if "gguf_file" in options else {}
        loading = {k: options.pop(k) for k in ("dtype", "attn_implementation", "device_map") if k in options}
        backbone = _config_of(name_or_path, hub)
        if backbone.model_type == EchoConfig.model_type:
            raise ValueError(f"{name_or_path} is an Echo checkpoint: EchoEncoder.from_pretrained opens it")
        if part not in (None, "encoder"):
            raise ValueError(f"part must be None or 'encoder', not {part!r}")
        if part and not type(backbone).is_encoder_decoder:
            raise ValueError(f"{name_or_path} is no encoder-decoder: leave part={part!r} out")
        if part:
            backbone.is_encoder_decoder = False
        tokenizer_ids = _ids_of_tokenizer(name_or_path, backbone, pooling, hub)
        options = tokenizer_ids | dict(pooling=pooling, embedding_size=embedding_size, prompts="none") | options
        config = EchoConfig(backbone=backbone, **options)
        model, report = AutoModel.from_pretrained(
            name_or_path, config=backbone, output_loading_info=True, **_without_pooler(backbone), **hub, **loading
        )
        model = model.get_encoder() if part else model
        wanted = set(model.state_dict())
        if missing := sorted(name for name in report["missing_keys"] if name.removeprefix("encoder.") in wanted):
            raise ValueError(f"{name_or_path}: the weights lack the tensor {missing[0]}: it is not a whole model")
        config.dtype, config.backbone = model.dtype, model.config
        with torch.device("meta"):
            encoder = cls(config)
        encoder.backbone = model
        if isinstance(encoder.projection, EchoProjection):
            encoder.projection = encoder.projection.to_empty(device=model.device).to(model.dtype).start()
        check_attention(model)
        return encoder.eval()

    def get_input_embeddings(self):
        return self.backbone.get_input_embeddings()

    def set_input_embeddings(self, value) -> None:
        self.backbone.set_input_embeddings(value)

    def save_pretrained(self, save_directory, *args, **kwargs) -> None:
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
        **kwargs,
    ) -> EchoEncoderOutput:
        """
        Args:
            input_ids: (batch, seq). Give exactly one of this and `inputs_embeds` (batch, seq, hidden).
            attention_mask: (batch, seq), 1 for tokens, 0 for padding on either side.
            overflow_to_sample_mapping: (batch,), the text that each row is a piece of (the tokenizer's
                `return_overflowing_tokens`). The embedding of a text is the mean of its pieces, weighted by tokens.
            on_long: not accepted here: it is an option of the tokenizer.
            kwargs: of the backbone, such as `token_type_ids` and `output_hidden_states`.

        Raises:
            ValueError: both or neither of `input_ids` and `inputs_embeds`, or `on_long` is given.
        """
        if on_long is not None:  # SentenceTransformer.encode passes it to the model instead of the tokenizer
            option = f"processing_kwargs={{'text': {{'on_long': {on_long!r}}}}}"
            raise ValueError(f"on_long={on_long!r} is an option of the tokenizer: use encode(texts, {option})")
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give exactly one of input_ids and inputs_embeds")
        for name in ("output_hidden_states", "output_attentions"):
            if getattr(self.config, name):
                kwargs.setdefault(name, True)
        hidden, more = None, {}
        asks_more = any(value is not None and value is not False for value in kwargs.values())
        if inputs_embeds is None and position_ids is None and not asks_more:
            hidden = packed_states(self, input_ids, attention_mask)
        if hidden is None:
            given = dict(input_ids=input_ids, inputs_embeds=inputs_embeds, position_ids=position_ids, **kwargs)
            output = self.states({k: v for k, v in given.items() if v is not None}, attention_mask)
            hidden = output["last_hidden_state"]
            more = {name: output.get(name) for name in ("hidden_states", "attentions")}
        embedding = self.pool(hidden, attention_mask, overflow_to_sample_mapping)
        return EchoEncoderOutput(
            last_hidden_state=hidden, pooler_output=embedding, sentence_embedding=embedding, **more
        )

    def states(self, inputs: dict[str, Any], mask: torch.Tensor | None) -> dict[str, Any]:
        """The backbone's output, of a packed row after `train_packed`.

        Padding on the left is moved to the right and back, because some backbones count positions from the first
        column.
        """
        if can_train_packed(self, inputs, mask):
            return {"last_hidden_state": states_of_packed_row(self, inputs["input_ids"], mask)}
        if mask is None or mask.dim() != 2 or "position_ids" in inputs:
            return self.backbone(attention_mask=mask, **inputs, return_dict=True)
        first = mask.long().argmax(-1, keepdim=True)
        if not (torch.compiler.is_compiling() or torch.jit.is_tracing() or first.any()):
            return self.backbone(attention_mask=mask, **inputs, return_dict=True)
        columns = torch.arange(mask.shape[1], device=mask.device)
        there, back = (columns + first) % mask.shape[1], (columns - first) % mask.shape[1]
        rows = torch.arange(len(mask), device=mask.device)[:, None]
        moved = {name: v[rows, there] if _is_of_tokens(v, mask) else v for name, v in inputs.items()}
        output = self.backbone(attention_mask=mask[rows, there], **moved, return_dict=True)
        states = {"last_hidden_state": output["last_hidden_state"][rows, back]}
        if output.get("hidden_states") is not None:
            states["hidden_states"] = tuple(layer[rows, back] for layer in output["hidden_states"])
        if output.get("attentions") is not None:
            of_rows, queries, keys = rows[..., None], back[..., None], back[:, None]
            states["attentions"] = tuple(
                layer.transpose(1, 2).transpose(2, 3)[of_rows, queries, keys].permute(0, 3, 1, 2)
                for layer in output["attentions"]
            )
        return states

    def pool(
        self,
        hidden: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        overflow_to_sample_mapping: torch.LongTensor | None = None,
    ) -> torch.Tensor:
        """(batch, seq, hidden) -> (batch or texts, embedding_size), by the pooling of the configuration."""
        if attention_mask is None:
            attention_mask = hidden.new_ones(hidden.shape[:2], dtype=torch.long)
        wide = torch.promote_types(hidden.dtype, torch.float32)  # bf16 models return float32 embeddings, too
        pooled = POOLINGS[self.config.pooling].pool(hidden, attention_mask)
        embedding = self.projection(pooled.to(wide))
        if overflow_to_sample_mapping is not None:
            index = overflow_to_sample_mapping.to(embedding.device)
            texts = int(index.max()) + 1
            tokens = attention_mask.sum(-1, keepdim=True).to(embedding.dtype)
            total = embedding.new_zeros(texts, embedding.shape[1]).index_add(0, index, embedding * tokens)
            embedding = total / tokens.new_zeros(texts, 1).index_add(0, index, tokens).clamp(min=1)
        return embedding


def backbone_model(config: PreTrainedConfig) -> PreTrainedModel:
    """A new model of this configuration, without pooler; of an encoder-decoder the encoder."""
    kind = MODEL_MAPPING.get(type(config), None)
    kind = kind[0] if isinstance(kind, (tuple, list)) else kind
    if kind is None or kind.main_input_name != "input_ids":
        reads = f"reads {kind.main_input_name}" if kind else "is not known to AutoModel"
        raise ValueError(f"a backbone of type {config.model_type!r} {reads}: give the configuration of a text model")
    model = kind(config, **_without_pooler(config))
    return model.get_encoder() if type(config).is_encoder_decoder else model


def _without_pooler(config: PreTrainedConfig) -> dict[str, bool]:
    kind = MODEL_MAPPING.get(type(config), None)
    has_pooler = kind is not None and "add_pooling_layer" in inspect.signature(kind).parameters
    return {"add_pooling_layer": False} if has_pooler else {}


def check_attention(backbone: PreTrainedModel) -> None:
    """Check by one forward pass that the first token's state depends on the last token."""
    weight = backbone.get_input_embeddings().weight
    if (
        getattr(backbone.config, "is_causal", False)
        or weight.is_meta
        or not weight.numel()
        or type(backbone) in _attends_both_ways
    ):
        return
    pad = getattr(backbone.config, "pad_token_id", None)
    ids = [i for i in range(min(len(weight), 8)) if i != pad]
    rows = torch.tensor([[ids[0]] * 4, [ids[0]] * 3 + [ids[-1]]], device=weight.device)
    was_training = backbone.training
    with torch.no_grad():
        states = backbone.eval()(input_ids=rows, attention_mask=torch.ones_like(rows)).last_hidden_state[:, 0]
    backbone.train(was_training)
    if len(ids) > 1 and getattr(backbone.config, "num_hidden_layers", 1) and torch.equal(states[0], states[1]):
        raise ValueError(
            f"a backbone of type {backbone.config.model_type!r} ignores is_causal=False: its first token does not see "
            "the last one; use another model"
        )
    _attends_both_ways.add(type(backbone))


_attends_both_ways: set[type] = set()  # classes that passed `check_attention`


def _is_of_tokens(value: Any, mask: torch.Tensor) -> bool:
    return isinstance(value, torch.Tensor) and value.shape[:2] == mask.shape


def _config_of(name: str, hub: dict[str, Any]) -> PreTrainedConfig:
    """The configuration of a backbone; one that needs code of its own is registered with transformers, if trusted."""
    options = {k: hub[k] for k in ("revision", "gguf_file") if k in hub}
    kind = PreTrainedConfig.get_config_dict(name, **options)[0].get("model_type")
    if kind in CONFIG_MAPPING or kind is None:
        return AutoConfig.from_pretrained(name, **hub)
    if not hub["trust_remote_code"]:
        raise ValueError(
            f"{name} is a model of type {kind!r}, which needs code of its own: pass trust_remote_code=True to run it"
        )
    config = AutoConfig.from_pretrained(name, **hub)
    AutoConfig.register(config.model_type, type(config), exist_ok=True)
    code = get_class_from_dynamic_module(config.auto_map["AutoModel"], name, revision=hub["revision"])
    AutoModel.register(type(config), code, exist_ok=True)
    return config


def _ids_of_tokenizer(name: str, backbone: PreTrainedConfig, pooling: str, hub: dict[str, Any]) -> dict[str, int]:
    """Ids of CLS and SEP, if there is a tokenizer beside the model."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **hub)
    except (OSError, ValueError, TypeError):  # there is none; each class of transformers says it in its own way
        return {}
    if len(tokenizer) > backbone.vocab_size:
        raise ValueError(
            f"{name}: the tokenizer has {len(tokenizer)} tokens, the model {backbone.vocab_size}: they do not belong "
            "together"
        )
    if pooling == "cls" and tokenizer.cls_token_id is None:
        raise ValueError(f"pooling 'cls' needs a CLS token, which the tokenizer of {name} lacks: use 'mean' or 'last'")
    return {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id") for role in ("cls", "sep")}
