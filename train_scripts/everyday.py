"""From the corpora to an encoder that reads everyday sentences in 104 languages: data, stages, figures.

    python train_scripts/everyday.py CORPORA                 # everything
    python train_scripts/everyday.py CORPORA --until 0_refit # only the bag: no layers

The bag starts from the token vectors of the echo-nano in this package, cut in the new vocabulary. The stages are the
recipes of recipes/echo-everyday, in the order of their names; between them the bag is whitened and refitted, and
finished layers are damped. A stopped run continues where it was; what is finished is not done again. Everything is
written to outputs/echo-everyday. On a busy machine set OMP_WAIT_POLICY=passive: threads that spin took three times the
time (docs/trials/echo-nano-everyday.md).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from hf_echo.checkpoints import damp_checkpoint, whiten_checkpoint
from hf_echo.checkpoints.swap_tokenizer import swap_checkpoint
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.modeling import EchoEncoder
from hf_echo.stages.recipe import find_recipes
from hf_echo.stages.ridge_refit import refit_on_pairs
from hf_echo.stages.run import train_recipe
from hf_echo.stages.static_embeddings import static_config
from hf_echo.vocabulary import load_tokenizer

JOURNEY = "echo-everyday"
OUT = Path("outputs") / JOURNEY
DATA = OUT / "data"
SHRINKAGE = 2.0
REFIT = {"ridge": 2.0, "step": 0.7, "softmax_weight": 6.0}  # as echo-nano (docs/trials/ridge-solution.md)
SHARE = 0.5  # of the layers
START = Path(__file__).parents[1] / "hf_echo" / "pretrained" / "echo-nano"


def make_data(corpora: Path) -> None:
    if not (DATA / "tokenizer" / "tokenizer.json").exists():  # written last
        script = Path(__file__).parent / "studies" / "everyday_data.py"
        subprocess.run([sys.executable, script, corpora, DATA], check=True)


def start_from(checkpoint: str | Path, tokenizer: str | Path, out: str | Path) -> None:
    """The token vectors of an encoder without its layers, cut in another vocabulary: a bag that stage 0 starts from."""
    source = EchoEncoder.from_pretrained(checkpoint, dtype=torch.float32)
    config = static_config(load_tokenizer(checkpoint), source.projection.weight.shape[0], source.config.languages)
    bag = EchoEncoder(config)
    bag.embed_tokens.weight.data = source.embed_tokens.weight.data @ source.projection.weight.data.T
    torch.nn.init.eye_(bag.projection.weight)
    with TemporaryDirectory() as folder:
        bag.save_pretrained(folder)
        load_tokenizer(checkpoint).save_pretrained(folder)
        swap_checkpoint(folder, tokenizer, out, method="sum")


def whiten() -> None:
    made = OUT / "0_static_languages"
    whiten_checkpoint(made, str(DATA / "nway.parquet"), OUT / "0_white", any_encoder(str(made)), SHRINKAGE)


def refit() -> None:
    data, cache = str(DATA / "train_mix.parquet"), OUT / "cache"  # tokenized already
    refit_on_pairs(OUT / "0_white", data, OUT / "0_refit", cache_dir=cache, **REFIT)


def steps() -> dict[str, Callable[[], object]]:
    """{folder in OUT: what makes it}, in order."""
    found = {path.stem: (lambda path=path: train_recipe(path)) for path in find_recipes(JOURNEY)}
    found |= {
        "0_start": lambda: start_from(START, DATA / "tokenizer", OUT / "0_start"),
        "0_white": whiten,
        "0_refit": refit,
    }
    layers = [name for name in found if name.endswith("_layers")]
    found |= {"9_damped": lambda: damp_checkpoint(OUT / layers[-1], OUT / "9_damped", SHARE)}
    order = ["0_start", "0_static", "0_static_languages", "0_white", "0_refit"]
    return {name: found[name] for name in [*order, *sorted(set(found) - set(order))]}


def finished(name: str) -> bool:
    return (OUT / name / "model.safetensors").exists() and name not in {p.stem for p in find_recipes(JOURNEY)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path, help="folder with tatoeba_challenge.parquet, bible.parquet, ...")
    parser.add_argument("--until", choices=list(steps()), help="the last step of this run")
    args = parser.parse_args()
    make_data(args.corpora)
    for name, make in steps().items():
        if not finished(name):  # a recipe knows by itself
            make()
        last = name
        if name == args.until:
            break
    report = Path(__file__).parent / "studies" / "everyday_report.py"
    subprocess.run([sys.executable, report, DATA, OUT / last, "--out", OUT / f"{last}.json"], check=True)


if __name__ == "__main__":
    main()
