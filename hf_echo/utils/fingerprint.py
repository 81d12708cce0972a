"""Fingerprint of a model, and the checksums of a release.

Equal fingerprints mean equal weights, tokenizer, configuration and prompts: file contents, not
folder names or file times, without training state, cards and results. `checksums.json` in a release
has size and SHA-256 of the same files: a folder whose weights were changed after it was written
says so when hf-echo opens it. Opening stays fast: files of up to `WHOLE` bytes are read whole
(0.1 s), of larger ones the size is compared. `hf-echo push` reads all of every file.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from .files import files_below, read_json, write_json
from .hub import packaged_model, split_revision

SUFFIXES = {".safetensors", ".bin", ".gguf", ".json", ".model", ".txt", ".jinja"}
CHECKSUMS = "checksums.json"
WHOLE = 100_000_000
LEFT_OUT = {
    "recipe.json",
    "results.json",
    "checksums.json",
    "trainer_state.json",
    "training_args.bin",
}
FOLDERS_LEFT_OUT = ("checkpoint-", ".", "__pycache__", "runs")

logger = logging.getLogger(__name__)
_warned: set[str] = set()


def fingerprint(name: str | Path) -> str:
    """``sha256:...`` of a model folder, file or packaged model,
    ``commit:...`` (or unknown) of a cached Hub name."""
    repo, revision = split_revision(name)
    if revision is not None:
        return f"commit:{_cached_commit(repo, revision) or 'unknown'}"
    path = Path(packaged_model(str(name)))
    if path.is_file():
        return f"sha256:{sha256(path)}"
    if not path.is_dir():
        return f"commit:{_cached_commit(str(name)) or 'unknown'}"
    files = check_model_files(path)
    # With the names: two files that change places make another model.
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(path).as_posix()} {sha256(file)}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def check_model_files(folder: Path) -> list[Path]:
    """`model_files`; raises FileNotFoundError where there are none."""
    files = model_files(folder)
    if not files:
        raise FileNotFoundError(
            f"{folder} holds no weights, tokenizer or configuration: give a model's folder"
        )
    return files


def model_files(folder: Path) -> list[Path]:
    """Weights, tokenizers, configurations and prompts of a folder, sorted."""
    files = []
    for file in files_below(folder):
        is_left_out = any(
            part.startswith(FOLDERS_LEFT_OUT) for part in file.relative_to(folder).parts
        )
        if (
            file.suffix in SUFFIXES
            and file.name not in LEFT_OUT
            and file.is_file()
            and not is_left_out
        ):
            files.append(file)
    return files


def sha256(file: str | Path) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    # In parts, since weights may be larger than memory.
    digest = hashlib.sha256()
    with Path(file).open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _cached_commit(name: str, revision: str | None = None) -> str | None:
    """The commit of a model in the local cache of the Hub; None where it is not there."""
    from transformers.utils import cached_file, extract_commit_hash

    options = dict(
        revision=revision, local_files_only=True, _raise_exceptions_for_missing_entries=False
    )
    for file_name in ("config.json", "modules.json"):
        try:
            file = cached_file(name, file_name, **options)
        except (OSError, ValueError):
            return None
        if file is not None:
            return extract_commit_hash(file, None)
    return None


def write_checksums(folder: str | Path) -> None:
    """Write the checksums of a finished folder;
    cards, lineage and results may change later, so they have none."""
    folder = Path(folder)
    write_checksums_of(folder, model_files(folder))


def write_checksums_of(folder: Path, files: Iterable[Path]) -> None:
    """`checksums.json` of a folder: size in bytes and SHA-256 of each of these files in it."""
    checksums = {}
    for file in files:
        name = file.relative_to(folder).as_posix()
        checksums[name] = {"size": file.stat().st_size, "sha256": sha256(file)}
    write_json(folder / CHECKSUMS, checksums)


def warn_of_changes(folder: str | Path) -> None:
    """Say, once per process and folder, that weights or other files are not those of the
    release."""
    if str(folder) in _warned:
        return
    changed = list(changed_files(folder, whole=WHOLE))
    if changed:
        _warned.add(str(folder))
        logger.warning(
            f"{folder} was changed after it was written: {', '.join(changed)}; write the release again, or delete "
            f"{CHECKSUMS} there"
        )


def changed_files(folder: str | Path, *, whole: float = float("inf")) -> Iterator[str]:
    """Files missing or not as in `checksums.json`, if there is one;
    over `whole` bytes the size is compared."""
    folder = Path(folder)
    if not (folder / CHECKSUMS).is_file():
        return
    for name, checksum in read_json(folder / CHECKSUMS).items():
        file = folder / name
        # A large file is compared by its size alone: reading gigabytes takes minutes.
        try:
            size = file.stat().st_size
            if size != checksum["size"] or (size <= whole and sha256(file) != checksum["sha256"]):
                yield name
        except FileNotFoundError:
            yield name
        except (TypeError, KeyError):
            raise ValueError(
                f"{folder / CHECKSUMS} is damaged: {name!r} has no size and sha256"
            ) from None
