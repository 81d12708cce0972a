"""Encode a text file of any length to .npy or .parquet, part by part, in this process or on a Ray cluster.

A part is `PART` lines; its embeddings are a file in the work folder until all parts are done, so a stopped run resumes
at the first unfinished part, and memory does not grow with the file. The parts do not depend on the executor, so both
executors give the same rows. A text of one part is encoded in memory, without a work folder.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from tqdm.auto import tqdm
from transformers import AutoConfig

import hf_echo

from ..utils.executors import LocalExecutor, RayExecutor
from ..utils.files import check_output, write_whole
from ..utils.fingerprint import fingerprint
from ..utils.text import BOM, checked_lines, read_lines
from ..utils.vectors import unit_length
from .any_encoder import NamedEncoder, is_echo
from .embedding_files import encode_shards, encoded
from .encode import opening

PART = 16_384  # lines
IN_MEMORY = 2**24  # bytes of a file that is read as a whole


@dataclass(frozen=True)
class FileLines:
    """`rows` lines of a file: `starts` holds the byte of every `size`-th line, `digest` is of the whole file."""

    path: Path
    name: str  # for messages
    rows: int
    size: int
    starts: tuple[int, ...]
    digest: str

    def read(self, start: int, stop: int) -> list[str]:
        """Lines `start` (from 0, a multiple of `size`) to `stop`, without line ends."""
        with self.path.open("rb") as file:
            file.seek(self.starts[start // self.size])
            return [_decoded(file.readline(), number, self.name) for number in range(start + 1, stop + 1)]


def cut(path: Path, name: str, size: int) -> FileLines:
    """Read a file once, without holding it in memory, and note where its parts of `size` lines begin.

    Raises:
        ValueError: the file is empty, or a line is not UTF-8 (with its number).
    """
    starts, digest, place, rows = [], hashlib.blake2b(digest_size=16), 0, 0
    with path.open("rb") as file:
        for rows, line in enumerate(checked_lines(file, name), 1):
            if (rows - 1) % size == 0:
                starts.append(place)
            _decoded(line, rows, name)
            digest.update(line)
            place += len(line)
    if not rows:
        raise ValueError(f"{name} is empty; it needs one sentence per line")
    return FileLines(path, name, rows, size, tuple(starts), digest.hexdigest())


def _decoded(line: bytes, number: int, name: str) -> str:
    line = line.removeprefix(BOM) if number == 1 else line
    try:
        return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}:{number}: not UTF-8 ({error.reason}); convert the file to UTF-8") from None


def encode_file(
    source: str | Path,
    out: str | Path,
    encoder: NamedEncoder,
    lang: str | None = None,
    *,
    normalize: bool = False,
    executor: LocalExecutor | RayExecutor | None = None,
    fresh: bool = False,
    part: int = PART,
    progress: bool = True,
) -> tuple[int, int]:
    """Write the embeddings of the lines of a file to `out` (.npy: float32; .parquet: text and embedding).

    Args:
        source: a UTF-8 file, or "-" for standard input; an empty line is an empty text.
        executor: `LocalExecutor` (default) or `RayExecutor`. On a cluster every node must see `source`, the model and
            the folder of `out` at the same paths.
        fresh: discard the work of a stopped run, which is in the folder OUT.work.
        part: lines of a part.

    Returns:
        The shape of the embeddings.

    Raises:
        FileNotFoundError: no such file or model. ValueError: a text that cannot be encoded (with its lines).
    """
    out, name, executor = Path(out), str(source), executor or LocalExecutor()
    work = out.with_name(out.name + ".work")
    if fresh:
        _remove(work)
    small = name == "-" or not Path(name).is_file() or Path(name).stat().st_size <= IN_MEMORY
    texts = read_lines(source) if small else None
    row_bytes = _row_bytes(encoder.model)
    if texts is not None and executor.local and len(texts) <= part:
        check_output(out, needed=row_bytes * len(texts))
        with tqdm(total=len(texts), desc="Encoding", unit="text", disable=not progress) as bar:
            vectors = _encoded(encoder, texts, lang, normalize, bar)
        write_embeddings(out, [texts], [vectors])
        return vectors.shape
    if not executor.local:
        source, work, encoder = Path(source).absolute(), work.absolute(), _by_absolute_path(encoder)
    path = Path(source) if texts is None else _copied(texts, work / "texts.txt")
    lines = cut(path, name, part)
    key = repr((hf_echo.__version__, lines.digest, part, fingerprint(encoder.model), astuple(encoder), lang, normalize))
    folder = work / f"encode-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    finished = sum(file.stat().st_size for file in folder.glob("*.npy"))
    check_output(out, needed=2 * row_bytes * lines.rows - finished)  # the parts, and the file made of them
    vectors = _encode_parts(lines, folder, encoder, lang, normalize, executor, progress)
    starts = range(0, lines.rows, part)
    write_embeddings(out, (lines.read(start, min(start + part, lines.rows)) for start in starts), vectors)
    _remove(work)
    return lines.rows, vectors[0].shape[1]


def _row_bytes(model: str) -> int:
    """Bytes of one embedding of an Echo checkpoint; 0 for other models, whose width is not known in advance."""
    with opening(model) as name:
        return 4 * AutoConfig.from_pretrained(name).embedding_size if is_echo(name) else 0


def _copied(texts: list[str], path: Path) -> Path:
    """Texts in a file from which `FileLines` reads exactly these texts."""
    with write_whole(path) as unfinished:
        unfinished.write_bytes(BOM + b"".join(text.encode() + b"\r\n" for text in texts))
    return path


def _remove(work: Path) -> None:
    """Remove what `encode_file` wrote into the work folder, and the folder if nothing else is in it."""
    for folder in work.glob("encode-*"):
        shutil.rmtree(folder)
    (work / "texts.txt").unlink(missing_ok=True)
    if work.is_dir() and not any(work.iterdir()):
        work.rmdir()


def _by_absolute_path(encoder: NamedEncoder) -> NamedEncoder:
    """The encoder with the absolute path of its model, if that is a folder here: workers run in other folders."""
    model, *rest = astuple(encoder)
    return NamedEncoder(str(Path(model).absolute()) if Path(model).exists() else model, *rest)


def write_embeddings(out: Path, texts: Iterable[list[str]], parts: Sequence[np.ndarray]) -> None:
    """Write parts that follow one another as one .npy or .parquet file; `texts` are only read for .parquet."""
    rows, width = sum(len(part) for part in parts), parts[0].shape[1]
    with write_whole(out) as unfinished:
        if out.suffix == ".npy":
            with unfinished.open("wb") as file:
                header = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
                np.lib.format.write_array_header_1_0(file, header)
                for part in parts:
                    file.write(np.ascontiguousarray(part, "<f4").data)
            return
        import pyarrow as pa
        import pyarrow.parquet as pq
        from datasets import Features, List, Value

        schema = Features({"text": Value("string"), "embedding": List(Value("float32"))}).arrow_schema
        with pq.ParquetWriter(unfinished, schema) as writer:
            for lines, part in zip(texts, parts, strict=True):
                ends = np.arange(0, part.size + 1, width, dtype=np.int32)
                vectors = pa.ListArray.from_arrays(ends, np.ascontiguousarray(part).ravel())
                writer.write_table(pa.table({"text": lines, "embedding": vectors}).cast(schema))


def _encode_parts(
    lines: FileLines, folder: Path, encoder: NamedEncoder, lang: str | None, normalize: bool, executor, progress: bool
) -> list[np.ndarray]:
    make = partial(_encoded_part, lines, encoder, lang, normalize)
    if not executor.local:
        return encode_shards(folder, lines.rows, lines.size, make, executor=executor)
    with tqdm(total=lines.rows, desc="Encoding", unit="text", disable=not progress) as bar:
        return encode_shards(folder, lines.rows, lines.size, partial(make, bar=bar))


def _encoded_part(
    lines: FileLines,
    encoder: NamedEncoder,
    lang: str | None,
    normalize: bool,
    start: int,
    stop: int,
    bar: tqdm | None = None,
) -> np.ndarray:
    if bar is not None:
        bar.update(start - bar.n)  # parts that are finished
    texts = lines.read(start, stop)
    try:
        return _encoded(encoder, texts, lang, normalize, bar)
    except ValueError as error:  # its row counts from the first line of this part
        raise ValueError(f"{lines.name}, lines {start + 1} to {stop}: {error}") from None


def _encoded(
    encoder: NamedEncoder, texts: list[str], lang: str | None, normalize: bool, bar: tqdm | None
) -> np.ndarray:
    before = bar.n if bar is not None else 0
    vectors = encoded(partial(encoder, progress=bar if bar is not None else False), texts, lang)
    if normalize:
        unit_length(vectors, out=vectors)
    if bar is not None:
        bar.update(before + len(texts) - bar.n)
    return vectors
