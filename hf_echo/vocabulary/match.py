"""Which tokens of one vocabulary are tokens of another, or are spelt by them; a vocabulary for one language.

A token is compared by its bytes, with the space in front of a word: `Ġthe` of a byte-level BPE, `▁the` of a
SentencePiece model and `the` of a WordPiece model are one token, and so are `ing` and `##ing`. Any other token is a run
of old ones, found by the old model on those bytes (half a character of a byte-level BPE is a token too). Special tokens
are matched by their role, however they are spelt, then by their name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import Tokenizer, models
from transformers.convert_slow_tokenizer import bytes_to_unicode

from .initialise import TokenMatch, auxiliary_vectors, initialise

ROLES = ("cls", "sep", "bos", "eos", "pad", "mask", "unk")  # where one token has two roles, the first decides
_CHARACTERS = bytes_to_unicode()
_BYTES = {character: byte for byte, character in _CHARACTERS.items()}


@dataclass
class Vocabulary:
    """The tokens of a tokenizer. ordinary: bytes -> id; special: name -> id; roles: "cls" ... -> id; size: ids."""

    kind: str
    ordinary: dict[bytes, int]
    special: dict[str, int]
    roles: dict[str, int]
    size: int
    model: Any

    @classmethod
    def of(cls, tokenizer: Any, which: str = "given") -> Vocabulary:
        """Raises ValueError for a slow tokenizer, or one whose tokens do not say where words begin."""
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise ValueError(f"the {which} tokenizer is a {type(tokenizer).__name__}; give a fast tokenizer")
        kind = _kind(backend)
        if kind is None:
            raise ValueError(
                f"the {which} tokenizer is {type(backend.model).__name__} without marks of words; byte-level BPE, "
                "SentencePiece and WordPiece can be compared"
            )
        roles = {role: getattr(tokenizer, f"{role}_token_id", None) for role in ROLES}
        roles = {role: number for role, number in roles.items() if number is not None}
        ordinary, special, added = {}, {}, backend.get_added_tokens_decoder()
        # In the order of the ids: `get_vocab` gives another order each time, and random rows belong to tokens.
        for token, number in sorted(backend.get_vocab(with_added_tokens=False).items(), key=lambda pair: pair[1]):
            if number not in added and number not in roles.values():
                ordinary[_bytes_of(token, kind)] = number
        for number, token in added.items():
            if token.special or number in roles.values():
                special[token.content] = number
            else:
                ordinary.setdefault(token.content.encode(), number)
        return cls(kind, ordinary, special, roles, max(backend.get_vocab().values()) + 1, backend.model)

    def spell(self, token: bytes) -> list[int]:
        """Ids of the tokens that spell `token`; none, if they cannot."""
        if self.kind == "byte":
            return [piece.id for piece in self.model.tokenize("".join(_CHARACTERS[byte] for byte in token))]
        try:
            text = token.decode()
        except UnicodeDecodeError:  # a part of a character
            parts = [self.ordinary.get(bytes([byte])) for byte in token]
            return [] if None in parts else parts
        unknown = self.roles.get("unk")
        if self.kind == "space":
            pieces = [piece.id for piece in self.model.tokenize(text.replace(" ", "▁"))]
        elif text.startswith(" "):
            pieces = [piece.id for word in text.split() for piece in self.model.tokenize(word)]
        else:
            pieces = self._continued(text)
        return [number for number in pieces if number != unknown]

    def _continued(self, text: str) -> list[int]:
        """WordPieces inside a word: always the longest one."""
        pieces = []
        while text:
            known = (end for end in range(len(text), 0, -1) if text[:end].encode() in self.ordinary)
            if (end := next(known, None)) is None:
                return []
            pieces.append(self.ordinary[text[:end].encode()])
            text = text[end:]
        return pieces


def match_vocabularies(old_tokenizer: Any, new_tokenizer: Any) -> tuple[TokenMatch, dict[int, int]]:
    """Which old tokens the new ones are, or are spelt by; and the new id of each old one that is still there."""
    old, new = Vocabulary.of(old_tokenizer, "old"), Vocabulary.of(new_tokenizer, "new")
    if missing := [role for role in ROLES[:5] if role in old.roles and role not in new.roles]:
        raise ValueError(
            f"the new tokenizer has no {missing[0]} token, which the old one has; EchoTokenizer.from_backend adds "
            "what is missing"
        )
    copied, pieces = {}, {}
    for role in ROLES:
        if role in old.roles and role in new.roles:
            copied.setdefault(new.roles[role], old.roles[role])
    for name, number in new.special.items():
        if name in old.special:
            copied.setdefault(number, old.special[name])
    for token, number in new.ordinary.items():
        if token in old.ordinary:
            copied[number] = old.ordinary[token]
        elif ids := old.spell(token):
            pieces[number] = ids
    mapping = {before: after for after, before in reversed(copied.items())}  # of two, the first: the role
    mapping |= {old.roles[role]: new.roles[role] for role in reversed(ROLES) if role in old.roles and role in new.roles}
    return TokenMatch(old.size, new.size, copied, pieces), mapping


def language_vocabulary(
    tokenizer: Any, embeddings: torch.Tensor, texts: Sequence[str], vocab_size: int, *, seed: int = 0
) -> tuple[Any, torch.Tensor]:
    """A tokenizer of the same kind trained on `texts`, and its embeddings (vocabulary, width) by FOCUS.

    Tokens of both vocabularies are copied; the others are combinations of them (Dobler and de Melo 2023). With little
    text the vocabulary is smaller than `vocab_size`. WordPiece training of the library `tokenizers` follows the order
    of a hash map, so two runs on the same texts give slightly different vocabularies.
    """
    if vocab_size <= len(tokenizer.all_special_ids):
        raise ValueError(f"vocab_size={vocab_size} must be above the {len(tokenizer.all_special_ids)} special tokens")
    new = tokenizer.train_new_from_iterator(texts, vocab_size, show_progress=False)
    match, _ = match_vocabularies(tokenizer, new)
    return new, initialise(embeddings, match, "focus", auxiliary=auxiliary_vectors(texts, new, seed=seed))


def _kind(backend: Tokenizer) -> str | None:
    """ "byte", "space" (SentencePiece's mark of a space) or "piece" (WordPiece)."""
    content, model = json.loads(backend.to_str()), backend.model
    if isinstance(model, models.WordPiece):
        return "piece" if model.continuing_subword_prefix == "##" else None
    layers = json.dumps([content["normalizer"], content["pre_tokenizer"]], ensure_ascii=False)
    if isinstance(model, models.BPE) and '"ByteLevel"' in layers and not model.end_of_word_suffix:
        return "byte"
    return "space" if isinstance(model, (models.BPE, models.Unigram)) and "▁" in layers else None


def _bytes_of(token: str, kind: str) -> bytes:
    if kind == "byte":
        return b"".join(bytes([_BYTES[c]]) if c in _BYTES else c.encode() for c in token)
    if kind == "piece":
        return token[2:].encode() if token.startswith("##") else f" {token}".encode()
    if byte := re.fullmatch(r"<0x([0-9A-F]{2})>", token):
        return bytes.fromhex(byte[1])
    return token.replace("▁", " ").encode()
