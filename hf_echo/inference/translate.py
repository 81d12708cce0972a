"""Translate texts or embeddings: encode in token-budget batches, decode in batches of similar length."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm
from transformers import AutoConfig, AutoModelForSeq2SeqLM

from ..modeling.generation_echo import (
    check_numbers,
    check_prompt,
    check_target_lang,
    is_echo_decoder,
)
from ..modeling.modeling_echo_base import DECODER_FOLDER, check_finite
from ..modeling.packed_echo import has_hooks
from ..modeling.prompting_echo import is_blank, langs_of, texts_of
from ..modeling.reranking_echo import decode_embeddings
from ..modeling.translation_echo_speech import SPEECH
from ..utils.cores import one_per_core
from .encode import encode, open_tokenizer, opening, padded, pick_device, pick_dtype, pieces_of


def load_translator(name_or_path: str | Path, *, device: str | None = None, dtype: str = "auto"):
    """Load (EchoForTranslation, EchoTokenizer) from a training checkpoint or release, in a folder or on the Hub.

    A converted SONAR with a decoder gives (SonarForTranslation, SonarTokenizer); the release of a speech encoder with a
    decoder gives (EchoSpeechForTranslation, EchoTokenizer), which translate embeddings of audio.

    Arguments and errors as of `load_encoder`.
    """
    device = pick_device(device)
    with opening(name_or_path) as name:
        kind = AutoConfig.from_pretrained(name).model_type
        model = AutoModelForSeq2SeqLM.from_pretrained(name, dtype=pick_dtype(dtype, device))
        tokenizer = open_tokenizer(name, DECODER_FOLDER if kind == SPEECH else "")
        if kind != SPEECH:
            tokenizer.open_target(name)
    return model.to(device).eval(), tokenizer


@torch.inference_mode()
def translate(
    model,
    tokenizer,
    inputs: Iterable[str] | np.ndarray | torch.Tensor,
    source_lang: str | Iterable[str | None] | None = None,
    target_lang: str = "eng_Latn",
    *,
    num_beams: int | None = None,
    rerank_weight: float | None = None,
    max_new_tokens: int = 128,
    batch_size: int = 256,
    on_long: str = "warn",
    progress: bool = False,
) -> list[str]:
    """Translate texts, or embeddings (n, embedding_size) from any encoder of the space; keeps the order.

    The translation of a text without a visible character is "". Without reranking the tokens are those of `generate`.

    Args:
        inputs: texts in any container of `encode`, or embeddings.
        source_lang: one code for all texts, one per text, or None ("Unspecified language").
        num_beams: 1 is greedy; None: as the model's generation config says.
        rerank_weight: weight of the cosine between the embeddings of a beam and of the sentence; 0 takes the most
            probable beam. None: as the model's generation config says. Only with a bottleneck.
        max_new_tokens: longest translation in tokens.
        batch_size: most decoder rows at a time; each beam is a row.
        on_long: as in `encode`; not "split" for a stage-1 checkpoint, whose decoder reads tokens.

    Raises:
        ValueError: an unknown language, or one that the decoder does not support; a number out of range; embeddings of
            wrong size, of integers, with NaN, or for a stage-1 checkpoint.
    """
    prompt = tokenizer.target.decoder_prompt_ids(target_lang)
    defaults = model.generation_config
    check_target_lang(model.decoder, target_lang)
    check_numbers(
        num_beams=num_beams,
        rerank_weight=rerank_weight,
        max_new_tokens=max_new_tokens,
        batch_size=batch_size,
    )
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs.float() if inputs.is_floating_point() else inputs).cpu().numpy()
    if not (isinstance(inputs, np.ndarray) and inputs.dtype.kind not in "OSTU"):
        inputs = texts_of(inputs)
        source_lang = langs_of(source_lang, len(inputs), "source_lang")
    if not len(inputs):
        return []
    ours = model.bottleneck and is_echo_decoder(model.decoder)
    if rerank_weight and not ours:
        raise ValueError("rerank_weight needs an Echo decoder of sentence embeddings")
    beams = num_beams if num_beams is not None else defaults.num_beams or 1
    if rerank_weight and beams == 1:
        raise ValueError(
            "rerank_weight chooses among beams, and num_beams 1 gives one: give more beams"
        )
    batch_size = max(1, batch_size // beams)
    if isinstance(inputs, np.ndarray):
        _check_embeddings(inputs, model.config.embedding_size)
    elif "text" not in getattr(model, "input_modalities", ("text",)):
        raise ValueError(
            "this model reads audio, not text: give the embeddings that encode_speech makes of the audio"
        )
    if not model.bottleneck:
        if isinstance(inputs, np.ndarray):
            raise ValueError(
                "the decoder of this stage-1 checkpoint reads tokens, not sentence embeddings: give texts"
            )
        options = dict(
            num_beams=beams, max_new_tokens=max_new_tokens, batch_size=batch_size, progress=progress
        )
        return _translate_tokens(model, tokenizer, inputs, source_lang, prompt, on_long, **options)
    if isinstance(inputs, np.ndarray):
        embeddings = inputs
        order = np.arange(len(inputs))
    else:
        embeddings = encode(model, tokenizer, inputs, source_lang, on_long=on_long)
        # Texts of similar length share a batch, so that they end at similar steps; no core ends with the longest ones.
        order = np.argsort([-len(text) for text in inputs], kind="stable")
    batches = np.array_split(
        order, -(-len(order) // batch_size)
    )  # equal ones, so that all cores end together

    def written(rows: np.ndarray) -> list[str]:
        vectors = torch.from_numpy(np.ascontiguousarray(embeddings[rows], np.float32)).to(
            model.device
        )
        if ours:
            options = dict(
                max_new_tokens=max_new_tokens, no_repeat_ngram_size=defaults.no_repeat_ngram_size
            )
            options |= dict(num_beams=beams, rerank_weight=rerank_weight)
            ids = decode_embeddings(model, tokenizer, vectors, target_lang, **options)
        else:
            ids = _generate(model, prompt, beams, max_new_tokens, sentence_embedding=vectors)
        return [
            text.strip() for text in tokenizer.target.batch_decode(ids, skip_special_tokens=True)
        ]

    in_threads = (
        ours and model.device.type == "cpu" and not has_hooks(model)
    )  # FSDP needs one order of calls
    results = one_per_core(written, batches) if in_threads else map(written, batches)
    texts = [""] * len(inputs)
    for rows, lines in zip(
        batches, tqdm(results, "Translating", len(batches), disable=not progress), strict=True
    ):
        for row, text in zip(rows, lines, strict=True):
            if isinstance(inputs, np.ndarray) or not is_blank(inputs[row]):
                texts[row] = text
    return texts


def _check_embeddings(embeddings: np.ndarray, size: int) -> None:
    if not np.issubdtype(embeddings.dtype, np.floating):
        raise ValueError(
            f"embeddings have type {embeddings.dtype}; give floats, as `encode` returns them"
        )
    if embeddings.ndim != 2 or embeddings.shape[1] != size:
        raise ValueError(f"embeddings have shape {embeddings.shape}; the decoder reads (n, {size})")
    check_finite(torch.from_numpy(np.asarray(embeddings, np.float32)))


def _generate(
    model, prompt: list[int], num_beams: int, max_new_tokens: int, **memory: Any
) -> torch.Tensor:
    check_prompt(model.decoder, prompt)
    rows = len(next(iter(memory.values())))
    start = torch.tensor([prompt] * rows, device=model.device)
    ids = model.generate(
        **memory,
        decoder_input_ids=start,
        num_beams=num_beams,
        do_sample=False,
        max_new_tokens=max_new_tokens,
    )
    return ids[:, len(prompt) :]


def _translate_tokens(
    model,
    tokenizer,
    texts,
    source_lang,
    prompt,
    on_long,
    *,
    num_beams,
    max_new_tokens,
    batch_size,
    progress,
) -> list[str]:
    """Translate with a stage-1 checkpoint, whose decoder reads all encoder states."""
    if on_long == "split":
        raise ValueError(
            "on_long='split' needs a decoder of sentence embeddings: give 'warn' or 'error' for a stage-1 checkpoint"
        )
    pieces = list(pieces_of(tokenizer, texts, source_lang, tokenizer.model_max_length, on_long))
    order = sorted(range(len(pieces)), key=lambda i: len(pieces[i][1]))
    out = [""] * len(pieces)
    for start in tqdm(range(0, len(out), batch_size), desc="Translating", disable=not progress):
        rows = order[start : start + batch_size]
        ids, mask = padded([pieces[i][1] for i in rows], tokenizer.pad_token_id)
        memory = {"input_ids": ids.to(model.device), "attention_mask": mask.to(model.device)}
        ids = _generate(model, prompt, num_beams, max_new_tokens, **memory)
        for row, text in zip(
            rows, tokenizer.target.batch_decode(ids, skip_special_tokens=True), strict=True
        ):
            if not is_blank(texts[row]):
                out[row] = text.strip()
    return out
