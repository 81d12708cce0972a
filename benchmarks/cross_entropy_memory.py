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
import resource
import subprocess
import sys
import time
from pathlib import Path

# The checkout, when it is not installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


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
    setting = {name: getattr(args, name) for name in SETTING}

    print("  ".join(f"{name}={value}" for name, value in setting.items()))
    print(f"{'method':<14}{'peak MiB':>10}{'ratio':>8}{'seconds':>10}{'ratio':>8}{'loss':>12}")
    print(f"{'import':<14}{imported['peak_mib']:>10.0f}")
    for row in losses:
        memory = f"{row['peak_mib']:>10.0f}{row['memory_ratio']:>8.2f}"
        seconds = f"{row['seconds']:>10.2f}{row['time_ratio']:>8.2f}"
        print(f"{row['method']:<14}{memory}{seconds}{row['loss']:>12.6f}")
    rows = [imported, *losses]
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

    from hf_echo.losses import translation_loss

    if args.measure == "import":
        return {"method": "import", "peak_mib": peak_mib()}
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
    peak = 0.0
    for _ in range(args.steps):
        hidden.grad = None
        weight.grad = None
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
            loss = loss_of()
        loss.backward()
        seconds.append(time.perf_counter() - start)
        # Memory after the first step: later steps find it allocated.
        peak = peak or peak_mib()
    return {"method": args.measure, "peak_mib": peak, "seconds": min(seconds), "loss": loss.item()}


def peak_mib() -> float:
    """Most memory that this process has had, in MiB."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text().splitlines()
        peak_line = next(line for line in lines if line.startswith("VmHWM"))
        kibibytes = peak_line.split()[1]
        return int(kibibytes) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if sys.platform == "darwin":  # bytes; other systems say KiB
        return peak / 2**20
    return peak / 2**10


if __name__ == "__main__":
    main()
