"""Translations per second from embeddings: transformers' generate in fp32 against `greedy_decode`, in one run.

    python benchmarks/translate_speed.py --model outputs/demo/release [--threads 2]
    python benchmarks/translate_speed.py --model outputs/demo/release --texts FILE --counting
    python benchmarks/translate_speed.py --model hf_echo/pretrained/echo-nano --beams 4    # `beam_decode`

Held-out sentences of the built-in corpus, or --texts FILE with lines `code<TAB>text`. The fp32 outputs must be equal.
With --counting, special weights write for each text as many tokens as the text has: the lengths of real sentences in a
model of this shape, independent of training. With several threads ours run one batch per core, as in `translate`.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from pathlib import Path

import numpy as np
import torch

from hf_echo.data.builtin import LANGUAGES, builtin_nway
from hf_echo.inference import encode, load_translator
from hf_echo.inference.encode import has_fast_bf16
from hf_echo.modeling.beams_echo import beam_decode
from hf_echo.modeling.generation_echo import greedy_decode
from hf_echo.utils.cores import one_per_core


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--counting", action="store_true")
    parser.add_argument("-n", type=int, default=512)
    parser.add_argument("--beams", type=int, default=1, help="more than one: beam search in both")
    parser.add_argument(
        "--batch-size", type=int, default=256, help="rows of ours, a beam is one; generate runs with 64, too"
    )
    parser.add_argument("--max-new-tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def read_texts(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Read (codes, texts)."""
    if args.texts:
        lines = args.texts.read_text(encoding="utf-8").splitlines()[: args.n]
        return tuple(zip(*(line.split("\t", 1) for line in lines)))
    table = builtin_nway(args.n // len(LANGUAGES) + 1, split="test")
    return tuple(zip(*[(row["lang"], row["text"]) for row in table][: args.n]))


@torch.no_grad()
def count(decoder, lengths: list[int], eos: int, prompt_end: int) -> torch.Tensor:
    """Set the decoder's weights so that it writes the tokens length, length - 1, ... 1, eos; one embedding per length.

    Token i makes token i - 1 the most probable next token, more strongly than the sentence makes its first token
    probable. All layers run, although most of their work has no effect.
    """
    size, model = max(lengths) + 2, decoder.model
    first = max(eos, prompt_end) + 1 if min(eos, prompt_end) < size else 0  # id of token 0
    tokens = slice(first, first + size)
    if tokens.stop > decoder.config.vocab_size:
        raise ValueError(f"counting needs {tokens.stop} tokens, the decoder has {decoder.config.vocab_size}")
    torch.manual_seed(0)
    for layer in model.layers:
        for part in (layer.self_attn.o_proj, layer.cross_attn.o_proj, layer.mlp.down_proj):
            part.weight.zero_()
    cross = model.layers[0].cross_attn
    for part in (cross.v_proj, cross.o_proj, model.embedding_projection):
        part.weight.normal_()
    calls = torch.randn(size, decoder.config.embedding_size)  # row i points to token i - 1
    calls /= cross.constant(model.embedding_projection(calls[:, None])).norm(dim=-1)
    states = cross.constant(model.embedding_projection(calls[:, None]))[:, 0]
    model.norm.weight.fill_(1)
    decoder.lm_head.weight = torch.nn.Parameter(torch.zeros_like(decoder.lm_head.weight))
    decoder.lm_head.weight[first + 1 : first + size - 1] = states[2:]
    decoder.lm_head.weight[eos] = states[1]
    model.embed_tokens.weight[tokens] = 3 * states
    model.embed_tokens.weight[prompt_end] = 0
    return calls[torch.tensor(lengths) + 1]


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    clock = time.process_time if args.threads == 1 else time.perf_counter  # CPU time, because other programs may run
    model, tokenizer = load_translator(args.model, dtype="fp32")
    prompt, eos = tokenizer.decoder_prompt_ids("eng_Latn"), tokenizer.eos_token_id
    codes, texts = read_texts(args)
    if args.counting:
        lengths = [len(ids) for ids in tokenizer(list(texts), add_special_tokens=False).input_ids]
        memory = count(model.decoder, [max(1, n) for n in lengths], eos, prompt[-1])
    else:
        memory = torch.from_numpy(encode(model, tokenizer, list(texts), list(codes)))
    limit = {"max_new_tokens": args.max_new_tokens}
    ours = "greedy_decode" if args.beams == 1 else "beam_decode"

    @torch.no_grad()
    def with_generate(vectors):
        start = torch.tensor([prompt] * len(vectors))
        ids = model.generate(
            sentence_embedding=vectors, decoder_input_ids=start, do_sample=False, num_beams=args.beams, **limit
        )
        rows = ids[:, len(prompt) :].tolist()
        return [row[: row.index(eos)] if eos in row else row for row in rows]

    def fast(translator):
        if args.beams == 1:
            return lambda v: greedy_decode(translator.decoder, v.to(translator.dtype), prompt, **limit)
        return lambda v: beam_decode(translator.decoder, v.to(translator.dtype), prompt, num_beams=args.beams, **limit)

    small, large = (max(1, rows // args.beams) for rows in (64, args.batch_size))  # sentences
    paths = {
        "generate, fp32, 64 rows": (small, with_generate),
        f"generate, fp32, {args.batch_size} rows": (large, with_generate),
        f"{ours}, fp32, {args.batch_size} rows": (large, fast(model)),
    }
    if has_fast_bf16():
        paths[f"{ours}, bf16, {args.batch_size} rows"] = (large, fast(copy.deepcopy(model).bfloat16()))
    best, outputs = dict.fromkeys(paths, np.inf), {}
    for _ in range(args.rounds):
        for name, (size, run) in paths.items():
            start = clock()
            batches = memory.tensor_split(-(-len(memory) // size))
            done = one_per_core(run, batches) if name.startswith(ours) else map(run, batches)  # as `translate` does
            outputs[name] = [ids for rows in done for ids in rows]
            best[name] = min(best[name], clock() - start)
    reference, *_ = paths
    written = np.array([len(ids) for ids in outputs[reference]])
    report = {
        "threads": args.threads,
        "sentences": len(texts),
        "tokens per sentence": {"mean": round(float(written.mean()), 1), "longest": int(written.max())},
        "paths": {},
    }
    print(report["tokens per sentence"])
    for name, seconds in best.items():
        report["paths"][name] = {
            "sentences_per_second": round(len(texts) / seconds, 1),
            "times_generate": round(best[reference] / seconds, 2),
            "same_outputs": sum(a == b for a, b in zip(outputs[name], outputs[reference])),
        }
        print(f"{name:34} {report['paths'][name]}")
    if args.json:
        args.json.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
