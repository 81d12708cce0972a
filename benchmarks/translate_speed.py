"""Translations per second from embeddings: transformers' generate (fp32, greedy) against `greedy_decode`, in one run.

    python benchmarks/translate_speed.py --model outputs/demo/release [--threads 2]

Held-out sentences of the built-in corpus, or --texts FILE with lines `code<TAB>text`. The fp32 outputs must be equal.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

from hf_echo.data.builtin import LANGUAGES, builtin_nway
from hf_echo.inference import encode, load_translator
from hf_echo.inference.encode import has_fast_bf16
from hf_echo.modeling.generation_echo import greedy_decode


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("-n", type=int, default=512)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.texts:
        rows = [line.split("\t", 1) for line in args.texts.read_text(encoding="utf-8").splitlines()][: args.n]
    else:
        table = builtin_nway(args.n // len(LANGUAGES) + 1, split="test")
        rows = [(row["lang"], row["text"]) for row in table][: args.n]
    model, tokenizer = load_translator(args.model, dtype="fp32")
    memory = torch.from_numpy(
        encode(model, tokenizer, [text for _, text in rows], [lang for lang, _ in rows])
    )
    prompt = tokenizer.decoder_prompt_ids("eng_Latn")

    def batches(run):
        return [
            ids
            for i in range(0, len(memory), args.batch_size)
            for ids in run(memory[i : i + args.batch_size])
        ]

    @torch.no_grad()
    def with_generate(vectors):
        start = torch.tensor([prompt] * len(vectors))
        ids = model.generate(sentence_embedding=vectors, decoder_input_ids=start, do_sample=False,
                             max_new_tokens=args.max_new_tokens)[:, len(prompt) :]  # fmt: skip
        return [row[: row.index(eos)] if eos in row else row for row in ids.tolist()]

    eos, limit = tokenizer.eos_token_id, {"max_new_tokens": args.max_new_tokens}
    paths = {"generate, fp32": with_generate,
             "greedy_decode, fp32": lambda v: greedy_decode(model.decoder, v, prompt, **limit)}  # fmt: skip
    if has_fast_bf16():
        half = load_translator(args.model, dtype="bf16")[0]
        paths["greedy_decode, bf16"] = lambda v: greedy_decode(
            half.decoder, v.bfloat16(), prompt, max_new_tokens=args.max_new_tokens
        )
    best, found = dict.fromkeys(paths, np.inf), {}
    for _ in range(args.rounds):
        for name, run in paths.items():
            start = time.perf_counter()
            found[name] = batches(run)
            best[name] = min(best[name], time.perf_counter() - start)
    report = {"threads": args.threads, "sentences": len(rows), "paths": {}}
    for name, seconds in best.items():
        same = sum(a == b for a, b in zip(found[name], found["generate, fp32"]))
        report["paths"][name] = {
            "sentences_per_second": round(len(rows) / seconds, 1),
            "times_generate": round(best["generate, fp32"] / seconds, 2),
            "same_outputs": same,
        }
        print(f"{name:24} {report['paths'][name]}")
    if args.json:
        args.json.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
