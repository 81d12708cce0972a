"""MEXMA and EMMA-X against a contrastive loss alone, at nano size on real text, from one trained encoder.

    python train_scripts/studies/nano_real_data.py CORPORA outputs/nano-real/data
    python train_scripts/studies/mexma_trial.py outputs/nano-real/data outputs/mexma-trial --steps 1000 --seeds 3

Writes results.json (a row per variant and seed) and prints a table with mean and standard deviation over seeds. The
start is trained once by alignment alone; the seeds change what comes after it. A run that was stopped continues: what
is trained is not trained again. All variants take equal steps, but one row gives the contrastive loss as much CPU time
as MEXMA; with --equal-time each variant takes as many steps as fit into the CPU time of the first one. EMMA-X is also
measured during training, first at the end of its warm-up: `history` in the results, with the share of each rank.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import yaml
from datasets import Dataset

from hf_echo.data import load_nway
from hf_echo.evaluation import feature_spread
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.steps.training import train_recipe

SHAPE = dict(
    hidden_size=96,
    intermediate_size=256,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=4,
    embedding_size=96,
    pooling="cls",
)
MEXMA = dict(stage="mexma", warmup_start=0.0)
ALIGNED = MEXMA | dict(alignment="contrastive", unmasking_weight=0.0, koleo_weight=0.0)
HEAD = MEXMA | dict(head_layers=2, head_heads=4, head_ffn=256)
TOKENS = HEAD | {"koleo_weight": 0.0}
EMMA_X = dict(stage="emma_x", mixture_learning_rate=1e-2)
SINGLE = dict(parallel=False)
LOW = dict(learning_rate=1e-4)
LONGER = "contrastive alone, CPU time of (5)"
VARIANTS = {
    "contrastive alone": ALIGNED,
    LONGER: ALIGNED,
    "MEXMA without token gradients (Table 11, 4)": HEAD | {"token_gradients": False, "koleo_weight": 0.0},
    "+ token gradients (5)": TOKENS,
    "+ KoLeo (6)": HEAD,
    "contrastive + unmasking (Table 6)": HEAD | {"alignment": "contrastive", "koleo_weight": 0.0},
    "EMMA-X, pairs": EMMA_X,
    "EMMA-X, single texts": EMMA_X | SINGLE,
    "contrastive alone, 1e-4": ALIGNED | LOW,
    "MEXMA, 1e-4": HEAD | LOW,
    "EMMA-X, pairs, 1e-4": EMMA_X | LOW,
    "EMMA-X, single texts, 1e-4": EMMA_X | SINGLE | LOW,
    "EMMA-X, single texts, 1e-4, without MLM": EMMA_X | SINGLE | LOW | {"mlm_weight": 0.0},
    "EMMA-X, single texts, 3e-5": EMMA_X | SINGLE | {"learning_rate": 3e-5},
}


def write_data(folder: Path, out: Path, rows: int) -> dict:
    """A sample of short training pairs, and the fields of a recipe that name the data."""
    out.mkdir(parents=True, exist_ok=True)
    train = out / "train.parquet"
    if not train.is_file():
        data = Dataset.from_parquet(str(folder / "train.parquet")).shuffle(seed=0).select(range(rows * 4))
        short = data.filter(lambda a, b: max(len(a), len(b)) < 100, input_columns=["source", "target"])
        short.select(range(min(rows, len(short)))).to_parquet(train)
    dev = {name: str(folder / f"dev_{name}.parquet") for name in ("flores", "tatoeba")}
    return dict(train_data=str(train), dev_data=dev, cache_dir=str(out / "cache"))


def train(out: Path, name: str, values: dict, fresh: bool = False) -> dict:
    """Write the recipe, and train it if it is not trained yet; returns its metrics."""
    path = out / f"{name}.yaml"
    common = dict(max_length=48, max_rows=32, max_tokens=10**5, language_drop=0.25, eval_strategy="no")
    common |= dict(output_dir=str(out / name), save_strategy="no", disable_tqdm=True, bf16=False)
    path.write_text(yaml.safe_dump(common | values))
    return train_recipe(path, fresh=fresh)


def run(out: Path, name: str, values: dict) -> dict:
    """Metrics of a variant, with the spread of English; of EMMA-X also those measured during training."""
    history = {}
    if values["stage"] == "emma_x":
        values = values | dict(eval_strategy="steps", eval_steps=values["mixture_steps"], load_best_model_at_end=False)
        values |= dict(save_strategy="steps", save_steps=values["max_steps"])
    result = train(out, name, values)
    if values["stage"] == "emma_x":
        state = out / name / f"checkpoint-{values['max_steps']}" / "trainer_state.json"
        log = json.loads(state.read_text(encoding="utf-8"))["log_history"]
        history = {"history": [entry for entry in log if any(key.startswith("eval_") for key in entry)]}
    texts = [row["text"] for row in load_nway(values["dev_data"]["flores"]) if row["lang"] == "eng_Latn"]
    spread = feature_spread({"eng_Latn": any_encoder(str(out / name))(texts, "eng_Latn")}).spread
    return result | history | {"spread": float(spread)}


def cpu_of_a_step(out: Path, name: str, values: dict, steps: tuple[int, int] = (10, 60)) -> float:
    """Seconds of CPU: the difference of two lengths, so that loading does not count."""
    taken = []
    for number in steps:
        start = time.process_time()
        train(out, f"{name}_{number}_steps", values | {"max_steps": number, "dev_data": {}}, fresh=True)
        taken.append(time.process_time() - start)
    return (taken[1] - taken[0]) / (steps[1] - steps[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbered = "; ".join(f"{number}: {variant}" for number, variant in enumerate(VARIANTS))
    parser.add_argument("data", type=Path, help="folder of nano_real_data.py")
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--start-steps", type=int, default=3000)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", type=int, help=f"numbers of variants; all by default: {numbered}")
    parser.add_argument("--equal-time", action="store_true", help="equal CPU time instead of equal steps")
    args = parser.parse_args()
    data = write_data(args.data, args.out, args.rows)
    new = dict(shape=SHAPE, vocab_size=8000, max_steps=args.start_steps, learning_rate=2e-3, warmup_steps=0.1)
    new["max_rows"] = 128
    rows = [{"variant": "start", "seed": 0} | run(args.out, "start", ALIGNED | data | new)]
    from_start = dict(model_name_or_path=str(args.out / "start"), max_steps=args.steps, warmup_steps=0.1)
    chosen = [variant for number, variant in enumerate(VARIANTS) if not args.only or number in args.only]
    steps = steps_of(args, chosen, data | from_start) if args.seeds else {}
    results = args.out / ("results_time.json" if args.equal_time else "results.json")
    for seed in range(args.seeds):
        for variant in chosen:
            ending = "" if steps[variant] == args.steps or not args.equal_time else "_time"
            values, name = VARIANTS[variant], f"{list(VARIANTS).index(variant)}_{seed}{ending}"
            own = {"mixture_steps": steps[variant] // 3} if values["stage"] == "emma_x" else {}
            rates = {"learning_rate": 1e-3, "seed": seed, "max_steps": steps[variant]}
            result = run(args.out, name, data | from_start | rates | own | values)
            rows.append({"variant": variant, "seed": seed, "steps": steps[variant]} | result)
            results.write_text(json.dumps(rows, indent=1))
            print(variant, seed, {k: v for k, v in result.items() if "xsim" in k or k == "seconds"}, flush=True)
    print(table(rows))


def steps_of(args: argparse.Namespace, chosen: list[str], fields: dict) -> dict[str, int]:
    """The steps of each variant. Times of a step are measured where they are needed, and kept in a file."""
    steps = dict.fromkeys(chosen, args.steps)
    compared = chosen if args.equal_time else ["contrastive alone", "+ token gradients (5)"]
    if not args.equal_time and LONGER not in chosen:
        return steps
    file = args.out / "cpu_of_a_step.json"
    seconds = json.loads(file.read_text()) if file.is_file() else {}
    for variant in compared:
        if variant not in seconds:
            name = f"{list(VARIANTS).index(variant)}"
            seconds[variant] = cpu_of_a_step(args.out, name, fields | VARIANTS[variant])
            file.write_text(json.dumps(seconds, indent=1))
        print(f"a step of {variant}: {seconds[variant]:.3f} s of CPU", flush=True)
    if args.equal_time:
        return {variant: round(args.steps * seconds[chosen[0]] / seconds[variant]) for variant in chosen}
    return steps | {LONGER: round(args.steps * seconds[compared[1]] / seconds[compared[0]])}


def table(rows: list[dict]) -> str:
    """Mean and standard deviation over seeds of each variant, as Markdown."""
    sets = [f"eval_{name}_{measure}" for name in ("flores", "tatoeba") for measure in ("xsim", "xsimpp")]
    measures = [*sets, "spread", "seconds"]
    header = ["variant", "FLORES xsim", "xsim++", "Tatoeba xsim", "xsim++", "spread", "seconds"]
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for variant in dict.fromkeys(row["variant"] for row in rows):
        cells = []
        for measure in measures:
            values = [row[measure] for row in rows if row["variant"] == variant]
            digits = 2 if measure == "spread" else 1
            deviation = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.{digits}f}{deviation}")
        lines.append(f"| {variant} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
