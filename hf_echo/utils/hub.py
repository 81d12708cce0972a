"""Names on the Hub: a version of a repository by `org/name@v1.2.0`,
and whether the Hub can be reached."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .files import first_line, read_json

logger = logging.getLogger(__name__)

_warned: list[str] = []
SPEECH = "echo-nano-speech"
GGUF = b"GGUF"  # the first bytes of such a file
CONFIGS = ("config.json", "tokenizer_config.json", "preprocessor_config.json")
FILES = ("config.json", "modules.json", "tokenizer.json", "tokenizer_config.json")


def packaged_model(name: str) -> str:
    """The path of a checkpoint included in the package;
    any other name is returned unchanged (folder or Hub name)."""
    from .. import pretrained

    if not name or Path(name).exists() or "/" in name:
        return name
    try:
        return str(pretrained(name))
    except ValueError:
        return name  # a Hub name without an organisation


def packaged_name(path: str | Path) -> str | None:
    """The name of the checkpoint in the package whose folder this is; None for another one."""
    path = Path(path)
    return path.name if path.is_absolute() and packaged_model(path.name) == str(path) else None


def packaged_speech() -> str | None:
    """The path of the speech encoder of echo-nano's space in the package, if the package has it."""
    path = packaged_model(SPEECH)
    return None if path == SPEECH else path


def out_of_reach(name: str, files: Sequence[str] = FILES, kind: str = "model") -> str | None:
    """Why the Hub does not answer for what is not cached, or None;
    transformers would retry for most of a minute."""
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        if any(
            isinstance(try_to_load_from_cache(name, file, repo_type=kind), str) for file in files
        ):
            return None
        # One question with a short limit of time, in place of transformers' many.
        ask = HfApi().model_info if kind == "model" else HfApi().dataset_info
        ask(name, timeout=10)
    except (HfHubHTTPError, HFValidationError, ValueError):
        return None
    except Exception as error:
        # The exceptions of the HTTP client vary with the version of huggingface_hub
        return f"the Hub cannot be reached ({first_line(error)})"
    return None


def split_revision(name: str | Path) -> tuple[str, str | None]:
    """("org/name", "v1.2.0") of "org/name@v1.2.0";
    (name, None) of another name or of what exists on this machine."""
    match = re.fullmatch(r"([\w.-]+/[\w.-]+)@([\w./-]+)", str(name))
    if match is None or Path(name).exists():
        return str(name), None
    repo, revision = match.groups()
    return repo, revision


def may_be_on_hub(name: str) -> bool:
    """Whether a name that is not here may be on the Hub:
    org/name or org/name@v1.2.0, and no folder `org` is here."""
    name, _ = split_revision(name)
    return name.count("/") == 1 and name[0] not in "./~" and not Path(name).parent.is_dir()


def is_place(name: str) -> bool:
    """Whether a name can only be that of a folder or file: ./a, ~/a, /a or a/b/c."""
    return name.startswith((".", "/", "~")) or name.count("/") > 1 or Path(name).is_absolute()


def snapshot(name: str | Path) -> str:
    """The folder of one version ("org/name@v1.2.0" is downloaded whole) or of a model of the
    package ("echo-nano").

    Every other name is returned as it is. Weights, decoder, tokenizer and code come from the same
    commit. What is in the cache is not downloaded again.
    """
    repo, revision = split_revision(name)
    if revision is None:
        return packaged_model(name) if isinstance(name, str) else str(name)
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import (
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        return snapshot_download(repo, revision=revision)
    except RevisionNotFoundError:
        # Say which versions there are.
        tags = sorted(ref.name for ref in HfApi().list_repo_refs(repo).tags)
        raise FileNotFoundError(
            f"{repo} has no version {revision}; it has {', '.join(tags) or 'none'}"
        ) from None
    except (HfHubHTTPError, LocalEntryNotFoundError) as error:
        raise FileNotFoundError(f"{name}: {first_line(error)}") from None


def auto_map_names(config: Mapping[str, Any]) -> list[str]:
    """The classes that a configuration names in `auto_map`;
    "org/name--file.Class" is code of another repository."""
    names = []
    for value in (config.get("auto_map") or {}).values():
        names += value if isinstance(value, list) else [value]
    return [name for name in names if name]


def remote_modules() -> set[str]:
    """The Python modules that transformers has loaded from repositories so far."""
    return {name for name in sys.modules if name.startswith("transformers_modules.")}


def warn_unpinned(name: str) -> None:
    """Warn once that code of a repository ran without a version;
    a versioned folder may name other code."""
    if _warned:
        return
    if not Path(name).exists():
        _warned.append(name)
        logger.warning(
            "code of %s ran without a version and may change: name one, such as %s@v1.0.0",
            name,
            name,
        )
        return
    # A folder here can still name code of a repository.
    repositories = foreign_code(name)
    if repositories:
        _warned.append(name)
        logger.warning(
            "code of %s ran without a version and may change: auto_map in %s names it",
            repositories[0],
            name,
        )


def foreign_code(folder: str | Path) -> list[str]:
    """Other repositories whose code the configurations of a folder name;
    transformers takes it from their `main`."""
    repositories = set()
    for file_name in CONFIGS:
        config = read_json(Path(folder) / file_name, {})
        for class_name in auto_map_names(config):
            repository, dashes, _ = class_name.partition("--")
            if dashes:
                repositories.add(repository)
    return sorted(repositories)


def locate(source: str | Path) -> tuple[str, dict[str, str]]:
    """Arguments of from_pretrained for a source:
    (folder or Hub name, {"gguf_file": name} for a GGUF file)."""
    source = snapshot(source)
    path = Path(source)
    # A GGUF file, or a folder that holds one.
    if path.is_file():
        with path.open("rb") as file:
            start = file.read(len(GGUF))
        if start != GGUF:
            raise ValueError(
                f"{path} is a file, and no GGUF file: give the folder of a checkpoint, or a GGUF file"
            )
        return str(path.parent), {"gguf_file": path.name}
    if path.is_dir() and not (path / "config.json").is_file():
        files = sorted(file.name for file in path.glob("*.gguf"))
        if len(files) != 1:
            raise FileNotFoundError(
                f"{path} holds no config.json and {len(files)} GGUF files; give a checkpoint or a file"
            )
        return str(path), {"gguf_file": files[0]}
    if path.exists():
        return source, {}
    # A name that cannot be one of the Hub.
    if is_place(source) or path.suffix == ".gguf":
        raise FileNotFoundError(
            f"{source} does not exist; give a folder, a GGUF file or the name of a model on the Hub"
        )
    reason = out_of_reach(source)
    if reason:
        raise FileNotFoundError(f"{source!r} is neither a folder nor on the Hub: {reason}")
    return source, {}


def read_pretrained(loader: Any, source: str | Path, place: str, **options: Any) -> Any:
    """Call `loader.from_pretrained` and shorten its errors to one line."""
    try:
        return loader.from_pretrained(place, **options)
    except (OSError, ValueError, KeyError) as error:
        kind = FileNotFoundError if isinstance(error, OSError) else ValueError
        raise kind(f"{loader.__name__} cannot read {str(source)!r}: {first_line(error)}") from error
