"""Encode a text file of any length to .npy or .parquet, part by part, in this process or on a Ray
cluster.

A part is `PART` lines; its embeddings are a file in the folder OUT.work until all parts are done,
so a stopped run resumes at the first unfinished part. A text of one part is encoded in memory,
without a work folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from tqdm.auto import tqdm
from transformers import AutoConfig

import hf_echo

from ..data.texts import open_lines
from ..utils.bars import hidden
from ..utils.executors import LocalExecutor, RayExecutor
from ..utils.files import (
    RAW,
    check_output,
    only_run,
    remove_work,
    short_hash,
    write_json,
    write_whole,
)
from ..utils.fingerprint import fingerprint
from ..utils.text import TextLines
from ..utils.vectors import unit_length
from .any_encoder import NamedEncoder, is_echo
from .embedding_files import encode_shards, encoded
from .encode import opening

PART = 16_384  # lines


def encode_file(  # noqa: PLR0913 (the options of `hf-echo encode`)
    source: str | Path,
    out: str | Path,
    encoder: NamedEncoder,
    lang: str | None = None,
    *,
    normalize: bool = False,
    executor: LocalExecutor | RayExecutor | None = None,
    fresh: bool = False,
    part: int = PART,
    column: str | None = None,
    progress: bool = True,
) -> tuple[int, int]:
    """Write the embeddings of the texts of a file to `out`, in the format that its name says
    (`write_embeddings`).

    Args:
        source: lines of text (an empty line is an empty text), packed or not, or a table; "-" is
            standard input.
        executor: `LocalExecutor` (default) or `RayExecutor`. On a cluster every node must see
            `source`, the model and the folder of `out` at the same paths.
        fresh: discard the work of a stopped run.
        part: lines of a part.
        column: of a table, as in `hf_echo.data.texts.read_texts`.

    Returns:
        The shape of the embeddings.

    Raises:
        FileNotFoundError: no such file or model. ValueError: a text that cannot be encoded (with
            its lines), or another run that writes `out` at the same time.
    """
    out = Path(out)
    executor = executor or LocalExecutor()
    work = out.with_name(out.name + ".work").absolute()  # workers run in other folders
    if Path(encoder.model).exists():
        encoder = replace(encoder, model=str(Path(encoder.model).absolute()))
    row_bytes = _row_bytes(encoder.model)
    check_output(out)
    copy = out.with_name(f".{out.name}.input").absolute()
    with only_run(out), open_lines(source, copy, column=column, lang=lang, every=True) as lines:
        if fresh:
            remove_work(work, "encode-*")
        # All that the embeddings depend on: where one value changes, all texts are embedded again.
        key = (
            hf_echo.__version__,
            lines.digest,
            part,
            fingerprint(encoder.model),
            encoder,
            lang,
            normalize,
        )
        folder = work / f"encode-{short_hash(repr(key))}"
        in_memory = executor.local and len(lines) <= part
        finished = sum(file.stat().st_size for file in folder.glob("*.npy"))
        # the parts, and the file made of them
        check_output(out, needed=row_bytes * len(lines) * (1 if in_memory else 2) - finished)
        with tqdm(
            total=len(lines),
            desc="Encoding",
            unit="text",
            disable=hidden(progress and executor.local),
        ) as bar:
            make = partial(
                _encoded_part, lines, encoder, lang, normalize, bar=bar if executor.local else None
            )
            if in_memory:
                parts = [make(0, len(lines))]
            else:
                parts = encode_shards(
                    folder,
                    len(lines),
                    part,
                    make,
                    executor=executor if not executor.local else None,
                )
        starts = range(0, len(lines), part)
        write_embeddings(out, (lines.read(start, start + part) for start in starts), parts)
        remove_work(work, "encode-*")
        return len(lines), parts[0].shape[1]


def _row_bytes(model: str) -> int:
    """Bytes of one embedding of an Echo checkpoint; 0 for other models, whose width is not known in
    advance."""
    with opening(model) as name:
        return 4 * AutoConfig.from_pretrained(name).vector_size if is_echo(name) else 0


def _encoded_part(
    lines: TextLines,
    encoder: NamedEncoder,
    lang: str | None,
    normalize: bool,
    start: int,
    stop: int,
    bar: tqdm | None,
) -> np.ndarray:
    """(stop - start, d) embeddings of lines; an error names them."""
    if bar is not None:
        bar.update(start - bar.n)  # parts that are finished
    try:
        vectors = encoded(
            partial(encoder, progress=bar if bar is not None else False),
            lines.read(start, stop),
            lang,
        )
    except ValueError as error:
        if stop - start == len(lines):
            raise
        # the row counts from the first line of this part
        raise ValueError(f"{lines.name}, lines {start + 1} to {stop}: {error}") from None
    if bar is not None:
        bar.update(stop - bar.n)
    return unit_length(vectors, out=vectors) if normalize else vectors


def write_embeddings(out: Path, texts: Iterable[list[str]], parts: Sequence[np.ndarray]) -> None:
    """Write parts that follow one another as one file; `texts` are only read for .parquet.

    .npy is float32; .parquet has the columns text and embedding; .f32 and .f16 are raw numbers, as
    LASER and vecalign read them, and OUT.json beside them says {"dtype": ..., "shape": [rows,
    width]}.
    """
    rows = sum(len(part) for part in parts)
    width = parts[0].shape[1]
    with write_whole(out) as unfinished:
        if out.suffix in (".npy", *RAW):
            dtype = np.dtype(RAW.get(out.suffix, "<f4"))
            with unfinished.open("wb") as file:
                if out.suffix == ".npy":
                    header = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
                    np.lib.format.write_array_header_1_0(file, header)
                for part in parts:
                    # float16 turns large numbers into infinity without a word.
                    with np.errstate(over="ignore"):
                        numbers = np.ascontiguousarray(part, dtype)
                    if not np.isfinite(numbers).all() and np.isfinite(part).all():
                        raise ValueError(
                            f"{out}: an embedding has numbers above 65,504, which float16 cannot hold"
                        )
                    file.write(numbers.data)
        else:
            _write_parquet(unfinished, texts, parts, width)
    if out.suffix in RAW:
        write_json(f"{out}.json", {"dtype": dtype.name, "shape": [rows, width]})


def _write_parquet(
    path: Path, texts: Iterable[list[str]], parts: Sequence[np.ndarray], width: int
) -> None:
    """Write texts beside their embeddings, part by part."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from datasets import Features, List, Value

    schema = Features({"text": Value("string"), "embedding": List(Value("float32"))}).arrow_schema
    with pq.ParquetWriter(path, schema) as writer:
        for lines, part in zip(texts, parts, strict=True):
            ends = np.arange(0, part.size + 1, width, dtype=np.int32)
            vectors = pa.ListArray.from_arrays(ends, np.ascontiguousarray(part).ravel())
            writer.write_table(pa.table({"text": lines, "embedding": vectors}).cast(schema))
