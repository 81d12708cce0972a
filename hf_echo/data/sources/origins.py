"""Where a source comes from: a git repository at a commit, a package of PyPI, npm or Debian with its
SHA-256, or a dataset of the Hub at a commit.

Everything lies in a folder of origins, which is also the layout of a mirror (``hf-echo data
download --mirror``):

    OWNER+NAME/repo        a git repository, bare or with a work tree (git clone --bare URL OWNER+NAME/repo)
    OWNER+NAME/dataset     the files of a dataset of the Hub (hf download --local-dir)
    packages/FILE          a wheel, an npm archive or a Debian package, under the name that its registry gives it

A mirror is only read. Without one, git fetches the commit alone, without its history, and of its
files only those that the source reads. A stopped download continues where it stopped.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO

from tqdm.auto import tqdm

from ...utils.bars import hidden
from ...utils.files import first_line, named_when_full

BLOBS = 200  # files that git fetches at once: what a stopped download loses at most
CHUNK = 1 << 20  # bytes
LINK = "120000"  # the mode of a symbolic link in git


@dataclass
class Files:
    """The files of an origin.

    Attributes:
        origin: name of the repository, package or dataset, such as ``IndoNLP/nusax`` or ``Django``.
        names: paths of the files, sorted.
        absent: paths that the origin lists and a mirror does not hold.
        read: the bytes of a path.
    """

    origin: str
    names: list[str]
    absent: list[str]
    read: Callable[[str], bytes]

    def matching(self, pattern: str) -> list[str]:
        """The paths that match a pattern of `fnmatch`, whose ``*`` matches a slash too."""
        return [name for name in self.names if fnmatchcase(name, pattern)]

    def lines(self, name: str) -> list[str]:
        """The lines of a UTF-8 file."""
        return text_lines(self.read(name))


def text_lines(data: bytes) -> list[str]:
    """The lines of UTF-8 bytes: only a line feed ends one, with or without a carriage return before
    it."""
    text = data.decode("utf-8-sig")
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return [line.rstrip("\r") for line in lines]


def _any_match(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@dataclass(frozen=True)
class _AtCommit:
    """What a git repository and a dataset of the Hub have in common.

    Attributes:
        name: ``OWNER/NAME``.
        commit: 40 hexadecimal digits.
    """

    name: str
    commit: str

    @property
    def pin(self) -> str:
        """Name and version, as the table of sources shows it."""
        return f"{self.name}@{self.commit[:12]}"

    @property
    def version(self) -> str:
        """What changes when other bytes would be read."""
        return self.commit


# --- git


@dataclass(frozen=True)
class GitRepository(_AtCommit):
    """A repository at a commit.

    Attributes:
        patterns: which files are read, as `fnmatch` has them.
        host: what stands before the name in its address.
    """

    patterns: tuple[str, ...] = ("*",)
    host: str = "https://github.com/"

    def open(self, folder: Path, mirror: Path | None = None) -> Files:
        """The files at the commit: from the mirror, or fetched into `folder`.

        Raises:
            FileNotFoundError: the mirror does not hold the repository or the commit, or the commit
                holds no such file.
            OSError: git is missing, or the repository cannot be fetched; the message has git's
                reason.
        """
        # A mirror is only read.
        place = (mirror or folder) / self.name.replace("/", "+") / "repo"
        if mirror is None:
            self._fetch(place)
        elif not place.is_dir():
            address = f"{self.host}{self.name}"
            raise FileNotFoundError(
                f"the mirror has no {place}: make it by git clone --bare {address} {place}"
            )
        elif not self._has_commit(place):
            raise FileNotFoundError(
                f"{place} does not hold commit {self.commit} of {self.name}: fetch it there"
            )
        blobs = self._blobs(place)
        if not blobs:
            raise FileNotFoundError(
                f"{self.name} holds no file {', '.join(self.patterns)} at commit {self.commit}: it moved"
            )
        # A clone may list files whose bytes it does not hold.
        listed = _git(place, "cat-file", "--batch-check", stdin="\n".join(blobs.values()))
        lacking = {line.split()[0] for line in listed.splitlines() if line.endswith(" missing")}
        names = sorted(name for name, blob in blobs.items() if blob not in lacking)
        absent = sorted(name for name, blob in blobs.items() if blob in lacking)
        reader = _BlobReader(place)
        return Files(self.name, names, absent, lambda name: reader.read(blobs[name]))

    def _has_commit(self, place: Path) -> bool:
        kind = _git(place, "cat-file", "--batch-check", stdin=self.commit + "\n")
        return kind.startswith(f"{self.commit} commit")

    def _blobs(self, place: Path) -> dict[str, str]:
        """Path -> id of the files that are read; a link is none, since git keeps the path that it
        points to as its text."""
        blobs = {}
        for entry in _git(place, "ls-tree", "-r", "-z", self.commit).split("\0"):
            if entry:
                mode_and_blob, _, name = entry.partition("\t")
                mode, _, blob = mode_and_blob.split()
                if mode != LINK and _any_match(name, self.patterns):
                    blobs[name] = blob
        return blobs

    def _fetch(self, place: Path) -> None:
        """Fetch the commit into a bare repository, then the files that the source needs."""
        if not (place / "HEAD").is_file():
            place.mkdir(parents=True, exist_ok=True)
            _git(None, "init", "--quiet", "--bare", str(place))
        if "origin" not in _git(place, "remote").split():
            _git(place, "remote", "add", "origin", f"{self.host}{self.name}")
        if not self._has_commit_here(place):
            # The commit and its folders first, files later: a source needs few of them.
            self._try_fetch(place, "--depth", "1", "--filter=blob:none", "origin", self.commit)
        listed = _git(place, "rev-list", "--objects", "--missing=print", self.commit)
        lacking = {line[1:] for line in listed.splitlines() if line.startswith("?")}
        lacking_blobs = sorted({blob for blob in self._blobs(place).values() if blob in lacking})
        with tqdm(
            total=len(lacking_blobs), desc=self.name, unit="file", disable=hidden(lacking_blobs)
        ) as bar:
            for start in range(0, len(lacking_blobs), BLOBS):
                part = lacking_blobs[start : start + BLOBS]
                options = ("--filter=blob:none", "--no-write-fetch-head", "--stdin", "origin")
                self._try_fetch(place, *options, stdin="\n".join(part) + "\n")
                bar.update(len(part))

    def _has_commit_here(self, place: Path) -> bool:
        """As `_has_commit`, without asking the remote of a partial clone for it."""
        listed = _git(place, "cat-file", "--batch-check", "--batch-all-objects")
        return any(line.startswith(f"{self.commit} commit") for line in listed.splitlines())

    def _try_fetch(self, place: Path, *options: str, stdin: str = "") -> None:
        """Fetch from the origin; raises OSError that names repository and commit."""
        try:
            _git(
                place,
                "-c",
                "fetch.negotiationAlgorithm=noop",
                "fetch",
                "--quiet",
                "--no-tags",
                *options,
                stdin=stdin,
            )
        except OSError as error:
            raise OSError(
                f"{self.host}{self.name} at {self.commit[:12]} cannot be fetched: {error}"
            ) from None


def _git(place: Path | None, *words: str, stdin: str = "") -> str:
    """What git prints. Raises OSError with the last line of git's message."""
    where = [] if place is None else ["-C", str(place)]
    try:
        process = subprocess.run(["git", *where, *words], input=stdin.encode(), capture_output=True)
    except FileNotFoundError:
        raise OSError("git is not installed, and public sources are fetched by it") from None
    if process.returncode:
        lines = process.stderr.decode(errors="replace").strip().splitlines()
        raise OSError(lines[-1] if lines else f"exit code {process.returncode}")
    return process.stdout.decode(errors="surrogateescape")


class _BlobReader:
    """Reads many files through one process of git."""

    def __init__(self, place: Path) -> None:
        command = ["git", "-C", str(place), "cat-file", "--batch"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def read(self, blob: str) -> bytes:
        """The content of a file of git."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{blob}\n".encode())
        self.process.stdin.flush()
        header = self.process.stdout.readline().split()
        if len(header) != 3:
            raise OSError(f"git cannot read {blob}: {b' '.join(header).decode()}")
        data = self.process.stdout.read(int(header[2]))
        self.process.stdout.read(1)  # the line feed after it
        return data

    def __del__(self) -> None:
        if self.process.stdin:
            self.process.stdin.close()
        if self.process.stdout:
            self.process.stdout.close()
        self.process.wait()


# --- packages


@dataclass(frozen=True)
class Package:
    """A file of a package registry.

    Attributes:
        registry: ``pypi``, ``npm`` or ``debian``.
        name, version: of the package.
        file: name of the file.
        sha256: its checksum.
        address: where it lies; of PyPI packages pip knows it.
        patterns: which files inside are read.
    """

    registry: str
    name: str
    version: str
    file: str
    sha256: str
    address: str = ""
    patterns: tuple[str, ...] = ("*",)

    @property
    def pin(self) -> str:
        """Name and version, as the table of sources shows it."""
        return f"{self.registry} {self.name} {self.version}"

    def open(self, folder: Path, mirror: Path | None = None) -> Files:
        """The files inside the package: from the mirror, or downloaded into `folder`.

        Raises:
            FileNotFoundError: the mirror does not hold the file.
            ValueError: the checksum differs.
            OSError: the file cannot be downloaded.
        """
        path = (mirror or folder) / "packages" / self.file
        if mirror is not None and not path.is_file():
            raise FileNotFoundError(f"the mirror has no {path} ({self.pin})")
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            if self.registry == "pypi":
                self._by_pip(path)
            else:
                download_file(self.address, path)
        found_sum = sha256_of(path)
        if found_sum != self.sha256:
            if mirror is None:
                path.unlink()  # so that the next run downloads it again
            raise ValueError(f"{path} has the SHA-256 {found_sum}, not {self.sha256} of {self.pin}")
        members = dict(_members(path, self.patterns))
        return Files(self.name, sorted(members), [], members.__getitem__)

    def _by_pip(self, path: Path) -> None:
        """Download the wheel with pip; raises OSError with the last line of its message."""
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
        ]
        command += ["--dest", str(path.parent), f"{self.name}=={self.version}"]
        process = subprocess.run(command, capture_output=True)
        if process.returncode or not path.is_file():
            lines = process.stderr.decode(errors="replace").strip().splitlines() or [
                f"no {path.name}"
            ]
            raise OSError(f"{self.pin} cannot be downloaded: {lines[-1]}")


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def download_file(address: str, path: Path) -> None:
    """Download a file; a part that an earlier run has left is continued.

    Raises:
        OSError: the address cannot be read, or the disk is full.
    """
    # What an earlier run has downloaded is asked for no more.
    part = path.with_name(path.name + ".part")
    start = part.stat().st_size if part.is_file() else 0
    total = 0
    request = urllib.request.Request(address)
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            # A server that knows no ranges sends the whole file again.
            goes_on = answer.status == 206
            mode = "ab" if goes_on else "wb"
            total = int(answer.headers.get("Content-Length", 0)) + (start if goes_on else 0)
            with named_when_full(path), part.open(mode) as file:
                _copy(answer, file, path.name, start if goes_on else 0, total)
    except urllib.error.HTTPError as error:
        if error.code != 416:  # 416: all of it is there already
            raise OSError(f"{address} cannot be downloaded: {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise OSError(f"{address} cannot be downloaded: {first_line(error)}") from None
    if part.stat().st_size < total:
        raise OSError(
            f"{address}: the connection ended early; repeat the command, which continues the download"
        )
    part.replace(path)


def _copy(answer: IO[bytes], file: IO[bytes], name: str, start: int, total: int) -> None:
    with tqdm(total=total or None, initial=start, desc=name, unit="B", unit_scale=True) as bar:
        while chunk := answer.read(CHUNK):
            file.write(chunk)
            bar.update(len(chunk))


def _members(path: Path, patterns: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """(path, bytes) of the files in a wheel, an npm archive or a Debian package."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if _any_match(name, patterns):
                    yield name, archive.read(name)
        return
    data = path.read_bytes()
    if path.suffix == ".deb":
        data = _data_of_deb(data)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            file = (
                archive.extractfile(member)
                if member.isfile() and _any_match(name, patterns)
                else None
            )
            if file is not None:
                yield name, file.read()


def _data_of_deb(data: bytes) -> bytes:
    """The archive ``data.tar.*`` inside a Debian package, an ar file: 60 bytes of header a member,
    even lengths."""
    # From member to member: name in the first 16 bytes of the header, size in bytes 48 to 58.
    place = len(b"!<arch>\n")
    while place + 60 <= len(data):
        name = data[place : place + 16].decode().strip()
        size = int(data[place + 48 : place + 58])
        if name.startswith("data.tar"):
            return data[place + 60 : place + 60 + size]
        place += 60 + size + size % 2
    raise ValueError("a Debian package without data.tar")


# --- the Hub


@dataclass(frozen=True)
class HubDataset(_AtCommit):
    """A split of a dataset of the Hub at a commit.

    Attributes:
        split: which split is read, of the default configuration.
    """

    split: str

    def open(self, folder: Path, mirror: Path | None = None) -> Files:
        """One file, ``SPLIT.parquet``: from the mirror, or downloaded into `folder`.

        Raises:
            FileNotFoundError: the mirror does not hold the dataset.
            ValueError: the dataset has no such split, or `datasets` cannot read it.
            OSError: the dataset cannot be downloaded.
        """
        from datasets import load_dataset

        place = (mirror or folder) / self.name.replace("/", "+") / "dataset"
        if not place.is_dir():
            if mirror is not None:
                options = f"--repo-type dataset --revision {self.commit} --local-dir {place}"
                raise FileNotFoundError(
                    f"the mirror has no {place}: make it by hf download {self.name} {options}"
                )
            self._download(place)
        try:
            rows = load_dataset(str(place), split=self.split)
        except (ValueError, FileNotFoundError) as error:
            raise ValueError(f"{place} cannot be read: {first_line(error)}") from None
        table = io.BytesIO()
        rows.to_parquet(table)
        return Files(self.name, [f"{self.split}.parquet"], [], lambda name: table.getvalue())

    def _download(self, place: Path) -> None:
        """Download all files of the commit; files of a stopped download are not downloaded again."""
        from huggingface_hub import HfApi, hf_hub_download

        # The folder gets its name when it is whole.
        part = place.with_name("dataset.part")
        try:
            info = HfApi().dataset_info(self.name, revision=self.commit, timeout=60)
            for file in info.siblings or ():
                hf_hub_download(
                    self.name,
                    file.rfilename,
                    repo_type="dataset",
                    revision=self.commit,
                    local_dir=part,
                )
        except Exception as error:  # the HTTP client's own vary with the version of huggingface_hub
            raise OSError(
                f"{self.pin} of the Hub cannot be downloaded: {first_line(error)}"
            ) from None
        part.replace(place)


Origin = GitRepository | Package | HubDataset
