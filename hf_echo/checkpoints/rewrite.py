"""What an operation that changes a checkpoint without training does at its begin and end: it opens
text or speech, and saves the model with its tokenizer and its lineage."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerFast

from ..inference.encode import opening
from ..inference.encode_speech import is_speech, open_extractor, open_speech_encoder
from ..modeling import EchoEncoder, EchoForTranslation, EchoSpeechEncoder
from ..utils.folders import write_folder
from ..utils.hub import snapshot
from ..utils.lineage import write_lineage
from ..utils.speech_data import merge_speech_data, read_speech_data, write_speech_data
from .open_text import is_release, open_checkpoint

logger = logging.getLogger(__name__)


def open_text_or_speech(model: str | Path) -> EchoEncoder | EchoForTranslation | EchoSpeechEncoder:
    """As `open_checkpoint`, speech encoders included:
    for operations that mix weights, whatever they are."""
    return open_speech_encoder(model).eval() if is_speech(model) else open_checkpoint(model)


def check_other_folder(out: str | Path, model: str | Path) -> None:
    """Raises ValueError where `out` is the folder of the checkpoint `model`."""
    if Path(out).resolve() == Path(snapshot(model)).resolve():
        raise ValueError(f"{out} is the checkpoint itself: the new one needs a folder of its own")


def leave_decoder_out(name: str | Path, opened: EchoForTranslation, reason: str) -> EchoEncoder:
    """The encoder of a release, with a warning."""
    logger.warning("the decoder of %s is left out: %s", name, reason)
    return opened.encoder


def save_changed(
    changed: EchoEncoder | EchoForTranslation | EchoSpeechEncoder,
    out: str | Path,
    operation: str,
    values: Mapping[str, Any],
    *,
    parents: Mapping[str, str | Path],
    data: Mapping[str, str | Path | None] | None = None,
    results: Mapping[str, Any] | None = None,
    tokenizer: PreTrainedTokenizerFast | None = None,
) -> Path:
    """Save a model whole, with lineage and `tokenizer` (default: that, or the feature extractor, of
    its first parent).

    A release stays one, with its decoder; a speech encoder keeps what its parents say about their
    recordings.
    """
    out = Path(out)
    first = next(iter(parents.values()))
    heard = {}
    save: Callable[..., Any] = changed.save_pretrained
    if isinstance(changed, EchoSpeechEncoder):
        if is_release(first):
            logger.warning(
                "the decoder of %s is left out: hf-echo release --decoder adds it again", first
            )
        processor = open_extractor(first)
        heard = merge_speech_data(read_speech_data(name) for name in parents.values())
    else:
        with opening(first) as place:
            processor = tokenizer or AutoTokenizer.from_pretrained(place)
        # A release stays a release, with its decoder beside the encoder.
        if isinstance(changed, EchoForTranslation) and is_release(first):
            save = changed.save_release
    with write_folder(out) as folder:
        save(folder)
        processor.save_pretrained(folder)
        write_speech_data(folder, heard)
        write_lineage(
            folder, operation, values, parents=parents, data=data, results=results, output_dir=out
        )
    return out
