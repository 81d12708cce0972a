"""SONAR's tokenizer, NLLB's ids, as a `SonarTokenizer`:
a token names the language (NllbTokenizer fixes one)."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES
from transformers.utils import cached_file

from ...modeling.tokenization_echo_sonar import DEFAULT_LANGUAGE, LANGUAGE, SonarTokenizer
from ...utils.hub import snapshot
from ...utils.protobuf import fields_of
from ...vocabulary.trim import merge_pair

CONTROL_PIECES = 3  # <unk>, <s>, </s>
# numbers of fields in sentencepiece_model.proto, each with one inside of it
TRAINER_SPEC = 2
MODEL_TYPE = 3
NORMALIZER_SPEC = 3
CHARSMAP = 2
BPE = 2  # value of MODEL_TYPE


@dataclass(frozen=True)
class Pieces:
    """All pieces but the control ones by id, pairs to merge (the first first), and the normalizer's
    charsmap, if any."""

    words: list[str]
    merges: list[tuple[str, str]]
    charsmap: bytes | None


def read_sentencepiece(file: str | Path) -> Pieces:
    """The pieces by the package sentencepiece, two fields from the bytes:
    transformers would need protobuf for them."""
    from sentencepiece import SentencePieceProcessor

    content = Path(file).read_bytes()
    try:
        model = SentencePieceProcessor(model_proto=content)
        fields = dict(fields_of(content, {TRAINER_SPEC, NORMALIZER_SPEC}))
        kind = dict(fields_of(fields[TRAINER_SPEC], {MODEL_TYPE})).get(MODEL_TYPE, 1)
    except (RuntimeError, IndexError, KeyError) as error:
        raise ValueError(f"{file} is not a SentencePiece model") from error
    if kind != BPE:
        raise ValueError(
            f"{file} is a SentencePiece model of another kind than BPE, which SONAR and NLLB have"
        )
    words = [model.id_to_piece(i) for i in range(CONTROL_PIECES, model.get_piece_size())]
    charsmap = dict(fields_of(fields.get(NORMALIZER_SPEC, b""), {CHARSMAP})).get(CHARSMAP)
    return Pieces(words, merges_of(words), charsmap or None)


def merges_of(words: list[str]) -> list[tuple[str, str]]:
    """SentencePiece merges the pair whose union has the lowest id:
    every pair, ordered by that id."""
    numbers = {word: number for number, word in enumerate(words)}
    merges = []
    for word in words:
        pairs = []
        for cut in range(1, len(word)):
            left = word[:cut]
            right = word[cut:]
            if left in numbers and right in numbers:
                pairs.append((numbers[left], numbers[right]))
        merges += [(words[left], words[right]) for left, right in sorted(pairs)]
    return merges


SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # ids 0 to 3
# used in training; they complete the vocabulary
DATA_TOKENS = (
    "<MINED_DATA>",
    "<MMT_BT_DATA>",
    "<SMT_BT_DATA>",
)
FILES = ("tokenizer.json", "sentencepiece.bpe.model")


def read_tokenizer(name: str | Path, max_length: int) -> tuple[SonarTokenizer, list[str]]:
    """(tokenizer, language codes) from a SentencePiece model, a tokenizer.json,
    or a folder or Hub name of NLLB."""
    file = tokenizer_file(name)
    if file is None:
        raise FileNotFoundError(
            f"no tokenizer in {name}; give a SentencePiece model or a tokenizer.json of NLLB"
        )
    if file.suffix == ".json":
        pieces, languages = _read_json(file)
    else:
        pieces = read_sentencepiece(file)
        languages = list(FAIRSEQ_LANGUAGE_CODES)
    return build_tokenizer(pieces, languages, max_length), languages


def tokenizer_file(name: str | Path) -> Path | None:
    """A file as it is; of a folder or Hub name its tokenizer.json or SentencePiece model,
    None without either."""
    name = snapshot(name)
    if Path(name).is_file():
        return Path(name)
    if not Path(name).is_dir() and (
        Path(name).suffix in (".model", ".json") or Path(name).is_absolute()
    ):
        return None
    for file_name in FILES:
        file = cached_file(str(name), file_name, _raise_exceptions_for_missing_entries=False)
        if file:
            return Path(file)
    return None


def build_tokenizer(pieces: Pieces, languages: list[str], max_length: int) -> SonarTokenizer:
    """Ids: four special tokens, the pieces, the languages, three tokens that only the training data
    had."""
    vocabulary = {token: number for number, token in enumerate((*SPECIAL, *pieces.words))}
    backend = Tokenizer(
        models.BPE(vocab=vocabulary, merges=pieces.merges, unk_token="<unk>", fuse_unk=True)
    )
    # As in SentencePiece: no space at either end, and single ones between words.
    layers = [normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip()]
    if pieces.charsmap:
        layers.insert(0, normalizers.Precompiled(pieces.charsmap))
    backend.normalizer = normalizers.Sequence(layers)
    backend.pre_tokenizer = pre_tokenizers.Metaspace(
        replacement="▁", prepend_scheme="always", split=True
    )
    backend.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always", split=True)
    backend.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in SPECIAL]
    )
    others = (*languages, *DATA_TOKENS)
    backend.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in others]
    )
    ends = [(token, backend.token_to_id(token)) for token in (DEFAULT_LANGUAGE, "</s>")]
    backend.post_processor = processors.TemplateProcessing(
        single=f"{DEFAULT_LANGUAGE} $A </s>",
        pair=f"{DEFAULT_LANGUAGE} $A $B:0 </s>:0",
        special_tokens=ends,
    )
    return SonarTokenizer(
        tokenizer_object=backend,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        pad_token="<pad>",
        model_max_length=max_length,
        padding_side="right",
        model_input_names=["input_ids", "attention_mask"],
        split_special_tokens=True,  # "</s>" in a text is text
    )


def _read_json(file: Path) -> tuple[Pieces, list[str]]:
    """(pieces, language codes) of a tokenizer.json of NLLB or SONAR."""
    # Its vocabulary, added tokens and merges.
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        model = content["model"]
        words = {number: word for word, number in model["vocab"].items()}
        added = {token["id"]: token["content"] for token in content["added_tokens"]}
        merges = [merge_pair(merge) for merge in model["merges"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{file} is not a tokenizer.json of NLLB or SONAR: a BPE model is needed"
        ) from error
    # The language tokens follow the pieces, without a gap.
    numbers = sorted(number for number, word in added.items() if LANGUAGE.fullmatch(word))
    if DEFAULT_LANGUAGE not in added.values():
        raise ValueError(
            f"{file} has no language token {DEFAULT_LANGUAGE}: it is not a tokenizer of NLLB or SONAR"
        )
    first = numbers[0]
    vocabulary = [words.get(number) for number in range(first)]
    if (
        tuple(vocabulary[:4]) != SPECIAL
        or None in vocabulary
        or numbers[-1] - first + 1 != len(numbers)
    ):
        raise ValueError(
            f"{file} is not a tokenizer of NLLB or SONAR: special and language tokens stand elsewhere"
        )
    # Merges that would spell a special token go.
    inside = {*SPECIAL, *added.values()}
    merges = [pair for pair in merges if "".join(pair) not in inside]
    return Pieces(vocabulary[4:], merges, _charsmap(content)), [added[number] for number in numbers]


def _charsmap(content: dict) -> bytes | None:
    normalizer = content.get("normalizer") or {}
    for layer in normalizer.get("normalizers", [normalizer]):
        if layer.get("type") == "Precompiled":
            return base64.b64decode(layer["precompiled_charsmap"])
    return None
