"""Translations per second from embeddings: transformers' generate in fp32 against `greedy_decode`,
in one run.

    python benchmarks/translate_speed.py --model outputs/demo/release [--threads 2]
    python benchmarks/translate_speed.py --model outputs/demo/release --texts FILE --counting
    python benchmarks/translate_speed.py --model hf_echo/pretrained/echo-nano --beams 4    # `beam_decode`

Held-out sentences of the built-in corpus, or --texts FILE with lines `code<TAB>text`. The fp32
outputs must be equal. With --counting, special weights write for each text as many tokens as the
text has: the lengths of real sentences in a model of this shape, independent of training. With
several threads ours run one batch per core, as in `translate`.
"""

from __future__ import annotations

import argparse
import copy
import math
import time
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import torch

from hf_echo.data.builtin import LANGUAGES, builtin_nway
from hf_echo.inference import encode, load_translator
from hf_echo.inference.encode import has_fast_bf16
from hf_echo.languages import ENGLISH
from hf_echo.modeling import EchoDecoder, EchoForTranslation
from hf_echo.modeling.beams_echo import beam_decode
from hf_echo.modeling.generation_echo import greedy_decode
from hf_echo.utils.cores import one_per_core
from hf_echo.utils.files import write_json

REFERENCE = "generate, fp32, 64 rows"
Run = Callable[[torch.Tensor], list[list[int]]]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--counting", action="store_true")
    parser.add_argument("-n", type=int, default=512)
    parser.add_argument("--beams", type=int, default=1, help="more than one: beam search in both")
    parser.add_argument(
        "--batch-size",
        type=int,
        default=256,
        help="rows of ours, a beam is one; generate runs with 64, too",
    )
    parser.add_argument("--max-new-tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def read_texts(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Read (codes, texts)."""
    if args.texts:
        codes = []
        texts = []
        for line in args.texts.read_text(encoding="utf-8").splitlines()[: args.n]:
            code, text = line.split("\t", 1)
            codes.append(code)
            texts.append(text)
        return codes, texts
    table = builtin_nway(args.n // len(LANGUAGES) + 1, split="test")[: args.n]
    return table["lang"], table["text"]


@torch.no_grad()
def count(decoder: EchoDecoder, lengths: list[int], eos: int, prompt_end: int) -> torch.Tensor:
    """Set the decoder's weights so that it writes the tokens length, length - 1, ... 1, eos; one
    embedding per length.

    Token i makes token i - 1 the most probable next token, more strongly than the sentence makes
    its first token probable. All layers run, although most of their work has no effect.
    """
    size = max(lengths) + 2
    model = decoder.model
    # Ids of the counting tokens: from 0, or behind the two special ones.
    first = 0
    if min(eos, prompt_end) < size:
        first = max(eos, prompt_end) + 1
    tokens = slice(first, first + size)
    if tokens.stop > decoder.config.vocab_size:
        raise ValueError(
            f"counting needs {tokens.stop} tokens, the decoder has {decoder.config.vocab_size}"
        )
    torch.manual_seed(0)
    for layer in model.layers:
        for part in (layer.self_attn.o_proj, layer.cross_attn.o_proj, layer.mlp.down_proj):
            part.weight.zero_()
    # A sentence reaches the last layer through the first cross-attention alone.
    cross = model.layers[0].cross_attn
    for part in (cross.v_proj, cross.o_proj, model.embedding_projection):
        part.weight.normal_()
    calls = torch.randn(size, decoder.config.embedding_size)  # row i points to token i - 1
    memory = model.embedding_projection(calls[:, None])
    calls /= cross.constant(memory).norm(dim=-1)
    memory = model.embedding_projection(calls[:, None])
    states = cross.constant(memory)[:, 0]
    # States of length 1, and an output matrix of the same rows: each token's best next one.
    model.norm.weight.fill_(1)
    output_rows = torch.zeros_like(decoder.lm_head.weight)
    output_rows[first + 1 : first + size - 1] = states[2:]
    output_rows[eos] = states[1]
    decoder.lm_head.weight = torch.nn.Parameter(output_rows)
    model.embed_tokens.weight[tokens] = 3 * states
    model.embed_tokens.weight[prompt_end] = 0
    return calls[torch.tensor(lengths) + 1]


def until(end: int, ids: list[int]) -> list[int]:
    """The ids in front of the first `end`; all without one."""
    return ids[: ids.index(end)] if end in ids else ids


def paths_of(
    args: argparse.Namespace, model: EchoForTranslation, prompt: list[int], eos: int
) -> dict[str, tuple[int, Run]]:
    """Path -> (sentences of a batch, vectors -> token ids up to the end of sentence).

    A row is a beam: with more beams fewer sentences share a batch.
    """
    small = max(1, 64 // args.beams)
    large = max(1, args.batch_size // args.beams)
    limit = {"max_new_tokens": args.max_new_tokens}

    @torch.no_grad()
    def with_generate(vectors: torch.Tensor) -> list[list[int]]:
        """By transformers' `generate`."""
        ids = model.generate(
            sentence_embedding=vectors,
            decoder_input_ids=torch.tensor([prompt] * len(vectors)),
            do_sample=False,
            num_beams=args.beams,
            **limit,
        )
        return [until(eos, row) for row in ids[:, len(prompt) :].tolist()]

    def ours(translator: EchoForTranslation, vectors: torch.Tensor) -> list[list[int]]:
        vectors = vectors.to(translator.dtype)
        if args.beams == 1:
            return greedy_decode(translator.decoder, vectors, prompt, **limit)
        return beam_decode(translator.decoder, vectors, prompt, num_beams=args.beams, **limit)

    name = "greedy_decode" if args.beams == 1 else "beam_decode"
    paths: dict[str, tuple[int, Run]] = {
        REFERENCE: (small, with_generate),
        f"generate, fp32, {args.batch_size} rows": (large, with_generate),
        f"{name}, fp32, {args.batch_size} rows": (large, partial(ours, model)),
    }
    if has_fast_bf16():
        half = copy.deepcopy(model).bfloat16()
        paths[f"{name}, bf16, {args.batch_size} rows"] = (large, partial(ours, half))
    return paths


def run_all(path: str, memory: torch.Tensor, size: int, run: Run) -> list[list[int]]:
    """The token ids of all sentences, in batches of about this size."""
    batches = memory.tensor_split(math.ceil(len(memory) / size))
    # `translate` decodes a batch on each core; transformers has no such path.
    if path.startswith("generate"):
        ids_of_batches = map(run, batches)
    else:
        ids_of_batches = one_per_core(run, batches)
    return list(chain.from_iterable(ids_of_batches))


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    # CPU time, because other programs may run.
    clock = time.process_time if args.threads == 1 else time.perf_counter
    model, tokenizer = load_translator(args.model, dtype="fp32")
    prompt = tokenizer.decoder_prompt_ids(ENGLISH)
    eos = tokenizer.eos_token_id
    codes, texts = read_texts(args)
    if args.counting:
        lengths = [max(1, len(ids)) for ids in tokenizer(texts, add_special_tokens=False).input_ids]
        memory = count(model.decoder, lengths, eos, prompt[-1])
    else:
        memory = torch.from_numpy(encode(model, tokenizer, texts, codes))

    paths = paths_of(args, model, prompt, eos)
    best = dict.fromkeys(paths, np.inf)
    outputs: dict[str, list[list[int]]] = {}
    for _ in range(args.rounds):
        for path, (size, run) in paths.items():
            start = clock()
            outputs[path] = run_all(path, memory, size, run)
            best[path] = min(best[path], clock() - start)

    expected = outputs[REFERENCE]
    tokens = [len(ids) for ids in expected]
    report = {
        "threads": args.threads,
        "sentences": len(texts),
        "tokens per sentence": {"mean": round(float(np.mean(tokens)), 1), "longest": max(tokens)},
        "paths": {},
    }
    print(report["tokens per sentence"])
    for path, seconds in best.items():
        is_same = [ids == other for ids, other in zip(outputs[path], expected, strict=True)]
        row = {
            "sentences_per_second": round(len(texts) / seconds, 1),
            "times_generate": round(best[REFERENCE] / seconds, 2),
            "same_outputs": sum(is_same),
        }
        report["paths"][path] = row
        print(f"{path:34} {row}")
    if args.json:
        write_json(args.json, report)


if __name__ == "__main__":
    main()
