"""Output files: check before the work starts, write completely or not at all.
Also reads .npy and JSON files."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

logger = logging.getLogger(__name__)

# What numpy says where less was written: nothing about the disk.
SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")


@contextmanager
def write_whole(path: str | Path) -> Iterator[Path]:
    """Give a temporary path to write to; rename the file to `path` if the block ends without an
    error.

    Missing folders are created. If `path` is a link, the file that it points to is replaced. If it
    is not a regular file (`/dev/stdout`, a pipe), it is written directly. What a killed process
    left of this file is removed.

    Raises:
        ValueError: `path` is a folder.

    Example:
        >>> with write_whole("out.json") as unfinished:
        ...     unfinished.write_text("{}")
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the name of a file")
    if path.exists() and not path.is_file():
        with named_when_full(path):
            yield path
        return
    place = Path(os.path.realpath(path))
    place.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(place.parent, place.stem, place.suffix)
    # With the same suffix, from which numpy and matplotlib choose the format.
    unfinished = unfinished_path(place.parent, place.stem, place.suffix)
    try:
        with named_when_full(path):
            yield unfinished
        # A file that is replaced keeps its rights.
        if place.exists():
            shutil.copymode(place, unfinished)
        os.replace(unfinished, place)
    finally:
        unfinished.unlink(missing_ok=True)


def unfinished_path(parent: Path, name: str, suffix: str = "") -> Path:
    """A hidden path for what is being written; it says which process of which machine writes it."""
    writer = f"{_machine()}.{os.getpid()}.{os.urandom(4).hex()}"
    return parent / f".{name}.{writer}{suffix}"


def leftovers(parent: Path, name: str, suffix: str = "") -> Iterator[Path]:
    """Unfinished files and folders (`unfinished_path`) of processes that were killed.

    Of another machine it cannot be known whether the process lives; a warning names the path.
    """
    if not parent.is_dir():
        return
    writer = r"(?P<machine>[0-9a-f]{8})\.(?P<process>[0-9]{1,9})\.[0-9a-f]{8}"
    pattern = re.compile(rf"\.{re.escape(name)}\.{writer}{re.escape(suffix)}")
    for entry in list(os.scandir(parent)):
        writing = pattern.fullmatch(entry.name)
        if writing is None:
            continue
        if writing["machine"] != _machine():
            logger.warning(
                "%s was not finished on another machine: remove it, unless a run there writes it",
                entry.path,
            )
        elif not _lives(int(writing["process"])):
            yield Path(entry.path)


def remove_leftovers(parent: Path, name: str, suffix: str = "") -> None:
    """Remove what killed processes left of one output; what a living process writes stays."""
    for path in leftovers(parent, name, suffix):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        logger.info("%s is removed: the run that wrote it was killed", path)


@cache
def _machine() -> str:
    """Eight digits of the machine, or of the container, in which a number names one process."""
    facts = [platform.node()]
    with suppress(OSError):
        facts.append(Path("/etc/machine-id").read_text())
    with suppress(OSError):  # containers of one machine each count their processes
        facts.append(os.readlink("/proc/self/ns/pid"))
    return short_hash("\n".join(facts))[:8]


def _lives(process: int) -> bool:
    """Whether a process of this machine may be there."""
    if os.name == "nt":  # os.kill would end it, or send it Ctrl-C
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True


@contextmanager
def named_when_full(path: str | Path) -> Iterator[None]:
    """A block that writes `path`: an error of a write names it,
    whatever library has noticed a full disk or a limit."""
    full = os.strerror(errno.ENOSPC)
    try:
        yield
    except Exception as error:
        if (
            type(error) is OSError
            and error.filename is None
            and "cannot be written" not in str(error)
        ):
            reason = error.strerror or str(error)
            if SHORT_WRITE.fullmatch(reason):
                raise OSError(errno.ENOSPC, f"{path} cannot be written: {full}") from None
            raise OSError(error.errno, f"{path} cannot be written: {reason}") from None
        if not isinstance(error, OSError) and full in str(error):  # of safetensors and Arrow
            raise OSError(errno.ENOSPC, f"{path} cannot be written: {full}") from error
        raise


@contextmanager
def only_run(out: str | Path) -> Iterator[None]:
    """A block that only one process runs at a time for one output."""
    out = Path(out)
    if out.exists() and not out.is_file() and not out.is_dir():  # /dev/stdout, a pipe
        yield
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    lock = _acquired_lock(out)
    try:
        yield
    finally:
        _release(lock)


# of drives without locks: some network and FUSE file systems
NO_LOCKS = (errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOLCK, errno.ENOSYS)


def _acquired_lock(out: Path) -> Any:
    """A lock of an output: one of the system, or where the drive has none a file that exists while
    the run does."""
    from filelock import FileLock, SoftFileLock, Timeout

    place = Path(os.path.abspath(out))  # "." has no name
    lock = FileLock(place.with_name(f".{place.name}.lock"))
    try:
        try:
            lock.acquire(timeout=0)
        except OSError as error:
            if isinstance(error, Timeout) or error.errno not in NO_LOCKS:
                raise
            Path(lock.lock_file).unlink(missing_ok=True)  # what the attempt left
            lock = SoftFileLock(place.with_name(f".{place.name}.running"))
            lock.acquire(timeout=0)
    except Timeout:
        raise ValueError(
            f"another run writes {out}: wait until it ends, or name another output"
        ) from None
    except OSError as error:
        raise type(error)(
            error.errno, f"{lock.lock_file} cannot be locked: {error.strerror or error}"
        ) from None
    return lock


def _release(lock: Any) -> None:
    """Release a lock and remove its file: before, so that nobody waits for a file that is gone;
    Windows after it."""
    try:
        Path(lock.lock_file).unlink(missing_ok=True)
    except PermissionError:  # Windows removes no open file
        lock.release()
        with suppress(OSError):  # another run has it by now
            Path(lock.lock_file).unlink(missing_ok=True)
        return
    lock.release()


def write_text(path: str | Path, text: str) -> None:
    with write_whole(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2, default=str) + "\n")


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file."""
    data = Path(path).read_bytes()
    try:
        return data.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}:{line}: not UTF-8 ({error.reason}); convert the file to UTF-8"
        ) from None


def read_json(path: str | Path, missing: Any = None) -> Any:
    """The content of a JSON file, or `missing` where that is given and there is no such file."""
    if missing is not None and not Path(path).is_file():
        return missing
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}:{error.lineno}: not valid JSON ({error.msg} at column {error.colno})"
        ) from None


def write_array(path: str | Path, array: np.ndarray) -> None:
    import numpy as np

    with write_whole(path) as unfinished, unfinished.open("wb") as file:
        np.save(file, array)


def files_below(folder: str | Path, around: frozenset[str] = frozenset()) -> list[Path]:
    """The files of a folder and of its folders, sorted.
    Links are followed, but not to a folder `around` them."""
    # A link to a folder above would never end.
    around = around | {os.path.realpath(folder)}
    files = []
    for path in Path(folder).iterdir():
        if not path.is_dir():
            files.append(path)
        elif os.path.realpath(path) not in around:
            files += files_below(path, around)
    return sorted(files)


def same_place(first: str | Path, second: str | Path) -> bool:
    """Whether two paths name the same file or folder, also through links;
    the paths need not exist."""
    try:
        return os.path.samefile(first, second)
    except OSError:
        return os.path.realpath(first) == os.path.realpath(second)


def check_output(
    path: str | Path, inputs: Iterable[str | Path] = (), *, folder: bool = False, needed: int = 0
) -> None:
    """Check that an output can be written and is not also an input. Leaves nothing behind; `needed`
    bytes must be free."""
    if str(path) == "-" and not folder:  # standard output
        return
    path = Path(path)
    # The output must not be an input, and a file must not be where a folder is written, or the
    # reverse.
    for input_path in inputs:
        if same_place(path, input_path):
            raise ValueError(
                f"{path} is an input too ({input_path}) and would be overwritten; give another output"
            )
    if path.is_dir() and not folder:
        raise ValueError(f"{path} is a folder; give the name of a file")
    if path.exists() and not path.is_dir():
        if folder:
            raise ValueError(f"{path} is a file; give the name of a folder")
        if not path.is_file():  # /dev/stdout, a pipe
            return
    # The nearest folder that is there takes a file, and has room.
    place = Path(os.path.realpath(path))
    while not place.is_dir():
        if place.exists() and place != Path(os.path.realpath(path)):
            raise ValueError(f"{path} cannot be written: {place} is a file, not a folder")
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place) as probe:
            probe.write(bytes(4096))
    except OSError as error:
        raise type(error)(
            f"{path} cannot be written in {place}: {error.strerror or error}"
        ) from None
    free = shutil.disk_usage(place).free
    if needed > free:
        raise OSError(
            f"{path} needs {needed / 1e6:,.1f} MB, and {place} has {free / 1e6:,.1f} MB free"
        )


RAW = {".f32": "<f4", ".f16": "<f2"}  # numbers without a header, by rows


def load_npy(path: str | Path) -> np.ndarray:
    """Read the array of a .npy file, or of raw numbers
    (.f32, .f16) with their shape in PATH.json."""
    import numpy as np

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}; give a .npy file")
    # Raw numbers: the file beside them says the shape.
    if path.suffix in RAW:
        shape = read_json(f"{path}.json", {}).get("shape")
        if shape is None:
            raise ValueError(
                f'{path} has no shape: write {{"shape": [rows, width]}} into {path}.json'
            )
        dtype = np.dtype(RAW[path.suffix])
        size = path.stat().st_size
        if len(shape) != 2 or size != shape[0] * shape[1] * dtype.itemsize:
            raise ValueError(
                f"{path} has {size} bytes, which is not the shape {shape} of {path}.json"
            )
        return np.fromfile(path, dtype).reshape(shape)
    # A .npy file of numbers, and nothing else that numpy opens.
    try:
        array = np.load(path)
    except Exception as error:
        # EOFError, BadZipFile, UnpicklingError and others for broken headers
        raise ValueError(
            f"{path} is not a readable .npy file of numbers: {first_line(error)}"
        ) from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        kind = (
            f"dtype {array.dtype}"
            if isinstance(array, np.ndarray)
            else "an archive of arrays (.npz)"
        )
        raise ValueError(f"{path} is not a .npy file of numbers: it holds {kind}")
    return array


def first_line(error: BaseException) -> str:
    """The first line of an error's message; without a message the name of its class."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def one_line(error: BaseException) -> str:
    """An error's message without line breaks; without a message the name of its class."""
    return " ".join(str(error).split()) or type(error).__name__


def remove_work(work: Path, pattern: str) -> None:
    """Remove the folders of that pattern from a work folder,
    and the folder itself if nothing else is in it."""
    for folder in work.glob(pattern):
        shutil.rmtree(folder)
    if work.is_dir() and not any(work.iterdir()):
        work.rmdir()


def make_once(path: Path, make: Callable[[Path], None]) -> Path:
    """Call `make(unfinished)` unless the file exists;
    it writes to the path `unfinished`, which is then renamed."""
    if not path.exists():
        with write_whole(path) as unfinished:
            make(unfinished)
    return path


def short_hash(text: str) -> str:
    """16 hexadecimal digits of a text's SHA-256, as a name of the work that this text describes."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def json_once(path: Path, make: Callable[[], Any]) -> Any:
    """The JSON value of a file; if there is no such file, `make()` gives the value."""
    if not path.exists():
        write_json(path, make())
    return read_json(path)
