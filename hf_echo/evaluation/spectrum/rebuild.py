"""Documents rebuilt from their sentence embeddings: BLEU-1 to BLEU-4 by length (OS 9.1, Table 20)."""

from __future__ import annotations

from collections.abc import Sequence

from ...utils.results import Table


def rebuild_bleu(
    written: Sequence[str], references: Sequence[str], lengths: Sequence[int], *, limits: Sequence[int] = (4, 8, 16)
) -> Table:
    """BLEU of rebuilt documents, one row per range of sentences, and one for all.

    BLEU-n is the n-gram precision with the brevity penalty (the paper's AE BLEU1 to BLEU4), `bleu` their geometric
    mean, as sacrebleu computes them.

    Args:
        lengths: sentences of each document.
        limits: upper ends of the ranges; a last range holds longer documents.

    Raises:
        ValueError: the numbers of texts differ, or there are none.
    """
    from sacrebleu.metrics import BLEU

    if not written or not len(written) == len(references) == len(lengths):
        raise ValueError(
            f"there are {len(written)} texts, {len(references)} references and {len(lengths)} lengths: give one of "
            "each per document, at least one"
        )
    metric, rows = BLEU(), []
    ends = [*limits, None]
    ranges = [(f"{start + 1} to {end}" if end else f"over {start}", start, end) for start, end in zip([0, *ends], ends)]
    for label, start, end in [("all", 0, None), *ranges]:
        chosen = [i for i, n in enumerate(lengths) if n > start and (end is None or n <= end)]
        if not chosen:
            continue
        score = metric.corpus_score([written[i] for i in chosen], [[references[i] for i in chosen]])
        parts = {f"bleu{n}": precision * score.bp for n, precision in enumerate(score.precisions, 1)}
        rows.append({"sentences": label, "documents": len(chosen), **parts, "bleu": score.score})
    return Table(rows, notes={"signature": str(metric.get_signature())})
