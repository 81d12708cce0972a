import os
from pathlib import Path

import numpy as np
import pytest

from hf_echo.stages.core import base as trainer
from hf_echo.stages.core import cpu_memory
from hf_echo.stages.core.cpu_memory import give_back_memory

pytestmark = pytest.mark.trains


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(cpu_memory._malloc_trim() is None, reason="only glibc keeps it")
def test_what_is_free_between_what_is_not_goes_back():
    give_back_memory()
    arrays = [np.ones(100_000, np.uint8) for _ in range(3000)]  # too small to be mapped one by one
    kept, held = arrays[::100] + arrays[-1:], resident()
    del arrays
    give_back_memory()
    assert held - resident() > 200e6
    assert all(array.all() for array in kept)


def test_training_gives_back_every_few_steps(make_trainer, monkeypatch):
    steps, made = [], make_trainer("contrastive", max_steps=7)
    monkeypatch.setattr(trainer, "EVERY", 3)
    monkeypatch.setattr(trainer, "give_back_memory", lambda: steps.append(made.state.global_step))
    made.train()
    assert steps == [2, 5]
