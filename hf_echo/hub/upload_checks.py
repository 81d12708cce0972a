"""What a push uploads of a folder (an allow-list), and why it refuses a folder.

Files that no model, dataset or Space consists of are left out and listed. Links, hidden files,
pickles, the state of a training run, access tokens and paths of this machine are refused, so that
somebody looks at them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from ..languages import hub_code
from ..utils.files import one_line, read_json, read_text
from ..utils.fingerprint import changed_files
from ..utils.folders import holds_model
from ..utils.hub import auto_map_names

KINDS = ("model", "dataset", "space")
PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".bin", ".joblib", ".ckpt")
TRAINING_STATE = [
    "optimizer.*",
    "scheduler.pt",
    "trainer_state.json",
    "training_args.bin",
    "rng_state*",
]
IGNORED = {".git", ".cache", "__pycache__", ".gitattributes"}  # of git, Python and the Hub's client
PAPERS = ["README.md", "LICENSE", "LICENSE.*", "NOTICE", "NOTICE.*"]
# Names in a model's root and in MODEL_FOLDERS. Other Python code goes up where a configuration
# names it.
CODE = tuple(file.name for file in (Path(__file__).parents[1] / "modeling").glob("*_*.py"))
MODEL_FILES = (
    *PAPERS,
    "recipe.json",
    "results.json",
    "checksums.json",
    "speech_data.json",
    "modular.json",
    "language.json",
    "config.json",
    "generation_config.json",
    "adapter_config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "preprocessor_config.json",
    "processor_config.json",
    "chat_template.jinja",
    "*.model",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    *CODE,
)
# \d+_\w+: modules of sentence-transformers
MODEL_FOLDERS = re.compile(r"\.|decoder|(onnx|openvino)(/\d+_\w+)?|\d+_\w+|languages/.+")
GRAPHS = ("onnx/*.onnx", "openvino/*.xml", "openvino/*.bin")  # the last are numbers only
# Of the folder that `hf-echo data filter` leaves.
DATASET_FILES = (*PAPERS, "stats.json", "counts.json", "counts.md", "recipe.yaml", "fitted.json")
# of a static one
SPACE_FILES = (
    *PAPERS,
    "requirements.txt",
    "pre-requirements.txt",
    "packages.txt",
    "Dockerfile",
    "*.py",
    "*.css",
    "*.js",
    "*.html",
    "*.svg",
    "*.png",
    "*.jpg",
    "*.webp",
    "*.wav",
    "*.mp3",
    "*.flac",
    "*.mjs",
    "*.wasm",
    "*.onnx",
    "*.json",
    "*.txt",
)
# Files that a model needs, by its model_type; None: static embeddings, which have no config.json.
TOKENIZER = "tokenizer_config.json"
MODULES = "modules.json"
EXTRACTOR = "preprocessor_config.json"
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
BINARY = {
    *PICKLES,
    ".safetensors",
    ".onnx",
    ".parquet",
    ".npy",
    ".npz",
    ".png",
    ".jpg",
    ".webp",
    ".wav",
    ".mp3",
    ".flac",
}
LARGEST_TEXT = 5_000_000  # bytes; larger files are vocabularies and tables, which name no paths
# An absolute path that starts in a usual place of Linux, macOS or Windows; addresses such as
# https://x/home/ are not, nor is the home of programs in WebAssembly.
LOCAL_PATH = re.compile(
    r"(?<![\w.:/~-])(?!/home/web_user\b)(?:/(?:home|root|Users|mnt|tmp|data|work|scratch|var|opt)/[\w.-]+|[A-Z]:\\\\?Users\\)"
)
# Hugging Face, OpenAI and Anthropic, AWS, GitHub, GitLab, Slack, Google, private keys, JSON Web
# Tokens, passwords in addresses, and a long value with digits beside a word such as "password". A
# known scanner, detect-secrets 1.5, misses the first two of these, and takes 17 seconds for the
# tokenizer.json of echo-nano.
TOKEN = re.compile(
    r"\b(?:hf|api_org)_[A-Za-z0-9]{20,}|\bsk-[\w-]{20,}|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{30,}"
    r"|\bgithub_pat_\w{30,}|\bglpat-[\w-]{20,}|\bxox[abeoprs]-[\w-]{10,}|\bAIza[\w-]{35}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY|\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"
    r"|\bBearer +[\w.~+/-]{20,}|://[^\s/:@\"']+:[^\s/@\"']{6,}@"
    r"|(?i:(?:api|access|secret|private)[_-]?(?:key|token)|\btoken|secret|passw(?:or)?d)[\"']?\s*[:=]\s*[\"']?"
    r"(?=[\w+/-]*\d)(?=[\w+/-]*[A-Za-z])[\w+/-]{20,}"
)
LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z]+)?|multilingual|code")


@dataclass(frozen=True)
class Contents:
    """What a push makes of a folder: relative paths that go up, that are left out,
    and why it must not be pushed."""

    kind: str
    files: list[Path]
    left_out: list[Path]
    problems: list[str]


def kind_of(folder: str | Path) -> str:
    """ "model", "dataset" or "space", by the files of a folder."""
    folder = Path(folder)
    if holds_model(folder):
        return "model"
    if next(folder.glob("data/**/*.parquet"), None):
        return "dataset"
    if "sdk" in card_data(folder):
        return "space"
    raise ValueError(
        f"{folder} has no config.json (model), data/*.parquet (dataset) or `sdk` in README.md (Space)"
    )


def contents_of(
    folder: str | Path, kind: str | None = None, *, license: str | None = None
) -> Contents:
    """Look through a folder before a push, without asking the Hub;
    `kind` None decides by the files."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder {folder}")
    kind = kind or kind_of(folder)
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(KINDS)}")
    problems: list[str] = []
    folder_files = list(_walk(folder, problems))
    # What goes up by its name, and Python code that a configuration names.
    files = {file for file in folder_files if _belongs(file, kind)}
    if kind == "model":
        files |= _named_code(folder, sorted(files), problems).intersection(folder_files)
    # All files are read, those that stay here too: a token in one of them is in danger.
    for file in folder_files:
        problems += _problems_of(folder, file, sent=file in files)
    if kind == "model":
        problems += _model_problems(folder)
    problems += _card_problems(folder, kind, license)
    left_out = [file for file in folder_files if file not in files]
    return Contents(kind, sorted(files), left_out, problems)


def _walk(folder: Path, problems: list[str]) -> Iterator[Path]:
    """The regular files of a folder, sorted; links and hidden files become problems and are not
    followed."""
    for place, folder_names, file_names in os.walk(folder):
        inner_folders = []
        for name in sorted({*folder_names, *file_names} - IGNORED):
            full_path = Path(place) / name
            path = full_path.relative_to(folder)
            if full_path.is_symlink():
                problems.append(
                    f"{path}: a link; a push follows no links: copy what it points to, or delete it"
                )
            elif name.startswith("."):
                problems.append(
                    f"{path}: hidden files are not pushed; delete it, or move it out of the folder"
                )
            elif name in folder_names:
                inner_folders.append(name)
            elif full_path.is_file():
                yield path
        folder_names[:] = inner_folders  # `os.walk` goes into these


def _belongs(file: Path, kind: str) -> bool:
    """Whether a file is part of what is uploaded: of a model, a Space or a dataset."""
    if kind == "model":
        is_in_place = MODEL_FOLDERS.fullmatch(file.parent.as_posix()) is not None
        return is_in_place and _matches(file.name, MODEL_FILES) or _matches(file.as_posix(), GRAPHS)
    if kind == "space":
        return _matches(file.name, SPACE_FILES)
    if file.parts[0] == "data":
        return file.suffix == ".parquet"
    return len(file.parts) == 1 and _matches(file.name, DATASET_FILES)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _problems_of(folder: Path, file: Path, *, sent: bool) -> Iterator[str]:
    """What makes a file unfit for an upload: training state, pickles, secrets,
    paths of this machine."""
    if file.parts[0].startswith("checkpoint-") or _matches(file.name, TRAINING_STATE):
        yield f"{file}: state of a training run; push a release (hf-echo release) instead of a run"
        return
    if file.suffix in PICKLES and not _matches(file.as_posix(), GRAPHS):
        yield f"{file}: a pickle can run code when it is opened; save the weights as safetensors"
        return
    text = _text_of(folder / file)
    token = TOKEN.search(text)
    if token:
        yield f"{file}: {token[0][:7]!r}... looks like an access token or password: delete it here, and revoke it"
    if sent and len(text) < LARGEST_TEXT:
        path = LOCAL_PATH.search(text)
        if path:
            yield f"{file}: {path[0]!r} is a path of this machine; write a name that others can use"


def _text_of(file: Path) -> str:
    """The text of a file, or the metadata of a safetensors file; nothing of other binary files."""
    if file.suffix == ".safetensors":
        try:
            with safe_open(file, "np") as weights:
                return json.dumps(weights.metadata() or {}, ensure_ascii=False)
        except SafetensorError:
            return ""  # damaged: `_model_problems` does not open weights
    if file.suffix in BINARY:
        return ""
    return file.read_text(encoding="utf-8", errors="replace")


def _named_code(folder: Path, files: list[Path], problems: list[str]) -> set[Path]:
    """The Python files that a model's configurations name, and those that these import;
    missing ones are problems."""
    # (module, the folder of what names it, why), to be looked up.
    modules: list[tuple[str, Path, str]] = []
    for config in files:
        if config.name not in ("config.json", TOKENIZER):
            continue
        class_names = _names_of_code(read_json(folder / config))
        for name in sorted({_module_of(class_name) for class_name in class_names}):
            modules.append((name, config.parent, f"{config} names it"))
    for entry in read_json(folder / MODULES, []):
        module = _module_of(str(entry.get("type")))
        if module != "sentence_transformers":
            modules.append((module, Path(), f"{MODULES} names it"))
    code: set[Path] = set()
    while modules:
        module, place, reason = modules.pop()
        file = place / f"{module}.py"
        if not (folder / file).is_file():
            file = Path(f"{module}.py")
        if not (folder / file).is_file():
            problems.append(f"{file} is missing: {reason}")
        elif file not in code:
            code.add(file)
            for imported in re.findall(
                r"^\s*from \.(\w+) import", read_text(folder / file), re.MULTILINE
            ):
                modules.append((imported, file.parent, f"{file} imports it"))
    return code


def _module_of(class_name: str) -> str:
    module, _, _ = class_name.partition(".")
    return module


def _names_of_code(config: Any) -> Iterator[str]:
    """Classes in `auto_map` and in custom pipelines;
    those of other repositories ("org/name--file.Class") are not."""
    yield from (name for name in auto_map_names(config) if "--" not in name)
    yield from (pipeline["impl"] for pipeline in config.get("custom_pipelines", {}).values())


def card_data(folder: Path) -> dict[str, Any]:
    """The metadata of README.md; empty where there is none."""
    import yaml
    from huggingface_hub import RepoCard

    file = folder / "README.md"
    if not file.is_file():
        return {}
    try:
        return RepoCard(read_text(file), ignore_metadata_errors=False).data.to_dict()
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"README.md: the metadata is not YAML: {one_line(error)}") from None


def _card_problems(folder: Path, kind: str, license: str | None) -> Iterator[str]:
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
    if isinstance(languages, str):
        languages = [languages]
    for code in languages:
        if not LANGUAGE.fullmatch(str(code)):
            yield f"README.md: language {code!r} is not an ISO 639 code such as fr or fra"
    if kind == "space":
        yield from _space_problems(folder, data)
    # the languages of the card are those of the folder
    if kind == "model" and (folder / "modular.json").is_file():
        folder_languages = {
            hub_code(file.parent.name) for file in folder.glob("languages/*/language.json")
        }
        different = sorted(folder_languages.symmetric_difference(languages))
        if different:
            yield f"README.md: {different[0]} is in the card or in languages/, not in both; run hf-echo modular card"


def _space_problems(folder: Path, data: dict[str, Any]) -> Iterator[str]:
    """What keeps a Space from starting: no sdk, no file to start with."""
    if "sdk" not in data:
        yield "README.md: sdk is missing; a Space needs one, such as sdk: gradio"
        return
    usual_files = {"gradio": "app.py", "streamlit": "app.py", "static": "index.html"}
    if data["sdk"] in usual_files:
        app_file = data.get("app_file", usual_files[data["sdk"]])
        if not (folder / app_file).is_file():
            yield f"{app_file} is missing: the Space starts with it"


def _model_problems(folder: Path) -> Iterator[str]:
    """What keeps a checkpoint from opening everywhere: missing and changed files."""
    if not any(folder.glob("*.safetensors")):
        yield "model.safetensors is missing"
    kind = read_json(folder / "config.json", {"model_type": None}).get("model_type", "echo")
    for name in NEEDED.get(kind, NEEDED["echo"]):
        if not (folder / name).is_file():
            yield f"{name} is missing: without {WHAT[name]} the checkpoint does not open everywhere"
    for name in changed_files(folder):
        yield f"{name}: not the file that checksums.json names; write the release again (hf-echo release)"
