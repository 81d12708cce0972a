"""The ratio margin as a metric of the `evaluate` library:
how much a pair stands out among its neighbours."""

from typing import Any

import datasets
import evaluate

from .numpy_search import ratio_margins, unit_vectors

DESCRIPTION = """\
The ratio margin of a pair is its cosine over the mean cosine of both sentences with their k nearest
neighbours on the other side. Above 1 the pair is closer than what lies around it. Mining keeps pairs above a
threshold.
"""
INPUTS = """
Args:
    predictions: embeddings of sentences, n vectors of floats.
    references: embeddings of their translations; row i translates row i of predictions.
    k: neighbours on each side.
Returns:
    ratio_margin: mean over the pairs.
    ratio_margins: the margin of each pair, in order.
Example:
    >>> metric = evaluate.load("ratio_margin")
    >>> metric.compute(predictions=[[3.0, 4.0], [4.0, 3.0]], references=[[3.0, 4.0], [4.0, 3.0]], k=1)
    {'ratio_margin': 1.0, 'ratio_margins': [1.0, 1.0]}
"""
CITATION = """\
@inproceedings{artetxe-schwenk-2019-margin,
    title = "Margin-based Parallel Corpus Mining with Multilingual Sentence Embeddings",
    author = "Artetxe, Mikel and Schwenk, Holger",
    booktitle = "Proceedings of ACL 2019",
    pages = "3197--3203",
    year = "2019",
}
"""


class RatioMargin(evaluate.Metric):
    """`ratio_margin` of predictions and references, (n, d) each."""

    def _info(self) -> evaluate.MetricInfo:
        vector = datasets.Sequence(datasets.Value("float32"))
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation=CITATION,
            inputs_description=INPUTS,
            features=datasets.Features({"predictions": vector, "references": vector}),
            reference_urls=["https://aclanthology.org/P19-1309/"],
        )

    def _compute(
        self,
        predictions: list[list[float]],
        references: list[list[float]],
        k: int = 4,
        margin: str | None = None,
        negatives: list[list[float]] | None = None,
        negative_owner: list[int] | None = None,
    ) -> dict[str, Any]:
        """The ratio margin of each pair, and their mean."""
        # `evaluate.combine` gives its arguments to all metrics: the last three are those of xsim
        # and xsim++.
        x = unit_vectors(predictions, "predictions")
        y = unit_vectors(references, "references", x.shape[1])
        margins = ratio_margins(x, y, k)
        return {"ratio_margin": float(margins.mean()), "ratio_margins": margins.tolist()}
