"""`hf-echo train RECIPE`, which gets a signal while checkpoint-4 is being written.

    python train_and_signal.py RECIPE SIGTERM

Weights and optimizer are there, the record of the random numbers and trainer_state.json are not.
"""

import os
import signal
import sys
from pathlib import Path

import torch

from hf_echo.cli import main

recipe, name = sys.argv[1:]
save = torch.save


def save_and_signal(value, file, *args, **options):
    save(value, file, *args, **options)
    path = Path(str(file))
    if path.parts[-2:] == ("checkpoint-4", "optimizer.pt"):
        os.kill(os.getpid(), getattr(signal, name))


torch.save = save_and_signal
sys.argv = ["hf-echo", "train", recipe]
main()
