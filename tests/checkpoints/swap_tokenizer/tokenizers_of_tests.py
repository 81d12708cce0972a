"""Tokenizers that are made from another one, and how a swapped model is compared."""

import json

import numpy as np
from tokenizers import Tokenizer, pre_tokenizers

from hf_echo.modeling import EchoTokenizer

ROLES = ("cls", "sep", "bos", "eos", "pad")


def content_of(tokenizer) -> dict:
    return json.loads(tokenizer.backend_tokenizer.to_str())


def rebuilt(tokenizer, content: dict) -> EchoTokenizer:
    names = {f"{role}_token": getattr(tokenizer, f"{role}_token") for role in ROLES}
    # Special tokens stand in the vocabulary too, or they would be numbered after all others.
    content["model"]["vocab"] |= {
        token["content"]: token["id"] for token in content["added_tokens"]
    }
    backend = Tokenizer.from_str(json.dumps(content))
    return EchoTokenizer(
        tokenizer_object=backend, model_max_length=64, split_special_tokens=True, **names
    )


def permuted(tokenizer) -> tuple[EchoTokenizer, np.ndarray]:
    """The same tokenizer under other ids; `order[old id]` is the new one."""
    content = content_of(tokenizer)
    order = np.random.default_rng(3).permutation(len(tokenizer))
    content["model"]["vocab"] = {
        token: int(order[i]) for token, i in content["model"]["vocab"].items()
    }
    for token in content["added_tokens"]:
        token["id"] = int(order[token["id"]])
    for special in content["post_processor"]["special_tokens"].values():
        special["ids"] = [int(order[i]) for i in special["ids"]]
    return rebuilt(tokenizer, content), order


def extended(tokenizer, merges: list[tuple[str, str]]) -> EchoTokenizer:
    content = content_of(tokenizer)
    content["model"]["merges"] += [list(merge) for merge in merges]
    for number, merge in enumerate(merges, len(tokenizer)):
        content["model"]["vocab"]["".join(merge)] = number
    return rebuilt(tokenizer, content)


def visible(text: str) -> str:
    """A text as byte-level tokens spell it."""
    return "".join(
        piece
        for piece, _ in pre_tokenizers.ByteLevel(False, use_regex=False).pre_tokenize_str(text)
    )
