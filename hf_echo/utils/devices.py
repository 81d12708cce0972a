"""The device that models are opened on where the caller names none: `$HF_ECHO_DEVICE`, CUDA if
there is one, the CPU.

`--device` of the commands sets the variable, so that worker processes follow too.
"""

from __future__ import annotations

import os

DEVICE = "HF_ECHO_DEVICE"


def choose_device(name: str) -> None:
    """Open the models of this process, and of those that it starts,
    on a device such as cpu or cuda:1."""
    os.environ[DEVICE] = name


def chosen_device() -> str | None:
    """The name of the device that was chosen; None where nobody did."""
    return os.environ.get(DEVICE) or None
