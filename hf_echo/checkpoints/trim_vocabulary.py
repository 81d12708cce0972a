"""A checkpoint with fewer tokens, for the languages that it is to serve; train it afterwards to be
as its original was.

A text whose tokens are all kept has the same embedding as before; other texts have more tokens, and
worse embeddings until training has taught the model to read them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerFast

from ..inference.encode import opening
from ..modeling import EchoConfig, EchoEncoder, EchoForTranslation
from ..modeling.modeling_echo_base import DECODER_FOLDER
from ..modeling.prompting_echo import decoder_prompt, encoder_prompt
from ..vocabulary.initialise import TokenMatch
from ..vocabulary.loading import with_backend
from ..vocabulary.report import texts_by_language
from ..vocabulary.trim import in_order, kept_tokens, token_scores, tokens_per_text, trimmed
from .open_text import is_release, open_checkpoint
from .rewrite import save_changed
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
    """Write a checkpoint with at most `keep` tokens, decoder included (`hf_echo.vocabulary.trim`
    says which).

    Arguments as in `hf-echo vocabulary trim --help`.

    Returns:
        {"old_tokens", "tokens", "tokens_per_sentence": {language or "average": {"before",
        "after"}}}

    Raises:
        FileNotFoundError: no checkpoint or no texts.
        ValueError: `keep` is too small, the tokenizer is of another kind, or the checkpoint is
            damaged.
    """
    # The languages of a release's decoder stand in its own configuration.
    with opening(model) as place:
        tokenizer = AutoTokenizer.from_pretrained(place)
        config = EchoConfig.from_pretrained(place)
        if is_release(place):
            config.decoder, _ = PreTrainedConfig.get_config_dict(place, subfolder=DECODER_FOLDER)
    backend = tokenizer.backend_tokenizer
    samples = sample_texts(texts, split, sample, seed, {lang: MORE * sample for lang in first})
    for lang in sorted(set(first)):
        if lang not in samples:
            raise ValueError(
                f"first names {lang!r}, of which there are no texts, only of {', '.join(samples)}"
            )

    # Choose the tokens: old ids, in the order of the new ones.
    scores = token_scores(backend, samples.items())
    kept_ids = kept_tokens(backend, scores, keep, _prompts(config))
    if first:
        scores_of_first = token_scores(backend, ((lang, samples[lang]) for lang in first))
        kept_ids = in_order(backend, kept_ids, scores_of_first)
    small_tokenizer = with_backend(tokenizer, trimmed(backend, kept_ids))

    opened = open_checkpoint(model)
    _move(opened, tokenizer, small_tokenizer, kept_ids, old_size=len(scores))

    results = {
        "old_tokens": len(scores),
        "tokens": len(kept_ids),
        "tokens_per_sentence": _lengths(samples, backend, small_tokenizer.backend_tokenizer),
    }
    save_changed(
        opened.to(config.dtype or opened.dtype),
        out,
        "trim_vocabulary",
        {"keep": keep, "first": list(first), "split": split, "sample": sample, "seed": seed},
        parents={"model": model},
        data={"texts": texts},
        results=results,
        tokenizer=small_tokenizer,
    )
    return results


def _move(
    model: EchoEncoder | EchoForTranslation,
    tokenizer: PreTrainedTokenizerFast,
    small_tokenizer: PreTrainedTokenizerFast,
    kept_ids: list[int],
    old_size: int,
) -> None:
    """Give a model the kept rows. A decoder of the first tokens alone has those of them that are
    kept."""
    match = TokenMatch(old_size, len(kept_ids), dict(enumerate(kept_ids)), {})
    new_ids = {old: new for new, old in enumerate(kept_ids)}
    decoder = getattr(model, "decoder", None)
    written = old_size
    if decoder is not None:
        written = decoder.get_output_embeddings().weight.shape[0]
    if written < old_size:  # `swap_vocabulary` wants all rows
        decoder.resize_token_embeddings(old_size, mean_resizing=False)
    swap_vocabulary(model, tokenizer, small_tokenizer, match=(match, new_ids))
    if written < old_size:
        written_and_kept = [old for old in kept_ids if old < written]
        decoder.resize_token_embeddings(len(written_and_kept), mean_resizing=False)


def _lengths(
    samples: Mapping[str, list[str]], old: Tokenizer, small: Tokenizer
) -> dict[str, dict[str, float]]:
    """Tokens a text of each language, and the average of these, before and after."""
    lengths = {}
    for lang, texts in sorted(samples.items()):
        before = tokens_per_text(old, texts)
        after = tokens_per_text(small, texts)
        lengths[lang] = {"before": round(before, 2), "after": round(after, 2)}
    average = {}
    for column in ("before", "after"):
        average[column] = round(fmean(row[column] for row in lengths.values()), 2)
    return lengths | {"average": average}


def sample_texts(
    texts: str | Path, split: str | None, most: int, seed: int, others: Mapping[str, int]
) -> dict[str, list[str]]:
    """At most `most` texts of each language, or what `others` names for it; each text of a language
    has the same chance (reservoir sampling)."""
    chosen: dict[str, list[str]] = {}
    seen: Counter[str] = Counter()
    random = Random(seed)
    for lang, block in texts_by_language(texts, split):
        sample = chosen.setdefault(lang, [])
        size = others.get(lang, most)
        for text in block:
            seen[lang] += 1
            if len(sample) < size:
                sample.append(text)
                continue
            # Text number n takes a random place of n, and stays where that is in the sample.
            place = random.randrange(seen[lang])
            if place < size:
                sample[place] = text
    return chosen


def _prompts(config: EchoConfig) -> list[str]:
    """What the encoder and the decoder read in front of a text in the checkpoint's languages."""
    if config.prompts != "name":
        return []
    decoder = config.decoder
    if not isinstance(decoder, dict):
        decoder = getattr(decoder, "__dict__", {})
    prompts = [encoder_prompt(code) for code in (None, *(config.languages or []))]
    prompts += [decoder_prompt(code) for code in decoder.get("languages") or []]
    return prompts
