"""Tiny git repositories in the layout of a mirror."""

import os
import subprocess
from pathlib import Path

SETTINGS = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
    "GIT_CONFIG_GLOBAL": os.devnull,
}


def git(place: Path, *words: str) -> str:
    """What git prints in a folder."""
    process = subprocess.run(
        ["git", "-C", str(place), *words],
        env=os.environ | SETTINGS,
        capture_output=True,
        check=True,
    )
    return process.stdout.decode().strip()


def commit_files(place: Path, files: dict[str, str]) -> str:
    """Write files into a repository with a work tree, which is made if it is not there;
    returns the commit."""
    if not place.is_dir():
        place.mkdir(parents=True)
        git(place, "init", "--quiet")
        # What GitHub allows too: parts of a repository, and any commit by its id.
        git(place, "config", "uploadpack.allowFilter", "true")
        git(place, "config", "uploadpack.allowAnySHA1InWant", "true")
    for name, text in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    git(place, "add", ".")
    git(place, "commit", "--quiet", "--message", "files")
    return git(place, "rev-parse", "HEAD")
