"""Fingerprint of a model: equal fingerprints mean equal weights, tokenizer, configuration and prompts.

The fingerprint covers file contents, not folder names or file times, and leaves out training state, cards and results.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from .hub import packaged_model, split_revision

SUFFIXES = {".safetensors", ".bin", ".gguf", ".json", ".model", ".txt", ".jinja"}
LEFT_OUT = {"recipe.json", "results.json", "checksums.json", "trainer_state.json", "training_args.bin"}
FOLDERS_LEFT_OUT = ("checkpoint-", ".", "__pycache__", "runs")


def fingerprint(name: str | Path) -> str:
    """Fingerprint of a model folder, file or packaged model (``sha256:...``), or of a name on the Hub (``commit:...``).

    The commit of a Hub name is that of the local cache, ``commit:unknown`` if it is not cached.

    Raises:
        FileNotFoundError: the folder contains no model files.
    """
    repo, revision = split_revision(name)
    if revision is not None:
        return f"commit:{_cached_commit(repo, revision) or 'unknown'}"
    path = Path(packaged_model(str(name)))
    if path.is_file():
        return f"sha256:{sha256(path)}"
    if not path.is_dir():
        return f"commit:{_cached_commit(str(name)) or 'unknown'}"
    if not (files := model_files(path)):
        raise FileNotFoundError(f"{name} holds no weights, tokenizer or configuration: give a model's folder")
    lines = (f"{file.relative_to(path).as_posix()} {sha256(file)}\n" for file in files)
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def model_files(folder: Path) -> list[Path]:
    """Weights, tokenizers, configurations and prompts of a folder, sorted."""
    return sorted(file for file in folder.rglob("*") if _counts(file.relative_to(folder)) and file.is_file())


def sha256(file: str | Path) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    digest = hashlib.sha256()
    with Path(file).open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _counts(file: Path) -> bool:
    inside = not any(part.startswith(FOLDERS_LEFT_OUT) for part in file.parts)
    return inside and file.suffix in SUFFIXES and file.name not in LEFT_OUT


def _cached_commit(name: str, revision: str | None = None) -> str | None:
    from transformers.utils import cached_file, extract_commit_hash

    for wanted in ("config.json", "modules.json"):
        try:
            file = cached_file(
                name, wanted, revision=revision, local_files_only=True, _raise_exceptions_for_missing_entries=False
            )
        except (OSError, ValueError):
            return None
        if file is not None:
            return extract_commit_hash(file, None)
    return None
