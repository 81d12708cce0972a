"""Checks of a folder before it is pushed to the Hub: nothing private or dangerous in it, nothing needed missing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KINDS = ("model", "dataset", "space")
PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".bin", ".joblib", ".ckpt")
TRAINING_STATE = ("optimizer.pt", "scheduler.pt", "trainer_state.json", "training_args.bin", "rng_state.pth")
TEXT = (".json", ".yaml", ".yml", ".md", ".txt", ".py", ".toml")
# Of the folder that `hf-echo data filter` leaves.
DATASET_FILES = (
    "README.md",
    "data/**/*.parquet",
    "stats.json",
    "counts.json",
    "counts.md",
    "recipe.yaml",
    "fitted.json",
)
LARGEST_TEXT = 5_000_000  # bytes; larger files are vocabularies and tables
# An absolute path that starts in a usual place of Linux, macOS or Windows; addresses such as https://x/home/ are not.
LOCAL_PATH = re.compile(
    r"(?<![\w.:/~-])(?:/(?:home|root|Users|mnt|tmp|data|work|scratch|var|opt)/[\w.-]+|[A-Z]:\\\\?Users\\)"
)
LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z]+)?|multilingual|code")


def kind_of(folder: str | Path) -> str:
    """ "model", "dataset" or "space", by the files of a folder.

    Raises:
        FileNotFoundError: there is no such folder. ValueError: the folder is none of the three.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder {folder}")
    if (folder / "config.json").is_file():
        return "model"
    if next(folder.glob("data/**/*.parquet"), None):
        return "dataset"
    if "sdk" in card_data(folder):
        return "space"
    raise ValueError(
        f"{folder} has no config.json (model), no data/*.parquet (dataset) and no `sdk` in README.md (Space)"
    )


def files_of(folder: str | Path, kind: str) -> list[Path]:
    """The files of the folder that are uploaded, sorted, relative to it: all, or those of DATASET_FILES."""
    folder = Path(folder)
    patterns = DATASET_FILES if kind == "dataset" else ("**/*",)
    files = (path.relative_to(folder) for pattern in patterns for path in folder.glob(pattern) if path.is_file())
    return sorted(path for path in files if path.parts[0] not in (".git", ".cache") and "__pycache__" not in path.parts)


def upload_problems(folder: str | Path, kind: str, *, license: str | None = None) -> Iterator[str]:
    """One line per reason why the folder must not be pushed as it is; each names the file and the fix.

    Args:
        license: that the push will write into the card.
    """
    folder = Path(folder)
    for file in files_of(folder, kind):
        if file.parts[0].startswith("checkpoint-") or file.name in TRAINING_STATE or file.name.startswith("rng_state"):
            yield f"{file}: state of a training run; push a release (hf-echo release) instead of a run"
        elif file.suffix in PICKLES:
            yield f"{file}: a pickle can run code when it is opened; save the weights as safetensors"
        elif file.suffix in TEXT and (folder / file).stat().st_size < LARGEST_TEXT:
            text = (folder / file).read_text(encoding="utf-8", errors="replace")
            if path := LOCAL_PATH.search(text):
                yield f"{file}: {path[0]!r} is a path of this machine; write a name that others can use"
    if kind == "model":
        yield from _model_problems(folder)
    yield from card_problems(folder, license=license)


def card_data(folder: Path) -> dict[str, Any]:
    """The metadata of README.md; empty where there is none.

    Raises:
        ValueError: the metadata is not YAML.
    """
    import yaml
    from huggingface_hub import RepoCard

    file = folder / "README.md"
    if not file.is_file():
        return {}
    try:
        return RepoCard(file.read_text(encoding="utf-8"), ignore_metadata_errors=False).data.to_dict()
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"README.md: the metadata is not YAML: {' '.join(str(error).split())}") from None


def card_problems(folder: Path, *, license: str | None = None) -> Iterator[str]:
    """What is wrong with the card's metadata, as far as it can be seen without the Hub."""
    if not (folder / "README.md").is_file():
        yield "README.md is missing: every repository needs a card"
        return
    try:
        data = card_data(folder)
    except ValueError as error:
        yield str(error)
        return
    if not (license or data.get("license")):
        yield "README.md: license is missing; give it with --license apache-2.0 (or another)"
    languages = data.get("language") or []
    for code in [languages] if isinstance(languages, str) else languages:
        if not LANGUAGE.fullmatch(str(code)):
            yield f"README.md: language {code!r} is not an ISO 639 code such as fr or fra"


def _model_problems(folder: Path) -> Iterator[str]:
    if not any(folder.glob("*.safetensors")):
        yield "model.safetensors is missing"
    for name, what in (
        ("tokenizer_config.json", "the tokenizer"),
        ("modules.json", "the list of SentenceTransformer modules"),
    ):
        if not (folder / name).is_file():
            yield f"{name} is missing: without {what} the checkpoint does not open everywhere"
    for config in sorted(
        [*folder.glob("config.json"), *folder.glob("*/config.json"), *folder.glob("tokenizer_config.json")]
    ):
        for code in sorted(_code_files(config)):
            if not (config.parent / code).is_file() and not (folder / code).is_file():
                yield f"{code} is missing: {config.relative_to(folder)} names it in auto_map"


def _code_files(config: Path) -> set[str]:
    """Python files that a configuration names in `auto_map`; those of other repositories are not counted."""
    auto_map = json.loads(config.read_text(encoding="utf-8")).get("auto_map") or {}
    names = [name for value in auto_map.values() for name in (value if isinstance(value, list) else [value]) if name]
    return {f"{name.split('.')[0]}.py" for name in names if "--" not in name}
