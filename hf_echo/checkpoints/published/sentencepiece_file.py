"""A SentencePiece BPE model as vocabulary, merges and normalizer for the library `tokenizers`.

The file is a protocol buffer. transformers reads it with the package `protobuf`, which is not needed here: pieces come
from the package `sentencepiece`, and two fields from the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
        fields = dict(_fields(content, {TRAINER_SPEC, NORMALIZER_SPEC}))
        kind = dict(_fields(fields[TRAINER_SPEC], {MODEL_TYPE})).get(MODEL_TYPE, 1)
    except (RuntimeError, IndexError, KeyError) as error:
        raise ValueError(f"{file} is not a SentencePiece model") from error
    if kind != BPE:
        raise ValueError(f"{file} is a SentencePiece model of another kind than BPE, which SONAR and NLLB have")
    words = [model.id_to_piece(i) for i in range(CONTROL_PIECES, model.get_piece_size())]
    charsmap = dict(_fields(fields.get(NORMALIZER_SPEC, b""), {CHARSMAP})).get(CHARSMAP)
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


def _fields(content: bytes, wanted: set[int]) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) of a protocol buffer message: a number, or the bytes of a text or message."""
    place = 0
    while place < len(content):
        key, place = _number(content, place)
        kind = key & 7
        if kind == 0:
            value, place = _number(content, place)
        else:
            size = {1: 8, 5: 4}.get(kind)
            if size is None:
                size, place = _number(content, place)
            value, place = content[place : place + size], place + size
        if key >> 3 in wanted:
            yield key >> 3, value


def _number(content: bytes, place: int) -> tuple[int, int]:
    """A variable-length number at `place`, and the place after it."""
    value = shift = 0
    while True:
        byte = content[place]
        value, place, shift = value | (byte & 127) << shift, place + 1, shift + 7
        if byte < 128:
            return value, place
