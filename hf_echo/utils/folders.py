"""Output folders: written whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .files import leftovers, named_when_full, remove_leftovers, unfinished_path
from .lineage import FILE
from .outputs import as_written

# What a checkpoint consists of; other files are somebody's own.
SUFFIXES = {
    ".bin",
    ".jinja",
    ".json",
    ".md",
    ".model",
    ".npy",
    ".onnx",
    ".parquet",
    ".py",
    ".safetensors",
    ".xml",
}
NAMES = {"merges.txt", "vocab.txt"}
REPLACED = ".old"  # end of the name of a folder that is being replaced
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "adapter_model.safetensors")


@contextmanager
def write_folder(path: str | Path) -> Iterator[Path]:
    """Gives an empty folder, which replaces `path` when the block ends without an error.

    `path` is nothing, a checkpoint, or what a command of hf-echo has written and nobody has changed
    since. What a killed process left of this folder is removed.
    """
    place = Path(os.path.realpath(path))
    # A run that was killed while it replaced the folder has moved the earlier one away.
    for earlier in leftovers(place.parent, place.name, REPLACED):
        if not place.exists():
            os.replace(earlier, place)
    remove_leftovers(place.parent, place.name)
    remove_leftovers(place.parent, place.name, REPLACED)
    if place.is_file():
        raise ValueError(f"{path} is a file; give the name of a folder")
    if place == Path.cwd():
        raise ValueError(f"{path} is the working folder, which stays: name a folder in it")
    is_ours = as_written(place)
    if place.is_dir() and any(place.iterdir()) and not (place / FILE).is_file() and not is_ours:
        raise ValueError(
            f"{path} is not empty and holds no checkpoint of hf-echo: name another folder"
        )
    if next(place.glob("checkpoint-*"), None):
        raise ValueError(f"{path} holds a training run: name another folder")
    # Nothing of somebody else is deleted: each file must be one that hf-echo writes.
    for file in sorted(place.rglob("*")):
        inner = file.relative_to(place)
        if file.is_file() and not is_ours and not _is_ours(inner):
            raise ValueError(f"{path} also holds {inner}: move it, or name another folder")
    place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = unfinished_path(place.parent, place.name)
    unfinished.mkdir()
    try:
        with named_when_full(path):
            yield unfinished
        # safetensors 0.8 lets nobody but the owner read them
        for file in unfinished.rglob("*.safetensors"):
            file.chmod(unfinished.stat().st_mode & 0o666)
        # The old folder moves away first: a folder cannot take the place of another in one step.
        if place.exists():
            earlier = unfinished.with_name(unfinished.name + REPLACED)
            os.replace(place, earlier)
            os.replace(unfinished, place)
            shutil.rmtree(earlier)
        else:
            os.replace(unfinished, place)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _is_ours(file: Path) -> bool:
    # of git and of the Hub's client
    hidden = any(part.startswith(".") or part == "__pycache__" for part in file.parts)
    return hidden or file.suffix in SUFFIXES or file.name in NAMES


def holds_model(folder: Path) -> bool:
    """Whether a folder holds a model, not only a tokenizer or tables."""
    return any((folder / name).is_file() for name in ("config.json", "modules.json"))


def whole_weights(folder: Path) -> bool:
    """Whether a folder holds the weights of a model, complete."""
    return any((folder / name).is_file() for name in WEIGHTS) and whole_tensors(folder)


def whole_tensors(folder: Path) -> bool:
    """Whether every file of weights has the length that its header says,
    and every one of an index is there."""
    from safetensors import SafetensorError, safe_open

    try:
        files = set(folder.glob("*.safetensors"))
        index = folder / "model.safetensors.index.json"
        if index.is_file():
            weight_map = json.loads(index.read_text())["weight_map"]
            files |= {folder / name for name in weight_map.values()}
        # Opening compares header and length, and reads no weights.
        for file in files:
            with safe_open(file, "np"):
                pass
    except (OSError, ValueError, KeyError, SafetensorError):
        return False
    return True
