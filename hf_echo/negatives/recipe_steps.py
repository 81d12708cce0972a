"""Data recipe steps that fill a column: ``score`` (quality), ``hard_negatives``.
See `hf_echo.data.pipeline`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import pyarrow as pa

from ..languages import ENGLISH
from ..utils.choices import Dtype
from ..utils.files import short_hash
from ..utils.settings import CHECKPOINT, Checked, check, make, setting
from .rules import rule_based_hard_negatives


@dataclass(frozen=True)
class Score:
    """``- score: CHECKPOINT``: fill the column quality with the cosine of an Echo checkpoint or
    SentenceTransformer.

    With ``blaser: FOLDER`` it is the score of BLASER 2.0 qe from the checkpoint's embeddings:
    SONAR's for the published weights. That is about 1 to 5, so the filter ``threshold`` needs its
    own ``floor`` or calibration.
    """

    score: str = setting("checkpoint: folder or Hub name", reads=CHECKPOINT)
    dtype: Dtype = setting("precision of the encoder", "auto")
    batch: int = setting(
        "rows per block; the embeddings of one block are in memory", 16_384, least=1
    )
    again: bool = setting("also score rows that already have a quality", False)
    blaser: str | None = setting(
        "BLASER model (`hf-echo convert blaser`): folder or Hub name", None, reads=CHECKPOINT
    )
    gpus: float = setting(
        "GPUs per task on a Ray cluster; a local process uses the one that torch finds",
        0.0,
        least=0,
    )
    # fingerprint: another checkpoint in the folder makes another step
    identity: str = field(default="", init=False)

    def __post_init__(self) -> None:
        check(self)
        paths = list(Path(self.score).glob("*"))
        if self.blaser:
            paths += Path(self.blaser).glob("*")
        files = [path for path in sorted(paths) if path.is_file()]
        if files:
            stamps = [(path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in files]
            object.__setattr__(self, "identity", short_hash(repr(stamps)))

    def add(self, table: pa.Table) -> pa.Table:
        from ..data.pipeline.filters.threshold import score
        from ..inference.scorer import EchoScorer
        from ..register import register_with_transformers

        register_with_transformers()  # `data filter` itself opens no model
        scorer = EchoScorer(self.score, self.dtype, self.batch, blaser=self.blaser)
        return score(table, scorer, again=self.again)


@dataclass(frozen=True)
class RuleNegatives(Checked):
    """``- hard_negatives: rules``: add up to ``max_negatives`` rule-based negatives to English
    targets without any."""

    hard_negatives: Literal["rules"] = setting("how they are made", "rules")
    max_negatives: int = setting("most of a row", 5, least=0)
    seed: int = setting("random seed", 0)

    def add(self, table: pa.Table) -> pa.Table:
        """The table with negatives by rule for English targets that have none."""
        negatives_of_rows = []
        for row in table.select(["target", "target_lang", "hard_negatives"]).to_pylist():
            negatives = row["hard_negatives"] or []
            if row["target_lang"].startswith(ENGLISH) and not negatives:
                by_rule = rule_based_hard_negatives(
                    row["target"], self.max_negatives, seed=self.seed
                )
                negatives = [negative for negative, _ in by_rule]
            negatives_of_rows.append(negatives)
        position = table.column_names.index("hard_negatives")
        column = pa.array(negatives_of_rows, pa.list_(pa.string()))
        return table.set_column(position, "hard_negatives", column)


#: steps for `read_recipe(path, STEPS)`
STEPS = {
    "score": partial(make, Score, where="score"),
    "hard_negatives": partial(make, RuleNegatives, where="hard_negatives"),
}
