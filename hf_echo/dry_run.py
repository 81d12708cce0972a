"""`hf-echo train RECIPE --dry-run`: what a recipe would train, on paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from .data import load_parallel
from .modeling import EchoConfig, EchoForTranslation
from .recipe import read_recipe
from .training import new_config


class _VocabularyOnly:
    """Stands for a tokenizer that is not here (a dry run of `large`)."""

    model_max_length = 512
    pad_token_id = bos_token_id = eos_token_id = cls_token_id = sep_token_id = None

    def __init__(self, size: int):
        self.size = size

    def __len__(self) -> int:
        return self.size


def _vocab_size(args) -> int:
    """Of the tokenizer that the recipe names, where it is here; else of one that is still to be trained."""
    name = args.tokenizer_name_or_path or args.bag
    return len(AutoTokenizer.from_pretrained(name)) if name and Path(name).is_dir() else args.vocab_size


def dry_run(path: Path, overrides: dict[str, Any] | None = None) -> dict[str, Any]:
    """What a recipe would train, without training: sizes by part, tokens and memory. No weight is allocated.

    Memory is an estimate for one device without sharding: fp32 weights, gradients and two AdamW moments, and per token
    and layer the activations that a Llama block keeps (about 34 hidden sizes in bf16, Korthikanti et al. 2022).
    """
    stage, model_args, data_args, args, _ = read_recipe(path, overrides)
    report: dict[str, Any] = {"recipe": path.stem, "stage": stage, "steps": args.max_steps}
    vocab_size = _vocab_size(model_args)
    if stage == "lexical":
        report["parameters"] = {"bag": vocab_size * (args.dim + 1)}
        return report | {"memory_gib": {"weights, gradients, AdamW": 16 * vocab_size * args.dim / 2**30}}
    if model_args.model_name_or_path and not model_args.shape:
        config = EchoConfig.from_pretrained(model_args.model_name_or_path)
    else:
        config = new_config(model_args.shape, _VocabularyOnly(vocab_size))
    with torch.device("meta"):
        model = EchoForTranslation(config)

    def count(module) -> int:
        return sum(p.numel() for p in {id(p): p for p in module.parameters()}.values())

    parts = {
        "encoder embeddings": count(model.encoder.embed_tokens),
        "encoder layers": count(model.encoder.layers),
        "decoder embeddings (tied)": count(model.decoder.model.embed_tokens),
        "decoder layers": count(model.decoder.model.layers),
    }
    parts["other"] = count(model) - sum(parts.values())
    layers = config.num_hidden_layers + config.decoder.num_hidden_layers
    activations = (
        34 * args.max_tokens * config.hidden_size * (layers if not args.gradient_checkpointing else 2)
    )
    students = dict.fromkeys(("distillation", "extension", "token", "long_context"), model.encoder)
    trained = count({"decoder": model.decoder, **students}.get(stage, model))
    memory = {
        "weights": 4 * count(model) / 2**30,
        "gradients and AdamW": 12 * trained / 2**30,
        "activations": activations / 2**30,
    }
    report |= {
        "parameters": parts | {"total": count(model)},
        "batches": {
            "tokens a device": args.max_tokens,
            "devices": args.world_size,
            "accumulation": args.gradient_accumulation_steps,
            "tokens a step": args.max_tokens * args.world_size * args.gradient_accumulation_steps,
        },
        "memory_gib": memory | {"total": sum(memory.values())},
    }
    if data_args.train_data and (data_args.train_data == "builtin" or Path(data_args.train_data).exists()):
        report["data"] = {"pairs": len(load_parallel(data_args.train_data, **data_args.data_options))}
    return report
