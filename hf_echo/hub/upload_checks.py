"""Checks of a folder before it is pushed to the Hub: no private or dangerous files, no missing ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..utils.files import read_json, read_text
from ..utils.hub import auto_map_names

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
# Files that a model needs, by its model_type; None: static embeddings, which have no config.json.
TOKENIZER, MODULES, EXTRACTOR = "tokenizer_config.json", "modules.json", "preprocessor_config.json"
NEEDED: dict[str | None, tuple[str, ...]] = {
    None: (MODULES, "tokenizer.json"),
    "echo": (TOKENIZER, MODULES),  # and every other kind
    "echo_speech": (EXTRACTOR, MODULES),
    "spectrum": (TOKENIZER,),
    "blaser": (),
}
WHAT = {
    TOKENIZER: "the tokenizer",
    "tokenizer.json": "the tokenizer",
    MODULES: "the list of SentenceTransformer modules",
    EXTRACTOR: "the feature extractor",
}
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
    if (folder / "config.json").is_file() or (folder / "modules.json").is_file():
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
    if kind == "space":
        yield from _space_problems(folder)
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
        return RepoCard(read_text(file), ignore_metadata_errors=False).data.to_dict()
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


def _space_problems(folder: Path) -> Iterator[str]:
    try:
        data = card_data(folder)
    except ValueError:
        return  # `card_problems` says so
    if "sdk" not in data:
        yield "README.md: sdk is missing; a Space needs one, such as sdk: gradio"
    elif data["sdk"] in ("gradio", "streamlit") and not (folder / data.get("app_file", "app.py")).is_file():
        yield f"{data.get('app_file', 'app.py')} is missing: the Space starts with it"


def _model_problems(folder: Path) -> Iterator[str]:
    if not any(folder.glob("*.safetensors")):
        yield "model.safetensors is missing"
    kind = _read(folder / "config.json").get("model_type", "echo") if (folder / "config.json").is_file() else None
    if (folder / "modular.json").is_file():
        yield from _modular_problems(folder)
    for name in NEEDED.get(kind, NEEDED["echo"]):
        if not (folder / name).is_file():
            yield f"{name} is missing: without {WHAT[name]} the checkpoint does not open everywhere"
    configs = [*folder.glob("config.json"), *folder.glob("*/config.json"), *folder.glob("tokenizer_config.json")]
    for config in sorted(configs):
        for code in sorted(_code_files(config)):
            if not (config.parent / code).is_file() and not (folder / code).is_file():
                yield f"{code} is missing: {config.relative_to(folder)} names it in auto_map"
    for module in _read(folder / "modules.json") or ():
        file = f"{str(module.get('type')).split('.')[0]}.py"
        if file != "sentence_transformers.py" and not (folder / file).is_file():
            yield f"{file} is missing: modules.json names it"


def _modular_problems(folder: Path) -> Iterator[str]:
    """The languages of the card are those of the folder."""
    here = {file.parent.name.split("_")[0] for file in folder.glob("languages/*/language.json")}
    try:
        named = card_data(folder).get("language") or []
    except ValueError:
        return  # `card_problems` says so
    if different := sorted(here ^ set(named)):
        yield f"README.md: {different[0]} is in the card or in languages/, not in both; run hf-echo modular card"


def _read(file: Path) -> Any:
    """Content of a JSON file; empty where there is none."""
    return read_json(file) if file.is_file() else {}


def _code_files(config: Path) -> set[str]:
    """Python files that a configuration names in `auto_map`; those of other repositories are not counted."""
    return {f"{name.split('.')[0]}.py" for name in auto_map_names(_read(config)) if "--" not in name}
