"""Score sentence pairs one by one, in order: cosine, margin, or BLASER 2.0 qe; keep those above a threshold.

Each block is scored and written before the next one is read, so memory does not grow with the input (a margin holds the
place of every different text). A pair with an empty side scores NaN, which is above no threshold.

The neighbours of a margin (`margin`) are those among the different texts of the whole input, whose embeddings are kept
on disk, or of a reference: pairs of the same kind, for standard input.
"""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm.auto import tqdm

import hf_echo

from ..data.formats import Languages, Part, open_file, open_two, suffix_of
from ..data.pair_writer import BREAKS, check_not_read, is_table, write_pairs
from ..data.pipeline.filters.threshold import DirectionThreshold
from ..data.schema import LANGUAGE_ALIASES, TEXT_ALIASES, as_list, check_text, find_columns
from ..inference.embedding_files import take_rows
from ..inference.embedding_store import key_of
from ..inference.encoders import Encode
from ..inference.scorer import EchoScorer, embed_columns, open_encoder
from ..languages import as_code
from ..modeling.prompting_echo import is_blank
from ..utils.files import make_once, only_run, remove_work
from ..utils.fingerprint import fingerprint
from ..utils.results import Result
from ..utils.text import STANDARD, open_output
from .blocks import Rows, neighbours_in_blocks
from .margin import margin_of

SCORES = ("cosine", "margin", "blaser-qe")


class PairBlock(NamedTuple):
    """`lines` are the rows as they stand in a TSV file; None for other formats."""

    sources: list[str]
    targets: list[str]
    source_langs: list[str | None]
    target_langs: list[str | None]
    lines: list[str] | None


class Pairs(NamedTuple):
    """Opened input, of `files`: `blocks()` can be called again unless it is standard input (`identity` is None)."""

    blocks: Callable[[], Iterator[PairBlock]]
    header: str | None  # the first line of a TSV file, if it names the columns
    identity: Any
    files: list[Path]


@dataclass(frozen=True)
class ScoreReport(Result):
    """`rows` read, `scored` of them (those without an empty side), `kept`; `mean` and `sigma` of the scores."""

    rows: int
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
    """Open pairs: a table, TMX, a Moses pair or "-" (TSV), or two files whose lines i belong together.

    Args:
        langs: of source and target, where the file does not say them; they choose the languages of a TMX file.
        columns: names in the file, or numbers in a TSV file without header, of source, target, source_lang ...

    Raises:
        FileNotFoundError, ValueError: what is wrong with a file.
    """
    source, columns, header = Path(source), {name: str(column) for name, column in (columns or {}).items()}, []

    def is_header(fields: list[str]) -> bool:
        if numbered or (len(fields) == 2 and not columns and tuple(fields) not in TEXT_ALIASES):
            return False
        header.append("\t".join(fields))
        return True

    numbered = bool(columns) and all(column.isdigit() for column in columns.values())
    if target is not None:
        part = open_two([source, target], langs)
    else:
        names = None if numbered else ("source", "target")
        part = open_file(source, is_header=is_header, without_header=names, langs=langs)
    names_of = dict(zip(("source_lang", "target_lang"), zip(*LANGUAGE_ALIASES)))
    own = [side in columns or bool(set(names) & set(part.columns)) for side, names in names_of.items()]
    constants = [side for side, given, there in zip(names_of, langs, own) if given or not there]
    mapping = find_columns(part.columns, columns, constants=constants, where=part.label)
    is_tsv = target is None and (str(source) == STANDARD or (suffix_of(source) or "").startswith(".tsv"))
    blocks = partial(_blocks, part, mapping, langs, is_tsv)
    identity = None
    if STANDARD not in (str(source), str(target)):  # all that a row's texts and languages depend on
        identity = (part.identity, tuple(langs), tuple(sorted(columns.items())))
    return Pairs(blocks, header[0] if header else None, identity, [source, Path(target)] if target else [source])


def _blocks(part: Part, mapping: Mapping[str, str], langs: Languages, is_tsv: bool) -> Iterator[PairBlock]:
    wanted = list(part.columns) if is_tsv else [mapping[name] for name in mapping]
    for block in part.read(list(dict.fromkeys(wanted))):
        bad, fields = list(block.bad), []
        for side, lang in zip(("source", "target"), langs):
            texts = as_list(block.columns[mapping[side]])
            reasons = ((line, check_text(side, text)) for line, text in zip(block.lines, texts))
            bad += [(line, why) for line, why in reasons if why and not why.endswith("is empty")]
            own = mapping.get(f"{side}_lang")
            codes = [lang] * len(texts) if own is None else as_list(block.columns[own])
            fields.append((texts, codes))
        if bad:
            line, reason = min(bad)
            raise ValueError(f"{part.label}:{line}: {reason}")
        try:
            codes = [[code and _code(code) for code in side] for _, side in fields]
        except ValueError as error:
            raise ValueError(f"{part.label}: {error}") from None
        lines = list(map("\t".join, zip(*(block.columns[name] for name in wanted)))) if is_tsv else None
        yield PairBlock(fields[0][0], fields[1][0], *codes, lines)


_code = cache(as_code)


def score_pairs(
    pairs: Pairs,
    out: Path,
    model: str,
    *,
    score: str = "cosine",
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
        out: "-" (standard output) or a text file: one score a line, or with a threshold the pairs that are kept, as
            they are in a TSV input. A table (.tsv, .jsonl, .parquet, .tmx): score, source and target of each pair, or
            of those kept. A file appears whole; a stopped run resumes with the scores and embeddings in OUT.work.
        score: "cosine", "margin" or "blaser-qe"; the last one needs `blaser`, a BLASER 2.0 qe model.
        reference: pairs whose texts are the neighbours of a margin; None: the input.
        k: neighbours of a margin.
        threshold: the lowest score that is kept: a number, or the JSON file of `hf-echo data calibrate`, which gives
            mean - `sigma` standard deviations of each direction (OS 3.5).
        langs: written to a table.

    Raises:
        ValueError: wrong options, or a row that is no pair (with its line).
    """
    out = Path(out)
    if score == "margin" and reference is None and pairs.identity is not None:
        reference = pairs
    check_score(score, blaser, reference)
    above = None if threshold is None else _threshold(threshold, sigma)
    check_not_read(out, pairs.files + (reference.files if reference else []))
    identity = (pairs.identity, reference and reference.identity)
    key = repr((hf_echo.__version__, identity, fingerprint(model), blaser and fingerprint(blaser), score, k, dtype))
    with ExitStack() as stack:
        keeps = pairs.identity is not None and str(out) != STANDARD and not (out.exists() and not out.is_file())
        if not keeps:  # a stream cannot be resumed
            work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hf-echo-score-")))
        else:
            stack.enter_context(only_run(out))
            work = out.with_name(out.name + ".work")
            if fresh:
                remove_work(work, "score-*")
        folder = work / f"score-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
        scorer = scorer_of(score, model, blaser=blaser, reference=reference, k=k, dtype=dtype, folder=folder)
        counts, moments = np.zeros(3, int), np.zeros(2)
        write = stack.enter_context(_writer(pairs, out, threshold is not None, langs))
        for number, block in enumerate(tqdm(pairs.blocks(), desc="Scoring", unit="block", disable=not progress)):
            scores = _stored_scores(scorer, folder if keeps else None, number, block)
            kept = np.ones(len(scores), bool) if above is None else scores >= above(block)
            write(block, scores, kept)
            good = scores[~np.isnan(scores)]
            counts += len(scores), len(good), kept.sum()
            moments += good.sum(), (good**2).sum()
    if keeps:
        remove_work(work, "score-*")
    rows, scored, kept = counts.tolist()
    mean = moments[0] / scored if scored else None
    spread = math.sqrt(max(0.0, moments[1] / scored - mean**2)) if scored else None
    return ScoreReport(rows, scored, kept, mean, spread, str(out))


def check_score(score: str, blaser: str | None, reference: Pairs | None) -> None:
    """Raise ValueError unless the arguments of `score_pairs` go together."""
    if score not in SCORES:
        raise ValueError(f"score is {score!r}; it must be one of {', '.join(SCORES)}")
    if (score == "blaser-qe") != (blaser is not None):
        raise ValueError("score 'blaser-qe' and a BLASER model go together: give both, or none")
    if (score == "margin") != (reference is not None):
        reason = "a margin of single pairs needs one" if reference is None else f"score {score!r} has no neighbours"
        raise ValueError(f"reference: {reason}; give pairs in which the neighbours of a margin are searched, or none")


def scorer_of(
    score: str, model: str, *, blaser: str | None, reference: Pairs | None, k: int, dtype: str = "auto", folder: Path
) -> Callable[..., np.ndarray]:
    """``scorer(sources, targets, source_langs, target_langs) -> (rows,)``; `folder` is for the reference."""
    check_score(score, blaser, reference)
    if reference is not None:
        return Margin(open_encoder(model, dtype=dtype), reference.blocks(), folder, k)
    return EchoScorer(model, dtype, blaser=blaser)


def score_block(scorer: Callable[..., np.ndarray], block: PairBlock) -> np.ndarray:
    """(rows,) float64, NaN where a side is empty."""
    scores, rows = np.full(len(block.sources), np.nan), _whole(block)
    if rows:
        scores[rows] = scorer(*([column[row] for row in rows] for column in block[:4]))
    return scores


def _stored_scores(scorer: Callable[..., np.ndarray], folder: Path | None, number: int, block: PairBlock) -> np.ndarray:
    """The scores of a block, from the folder if they are there."""
    if folder is None:
        return score_block(scorer, block)
    make = partial(_save_scores, scorer, block)
    return np.load(make_once(folder / f"{number:06d}.npy", make))


def _save_scores(scorer: Callable[..., np.ndarray], block: PairBlock, unfinished: Path) -> None:
    np.save(unfinished, score_block(scorer, block))


def _whole(block: PairBlock) -> list[int]:
    """The rows without an empty side."""
    return [row for row, pair in enumerate(zip(block.sources, block.targets)) if not any(map(is_blank, pair))]


class Margin:
    """``scorer(sources, targets, source_langs, target_langs)``: margins (ratio) among the different texts of `blocks`.

    Their embeddings by `encode` (texts, lang) -> (n, d) go to `folder`, where a stopped run finds them.
    """

    def __init__(self, encode: Encode, blocks: Iterator[PairBlock], folder: Path, k: int):
        self.encode, self.places, parts = encode, ({}, {}), ([], [])
        for number, block in enumerate(blocks):
            for side, places in enumerate(self.places):
                new: dict[int, tuple[str, str | None]] = {}
                for row in _whole(block):
                    text, lang = block[side][row], block[2 + side][row]
                    if (key := key_of(lang or "", text)) not in places:
                        places[key] = len(places)
                        new[key] = (text, lang)
                if new:
                    make = partial(_save_embeddings, encode, list(new.values()))
                    file = make_once(folder / f"{('source', 'target')[side]}-{number:06d}.npy", make)
                    parts[side].append(np.load(file, mmap_mode="r"))
        if not parts[0]:
            raise ValueError("no pair has text on both sides: there is nothing to compare")
        self.pools = [Rows(part, name) for part, name in zip(parts, ("source", "target"))]
        self.k = min(k, *map(len, self.pools))

    def __call__(self, sources, targets, source_langs, target_langs) -> np.ndarray:
        x, y = self._vectors(0, sources, source_langs), self._vectors(1, targets, target_langs)
        near = [neighbours_in_blocks(Rows(own, "texts"), pool, self.k) for own, pool in zip((x, y), self.pools[::-1])]
        means = [side.scores.mean(axis=1, dtype=np.float64) for side in near]
        return margin_of(np.einsum("nd,nd->n", x, y, dtype=np.float64), *means, smaller=min(map(len, self.pools)))

    def _vectors(self, side: int, texts: Sequence[str], langs: Sequence[str | None]) -> np.ndarray:
        """(len(texts), d) of length 1: from the pool; if one text is not there, all are encoded."""
        keys = (key_of(lang or "", text) for text, lang in zip(texts, langs))
        rows = np.array([self.places[side].get(key, -1) for key in keys])
        known = (rows >= 0).all()
        return take_rows(self.pools[side].parts, rows) if known else embed_columns(self.encode, [(texts, langs)])[0]


def _save_embeddings(encode: Encode, texts: Sequence[tuple[str, str | None]], unfinished: Path) -> None:
    np.save(unfinished, embed_columns(encode, [tuple(zip(*texts))])[0])


def _threshold(threshold: float | str | Path, sigma: float) -> Callable[[PairBlock], Any]:
    """A function of a block: the lowest score of each row that is kept."""
    try:
        number = float(str(threshold))
    except ValueError:
        of_direction = cache(DirectionThreshold(k=sigma, calibrated=str(threshold)).threshold)

        def least(block: PairBlock) -> np.ndarray:
            if None in block.source_langs or None in block.target_langs:
                raise ValueError(f"the thresholds of {threshold} depend on the languages: give those of both sides")
            return np.array([of_direction(*langs) for langs in zip(block.source_langs, block.target_langs)])

        return least
    if math.isnan(number):
        raise ValueError("threshold is nan; give a number, or the JSON file of hf-echo data calibrate")
    return lambda block: number


@contextmanager
def _writer(pairs: Pairs, out: Path, filters: bool, langs: Languages) -> Iterator[Callable[..., None]]:
    """A function (block, scores, kept) that writes rows."""
    if is_table(out):
        with write_pairs(out, langs) as write:
            write([], [], [])  # the names of the columns

            def write_rows(block: PairBlock, scores: np.ndarray, kept: np.ndarray) -> None:
                rows = np.flatnonzero(kept)
                write(*([column[row] for row in rows] for column in block[:2]), scores[rows].tolist())

            yield write_rows
        return
    with open_output(out) as file:
        if filters and pairs.header is not None:
            file.write(pairs.header + "\n")

        def write_lines(block: PairBlock, scores: np.ndarray, kept: np.ndarray) -> None:
            if not filters:
                file.writelines(f"{score:.6f}\n" for score in scores.tolist())
            else:
                fields = zip(*([BREAKS.sub(" ", text) for text in column] for column in block[:2]))
                rows = list(map("\t".join, fields)) if block.lines is None else block.lines
                file.writelines(f"{rows[row]}\n" for row in np.flatnonzero(kept))
            if str(out) == STANDARD:
                file.flush()

        yield write_lines
