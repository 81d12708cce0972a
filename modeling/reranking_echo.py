"""Decoding of sentence embeddings: greedy, beam search, or beams reranked by the embedding of what
they say.

A decoder that reads one vector sees it through its own weights alone. The encoder of its space can
check the result: it embeds each beam, and the beam whose embedding is closest to the sentence's
wins. With echo-nano this is worth more than beam search (docs/log.md). It is not in the papers.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import PreTrainedModel

from .beams_echo import beam_candidates, beam_decode
from .generation_echo import check_numbers, greedy_decode
from .tokenization_echo import EchoTokenizer


def rerank_weight_of(model: PreTrainedModel, weight: float | None) -> float:
    """The weight that a call asks for, or that of the model's generation config;
    0 without reranking."""
    check_numbers(rerank_weight=weight)
    asked = weight is not None
    weight = float(
        (weight if asked else getattr(model.generation_config, "rerank_weight", None)) or 0.0
    )
    reads_text = "text" in getattr(model, "input_modalities", ("text",))
    if weight and asked and not reads_text:
        raise ValueError(
            "rerank_weight needs a text encoder beside the decoder, and this model has a speech encoder"
        )
    return weight if reads_text else 0.0


def decode_embeddings(
    model: PreTrainedModel,
    tokenizer: EchoTokenizer,
    sentence_embedding: torch.Tensor,
    target_lang: str,
    *,
    num_beams: int | None = None,
    rerank_weight: float | None = None,
    **options: Any,
) -> list[list[int]]:
    """Token ids of the translations of sentence embeddings (batch, embedding_size), without prompt
    and end.

    Args:
        model: EchoForTranslation or EchoSpeechForTranslation.
        num_beams: 1 is greedy; None: the value of the generation config.
        rerank_weight: of the cosine between the embeddings of a beam and of the sentence, beside
            the beam's mean log-probability; 0 takes the most probable beam. None: the value of the
            generation config. Greedy decoding has nothing to rerank.
        options: as in `greedy_decode`.
    """
    prompt = tokenizer.target.decoder_prompt_ids(target_lang)
    check_numbers(num_beams=num_beams, max_new_tokens=options.get("max_new_tokens"))
    weight = rerank_weight_of(model, rerank_weight)
    beams = num_beams if num_beams is not None else model.generation_config.num_beams or 1
    if beams == 1:
        return greedy_decode(model.decoder, sentence_embedding, prompt, **options)
    if not weight:
        return beam_decode(model.decoder, sentence_embedding, prompt, num_beams=beams, **options)
    candidates, scores = beam_candidates(
        model.decoder, sentence_embedding, prompt, num_beams=beams, **options
    )
    if not candidates:
        return []
    texts = tokenizer.target.batch_decode(
        [beam for row in candidates for beam in row], skip_special_tokens=True
    )
    # Each candidate is embedded, and compared with what it translates.
    close = _cosines(
        model, tokenizer, sentence_embedding, [text.strip() for text in texts], target_lang
    )
    best = (scores + weight * close).argmax(1).tolist()
    return [row[number] for row, number in zip(candidates, best, strict=True)]


def _cosines(
    model: PreTrainedModel,
    tokenizer: EchoTokenizer,
    sentence_embedding: torch.Tensor,
    texts: list[str],
    lang: str,
) -> torch.Tensor:
    """(batch, beams) cosines of each sentence embedding and the embeddings of its texts."""
    embedded = sentence_embedding.new_zeros(len(texts), sentence_embedding.shape[1])
    written = [number for number, text in enumerate(texts) if text]
    if written:
        inputs = tokenizer(
            [texts[n] for n in written],
            lang=lang,
            truncation=True,
            padding=True,
            return_tensors="pt",
        )
        encoder: Any = model.encoder
        with torch.inference_mode():
            encoded = encoder(**inputs.to(sentence_embedding.device))
        beam_embeddings = encoded.sentence_embedding
        embedded[written] = beam_embeddings.to(embedded.dtype)
    beams = embedded.unflatten(0, (len(sentence_embedding), -1))
    return torch.nn.functional.cosine_similarity(beams, sentence_embedding[:, None], dim=-1)
