"""Where a model that a user names lies (folder, GGUF file, Hub name), and one-line errors when it cannot be read."""

from __future__ import annotations

from pathlib import Path

from .hub import out_of_reach, snapshot


def locate(source: str | Path) -> tuple[str, dict[str, str]]:
    """What from_pretrained calls this source: (folder or Hub name, {"gguf_file": name} where it is one)."""
    source = snapshot(source)
    path = Path(source)
    if path.is_file():
        return str(path.parent), {"gguf_file": path.name}
    if path.is_dir() and not (path / "config.json").is_file():
        found = sorted(file.name for file in path.glob("*.gguf"))
        if len(found) != 1:
            raise FileNotFoundError(
                f"{path} holds no config.json and {len(found)} GGUF files; name a checkpoint or one file"
            )
        return str(path), {"gguf_file": found[0]}
    if not path.exists() and (path.is_absolute() or path.suffix == ".gguf" or len(path.parts) > 2):
        raise FileNotFoundError(f"{path} does not exist; give a folder, a GGUF file or the name of a model on the Hub")
    if not path.exists() and (reason := out_of_reach(str(source))):
        raise FileNotFoundError(f"{str(source)!r} is no folder and not on the Hub: {reason}")
    return str(source), {}


def read_pretrained(loader, source: str | Path, place: str, **options):
    """`loader.from_pretrained`, with its errors in one line (transformers explains itself over many)."""
    try:
        return loader.from_pretrained(place, **options)
    except (OSError, ValueError, KeyError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        kind = FileNotFoundError if isinstance(error, OSError) else ValueError
        raise kind(f"{loader.__name__} cannot read {str(source)!r}: {reason}") from error
