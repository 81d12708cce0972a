"""Encoded documents of Spectrum, and what is asked of them: answers, further sentences, scores of
options (OS 9.1).

A document is encoded once. `EncodedDocument` holds the keys and values of the tower's layers, so
that sentences can be appended, and those of the decoder's cross-attention, so that a prompt costs
its own tokens only. It can be used any number of times. Texts become embeddings outside: the caller
gives `encode`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from .masks_spectrum import PAD, tower_mask
from .modeling_echo_base import check_finite

Layers = list[tuple[torch.Tensor, torch.Tensor]]


@dataclass
class EncodedDocument:
    """One or more documents of one model, ready to be read by the decoder.

    Attributes:
        states: (documents, slots, decoder hidden); the padding is at the end or in between.
        mask: (documents, slots) bool, False is padding.
        positions: (documents, slots), the place in the document; 0 is BOE.
        next_embedding: (documents, embedding_size), the predicted embedding of the next sentence.
        tower, cross: keys and values per layer, (documents, heads, slots, head size).
    """

    states: torch.Tensor
    mask: torch.Tensor
    positions: torch.Tensor
    next_embedding: torch.Tensor
    tower: Layers
    cross: Layers

    def __len__(self) -> int:
        return len(self.states)

    def select(self, rows: torch.Tensor) -> EncodedDocument:
        """The documents of these rows; a row may come several times."""
        return EncodedDocument(
            states=self.states[rows],
            mask=self.mask[rows],
            positions=self.positions[rows],
            next_embedding=self.next_embedding[rows],
            tower=[(keys[rows], values[rows]) for keys, values in self.tower],
            cross=[(keys[rows], values[rows]) for keys, values in self.cross],
        )


class SpectrumGeneration:
    """Methods of SpectrumForCausalLM."""

    config: Any
    tower: Any
    decoder: Any
    device: Any
    memory: Any
    generation_config: Any

    @torch.no_grad()
    def encode_document(
        self, embeddings: torch.Tensor | Sequence[torch.Tensor], *, bidirectional: bool = True
    ) -> EncodedDocument:
        """Run the tower over documents, and the decoder's key and value projections over its
        states.

        Args:
            embeddings: (sentences, embedding_size) of one document, or a list of such, one per
                document.
            bidirectional: sentences read each other in both directions, as in prefix LM and
                fine-tuning; False: only those before them, as in sentence-level language modelling.

        Raises:
            ValueError: a tower without BOE; embeddings with NaN; too many sentences.
        """
        documents = [embeddings] if _is_matrix(embeddings) else list(embeddings)
        if not self.tower.boe.any():
            raise ValueError(
                "the tower has no BOE: call model.tower.set_boe(encode([model.config.boe_text])[0])"
            )
        documents = [torch.as_tensor(document, device=self.device) for document in documents]
        limit = self.config.max_position_embeddings
        for number, document in enumerate(documents, 1):
            check_finite(document)
            if len(document) > limit:
                raise ValueError(
                    f"document {number} has {len(document):,} sentences, the limit is {limit:,}: split it"
                )

        # BOE stands before the sentences: (documents, 1 + longest, embedding_size), with padding
        # behind.
        lengths = torch.tensor([len(document) + 1 for document in documents], device=self.device)
        padded = torch.nn.utils.rnn.pad_sequence(documents, batch_first=True)
        padded = torch.nn.functional.pad(padded, (0, 0, 1, 0))
        positions = torch.arange(padded.shape[1], device=self.device).expand(len(documents), -1)
        mask = positions < lengths[:, None]
        ids = torch.where(mask, 0, PAD)

        # The tower reads them once; its cache lets `append_sentences` go on from here.
        prefix = lengths[:, None].expand_as(positions) if bidirectional else None
        output = self.tower(
            padded, ids, positions, allowed=tower_mask(ids, positions, prefix), use_cache=True
        )
        last = (torch.arange(len(documents), device=self.device), lengths - 1)
        return self._with_states(
            output.last_hidden_state,
            mask=mask,
            positions=positions,
            next_embedding=output.next_embedding[last],
            tower=_layers(output.past_key_values),
        )

    @torch.no_grad()
    def append_sentences(
        self, document: EncodedDocument, embeddings: torch.Tensor, going: torch.Tensor | None = None
    ) -> EncodedDocument:
        """A new encoded document with one more sentence per row; the tower computes this sentence
        only.

        Args:
            embeddings: (documents, embedding_size).
            going: (documents,) bool; rows that are False get padding.
        """
        if going is None:
            going = torch.ones(len(document), dtype=torch.bool, device=self.device)
        # (documents, 1): the place behind the last sentence of each.
        position = torch.where(document.mask, document.positions, -1).amax(1, keepdim=True) + 1
        mask = torch.cat([document.mask, going[:, None]], dim=1)
        # Also a row that does not go on sees something: a softmax over nothing is NaN.
        seen = mask.clone()
        seen[:, -1] = True
        output = self.tower(
            torch.as_tensor(embeddings, device=self.device)[:, None],
            torch.zeros_like(position),
            position,
            past_key_values=_cache(document.tower),
            allowed=seen[:, None],
            use_cache=True,
        )
        next_embedding = torch.where(
            going[:, None], output.next_embedding[:, -1], document.next_embedding
        )
        new = self._with_states(
            output.last_hidden_state,
            mask=mask,
            positions=torch.cat([document.positions, position], dim=1),
            next_embedding=next_embedding,
            tower=_layers(output.past_key_values),
        )
        # Keys and values of the token decoder's cross-attention, layer by layer, and the states
        # themselves grow.
        cross = []
        for old_layer, new_layer in zip(document.cross, new.cross, strict=True):
            keys, values = zip(old_layer, new_layer, strict=True)
            cross.append((torch.cat(keys, dim=2), torch.cat(values, dim=2)))
        return replace(new, states=torch.cat([document.states, new.states], dim=1), cross=cross)

    @torch.no_grad()
    def generate(
        self,
        document: EncodedDocument,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Write one text per prompt, as transformers' `generate` does: greedy, sampling, beams,
        streamer.

        Args:
            document: one document for all prompts, or one per prompt.
            input_ids: (prompts, tokens), padded on the left, where `attention_mask` is 0; by
                default the prompt of a new sentence.
        """
        if input_ids is None:
            prompt = torch.tensor([self.config.prompt_ids], device=self.device)
            input_ids = prompt.expand(len(document), -1)
        document = _for_prompts(document, len(input_ids))
        # Each beam and each returned text has its own row of the cache.
        settings = kwargs.get("generation_config") or self.generation_config
        copies = 1
        for name in ("num_beams", "num_return_sequences"):
            copies = max(copies, kwargs.get(name) or getattr(settings, name, None) or 1)
        rows = torch.arange(len(document), device=self.device).repeat_interleave(copies)
        return self.decoder.generate(
            encoder_outputs=BaseModelOutput(last_hidden_state=document.states),
            attention_mask=document.mask.long(),
            decoder_input_ids=input_ids,
            decoder_attention_mask=attention_mask,
            past_key_values=self._decoder_cache(document.select(rows)),
            **kwargs,
        )

    @torch.no_grad()
    def generate_sentences(
        self,
        document: EncodedDocument,
        encode: Callable[[list[str]], Any],
        tokenizer: Any,
        *,
        max_sentences: int = 10,
        **kwargs: Any,
    ) -> Iterator[list[str | None]]:
        """Continue documents sentence by sentence: write, encode what was written, append it to the
        tower, repeat.

        Each step yields the next sentence of every document, None where a document has ended
        (an empty sentence). The caller may stop at any step. A document of `encode_document(...,
        bidirectional=False)` is what sentence-level language modelling was trained on.

        Args:
            encode: texts -> (texts, embedding_size), the encoder of the space.
            tokenizer: the decoder's.
            kwargs: of transformers' `generate`; one text per document.
        """
        going = torch.ones(len(document), dtype=torch.bool, device=self.device)
        for _ in range(max_sentences):
            # Documents that have ended write no more.
            rows = going.nonzero()[:, 0]
            written = self.generate(document.select(rows), **kwargs)
            ids = written[:, len(self.config.prompt_ids) :]
            texts = [text.strip() for text in tokenizer.batch_decode(ids, skip_special_tokens=True)]
            sentences: list[str | None] = [None] * len(document)
            for row, text in zip(rows.tolist(), texts, strict=True):
                sentences[row] = text or None
            going = torch.tensor([text is not None for text in sentences], device=self.device)
            if not going.any():
                return
            yield sentences
            # What was written is read as the next sentence.
            new = torch.zeros(len(document), self.config.embedding_size, device=self.device)
            vectors = encode([text for text in sentences if text])
            new[going] = torch.as_tensor(vectors, device=self.device).to(new)
            document = self.append_sentences(document, new, going)

    @torch.no_grad()
    def score_options(
        self,
        document: EncodedDocument,
        options: Sequence[Sequence[Sequence[int]]],
        prompts: Sequence[Sequence[int]] | None = None,
    ) -> torch.Tensor:
        """Negative log likelihood of each option behind its document and prompt, in one batch:
        (rows, options).

        Args:
            document: one for all rows, or one per row.
            options: for each row the token ids of its options, end token included where it counts.
            prompts: token ids in front of each row's options; by default the prompt of a new
                sentence.
        """
        prompts = [self.config.prompt_ids] * len(options) if prompts is None else prompts
        document = _for_prompts(document, len(options))
        count = len(options[0])
        # Prompt and option of each row and option as one line: (rows * options, width).
        rows = torch.arange(len(options), device=self.device).repeat_interleave(count)
        lines = []
        starts = []
        ends = []
        for prompt, options_of_row in zip(prompts, options, strict=True):
            for option in options_of_row:
                lines.append(torch.tensor([*prompt, *option], device=self.device))
                starts.append(len(prompt) - 1)
                ends.append(len(prompt) + len(option) - 1)
        ids = torch.nn.utils.rnn.pad_sequence(lines, batch_first=True)
        # Only tokens of the options count, not those of prompts and padding:
        # (rows * options, width - 1).
        place = torch.arange(ids.shape[1] - 1, device=self.device)
        is_behind_prompt = place >= torch.tensor(starts, device=self.device)[:, None]
        counted = is_behind_prompt & (place < torch.tensor(ends, device=self.device)[:, None])
        document_of_line = document.select(rows)
        # The likelihood of each counted token behind its document.
        hidden = self.decoder.model(
            input_ids=ids[:, :-1],  # padding is at the end, where the causal mask hides it
            memory=document_of_line.states,
            memory_mask=document_of_line.mask.long(),
            past_key_values=self._decoder_cache(document_of_line),
        ).last_hidden_state
        log_likelihood = hidden.new_zeros(counted.shape, dtype=torch.float32)
        logits = self.decoder.lm_head(hidden[counted]).float()
        log_likelihood[counted] = -torch.nn.functional.cross_entropy(
            logits, ids[:, 1:][counted], reduction="none"
        )
        return -log_likelihood.sum(1).view(len(options), count)

    def _with_states(self, states: torch.Tensor, **fields: Any) -> EncodedDocument:
        """States of the tower -> an encoded document, with keys and values of the decoder's
        cross-attention."""
        memory = self.memory(states)
        attentions = [layer.cross_attn for layer in self.decoder.model.layers]
        cross = [(a._heads(a.k_proj(memory)), a._heads(a.v_proj(memory))) for a in attentions]
        return EncodedDocument(states=memory, cross=cross, **fields)

    def _decoder_cache(self, document: EncodedDocument) -> EncoderDecoderCache:
        cache = EncoderDecoderCache(
            DynamicCache(config=self.decoder.config), _cache(document.cross)
        )
        cache.is_updated = dict.fromkeys(range(len(document.cross)), True)
        return cache


def _is_matrix(embeddings: Any) -> bool:
    return getattr(embeddings, "ndim", None) == 2


def _for_prompts(document: EncodedDocument, prompts: int) -> EncodedDocument:
    if len(document) == prompts:
        return document
    return document.select(torch.zeros(prompts, dtype=torch.long, device=document.states.device))


def _layers(cache: Any) -> Layers:
    return [(layer.keys, layer.values) for layer in cache.layers]


def _cache(layers: Layers) -> DynamicCache:
    """A new cache with these keys and values; appending to it leaves them as they are."""
    cache = DynamicCache()
    for number, (keys, values) in enumerate(layers):
        cache.update(keys, values, number)
    return cache
