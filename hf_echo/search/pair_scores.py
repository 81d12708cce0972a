"""Score sentence pairs one by one, in order: cosine, margin, or BLASER 2.0 qe; keep those above a
threshold.

Each block is scored and written before the next one is read, so memory does not grow with the input
(a margin holds the place of every different text). A pair with an empty side scores NaN, which is
above no threshold.

The neighbours of a margin (`margin`) are those among the different texts of the whole input, whose
embeddings are kept on disk, or of a reference: pairs of the same kind, for standard input.
"""

from __future__ import annotations

import logging
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from tqdm.auto import tqdm

import hf_echo

from ..data.delimited import quoted
from ..data.formats import kind_of, open_file
from ..data.pair_writer import check_not_read, check_text_output, is_table, tsv_line, write_pairs
from ..data.parts import Languages, Part, log_left_out
from ..data.pipeline.filters.threshold import DirectionThreshold
from ..data.schema import (
    LANGUAGE_ALIASES,
    TEXT_ALIASES,
    as_list,
    columns_of_languages,
    find_columns,
    names_language,
)
from ..data.texts import open_two_texts, texts_of_block
from ..inference.embedding_files import take_rows
from ..inference.embedding_store import key_of
from ..inference.encoders import Encode
from ..inference.scorer import EchoScorer, embed_columns, open_encoder
from ..languages import as_code
from ..modeling.prompting_echo import is_blank
from ..utils.bars import hidden
from ..utils.files import make_once, only_run, remove_work, short_hash
from ..utils.fingerprint import fingerprint
from ..utils.results import Result
from ..utils.text import STANDARD, name_of, open_output
from .blocks import Rows, neighbours_in_blocks
from .checks import has_direction
from .margin import margin_of

logger = logging.getLogger(__name__)

ScoreName = Literal["cosine", "margin", "blaser-qe"]


class PairBlock(NamedTuple):
    """`lines` are the rows as they stand in a TSV file; None for other formats."""

    sources: list[str]
    targets: list[str]
    source_langs: list[str | None]
    target_langs: list[str | None]
    lines: list[str] | None


class Pairs(NamedTuple):
    """Opened input, of `files`: `blocks()` can be called again unless it is standard input
    (`identity` is None)."""

    blocks: Callable[[], Iterator[PairBlock]]
    header: str | None  # the first line of a TSV file, if it names the columns
    identity: Any
    files: list[Path]
    left_out: Counter[str]  # reason -> number of what the last `blocks()` has read and is no pair


@dataclass(frozen=True)
class ScoreReport(Result):
    """`rows` read, `scored` of them (both sides have text and a direction), `kept`; `mean` and
    `sigma` of the scores.

    `left_out`: entries of the input that are not pairs, such as units of TMX that lack one of the
    languages.
    """

    rows: int
    left_out: int
    scored: int
    kept: int
    mean: float | None
    sigma: float | None
    out: str


def open_pairs(
    source: Path,
    target: Path | None = None,
    *,
    langs: Languages = (None, None),
    columns: Mapping[str, str] | None = None,
) -> Pairs:
    """Open pairs: a table, TMX, a Moses pair or "-" (TSV), or two files whose lines i belong
    together.

    Args:
        langs: of source and target, where the file does not say them; they choose the languages of
            a TMX file.
        columns: names in the file, or numbers in a TSV file without header, of source, target,
            source_lang ...

    Raises:
        FileNotFoundError, ValueError: what is wrong with a file.
    """
    # What the caller names: columns, or their numbers in a file without header.
    source = Path(source)
    columns = {name: str(column) for name, column in (columns or {}).items()}
    columns_are_numbers = bool(columns) and all(column.isdigit() for column in columns.values())
    given_langs = {"source_lang": langs[0], "target_lang": langs[1]}
    header_lines = []

    def is_header(fields: list[str]) -> bool:
        if columns_are_numbers:
            return False
        if len(fields) == 2 and not columns and tuple(fields) not in TEXT_ALIASES:
            if not columns_of_languages(fields, given_langs):
                _warn_of_languages(fields, source)
                return False
        header_lines.append("\t".join(fields))
        return True

    if target is not None:
        files = [source, Path(target)]
        part = open_two_texts(files, langs)
        is_tsv = False
    else:
        files = [source]
        names = None if columns_are_numbers else ("source", "target")
        part = open_file(source, is_header=is_header, without_header=names, langs=langs)
        is_tsv = str(source) == STANDARD or kind_of(source) == ".tsv"

    # A language is a constant of the whole file unless the file has a column for it.
    constants: dict[str, str | None] = {}
    for side, lang, aliases in zip(("source_lang", "target_lang"), langs, zip(*LANGUAGE_ALIASES)):
        file_has_column = side in columns or not set(aliases).isdisjoint(part.columns)
        if lang or not file_has_column:
            constants[side] = lang
    mapping = find_columns(part.columns, columns, constants=constants, where=part.label)

    identity = None
    if STANDARD not in map(str, files):  # all that a row's texts and languages depend on
        identity = (part.identity, tuple(langs), tuple(sorted(columns.items())))
    left_out: Counter[str] = Counter()
    return Pairs(
        blocks=partial(_blocks, part, mapping, langs, is_tsv, left_out),
        header=header_lines[0] if header_lines else None,
        identity=identity,
        files=files,
        left_out=left_out,
    )


def _warn_of_languages(fields: Sequence[str], source: Path) -> None:
    """Say that a first line which looks like a header is read as a pair: it may be one of a
    dictionary."""
    first, second = fields
    if first != second and names_language(first) and names_language(second):
        logger.warning(
            "%s: the first line, %s and %s, is read as a pair; if it names the languages, give them: "
            "--source-lang %s --target-lang %s",
            name_of(source),
            first,
            second,
            first,
            second,
        )


def _blocks(
    part: Part, mapping: Mapping[str, str], langs: Languages, is_tsv: bool, left_out: Counter[str]
) -> Iterator[PairBlock]:
    """Yield blocks of pairs with the language of each text."""
    names = list(part.columns) if is_tsv else list(mapping.values())
    left_out.clear()
    for block in part.read(list(dict.fromkeys(names))):
        left_out.update(block.left_out)
        sides = {side: mapping[side] for side in ("source", "target")}
        texts = texts_of_block(block, part.label, sides)
        # The languages of each side: of a column, or the one that is given for all rows.
        codes = {}
        for side, lang in zip(sides, langs, strict=True):
            language_column = mapping.get(f"{side}_lang")
            if language_column is None:
                codes[side] = [lang] * len(texts[side])
            else:
                codes[side] = as_list(block.columns[language_column])
        try:
            source_langs = [_code(code) for code in codes["source"]]
            target_langs = [_code(code) for code in codes["target"]]
        except ValueError as error:
            raise ValueError(f"{part.label}: {error}") from None
        # Rows of a TSV file are written again as they stand in it.
        lines = None
        if is_tsv:
            rows = zip(*(block.columns[name] for name in names))
            as_written = quoted if part.is_quoted else str
            lines = ["\t".join(map(as_written, fields)) for fields in rows]
        yield PairBlock(texts["source"], texts["target"], source_langs, target_langs, lines)


@cache
def _code(lang: str | None) -> str | None:
    return as_code(lang) if lang else lang


def score_pairs(  # noqa: PLR0913 (the options of `hf-echo score`)
    pairs: Pairs,
    out: Path,
    model: str,
    *,
    score: ScoreName = "cosine",
    blaser: str | None = None,
    reference: Pairs | None = None,
    k: int = 4,
    threshold: float | str | Path | None = None,
    sigma: float = 3.0,
    langs: Languages = (None, None),
    dtype: str = "auto",
    fresh: bool = False,
    progress: bool = False,
) -> ScoreReport:
    """Score pairs and write one line for each, or only the pairs above a threshold.

    Args:
        out: "-" (standard output) or a text file: one score a line, or with a threshold the pairs
            that are kept, as they are in a TSV input. A table (.tsv, .jsonl, .parquet, .tmx):
            score, source and target of each pair, or of those kept. A file appears whole; a stopped
            run resumes with the scores and embeddings in OUT.work.
        score: "cosine", "margin" or "blaser-qe"; the last one needs `blaser`, a BLASER 2.0 qe
            model.
        reference: pairs whose texts are the neighbours of a margin; None: the input.
        k: neighbours of a margin.
        threshold: the lowest score that is kept: a number, or the JSON file of
            `hf-echo data calibrate`, which gives mean - `sigma` standard deviations of each
            direction (OS 3.5).
        langs: written to a table.

    Raises:
        ValueError: wrong options, files without a pair, or a row that is none (with its line).
    """
    # all that can be wrong, before a model is opened
    out = Path(out)
    if score == "margin" and reference is None and pairs.identity is not None:
        reference = pairs
    check_score(score, blaser, reference)
    lowest_scores = None if threshold is None else _threshold(threshold, sigma)
    files = list(pairs.files)
    identity = (pairs.identity, None)
    if reference is not None:
        files += reference.files
        identity = (pairs.identity, reference.identity)
    check_not_read(out, files)
    if not is_table(out):
        check_text_output(out)
    # scores are found again only by the same package, input, model and options
    model_prints = (fingerprint(model), blaser and fingerprint(blaser))
    key = repr((hf_echo.__version__, identity, *model_prints, score, k, dtype))
    can_resume = (
        pairs.identity is not None and str(out) != STANDARD and (out.is_file() or not out.exists())
    )

    with ExitStack() as stack:
        work = stack.enter_context(_work_folder(out, can_resume, fresh))
        folder = work / f"score-{short_hash(key)}"
        scorer = scorer_of(
            model, blaser=blaser, reference=reference, k=k, dtype=dtype, folder=folder
        )
        write = stack.enter_context(_writer(pairs, out, threshold is not None, langs))
        blocks = tqdm(pairs.blocks(), desc="Scoring", unit="block", disable=hidden(progress))
        scored_blocks = _scored(blocks, scorer, folder if can_resume else None)
        counts, mean, deviation = _write_scored(scored_blocks, write, lowest_scores)
        # A pipe may end without a row, as a filter may have let nothing through; a file may not.
        label = " and ".join(map(name_of, pairs.files))
        if pairs.identity is not None and not counts["rows"] and not pairs.left_out:
            raise ValueError(f"{label}: no pairs; write one pair per line")

    log_left_out(label, pairs.left_out)
    if counts["scored"] < counts["rows"]:
        logger.warning(
            "%s: %s of %s pairs score nan: a side is empty, or its embedding is zero",
            label,
            counts["rows"] - counts["scored"],
            counts["rows"],
        )
    return ScoreReport(
        rows=counts["rows"],
        left_out=pairs.left_out.total(),
        scored=counts["scored"],
        kept=counts["kept"],
        mean=mean,
        sigma=deviation,
        out=str(out),
    )


def _scored(
    blocks: Iterable[PairBlock], scorer: Callable[..., np.ndarray], folder: Path | None
) -> Iterator[tuple[PairBlock, np.ndarray]]:
    """Each block with its scores, which stay in a folder until the run is complete (None: a
    stream)."""
    for number, block in enumerate(blocks):
        if folder is None:
            yield block, score_block(scorer, block)
        else:
            save = partial(_save_scores, scorer, block)
            yield block, np.load(make_once(folder / f"{number:06d}.npy", save))


def _write_scored(
    blocks: Iterable[tuple[PairBlock, np.ndarray]],
    write: Callable[..., None],
    lowest_scores: Callable[[PairBlock], Any] | None,
) -> tuple[Counter[str], float | None, float | None]:
    """(rows, scored and kept ones; mean and standard deviation of the scores)."""
    # One block after the other; mean and deviation come from sums.
    counts: Counter[str] = Counter()
    total = 0.0
    total_of_squares = 0.0
    for block, scores in blocks:
        is_kept = np.ones(len(scores), bool)
        if lowest_scores is not None:
            is_kept = scores >= lowest_scores(block)
        write(block, scores, is_kept)
        numbers = scores[~np.isnan(scores)]
        counts.update(rows=len(scores), kept=int(is_kept.sum()), scored=len(numbers))
        total += float(numbers.sum())
        total_of_squares += float((numbers**2).sum())
    if not counts["scored"]:
        return counts, None, None
    mean = total / counts["scored"]
    deviation = math.sqrt(max(0.0, total_of_squares / counts["scored"] - mean**2))
    return counts, mean, deviation


@contextmanager
def _work_folder(out: Path, can_resume: bool, fresh: bool) -> Iterator[Path]:
    """OUT.work, whose scores and embeddings stay if the run is stopped; a stream cannot be
    resumed."""
    if not can_resume:
        with tempfile.TemporaryDirectory(prefix="hf-echo-score-") as folder:
            yield Path(folder)
        return
    with only_run(out):
        work = out.with_name(out.name + ".work")
        if fresh:
            remove_work(work, "score-*")
        yield work
        remove_work(work, "score-*")


def check_score(score: ScoreName, blaser: str | None, reference: Pairs | None) -> None:
    """Raise ValueError unless the arguments of `score_pairs` go together."""
    if score not in get_args(ScoreName):
        raise ValueError(f"score is {score!r}; it must be one of {', '.join(get_args(ScoreName))}")
    if (score == "blaser-qe") != (blaser is not None):
        raise ValueError("score 'blaser-qe' and a BLASER model go together: give both, or none")
    if score == "margin" and reference is None:
        raise ValueError(
            "a margin of standard input or of single pairs needs a reference: give the pairs that its neighbours are "
            "searched among (--reference PAIRS)"
        )
    if score != "margin" and reference is not None:
        raise ValueError(
            f"score {score!r} has no neighbours, so it reads no reference: leave it out, or take the score 'margin'"
        )


def scorer_of(
    model: str,
    *,
    blaser: str | None,
    reference: Pairs | None,
    k: int,
    dtype: str = "auto",
    folder: Path,
) -> Callable[..., np.ndarray]:
    """``scorer(sources, targets, source_langs, target_langs) -> (rows,)``: margins among the texts
    of a reference, in `folder`; without one cosines, or the scores of BLASER."""
    if reference is None:
        return EchoScorer(model, dtype, blaser=blaser)
    return Margin(open_encoder(model, dtype=dtype), reference.blocks(), folder, k)


def score_block(scorer: Callable[..., np.ndarray], block: PairBlock) -> np.ndarray:
    """(rows,) float64, NaN where a side is empty."""
    scores = np.full(len(block.sources), np.nan)
    rows = _whole(block)
    if rows:
        scores[rows] = scorer(
            [block.sources[row] for row in rows],
            [block.targets[row] for row in rows],
            [block.source_langs[row] for row in rows],
            [block.target_langs[row] for row in rows],
        )
    return scores


def _save_scores(scorer: Callable[..., np.ndarray], block: PairBlock, unfinished: Path) -> None:
    np.save(unfinished, score_block(scorer, block))


def _whole(block: PairBlock) -> list[int]:
    """The rows without an empty side."""
    rows = []
    for row, (source, target) in enumerate(zip(block.sources, block.targets)):
        if not is_blank(source) and not is_blank(target):
            rows.append(row)
    return rows


class Margin:
    """``scorer(sources, targets, source_langs, target_langs)``: margins (ratio) among the different
    texts of `blocks`.

    Their embeddings by `encode` (texts, lang) -> (n, d) go to `folder`, where a stopped run finds
    them.
    """

    def __init__(self, encode: Encode, blocks: Iterator[PairBlock], folder: Path, k: int):
        self.encode = encode
        self.sources = _Pool("source")
        self.targets = _Pool("target")
        for number, block in enumerate(blocks):
            rows = _whole(block)
            source_texts = [(block.sources[row], block.source_langs[row]) for row in rows]
            target_texts = [(block.targets[row], block.target_langs[row]) for row in rows]
            self.sources.add(source_texts, encode, folder, number)
            self.targets.add(target_texts, encode, folder, number)
        if not self.sources.parts:
            raise ValueError("no pair has text on both sides: there is nothing to compare")
        self.source_rows = Rows(self.sources.parts, "source").with_direction()
        self.target_rows = Rows(self.targets.parts, "target").with_direction()
        self.smaller = min(len(self.source_rows), len(self.target_rows))
        self.k = min(k, self.smaller)

    def __call__(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        source_langs: Sequence[str | None],
        target_langs: Sequence[str | None],
    ) -> np.ndarray:
        """(rows,) float64 margins; NaN where an embedding is zero and has no direction."""
        # A pair without a direction on a side has no margin.
        x = self.sources.vectors(sources, source_langs, self.encode)
        y = self.targets.vectors(targets, target_langs, self.encode)
        scores = np.full(len(x), np.nan)
        rows = np.flatnonzero(has_direction(x) & has_direction(y))
        if len(rows):
            scores[rows] = self._margins(x[rows], y[rows])
        return scores

    def _margins(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """(rows,) ratio margin of the pairs x[i], y[i], with neighbours among the reference."""
        # (rows,) cosines, and mean cosines of each text with its neighbours on the other side
        cosines = np.einsum("nd,nd->n", x, y, dtype=np.float64)
        x_neighbours = neighbours_in_blocks(Rows(x, "texts"), self.target_rows, self.k)
        y_neighbours = neighbours_in_blocks(Rows(y, "texts"), self.source_rows, self.k)
        mean_x = x_neighbours.scores.mean(axis=1, dtype=np.float64)
        mean_y = y_neighbours.scores.mean(axis=1, dtype=np.float64)
        return margin_of(cosines, mean_x, mean_y, smaller=self.smaller)


class _Pool:
    """The different texts of a side, by language, with their embeddings in files."""

    def __init__(self, side: str):
        self.side = side
        self.rows: dict[int, int] = {}  # key of a text -> its row
        self.parts: list[np.ndarray] = []

    def add(
        self, texts: list[tuple[str, str | None]], encode: Encode, folder: Path, number: int
    ) -> None:
        """Encode the (text, language) that are new."""
        new_texts = []
        for text, lang in texts:
            key = key_of(lang or "", text)
            if key not in self.rows:
                self.rows[key] = len(self.rows)
                new_texts.append((text, lang))
        if new_texts:
            make = partial(_save_embeddings, encode, new_texts)
            file = make_once(folder / f"{self.side}-{number:06d}.npy", make)
            self.parts.append(np.load(file, mmap_mode="r"))

    def vectors(
        self, texts: Sequence[str], langs: Sequence[str | None], encode: Encode
    ) -> np.ndarray:
        """(len(texts), d) of length 1: from the pool; if one text is not there, all are encoded."""
        # Pairs of the pool itself are not encoded again; others come from standard input.
        rows = []
        for text, lang in zip(texts, langs, strict=True):
            rows.append(self.rows.get(key_of(lang or "", text), -1))
        if -1 in rows:
            return embed_columns(encode, [(texts, langs)])[0]
        return take_rows(self.parts, np.array(rows))


def _save_embeddings(
    encode: Encode, texts: Sequence[tuple[str, str | None]], unfinished: Path
) -> None:
    columns = [text for text, _ in texts], [lang for _, lang in texts]
    np.save(unfinished, embed_columns(encode, [columns])[0])


def _threshold(threshold: float | str | Path, sigma: float) -> Callable[[PairBlock], Any]:
    """A function of a block: the lowest score of each row that is kept."""
    try:
        number = float(str(threshold))
    except ValueError:
        threshold_of = cache(DirectionThreshold(k=sigma, calibrated=str(threshold)).threshold)

        def lowest_scores(block: PairBlock) -> np.ndarray:
            if None in block.source_langs or None in block.target_langs:
                raise ValueError(
                    f"the thresholds of {threshold} depend on the languages: give those of both sides"
                )
            return np.array(
                [threshold_of(*langs) for langs in zip(block.source_langs, block.target_langs)]
            )

        return lowest_scores
    if math.isnan(number):
        raise ValueError(
            "threshold is nan; give a number, or the JSON file of hf-echo data calibrate"
        )
    return lambda block: number


@contextmanager
def _writer(
    pairs: Pairs, out: Path, keeps_some: bool, langs: Languages
) -> Iterator[Callable[..., None]]:
    """A function (block, scores, is_kept) that writes rows: scores, or with a threshold the pairs
    that are kept."""
    if is_table(out):
        with write_pairs(out, langs) as write:
            write([], [], [])  # the names of the columns
            yield partial(_write_table_rows, write)
        return
    with open_output(out) as file:
        if keeps_some and pairs.header is not None:
            file.write(pairs.header + "\n")

        def write_lines(block: PairBlock, scores: np.ndarray, is_kept: np.ndarray) -> None:
            """Write the kept pairs of a block as lines, or one score a line where all are kept."""
            if keeps_some:
                for row in np.flatnonzero(is_kept):
                    file.write(f"{_line(block, row)}\n")
            else:
                file.writelines(f"{score:.6f}\n" for score in scores.tolist())
            if str(out) == STANDARD:
                file.flush()

        yield write_lines


def _write_table_rows(
    write: Callable[..., None], block: PairBlock, scores: np.ndarray, is_kept: np.ndarray
) -> None:
    """Write the kept pairs of a block and their scores to a table."""
    rows = np.flatnonzero(is_kept)
    sources = [block.sources[row] for row in rows]
    targets = [block.targets[row] for row in rows]
    write(sources, targets, scores[rows].tolist())


def _line(block: PairBlock, row: int) -> str:
    """The row as it stands in a TSV file, or in a new one."""
    if block.lines is not None:
        return block.lines[row]
    return tsv_line([block.sources[row], block.targets[row]])
