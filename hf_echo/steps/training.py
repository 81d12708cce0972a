"""From a recipe (YAML) to a trained checkpoint: data, tokenizer, model, trainer, in this order.

A recipe is one stage. A folder of recipes, in the order of their names, is a journey. Every field
can be overridden. A run that was killed resumes from its last checkpoint; a stage that is finished
is not trained again.
"""

from __future__ import annotations

import json
import logging
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from huggingface_hub import create_repo, upload_folder
from transformers import AutoConfig, TrainingArguments, set_seed

from ..cards.model_card import checkpoint_card, model_card
from ..data.prepared import PreparedParallel
from ..data.tokenized import TokenizedParallel
from ..inference.encode import opening
from ..stages.core.adapter import save_adapter
from ..stages.core.arguments import DataArguments
from ..stages.core.base import CoreTrainer
from ..stages.core.model_shape import check_same_shape
from ..stages.core.stage import Stage
from ..utils.files import named_when_full, only_run, read_json, write_json
from ..utils.lineage import portable
from .data import (
    data_fingerprints,
    embedded_sides,
    row_groups,
    tokenized_rows,
    training_rows,
)
from .recipe import Training, read_recipe
from .record import (
    check_data,
    check_output_folder,
    checkpoint_to_resume,
    is_finished,
    read_record,
    record_of,
    weights_of_the_end,
    write_record,
)

logger = logging.getLogger(__name__)


def train_recipe(
    path: Path,
    overrides: dict[str, Any] | None = None,
    *,
    fresh: bool = False,
    changed_data: bool = False,
) -> dict[str, Any]:
    """Train one stage and save it in its `output_dir`; returns metrics
    (also written to results.json there).

    Args:
        fresh: train again although the stage is finished, and drop the checkpoints of a run that is
            not.
        changed_data: resume a run, or take a stage as finished, although its data have changed
            since.
    """
    training = read_recipe(path, overrides)
    assert isinstance(training, Training), f"{path} is an operation"
    args = training.config
    out = Path(args.output_dir)
    check_output_folder(out)
    # Two runs would write their checkpoints into one folder. The first process speaks for all.
    alone = only_run(out) if args.process_index == 0 else nullcontext()
    with alone:
        return _trained(path, training, fresh, changed_data)


def _trained(path: Path, training: Training, fresh: bool, changed_data: bool) -> dict[str, Any]:
    """The results of a stage that is finished, or trained now."""
    stage = training.stage
    model_args = training.model
    data_args = training.data
    args = training.config
    out = Path(args.output_dir)
    run = record_of(training) | {"processes": args.world_size}
    before = None if fresh else read_record(out)
    if is_finished(out, run, before):
        if before.get("data") and not changed_data:
            check_data(out, run | {"data": _data_of_finished(stage, data_args)}, before)
        logger.info("%s is trained already (%s); --fresh trains it again", path.stem, out)
        mended = portable(before)  # without paths of this machine, which a push refuses
        if before != mended and args.process_index == 0:
            write_record(out, mended, finished=True)
        if args.push_to_hub and args.process_index == 0:
            _push(args)  # the upload may be what failed; equal files are not uploaded again
        return _results(out)
    resume = checkpoint_to_resume(out, run, before, fresh)
    if model_args.model_name_or_path:
        check_start(model_args.model_name_or_path, model_args.shape)
    set_seed(args.seed)
    # The other processes, those of other machines too, find the caches: all machines see one
    # cache_dir.
    with args.main_process_first(local=False, desc="data"):
        loaded = stage.load_rows(data_args)
        dev_sets = stage.load_dev_sets(data_args)
        run["data"] = data_fingerprints(loaded, dev_sets, data_args)
        if resume and not changed_data:
            check_data(out, run, before)
        dataset = training_rows(stage, data_args, args, loaded)
        tokenizer = stage.open_processor(model_args, dataset, args, resume)
        train_dataset = tokenized_rows(stage, data_args, args, dataset, tokenizer)
        groups = None
        if data_args.batch_by:
            start = model_args.model_name_or_path or model_args.backbone
            groups = row_groups(dataset, data_args.batch_by, start, tokenizer)
    options = embedded_sides(stage, model_args, data_args, args, dataset, train_dataset)
    if groups is not None:
        options["groups"] = groups
    languages = stage.languages(train_dataset)
    options |= dict(train_dataset=train_dataset, tokenizer=tokenizer, dev_sets=dev_sets)
    trainer = stage.build_trainer(model_args, args, languages, **options)
    if isinstance(train_dataset, (TokenizedParallel, PreparedParallel)):
        _add_written_languages(trainer.model, train_dataset)
    # of a push during training
    trainer.model_card = model_card(run, languages, config=_config(trainer.model))
    if trainer.is_world_process_zero():
        write_record(out, run, finished=False)
        if resume:
            step = Path(resume).name.rpartition("-")[2]
            logger.info("%s: the run continues from %s (step %s)", path.stem, resume, step)
    seconds = _train(trainer, resume, path.stem)
    return _save(stage, trainer, run, languages, seconds)


def check_start(name: str, shape: dict[str, Any]) -> None:
    """Raises FileNotFoundError for a name without a checkpoint, and ValueError for a `shape` that
    the checkpoint does not have."""
    with opening(name) as place:
        if shape:
            check_same_shape(shape, AutoConfig.from_pretrained(place), name)


def _train(trainer: CoreTrainer, resume: str | None, name: str) -> float:
    """Train, or load the weights of a run that was killed after its last step; returns seconds."""
    start = time.time()
    last = weights_of_the_end(Path(resume), trainer.args) if resume else None
    if last:
        logger.info("%s: all steps are done, the weights of %s are saved", name, last)
        trainer._load_from_checkpoint(str(last))  # `train` would take one more step
        trainer.state.best_model_checkpoint = str(last)
    else:
        if resume and not (Path(resume) / "scheduler.pt").is_file():
            raise ValueError(
                f"{resume} holds weights only, so {name} cannot be resumed; --fresh trains it again"
            )
        trainer.train(resume_from_checkpoint=resume)
        step = trainer.state.global_step
        steps = trainer.state.max_steps
        # SIGTERM with enable_jit_checkpoint
        if trainer.control.should_training_stop and step < steps:
            raise ValueError(
                f"{name} was stopped at step {step} of {steps}; the same command resumes it"
            )
    return time.time() - start


def _save(
    stage: Stage, trainer: CoreTrainer, run: dict[str, Any], languages: list[str], seconds: float
) -> dict[str, Any]:
    """Save the trained model, then evaluate it and add card, results and lineage;
    returns the results."""
    args = trainer.args
    tokenizer = trainer.tokenizer
    out = Path(trainer.args.output_dir)
    trained = trainer.accelerator.unwrap_model(trainer.model)
    other = stage.finished(trainer)
    model = trained if other is None else other
    with named_when_full(out):
        if trainer.has_adapter and not stage.merges_adapter:
            if trainer.is_world_process_zero():
                save_adapter(trained, out, tokenizer)
        elif other is None:
            # every process takes part: under FSDP each holds a part of the weights
            # not pushed yet: the card has no figures
            trainer.save_model(str(out), _internal_call=True)
        elif trainer.is_world_process_zero():
            model.save_pretrained(out)
        if trainer.is_world_process_zero():
            tokenizer.save_pretrained(out)
    tables: dict[str, Any] = {}
    metrics = trainer.measure(model, trainer.dev_sets, tables=tables)
    results = {"stage": stage.name, "seconds": round(seconds, 1), **metrics}
    if trainer.tokens_per_second:
        results["tokens_per_second"] = trainer.tokens_per_second
    best = trainer.state.best_model_checkpoint
    if args.load_best_model_at_end and best:
        results["best_checkpoint"] = Path(best).name
    by_language = {name: json.loads(table.to_json()) for name, table in tables.items()}
    written = results | {"tables": by_language}
    codes = getattr(model.config, "languages", None) or languages
    trainer.model_card = model_card(run, codes, written, config=_config(model))
    if trainer.is_world_process_zero():
        write_json(out / "results.json", written)
        counted = {key: results[key] for key in ("seconds", "tokens_per_second") if key in results}
        write_record(out, run | {"results": counted | {"languages": codes}}, finished=True)
        (out / "README.md").write_text(checkpoint_card(out), encoding="utf-8")
        if args.push_to_hub:
            trainer._finish_current_push()
            _push(args)
    return results


def _push(args: TrainingArguments) -> None:
    """Upload the folder as it is. `Trainer.push_to_hub` would first save the trained model over the
    finished one."""
    name = args.hub_model_id or Path(args.output_dir).absolute().name
    repo = create_repo(name, token=args.hub_token, private=args.hub_private_repo, exist_ok=True)
    upload_folder(
        repo_id=repo.repo_id,
        folder_path=args.output_dir,
        commit_message="End of training",
        ignore_patterns=["_*", "checkpoint-*"],
        token=args.hub_token,
        revision=args.hub_revision,
    )


def _config(model: Any) -> dict[str, Any] | None:
    return model.config.to_dict() if hasattr(model, "config") else None


def _results(out: Path) -> dict[str, Any]:
    return {
        key: value for key, value in read_json(out / "results.json", {}).items() if key != "tables"
    }


def _data_of_finished(stage: Stage, args: DataArguments) -> dict[str, str]:
    """Fingerprints of the current data; empty if the data are gone,
    since a finished run does not read them."""
    try:
        return data_fingerprints(stage.load_rows(args), stage.load_dev_sets(args), args)
    except FileNotFoundError as error:
        logger.warning("data are not compared with those of the finished run: %s", error)
        return {}


def _add_written_languages(model: Any, tokenized: TokenizedParallel | PreparedParallel) -> None:
    """Add the target languages to those that a trained decoder writes."""
    decoder = getattr(model, "decoder", None)
    if decoder is not None and any(parameter.requires_grad for parameter in decoder.parameters()):
        written = {*(decoder.config.languages or []), *tokenized.names["target_lang"]}
        decoder.config.languages = sorted(written)
