"""Any encoder whose sentence embedding is the state of its CLS token: EchoEncoder, or a Hugging Face encoder (XLM-R).

Stages that train such an encoder, without a decoder, open, run and save it through this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import AutoConfig, AutoModel

from ...checkpoints.published.sentence_transformer_files import write_sentence_transformer
from ...data.masked_pairs import check_masking
from ...inference.encode import opening
from ...modeling import EchoEncoder
from .model_shape import new_config

MASK = "<mask>"


class ClsEncoder(nn.Module):
    """(ids, mask) -> (token states, sentence embeddings) of a backbone.

    Args:
        backbone: an EchoEncoder with `pooling: cls`, or a transformers encoder.
        tokenizer: gets a mask token if it is an EchoTokenizer without one.
        name: for error messages.

    Raises:
        ValueError: an Echo encoder with another pooling, or a tokenizer without mask or CLS token.
    """

    def __init__(self, backbone: nn.Module, tokenizer: Any, *, name: str = "the encoder"):
        super().__init__()
        self.is_echo = isinstance(backbone, EchoEncoder)
        if self.is_echo and backbone.config.pooling != "cls":
            raise ValueError(f"{name} has pooling {backbone.config.pooling!r}; this stage needs 'cls'")
        if self.is_echo and tokenizer.mask_token_id is None:
            tokenizer.add_special_tokens({"mask_token": MASK})
        check_masking(tokenizer, name)
        self.backbone, self.tokenizer = backbone, tokenizer
        self._fit_vocabulary(len(tokenizer))

    def _fit_vocabulary(self, size: int) -> None:
        """New tokens start as the mean of all token vectors."""
        before = len(self.token_matrix)
        if size <= before:
            return
        self.backbone.resize_token_embeddings(size, mean_resizing=False)
        with torch.no_grad():
            self.token_matrix[before:] = self.token_matrix[:before].mean(0)

    @property
    def config(self) -> Any:
        return self.backbone.config

    @property
    def token_matrix(self) -> torch.Tensor:
        """(vocabulary, hidden), the input embeddings."""
        return self.backbone.get_input_embeddings().weight

    @property
    def embedding_size(self) -> int:
        return self.config.embedding_size if self.is_echo else self.config.hidden_size

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """((rows, seq, hidden) states of the last layer, (rows, embedding_size) CLS, not normalised)."""
        output = self.backbone(input_ids=input_ids, attention_mask=attention_mask)
        states = output.last_hidden_state
        return states, output.sentence_embedding if self.is_echo else states[:, 0]

    def embed_texts(self, texts: list[str], lang: str | None = None, *, rows: int = 64) -> np.ndarray:
        """(texts, embedding_size) float32, sorted by length into batches. `lang` is read by Echo's tokenizer only."""
        options = dict(truncation=True, padding=True, return_tensors="pt") | ({"lang": lang} if self.is_echo else {})
        out = np.zeros((len(texts), self.embedding_size), np.float32)
        order = np.argsort([-len(text) for text in texts], kind="stable")
        device = self.token_matrix.device
        with torch.no_grad():
            for some in np.split(order, range(rows, len(order), rows)):
                batch = self.tokenizer([texts[i] for i in some], **options)
                ids, mask = batch["input_ids"].to(device), batch["attention_mask"].to(device)
                out[some] = self(ids, mask)[1].float().cpu().numpy()
        return out

    def gradient_checkpointing_enable(self, *args: Any, **kwargs: Any) -> None:
        self.backbone.gradient_checkpointing_enable(*args, **kwargs)

    def save_pretrained(self, folder: str | Path) -> None:
        """The backbone with the files of a SentenceTransformer that takes the CLS state (Echo writes its own)."""
        self.backbone.save_pretrained(folder)
        if not self.is_echo:
            write_sentence_transformer(folder, dimension=self.embedding_size, pooling="cls")


def open_cls_encoder(model_args: Any, tokenizer: Any) -> ClsEncoder:
    """The encoder that a recipe starts from: a checkpoint of any kind, or a new EchoEncoder of its `shape`.

    Dropout inside of attention is off (MEXMA's choice); hidden states keep that of their configuration.
    """
    name = model_args.model_name_or_path
    if not name:
        return ClsEncoder(EchoEncoder(new_config(model_args.shape, tokenizer)), tokenizer, name="shape")
    with opening(name) as place:
        config = AutoConfig.from_pretrained(place)
        if config.model_type == "echo":
            return ClsEncoder(EchoEncoder.from_pretrained(place, dtype=torch.float32), tokenizer, name=name)
        for field_name in ("attention_probs_dropout_prob", "attention_dropout"):
            if hasattr(config, field_name):
                setattr(config, field_name, 0.0)
        backbone = AutoModel.from_pretrained(place, config=config, dtype=torch.float32)
    if hasattr(backbone, "pooler"):
        backbone.pooler = None  # it reads the CLS state, which is the embedding here
    return ClsEncoder(backbone, tokenizer, name=name)
