"""A checkpoint with fewer tokens, for the languages that it is to serve; train it afterwards to be as its original was.

A text whose tokens are all kept has the same embedding as before; other texts have more tokens, and worse embeddings
until training has taught the model to read them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from transformers import AutoTokenizer, PreTrainedConfig

from ..inference.encode import opening
from ..modeling import EchoConfig
from ..modeling.modeling_echo_base import DECODER_FOLDER
from ..modeling.prompting_echo import decoder_prompt, encoder_prompt
from ..vocabulary.initialise import TokenMatch
from ..vocabulary.loading import with_backend
from ..vocabulary.report import texts_by_language
from ..vocabulary.trim import in_order, kept_tokens, token_scores, tokens_per_text, trimmed
from .rewrite import is_release, open_checkpoint, save_changed
from .swap_tokenizer import swap_vocabulary

MORE = 30  # times as many texts of a language that comes first: a decoder writes no token outside of its first ids


def trim_checkpoint(
    model: str | Path,
    out: str | Path,
    texts: str | Path,
    *,
    keep: int,
    first: Sequence[str] = (),
    split: str | None = None,
    sample: int = 10_000,
    seed: int = 0,
) -> dict[str, Any]:
    """Write a checkpoint with at most `keep` tokens, decoder included (`hf_echo.vocabulary.trim` says which).

    Arguments as in `hf-echo vocabulary trim --help`.

    Returns:
        {"old_tokens", "tokens", "tokens_per_sentence": {language or "average": {"before", "after"}}}

    Raises:
        FileNotFoundError: no checkpoint or no texts.
        ValueError: `keep` is too small, the tokenizer is of another kind, or the checkpoint is damaged.
    """
    with opening(model) as place:
        tokenizer, config = AutoTokenizer.from_pretrained(place), EchoConfig.from_pretrained(place)
        if is_release(place):
            config.decoder, _ = PreTrainedConfig.get_config_dict(place, subfolder=DECODER_FOLDER)
    old = tokenizer.backend_tokenizer
    samples = sample_texts(texts, split, sample, seed, {lang: MORE * sample for lang in first})
    scores = token_scores(old, samples.items())
    kept = kept_tokens(old, scores, keep, _prompts(config))
    if first:
        if unknown := sorted(set(first) - samples.keys()):
            raise ValueError(f"first names {unknown[0]!r}, of which there are no texts, only of {', '.join(samples)}")
        kept = in_order(old, kept, token_scores(old, ((lang, samples[lang]) for lang in first)))
    small, opened = with_backend(tokenizer, trimmed(old, kept)), open_checkpoint(model)
    mapping = {before: after for after, before in enumerate(kept)}
    match = TokenMatch(len(scores), len(kept), dict(enumerate(kept)), {})
    decoder = getattr(opened, "decoder", None)
    written = len(scores) if decoder is None else decoder.get_output_embeddings().weight.shape[0]
    if written < len(scores):  # a decoder of the first tokens alone, which stay the first
        decoder.resize_token_embeddings(len(scores), mean_resizing=False)
    swap_vocabulary(opened, tokenizer, small, match=(match, mapping))
    if written < len(scores):
        decoder.resize_token_embeddings(sum(number < written for number in kept), mean_resizing=False)
    lengths = {
        lang: {
            when: round(tokens_per_text(tokens.backend_tokenizer, rows), 2)
            for when, tokens in (("before", tokenizer), ("after", small))
        }
        for lang, rows in sorted(samples.items())
    }
    means = {when: sum(row[when] for row in lengths.values()) / len(lengths) for when in ("before", "after")}
    lengths["average"] = {when: round(mean, 2) for when, mean in means.items()}
    results = {"old_tokens": len(scores), "tokens": len(kept), "tokens_per_sentence": lengths}
    values = {"keep": keep, "first": list(first), "split": split, "sample": sample, "seed": seed}
    options = dict(parents={"model": model}, data={"texts": texts}, results=results, tokenizer=small)
    save_changed(opened.to(config.dtype or opened.dtype), out, "trim_vocabulary", values, **options)
    return results


def sample_texts(
    texts: str | Path, split: str | None, most: int, seed: int, others: Mapping[str, int]
) -> dict[str, list[str]]:
    """At most `most` texts of each language, or what `others` names for it; each text of a language has the same chance
    (reservoir sampling)."""
    chosen: dict[str, list[str]] = {}
    seen: Counter[str] = Counter()
    random = Random(seed)
    for lang, block in texts_by_language(texts, split):
        own = chosen.setdefault(lang, [])
        for text in block:
            seen[lang] += 1
            if len(own) < others.get(lang, most):
                own.append(text)
            elif (place := random.randrange(seen[lang])) < len(own):
                own[place] = text
    return chosen


def _prompts(config: EchoConfig) -> list[str]:
    """What the encoder and the decoder read in front of a text in the checkpoint's languages."""
    if config.prompts != "name":
        return []
    decoder = config.decoder if isinstance(config.decoder, dict) else getattr(config.decoder, "__dict__", {})
    read = [encoder_prompt(code) for code in (None, *(config.languages or []))]
    return read + [decoder_prompt(code) for code in decoder.get("languages") or []]
