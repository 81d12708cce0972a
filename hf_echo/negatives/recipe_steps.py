"""Data recipe steps that fill a column: ``score`` (quality), ``hard_negatives``. See `hf_echo.data.pipeline`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..utils.settings import make


@dataclass(frozen=True)
class Score:
    """``- score: CHECKPOINT``: fill the column quality with the cosine of an Echo checkpoint or SentenceTransformer.

    With ``blaser: FOLDER`` it is the score of BLASER 2.0 qe from the checkpoint's embeddings: SONAR's for the
    published weights. That is about 1 to 5, so the filter ``threshold`` needs its own ``floor`` or calibration.

    Attributes:
        model: folder or Hub name.
        dtype: "auto", "bf16" or "fp32".
        batch: rows per block; the embeddings of one block are in memory.
        again: also score rows that already have a quality.
        blaser: folder or Hub name of a BLASER model (`hf-echo convert blaser`).
        gpus: GPUs per task on a Ray cluster; a local process uses the GPU that torch finds.
    """

    model: str
    dtype: str = "auto"
    batch: int = 16_384
    again: bool = False
    blaser: str | None = None
    gpus: float = 0
    identity: str = field(
        default="", init=False
    )  # fingerprint of a folder: another checkpoint there makes another step

    def __post_init__(self) -> None:
        folders = [Path(name) for name in (self.model, self.blaser) if name]
        files = sorted(path for folder in folders for path in folder.glob("*") if path.is_file())
        known = [(path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in files]
        object.__setattr__(self, "identity", sha256(repr(known).encode()).hexdigest()[:16] if known else "")

    def add(self, table: pa.Table) -> pa.Table:
        from ..data.pipeline.filters.threshold import score
        from ..inference.blaser import BlaserScorer
        from ..inference.scorer import EchoScorer

        options = (self.model, self.dtype, self.batch)
        scorer = BlaserScorer(self.blaser, *options) if self.blaser else EchoScorer(*options)
        return score(table, scorer, again=self.again)


@dataclass(frozen=True)
class RuleNegatives:
    """``- hard_negatives: rules``: add up to ``max_negatives`` rule-based negatives to English targets without any."""

    method: str = "rules"
    max_negatives: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method != "rules":
            raise ValueError(f"hard_negatives: {self.method!r} is unknown; the only kind is 'rules'")

    def add(self, table: pa.Table) -> pa.Table:
        from .rules import rule_based_hard_negatives

        lists = []
        columns = (table[name].to_pylist() for name in ("target", "target_lang", "hard_negatives"))
        for text, lang, there in zip(*columns):
            if lang.startswith("eng_Latn") and not there:
                by_rule = rule_based_hard_negatives(text, self.max_negatives, seed=self.seed)
                there = [negative for negative, _ in by_rule]
            lists.append(there or [])
        place = table.column_names.index("hard_negatives")
        return table.set_column(place, "hard_negatives", pa.array(lists, pa.list_(pa.string())))


def _score(spec: Mapping[str, Any]) -> Score:
    spec = dict(spec)
    return make(Score, {"model": spec.pop("score"), **spec}, "score")


def _negatives(spec: Mapping[str, Any]) -> RuleNegatives:
    spec = dict(spec)
    return make(RuleNegatives, {"method": spec.pop("hard_negatives"), **spec}, "hard_negatives")


#: steps for `read_recipe(path, STEPS)`
STEPS = {"score": _score, "hard_negatives": _negatives}
