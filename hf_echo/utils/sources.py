"""Locate the model that a user names (folder, GGUF file, Hub name), with one-line errors if it cannot be read."""

from __future__ import annotations

from pathlib import Path

from .hub import out_of_reach, snapshot


def locate(source: str | Path) -> tuple[str, dict[str, str]]:
    """Arguments of from_pretrained for a source: (folder or Hub name, {"gguf_file": name} for a GGUF file)."""
    source = snapshot(source)
    path = Path(source)
    if path.is_file():
        return str(path.parent), {"gguf_file": path.name}
    if path.is_dir() and not (path / "config.json").is_file():
        files = sorted(file.name for file in path.glob("*.gguf"))
        if len(files) != 1:
            raise FileNotFoundError(
                f"{path} holds no config.json and {len(files)} GGUF files; give a checkpoint or one file"
            )
        return str(path), {"gguf_file": files[0]}
    if not path.exists() and (path.is_absolute() or path.suffix == ".gguf" or len(path.parts) > 2):
        raise FileNotFoundError(f"{path} does not exist; give a folder, a GGUF file or the name of a model on the Hub")
    if not path.exists() and (reason := out_of_reach(str(source))):
        raise FileNotFoundError(f"{str(source)!r} is neither a folder nor on the Hub: {reason}")
    return str(source), {}


def read_pretrained(loader, source: str | Path, place: str, **options):
    """Call `loader.from_pretrained` and shorten its errors to one line."""
    try:
        return loader.from_pretrained(place, **options)
    except (OSError, ValueError, KeyError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        kind = FileNotFoundError if isinstance(error, OSError) else ValueError
        raise kind(f"{loader.__name__} cannot read {str(source)!r}: {reason}") from error
