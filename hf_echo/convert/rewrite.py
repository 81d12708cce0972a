"""A checkpoint whose encoder was changed without training, saved with its tokenizer and with what was done to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from ..modeling import EchoConfig, EchoEncoder, EchoForTranslation


def rewrite_checkpoint(
    source: str | Path, out: str | Path, change: Callable[[EchoEncoder], Any], stage: str, **values: Any
) -> Path:
    """Open a bag or a training checkpoint, `change` its encoder in place, save it in another folder.

    A decoder is kept as it is: it has to be finetuned on the new space. `stage` and `values` are written into
    recipe.json, with the source's own.
    """
    config = EchoConfig.from_pretrained(source)
    kind = EchoEncoder if config.decoder is None else EchoForTranslation
    model = kind.from_pretrained(source, dtype=torch.float32).eval()
    change(model if config.decoder is None else model.encoder)
    out = Path(out)
    model.save_pretrained(out)
    AutoTokenizer.from_pretrained(source).save_pretrained(out)
    run = Path(source) / "recipe.json"
    made = {
        "stage": stage,
        "values": {"source": str(source)} | values,
        "from": json.loads(run.read_text()) if run.exists() else None,
    }
    (out / "recipe.json").write_text(json.dumps(made, indent=2) + "\n")
    return out
