"""Push a folder to the Hub as one version: one commit on `main`, one tag, checksums compared at the
end.

A push that was interrupted at any point is completed by running it again: `main` is the version
before or the new one, never a mixture. A version is never changed: the same content again does
nothing, other content is refused.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..cards.stamp import set_license, stamp_file
from ..utils.files import first_line
from .upload_checks import card_data, contents_of

if TYPE_CHECKING:
    from huggingface_hub import HfApi

logger = logging.getLogger(__name__)

BY_HUB = {".gitattributes"}  # written by the Hub itself


@dataclass(frozen=True)
class Pushed:
    """What a push did: `status` is "pushed", or "unchanged" if the Hub had this version with this
    content."""

    url: str
    tag: str
    commit: str
    status: str


def push(
    folder: str | Path,
    repo: str,
    *,
    version: str,
    kind: str | None = None,
    private: bool = False,
    license: str | None = None,
) -> Pushed:
    """Push a folder as `repo` ("org/name", created if it does not exist) and tag the commit
    `v{version}`.

    The code blocks of the card (README.md in the folder) get this repository and tag, see `stamp`.
    Files are those of `contents_of`; others that are on the Hub are deleted there. `kind` None
    decides by the files; `private` is of a new repository; `license` is written into the card.
    """
    from huggingface_hub import HfApi

    folder = Path(folder)
    tag = tag_of(version)
    check_repository(repo)
    if license and (folder / "README.md").is_file():
        set_license(folder / "README.md", license)
    # Nothing is sent while something is wrong with the folder.
    contents = contents_of(folder, kind)
    kind = contents.kind
    if contents.problems:
        first, *others = contents.problems
        hint = f" (and {len(others)} more: hf-echo push --dry-run lists them)" if others else ""
        raise ValueError(f"{folder}: {first}{hint}")
    if contents.left_out:
        logger.warning("%s: not pushed: %s", folder, ", ".join(map(str, contents.left_out)))
    files = {file.as_posix() for file in contents.files}
    stamp_file(folder / "README.md", repo, tag)
    # The repository as it is: its branches and versions.
    api = HfApi()
    api.create_repo(
        repo, repo_type=kind, private=private, exist_ok=True, space_sdk=card_data(folder).get("sdk")
    )
    refs = api.list_repo_refs(repo, repo_type=kind)
    tags = {ref.name: ref.target_commit for ref in refs.tags}
    # A new version is one commit and a tag; one that is there must be equal.
    status = "unchanged"
    if tag not in tags:
        status = "pushed"
        branches = {ref.name: ref.target_commit for ref in refs.branches}
        tags[tag] = _commit(api, folder, files, repo, kind, version, branches["main"])
        api.create_tag(repo, tag=tag, revision=tags[tag], repo_type=kind)
    different = differences(api, folder, files, repo, kind, tag)
    if different:
        raise ValueError(
            f"{repo} has version {version} with other content ({different[0]}): push a higher version"
        )
    place = repo if kind == "model" else f"{kind}s/{repo}"
    return Pushed(f"{api.endpoint}/{place}/tree/{tag}", tag, tags[tag], status)


def ask_about_card(folder: str | Path, kind: str, *, license: str | None = None) -> str | None:
    """What the Hub's validator says against the card, with the license of the push;
    None where it takes the card."""
    from huggingface_hub import RepoCard

    card = RepoCard((Path(folder) / "README.md").read_text(encoding="utf-8"))
    if license:
        card.data["license"] = license
    try:
        card.validate(repo_type=kind)
    except ValueError as error:
        try:
            messages = [problem["message"] for problem in json.loads(str(error))["errors"]]
        except (ValueError, KeyError, TypeError):
            messages = [str(error)]
        return f"README.md: {' '.join('; '.join(messages).split())}"
    except Exception as error:
        # The exceptions of the HTTP client vary with the version of huggingface_hub
        raise ConnectionError(first_line(error)) from error
    return None


def differences(
    api: HfApi, folder: Path, files: Collection[str], repo: str, kind: str, revision: str
) -> list[str]:
    """Files of a push (`files`) that are not the same here and on the Hub, by its checksums,
    and others that it has."""
    report = api.verify_repo_checksums(repo, repo_type=kind, revision=revision, local_dir=folder)
    hub_files = api.list_repo_files(repo, repo_type=kind, revision=revision)
    different = {mismatch["path"] for mismatch in report.mismatches}
    different |= set(hub_files) ^ set(files)
    return sorted(different - BY_HUB)


def _commit(
    api: HfApi, folder: Path, files: Collection[str], repo: str, kind: str, version: str, head: str
) -> str:
    """`main` becomes the files of the folder; returns its commit.

    Not by `upload_folder`, which writes a large folder in several commits where hf_xet is
    installed.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete
    from huggingface_hub.errors import HfHubHTTPError

    operations: list[CommitOperationAdd | CommitOperationDelete] = []
    for path in differences(api, folder, files, repo, kind, head):
        operations.append(
            CommitOperationAdd(path, folder / path)
            if path in files
            else CommitOperationDelete(path)
        )
    if not operations:
        return head  # an earlier push ended between the commit and the tag
    message = f"Version {version}"
    try:
        commit = api.create_commit(
            repo, operations, repo_type=kind, commit_message=message, parent_commit=head
        )
    except HfHubHTTPError as error:
        if error.response.status_code == 412:
            raise ValueError(
                f"{repo}: somebody else changed main during the push; run it again"
            ) from error
        raise
    return str(commit.oid)


def tag_of(version: str) -> str:
    """The tag of a version: "v1.2.0" of "1.2.0" or "v1.2.0"."""
    if not re.fullmatch(r"v?[0-9]+(\.[0-9]+)*([.-]?(dev|a|b|rc)[0-9]*)?", version):
        raise ValueError(f"version {version!r} is not a version such as 1.2.0")
    return f"v{version.removeprefix('v')}"


def check_repository(repo: str) -> None:
    """Raises ValueError for a name that is not OWNER/NAME of ASCII letters, digits, "-",
    "_" and "."."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repo)
        valid = repo.isascii() and repo.count("/") == 1
    except HFValidationError:
        valid = False
    if not valid:
        raise ValueError(f"{repo!r} is not the name of a repository, such as org/name")
