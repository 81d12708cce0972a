"""Write sentence pairs, with scores or not, in the formats that `formats` reads."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from ..languages import bcp47
from ..utils.extras import extra
from ..utils.files import check_output, write_whole
from ..utils.text import PACKED, STANDARD, open_output
from .bitexts import MOSES, files_of
from .delimited import quoted
from .formats import is_plain_text, kind_of

TABLES = (".tsv", ".csv", ".jsonl", ".tmx", ".parquet")
KNOWN = ".tsv, .csv, .jsonl, .tmx (each also with .gz, .bz2, .zst or .xz), .parquet, or NAME.fr-en for a Moses pair"
# a field of TSV is one line and holds no tab, whatever a reader takes for the end of a line
BREAKS = re.compile("[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
NOT_IN_XML = re.compile("[\v\f\x1c-\x1e]+")  # breaks that XML cannot hold
Langs = tuple[str | None, str | None]
Write = Callable[[Sequence[str], Sequence[str], Sequence[float] | None], None]


def is_table(out: str | Path) -> bool:
    """Whether the name is that of a table of pairs."""
    return kind_of(out) in TABLES or bool(_moses(Path(out)))


def check_text_output(out: str | Path) -> None:
    """Raise ValueError for an output of lines whose name says that it is something else
    (.csv, .json, .srt ...)."""
    if not is_plain_text(out):
        raise ValueError(
            f"{out}: the output is lines of text; name it .txt (also with .gz, .bz2, .zst or .xz)"
        )


def check_not_read(out: str | Path, inputs: Sequence[str | Path]) -> None:
    """`check_output` of the files of an output, whose inputs may be Moses pairs too."""
    for file in _moses(Path(out)) or [Path(out)]:
        check_output(file, [read for path in inputs for read in files_of(Path(path))])


def check_pair_output(
    out: str | Path, langs: Sequence[str | None], inputs: Sequence[str | Path] = ()
) -> None:
    """Raise ValueError before the work: an output of an unknown format,
    a TMX file without languages, an input."""
    check_not_read(out, inputs)
    if str(out) != STANDARD and not is_table(out):
        raise ValueError(f"{out}: unknown format of pairs; name it {KNOWN}")
    if None in langs and kind_of(out) == ".tmx":
        raise ValueError(f"{out}: a TMX file needs the languages of both sides: give them")


@contextmanager
def write_pairs(
    out: str | Path, langs: tuple[str | None, str | None] = (None, None)
) -> Iterator[Write]:
    """A function (sources, targets, scores or None) that writes rows; the file appears whole or not
    at all.

    TSV (also "-", standard output) has the columns score, source, target, in which tabs and line
    breaks are spaces, and a field that holds a quote stands in quotes (`delimited`). CSV has the
    same columns; JSONL and Parquet also have source_lang and target_lang where they are given; in
    TMX a score is a `prop`; a Moses pair holds the texts alone.
    """
    check_pair_output(out, langs)
    kind = kind_of(out)
    path = Path(out)
    moses_files = _moses(path)
    with ExitStack() as stack:
        if kind == ".jsonl":
            yield _jsonl(stack.enter_context(open_output(out)), langs)
        elif kind == ".parquet":
            yield _parquet(stack, path, langs)
        elif kind == ".tmx":
            yield stack.enter_context(_tmx(path, langs))
        elif moses_files:
            files = [stack.enter_context(open_output(file)) for file in moses_files]

            def write(
                sources: Sequence[str],
                targets: Sequence[str],
                scores: Sequence[float] | None = None,
            ) -> None:
                for file, texts in zip(files, (sources, targets)):
                    file.writelines(BREAKS.sub(" ", text) + "\n" for text in texts)

            yield write
        else:
            yield _delimited(stack.enter_context(open_output(out)), "," if kind == ".csv" else "\t")


def _moses(path: Path) -> list[Path]:
    """The two files of a Moses pair; none for other names."""
    stem, packed = (path.stem, path.suffix) if path.suffix.lower() in PACKED else (path.name, "")
    match = MOSES.fullmatch(stem)
    return [path.with_name(f"{stem}.{code}{packed}") for code in match.groups()] if match else []


def tsv_line(fields: Sequence[str]) -> str:
    """A row of TSV as Excel and pandas write it, without its end;
    tabs and line breaks are spaces."""
    return "\t".join(quoted(BREAKS.sub(" ", field)) for field in fields)


def _delimited(file: IO[str], delimiter: str) -> Write:
    """A function that writes rows as TSV or CSV; its first call says whether there are scores."""
    has_header = False

    def write(
        sources: Sequence[str], targets: Sequence[str], scores: Sequence[float] | None = None
    ) -> None:
        """Write rows, below a header if they are the first."""
        nonlocal has_header
        if not has_header:
            # The first call says whether there are scores.
            names = ["source", "target"] if scores is None else ["score", "source", "target"]
            file.write(delimiter.join(names) + "\n")
            has_header = True
        for row, texts in enumerate(zip(sources, targets)):
            if delimiter == "\t":
                line = tsv_line(texts)
            else:
                line = delimiter.join(quoted(text, delimiter) for text in texts)
            if scores is not None:
                line = f"{scores[row]:.6f}{delimiter}{line}"
            file.write(f"{line}\n")

    return write


def _rows(
    sources: Sequence[str], targets: Sequence[str], scores: Sequence[float] | None, langs: Langs
) -> Iterator[dict]:
    """JSON has no NaN: a score that is none is null."""
    codes = {}
    for name, code in zip(("source_lang", "target_lang"), langs):
        if code is not None:
            codes[name] = code
    for i, (source, target) in enumerate(zip(sources, targets)):
        row: dict[str, Any] = {}
        if scores is not None:
            row["score"] = float(scores[i]) if math.isfinite(scores[i]) else None
        yield row | {"source": source, "target": target} | codes


def _jsonl(file: IO[str], langs: Langs) -> Write:
    """A function that writes pairs as JSON lines."""

    def write(
        sources: Sequence[str], targets: Sequence[str], scores: Sequence[float] | None = None
    ) -> None:
        rows = _rows(sources, targets, scores, langs)
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)

    return write


def _parquet(stack: ExitStack, path: Path, langs: Langs) -> Write:
    """A function that writes rows to a Parquet file;
    its first call says whether there are scores."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    unfinished = stack.enter_context(write_whole(path))
    writer = None

    def write(
        sources: Sequence[str], targets: Sequence[str], scores: Sequence[float] | None = None
    ) -> None:
        """Write rows; the first ones decide the schema."""
        nonlocal writer
        if writer is None:
            # of a made-up row: there may be no first rows, or none of them with a score
            schema = pa.Table.from_pylist(
                list(_rows([""], [""], None if scores is None else [0.0], langs))
            ).schema
            writer = stack.enter_context(pq.ParquetWriter(unfinished, schema))
        writer.write_table(
            pa.Table.from_pylist(list(_rows(sources, targets, scores, langs)), writer.schema)
        )

    return write


@contextmanager
def _tmx(path: Path, langs: Langs) -> Iterator[Write]:
    """Gives a function that writes rows as units of TMX."""
    with extra("tmx"):
        from lxml import etree
        from translate.storage.tmx import tmxfile, tmxunit
    # TMX names languages by BCP 47.
    source_lang, target_lang = map(bcp47, langs)
    store = tmxfile(sourcelanguage=source_lang)
    store.addheader()
    # The toolkit writes head and foot; units are written one by one, so that they need no memory.
    start, end = bytes(store).decode().split("<body/>")
    with open_output(path) as file:
        file.write(f"{start}<body>\n")

        def write(
            sources: Sequence[str], targets: Sequence[str], scores: Sequence[float] | None = None
        ) -> None:
            """Write rows as units."""
            for row in _rows(sources, targets, scores, langs):
                unit = tmxunit(None)
                unit.setsource(NOT_IN_XML.sub(" ", row["source"]), source_lang)
                unit.settarget(NOT_IN_XML.sub(" ", row["target"]), target_lang, append=True)
                if row.get("score") is not None:
                    prop = etree.Element("prop", type="score")
                    prop.text = f"{row['score']:.6f}"
                    unit.xmlelement.insert(0, prop)
                file.write(etree.tostring(unit.xmlelement, encoding="unicode") + "\n")

        yield write
        file.write(f"</body>{end}")
