"""Folders of adapters (peft's format): what they are, and on which base."""

from __future__ import annotations

from pathlib import Path

from .files import read_json, write_json
from .fingerprint import fingerprint
from .hub import snapshot

ADAPTER_CONFIG = "adapter_config.json"
BASE = "adapter_base.json"  # base, its fingerprint, and the part of it that the adapter belongs to


def is_adapter(name: str | Path) -> bool:
    """Whether a folder, or a Hub name that is here, holds an adapter alone."""
    folder = Path(snapshot(name))
    return (folder / ADAPTER_CONFIG).is_file() and not (folder / "config.json").is_file()


def write_base(folder: str | Path, base: str, part: str) -> None:
    write_json(Path(folder) / BASE, {"base": base, "fingerprint": fingerprint(base), "part": part})


def base_of(name: str | Path) -> str:
    """Folder or Hub name of the base of an adapter.

    Raises:
        ValueError: the base is no longer the one that the adapter was trained on.
        FileNotFoundError: it is gone.
    """
    folder = Path(snapshot(name))
    base = read_json(folder / ADAPTER_CONFIG).get("base_model_name_or_path")
    if not base:
        raise ValueError(
            f"{folder / ADAPTER_CONFIG} names no base_model_name_or_path: add the checkpoint there"
        )
    if Path(str(base)).is_absolute() and not Path(base).exists():
        raise FileNotFoundError(f"{name} is an adapter on {base}, which is not here: put it there")
    check_base(name, base)
    return str(base)


def check_base(name: str | Path, base: str | Path) -> None:
    """Raises ValueError where `base` has other weights, tokenizer or configuration than the
    adapter's base had."""
    file = Path(snapshot(name)) / BASE
    if not file.is_file():  # made by another program
        return
    trained_on = read_json(file)
    if trained_on["fingerprint"] != fingerprint(base):
        raise ValueError(
            f"{name} is an adapter on {trained_on['base']} as it was when it was trained, and {base} is another "
            "model: give that base, or train the adapter on this one"
        )
