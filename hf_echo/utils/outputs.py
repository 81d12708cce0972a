"""One rule for what the commands write: nothing that is there is replaced unasked.

The same command on the same inputs does nothing, says so and prints its report again. An output of
other settings, of other inputs or of unknown origin is refused; `--overwrite` replaces it. What
made an output is noted in the cache of the user, not beside it: `made/` in `$HF_ECHO_CACHE`, or in
~/.cache/hf-echo.

Folders of checkpoints do not need a note, since their lineage says what made them
(`hf_echo.steps.run.is_made`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .files import files_below, read_json, write_json
from .settings import Step, existing_paths, fields_of

CACHE = "HF_ECHO_CACHE"
FIX = "name another output, or replace it with --overwrite"
# What does not change a result: where it runs, and whether the work of a stopped run is used.
FREE = ("block", "cache", "device", "executor", "overwrite", "resume", "work")
STANDARD = "-"
# NAME.fr-en is NAME.fr-en.fr, NAME.fr-en.en
MOSES = re.compile(r".*\.([A-Za-z_]+)-([A-Za-z_]+)(\.gz|\.zst|\.xz)?")


def cache_folder() -> Path:
    """The folder of what hf-echo keeps for later runs."""
    return Path(os.environ.get(CACHE) or Path.home() / ".cache" / "hf-echo")


def earlier_run(settings: Step, report_file: Path | None = None) -> dict[str, Any] | None:
    """The note of an earlier run that wrote what this command would write; None if none of its
    outputs is there.

    Raises:
        ValueError: an output is there that another command wrote, or that nobody knows; the message
            says what differs.
    """
    files = output_files(settings, report_file)
    if not any(file.exists() for file in files):
        return None
    now = _note(settings)
    note: dict[str, Any] = {}
    # Each output has a note beside it that says how it was made.
    for file in files:
        if not file.exists():
            continue
        note = read_json(_place(file), {})
        reason = _difference(note, now, file)
        if reason:
            raise ValueError(f"{file} is there, {reason}: {FIX}")
    # Some of the outputs are not a result.
    missing = [file for file in files if not file.exists()]
    if missing:
        raise ValueError(
            f"{missing[0]} is not there any more, but another output of this command is: {FIX}"
        )
    return note


def note_run(settings: Step, report: Any, report_file: Path | None = None) -> None:
    """Note what made the outputs of a command that has ended well."""
    files = [file for file in output_files(settings, report_file) if file.exists()]
    if not files:
        return
    note = _note(settings) | {"report": json.loads(json.dumps(report, default=float))}
    for file in files:
        try:
            write_json(_place(file), note | {"output": signature(file)})
        except OSError:  # a home without space or rights: the next run asks for --overwrite
            return


def output_files(settings: Step, report_file: Path | None = None) -> list[Path]:
    """The files and folders that a command writes; standard output, devices and pipes are none."""
    named = []
    for name, declared in fields_of(type(settings)).items():
        if declared.metadata.get("writes") and getattr(settings, name):
            named.append(Path(getattr(settings, name)))
    if report_file is not None:
        named.append(report_file)
    files = []
    for path in named:
        match = MOSES.fullmatch(path.name)
        if str(path) == STANDARD:
            continue
        if match and not path.exists():  # a Moses pair is two files
            source, target, packed = match.groups()
            stem = path.name.removesuffix(packed or "")
            files.append(path.with_name(f"{stem}.{source}{packed or ''}"))
            files.append(path.with_name(f"{stem}.{target}{packed or ''}"))
        elif path.is_dir() and not any(path.iterdir()):
            continue  # an empty folder is as good as none
        elif path.is_file() and not path.stat().st_size:
            continue  # and so is an empty file, such as one of `mktemp`
        elif path.is_file() or path.is_dir() or not path.exists():  # no device and no pipe
            files.append(path)
    return files


def as_written(path: Path) -> bool:
    """Whether a file or folder is as a command has written it: noted, and not changed since."""
    note = read_json(_place(path), {})
    return path.exists() and bool(note) and note["output"] == signature(path)


def signature(path: Path) -> str:
    """What changes when a file, or a file of a folder, is written: sizes and times."""
    # Not the contents: an output may have gigabytes.
    files = files_below(path) if path.is_dir() else [path]
    digest = hashlib.sha256()
    for file in files:
        facts = file.stat()
        name = file.relative_to(path).as_posix()
        digest.update(f"{name} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:32]


def _note(settings: Step) -> dict[str, Any]:
    """Command, settings and inputs as JSON has them;
    `inputs` is null where they cannot be compared."""
    values = {}
    inputs: dict[str, str] | None = {}
    for name, declared in fields_of(type(settings)).items():
        value = getattr(settings, name)
        if declared.metadata.get("writes") or name in FREE:
            continue
        values[name] = value
        if declared.metadata.get("reads") and str(value) == STANDARD:
            inputs = None  # standard input is another one each time
        elif inputs is not None:
            inputs |= _signatures(existing_paths(value))
    note = {
        "command": settings.command,
        "version": version("hf-echo"),
        "settings": values,
        "inputs": inputs,
    }
    return json.loads(json.dumps(note, default=str))


def _signatures(paths: Iterable[str | Path]) -> dict[str, str]:
    signatures = {}
    for path in paths:
        signatures[os.path.realpath(path)] = signature(Path(path))
    return signatures


def _difference(note: dict[str, Any], now: dict[str, Any], file: Path) -> str | None:
    """Why a file is not what the command would write, in words; None if it is."""
    # In the order in which a reader would look: file, command, settings, inputs, version.
    if not note or note["output"] != signature(file):
        return "and not as a run of this command has left it"
    if note["command"] != now["command"]:
        return f"written by hf-echo {note['command']}"
    for name, value in now["settings"].items():
        before = note["settings"].get(name)
        if before != value:
            return f"made with {name}={before}, not {value}"
    if note["inputs"] is None or now["inputs"] is None:
        return "and whether standard input is the same cannot be known"
    if note["inputs"] != now["inputs"]:
        changed = set(note["inputs"].items()) ^ set(now["inputs"].items())
        return f"and {sorted(changed)[0][0]} has changed since"
    if note["version"] != now["version"]:
        return f"made by version {note['version']} of hf-echo"
    return None


def _place(file: Path) -> Path:
    name = hashlib.sha256(os.path.realpath(file).encode()).hexdigest()[:32]
    return cache_folder() / "made" / f"{name}.json"
