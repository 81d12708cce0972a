"""What keeps a long run whole: it stops at the first number that is not finite,
and saves when it is asked to end."""

from __future__ import annotations

import errno
import math
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors import SafetensorError
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, sort_checkpoints

from ...losses.gather import world_size
from ...utils.files import one_line
from ...utils.fingerprint import CHECKSUMS, write_checksums_of

# How torch.save says that a write failed; it does not say why.
FAILED_WRITES = ("file write failed", "iostream error", "inline_container.cc")


class SaveWhenAsked(TrainerCallback):
    """Saves and ends the run behind the step in which a process gets SIGTERM.

    transformers' own callback of `enable_jit_checkpoint` also saves before the optimizer's step,
    with the random state of behind it, and each process for itself: such a run does not go on as an
    unbroken one.
    """

    def __init__(self) -> None:
        self.is_asked = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """SIGTERM asks for the end, inside of the block; only the main thread can listen."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGTERM, self._ask)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    def _ask(self, number: int, frame: Any) -> None:
        self.is_asked = True

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self._is_asked_anywhere(args.device):
            control.should_save = True
            control.should_training_stop = True

    def _is_asked_anywhere(self, device: torch.device) -> bool:
        """Processes get the signal in different steps; all end after the same one."""
        if world_size() == 1:
            return self.is_asked
        asked = torch.tensor(int(self.is_asked), device=device)
        dist.all_reduce(asked, op=dist.ReduceOp.MAX)
        return bool(asked)


def check_finite_step(value: torch.Tensor | float | None, what: str, step: int, out: str) -> None:
    """Raises ValueError for a loss or gradient norm that is NaN or infinite."""
    if value is None:
        return
    number = float(value)
    if math.isfinite(number):
        return
    # Where the run can go on from, after a change of the recipe.
    checkpoints = sort_checkpoints(out, PREFIX_CHECKPOINT_DIR) if Path(out).is_dir() else []
    last = f"; {checkpoints[-1]} is the last checkpoint" if checkpoints else ""
    raise ValueError(
        f"step {step + 1}: the {what} is {number}, so the run has diverged: lower learning_rate, raise warmup_steps, "
        f"or look at the data{last}"
    )


@contextmanager
def checkpoint_or_nothing(folder: Path) -> Iterator[None]:
    """A block that writes a checkpoint: on a full disk its part of it is removed,
    and one line says so."""
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        text = one_line(error)
        # Each library says in its own way that the disk is full.
        is_full = getattr(error, "errno", None) == errno.ENOSPC or os.strerror(errno.ENOSPC) in text
        is_full = is_full or any(sign in text for sign in FAILED_WRITES)
        if not is_full:
            raise
        shutil.rmtree(folder, ignore_errors=True)
        rest = sort_checkpoints(str(folder.parent), PREFIX_CHECKPOINT_DIR)
        last = f"the run can go on from {rest[-1]}" if rest else "there is no earlier one"
        raise OSError(
            f"the disk is full: {folder} could not be written; {last}; save_total_limit keeps fewer"
        ) from None


def write_checkpoint_checksums(folder: Path) -> None:
    """`checksums.json` with size and SHA-256 of every file of a checkpoint;
    read before a run continues from it."""
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    write_checksums_of(folder, [file for file in files if file.name != CHECKSUMS])
