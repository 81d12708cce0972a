"""Speech encoders of a report: speech to English text, to its own text, and what the text encoder alone gets wrong."""

from __future__ import annotations

from typing import Any

from ...inference.encode_speech import encode_speech, load_speech_encoder
from ...inference.encoders import Encode
from ..retrieval.speech import english_negatives, evaluate_speech


def speech_table(rows: Any, speech_model: str, encode: Encode, text_model: str) -> dict[str, Any]:
    """{"rows", "average"} of `evaluate_speech` with rule-based hard negatives.

    Args:
        rows: a speech dataset with the column english (in English the text itself).
        encode: text encoder of the same space, called `text_model` in errors.

    Raises:
        ValueError: spaces of another size; errors of the evaluation.
    """
    encoder, extractor = load_speech_encoder(speech_model)
    size = encode([rows[0]["text"]], rows[0]["lang"]).shape[1]
    if size != encoder.config.embedding_size:
        raise ValueError(
            f"the speech encoder {speech_model} gives embeddings of size {encoder.config.embedding_size} and "
            f"{text_model} of size {size}: name the text encoder of its space first"
        )
    report = evaluate_speech(
        rows, encode_speech(encoder, extractor, rows["audio"]), encode, negatives=english_negatives(rows)
    )
    return {"rows": report.languages.rows, "average": report.languages.average}
