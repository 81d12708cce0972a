"""xsim as a metric of the `evaluate` library: error rate of cross-lingual similarity search."""

from typing import Any

import datasets
import evaluate
import numpy as np

from .numpy_search import best_rows, unit_vectors

DESCRIPTION = """\
xsim searches the translation of each sentence by the cosine of embeddings. It is the percentage of sentences
whose nearest translation is not their own. Lower is better.
"""
INPUTS = """
Args:
    predictions: embeddings of the sentences, n vectors of floats; in the papers any language but English.
    references: embeddings of their translations; row i translates row i of predictions.
    margin: None (the cosine), "ratio" or "distance": the score of a candidate (Artetxe and Schwenk 2019).
    k: neighbours of the margin.
Returns:
    xsim: error rate in percent.
    errors: sentences whose best candidate is another one.
    count: sentences.
Example:
    >>> metric = evaluate.load("xsim")
    >>> metric.compute(predictions=[[1.0, 0.0], [0.0, 1.0]], references=[[1.0, 0.1], [0.9, 0.2]])
    {'xsim': 0.0, 'errors': 0, 'count': 2}
"""
CITATION = """\
@article{artetxe-schwenk-2019-massively,
    title = "Massively Multilingual Sentence Embeddings for Zero-Shot Cross-Lingual Transfer and Beyond",
    author = "Artetxe, Mikel and Schwenk, Holger",
    journal = "Transactions of the Association for Computational Linguistics",
    volume = "7",
    pages = "597--610",
    year = "2019",
}
"""


class Xsim(evaluate.Metric):
    """`xsim` in percent of predictions and references, (n, d) each."""

    def _info(self) -> evaluate.MetricInfo:
        vector = datasets.Sequence(datasets.Value("float32"))
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation=CITATION,
            inputs_description=INPUTS,
            features=datasets.Features({"predictions": vector, "references": vector}),
            reference_urls=["https://aclanthology.org/Q19-1038/"],
        )

    def _compute(
        self,
        predictions: list[list[float]],
        references: list[list[float]],
        margin: str | None = None,
        k: int = 4,
        negatives: list[list[float]] | None = None,
        negative_owner: list[int] | None = None,
    ) -> dict[str, Any]:
        """The share of rows whose nearest reference is another one, in percent."""
        # `evaluate.combine` gives its arguments to all metrics: the negatives are those of xsim++.
        x = unit_vectors(predictions, "predictions")
        y = unit_vectors(references, "references", x.shape[1])
        chosen = best_rows(x, y, margin, k)
        errors = int((chosen != np.arange(len(x))).sum())
        return {"xsim": 100.0 * errors / len(x), "errors": errors, "count": len(x)}
