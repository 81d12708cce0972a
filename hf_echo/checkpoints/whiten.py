"""Whiten a space by within-class covariance (WCCN): scale down what translations of one sentence differ by.

WCCN (Hatch, Kajarekar and Stolcke, 2006): with C the covariance of the differences between translations and their
English, embeddings are multiplied by (C + shrinkage * tr(C) / d * I)^(-1/2). Directions that tell languages rather than
meanings weigh less in the cosine. It is one matrix, folded into the encoder's projection: nothing is slower, and the
same for every language. A few hundred sentences that exist in all languages are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import torch

from ..data import load_nway
from ..inference.any_encoder import any_encoder
from ..modeling import EchoEncoder
from ..utils.vectors import unit_length
from .rewrite import rewrite_checkpoint

ENGLISH = "eng_Latn"
Encode = Callable[[list[str], str], np.ndarray]


def noise_covariance(embeddings: Mapping[str, Mapping[str, np.ndarray]], pivot: str = ENGLISH) -> np.ndarray:
    """(d, d) mean outer product of unit(x) - unit(its translation in the pivot language).

    Args:
        embeddings: {language: {id: (d,)}}; ids that the pivot lacks are left out.

    Raises:
        ValueError: no pivot language, or no sentence in two languages.
    """
    if pivot not in embeddings:
        raise ValueError(f"the sentences have no {pivot} side; found {', '.join(sorted(embeddings)) or 'none'}")
    known, total, rows = embeddings[pivot], 0.0, 0
    for lang, found in embeddings.items():
        ids = [i for i in found if i in known]
        if lang == pivot or not ids:
            continue
        differences = unit_length(np.stack([found[i] for i in ids])) - unit_length(np.stack([known[i] for i in ids]))
        total, rows = total + differences.T @ differences, rows + len(ids)
    if not rows:
        raise ValueError(f"no sentence stands in {pivot} and another language")
    return np.asarray(total / rows)


def whitening(covariance: np.ndarray, shrinkage: float = 1.0) -> np.ndarray:
    """(d, d) symmetric (C + shrinkage * tr(C) / d * I)^(-1/2), scaled to determinant 1.

    Raises:
        ValueError: shrinkage is not above 0, or the covariance is zero.
    """
    if not shrinkage > 0:
        raise ValueError(f"shrinkage must be above 0, got {shrinkage}")
    d = len(covariance)
    if not np.trace(covariance) > 0:
        raise ValueError("the translations do not differ from each other: there is nothing to take out")
    values, axes = np.linalg.eigh(covariance + shrinkage * np.trace(covariance) / d * np.eye(d))
    scale = values**-0.5
    return (axes * (scale / np.exp(np.log(scale).mean()))) @ axes.T


def whiten_encoder(
    encoder: EchoEncoder,
    rows: Iterable[Mapping[str, str]],
    encode: Encode,
    shrinkage: float = 1.0,
) -> EchoEncoder:
    """Fold the whitening of these sentences into the encoder's projection, in place.

    Args:
        rows: n-way text as `hf_echo.data.load_nway` gives it: id, lang, text.
        encode: this encoder, (texts, lang) -> (n, d).
    """
    texts: dict[str, dict[str, str]] = {}
    for row in rows:
        texts.setdefault(row["lang"], {})[row["id"]] = row["text"]
    embeddings = {
        lang: dict(zip(found, np.asarray(encode(list(found.values()), lang), np.float64)))
        for lang, found in texts.items()
    }
    matrix = torch.from_numpy(whitening(noise_covariance(embeddings), shrinkage))
    with torch.no_grad():
        weight = encoder.projection.weight
        weight.copy_((matrix @ weight.double()).to(weight.dtype))
    return encoder


def whiten_checkpoint(model: str | Path, nway: str, out: str | Path, *, shrinkage: float = 1.0) -> Path:
    """`whiten_encoder` on an encoder, a training checkpoint or a release, saved with its tokenizer in another folder.

    What becomes of a decoder: see `rewrite_checkpoint`.

    Args:
        nway: file of sentences in all languages, as `hf_echo.data.load_nway` reads it.
        shrinkage: the larger, the less changes.
    """
    if not shrinkage > 0:  # before everything is encoded
        raise ValueError(f"shrinkage must be above 0, got {shrinkage}")
    encode = any_encoder(str(model), dtype="fp32")
    return rewrite_checkpoint(
        model,
        out,
        lambda encoder: whiten_encoder(encoder, load_nway(nway), encode, shrinkage),
        "whiten",
        {"shrinkage": shrinkage},
        data={"nway": nway},
    )
