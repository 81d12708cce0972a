"""xsim metric of the `evaluate` library: error rate of cross-lingual similarity search, in percent."""

import datasets
import evaluate
import numpy as np

from hf_echo.evaluation import xsim

DESCRIPTION = """\
xsim searches for the translation of each sentence among all target embeddings. The error rate is the share of
sentences whose nearest neighbour (by cosine, or by a margin over the k nearest) is not their translation.
"""
INPUTS = """
Args:
    predictions: source embeddings, a list of n vectors.
    references: embeddings of their translations, row i translates row i.
    margin: "cosine", "ratio" or "distance". k: neighbours of the margin.
Returns:
    xsim: percent of wrong nearest neighbours; errors, count.
Example:
    >>> metric = evaluate.load("xsim")
    >>> metric.compute(predictions=[[1.0, 0.0], [0.0, 1.0]], references=[[1.0, 0.1], [0.1, 1.0]])["xsim"]
    0.0
"""


class Xsim(evaluate.Metric):
    def _info(self):
        vector = datasets.Sequence(datasets.Value("float32"))
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="Heffernan et al. 2022; Artetxe and Schwenk 2019",
            inputs_description=INPUTS,
            features=datasets.Features({"predictions": vector, "references": vector}),
        )

    def _compute(self, predictions, references, margin="cosine", k=4):
        result = xsim(np.asarray(predictions), np.asarray(references), margin=margin, k=k)
        return {"xsim": result.error_rate, "errors": result.errors, "count": result.count}
