"""Data recipe steps that fill a column: ``score`` (quality), ``hard_negatives``. See `hf_echo.data.pipeline`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Literal

import pyarrow as pa

from ..utils.settings import CHECKPOINT, Checked, check, make, setting
from .rules import rule_based_hard_negatives


@dataclass(frozen=True)
class Score:
    """``- score: CHECKPOINT``: fill the column quality with the cosine of an Echo checkpoint or SentenceTransformer.

    With ``blaser: FOLDER`` it is the score of BLASER 2.0 qe from the checkpoint's embeddings: SONAR's for the
    published weights. That is about 1 to 5, so the filter ``threshold`` needs its own ``floor`` or calibration.
    """

    score: str = setting("checkpoint: folder or Hub name", reads=CHECKPOINT)
    dtype: Literal["auto", "bf16", "fp32"] = setting("precision of the encoder", "auto")
    batch: int = setting("rows per block; the embeddings of one block are in memory", 16_384, least=1)
    again: bool = setting("also score rows that already have a quality", False)
    blaser: str | None = setting("BLASER model (`hf-echo convert blaser`): folder or Hub name", None, reads=CHECKPOINT)
    gpus: float = setting("GPUs per task on a Ray cluster; a local process uses the one that torch finds", 0.0, least=0)
    identity: str = field(default="", init=False)  # fingerprint: another checkpoint in the folder makes another step

    def __post_init__(self) -> None:
        check(self)
        folders = [Path(name) for name in (self.score, self.blaser) if name]
        files = sorted(path for folder in folders for path in folder.glob("*") if path.is_file())
        known = [(path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in files]
        object.__setattr__(self, "identity", sha256(repr(known).encode()).hexdigest()[:16] if known else "")

    def add(self, table: pa.Table) -> pa.Table:
        from ..data.pipeline.filters.threshold import score
        from ..inference.scorer import EchoScorer

        scorer = EchoScorer(self.score, self.dtype, self.batch, blaser=self.blaser)
        return score(table, scorer, again=self.again)


@dataclass(frozen=True)
class RuleNegatives(Checked):
    """``- hard_negatives: rules``: add up to ``max_negatives`` rule-based negatives to English targets without any."""

    hard_negatives: Literal["rules"] = setting("how they are made", "rules")
    max_negatives: int = setting("most of a row", 5, least=0)
    seed: int = setting("random seed", 0)

    def add(self, table: pa.Table) -> pa.Table:
        lists = []
        columns = (table[name].to_pylist() for name in ("target", "target_lang", "hard_negatives"))
        for text, lang, there in zip(*columns):
            if lang.startswith("eng_Latn") and not there:
                by_rule = rule_based_hard_negatives(text, self.max_negatives, seed=self.seed)
                there = [negative for negative, _ in by_rule]
            lists.append(there or [])
        place = table.column_names.index("hard_negatives")
        return table.set_column(place, "hard_negatives", pa.array(lists, pa.list_(pa.string())))


#: steps for `read_recipe(path, STEPS)`
STEPS = {
    "score": partial(make, Score, where="score"),
    "hard_negatives": partial(make, RuleNegatives, where="hard_negatives"),
}
