"""A checkpoint whose encoder was changed without training, saved with its tokenizer and with what was done to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from ..modeling import EchoConfig, EchoEncoder, EchoForTranslation
from ..utils.lineage import write_lineage


def rewrite_checkpoint(
    source: str | Path,
    out: str | Path,
    change: Callable[[EchoEncoder], Any],
    stage: str,
    *,
    data: Mapping[str, str | Path | None] | None = None,
    **values: Any,
) -> Path:
    """Open a bag or a training checkpoint, `change` its encoder in place, save it in another folder.

    A decoder is kept as it is: it has to be finetuned on the new space. `stage`, `values` and `data` (the files that
    `change` reads) go into the lineage, see `hf_echo.utils.lineage`.
    """
    config = EchoConfig.from_pretrained(source)
    kind = EchoEncoder if config.decoder is None else EchoForTranslation
    model = kind.from_pretrained(source, dtype=torch.float32).eval()
    change(model if config.decoder is None else model.encoder)
    out = Path(out)
    model.save_pretrained(out)
    AutoTokenizer.from_pretrained(source).save_pretrained(out)
    write_lineage(out, stage, values, parents={"source": source}, data=data)
    return out
