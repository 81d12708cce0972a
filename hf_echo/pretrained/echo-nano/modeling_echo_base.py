"""What encoder, decoder and their union share: attention interfaces, initialisation, saving."""

from __future__ import annotations

from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init

from .configuration_echo import EchoConfig
from .sentence_transformer_echo import write_remote_code, write_sentence_transformer_files

DECODER_FOLDER = "decoder"
HUB_OPTIONS = ("revision", "cache_dir", "token", "local_files_only")


class EchoPreTrainedModel(PreTrainedModel):
    """Attention interfaces, initialisation and saving, common to the three."""

    config_class = EchoConfig
    base_model_prefix = "encoder"
    supports_gradient_checkpointing = True
    _no_split_modules = ["LlamaDecoderLayer", "EchoDecoderLayer"]
    _skip_keys_device_placement = ["past_key_values"]
    _supports_flash_attn = True
    _supports_sdpa = True
    _supports_flex_attn = True
    _supports_attention_backend = True

    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, EchoProjection):
            # An isometry: the way into the embedding and the way back out of it start as inverses of each other.
            init.eye_(module.weight)

    def save_pretrained(self, save_directory, *args, **kwargs):
        """Save as usual, with what SentenceTransformer and trust_remote_code need beside the weights."""
        super().save_pretrained(save_directory, *args, **kwargs)
        if kwargs.get("is_main_process", True):
            write_remote_code(save_directory)
            if self.config.model_type == "echo":
                write_sentence_transformer_files(save_directory, self.config.languages)


class EchoProjection(nn.Linear):
    """Linear map between hidden size and embedding size, without bias, started as (part of) the identity."""

    def __init__(self, in_features: int, out_features: int):
        super().__init__(in_features, out_features, bias=False)
