"""From the corpora to the checkpoints that come with the package: data, stages, export, figures, cards.

    python train_scripts/echo_nano.py CORPORA                # echo-static and echo-nano, some hours on two cores
    python train_scripts/echo_nano.py CORPORA --only nano    # one of them

Every stage is a recipe in recipes/echo-static or recipes/echo-nano; a stopped run goes on where it was, and what is
finished is not done again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import torch
from studies.echo_nano_report import SETS, TWELVE, extension, search

from hf_echo.checkpoints import convert_static, damp_checkpoint, whiten_checkpoint
from hf_echo.checkpoints.swap_tokenizer import swap_checkpoint
from hf_echo.hub.template import render
from hf_echo.inference import load_translator
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.inference.encode import has_fast_bf16
from hf_echo.modeling import EchoDecoder
from hf_echo.stages.recipe import find_recipes
from hf_echo.stages.ridge_refit import refit_on_pairs
from hf_echo.stages.run import train_recipe
from hf_echo.utils.lineage import write_lineage

DATA, STATIC, OUT = Path("outputs/echo/data"), Path("outputs/echo-static"), Path("outputs/echo-nano")
PRETRAINED = Path(__file__).parents[1] / "hf_echo" / "pretrained"
SHRINKAGE = 2.0
REFIT = {"ridge": 2.0, "step": 0.7, "softmax_weight": 6.0}  # docs/trials/ridge-solution.md
SHARE = 0.2  # of the layers (docs/trials/layers.md)
FIRST_DECODER = 0.3  # what 1_decoder counts beside 5_decoder
NO_REPEAT = 3  # a small decoder runs in circles without
WHITENED = {"echo-static": "0_static", "echo-nano": "0_static_languages"}
STAGES = {
    "0_static": "the bag of echo-static in whole characters",
    "0_static_languages": "batches of one language each; then whitened and refitted",
    "1_decoder": "decoder from the embeddings of echo-static",
    "1_decoder_varied": "the decoder on the whitened bag, few rows a sentence",
    "2_static_hard": "the refitted bag with hard negatives by rule, plain SGD",
    "3_extension": "twelve new languages beside the others, with hard negatives too",
    "4_layers": "two layers on it, near neighbours of one language",
    "5_decoder": "the decoder on the finished encoder",
}


def make_data(corpora: Path) -> None:
    made = (
        DATA / name
        for name in ("tokenizer/tokenizer.json", "tokenizer_whole/tokenizer.json", "train_extension.parquet")
    )
    if not all(file.exists() for file in made):
        script = Path(__file__).parent / "studies" / "nano_real_data.py"
        subprocess.run([sys.executable, script, corpora, DATA, "--parts", "echo"], check=True)


def train(journey: str) -> None:
    """All recipes of a folder in order. The bag is whitened, finished layers are damped; echo-nano's bag is that of
    echo-static cut in whole characters, and is refitted."""
    folder = Path("outputs") / journey
    if journey == "echo-nano" and not (folder / "0_swapped" / "model.safetensors").exists():
        swap_checkpoint(STATIC / "0_static", DATA / "tokenizer_whole", folder / "0_swapped", method="sum")
    for path in find_recipes(journey):
        train_recipe(path)
        made = folder / path.stem
        if path.stem == WHITENED[journey] and not (folder / "0_white").exists():
            nway, encode = str(DATA / "nway.parquet"), any_encoder(str(made))
            whiten_checkpoint(made, nway, folder / "0_white", encode, SHRINKAGE)
        if path.stem == "0_static_languages" and not (folder / "0_refit" / "results.json").exists():
            data, cache = str(DATA / "train_refit.parquet"), folder / "cache"
            refit_on_pairs(folder / "0_white", data, folder / "0_refit", cache_dir=cache, **REFIT)
        if path.stem == "4_layers" and not (folder / "4_damped").exists():
            damp_checkpoint(made, folder / "4_damped", SHARE)


def measured(model: Path, file: Path, corpora: Path, decoder: bool = False) -> dict:
    """What echo_nano_report.py finds, kept in a file; in a process of its own, since it tells its peak memory."""
    if not file.exists():
        script = Path(__file__).parent / "studies" / "echo_nano_report.py"
        command = [sys.executable, script, model, corpora, "--data", DATA, "--out", file]
        subprocess.run(command + ["--decoder"] * decoder, check=True, stdout=subprocess.DEVNULL)
    return json.loads(file.read_text())


def common(found: dict, folder: Path) -> dict:
    """What both cards say."""
    joined = found.get("extension", {}).get("flores", {})
    codes = sorted([*found["search"]["flores"]["languages"], *joined, "eng_Latn"])
    return dict(
        languages=sorted({code.split("_")[0] for code in codes}),
        codes=codes,
        megabytes=sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 1e6,
        dimensions=found["geometry"]["dimensions"],
        twelve=", ".join(code.split("_")[0] for code in TWELVE),
        topics=found["topics"],
        geometry=found["geometry"],
        threads=found["speed"]["threads"],
        rows=pq.read_metadata(DATA / "train.parquet").num_rows,
    )


def static(corpora: Path) -> None:
    """The whitened bag, exported, measured, with its card."""
    folder = convert_static(STATIC / "0_white", PRETRAINED / "echo-static")
    found = measured(folder, STATIC / "static.json", corpora)
    values = json.loads((STATIC / "0_static" / "recipe.json").read_text())["values"]
    card = render(
        "echo_static.md.j2",
        **common(found, folder),
        search=[{"name": name, **found["search"][name]} for name in SETS],
        flores=sorted(found["search"]["flores"]["languages"].items(), key=lambda item: item[1]),
        speed=found["speed"]["encode"]["sentences_per_second"],
        memory=found["speed"]["encode"]["peak_memory_mib"],
        steps=values["max_steps"],
        seconds=json.loads((STATIC / "0_static" / "results.json").read_text())["seconds"],
    )
    (folder / "README.md").write_text(card, encoding="utf-8")
    print(card)


def nano(corpora: Path) -> None:
    """The last stage, released in bf16, measured, with its card."""
    folder = PRETRAINED / "echo-nano"
    model, tokenizer = load_translator(OUT / "5_decoder", dtype="fp32")
    average(model.decoder, EchoDecoder.from_pretrained(OUT / "1_decoder", dtype=torch.float32))
    model.generation_config.no_repeat_ngram_size = NO_REPEAT
    shutil.rmtree(folder, ignore_errors=True)
    model.to(torch.bfloat16).save_release(folder)
    tokenizer.save_pretrained(folder)
    file = folder / "tokenizer.json"  # without line breaks it is half as large
    file.write_text(
        json.dumps(json.loads(file.read_text()), ensure_ascii=False, separators=(",", ":")), encoding="utf-8"
    )
    leave_code_out(folder)
    settings = {"first_decoder": FIRST_DECODER, "no_repeat_ngram_size": NO_REPEAT, "dtype": "bf16"}
    decoders = {"checkpoint": OUT / "5_decoder", "averaged_with": OUT / "1_decoder"}
    write_lineage(folder, "release", settings, parents=decoders)
    found = measured(folder, OUT / "nano.json", corpora, decoder=True)
    floor = measured(PRETRAINED / "echo-static", STATIC / "static.json", corpora)["search"]
    before = OUT / "before.json"
    if not before.exists():  # what hard negatives and the extension do: the bags before them
        values = search(any_encoder(str(OUT / "0_refit")), DATA, negatives=5)
        values["extension"] = extension(any_encoder(str(OUT / "2_static_hard")), DATA)
        before.write_text(json.dumps(values, default=float))
    card = render(
        "echo_nano.md.j2",
        **common(found, folder),
        **figures(found, json.loads(before.read_text()), floor),
        encoder_parameters=model.encoder.num_parameters() / 1e6,
        decoder_parameters=model.decoder.num_parameters() / 1e6,
        share=SHARE,
        refit=REFIT | json.loads((OUT / "0_refit" / "results.json").read_text()),
        dtype="bf16" if has_fast_bf16() else "fp32",
        stages=[stage_row(name, what) for name, what in STAGES.items()],
        digest=hashlib.sha256((DATA / "train.parquet").read_bytes()).hexdigest()[:16],
    )
    (folder / "README.md").write_text(card, encoding="utf-8")
    print(card)


def leave_code_out(folder: Path) -> None:
    """Inside the package the package is the code; a checkpoint saved elsewhere carries its own again.

    Who passes trust_remote_code=True without `import hf_echo` comes to it by installed_echo.py.
    """
    for file in folder.rglob("*.py"):
        file.unlink()
    names = ("EchoConfig", "EchoEncoder", "EchoForTranslation", "EchoTokenizer")
    (folder / "installed_echo.py").write_text(
        '"""For trust_remote_code=True: the code of this checkpoint is the installed package."""\n\n'
        f"from hf_echo.modeling import {', '.join(names)}  # noqa: F401\n"
    )
    for file in (*folder.rglob("config.json"), folder / "tokenizer_config.json"):
        config = json.loads(file.read_text(encoding="utf-8"))
        config.pop("custom_pipelines", None)
        map_ = config.pop("auto_map")
        if file.parent == folder:
            config["auto_map"] = json.loads(re.sub(r'"\w+\.(Echo\w+)"', r'"installed_echo.\1"', json.dumps(map_)))
        file.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


@torch.no_grad()
def average(decoder: EchoDecoder, first: EchoDecoder) -> None:
    """Between two decoders of one run, in place: the first knows news, the last everyday sentences; their mean is good
    at both (docs/trials/decoder.md; model soups, https://arxiv.org/abs/2203.05482)."""
    for mine, other in zip(decoder.parameters(), first.parameters(), strict=True):
        mine.lerp_(other, FIRST_DECODER)


def figures(found: dict, before: dict, floor: dict) -> dict:
    """Search beside echo-static and beside the bag before hard negatives; what the goals say of it."""
    rows = [
        {
            "name": name,
            **found["search"][name],
            "before": before[name]["xsimpp"],
            "static_all": floor[name]["all"],
            "static_twelve": floor[name]["twelve"],
        }
        for name in SETS
    ]
    flores, news = (found["search"][name]["languages"] for name in ("flores", "ntrex"))
    by_language = [
        (
            lang,
            flores[lang],
            news[lang],
            floor["flores"]["languages"][lang],
            floor["ntrex"]["languages"][lang],
        )
        for lang in sorted(flores)
    ]
    chrf = found["translation"]["chrf"]["all"]
    fewer = [1 - row["xsimpp"] / row["before"] for row in rows]
    better = sum(a + b < c + d for _, a, b, c, d in by_language)
    goals = {
        f"better than echo-static in {better} languages": better >= 0.9 * len(by_language),
        f"Bible xsim {found['search']['bible']['all']:.1f} %": found["search"]["bible"]["all"] < 10,
        f"xsim++ {100 * min(fewer):.0f} to {100 * max(fewer):.0f} % below the bag before hard negatives": min(fewer)
        >= 0.3,
        f"topics {found['topics']['clt']:.1f} %": found["topics"]["clt"] > 85,
        f"chrF++ {chrf['decoder']:.1f}": chrf["decoder"] > max(chrf["source"], chrf["nearest"]),
        f"flores {found['search']['flores']['twelve']:.1f} %": found["search"]["flores"]["twelve"] <= 10,
        f"news {found['search']['ntrex']['twelve']:.1f} %": found["search"]["ntrex"]["twelve"] <= 18,
    }
    return dict(
        search=rows,
        by_language=by_language,
        better=better,
        missed=[goal for goal, reached in goals.items() if not reached],
        extension=[
            (
                lang,
                found["extension"]["flores"][lang],
                before["extension"]["flores"][lang],
                found["extension"]["ntrex"].get(lang),
                before["extension"]["ntrex"].get(lang),
            )
            for lang in found["extension"]["flores"]
        ],
        unseen=[
            (f"at most {most} %", [row for row in found["unseen"].items() if least < row[1] <= most])
            for least, most in ((-1, 10), (10, 20))
        ],
        unseen_others=sum(wrong > 20 for wrong in found["unseen"].values()),
        speed=found["speed"],
        translation=found["translation"],
    )


def stage_row(name: str, what: str) -> dict:
    results = json.loads((OUT / name / "results.json").read_text())
    values = json.loads((OUT / name / "recipe.json").read_text())["values"]
    if "tokens_per_second" in results:
        tokens = f"{results['tokens_per_second'] * results['seconds'] / 1e6:.1f}M"
    else:
        tokens = f"{values['max_steps'] * values['rows'] / 1e6:.1f}M pairs"
    return {
        "name": name,
        "what": what,
        "steps": values["max_steps"],
        "seed": values.get("seed", 42),
        "tokens": tokens,
        "seconds": results["seconds"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path, help="folder with bible.parquet, ntrex.parquet, ...")
    parser.add_argument("--only", choices=["static", "nano"], help="just this checkpoint")
    args = parser.parse_args()
    make_data(args.corpora)
    train("echo-static")  # echo-nano starts from its bag
    if args.only != "nano":
        static(args.corpora)
    if args.only != "static":
        train("echo-nano")
        nano(args.corpora)


if __name__ == "__main__":
    main()
