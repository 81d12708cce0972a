"""A filter class for OpusFilter: sentence embeddings of hf-echo in the place of LASER's.

In a configuration of OpusFilter, with this folder on PYTHONPATH (`languages` by any code that
hf-echo knows; `reference` as `input_files` of train_nearest_neighbors, one file of lines per
language):

    filters:
      - SentenceEmbeddingFilter: {languages: [fr, en], model: echo-nano, threshold: 0.7}
        module: opus_filter
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from opusfilter import CLEAN_HIGH, ConfigurationError, FilterABC
from opusfilter.util import grouper

from hf_echo.languages import as_code
from hf_echo.search.pair_scores import PairBlock, check_score, open_pairs, score_block, scorer_of
from hf_echo.utils.hub import packaged_model

Pair = Sequence[str]


class SentenceEmbeddingFilter(FilterABC):
    """Scores of each two of the languages, as OpusFilter's class of this name gives them; NaN where
    a side is empty.

    Args:
        languages: codes, in the order of the segments of a pair.
        threshold: lowest score of every two that is accepted.
        model: Echo checkpoint or any SentenceTransformer: folder, Hub name or echo-nano.
        score: "cosine", "margin" (among the lines of `reference`) or "blaser-qe" (with `blaser`).
        reference: for a margin, one file of lines per language; line i of each belongs together.
        k: neighbours of a margin.
        chunksize: pairs that are encoded together.

    Raises:
        ConfigurationError: no languages, or a wrong option.
    """

    score_direction = CLEAN_HIGH

    def __init__(
        self,
        languages: Sequence[str] | None = None,
        threshold: float = 0.5,
        model: str = "echo-nano",
        score: str = "cosine",
        blaser: str | None = None,
        reference: Sequence[str] | None = None,
        k: int = 4,
        chunksize: int = 2048,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if not languages or len(languages) < 2:
            raise ConfigurationError(
                "languages: give the codes of two or more, in the order of the segments"
            )
        self.threshold = threshold
        self.chunksize = chunksize
        self.kind = score
        self.folder = TemporaryDirectory()
        self.scorers = {}
        try:
            self.languages = [as_code(language) for language in languages]
            for i, j in combinations(range(len(languages)), 2):
                pool = None
                if reference is not None:
                    sides = Path(self.workdir, reference[i]), Path(self.workdir, reference[j])
                    pool = open_pairs(*sides, langs=(self.languages[i], self.languages[j]))
                folder = Path(self.folder.name, f"{i}-{j}")
                check_score(score, blaser, pool)
                self.scorers[i, j] = scorer_of(
                    packaged_model(model), blaser=blaser, reference=pool, k=k, folder=folder
                )
        except (ValueError, OSError) as error:
            raise ConfigurationError(str(error)) from None

    # OpusFilter asks for a threshold that accepts everything, and for one that accepts nothing.
    @property
    def accept_threshold(self) -> float | None:
        return -1 if self.kind == "cosine" else None

    @property
    def reject_threshold(self) -> float | None:
        return 1 + 10**-6 if self.kind == "cosine" else None

    def score(self, pairs: Iterable[Pair]) -> Iterator[list[float]]:
        for _, scores in self._scored(pairs):
            yield scores

    def accept(self, score: Sequence[float]) -> bool:
        return all(similarity >= self.threshold for similarity in score)  # NaN is never accepted

    def filter(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        for pair, scores in self._scored(pairs):
            if self.accept(scores):
                yield pair

    def filterfalse(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        for pair, scores in self._scored(pairs):
            if not self.accept(scores):
                yield pair

    def _scored(self, pairs: Iterable[Pair]) -> Iterator[tuple[Pair, list[float]]]:
        """(pair, its score by each scorer), in chunks."""
        for chunk in grouper(pairs, self.chunksize):
            columns = [[segment.strip() for segment in column] for column in zip(*chunk)]
            langs = [[language] * len(chunk) for language in self.languages]
            scores = []  # (pairs of languages, pairs)
            for (i, j), scorer in self.scorers.items():
                block = PairBlock(columns[i], columns[j], langs[i], langs[j], None)
                scores.append(score_block(scorer, block))
            yield from zip(chunk, np.stack(scores, axis=1).tolist())
