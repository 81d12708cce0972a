"""Peak memory and seconds of forward + backward from hidden states to the token loss: plain against
chunked.

    python benchmarks/cross_entropy_memory.py                     # 256k vocabulary, 2,000 tokens, hidden 256
    python benchmarks/cross_entropy_memory.py --bf16 --json out.json

Every row runs in a separate process and reports the highest resident memory (VmHWM on Linux,
ru_maxrss elsewhere) after its first step, including Python and torch; seconds are those of the
fastest step. Ratios are relative to the plain loss.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd

SETTING = ("vocabulary", "tokens", "hidden", "bf16", "threads")


def main() -> None:
    args = parse_args()
    if args.measure:
        print(json.dumps(measure(args)))
        return
    imported = in_own_process("import")
    plain = in_own_process("plain")
    losses = [plain]
    for size in args.chunk_sizes:
        losses.append(in_own_process(f"chunked-{size}"))
    for row in losses:
        row["memory_ratio"] = row["peak_mib"] / plain["peak_mib"]
        row["time_ratio"] = row["seconds"] / plain["seconds"]
    rows = [imported, *losses]
    setting = {name: getattr(args, name) for name in SETTING}

    print(setting)
    print(pd.DataFrame(rows).to_string(index=False, na_rep="", float_format="{:.2f}".format))
    result = json.dumps({"setting": setting, "rows": rows})
    print(result)
    if args.json:
        Path(args.json).write_text(result + "\n", encoding="utf-8")


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vocabulary", type=int, default=256_000)
    parser.add_argument("--tokens", type=int, default=2_000)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--chunk-sizes", type=int, nargs="+", default=[1024, 256])
    parser.add_argument(
        "--bf16", action="store_true", help="under bfloat16 autocast (minutes on a CPU without it)"
    )
    parser.add_argument("--steps", type=int, default=2, help="number of steps; the fastest counts")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", help="also write the result to this file")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    return parser.parse_args()


def in_own_process(method: str) -> dict:
    """The measurements of one method, as `measure` prints them."""
    command = [sys.executable, __file__, *sys.argv[1:], "--measure", method]
    process = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(process.stdout)


def measure(args: argparse.Namespace) -> dict:
    """Peak memory and seconds of one method, in a process of its own."""
    import torch
    import torch.nn.functional as F

    from hf_echo.evaluation.benchmarks.speed import MEBIBYTE, peak_memory
    from hf_echo.losses import translation_loss

    if args.measure == "import":
        return {"method": "import", "peak_mib": peak_memory() / MEBIBYTE}
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    hidden = torch.randn(args.tokens, args.hidden, requires_grad=True)
    weight = torch.empty(args.vocabulary, args.hidden)
    weight.normal_(std=args.hidden**-0.5)
    weight.requires_grad_()
    labels = torch.randint(args.vocabulary, (args.tokens,))

    def loss_of() -> torch.Tensor:
        if args.measure == "plain":
            return F.cross_entropy(hidden @ weight.T, labels)
        chunk_size = int(args.measure.removeprefix("chunked-"))
        return translation_loss(hidden, weight, labels, chunk_size=chunk_size)

    seconds = []
    for step in range(args.steps):
        hidden.grad = None
        weight.grad = None
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
            loss = loss_of()
        loss.backward()
        seconds.append(time.perf_counter() - start)
        if step == 0:  # later steps find its memory allocated
            peak = peak_memory() / MEBIBYTE
    return {"method": args.measure, "peak_mib": peak, "seconds": min(seconds), "loss": loss.item()}


if __name__ == "__main__":
    main()
