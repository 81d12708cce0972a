"""Count the words of corpora by language and kind of text, and balance them over languages (ECHO D,
OS 4.1).

DuckDB counts the pieces between spaces; the regular expression of the pre-tokenizer, the slow part,
runs once for each distinct one. A stopped count resumes at its first unfinished file.

The result is one Parquet file with the columns lang, kind, word, count, ordered by language code,
kind, descending count and code point. Its metadata has the pre-tokenizer and the totals of each
language.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
from tqdm.auto import tqdm

import hf_echo

from ..data.leaks import quoted
from ..data.parts import Languages
from ..data.sampling import unimax
from ..data.schema import WHITE_SPACE
from ..data.tables import BadRows
from ..data.texts import Texts, open_texts
from ..languages import is_language
from ..utils.bars import hidden
from ..utils.files import first_line, write_whole
from .pretokenizer import PATTERNS, split_words

__all__ = ["Entry", "WordCounts", "count_words"]

logger = logging.getLogger(__name__)

META = "hf_echo_word_counts"
VERSION = 2
BATCH = 64_000_000  # bytes of texts that DuckDB gets at once
LONGEST = 100  # characters; longer words are divided into pieces
SPLIT = 100_000  # pieces that are split into words at once
WORDS = pa.schema({"lang": pa.string(), "kind": pa.string(), "word": pa.string(), "n": pa.int64()})

# Text with other white space, or several spaces in a row, stays whole: its words depend on what is around a space.
OTHER_SPACES = "  |[" + "".join(f"\\x{{{ord(c):x}}}" for c in WHITE_SPACE if c != " ") + "]"
TABLES = """
    CREATE TABLE IF NOT EXISTS done (label VARCHAR PRIMARY KEY, identity VARCHAR, settings VARCHAR);
    CREATE TABLE IF NOT EXISTS pieces (label VARCHAR, lang VARCHAR, kind VARCHAR, piece VARCHAR, n BIGINT);
    CREATE TABLE IF NOT EXISTS sentences (label VARCHAR, lang VARCHAR, kind VARCHAR, n BIGINT);
"""
PIECES = """
    SELECT lang, unnest(CASE WHEN regexp_matches(text, $4) THEN [text] ELSE string_split(text, ' ') END) AS piece
    FROM (SELECT lang, trim(text, $3) AS text FROM batch)
"""


@dataclass(frozen=True)
class Entry:
    """Totals of one language and kind."""

    lang: str
    kind: str
    characters: int  # of the words: NFC, each text stripped and with one space in front
    sentences: int
    words: int
    distinct: int


@dataclass(frozen=True)
class WordCounts:
    """Word counts in a file; words are read from disk on request. `pattern` names the
    pre-tokenizer, `regex` was its expression then."""

    path: Path
    pattern: str
    regex: str
    entries: tuple[Entry, ...]

    @classmethod
    def load(cls, path: str | os.PathLike) -> WordCounts:
        """Open a file of counts; raises FileNotFoundError, or ValueError for another file or
        version."""
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such file of counts (working folder {Path.cwd()})")
        advice = "make one with `hf-echo vocabulary count`"
        try:
            metadata = pq.read_metadata(path).metadata or {}
        except pa.ArrowInvalid as error:
            raise ValueError(f"{path} is not a Parquet file ({error}): {advice}") from None
        if META.encode() not in metadata:
            raise ValueError(f"{path} is a Parquet file, but not of word counts: {advice}")
        meta = json.loads(metadata[META.encode()])
        if meta["version"] != VERSION:
            raise ValueError(
                f"{path} has version {meta['version']} of the counts, not {VERSION}: {advice}"
            )
        entries = tuple(Entry(**entry) for entry in meta["entries"])
        return cls(path, meta["pattern"], meta["regex"], entries)

    @property
    def languages(self) -> list[str]:
        return sorted({entry.lang for entry in self.entries})

    @property
    def characters(self) -> dict[str, int]:
        """Number of characters by language, both kinds together."""
        characters = dict.fromkeys(self.languages, 0)
        for entry in self.entries:
            characters[entry.lang] += entry.characters
        return characters

    def check_pattern(self, pattern: str) -> None:
        """Raise ValueError unless the words were made with the pre-tokenizer of this name."""
        if PATTERNS[pattern] != self.regex:
            is_current = PATTERNS.get(self.pattern) == self.regex
            old = "" if is_current else " (an older form of it)"
            raise ValueError(
                f"{self.path} was counted with the pre-tokenizer {self.pattern!r}{old}, the tokenizer has {pattern!r}:"
                f" count again with pattern {pattern!r}, or use a tokenizer with the counts' pre-tokenizer"
            )

    def shares(
        self,
        *,
        top_n: int = 126,
        max_upsampling: float = 100,
        language_weights: Mapping[str, float] | None = None,
    ) -> dict[str, float]:
        """Share of each language in the balanced sample, in characters, summing to 1.

        UniMax (`data.sampling.unimax`) over the characters of a language (both kinds together),
        times its weight (default 1; weight 0 removes the language before UniMax).

        Raises:
            ValueError: a weight for a language without counts or below 0; a language without a
                character.
        """
        weights = dict(language_weights or {})
        sizes = self.characters
        for lang, weight in weights.items():
            if lang not in sizes:
                raise ValueError(
                    f"a weight is given for {lang!r}, which {self.path} does not have: count text in this language or "
                    "leave the weight out"
                )
            if not 0 <= weight < math.inf:
                raise ValueError(
                    f"the language {lang} has weight {weight}; it must be a number >= 0"
                )
        # UniMax would give a part of the sample to a language that has the weight 0.
        sizes = {lang: size for lang, size in sizes.items() if weights.get(lang, 1) > 0}
        shares = unimax(sizes, max_upsampling=max_upsampling, top_n=top_n)
        weighted = {lang: share * weights.get(lang, 1) for lang, share in shares.items()}
        total = math.fsum(weighted.values())
        return {lang: share / total for lang, share in weighted.items()}

    def balanced(
        self,
        *,
        top_n: int = 126,
        max_upsampling: float = 100,
        language_weights: Mapping[str, float] | None = None,
        min_count: int = 1,
        total: int = 1_000_000_000,
    ) -> dict[str, int]:
        """Word -> integer frequency in a balanced sample (ECHO D, OS 4.1).

        Each language has the share of characters that `shares` gives, half of it parallel and half
        monolingual text; a language with one kind uses that. A word with count c in a language and
        kind of C characters gets ``share * c / C / kinds``, summed over languages and kinds.

        Args:
            min_count: per language (kinds together), leave out words with a smaller count. In
                scripts without spaces most words occur once: keep 1 for those.
            total: sum of the frequencies, except for rounding. The default keeps all counts of
                pairs below 2**31, where the `BpeTrainer` of tokenizers overflows.

        Returns:
            Frequencies rounded to integers, without words of frequency 0; by descending frequency,
            then code point.

        Raises:
            ValueError: as `shares`; no word has min_count.
        """
        shares = self.shares(
            top_n=top_n, max_upsampling=max_upsampling, language_weights=language_weights
        )
        # what one occurrence of a word counts in each language and kind
        entries = [entry for entry in self.entries if entry.lang in shares and entry.characters > 0]
        kinds = Counter(entry.lang for entry in entries)
        rows = []
        for entry in entries:
            factor = shares[entry.lang] / entry.characters / kinds[entry.lang]
            rows.append((entry.lang, entry.kind, factor))
        db = duckdb.connect()
        db.execute("CREATE TABLE factors (lang VARCHAR, kind VARCHAR, factor DOUBLE)")
        db.executemany("INSERT INTO factors VALUES (?, ?, ?)", rows)
        db.register("words", pyarrow.dataset.dataset(str(self.path)))
        table = db.execute(
            """
            SELECT word, sum(f ORDER BY lang) AS frequency FROM (
                SELECT lang, word, sum("count" * factor ORDER BY kind) AS f
                FROM words JOIN factors USING (lang, kind)
                GROUP BY lang, word HAVING sum("count") >= $1)
            GROUP BY word ORDER BY word
            """,
            [min_count],
        ).fetchnumpy()
        # whole numbers, the most frequent first
        frequency = np.asarray(table["frequency"])
        if not len(frequency):
            raise ValueError(
                f"{self.path}: no word was seen {min_count} times: lower the smallest count of a word"
            )
        rounded = np.floor(frequency * (total / frequency.sum()) + 0.5).astype(np.int64)
        order = np.argsort(-rounded, kind="stable")  # equal ones stay in the order of code points
        order = order[rounded[order] > 0]
        return dict(zip(table["word"][order].tolist(), rounded[order].tolist(), strict=True))


def count_words(
    sources: str | os.PathLike | Sequence[str | os.PathLike | Iterable[tuple[str, str]]],
    out: str | os.PathLike,
    *,
    pattern: str = "echo",
    kind: str | None = None,
    lang: str | None = None,
    langs: Languages = (None, None),
    split: str | None = "train",
    on_bad_row: str = "error",
    progress: bool = True,
) -> WordCounts:
    """Count words by language and kind into the file `out`.

    Args:
        sources: files or folders (Parquet, JSONL, TSV of pairs or of lang and text; .txt, see
            `hf_echo.data.texts`), or iterables of (lang, text).
        out: the Parquet file to write. Finished files are stored in ``<out>.unfinished``, from
            which the same call resumes an interrupted count, also with more sources.
        pattern: the pre-tokenizer, one of `pretokenizer.PATTERNS`.
        kind: "parallel" or "monolingual" for all sources; None: pairs are parallel, the rest
            monolingual.
        lang: of plain text whose file name has no language code, and of tables without a language
            column.
        langs: of sources and targets of pairs in files without columns for them, as
            `source_lang` and `target_lang` of `hf_echo.data.load_parallel`.
        split: value of the column ``split``, or split in file names, to count; None counts all.
        on_bad_row: "error", or "skip" with one warning.

    Raises:
        FileNotFoundError: the file does not exist. ValueError: bad rows (file:line), no rows,
            columns or languages, a file that changed since the interrupted count, another count
            into `out` that runs.
    """
    bad_rows = BadRows(on_bad_row)
    opened = open_texts(sources, kind, lang, split, langs)
    out = Path(out)
    settings = {"pattern": pattern, "regex": PATTERNS[pattern]}
    work = out.with_name(f"{out.name}.unfinished")
    work.parent.mkdir(parents=True, exist_ok=True)
    with _open_work(work) as db:
        with tqdm(
            desc="Counting words", unit="row", unit_scale=True, disable=hidden(progress)
        ) as bar:
            for texts in _unfinished(db, opened, settings, work):
                _count(db, texts, settings, bad_rows, bar)
        bad_rows.report()
        # the slow part: words of each distinct piece
        labels = [texts.label for texts in opened]
        _split_pieces(db, labels, pattern, progress)
        counts = _write(db, out, settings, _sentences(db, labels))
    work.unlink()
    unlisted = [code for code in counts.languages if not is_language(code)]
    if unlisted:
        logger.warning(
            "counted %d languages outside the table: %s", len(unlisted), ", ".join(unlisted[:20])
        )
    return counts


def _sentences(db: duckdb.DuckDBPyConnection, labels: list[str]) -> dict[tuple[str, str], int]:
    """Number of texts by language and kind."""
    query = "SELECT lang, kind, sum(n)::BIGINT FROM sentences WHERE label IN $1 GROUP BY ALL"
    rows = db.execute(query, [labels]).fetchall()
    return {(lang, kind): count for lang, kind, count in rows}


def _open_work(work: Path) -> duckdb.DuckDBPyConnection:
    """The database of this count, also of an interrupted one."""
    try:
        db = duckdb.connect(str(work))
    except duckdb.IOException as error:
        reason = first_line(error)
        raise ValueError(
            f"{work} cannot be opened: another count into the same file runs, or it is damaged ({reason})"
        ) from None
    db.execute(TABLES)
    return db


def _unfinished(
    db: duckdb.DuckDBPyConnection, opened: Sequence[Texts], settings: dict[str, str], work: Path
) -> Iterator[Texts]:
    """The sources that an interrupted run has not counted; an iterable, which has no identity, is
    counted again."""
    finished = {}
    for label, identity, old_settings in db.execute("FROM done").fetchall():
        finished[label] = (identity, old_settings)
    for texts in opened:
        if texts.identity is None or texts.label not in finished:
            yield texts
        elif finished[texts.label] != (texts.identity, repr(settings)):
            raise ValueError(
                f"{texts.label} or a setting has changed since its count was interrupted: "
                f"use the old files and settings, or delete {work} to count again"
            )


def _count(
    db: duckdb.DuckDBPyConnection,
    texts: Texts,
    settings: dict[str, str],
    bad_rows: BadRows,
    bar: tqdm,
) -> None:
    """Add the pieces and sentences of one source, in one transaction."""
    db.begin()
    for table in ("pieces", "sentences", "done"):
        db.execute(f"DELETE FROM {table} WHERE label = $1", [texts.label])
    rows = 0
    for batch in _batches(texts.tables(bad_rows)):
        db.register("batch", batch)
        db.execute(
            f"INSERT INTO pieces SELECT $1, lang, $2, piece, count(*) FROM ({PIECES}) GROUP BY ALL",
            [texts.label, texts.kind, WHITE_SPACE, OTHER_SPACES],
        )
        db.execute(
            "INSERT INTO sentences SELECT $1, lang, $2, count(*) FROM batch GROUP BY ALL",
            [texts.label, texts.kind],
        )
        rows += len(batch)
        bar.update(len(batch))
    if not rows:
        suffix = f" of split {texts.split!r}" if texts.split is not None else ""
        raise ValueError(
            f"{texts.label}: no row{suffix} to count; leave it out (finished counts are kept)"
        )
    db.execute(
        "INSERT INTO done VALUES ($1, $2, $3)", [texts.label, texts.identity, repr(settings)]
    )
    db.commit()


def _batches(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Join small tables into large ones."""
    # Files come in small tables; DuckDB is fast on large ones.
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(part.nbytes for part in waiting) > BATCH:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _split_pieces(
    db: duckdb.DuckDBPyConnection, labels: list[str], pattern: str, progress: bool
) -> None:
    """Split each distinct piece into words, into the table words."""
    db.execute("CREATE OR REPLACE TABLE words (lang VARCHAR, kind VARCHAR, word VARCHAR, n BIGINT)")
    query = (
        "SELECT lang, kind, piece, sum(n)::BIGINT AS n FROM pieces WHERE label IN $1 GROUP BY ALL"
    )
    bar = tqdm(desc="Splitting", unit="piece", unit_scale=True, disable=hidden(progress))
    for batch in db.cursor().sql(query, params=[labels]).to_arrow_reader(SPLIT):
        word_counts: Counter[tuple[str, str, str]] = Counter()
        columns = [column.to_pylist() for column in batch.columns]
        for lang, kind, piece, n in zip(*columns, strict=True):
            for word in split_words(piece, pattern):
                # BPE tokens are shorter, so only merges across a cut are lost; a line of base64 does not stay one word
                for start in range(0, len(word), LONGEST):
                    word_counts[lang, kind, word[start : start + LONGEST]] += n
        bar.update(len(batch))
        rows = []
        for (lang, kind, word), n in word_counts.items():
            rows.append({"lang": lang, "kind": kind, "word": word, "n": n})
        db.register("batch", pa.Table.from_pylist(rows, schema=WORDS))
        db.execute("INSERT INTO words FROM batch")
    bar.close()


def _write(
    db: duckdb.DuckDBPyConnection,
    out: Path,
    settings: Mapping[str, Any],
    sentences: Mapping[tuple[str, str], int],
) -> WordCounts:
    """Sum the table words and write it, with its totals as metadata."""
    db.execute(
        'CREATE TEMP TABLE total AS SELECT lang, kind, word, sum(n)::BIGINT AS "count" FROM words GROUP BY ALL'
    )
    query = (
        'SELECT lang, kind, sum("count" * length(word)), sum("count"), count(*) '
        "FROM total GROUP BY ALL ORDER BY ALL"
    )
    # The totals stand in the metadata, so that shares are computed without reading the words.
    entries = []
    for lang, kind, characters, words, distinct in db.execute(query).fetchall():
        entry = Entry(lang, kind, int(characters), sentences[lang, kind], int(words), distinct)
        entries.append(asdict(entry))
    meta = {"version": VERSION, "hf_echo": hf_echo.__version__, "normalisation": "NFC", **settings}
    note = json.dumps({**meta, "entries": entries})
    with write_whole(out) as unfinished:
        options = f"FORMAT parquet, COMPRESSION zstd, KV_METADATA {{{META}: {quoted(note)}}}"
        ordered = 'FROM total ORDER BY lang, kind, "count" DESC, word'
        db.execute(f"COPY ({ordered}) TO {quoted(str(unfinished))} ({options})")
    return WordCounts.load(out)
