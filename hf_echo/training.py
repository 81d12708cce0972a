"""From a recipe (YAML) to a trained checkpoint: data, tokenizer, model, trainer, in this order.

A recipe is one stage. A folder of recipes, in the order of their names, is a journey. Every field can be overridden;
a run that was killed goes on from its last checkpoint, a stage that is finished is not trained again.
"""

from __future__ import annotations

import argparse
import difflib
import json
import logging
import os
import shutil
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset, concatenate_datasets
from transformers import AutoConfig, AutoTokenizer, set_seed
from transformers.trainer_utils import get_last_checkpoint

from .data import load_nway, load_parallel
from .data.batch_groups import language_groups, neighbour_groups
from .data.directions import extension_pairs, monolingual, resample
from .data.frozen import LiveRows, frozen_embeddings
from .data.tokenized import tokenize_parallel
from .hub.model_card import model_card
from .inference.any_encoder import any_encoder
from .inference.encode import opening
from .modeling import EchoConfig, EchoDecoder, EchoDecoderConfig, EchoEncoder, EchoForTranslation
from .recipe import STAGES, DataArguments, ModelArguments, find_recipes, parse_overrides, read_recipe
from .trainers import (
    DevSet,
    bag_encoder,
    evaluate_sets,
    start_from_bag,
)
from .utils.fingerprint import fingerprint

logger = logging.getLogger(__name__)

RUN = "recipe.json"  # in the output folder: what was trained with which settings
TEACHER_STAGES = ("distillation", "extension", "token")
MAY_CHANGE = {
    "max_steps",
    "num_train_epochs",
    "logging_steps",
    "save_steps",
    "save_total_limit",
    "eval_steps",
    "report_to",
    "dataloader_num_workers",
    "disable_tqdm",
    "cache_dir",
    "live_teacher",
}


def train_recipe(
    path: Path, overrides: dict[str, Any] | None = None, *, fresh: bool = False
) -> dict[str, Any]:
    """Train one stage and save it in its `output_dir`; returns metrics (also written to results.json there).

    Args:
        fresh: train again although the stage is finished, and drop the checkpoints of a run that is not.

    Raises:
        ValueError: `output_dir` holds checkpoints that were trained with other settings.
    """
    stage, model_args, data_args, args, values = read_recipe(path, overrides)
    out = Path(args.output_dir)
    run = {
        "stage": stage,
        "values": values,
        "from": _trained_with(model_args.model_name_or_path or model_args.bag),
    }
    if model_args.decoder:
        run["decoder_from"] = _trained_with(model_args.decoder)
    before = json.loads((out / RUN).read_text()) if (out / RUN).exists() else None
    if not fresh and before == json.loads(json.dumps(run | {"finished": True}, default=str)):
        logger.warning("%s is trained already (%s); --fresh trains it again", path.stem, out)
        results = json.loads((out / "results.json").read_text())
        return {key: value for key, value in results.items() if key != "tables"}
    resume = _checkpoint_to_resume(out, run, before, fresh)
    set_seed(args.seed)
    with args.main_process_first(desc="data"):  # who comes second finds the caches
        dataset = load_training_data(stage, data_args, args)
        max_length = getattr(args, "max_length", 128)
        tokenizer = load_tokenizer(model_args, dataset, max_length)
        dev_sets = load_dev_sets(data_args)
        tokenized = tokenize_parallel(
            dataset, tokenizer, max_length=max_length, cache_dir=data_args.cache_dir
        )
        trainer_options = frozen_sides(stage, model_args, data_args, args, dataset)
        if data_args.neighbour_groups or data_args.language_batches:
            trainer_options["groups"] = groups_of(model_args, data_args, args, dataset)
    trainer = build_trainer(stage, model_args, args, tokenized, tokenizer, dev_sets, **trainer_options)
    languages = _languages(tokenized)
    if stage != "lexical" and args.translation_weight:
        _now_writes(trainer.model.decoder, tokenized)
    trainer.model_card = model_card(run, languages)  # of a push while it is being trained
    if trainer.is_world_process_zero():
        out.mkdir(parents=True, exist_ok=True)
        (out / RUN).write_text(json.dumps(run | {"finished": False}, indent=2, default=str))
    start = time.time()
    trainer.train(resume_from_checkpoint=resume)
    seconds = time.time() - start
    model = trainer.accelerator.unwrap_model(trainer.model)
    if stage == "lexical":
        known = (AutoConfig.from_pretrained(model_args.bag).languages or []) if model_args.bag else []
        model = bag_encoder(model, tokenizer, sorted({*known, *languages}))
    tables: dict[str, Any] = {}
    metrics = evaluate_sets(model, tokenizer, dev_sets, tables=tables)
    results = {"stage": stage, "seconds": round(seconds, 1), **metrics} | {
        k: getattr(trainer, k) for k in ("tokens_per_second",) if getattr(trainer, k, None)
    }
    trainer.model_card = model_card(run, getattr(model.config, "languages", None) or languages, results)
    if stage != "lexical":
        trainer.save_model(str(out))  # every process takes part: under FSDP each holds a part of the weights
    elif trainer.is_world_process_zero():
        model.save_pretrained(out)
    if trainer.is_world_process_zero():
        tokenizer.save_pretrained(out)
        (out / "README.md").write_text(trainer.model_card, encoding="utf-8")
        by_language = {name: json.loads(table.to_json()) for name, table in tables.items()}
        (out / "results.json").write_text(
            json.dumps(results | {"tables": by_language}, indent=2, ensure_ascii=False)
        )
        (out / RUN).write_text(json.dumps(run | {"finished": True}, indent=2, default=str))
    return results


def _trained_with(name: str | None) -> Any:
    """What this package trained a checkpoint with: what builds on it is only as finished as it is."""
    file = Path(name or "") / RUN
    return json.loads(file.read_text()) if name and file.exists() else None


def _checkpoint_to_resume(out: Path, run: dict, before: dict | None, fresh: bool) -> str | None:
    """The last checkpoint of the same run; a longer one (more steps) is the same run too."""

    def settings(r: dict) -> dict:
        values = {key: value for key, value in r["values"].items() if key not in MAY_CHANGE}
        return json.loads(json.dumps(r | {"values": values, "finished": None}, default=str))

    checkpoint = get_last_checkpoint(str(out)) if out.is_dir() else None
    if checkpoint is None:
        return None
    if not fresh and before is not None and settings(before) == settings(run):
        return checkpoint
    if not fresh:
        raise ValueError(
            f"{out} holds checkpoints of other settings; --fresh replaces them, or give another output_dir"
        )
    if int(os.environ.get("RANK", 0)) == 0:
        for folder in out.glob("checkpoint-*"):
            shutil.rmtree(folder)  # or a later resume would take an old one for the newest
    return None


def load_training_data(stage: str, args: DataArguments, stage_args) -> Dataset:
    if not args.train_data:
        raise ValueError("train_data is missing: a TSV, JSONL or Parquet file, a Hub name, or 'builtin'")
    dataset, seed = load_parallel(args.train_data, **args.data_options), stage_args.seed
    if args.source_languages:
        kept = set(args.source_languages)
        dataset = dataset.filter(lambda lang: lang in kept, input_columns="source_lang")
    if stage in TEACHER_STAGES:
        base = stage_args.base_languages = stage_args.base_languages or teacher_languages(args.teacher)
        if stage == "distillation":
            dataset = monolingual(dataset, base or None)
        elif stage == "extension":
            errors = json.loads(Path(args.teacher_xsimpp).read_text()) if args.teacher_xsimpp else None
            dataset = extension_pairs(dataset, base, errors, english_rows=args.english_rows, seed=seed)
        if args.temperature is not None:
            dataset = resample(dataset, args.temperature, seed=seed)
    if stage == "hard_negatives" and args.rule_negatives:
        from .synthesis import hard_negatives_for

        if args.rule_negatives_limit and args.rule_negatives_limit < len(dataset):
            dataset = dataset.shuffle(seed=seed).select(range(args.rule_negatives_limit))
        # By rule the negatives are English, so only rows into English can have them.
        negatives = hard_negatives_for(dataset["target"], args.rule_negatives)
        column = [[text for text, _ in row] for row in negatives]
        if "hard_negatives" in dataset.column_names:
            dataset = dataset.remove_columns("hard_negatives")
        dataset = dataset.add_column("hard_negatives", column)
        dataset = dataset.filter(
            lambda row: len(row["hard_negatives"]) > 0 and row["target_lang"] == "eng_Latn"
        )
    return dataset


def load_tokenizer(args: ModelArguments, dataset: Dataset, max_length: int):
    if name := args.tokenizer_name_or_path or args.model_name_or_path or args.bag:
        return AutoTokenizer.from_pretrained(name)
    from .vocabulary import train_tokenizer

    texts = concatenate_datasets(
        [dataset.select_columns([c]).rename_column(c, "text") for c in ("source", "target")]
    )
    return train_tokenizer((row["text"] for row in texts), args.vocab_size, max_length=max_length)


def load_dev_sets(args: DataArguments) -> dict[str, DevSet]:
    dev_sets = {}
    for name, source in args.dev_data.items():
        if source == "builtin":
            from .data.builtin import dev_set

            rows, negatives = dev_set(max_negatives=args.dev_negatives)
        else:
            rows, negatives = load_nway(source), None
            if args.dev_negatives:
                from .synthesis import hard_negatives_for

                english = {row["id"]: row["text"] for row in rows if row["lang"] == "eng_Latn"}
                made = hard_negatives_for(list(english.values()), args.dev_negatives)
                negatives = {key: found for key, found in zip(english, made) if found}
        dev_sets[name] = DevSet(rows, negatives or None)
    return dev_sets


def build_trainer(stage, model_args, args, tokenized, tokenizer, dev_sets, **options):
    _, trainer_class = STAGES[stage]
    if stage == "lexical":
        if model_args.bag:
            options["bag"] = EchoEncoder.from_pretrained(model_args.bag, dtype=torch.float32)
        return trainer_class(args, train_dataset=tokenized, tokenizer=tokenizer, dev_sets=dev_sets, **options)
    model = load_model(model_args, tokenizer, _languages(tokenized))
    return trainer_class(
        model, args, train_dataset=tokenized, tokenizer=tokenizer, dev_sets=dev_sets, **options
    )


def teacher_languages(name: str | None) -> list[str]:
    """What an Echo checkpoint says it was trained on; nothing of other models.

    Raises:
        ValueError: no teacher is named.
    """
    if not name:
        raise ValueError("teacher is missing: the SentenceTransformer or Echo checkpoint to learn from")
    with opening(name) as found:
        try:
            return getattr(AutoConfig.from_pretrained(found), "languages", None) or []
        except ValueError:  # a SentenceTransformer need not have a config of its own
            return []


def frozen_sides(
    stage: str, model_args: ModelArguments, args: DataArguments, stage_args, dataset: Dataset
) -> dict[str, Any]:
    """What a frozen encoder says of the texts, under the trainer's name for it: guide, teacher or own embeddings."""
    role, name = {
        "lexical": ("teacher", args.teacher),
        "contrastive": ("guide", args.guide),
        "hard_negatives": ("guide", args.guide),
        "distillation": ("teacher", args.teacher),
        "extension": ("teacher", args.teacher),
        "token": ("teacher", args.teacher),
        "decoder": ("embeddings", model_args.model_name_or_path if args.cache_embeddings else None),
    }.get(stage, (None, None))
    if not name:
        return {}
    encode = any_encoder(name)
    sides = {"decoder": ("source",), "distillation": ("source",), "lexical": ("target",)}.get(
        stage, ("source", "target")
    )
    if role == "teacher" and args.live_teacher:
        return {role: tuple(LiveRows(dataset, side, encode) for side in sides)}
    key = f"{name} {fingerprint(name)}"
    # Algorithm 2 does not ask the teacher about a language that it never saw.
    known = stage_args.base_languages if stage == "extension" else None
    options = dict(normalize=role == "guide", sides=sides, languages=known)
    return {role: frozen_embeddings(dataset, encode, key, args.cache_dir, **options)}


def groups_of(model_args: ModelArguments, args: DataArguments, stage_args, dataset: Dataset) -> np.ndarray:
    """(rows, levels) numbers; rows of a number share batches: a pair of languages, then a cluster of targets."""
    levels = []
    if args.language_batches:
        levels.append(language_groups(dataset["source_lang"], dataset["target_lang"]))
    if not args.neighbour_groups:
        return np.stack(levels, axis=1)
    name = args.neighbours_by or model_args.bag
    key = f"{name} {fingerprint(name)}"
    options = dict(normalize=True, sides=("target",))
    (targets,) = frozen_embeddings(dataset, any_encoder(name), key, args.cache_dir, **options)
    levels.append(neighbour_groups(targets, args.neighbour_groups, stage_args.seed))
    return np.stack(levels, axis=1)


def load_model(args: ModelArguments, tokenizer, languages: list[str]) -> EchoForTranslation:
    if args.model_name_or_path:
        model = EchoForTranslation.from_pretrained(args.model_name_or_path, dtype=torch.float32)
        return with_decoder(model, args.decoder) if args.decoder else model
    bag = EchoEncoder.from_pretrained(args.bag, dtype=torch.float32) if args.bag else None
    known = (bag.config.languages or []) if bag is not None else []
    model = EchoForTranslation(new_config(args.shape, tokenizer, sorted({*known, *languages})))
    if bag is not None:
        start_from_bag(model, bag)
    return with_decoder(model, args.decoder) if args.decoder else model


def with_decoder(model: EchoForTranslation, name: str) -> EchoForTranslation:
    """The same encoder with the decoder of another checkpoint of its space."""
    return EchoForTranslation.from_parts(
        model.encoder, EchoDecoder.from_pretrained(name, dtype=torch.float32)
    )


def new_config(shape: dict, tokenizer, languages: list[str] | None = None) -> EchoConfig:
    """EchoConfig of a new model; `shape` holds its fields, and what is other in the decoder: `decoder_layers`, and
    `decoder_vocab_size`, the first ids of the vocabulary that it knows (`vocabulary/order.py`)."""
    shape = dict(shape)
    of_decoder = {
        name: shape.pop(key)
        for key, name in (("decoder_layers", "num_hidden_layers"), ("decoder_vocab_size", "vocab_size"))
        if key in shape
    }
    known = {f.name for f in fields(EchoConfig)}
    if unknown := sorted(set(shape) - known):  # transformers would take it as an attribute and go on
        near = difflib.get_close_matches(unknown[0], known, n=1)
        raise ValueError(
            f"unknown shape field {unknown[0]!r}" + (f", did you mean {near[0]!r}?" if near else "")
        )
    own = {k: shape.pop(k) for k in ("pooling", "final_norm") if k in shape}
    names = ("pad", "bos", "eos", "cls", "sep")
    ids = {f"{n}_token_id": getattr(tokenizer, f"{n}_token_id", None) for n in names}
    common = (
        {"vocab_size": len(tokenizer), "max_position_embeddings": tokenizer.model_max_length} | shape | ids
    )
    decoder = EchoDecoderConfig(**common | of_decoder, decoder_start_token_id=ids["bos_token_id"])
    return EchoConfig(**common, **own, languages=languages, decoder=decoder)


def _languages(tokenized) -> list[str]:
    return sorted(set(tokenized.names["source_lang"]) | set(tokenized.names["target_lang"]))


def _now_writes(decoder: EchoDecoder, tokenized) -> None:
    """A decoder that learns writes these languages too, beside those that it wrote already."""
    if any(parameter.requires_grad for parameter in decoder.parameters()):
        config = decoder.config
        config.languages = sorted(set(config.languages or []) | set(tokenized.names["target_lang"]))


def run_script(doc: str, default: str) -> None:
    """`python train_scripts/N_stage.py [RECIPE] [key=value ...]`: what `hf-echo train` does, for launchers."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="?", default=default, help=f"YAML file or name, default {default}")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="any field of the recipe")
    args = parser.parse_args()
    if "=" in args.recipe:
        args.recipe, args.overrides = default, [args.recipe, *args.overrides]
    for path in find_recipes(args.recipe):
        results = train_recipe(path, parse_overrides(args.overrides))
        print(json.dumps(results, indent=2, ensure_ascii=False, default=float))
