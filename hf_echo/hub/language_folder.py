"""Push and pull one language of a modular encoder: its folder in `languages/`, and nothing else."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from ..utils.files import read_json
from ..utils.fingerprint import fingerprint
from ..utils.hub import split_revision
from .push import check_repository
from .upload_checks import contents_of

LANGUAGES, LANGUAGE, WEIGHTS = "languages", "language.json", "model.safetensors"


def push_language(folder: str | Path, language: str, repo: str, *, private: bool = False) -> str:
    """Push the folder of one language in one commit; returns its address. Other files of the repository stay.

    Raises:
        FileNotFoundError: the model does not have this language. ValueError: its folder must not be pushed.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    check_repository(repo)
    place = Path(folder) / LANGUAGES / language
    if not (place / LANGUAGE).is_file():
        raise FileNotFoundError(f"{folder} has no language {language!r}: add it before it is pushed")
    inside = f"{LANGUAGES}/{language}/"
    contents = contents_of(folder, "model")
    if problems := [line for line in contents.problems if line.startswith(inside)]:
        raise ValueError(f"{folder}: {problems[0]}")
    files = {name: Path(folder) / name for name in map(Path.as_posix, contents.files) if name.startswith(inside)}
    api = HfApi()
    api.create_repo(repo, private=private, exist_ok=True)
    old = [n for n in api.list_repo_files(repo) if n.startswith(inside) and n not in files]
    operations = [CommitOperationAdd(name, path) for name, path in files.items()]
    operations += [CommitOperationDelete(name) for name in old]
    return str(api.create_commit(repo, operations, commit_message=f"Language {language}").commit_url)


def pull_language(repo: str, language: str, folder: str | Path) -> Path:
    """Add a language of a repository ("org/name" or "org/name@v1.2.0") to a modular encoder here; returns its folder.

    Raises:
        FileNotFoundError: the repository does not have this language.
        ValueError: the language is here already, or was trained with another backbone.
    """
    from huggingface_hub import snapshot_download

    repo, version = split_revision(repo)
    place = Path(folder) / LANGUAGES / language
    if place.exists():
        raise ValueError(f"{folder} has {language} already: remove it first (hf-echo modular remove-language)")
    with tempfile.TemporaryDirectory() as scratch:
        pattern = f"{LANGUAGES}/{language}/*"
        found = Path(snapshot_download(repo, revision=version, allow_patterns=pattern, local_dir=scratch))
        source = found / LANGUAGES / language
        if not (source / LANGUAGE).is_file():
            raise FileNotFoundError(f"{repo} has no language {language!r}")
        notes = read_json(source / LANGUAGE)
        if notes.get("backbone") != fingerprint(Path(folder) / WEIGHTS):
            raise ValueError(f"{repo}: {language} was trained with another backbone than that of {folder}")
        place.parent.mkdir(exist_ok=True)
        shutil.copytree(source, unfinished := place.with_name(f".{language}"), dirs_exist_ok=True)
        unfinished.rename(place)
    return place
