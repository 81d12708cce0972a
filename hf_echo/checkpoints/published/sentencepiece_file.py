"""A SentencePiece BPE model as vocabulary, merges and normalizer for the library `tokenizers`.

The file is a protocol buffer. transformers reads it with the package `protobuf`, which is not needed here: pieces come
from the package `sentencepiece`, and two fields from the bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...utils.protobuf import fields_of

CONTROL_PIECES = 3  # <unk>, <s>, </s>
TRAINER_SPEC, MODEL_TYPE, BPE = 2, 3, 2  # field numbers of sentencepiece_model.proto
NORMALIZER_SPEC, CHARSMAP = 3, 2


@dataclass(frozen=True)
class Pieces:
    """Attributes:
    words: all pieces but the control ones, in the order of their ids.
    merges: pairs of pieces, the first applied first.
    charsmap: of the normalizer; None where it changes nothing.
    """

    words: list[str]
    merges: list[tuple[str, str]]
    charsmap: bytes | None


def read_sentencepiece(file: str | Path) -> Pieces:
    """
    Raises:
        ValueError: not a SentencePiece model, or one that is not BPE.
    """
    from sentencepiece import SentencePieceProcessor

    content = Path(file).read_bytes()
    try:
        model = SentencePieceProcessor(model_proto=content)
        fields = dict(fields_of(content, {TRAINER_SPEC, NORMALIZER_SPEC}))
        kind = dict(fields_of(fields[TRAINER_SPEC], {MODEL_TYPE})).get(MODEL_TYPE, 1)
    except (RuntimeError, IndexError, KeyError) as error:
        raise ValueError(f"{file} is not a SentencePiece model") from error
    if kind != BPE:
        raise ValueError(f"{file} is a SentencePiece model of another kind than BPE, which SONAR and NLLB have")
    words = [model.id_to_piece(i) for i in range(CONTROL_PIECES, model.get_piece_size())]
    charsmap = dict(fields_of(fields.get(NORMALIZER_SPEC, b""), {CHARSMAP})).get(CHARSMAP)
    return Pieces(words, merges_of(words), charsmap or None)


def merges_of(words: list[str]) -> list[tuple[str, str]]:
    """SentencePiece merges the pair whose union has the lowest id: every pair, ordered by that id."""
    known = {word: number for number, word in enumerate(words)}
    merges = []
    for word in words:
        pairs = [(word[:cut], word[cut:]) for cut in range(1, len(word))]
        merges += sorted(
            (pair for pair in pairs if pair[0] in known and pair[1] in known),
            key=lambda pair: (known[pair[0]], known[pair[1]]),
        )
    return merges
