"""Sentence segmentation with Segment-any-Text: wraps wtpsplit's SaT models, by name ("sat-12l-sm") or folder."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...utils.hub import snapshot, split_revision

XLM_R = "facebookAI/xlm-roberta-base"  # tokenizer of the released models, which do not include it
FINE_TUNED = 0.25  # wtpsplit's threshold of models fine-tuned on sentences, whose names hold "sm"
PRETRAINED = 0.025  # of the others


def sat_segmenter(
    model: str | Path, *, threshold: float | None = None, batch_size: int = 32, device: str | None = None
) -> Callable[[Sequence[str], str], list[list[str]]]:
    """Load a SaT model as a segmenter; the segmenter ignores the language.

    Args:
        model: a name on the Hub (of segment-any-text), org/name@v1.0.0, or a folder, with its own tokenizer or XLM-R's.
        threshold: a character with a higher probability ends a sentence; None: 0.25 for a folder, wtpsplit's
            default for a name.

    Raises:
        ImportError: hf-echo[segment] is not installed.
        FileNotFoundError: no such folder or model on the Hub.
        ValueError: a threshold outside [0, 1).
    """
    if threshold is not None and not 0 <= threshold < 1:
        raise ValueError(f"threshold={threshold} must be at least 0 and below 1")
    sat = _open(model)
    if device:
        sat.to(device)
    repo, version = split_revision(model)
    if threshold is None and (version or Path(model).is_dir()):  # wtpsplit would search the whole path for "sm"
        threshold = PRETRAINED if version and "sm" not in repo else FINE_TUNED
    room = min(512, sat.config.max_position_embeddings - 4)

    def segment(texts: Sequence[str], lang: str = "") -> list[list[str]]:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="split_on_input_newlines")
            split = list(
                sat.split(
                    list(texts),
                    threshold=threshold,
                    block_size=room,
                    stride=max(1, min(64, room // 2)),
                    batch_size=batch_size,
                    split_on_input_newlines=False,
                )
            )
        return [_whole(text, pieces) for text, pieces in zip(texts, split, strict=True)]

    return segment


def _open(model: str | Path) -> Any:
    try:
        from wtpsplit import SaT
    except ImportError as error:
        raise ImportError("a SaT model needs wtpsplit: pip install 'hf-echo[segment]'") from error
    folder = Path(model := snapshot(model) if isinstance(model, str) else model)
    if not folder.is_dir() and (isinstance(model, Path) or str(model).startswith((".", "/", "~"))):
        raise FileNotFoundError(f"no folder {model}; give a SaT model's folder, or a name such as sat-12l-sm")
    own = folder.is_dir() and any((folder / name).exists() for name in ("tokenizer.json", "tokenizer_config.json"))
    try:
        return SaT(str(model), tokenizer_name_or_path=str(model) if own else XLM_R)
    except OSError as error:
        reason = str(error).splitlines()[0]
        raise FileNotFoundError(f"{str(model)!r} is not a SaT model in a folder or on the Hub: {reason}") from error


def _whole(text: str, pieces: Sequence[str]) -> list[str]:
    """Drop empty pieces and check that no character was lost (wtpsplit leaves the space after a sentence on it)."""
    pieces = [piece for piece in pieces if piece]
    if "".join(pieces) != text:
        raise ValueError(f"the segmenter changed the text {text[:60]!r}")
    return pieces
