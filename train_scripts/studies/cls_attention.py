"""Attention of the CLS token: its entropy, a plot of it, and the value of trained pooling
(MEXMA 5.6, Table 10, G).

    python train_scripts/studies/cls_attention.py MODEL a.txt fra_Latn b.txt eng_Latn
    python train_scripts/studies/cls_attention.py MODEL a.txt fra_Latn b.txt eng_Latn --plot out.html --beside OTHER

Functions take a model with attentions (an EchoEncoder, any transformers encoder) and tokenized
batches: dicts with input_ids and attention_mask (batch, seq), padded on either side. --plot draws
the first --lines lines of both files, a row for each model and language, as MEXMA's Figures 7 to 10
do.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from study_parts import command_line

from hf_echo.evaluation import xsim
from hf_echo.evaluation.tokens.token_states import evaluating
from hf_echo.inference import load_encoder
from hf_echo.stages.token import own_tokens
from hf_echo.utils.files import write_text
from hf_echo.utils.text import read_lines
from hf_echo.utils.vectors import unit_length

Batch = Mapping[str, torch.Tensor]
WordMask = Callable[[Batch], torch.Tensor]
BATCH = 32  # texts that the plot encodes together


@torch.inference_mode()
def cls_attention_entropy(
    model: Any, batches: Iterable[Batch], word_mask: WordMask | None = None
) -> dict[str, Any]:
    """Entropy (nats, mean over texts) of the attention of the first token (CLS), by layer and head
    (MEXMA 5.6, G).

    A head's entropy is computed per text, then averaged; the paper does not say so, but the entropy
    of averaged heads would be larger.

    Args:
        word_mask: batch -> (batch, seq) bool, true for the text's own tokens. Without BOS, EOS and
            a prompt the remaining weights are divided by their sum: only so can the entropy grow,
            as MEXMA's does (2.5 to 3.0).

    Returns:
        `entropy` of the last layer over its heads (the paper: LaBSE 3.4, MEXMA 2.5); `uniform`:
        ln(tokens), the largest possible; `heads`: (layers, heads) array. With `word_mask` also
        `entropy_of_words` (LaBSE 3.5, MEXMA 3.0) and `uniform_of_words`, over the texts that have
        words.

    Raises:
        ValueError: no batches, or a text without tokens.
    """
    entropies = []
    lengths = []
    word_entropies = []
    word_counts = []
    for batch, weights in _cls_weights(model, batches):
        entropies.append(_entropy(weights))
        lengths += batch["attention_mask"].sum(1).tolist()
        if word_mask is None:
            continue
        words = word_mask(batch).bool()
        has_words = words.any(1)
        # (texts with words, heads, seq) of the last layer
        of_words = weights[-1][has_words] * words[has_words, None, :]
        word_entropies.append(_entropy(of_words).mean(1))
        word_counts += words.sum(1)[has_words].tolist()
    heads = np.concatenate(entropies, axis=1).mean(axis=1)
    report = {
        "entropy": float(heads[-1].mean()),
        "uniform": float(np.log(lengths).mean()),
        "heads": heads,
    }
    if word_mask is not None:
        report["entropy_of_words"] = float(np.concatenate(word_entropies).mean())
        report["uniform_of_words"] = float(np.log(word_counts).mean())
    return report


@torch.inference_mode()
def attention_on_words(
    model: Any, batches: Iterable[Batch], word_mask: WordMask
) -> list[np.ndarray]:
    """Weights of CLS in the last layer on each text's own tokens, mean over heads;
    they sum to 1 (MEXMA G)."""
    weights_of_texts = []
    for batch, weights in _cls_weights(model, batches):
        of_heads = weights[-1].mean(1)  # (batch, seq)
        for row, words in zip(of_heads, word_mask(batch).bool(), strict=True):
            of_words = row[words]
            weights_of_texts.append((of_words / of_words.sum()).cpu().numpy())
    return weights_of_texts


class PlotRow(NamedTuple):
    """Tokens of a text and their weights (tokens,); `label` names the model and the language."""

    label: str
    tokens: Sequence[str]
    weights: np.ndarray


def attention_page(groups: Sequence[Sequence[PlotRow]]) -> str:
    """An HTML page of groups of rows; a token's background is as strong as its weight,
    the largest of its row full."""
    lines = [
        "<!doctype html><meta charset='utf-8'><title>Attention of CLS</title>",
        "<style>body{font:14px sans-serif} b{display:inline-block;width:16em} span{padding:2px}</style>",
    ]
    for group in groups:
        lines.append("<section>")
        for row in group:
            largest = row.weights.max(initial=0.0)
            cells = []
            for token, weight in zip(row.tokens, row.weights, strict=True):
                color = f"rgba(40,90,200,{weight / largest:.2f})"
                cells.append(
                    f"<span title='{weight:.3f}' style='background:{color}'>{escape(token)}</span>"
                )
            lines.append(f"<p><b>{escape(row.label)}</b>{' '.join(cells)}</p>")
        lines.append("</section><hr>")
    return "\n".join(lines) + "\n"


def _cls_weights(model: Any, batches: Iterable[Batch]) -> Iterator[tuple[dict, torch.Tensor]]:
    """Yield (batch, weights of its first token (layers, batch, heads, seq)).

    Only the eager implementation returns attention weights, so the model uses it meanwhile.
    """
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        for batch, mask, first in _batches(model, batches):
            attentions = model(**batch, output_attentions=True, return_dict=True).attentions
            rows = torch.arange(len(mask), device=mask.device)
            weights = torch.stack([layer[rows, :, first].double() for layer in attentions])
            yield batch, weights / weights.sum(-1, keepdim=True)  # bf16 weights do not sum to 1
    finally:
        model.set_attn_implementation(before)


def _entropy(weights: torch.Tensor) -> np.ndarray:
    """Entropy over the last dimension of weights that need not sum to 1;
    a weight of 0 (padding) counts nothing."""
    weights = weights / weights.sum(-1, keepdim=True)
    return torch.special.entr(weights).sum(-1).cpu().numpy()


@torch.inference_mode()
def both_poolings(model: Any, batches: Iterable[Batch]) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings with trained and with uniform pooling, (texts, d) each (MEXMA 5.6).

    Trained: as the model pools. Uniform: the mean over all tokens of the attention mask, through
    the same projection. An Echo model pools as its configuration says; of another model the last
    state of the first token is used, without a pooling head.

    Raises:
        ValueError: as `cls_attention_entropy`.
    """
    trained = []
    uniform = []
    for batch, mask, first in _batches(model, batches):
        output = model(**batch, return_dict=True)
        states = output.last_hidden_state  # (batch, seq, hidden)
        weight = mask[..., None].to(states.dtype)
        # (batch, hidden)
        mean = (states * weight).sum(1) / weight.sum(1)
        if hasattr(output, "sentence_embedding"):
            pooled = output.sentence_embedding
            mean = model.projection(mean)
        else:
            pooled = states[torch.arange(len(mask), device=mask.device), first]
        trained.append(pooled.float().cpu().numpy())
        uniform.append(mean.float().cpu().numpy())
    return np.concatenate(trained), np.concatenate(uniform)


def compare_poolings(
    source: tuple[np.ndarray, np.ndarray], target: tuple[np.ndarray, np.ndarray]
) -> dict[str, Any]:
    """xsim in percent by pooling, `relative_delta`, and the mean cosine of a text's two embeddings.

    `source`, `target`: from `both_poolings`, parallel rows. Raises ValueError as `xsim`.
    """
    trained = xsim(source[0], target[0]).error_rate
    uniform = xsim(source[1], target[1]).error_rate
    a = unit_length(np.concatenate([source[0], target[0]]).astype(np.float64))
    b = unit_length(np.concatenate([source[1], target[1]]).astype(np.float64))
    return {
        "xsim_trained": trained,
        "xsim_uniform": uniform,
        "delta": relative_delta(trained, uniform),
        "cosine": float((a * b).sum(1).mean()),
    }


def relative_delta(trained: float, uniform: float) -> float | None:
    """100 (trained - uniform) / trained, as in MEXMA Table 10; None if the trained value is 0.

    The paper's text says "relative change from the uniform to the CLS representation", but the
    printed figures divide by the CLS value: xsim of LaBSE 2.02 and 0.92 gives -119.65.
    """
    return 100 * (trained - uniform) / trained if trained else None


def _batches(
    model: Any, batches: Iterable[Batch]
) -> Iterator[tuple[dict, torch.Tensor, torch.Tensor]]:
    """Yield (batch on the model's device, mask, place of the first token) with the model in
    evaluation mode."""
    texts = 0
    with evaluating(model):
        for batch in batches:
            batch = {name: value.to(model.device) for name, value in batch.items()}
            mask = batch["attention_mask"].bool()
            without_tokens = ~mask.any(1)
            if without_tokens.any():
                raise ValueError(
                    f"text {texts + int(without_tokens.int().argmax())} (from 0) has no tokens"
                )
            yield batch, mask, mask.int().argmax(1)
            texts += len(mask)
    if not texts:
        raise ValueError("no batches: give at least one")


def tokenized(tokenizer: Any, lines: Sequence[str], lang: str) -> list[dict[str, torch.Tensor]]:
    """Padded batches of lines."""
    batches = []
    for start in range(0, len(lines), BATCH):
        texts = list(lines[start : start + BATCH])
        batches.append(dict(tokenizer(texts, lang=lang, padding=True, return_tensors="pt")))
    return batches


def words_of(tokenizer: Any, batch: Batch) -> torch.Tensor:
    """(batch, seq) bool: tokens of the texts, without BOS, EOS and the prompt."""
    return own_tokens(batch["input_ids"], batch["attention_mask"], tokenizer)


def plot_rows(name: str, lines: Sequence[str], lang: str) -> list[PlotRow]:
    """A row of the plot for each line."""
    model, tokenizer = load_encoder(name)
    batches = tokenized(tokenizer, lines, lang)
    weights = attention_on_words(model, batches, partial(words_of, tokenizer))
    tokens = []
    for batch in batches:
        for ids, words in zip(batch["input_ids"], words_of(tokenizer, batch), strict=True):
            tokens.append([tokenizer.decode([number]) for number in ids[words].tolist()])
    label = f"{Path(name).name} {lang}"
    return [PlotRow(label, *of_text) for of_text in zip(tokens, weights, strict=True)]


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("model")
    parser.add_argument("source", type=Path)
    parser.add_argument("source_lang")
    parser.add_argument("target", type=Path)
    parser.add_argument("target_lang")
    parser.add_argument("--plot", type=Path, help="write this HTML page")
    parser.add_argument("--lines", type=int, default=4, help="first lines of the files in the plot")
    parser.add_argument(
        "--beside", nargs="+", default=[], metavar="MODEL", help="further models in the plot"
    )
    args = parser.parse_args()
    source_lines = read_lines(args.source)
    target_lines = read_lines(args.target)
    model, tokenizer = load_encoder(args.model)
    source = tokenized(tokenizer, source_lines, args.source_lang)
    target = tokenized(tokenizer, target_lines, args.target_lang)
    report = cls_attention_entropy(model, source, partial(words_of, tokenizer))
    report |= compare_poolings(both_poolings(model, source), both_poolings(model, target))
    print(json.dumps(report | {"heads": report["heads"].tolist()}, indent=2))
    if args.plot:
        columns = []
        for lines, lang in ((source_lines, args.source_lang), (target_lines, args.target_lang)):
            for name in (args.model, *args.beside):
                columns.append(plot_rows(name, lines[: args.lines], lang))
        write_text(args.plot, attention_page(list(zip(*columns, strict=True))))


if __name__ == "__main__":
    main()
