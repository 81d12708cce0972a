"""What the scripts of this folder share: the command line, reports, and reading of whole files."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import typer
from tqdm.auto import tqdm

from hf_echo.utils.files import files_below, write_whole
from hf_echo.utils.text import why_not_text

logger = logging.getLogger(__name__)


def run(*commands: Callable) -> None:
    """Run a script's command (of several, the one that the first argument names).
    Wrong input is one line, exit 2."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
    for command in commands:
        app.command()(command)
    try:
        app()
    except (ValueError, OSError, ImportError) as error:
        message = str(error).strip().splitlines() or [type(error).__name__]
        typer.echo(message[0], err=True)
        raise SystemExit(2) from None


def show(report: dict[str, Any], path: Path | None = None) -> None:
    """Print a report as JSON, and write it to a file if there is a path."""
    text = json.dumps(report, indent=2, ensure_ascii=False)
    if path:
        path.write_text(text + "\n", encoding="utf-8")
    typer.echo(text)


def write_lines(rows: Iterable[dict[str, Any]], out: Path) -> None:
    """Write rows as JSON lines and print their number per class."""
    classes: Counter[str] = Counter()
    with write_whole(out) as unfinished, unfinished.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            classes[row["class"]] += 1
    show({"out": str(out), "rows": classes.total(), **dict(classes.most_common())})


def find_files(paths: Iterable[str | Path], suffixes: Sequence[str]) -> list[Path]:
    """The given files, and in folders all files with one of the suffixes, sorted, recursively; each
    once.

    Raises:
        FileNotFoundError: no such path, or a folder without such files.
    """
    all_files: list[Path] = []
    for path in map(Path, paths):
        if not path.exists():
            raise FileNotFoundError(f"no file or folder {path}; give files, or folders of files")
        if not path.is_dir():
            all_files.append(path)
            continue
        files = [
            file
            for file in files_below(path)
            if file.name.endswith(tuple(suffixes)) and file.is_file()
        ]
        if not files:
            raise FileNotFoundError(f"folder {path} has no file with suffix {', '.join(suffixes)}")
        all_files += files
    return list(dict.fromkeys(all_files))


def each_file(
    paths: Iterable[str | Path], suffixes: Sequence[str], on_bad: str, progress: bool
) -> Iterator[Path]:
    """`find_files` with a progress bar; checks `on_bad`.

    Raises:
        ValueError: `on_bad` is not "error" or "skip".
    """
    if on_bad not in ("error", "skip"):
        raise ValueError(f"on_bad={on_bad!r} must be 'error' or 'skip'")
    yield from tqdm(find_files(paths, suffixes), desc="Files", unit=" files", disable=not progress)


def read_utf8(path: Path, on_bad: str) -> bytes | None:
    """The bytes of a UTF-8 file; None for other files (with the warning of `bad_file`)."""
    try:
        data = path.read_bytes()
        data.decode("utf-8")
        reason = why_not_text(data)
    except UnicodeDecodeError as error:
        reason = why_not_text(data) or f"not UTF-8 at byte {error.start} ({error.reason})"
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
    if reason:
        bad_file(f"{path}: {reason}", on_bad)
        return None
    return data


def bad_file(reason: str, on_bad: str) -> None:
    """Warn of a file that is skipped, if `on_bad` is "skip".

    Raises:
        ValueError: `on_bad` is "error".
    """
    if on_bad == "error":
        raise ValueError(f"{reason}; correct it, or skip it with on_bad='skip'")
    logger.warning("skipped %s", reason)
