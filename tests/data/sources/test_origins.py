"""Origins of sources: commits of repositories, read from a clone or fetched,
and packages with a checksum."""

import hashlib
import http.server
import io
import lzma
import tarfile
import threading
import zipfile

import pytest

from hf_echo.data.sources.origins import GitRepository, Package, download_file, text_lines

from ...refusals import refuses
from .clones import commit_files, git

FILES = {"text/fra.txt": "un\ndeux\n", "text/deu.txt": "eins\nzwei\n", "code/run.py": "print()\n"}


@pytest.fixture
def clone(tmp_path):
    """A mirror with one repository, and the id of its first commit of two."""
    place = tmp_path / "mirror" / "me+words" / "repo"
    first = commit_files(place, FILES)
    commit_files(place, {"text/fra.txt": "trois\n"})
    return place, first


def test_a_clone_is_read_at_the_commit_that_is_named(clone, tmp_path):
    _, first = clone
    files = GitRepository("me/words", first).open(tmp_path / "own", tmp_path / "mirror")
    assert files.lines("text/fra.txt") == ["un", "deux"]  # not the newest text


def test_only_files_of_the_patterns_are_listed(clone, tmp_path):
    _, first = clone
    files = GitRepository("me/words", first, ("text/*",)).open(
        tmp_path / "own", tmp_path / "mirror"
    )
    assert files.names == ["text/deu.txt", "text/fra.txt"]


def test_a_bare_clone_is_a_mirror_too(clone, tmp_path):
    place, first = clone
    bare = tmp_path / "other" / "me+words" / "repo"
    bare.parent.mkdir(parents=True)
    git(tmp_path, "clone", "--quiet", "--bare", str(place), str(bare))
    files = GitRepository("me/words", first).open(tmp_path / "own", tmp_path / "other")
    assert files.lines("text/deu.txt") == ["eins", "zwei"]


def test_a_mirror_is_only_read(clone, tmp_path):
    _, first = clone
    GitRepository("me/words", first).open(tmp_path / "own", tmp_path / "mirror")
    assert not (tmp_path / "own").exists()


def test_a_file_that_a_clone_lists_without_its_bytes_is_absent(clone, tmp_path):
    place, first = clone
    blob = git(place, "rev-parse", f"{first}:text/deu.txt")
    (place / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    files = GitRepository("me/words", first, ("text/*",)).open(
        tmp_path / "own", tmp_path / "mirror"
    )
    assert files.names == ["text/fra.txt"]
    assert files.absent == ["text/deu.txt"]


def test_a_link_is_no_file(clone, tmp_path):
    """Its content in git is the path that it points to."""
    place, _ = clone
    (place / "text" / "ger.txt").symlink_to("deu.txt")
    commit = commit_files(place, {})
    files = GitRepository("me/words", commit, ("text/*",)).open(
        tmp_path / "own", tmp_path / "mirror"
    )
    assert files.names == ["text/deu.txt", "text/fra.txt"]


def test_a_mirror_without_the_repository_is_refused(clone, tmp_path):
    _, first = clone
    missing = GitRepository("me/other", first)
    refuses(
        "git clone --bare", missing.open, tmp_path, tmp_path / "mirror", error=FileNotFoundError
    )


def test_a_mirror_without_the_commit_is_refused(clone, tmp_path):
    later = GitRepository("me/words", "0" * 40)
    refuses(
        "does not hold commit 000",
        later.open,
        tmp_path,
        tmp_path / "mirror",
        error=FileNotFoundError,
    )


def test_a_commit_without_such_files_is_refused(clone, tmp_path):
    """The translations of Python moved to branches, and the main branch kept a README."""
    _, first = clone
    moved = GitRepository("me/words", first, ("*.po",))
    refuses(
        "me/words holds no file *.po at commit",
        moved.open,
        tmp_path / "own",
        tmp_path / "mirror",
        error=FileNotFoundError,
    )


@pytest.fixture
def served(clone, tmp_path):
    """The same repository at an address that git fetches from."""
    place, first = clone
    (tmp_path / "host" / "me").mkdir(parents=True)
    (tmp_path / "host" / "me" / "words").symlink_to(place)
    return GitRepository("me/words", first, ("text/*",), f"file://{tmp_path}/host/")


def test_a_commit_is_fetched_without_a_mirror(served, tmp_path):
    files = served.open(tmp_path / "own")
    assert files.lines("text/fra.txt") == ["un", "deux"]


def test_files_outside_the_patterns_are_not_fetched(served, tmp_path):
    served.open(tmp_path / "own")
    blob = git(tmp_path / "own" / "me+words" / "repo", "rev-parse", f"{served.commit}:code/run.py")
    missing = git(
        tmp_path / "own" / "me+words" / "repo",
        "rev-list",
        "--objects",
        "--missing=print",
        served.commit,
    )
    assert f"?{blob}" in missing.splitlines()


def test_what_was_fetched_is_not_fetched_again(served, tmp_path):
    served.open(tmp_path / "own")
    (tmp_path / "host" / "me" / "words").unlink()
    files = served.open(tmp_path / "own")
    assert files.lines("text/deu.txt") == ["eins", "zwei"]


def test_a_repository_that_is_gone_is_one_line(tmp_path):
    gone = GitRepository("me/gone", "0" * 40, host=f"file://{tmp_path}/host/")
    refuses("me/gone at 000000000000 cannot be fetched", gone.open, tmp_path / "own", error=OSError)


def test_lines_end_at_line_feeds_alone():
    assert text_lines("a\u2028b\r\nc\x85d\n".encode()) == ["a\u2028b", "c\x85d"]


def packed_tar(files: dict[str, bytes], mode: str) -> bytes:
    """A tar archive of files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def wheel_bytes(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return packed.getvalue()


def deb_bytes(files: dict[str, bytes]) -> bytes:
    """An ar archive, as `man 5 deb` describes it."""
    data = lzma.compress(packed_tar({f"./{name}": content for name, content in files.items()}, "w"))
    members = {"debian-binary": b"2.0\n", "control.tar.xz": b"odd", "data.tar.xz": data}
    packed = b"!<arch>\n"
    for name, content in members.items():
        packed += (
            f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode() + content
        )
        packed += b"\n" * (len(content) % 2)
    return packed


CONTENT = {"a/one.po": b"one", "a/two.txt": b"two"}
PACKED = {
    "words-1-py3-none-any.whl": wheel_bytes(CONTENT),
    "words-1.tgz": packed_tar(CONTENT, "w:gz"),
    "words_1_all.deb": deb_bytes(CONTENT),
}


def package_in(folder, file: str) -> Package:
    (folder / "packages").mkdir(parents=True)
    (folder / "packages" / file).write_bytes(PACKED[file])
    digest = hashlib.sha256(PACKED[file]).hexdigest()
    return Package("debian", "words", "1", file, digest, patterns=("a/*.po",))


@pytest.mark.parametrize("file", PACKED)
def test_files_of_a_package_are_read(file, tmp_path):
    files = package_in(tmp_path, file).open(tmp_path / "own", tmp_path)
    assert files.names == ["a/one.po"]
    assert files.read("a/one.po") == b"one"


def test_another_checksum_is_refused(tmp_path):
    package = package_in(tmp_path, "words-1.tgz")
    (tmp_path / "packages" / "words-1.tgz").write_bytes(b"other")
    refuses("has the SHA-256", package.open, tmp_path / "own", tmp_path)


def test_a_broken_download_is_removed(tmp_path):
    package = package_in(tmp_path, "words-1.tgz")
    path = tmp_path / "packages" / "words-1.tgz"
    path.write_bytes(b"half")
    refuses("has the SHA-256", package.open, tmp_path)
    assert not path.exists()


def test_a_package_that_the_mirror_lacks_is_refused(tmp_path):
    package = Package("npm", "words", "1", "words-1.tgz", "0")
    refuses("the mirror has no", package.open, tmp_path, tmp_path, error=FileNotFoundError)


@pytest.fixture
def server():
    """A server of the bytes after the fourth of "0123456789";
    `sent` says how many of them it sends."""

    class Handler(http.server.BaseHTTPRequestHandler):
        ranges: list = []
        sent = 6

        def do_GET(self):
            self.ranges.append(self.headers["Range"])
            self.send_response(206)
            self.send_header("Content-Length", "6")
            self.end_headers()
            self.wfile.write(b"456789"[: self.sent])

        def log_message(self, *words):
            pass

    running = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield running
    running.shutdown()
    running.server_close()


def test_a_download_goes_on_after_the_part_that_is_there(server, tmp_path):
    (tmp_path / "file.part").write_bytes(b"0123")
    download_file(f"http://127.0.0.1:{server.server_port}/file", tmp_path / "file")
    assert server.RequestHandlerClass.ranges == ["bytes=4-"]
    assert (tmp_path / "file").read_bytes() == b"0123456789"


def test_a_connection_that_ends_early_leaves_its_part(server, tmp_path):
    server.RequestHandlerClass.sent = 3
    (tmp_path / "file.part").write_bytes(b"0123")
    address = f"http://127.0.0.1:{server.server_port}/file"
    refuses("ended early", download_file, address, tmp_path / "file", error=OSError)
    assert (tmp_path / "file.part").read_bytes() == b"0123456"
    assert not (tmp_path / "file").exists()
