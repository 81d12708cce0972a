"""Which tokens of one vocabulary are tokens of another, or are spelt by them; a vocabulary for one
language.

A token is compared by its bytes, with the space in front of a word: `Ġthe` of a byte-level BPE,
`▁the` of a SentencePiece model and `the` of a WordPiece model are one token, and so are `ing` and
`##ing`. Any other token is a run of old ones, found by the old model on those bytes (half a
character of a byte-level BPE is a token too). Special tokens are matched by their role, however
they are spelt, then by their name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode

from .initialise import TokenMatch, initialise, train_auxiliary
from .trim import id_count

# where one token has two roles, the first decides
ROLES = ("cls", "sep", "bos", "eos", "pad", "mask", "unk")
AUXILIARY_DIM = 300  # of the vectors by which FOCUS compares tokens (Modular B.2)
_CHARACTERS = bytes_to_unicode()
_BYTES = {character: byte for byte, character in _CHARACTERS.items()}


@dataclass
class Vocabulary:
    """The tokens of a tokenizer. ordinary: bytes -> id; special: name -> id; roles: "cls" ...
    -> id; size: ids."""

    kind: str
    ordinary: dict[bytes, int]
    special: dict[str, int]
    roles: dict[str, int]
    size: int
    model: Any

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerFast, name: str = "given") -> Vocabulary:
        """Raises ValueError for a tokenizer, called by its name,
        whose tokens do not say where words begin."""
        backend = tokenizer.backend_tokenizer
        kind = _kind(backend)
        if kind is None:
            raise ValueError(
                f"the {name} tokenizer is {type(backend.model).__name__} without marks of words; byte-level BPE, "
                "SentencePiece and WordPiece can be compared"
            )
        roles = {}
        for role in ROLES:
            token_id = getattr(tokenizer, f"{role}_token_id", None)
            if token_id is not None:
                roles[role] = token_id
        # added tokens and those with a role are special; the others are compared by their bytes
        ordinary = {}
        special = {}
        added_tokens = backend.get_added_tokens_decoder()
        # In the order of the ids: `get_vocab` gives another order each time, and random rows belong
        # to tokens.
        ids = backend.get_vocab(with_added_tokens=False)
        for token in sorted(ids, key=ids.get):
            if ids[token] not in added_tokens and ids[token] not in roles.values():
                ordinary[_bytes_of(token, kind)] = ids[token]
        for token_id, added in added_tokens.items():
            if added.special or token_id in roles.values():
                special[added.content] = token_id
            else:
                ordinary.setdefault(added.content.encode(), token_id)
        return cls(kind, ordinary, special, roles, id_count(backend), backend.model)

    def spell(self, token: bytes) -> list[int]:
        """Ids of the tokens that spell `token`; none, if they cannot."""
        if self.kind == "byte":
            return self._pieces("".join(_CHARACTERS[byte] for byte in token))
        try:
            text = token.decode()
        except UnicodeDecodeError:  # a part of a character
            parts = [bytes([byte]) for byte in token]
            if not self.ordinary.keys() >= set(parts):
                return []
            return [self.ordinary[part] for part in parts]
        if self.kind == "space":
            pieces = self._pieces(text.replace(" ", "▁"))
        elif text.startswith(" "):
            pieces = []
            for word in text.split():
                pieces += self._pieces(word)
        else:
            pieces = self._continued(text)
        return [token_id for token_id in pieces if token_id != self.roles.get("unk")]

    def _pieces(self, text: str) -> list[int]:
        return [piece.id for piece in self.model.tokenize(text)]

    def _continued(self, text: str) -> list[int]:
        """WordPieces inside a word: always the longest one."""
        pieces = []
        start = 0
        while start < len(text):
            for end in range(len(text), start, -1):
                token_id = self.ordinary.get(text[start:end].encode())
                if token_id is not None:
                    break
            else:
                return []
            pieces.append(token_id)
            start = end
        return pieces


def match_vocabularies(
    old_tokenizer: PreTrainedTokenizerFast, new_tokenizer: PreTrainedTokenizerFast
) -> tuple[TokenMatch, dict[int, int]]:
    """Which old tokens the new ones are, or are spelt by;
    and the new id of each old one that is still there."""
    old = Vocabulary.of(old_tokenizer, "old")
    new = Vocabulary.of(new_tokenizer, "new")
    for role in ROLES[:5]:
        if role in old.roles and role not in new.roles:
            raise ValueError(
                f"the new tokenizer has no {role} token, which the old one has; EchoTokenizer.from_backend adds "
                "what is missing"
            )
    # tokens of both vocabularies: by role, by name, by bytes; the other new ones are spelt
    shared_roles = [role for role in ROLES if role in old.roles and role in new.roles]
    copied: dict[int, int] = {}
    pieces = {}
    for role in shared_roles:
        copied.setdefault(new.roles[role], old.roles[role])
    for name, token_id in new.special.items():
        if name in old.special:
            copied.setdefault(token_id, old.special[name])
    for token, token_id in new.ordinary.items():
        if token in old.ordinary:
            copied[token_id] = old.ordinary[token]
            continue
        spelling = old.spell(token)
        if spelling:
            pieces[token_id] = spelling

    # Where an old token has two new ones, its role decides, then the first.
    new_ids: dict[int, int] = {}
    for role in shared_roles:
        new_ids.setdefault(old.roles[role], new.roles[role])
    for new_id, old_id in copied.items():
        new_ids.setdefault(old_id, new_id)
    return TokenMatch(old.size, new.size, copied, pieces), new_ids


def language_vocabulary(
    tokenizer: PreTrainedTokenizerFast,
    embeddings: torch.Tensor,
    texts: Sequence[str],
    vocab_size: int,
    *,
    seed: int = 0,
) -> tuple[PreTrainedTokenizerFast, torch.Tensor]:
    """A tokenizer of the same kind trained on `texts`, and its embeddings (vocabulary, width) by
    FOCUS.

    Tokens of both vocabularies are copied; the others are combinations of them (Dobler and de Melo
    2023), by auxiliary vectors of AUXILIARY_DIM dimensions. With little text the vocabulary is
    smaller than `vocab_size`. WordPiece training of the library `tokenizers` follows the order of a
    hash map, so two runs on the same texts give slightly different vocabularies.
    """
    if vocab_size <= len(tokenizer.all_special_ids):
        raise ValueError(
            f"vocab_size={vocab_size} must be above the {len(tokenizer.all_special_ids)} special tokens"
        )
    new_tokenizer = tokenizer.train_new_from_iterator(texts, vocab_size, show_progress=False)
    match, _ = match_vocabularies(tokenizer, new_tokenizer)
    vectors = train_auxiliary(texts, new_tokenizer, dim=AUXILIARY_DIM, seed=seed)
    return new_tokenizer, initialise(embeddings, match, "focus", auxiliary=vectors)


def _kind(backend: Tokenizer) -> str | None:
    """ "byte", "space" (SentencePiece's mark of a space) or "piece" (WordPiece)."""
    model = backend.model
    if isinstance(model, models.WordPiece):
        return "piece" if model.continuing_subword_prefix == "##" else None
    content = json.loads(backend.to_str())
    layers = json.dumps([content["normalizer"], content["pre_tokenizer"]], ensure_ascii=False)
    if isinstance(model, models.BPE) and '"ByteLevel"' in layers and not model.end_of_word_suffix:
        return "byte"
    if isinstance(model, (models.BPE, models.Unigram)) and "▁" in layers:
        return "space"
    return None


def _bytes_of(token: str, kind: str) -> bytes:
    """The bytes that a token stands for, by the kind of its tokenizer: "byte" (GPT-2), "piece"
    (WordPiece) or SentencePiece."""
    if kind == "byte":
        return b"".join(bytes([_BYTES[c]]) if c in _BYTES else c.encode() for c in token)
    if kind == "piece":
        return token[2:].encode() if token.startswith("##") else f" {token}".encode()
    byte = re.fullmatch(r"<0x([0-9A-F]{2})>", token)
    if byte:
        return bytes.fromhex(byte[1])
    return token.replace("▁", " ").encode()
