"""Average the weights of checkpoints of one training: the mean of each tensor (docs/trials/speech.md).

    python train_scripts/studies/average_weights.py outputs/speech-whisper/5_speech outputs/speech-whisper/6_speech OUT

OUT is a copy of the last folder, without its checkpoints, with the averaged weights.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

WEIGHTS = "model.safetensors"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+", help="folders of one architecture")
    parser.add_argument("out", type=Path, help="a new folder")
    args = parser.parse_args()
    tensors = [load_file(folder / WEIGHTS) for folder in args.models]
    shapes = [{name: tensor.shape for name, tensor in weights.items()} for weights in tensors]
    if other := [folder for folder, shape in zip(args.models, shapes) if shape != shapes[0]]:
        parser.error(f"{other[0]} has other tensors than {args.models[0]}: give checkpoints of one architecture")
    shutil.copytree(args.models[-1], args.out, ignore=shutil.ignore_patterns("checkpoint-*"))
    mean = {
        name: torch.stack([weights[name].float() for weights in tensors]).mean(0).to(tensor.dtype)
        for name, tensor in tensors[-1].items()
    }
    save_file(mean, args.out / WEIGHTS, metadata={"format": "pt"})


if __name__ == "__main__":
    main()
