"""Translate texts or embeddings: encode in token-budget batches, decode in batches of similar
length."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm
from transformers import AutoConfig, AutoModelForSeq2SeqLM

from ..languages import ENGLISH
from ..modeling import EchoForTranslation, EchoTokenizer
from ..modeling.generation_echo import (
    check_numbers,
    check_prompt,
    check_target_lang,
    is_echo_decoder,
)
from ..modeling.modeling_echo_base import DECODER_FOLDER, check_finite
from ..modeling.modeling_echo_sonar import SonarForTranslation
from ..modeling.packed_echo import has_hooks
from ..modeling.prompting_echo import (
    check_known_langs,
    check_no_lists,
    is_blank,
    langs_of,
    texts_of,
)
from ..modeling.reranking_echo import decode_embeddings
from ..modeling.translation_echo_speech import SPEECH, EchoSpeechForTranslation
from ..utils.bars import hidden
from ..utils.cores import one_per_core
from .encode import encode, open_tokenizer, opening, padded, pick_device, pick_dtype, pieces_of

Translator = EchoForTranslation | SonarForTranslation | EchoSpeechForTranslation


def load_translator(
    name_or_path: str | Path, *, device: str | None = None, dtype: str = "auto"
) -> tuple[Translator, EchoTokenizer]:
    """Load (EchoForTranslation, EchoTokenizer) from a training checkpoint or release, in a folder
    or on the Hub.

    A converted SONAR with a decoder gives (SonarForTranslation, SonarTokenizer); the release of a
    speech encoder with a decoder gives (EchoSpeechForTranslation, EchoTokenizer), which translate
    embeddings of audio.

    Arguments and errors as of `load_encoder`.
    """
    place = pick_device(device)
    with opening(name_or_path) as name:
        kind = AutoConfig.from_pretrained(name).model_type
        model = AutoModelForSeq2SeqLM.from_pretrained(name, dtype=pick_dtype(dtype, place))
        tokenizer = open_tokenizer(name, DECODER_FOLDER if kind == SPEECH else "")
        if kind != SPEECH:
            tokenizer.open_target(name)
    return model.to(place).eval(), tokenizer


@torch.inference_mode()
def translate(  # noqa: PLR0913 (the options of `hf-echo translate`)
    model: Translator,
    tokenizer: EchoTokenizer,
    inputs: Iterable[str] | np.ndarray | torch.Tensor,
    source_lang: str | Iterable[str | None] | None = None,
    target_lang: str = ENGLISH,
    *,
    num_beams: int | None = None,
    rerank_weight: float | None = None,
    max_new_tokens: int = 128,
    batch_size: int = 256,
    on_long: str = "warn",
    progress: bool = False,
) -> list[str]:
    """Translate texts, or embeddings (n, embedding_size) from any encoder of the space; keeps the
    order.

    The translation of a text without a visible character is "". Without reranking the tokens are
    those of `generate`.

    Args:
        inputs: texts in any container of `encode`, or embeddings.
        source_lang: one code for all texts, one per text, or None ("Unspecified language").
        num_beams: 1 is greedy; None: as the model's generation config says.
        rerank_weight: weight of the cosine between the embeddings of a beam and of the sentence; 0
            takes the most probable beam. None: as the model's generation config says. Only with a
            bottleneck.
        max_new_tokens: longest translation in tokens.
        batch_size: most decoder rows at a time; each beam is a row.
        on_long: as in `encode`; not "split" for a stage-1 checkpoint, whose decoder reads tokens.

    Raises:
        ValueError: an unknown language, or one that the decoder does not support; a number out of
            range; embeddings of wrong size, of integers, with NaN, or for a stage-1 checkpoint.
    """
    tokenizer.target.decoder_prompt_ids(target_lang)  # refuses an unknown language
    check_target_lang(model.decoder, target_lang)
    check_numbers(
        num_beams=num_beams,
        rerank_weight=rerank_weight,
        max_new_tokens=max_new_tokens,
        batch_size=batch_size,
    )
    vectors = _vectors_of(inputs)
    texts: list[str] = []
    langs: str | list[str | None] | None = None
    if vectors is None:
        if isinstance(inputs, (list, tuple)):
            check_no_lists(inputs)
        texts = texts_of(inputs)
        langs = langs_of(source_lang, len(texts), "source_lang")
        check_known_langs(langs, getattr(model.config, "languages", None))
    if not len(texts if vectors is None else vectors):
        return []
    beams = num_beams if num_beams is not None else model.generation_config.num_beams or 1
    _check_reranking(model, rerank_weight, beams)
    if vectors is None:
        _check_reads_texts(model)
    else:
        _check_embeddings(vectors, model)

    decoding = Decoding(
        model,
        tokenizer,
        target_lang,
        beams,
        rerank_weight,
        max_new_tokens,
        batch_size=max(1, batch_size // beams),
        progress=progress,
    )
    if vectors is not None:
        return decoding.of_embeddings(vectors, np.arange(len(vectors)))
    if model.bottleneck:
        embeddings = encode(model, tokenizer, texts, langs, on_long=on_long)
        # Texts of similar length share a batch, so that they end at similar steps; no core ends with the longest ones.
        order = np.argsort([-len(text) for text in texts], kind="stable")
        translations = decoding.of_embeddings(embeddings, order)
    else:
        translations = decoding.of_tokens(texts, langs, on_long)
    for row, text in enumerate(texts):
        if is_blank(text):
            translations[row] = ""
    return translations


def _vectors_of(inputs: Iterable[str] | np.ndarray | torch.Tensor) -> np.ndarray | None:
    """Embeddings as an array; None where the inputs are texts."""
    if isinstance(inputs, torch.Tensor):
        return (inputs.float() if inputs.is_floating_point() else inputs).cpu().numpy()
    if isinstance(inputs, np.ndarray) and inputs.dtype.kind not in "OSTU":
        return inputs
    return None


def _has_fast_decoder(model: Translator) -> bool:
    """Whether the decoder reads one vector by the code of `generation_echo`, not by transformers'
    `generate`."""
    return model.bottleneck and is_echo_decoder(model.decoder)


def _check_reranking(model: Translator, rerank_weight: float | None, beams: int) -> None:
    if rerank_weight and not _has_fast_decoder(model):
        raise ValueError("rerank_weight needs an Echo decoder of sentence embeddings")
    if rerank_weight and beams == 1:
        raise ValueError(
            "rerank_weight chooses among beams, and num_beams 1 gives one: give more beams"
        )


def _check_reads_texts(model: Translator) -> None:
    if "text" not in getattr(model, "input_modalities", ("text",)):
        raise ValueError(
            "this model reads audio, not text: give the embeddings that encode_speech makes of the audio"
        )


def _check_embeddings(embeddings: np.ndarray, model: Translator) -> None:
    """Raises ValueError for embeddings that the decoder cannot read."""
    size = model.config.embedding_size
    if not np.issubdtype(embeddings.dtype, np.floating):
        raise ValueError(
            f"embeddings have type {embeddings.dtype}; give floats, as `encode` returns them"
        )
    if embeddings.ndim != 2 or embeddings.shape[1] != size:
        raise ValueError(f"embeddings have shape {embeddings.shape}; the decoder reads (n, {size})")
    check_finite(torch.from_numpy(np.asarray(embeddings, np.float32)))
    if not model.bottleneck:
        raise ValueError(
            "the decoder of this stage-1 checkpoint reads tokens, not sentence embeddings: give texts"
        )


@dataclass(frozen=True)
class Decoding:
    """How the translations of one call are written; fields as the arguments of `translate`,
    `batch_size` in rows."""

    model: Translator
    tokenizer: EchoTokenizer
    target_lang: str
    num_beams: int
    rerank_weight: float | None
    max_new_tokens: int
    batch_size: int
    progress: bool

    def of_embeddings(self, embeddings: np.ndarray, order: np.ndarray) -> list[str]:
        """Translations of (n, embedding_size) vectors, written in the order of these rows."""
        model = self.model
        # Batches of one size, so that all cores end together.
        batches = np.array_split(order, -(-len(order) // self.batch_size))

        def written(rows: np.ndarray) -> list[str]:
            vectors = np.ascontiguousarray(embeddings[rows], np.float32)
            return self._texts(self._ids_of(torch.from_numpy(vectors).to(model.device)))

        # FSDP needs one order of calls on all ranks, so no threads there.
        in_threads = (
            _has_fast_decoder(model) and model.device.type == "cpu" and not has_hooks(model)
        )
        results = one_per_core(written, batches) if in_threads else map(written, batches)
        translations = [""] * len(embeddings)
        bar = tqdm(results, "Translating", len(batches), disable=hidden(self.progress))
        for rows, texts in zip(batches, bar, strict=True):
            for row, text in zip(rows, texts, strict=True):
                translations[row] = text
        return translations

    def of_tokens(
        self, texts: list[str], source_lang: str | list[str | None] | None, on_long: str
    ) -> list[str]:
        """Translations by a stage-1 checkpoint, whose decoder reads all encoder states."""
        if on_long == "split":
            raise ValueError(
                "on_long='split' needs a decoder of sentence embeddings: give 'warn' or 'error' for a "
                "stage-1 checkpoint"
            )
        tokenizer = self.tokenizer
        pieces = pieces_of(tokenizer, texts, source_lang, tokenizer.model_max_length, on_long)
        ids_of_texts = [ids for _, ids in pieces]
        # Texts of like length share a batch: less padding.
        order = sorted(range(len(ids_of_texts)), key=lambda row: len(ids_of_texts[row]))
        starts = range(0, len(order), self.batch_size)
        translations = [""] * len(texts)
        for start in tqdm(starts, desc="Translating", disable=hidden(self.progress)):
            rows = order[start : start + self.batch_size]
            ids, mask = padded([ids_of_texts[row] for row in rows], tokenizer.pad_token_id)
            device = self.model.device
            written = self._generate(input_ids=ids.to(device), attention_mask=mask.to(device))
            for row, text in zip(rows, self._texts(written), strict=True):
                translations[row] = text
        return translations

    def _ids_of(self, vectors: torch.Tensor) -> list[list[int]] | torch.Tensor:
        """(rows, embedding_size) -> the tokens of the translations."""
        if not _has_fast_decoder(self.model):
            return self._generate(sentence_embedding=vectors)
        return decode_embeddings(
            self.model,
            self.tokenizer,
            vectors,
            self.target_lang,
            num_beams=self.num_beams,
            rerank_weight=self.rerank_weight,
            max_new_tokens=self.max_new_tokens,
            no_repeat_ngram_size=self.model.generation_config.no_repeat_ngram_size,
        )

    def _generate(self, **memory: Any) -> torch.Tensor:
        """(rows, new) tokens by transformers' `generate`, behind the prompt."""
        prompt = self.tokenizer.target.decoder_prompt_ids(self.target_lang)
        check_prompt(self.model.decoder, prompt)
        rows = len(next(iter(memory.values())))
        ids = self.model.generate(
            **memory,
            decoder_input_ids=torch.tensor([prompt] * rows, device=self.model.device),
            num_beams=self.num_beams,
            do_sample=False,
            max_new_tokens=self.max_new_tokens,
        )
        return ids[:, len(prompt) :]

    def _texts(self, ids: list[list[int]] | torch.Tensor) -> list[str]:
        texts = self.tokenizer.target.batch_decode(ids, skip_special_tokens=True)
        return [text.strip() for text in texts]
