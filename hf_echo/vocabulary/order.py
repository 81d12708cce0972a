"""Reorder a vocabulary so that the tokens of one language come first, for a decoder with fewer rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from itertools import islice

from tokenizers import Tokenizer

from ..modeling import EchoTokenizer
from ..modeling.prompting_echo import decoder_prompt
from .extend import byte_characters

PROVENANCES = ("primary", "mined", "back_translation", "code")
BATCH = 10_000


def used_first(tokenizer: EchoTokenizer, texts: Iterable[str], lang: str) -> tuple[EchoTokenizer, int]:
    """Renumber the tokens of a tokenizer so that those used by one language come first.

    The order is: special and byte tokens, the tokens in the decoder's prompts for `lang`, those in `texts` by
    descending frequency, then the rest in the old order. Tokenization and merges do not change.

    Returns:
        (tokenizer, number of first ids that `texts` and prompts need).

    Example:
        `used_first(tokenizer, english, "eng_Latn")`, then a decoder with that many rows.
    """
    counts: Counter[int] = Counter()
    texts = iter(texts)
    while batch := list(islice(texts, BATCH)):
        for ids in tokenizer(batch, add_special_tokens=False)["input_ids"]:
            counts.update(ids)
    prompts = [decoder_prompt(lang, provenance) for provenance in PROVENANCES]
    in_prompts = {i for prompt in prompts for i in tokenizer.encode(prompt, add_special_tokens=False)}
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    vocab = state["model"]["vocab"]
    last_byte = max(vocab[character] for character in byte_characters().values())  # reserved tokens come before
    fixed = [i for i in sorted(vocab.values()) if i <= last_byte]
    used = [
        i for i in sorted({*counts, *in_prompts}, key=lambda i: (i not in in_prompts, -counts[i], i)) if i not in fixed
    ]
    first = [*fixed, *used]
    place = {old: new for new, old in enumerate([*first, *sorted(set(vocab.values()) - set(first))])}
    state["model"]["vocab"] = {token: place[i] for token, i in sorted(vocab.items(), key=lambda x: place[x[1]])}
    moved = EchoTokenizer.from_backend(Tokenizer.from_str(json.dumps(state)), max_length=tokenizer.model_max_length)
    return moved, len(first)
