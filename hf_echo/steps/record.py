"""The record of a run (`recipe.json`): recipe and seed, by which the same command resumes or skips
the run."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from transformers import TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, sort_checkpoints

from ..utils.files import check_output, read_json, write_json
from ..utils.fingerprint import changed_files
from ..utils.folders import whole_tensors, whole_weights
from ..utils.hub import snapshot
from ..utils.lineage import portable
from .recipe import Training, defaults_for_evaluation

logger = logging.getLogger(__name__)

RUN = "recipe.json"  # in the output folder: what was trained with which settings
# What does not change the result, by the start of a field's name: the place, the log, the machine.
FREE = (
    "output_dir",
    "cache_dir",
    "live_teacher",
    "use_cpu",
    "save_on_each_node",
    "local_rank",
    "ddp_",
    "dataloader_",
    "log_",
    "logging_",
    "report_to",
    "run_name",
    "project",
    "trackio_",
    "disable_tqdm",
    "skip_",
    "debug",
    "do_",
    "torch_",
    "gradient_checkpointing",
    "activation_checkpointing",
    "push_to_hub",
    "hub_",
    "enable_jit_checkpoint",
)
# How long, and how often it is measured and saved: a run that was killed may resume with other
# values.
LENGTH = ("max_steps", "num_train_epochs", "save_", "eval_")
# What it is measured on, likewise, where no checkpoint and no learning rate is chosen by it.
MEASURED = ("dev_data", "dev_negatives")


def read_record(folder: str | Path | None) -> dict | None:
    """The record in a checkpoint's folder; None where there is none
    (a model of other origin, an unpinned name)."""
    file = Path(snapshot(folder or "")) / RUN
    if not folder or not file.is_file():
        return None
    record = read_json(file)
    if not isinstance(record, dict) or not isinstance(record.get("values"), dict):
        raise ValueError(
            f"{file} is not the record of a run: delete the file, or give another output_dir"
        )
    return record


def record_of(training: Training) -> dict[str, Any]:
    """What a run records before it has results, with the records of the checkpoints that it starts
    from."""
    values = portable(training.values)
    values.pop("hub_token", None)  # a secret
    chosen = values.get("load_best_model_at_end")
    if chosen is None:
        defaults = defaults_for_evaluation(training.stage, values, values.get("dev_data"))
        chosen = defaults.get("load_best_model_at_end")
    run = {
        "stage": values.pop("stage"),
        "values": values,
        "from": read_record(training.model.model_name_or_path),
    }
    if chosen or values.get("lr_scheduler_type") == "reduce_lr_on_plateau":
        run["chosen_by_dev_data"] = True
    if training.model.decoder:
        run["decoder_from"] = read_record(training.model.decoder)
    return run


def write_record(folder: Path, run: Mapping[str, Any], *, finished: bool) -> None:
    write_json(folder / RUN, {**run, "finished": finished})


def data_fingerprint(rows: Iterable[Mapping[str, Any]]) -> str:
    """Fingerprint of the rows of a table, in order;
    the file's name, time and format do not change it."""
    digest = hashlib.blake2b(digest_size=16)
    batches = rows.iter(batch_size=10_000) if hasattr(rows, "iter") else rows
    for batch in batches:
        for name in sorted(batch):
            column = batch[name]
            if isinstance(column, list) and all(isinstance(value, str) for value in column):
                content = "\x1f".join(column)
            else:
                content = json.dumps(column, ensure_ascii=False, default=_text)
            digest.update(f"{name}\x1e{content}\x1d".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _text(value: Any) -> str:
    """Bytes, such as those of a recording, as their hash:
    gigabytes of them written out take minutes."""
    if isinstance(value, bytes):
        return hashlib.blake2b(value, digest_size=16).hexdigest()
    return str(value)


def is_finished(out: Path, run: Mapping[str, Any], before: dict | None) -> bool:
    """Whether `out` holds the finished result of this run."""
    if not (before or {}).get("finished") or _settings(before, FREE) != _settings(run, FREE):
        return False
    if not whole_weights(out):
        logger.warning("%s: the run is finished, but its weights are missing or incomplete", out)
        return False
    return True


def check_data(out: Path, run: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Refuse to continue or skip a run whose data have changed."""
    for field, was in (before.get("data") or {}).items():
        now = run["data"].get(field)
        if now is not None and now != was:
            # "dev_data.flores" is the entry "flores" of the setting `dev_data`.
            setting, _, entry = field.partition(".")
            name = run["values"].get(setting)
            if entry:
                name = (name or {}).get(entry)
            raise ValueError(
                f"{out} was trained on other data: {field} ({name}) has changed since; --fresh trains again from the "
                "start, --changed-data accepts the change, or give another output_dir"
            )


def checkpoint_to_resume(
    out: Path, run: Mapping[str, Any], before: dict | None, fresh: bool
) -> str | None:
    """The last complete checkpoint of the same run;
    a longer one (more steps) is the same run too."""
    checkpoints = []
    if out.is_dir():
        checkpoints = [Path(p) for p in sort_checkpoints(str(out), PREFIX_CHECKPOINT_DIR)]
    if fresh:
        if int(os.environ.get("RANK", 0)) == 0:
            for folder in checkpoints:
                shutil.rmtree(folder)  # or a later resume would take an old one for the newest
        return None
    if not checkpoints and not whole_weights(out):
        return None
    # without checkpoints a longer run would train all again
    free = FREE + LENGTH if checkpoints else FREE
    if before is None or _settings(before, free) != _settings(run, free):
        differs = f" ({_difference(before, run, free)})" if before else ""
        kind_of_files = "checkpoints" if checkpoints else "weights"
        raise ValueError(
            f"{out} holds {kind_of_files} of other settings; --fresh replaces them, or change output_dir{differs}"
        )
    trained_by = before.get("processes")
    now = run.get("processes")
    if checkpoints and trained_by and now and trained_by != now:
        raise ValueError(
            f"{out} was trained by {trained_by} processes, now there are {now}, whose batches would be others: "
            f"start {trained_by}, or --fresh trains again from the start"
        )
    # The last one that is complete; one that the run was stopped in is not.
    for folder in reversed(checkpoints):
        if not whole_checkpoint(folder):
            logger.warning(
                "%s is incomplete (the run was stopped while it was being saved) and is not used",
                folder,
            )
            continue
        longest = run["values"].get("max_steps") or 0
        if 0 < longest < int(folder.name.rpartition("-")[2]):
            raise ValueError(
                f"{out} was trained further ({folder.name}) than max_steps={longest}: --fresh trains it again from the "
                "start, or give another output_dir"
            )
        return str(folder)
    if checkpoints:
        logger.warning("%s: no checkpoint is complete, the run starts from the beginning", out)
    return None


def weights_of_the_end(checkpoint: Path, args: TrainingArguments) -> Path | None:
    """The checkpoint to save, where the last one stands at the end of the run already:
    itself, or the best one."""
    state = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
    longest = args.max_steps if args.max_steps > 0 else args.num_train_epochs
    if state["global_step" if args.max_steps > 0 else "epoch"] < longest:
        return None
    if args.load_best_model_at_end and state.get("best_model_checkpoint"):
        best = checkpoint.parent / Path(state["best_model_checkpoint"]).name
        return best if whole_checkpoint(best) else checkpoint
    return checkpoint


def whole_checkpoint(folder: Path) -> bool:
    """Whether all that a run continues from is there and readable;
    what is written last is trainer_state.json."""
    try:
        json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    changed = next(changed_files(folder), None)  # none where an earlier version wrote no checksums
    if changed:
        logger.warning("%s: %s is not as it was written", folder, changed)
        return False
    files = [*folder.glob("*.pt"), *folder.glob("*.pth")]
    return all(zipfile.is_zipfile(file) for file in files) and whole_tensors(folder)


def check_output_folder(out: Path) -> None:
    """Raises ValueError if a run cannot be saved there, or would replace files of others;
    before the data are read."""
    try:
        check_output(out, folder=True)
    except (OSError, ValueError) as error:
        raise ValueError(f"output_dir: {error}") from None
    if not out.is_dir():
        return
    names = sorted(file.name for file in out.iterdir() if not file.name.startswith("."))
    has_checkpoint = any(name.startswith(PREFIX_CHECKPOINT_DIR) for name in names)
    if names and not (RUN in names or has_checkpoint or whole_weights(out)):
        raise ValueError(f"output_dir: {out} holds {names[0]} and no run: give a folder of its own")


def _settings(run: Mapping[str, Any], free: tuple[str, ...]) -> dict:
    """What decides the result, of a run and of the runs that it started from
    (of which no setting is free)."""
    if free != FREE and not run.get("chosen_by_dev_data"):
        free = free + MEASURED
    portable_values = portable(run["values"])
    values = {
        key: value
        for key, value in portable_values.items()
        if value is not None and not key.startswith(free)
    }
    settings = {"stage": run.get("stage"), "values": values}
    for key in ("from", "decoder_from"):
        if isinstance(run.get(key), Mapping) and isinstance(run[key].get("values"), Mapping):
            of_start = {name: run[key].get(name) for name in ("finished", "data", "parents")}
            settings[key] = _settings(run[key], FREE) | of_start
    return json.loads(json.dumps(settings, default=str))


def _difference(before: Mapping[str, Any], run: Mapping[str, Any], free: tuple[str, ...]) -> str:
    """The first setting in which two runs differ, as the refusal says it."""
    old = _settings(before, free)
    new = _settings(run, free)
    if old["stage"] != new["stage"]:
        return f"stage {old['stage']}, now {new['stage']}"
    for key in sorted({*old["values"], *new["values"]}):
        was = old["values"].get(key)
        now = new["values"].get(key)
        if was != now:
            return f"{key} was {was!r}, now {now!r}"
    return "what it starts from was trained again"
