"""xsim++ metric of the `evaluate` library: xsim with hard negatives (altered references) as candidates."""

import datasets
import evaluate
import numpy as np

from hf_echo.evaluation import xsimpp

DESCRIPTION = """\
xsim++ (Chen et al. 2023) adds altered copies of the references to the candidates: another number, name, a negation.
The error rate is the share of sentences whose nearest neighbour is not their translation.
"""
INPUTS = """
Args:
    predictions: source embeddings, a list of n vectors.
    references: embeddings of their translations, row i translates row i.
    negatives: embeddings of the altered references, all in one list.
    negative_owner: for each of them, the row of its reference (from 0).
    negative_kind: for each of them, its kind ("number", "entity" ...); counts errors by kind.
    margin: "cosine", "ratio" or "distance". k: neighbours of the margin.
Returns:
    xsimpp: percent of wrong nearest neighbours; errors, count, pool (all candidates), errors_by_kind.
"""


class Xsimpp(evaluate.Metric):
    def _info(self):
        vector = datasets.Sequence(datasets.Value("float32"))
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="Chen et al. 2023, xSIM++: An Improved Proxy to Bitext Mining Performance",
            inputs_description=INPUTS,
            features=datasets.Features({"predictions": vector, "references": vector}),
        )

    def _compute(self, predictions, references, negatives, negative_owner, negative_kind=None, margin="cosine", k=4):
        result = xsimpp(
            np.asarray(predictions),
            np.asarray(references),
            np.asarray(negatives, dtype=np.float32),
            negative_owner,
            negative_kind=negative_kind,
            margin=margin,
            k=k,
        )
        return {
            "xsimpp": result.error_rate,
            "errors": result.errors,
            "count": result.count,
            "pool": result.pool,
            "errors_by_kind": result.errors_by_kind,
        }
