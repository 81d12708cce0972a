"""Echo, MEXMA, EMMA-X and Modular from one encoder, on the same pairs, at equal steps and at equal CPU time.

    python train_scripts/studies/nano_real_data.py CORPORA outputs/nano-real/data
    python train_scripts/studies/multilingual_bert.py outputs/nano-real/data outputs/small-bert --cls
    python train_scripts/studies/side_by_side.py outputs/nano-real/data outputs/small-bert outputs/side-by-side
    hf-echo report outputs/side-by-side/start_cls outputs/side-by-side/start_mean \
        outputs/side-by-side/{echo,mexma,emma_x,modular}_0 --data outputs/side-by-side/dev --main flores --out report

English, German and Turkish. Echo, MEXMA and EMMA-X (on single texts after a third of the steps) read the state of CLS,
Modular the mean of the states: --cls of multilingual_bert.py trains both. Echo is its contrastive loss alone. Modular
learns both languages one after the other, each by half of the steps: half of them masked language modelling, a sixth
paraphrases, a third alignment. "modular_shared" has no texts: the vocabulary of the start and no language adapter, all
steps on pairs.

Equal time is that of --time-of at equal steps. The fixed cost of a method (loading, vocabularies) is known from a short
run, the folder with "_short". Writes results.json: steps, seconds of CPU and trained parameters of each folder. A run
that was stopped continues: what is trained is not trained again.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import time
from pathlib import Path

import pandas as pd
from mexma_trial import ALIGNED, EMMA_X, HEAD, SINGLE, train
from modular_trial import ALIGNED as PARTS
from modular_trial import ENG, LANGUAGES, dev_rows, file_of, write_data
from nano_real_data import short_pairs
from safetensors import safe_open
from transformers import AutoConfig

from hf_echo.checkpoints.published.sentence_transformer_files import write_sentence_transformer
from hf_echo.stages.modular import add_language, modular_backbone
from hf_echo.stages.modular.add_language import LanguageTraining
from hf_echo.steps.recipe import read_recipe
from hf_echo.steps.table import STAGES

BY_CLS = {"echo": ALIGNED, "mexma": HEAD, "emma_x": EMMA_X | SINGLE}
MODULAR = {"modular": PARTS, "modular_shared": PARTS[1:]}
SHORT = 10  # a short run has this part of the steps


def write_pairs(train: Path, out: Path, pairs: int, longest: int) -> None:
    """OUT/train.parquet, pairs of each language; translations of one English sentence stay together."""
    table = short_pairs(train, LANGUAGES, longest).drop_duplicates(["source", "source_lang"])
    table = table.sort_values("target", key=lambda texts: pd.util.hash_pandas_object(texts, index=False))
    table.groupby("source_lang").head(pairs).to_parquet(out / "train.parquet", index=False)


def write_start(start: Path, out: Path, pooling: str) -> None:
    """The start as SentenceTransformer."""
    folder = out / f"start_{pooling}"
    shutil.copytree(start, folder)
    width = AutoConfig.from_pretrained(start).hidden_size
    write_sentence_transformer(folder, dimension=width, pooling=pooling)


def train_by_cls(method: str, name: str, steps: int, seed: int, args: argparse.Namespace) -> int:
    """Train Echo, MEXMA or EMMA-X; returns the number of trained parameters."""
    data = dict(train_data=str(args.out / "train.parquet"), cache_dir=str(args.out / "cache"))
    rates = dict(learning_rate=args.learning_rate, warmup_steps=0.1, max_steps=steps, seed=seed, max_rows=args.batch)
    own = {"mixture_steps": steps // 3} if method == "emma_x" else {}
    values = data | BY_CLS[method] | rates | own | {"model_name_or_path": str(args.out / "start_cls")}
    train(args.out, name, values)
    stage, _, _, config, _ = read_recipe(args.out / f"{name}.yaml")
    parameters = STAGES[stage].size(AutoConfig.from_pretrained(args.out / "start_cls"), config)["parameters"]
    return parameters["total"] - parameters.get("momentum encoder", 0)


def train_modular(method: str, name: str, steps: int, seed: int, args: argparse.Namespace) -> int:
    """Train a modular encoder; returns the number of trained parameters."""
    data, folder = args.out / "data", args.out / name
    modular_backbone(args.out / "start_mean", folder, pivot=ENG, max_seq_length=64)
    add_language(folder, ENG)
    parts = MODULAR[method]
    mlm = steps // len(LANGUAGES) // 2 if "texts" in parts else 0
    for lang in LANGUAGES:
        pairs = len(file_of(data, lang, "paraphrases").read_text(encoding="utf-8").splitlines())
        epoch = 3 * math.ceil(pairs / args.batch)  # one part sentence adapter, two parts alignment
        settings = LanguageTraining(
            vocab_size=args.vocab_size,
            mlm_steps=max(mlm, 1),
            mlm_learning_rate=1e-4,
            epochs=(steps // len(LANGUAGES) - mlm) / epoch,
            learning_rate=1e-3,
            batch_size=args.batch,
            max_length=48,
            seed=seed,
        )
        add_language(folder, lang, settings=settings, **{part: file_of(data, lang, part) for part in parts})
    return sum(numbers_of(file) for file in folder.glob("languages/**/*.safetensors"))


def numbers_of(file: Path) -> int:
    with safe_open(file, "pt") as tensors:
        return sum(math.prod(tensors.get_slice(key).get_shape()) for key in tensors.keys())


def run(rows: list[dict], method: str, ending: str, steps: int, seed: int, args: argparse.Namespace) -> dict:
    """The row of a run, which is trained if it is not in `rows`."""
    name = f"{method}_{seed}{ending}"
    found = next((row for row in rows if row["name"] == name), None)
    if found:
        return found
    shutil.rmtree(args.out / name, ignore_errors=True)
    start = time.process_time()
    trained = (train_modular if method in MODULAR else train_by_cls)(method, name, steps, seed, args)
    rows.append({"name": name, "steps": steps, "cpu": time.process_time() - start, "parameters": trained})
    (args.out / "results.json").write_text(json.dumps(rows, indent=1))
    print(rows[-1], flush=True)
    return rows[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of nano_real_data.py")
    parser.add_argument("start", type=Path, help="folder of multilingual_bert.py --cls")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=32, help="pairs or texts of a step")
    parser.add_argument("--pairs", type=int, default=10_000, help="of one language")
    parser.add_argument("--longest", type=int, default=48, help="characters of a text: fewer than this")
    parser.add_argument("--learning-rate", type=float, default=1e-4, help="of Echo, MEXMA and EMMA-X")
    parser.add_argument("--vocab-size", type=int, default=2_500, help="tokens of a language of Modular")
    parser.add_argument("--methods", nargs="+", choices=[*BY_CLS, *MODULAR], default=[*BY_CLS, *MODULAR])
    parser.add_argument("--time-of", choices=[*BY_CLS, *MODULAR], help="also train for as much CPU time as this method")
    args = parser.parse_args()
    if not (args.out / "dev").exists():
        args.out.mkdir(parents=True, exist_ok=True)
        for pooling in ("cls", "mean"):
            write_start(args.start, args.out, pooling)
        write_pairs(args.data / "train.parquet", args.out, args.pairs, args.longest)
        write_data(args.out / "train.parquet", args.out / "data", args.pairs, args.pairs, args.longest)
        (args.out / "dev").mkdir()
        for name in ("flores", "tatoeba"):
            dev_rows(args.data, name).to_parquet(args.out / "dev" / f"{name}.parquet", index=False)
    file = args.out / "results.json"
    rows = json.loads(file.read_text()) if file.exists() else []
    for seed in range(args.seeds):
        equal = {method: run(rows, method, "", args.steps, seed, args) for method in args.methods}
        if not args.time_of:
            continue
        for method in args.methods:
            if method == args.time_of:
                continue
            short = run(rows, method, "_short", args.steps // SHORT, 0, args)
            of_step = (equal[method]["cpu"] - short["cpu"]) / (args.steps - short["steps"])
            more = (equal[args.time_of]["cpu"] - equal[method]["cpu"]) / of_step
            run(rows, method, "_time", args.steps + round(more), seed, args)


if __name__ == "__main__":
    main()
