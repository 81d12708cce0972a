"""Which tokens come first: those of one language, so that its decoder needs only the beginning of the vocabulary."""

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
    """The same tokenizer with other numbers: special and byte tokens, then what `texts` and the decoder's prompts into
    `lang` use, the most frequent first, then the rest as it was. Texts are cut as before; merges do not change.

    Returns:
        the tokenizer, and how many of its first ids `texts` and prompts need.

    Example:
        `used_first(tokenizer, english, "eng_Latn")`, and a decoder of that many rows.
    """
    counts: Counter[int] = Counter()
    texts = iter(texts)
    while batch := list(islice(texts, BATCH)):
        for ids in tokenizer(batch, add_special_tokens=False)["input_ids"]:
            counts.update(ids)
    prompts = [decoder_prompt(lang, provenance) for provenance in PROVENANCES]
    asked = {i for prompt in prompts for i in tokenizer.encode(prompt, add_special_tokens=False)}
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    vocab = state["model"]["vocab"]
    last_byte = max(vocab[character] for character in byte_characters().values())  # reserved tokens lie before
    fixed = [i for i in sorted(vocab.values()) if i <= last_byte]
    used = [i for i in sorted({*counts, *asked}, key=lambda i: (i not in asked, -counts[i], i)) if i not in fixed]
    first = [*fixed, *used]
    place = {old: new for new, old in enumerate([*first, *sorted(set(vocab.values()) - set(first))])}
    state["model"]["vocab"] = {token: place[i] for token, i in sorted(vocab.items(), key=lambda x: place[x[1]])}
    moved = EchoTokenizer.from_backend(Tokenizer.from_str(json.dumps(state)), max_length=tokenizer.model_max_length)
    return moved, len(first)
