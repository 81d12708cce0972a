"""xsim++ as a metric of the `evaluate` library: xsim with hard negatives among the candidates."""

from typing import Any

import datasets
import evaluate
import numpy as np

from .numpy_search import best_rows, unit_vectors

DESCRIPTION = """\
xsim++ is xsim with more candidates: altered copies of the translations, with another number, another name or
the opposite meaning. It is the percentage of sentences whose nearest candidate is not their own translation.
Lower is better.
"""
INPUTS = """
Args:
    predictions: embeddings of the sentences, n vectors of floats; in the papers any language but English.
    references: embeddings of their translations; row i translates row i of predictions.
    negatives: embeddings of the altered copies, in one list; each is a candidate for every sentence.
    negative_owner: for each of them, the row (from 0) of the reference that it was made from.
    margin: None (the cosine), "ratio" or "distance": the score of a candidate (Artetxe and Schwenk 2019).
    k: neighbours of the margin.
Returns:
    xsimpp: error rate in percent.
    errors: sentences whose best candidate is not their translation.
    own_negatives: those of them whose best candidate is an altered copy of their translation.
    count: sentences.
    pool: candidates, references and negatives together.
Example:
    >>> metric = evaluate.load("xsimpp")
    >>> metric.compute(
    ...     predictions=[[1.0, 0.0], [0.0, 1.0]],
    ...     references=[[1.0, 0.1], [0.1, 1.0]],
    ...     negatives=[[1.0, 0.01]],
    ...     negative_owner=[0],
    ... )
    {'xsimpp': 50.0, 'errors': 1, 'own_negatives': 1, 'count': 2, 'pool': 3}
"""
CITATION = """\
@inproceedings{chen-etal-2023-xsim,
    title = "x{SIM}++: An Improved Proxy to Bitext Mining Performance for Low-Resource Languages",
    author = "Chen, Mingda and Heffernan, Kevin and {\\c{C}}elebi, Onur and Mourachko, Alexandre and
        Schwenk, Holger",
    booktitle = "Proceedings of ACL 2023 (Volume 2: Short Papers)",
    pages = "101--109",
    year = "2023",
}
"""


class Xsimpp(evaluate.Metric):
    """`xsimpp` in percent of predictions and references, (n, d) each, and negatives, (m, d)."""

    def _info(self) -> evaluate.MetricInfo:
        vector = datasets.Sequence(datasets.Value("float32"))
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation=CITATION,
            inputs_description=INPUTS,
            features=datasets.Features({"predictions": vector, "references": vector}),
            reference_urls=["https://aclanthology.org/2023.acl-short.10/"],
        )

    def _compute(
        self,
        predictions: list[list[float]],
        references: list[list[float]],
        negatives: list[list[float]],
        negative_owner: list[int],
        margin: str | None = None,
        k: int = 4,
    ) -> dict[str, Any]:
        """As xsim, with hard negatives among the references."""
        x = unit_vectors(predictions, "predictions")
        y = unit_vectors(references, "references", x.shape[1])
        # as `evaluate` keeps predictions and references
        negative_vectors = np.asarray(negatives, np.float32)
        hard = unit_vectors(negative_vectors, "negatives", x.shape[1])
        owners = _checked_owners(negative_owner, len(hard), len(y))
        pool = np.concatenate([y, hard])
        chosen = best_rows(x, pool, margin, k)
        errors = int((chosen != np.arange(len(x))).sum())
        with_negative = np.flatnonzero(chosen >= len(y))
        owner_of_chosen = owners[chosen[with_negative] - len(y)]
        own_negatives = int((owner_of_chosen == with_negative).sum())
        return {
            "xsimpp": 100.0 * errors / len(x),
            "errors": errors,
            "own_negatives": own_negatives,
            "count": len(x),
            "pool": len(pool),
        }


def _checked_owners(owners: list[int], negatives: int, references: int) -> np.ndarray:
    """(negatives,) rows of references; raises ValueError for other numbers."""
    rows = np.asarray(owners)
    if rows.shape != (negatives,):
        raise ValueError(
            f"{negatives} negatives need as many owners, got an array of shape {rows.shape}"
        )
    if rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= references:
        raise ValueError(
            f"negative_owner must be rows of references: integers from 0 to {references - 1}"
        )
    return rows
