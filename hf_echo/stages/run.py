"""From a recipe (YAML) to a trained checkpoint: data, tokenizer, model, trainer, in this order.

A recipe is one stage. A folder of recipes, in the order of their names, is a journey. Every field can be overridden;
a run that was killed goes on from its last checkpoint, a stage that is finished is not trained again.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset, concatenate_datasets
from transformers import AutoConfig, AutoTokenizer, set_seed

from ..data import load_nway, load_parallel
from ..data.batch_groups import language_groups, neighbour_groups
from ..data.directions import extension_pairs, monolingual, resample
from ..data.tokenized import tokenize_parallel
from ..hub.model_card import model_card
from ..inference.any_encoder import any_encoder
from ..inference.embedding_store import LiveRows, frozen_embeddings
from ..inference.encode import opening
from ..modeling import EchoDecoder, EchoEncoder, EchoForTranslation
from ..utils.fingerprint import fingerprint
from . import DevSet, bag_encoder, evaluate_sets, start_from_bag
from .model_shape import new_config
from .recipe import STAGES, DataArguments, ModelArguments, find_recipes, parse_overrides, read_recipe
from .run_record import (
    check_data,
    check_output_folder,
    checkpoint_to_resume,
    data_fingerprint,
    is_finished,
    read_record,
    weights_of_the_end,
    write_json,
    write_record,
)

logger = logging.getLogger(__name__)

TEACHER_STAGES = ("distillation", "extension", "token")


def train_recipe(
    path: Path, overrides: dict[str, Any] | None = None, *, fresh: bool = False, changed_data: bool = False
) -> dict[str, Any]:
    """Train one stage and save it in its `output_dir`; returns metrics (also written to results.json there).

    Args:
        fresh: train again although the stage is finished, and drop the checkpoints of a run that is not.
        changed_data: continue a run, or take a stage as finished, although its data have changed since.

    Raises:
        ValueError: `output_dir` cannot be written, or holds checkpoints that were trained with other settings or on
            other data.
    """
    stage, model_args, data_args, args, values = read_recipe(path, overrides)
    out = Path(args.output_dir)
    check_output_folder(out)
    run = {
        "stage": stage,
        "values": values,
        "from": read_record(model_args.model_name_or_path or model_args.bag),
    }
    if model_args.decoder:
        run["decoder_from"] = read_record(model_args.decoder)
    before = None if fresh else read_record(out)
    if before and not {"eval_strategy", "load_best_model_at_end"} & set(before["values"]):
        # Recipes of earlier versions evaluated where they said so: such a run keeps what it began with.
        as_before = read_recipe(path, {**(overrides or {}), "eval_strategy": "no"})
        if "load_best_model_at_end" not in as_before[-1] and "load_best_model_at_end" in values:
            stage, model_args, data_args, args, values = as_before
            run["values"] = values
    if is_finished(out, run, before):
        if before.get("data") and not changed_data:
            check_data(out, run | {"data": _data_of_finished(data_args)}, before)
        logger.warning("%s is trained already (%s); --fresh trains it again", path.stem, out)
        return _results(out)
    resume = checkpoint_to_resume(out, run, before, fresh)
    set_seed(args.seed)
    with args.main_process_first(desc="data"):  # who comes second finds the caches
        pairs, dev_sets = load_pairs(data_args), load_dev_sets(data_args)
        run["data"] = data_fingerprints(pairs, dev_sets)
        if resume and not changed_data:
            check_data(out, run, before)
        dataset = training_rows(stage, data_args, args, pairs)
        max_length = getattr(args, "max_length", 128)
        # The weights of a checkpoint belong to its own tokenizer, whatever a new one would be.
        tokenizer = AutoTokenizer.from_pretrained(resume) if resume else load_tokenizer(model_args, dataset, max_length)
        tokenized = tokenize_parallel(dataset, tokenizer, max_length=max_length, cache_dir=data_args.cache_dir)
        trainer_options = frozen_sides(stage, model_args, data_args, args, dataset)
        if data_args.neighbour_groups or data_args.language_batches:
            trainer_options["groups"] = groups_of(model_args, data_args, args, dataset)
    trainer = build_trainer(stage, model_args, args, tokenized, tokenizer, dev_sets, **trainer_options)
    languages = _languages(tokenized)
    if stage != "lexical" and args.translation_weight:
        _now_writes(trainer.model.decoder, tokenized)
    trainer.model_card = model_card(run, languages)  # of a push while it is being trained
    if trainer.is_world_process_zero():
        write_record(out, run, finished=False)
        if resume:
            step = Path(resume).name.rpartition("-")[2]
            logger.warning("%s: the run continues from %s (step %s)", path.stem, resume, step)
    start = time.time()
    if resume and (last := weights_of_the_end(Path(resume), args)):
        logger.warning("%s: all steps are done, the weights of %s are saved", path.stem, last)
        trainer._load_from_checkpoint(str(last))  # `train` would take one more step
        trainer.state.best_model_checkpoint = str(last)
    else:
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
    if args.load_best_model_at_end and (best := trainer.state.best_model_checkpoint):
        results["best_checkpoint"] = Path(best).name
    trainer.model_card = model_card(run, getattr(model.config, "languages", None) or languages, results)
    if stage != "lexical":
        trainer.save_model(str(out))  # every process takes part: under FSDP each holds a part of the weights
    elif trainer.is_world_process_zero():
        model.save_pretrained(out)
    if trainer.is_world_process_zero():
        tokenizer.save_pretrained(out)
        (out / "README.md").write_text(trainer.model_card, encoding="utf-8")
        by_language = {name: json.loads(table.to_json()) for name, table in tables.items()}
        write_json(out / "results.json", results | {"tables": by_language})
        write_record(out, run, finished=True)
    return results


def _results(out: Path) -> dict[str, Any]:
    file = out / "results.json"
    results = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return {key: value for key, value in results.items() if key != "tables"}


def _data_of_finished(args: DataArguments) -> dict[str, str]:
    """Fingerprints of the data as they are now; none where they are not here any more: nothing reads them again."""
    try:
        return data_fingerprints(load_pairs(args), load_dev_sets(args))
    except FileNotFoundError as error:
        logger.warning("data are not compared with those of the finished run: %s", error)
        return {}


def data_fingerprints(pairs: Dataset, dev_sets: dict[str, DevSet]) -> dict[str, str]:
    dev = {f"dev_data.{name}": data_fingerprint(dev.rows) for name, dev in dev_sets.items()}
    return {"train_data": data_fingerprint(pairs)} | dev


def load_pairs(args: DataArguments) -> Dataset:
    if not args.train_data:
        raise ValueError("train_data is missing: a TSV, JSONL or Parquet file, a Hub name, or 'builtin'")
    try:
        return load_parallel(args.train_data, **args.data_options)
    except TypeError as error:  # an option that does not exist
        raise ValueError(f"data_options: {str(error).replace('load_parallel() ', '')}") from None


def training_rows(stage: str, args: DataArguments, stage_args, dataset: Dataset) -> Dataset:
    """What the stage trains on, of the pairs as they were read."""
    seed = stage_args.seed
    if args.source_languages:
        kept, found = set(args.source_languages), dataset
        dataset = dataset.filter(lambda lang: lang in kept, input_columns="source_lang")
        if not len(dataset):
            raise ValueError(
                f"source_languages: no row of {args.train_data} is from {', '.join(sorted(kept))}; it holds "
                f"{', '.join(sorted(set(found['source_lang'])))}"
            )
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
        from ..synthesis import hard_negatives_for

        if args.rule_negatives_limit and args.rule_negatives_limit < len(dataset):
            dataset = dataset.shuffle(seed=seed).select(range(args.rule_negatives_limit))
        # By rule the negatives are English, so only rows into English can have them.
        negatives = hard_negatives_for(dataset["target"], args.rule_negatives)
        column = [[text for text, _ in row] for row in negatives]
        if "hard_negatives" in dataset.column_names:
            dataset = dataset.remove_columns("hard_negatives")
        dataset = dataset.add_column("hard_negatives", column)
        dataset = dataset.filter(lambda row: len(row["hard_negatives"]) > 0 and row["target_lang"] == "eng_Latn")
    return dataset


def load_tokenizer(args: ModelArguments, dataset: Dataset, max_length: int):
    if name := args.tokenizer_name_or_path or args.model_name_or_path or args.bag:
        return AutoTokenizer.from_pretrained(name)
    from ..vocabulary import train_tokenizer

    texts = concatenate_datasets([dataset.select_columns([c]).rename_column(c, "text") for c in ("source", "target")])
    return train_tokenizer((row["text"] for row in texts), args.vocab_size, max_length=max_length)


def load_dev_sets(args: DataArguments) -> dict[str, DevSet]:
    dev_sets = {}
    for name, source in args.dev_data.items():
        if source == "builtin":
            from ..corpora.builtin import dev_set

            rows, negatives = dev_set(max_negatives=args.dev_negatives)
        else:
            rows, negatives = load_nway(source), None
            if args.dev_negatives:
                from ..synthesis import hard_negatives_for

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
    return trainer_class(model, args, train_dataset=tokenized, tokenizer=tokenizer, dev_sets=dev_sets, **options)


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
    return EchoForTranslation.from_parts(model.encoder, EchoDecoder.from_pretrained(name, dtype=torch.float32))


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
