"""Audio on the command line: lists of files, and their embeddings."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..utils.files import only_run, remove_work, short_hash, write_text
from ..utils.fingerprint import fingerprint
from ..utils.text import read_lines

LISTS = (".tsv", ".txt", ".csv")


def audio_files(source: Path) -> list[str]:
    """The audio files of a TSV (first column; a header `audio` or `path` is left out),
    or the audio file itself."""
    # One recording.
    if str(source) != "-" and source.suffix.lower() not in LISTS:
        if not source.is_file():
            raise FileNotFoundError(
                f"no file {source}; give audio, or a TSV whose first column is a path"
            )
        return [str(source)]
    # A list of them, with or without a header.
    cells = [line.split("\t")[0].strip() for line in read_lines(source)]
    first = 1 if cells and cells[0].lower() in ("audio", "path", "file", "file_name") else 0
    files = []
    base = source.parent
    for number, cell in enumerate(cells[first:], first + 1):
        if not cell:
            raise ValueError(f"{source}:{number}: no path in the first column")
        # Paths may be relative to the list.
        places = [Path(cell), base / cell]
        audio_file = next((place for place in places if place.is_file()), None)
        if audio_file is None:
            raise FileNotFoundError(f"{source}:{number}: no audio file {cell}")
        files.append(str(audio_file))
    if not files:
        raise ValueError(f"{source} names no audio files: one path per line is needed")
    return files


def encode_audio(
    source: Path,
    model: str,
    *,
    dtype: str = "auto",
    out: Path | None = None,
    fresh: bool = False,
    **options: Any,
) -> tuple[list[str], Any]:
    """(files, their embeddings), also written to `out`; a stopped run continues there.
    Options of `encode_speech`."""
    from ..inference.encode_file import write_embeddings
    from ..inference.encode_speech import encode_speech, load_speech_encoder

    files = audio_files(source)
    encoder, extractor = load_speech_encoder(model, dtype=dtype)
    options["progress"] = sys.stderr.isatty()
    if out is None:
        return files, encode_speech(encoder, extractor, files, **options)
    # A stopped run continues only if the files and the options are the same.
    about = []
    for file in files:
        stat = Path(file).stat()
        about.append((file, stat.st_size, stat.st_mtime_ns))
    of_run = repr((about, fingerprint(model), dtype, options))
    key = short_hash(of_run)
    work = out.with_name(out.name + ".work")
    with only_run(out):
        if fresh:
            remove_work(work, "encode-*")
        vectors = encode_speech(encoder, extractor, files, work=work / f"encode-{key}", **options)
        write_embeddings(out, [files], [vectors])
        remove_work(work, "encode-*")
    return files, vectors


def write_paths(source: Path, out: Path) -> Path:
    """Write the audio files of a list, one path per line: the rows that mining reads and names."""
    files = audio_files(source)
    write_text(out, "".join(f"{file}\n" for file in files))
    return out


def audio_encoder(model: str) -> Callable[..., Any]:
    """(paths, lang) -> embeddings. What is not a file (mining's sentence that identifies a model)
    is a fixed sound."""
    import numpy as np

    from ..inference.encode_speech import encode_speech, load_speech_encoder

    encoder, extractor = load_speech_encoder(model)
    rate = extractor.sampling_rate
    sound = np.sin(np.linspace(0, 60, rate) ** 2).astype(np.float32) / 2

    def encode(paths: list[str], lang: str | None = None) -> Any:
        audio = [path if Path(path).is_file() else sound for path in paths]
        return encode_speech(encoder, extractor, audio)

    return encode


def on_this_machine(executor: str) -> None:
    """Raises ValueError for another executor: audio is encoded here."""
    if executor != "local":
        raise ValueError("--audio runs on this machine only: leave --executor out")
