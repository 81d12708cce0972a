"""Importance of each unit of an encoder or decoder, estimated from its weights or measured on texts.

The importance of a unit is the mean square of its values, times the squared norm of the weights that read it:

    weight       the values are estimated from the weights that write the unit
    activation   the values are measured on texts, without padding

A unit that is never written or never read has importance 0. Tensors are float64 on the CPU. `prune` cuts the model.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from ...modeling import EchoDecoder, EchoEncoder, EchoForTranslation
from .layout import Attention, Layer, Layout, layout_of

_BATCH = 32

Stack = EchoEncoder | EchoDecoder
Carried = dict[nn.Module, Tensor]
"""Module -> (width,) mean squares of its input values. For a norm, the values are divided by their length first, so the
mean squares are 1 on average. For a decoder's `embedding_projection`, the output values are taken."""


def hidden_scores(layout: Layout, layers: Sequence[int], carried: Carried) -> Tensor:
    """(hidden_size,): importance of the dimensions of the residual stream; all norms of kept layers count equally."""
    total = 0.0
    for norm, readers in layout.sites(list(layers)):
        score = carried[norm] * norm_weight(norm).square() * sum(_read(linear) for linear in readers)
        total = total + score / score.sum().clamp(min=1e-300)
    return total


def head_scores(attention: Attention, carried: Carried) -> Tensor:
    """(key and value heads, query heads of each, head_dim): the values that a head adds to the residual stream."""
    score = carried[attention.output] * _read(attention.output)
    return score.view(attention.groups, attention.of_group, attention.head_dim)


def unit_scores(layer: Layer, carried: Carried) -> Tensor:
    """(intermediate_size,): the units of the feed-forward block."""
    return carried[layer.leave] * _read(layer.leave)


def memory_scores(decoder: EchoDecoder, layout: Layout, layers: Sequence[int], carried: Carried) -> Tensor:
    """(hidden_size,): the projected sentence embedding, as the values of cross-attention read it."""
    read = sum(_read(layout.layers[i].attention[1].value) for i in layers)
    return carried[decoder.model.embedding_projection] * read


def stream_by_weights(layout: Layout) -> Tensor:
    """(hidden_size,), 1 on average: how strongly the weights write each dimension of the residual stream."""
    writers = [linear for layer in layout.layers for linear in (*(a.output for a in layer.attention), layer.leave)]
    written = [_read(layout.embeddings[0]), *map(_written, writers)]
    stream = sum(share / share.sum().clamp(min=1e-300) for share in written)
    return stream / stream.mean().clamp(min=1e-300)


def carried_by_weights(stack: Stack) -> Carried:
    """Estimate the values from weights: inputs have length 1, the residual stream is that of `stream_by_weights`."""
    if (layout := layout_of(stack)) is None:  # layers can be dropped, and nothing is chosen
        return {}
    stream = stream_by_weights(layout)
    carried: Carried = {norm: stream for norm, _ in layout.sites(list(range(len(layout.layers))))}
    for layer in layout.layers:
        for attention in layer.attention:
            values = _written(attention.value, attention.norm).view(-1, 1, attention.head_dim)
            carried[attention.output] = values.expand(-1, attention.of_group, -1).flatten()
        units = [_written(linear, layer.norms[1][0]) for linear in layer.enter]
        carried[layer.leave] = torch.stack(units).prod(0)
    if isinstance(stack, EchoDecoder):
        carried[stack.model.embedding_projection] = _written(stack.model.embedding_projection)
    return carried


@torch.no_grad()
def carried_on_texts(
    model: EchoEncoder | EchoForTranslation,
    tokenizer,
    texts: Sequence[str],
    lang: str | Sequence[str | None] | None = None,
    *,
    progress: bool = False,
) -> Carried:
    """Measure the values of encoder and decoder on texts; the decoder rebuilds each text from its embedding.

    Args:
        lang: a code for all texts, one code per text, or None ("Unspecified language").

    Raises:
        ValueError: no texts, or a wrong number of languages.
    """
    if not texts:
        raise ValueError("activation importance needs texts to measure on, and was given none")
    codes = [lang] * len(texts) if lang is None or isinstance(lang, str) else list(lang)
    if len(codes) != len(texts):
        raise ValueError(f"{len(texts)} texts but {len(codes)} languages: give one code, or one per text")
    meter = _Meter()
    for stack in (model.encoder, model.decoder) if isinstance(model, EchoForTranslation) else (model,):
        meter.watch(stack)
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    training = model.training
    model.eval()
    try:
        for start in tqdm(range(0, len(order), _BATCH), desc="Measuring", disable=not progress):
            batch = order[start : start + _BATCH]
            _read_batch(model, tokenizer, [texts[i] for i in batch], [codes[i] for i in batch], meter)
    finally:
        model.train(training)
        meter.remove()
    return meter.means()


def _read_batch(model, tokenizer, texts: list[str], codes: list[str | None], meter: _Meter) -> None:
    length = min(tokenizer.model_max_length, model.config.max_position_embeddings)
    options = dict(padding=True, truncation=True, max_length=length, padding_side="right", return_tensors="pt")
    inputs = tokenizer(texts, lang=codes, **options).to(model.device)
    decoded = {}
    if isinstance(model, EchoForTranslation):
        heads = [tokenizer.decoder_prompt_ids(code) for code in codes]
        ids = [(head + text)[:length] for head, text in zip(heads, tokenizer.text_ids(texts), strict=True)]
        known = model.decoder.config.vocab_size  # a decoder may know only the first tokens
        ids = [[token if token < known else tokenizer.sep_token_id for token in row] for row in ids]
        width = max(map(len, ids))
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in ids]).to(model.device)
        ids = torch.tensor([row + [tokenizer.pad_token_id] * (width - len(row)) for row in ids]).to(model.device)
        meter.decoder_mask = mask.bool()
        decoded = dict(decoder_input_ids=ids, decoder_attention_mask=mask, compute_logits=False)
    meter.encoder_mask = inputs["attention_mask"].bool()
    model(**inputs, **decoded)


class _Meter:
    """Sums of squares of the inputs of the watched modules, over the tokens of `encoder_mask` and `decoder_mask`."""

    encoder_mask: Tensor
    decoder_mask: Tensor

    def __init__(self):
        self.sums: Carried = {}
        self.counts: dict[nn.Module, int] = {}
        self.hooks = []

    def watch(self, stack: Stack) -> None:
        layout, decodes = layout_of(stack), isinstance(stack, EchoDecoder)
        if layout is None:
            return
        norms = {norm for norm, _ in layout.sites(list(range(len(layout.layers))))}
        linears = {layer.leave for layer in layout.layers}
        linears |= {attention.output for layer in layout.layers for attention in layer.attention}
        for module in norms | linears:
            self.hooks.append(module.register_forward_pre_hook(self._enters(module in norms, decodes)))
        if decodes:
            self.hooks.append(stack.model.embedding_projection.register_forward_hook(self._leaves))

    def _enters(self, is_norm: bool, decodes: bool):
        def hook(module, inputs):
            values = inputs[0].double()
            if values.shape[1] > 1:  # a single vector is a sentence, not a token
                values = values[self.decoder_mask if decodes else self.encoder_mask]
            squares = values.flatten(0, -2).square()
            if is_norm:
                squares = squares / squares.mean(-1, keepdim=True).clamp(min=1e-300)
            self._add(module, squares)

        return hook

    def _leaves(self, module, inputs, output) -> None:
        self._add(module, output.double().flatten(0, -2).square())

    def _add(self, module, squares: Tensor) -> None:
        self.sums[module] = self.sums.get(module, 0) + squares.sum(0).cpu()
        self.counts[module] = self.counts.get(module, 0) + len(squares)

    def means(self) -> Carried:
        return {module: total / self.counts[module] for module, total in self.sums.items()}

    def remove(self) -> None:
        for hook in self.hooks:
            hook.remove()


def norm_weight(norm: nn.Module) -> Tensor:
    """Weights of a norm; 1 if the model has none there (`final_norm=False`)."""
    weight = getattr(norm, "weight", None)
    return torch.ones((), dtype=torch.float64) if weight is None else weight.detach().double().cpu()


def _read(module: nn.Module) -> Tensor:
    """(in,) squared norms of the columns; 1 for no projection."""
    if isinstance(module, nn.Identity):
        return torch.ones((), dtype=torch.float64)
    return torch.linalg.vector_norm(module.weight.detach(), dim=0, dtype=torch.float64).square().cpu()


def _written(linear: nn.Module, norm: nn.Module | None = None) -> Tensor:
    """(out,) squared norms of the rows, the inputs scaled by the norm before them."""
    weight = linear.weight.detach().double().cpu()
    return (weight if norm is None else weight * norm_weight(norm)).square().sum(1)
