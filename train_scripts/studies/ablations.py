"""The ablations of ECHO (Tables 9 to 11 and 13) and OS (7.1 to 7.4) at nano size, our order beside the paper's.

    python train_scripts/studies/ablations.py --out outputs/ablations --seeds 2
    python train_scripts/studies/ablations.py --out outputs/ablations --tables margin pooling
    python train_scripts/studies/ablations.py --out outputs/ablations --tables vocabulary teacher --corpora CORPORA

recipes/ablations.yaml has the rows, steps and the paper's figures. A row that is the same in two tables is trained
once; a finished row is trained again only after its settings changed. Writes results.json and table.md in the output
folder. Every row starts from the packaged echo-nano without two thirds of its layers; the whole model leaves too few
errors to compare.

The tables of OS 14a, 14c and 16 take the steps of OS 4.5 from end to end, on languages that echo-nano was not trained
on. They read CORPORA, a folder of parallel corpora (`../corpora/nano_real_data.py`); the others read nano-real's data.
"""

import argparse
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pandas as pd
import yaml
from tqdm import tqdm

from hf_echo.checkpoints import prune_checkpoint, swap_checkpoint
from hf_echo.evaluation import evaluate_xsim, translation_scores
from hf_echo.inference import encode, load_encoder, load_translator, translate
from hf_echo.modeling import EchoTokenizer
from hf_echo.negatives.rules import hard_negatives_for
from hf_echo.steps.recipe import find_recipes, read_recipe
from hf_echo.steps.training import train_recipe
from hf_echo.utils.hub import packaged_model
from hf_echo.vocabulary import count_words, train_from_counts, vocabulary_report

GRID = Path(__file__).parents[1] / "recipes" / "ablations.yaml"
ENGLISH = "eng_Latn"
NOT_FIELDS = ("name", "paper", "start", "pooling", "row", "vocabulary", "adaptation_steps")
HIGHER_IS_BETTER = ("chrF++", "sentences/s")  # ends of names of measures


def start_point(grid: Mapping[str, Any], out: Path) -> Path:
    """The packaged model's encoder and decoder with fewer layers, untrained since."""
    folder = out / "start"
    if not folder.exists():
        prune_checkpoint(packaged_model(grid["start"]["model"]), folder, shape=grid["start"]["shape"])
    return folder


def with_pooling(start: Path, pooling: str) -> Path:
    """The same weights, pooled otherwise."""
    folder = start.with_name(f"{start.name}-{pooling}")
    if not folder.exists():
        shutil.copytree(start, folder)
        config = json.loads((folder / "config.json").read_text())
        config["pooling"] = pooling
        (folder / "config.json").write_text(json.dumps(config, indent=2))
    return folder


def fields_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a recipe that a row changes."""
    return {name: value for name, value in row.items() if name not in NOT_FIELDS}


def overrides_of(row: Mapping[str, Any], grid: Mapping[str, Any], seed: int, out: Path) -> dict[str, Any]:
    kind = grid[row.get("row", "row")]
    values = kind["overrides"] | fields_of(row) | {"seed": seed}
    start = start_point(grid, out)
    if row.get("start") == "random":
        return values | {"model_name_or_path": None, "tokenizer_name_or_path": str(start), "shape": grid["random"]}
    if "pooling" in row:
        start = with_pooling(start, row["pooling"])
    return values | {"model_name_or_path": str(start)}


def split_dev(grid: Mapping[str, Any]) -> None:
    """FLORES of the languages that the extension calls base, and of its new ones, each with English."""
    flores = pd.read_parquet(grid["row"]["overrides"]["dev_data"]["flores"])
    of_extension = grid["extension"]["overrides"]
    is_base = flores.lang.isin(of_extension["base_languages"])
    is_english = flores.lang == ENGLISH
    flores[is_base].to_parquet(of_extension["dev_data"]["base"])
    flores[~is_base | is_english].to_parquet(of_extension["dev_data"]["new"])


def one_stage_figures(row: Mapping[str, Any], grid: Mapping[str, Any], seed: int, out: Path) -> dict[str, float]:
    """Train one stage from the start; the measures that its recipe's dev sets have."""
    kind = grid[row.get("row", "row")]
    folder = out / "run"
    overrides = overrides_of(row, grid, seed, out) | {"output_dir": str(folder)}
    results = train_recipe(find_recipes(kind["recipe"])[0], overrides, fresh=True)
    shutil.rmtree(folder)
    return {name: results[f"eval_{measure}"] for name, measure in kind["measures"].items()}


class Remembered:
    """(texts, lang) -> (texts, dimensions) by a model that encodes each text of a language once; `seconds` of CPU."""

    def __init__(self, model: Any, tokenizer: Any):
        self.model = model
        self.tokenizer = tokenizer
        self.seconds = 0.0
        self.vectors: dict[tuple[str, str], np.ndarray] = {}

    def __call__(self, texts: Sequence[str], lang: str) -> np.ndarray:
        new_texts = [text for text in texts if (lang, text) not in self.vectors]
        if new_texts:
            before = time.process_time()
            embeddings = encode(self.model, self.tokenizer, new_texts, lang)
            self.seconds += time.process_time() - before
            for text, embedding in zip(new_texts, embeddings, strict=True):
                self.vectors[lang, text] = embedding
        return np.stack([self.vectors[lang, text] for text in texts])


def shorten(tokenizer_file: Path, size: int) -> None:
    """Keep the first tokens of a BPE whose ids are in the order of its merges: as if it had been trained to `size`."""
    content = json.loads(tokenizer_file.read_text(encoding="utf-8"))
    model = content["model"]
    too_many = len(model["vocab"]) - size
    model["vocab"] = {token: number for token, number in model["vocab"].items() if number < size}
    model["merges"] = model["merges"][: len(model["merges"]) - too_many]
    tokenizer_file.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


class Omnilingual:
    """OS 4.5 from end to end: tokenizer, vocabulary adaptation, extension. Steps that rows share are made once.

    Args:
        kind: a kind of rows in the grid, such as `omnilingual`. out: folder of all steps. corpora: the parallel
            corpora. start: encoder that the teacher starts from. whole: model that the teacher learns from, whose
            decoder reads every encoder of the space.
    """

    def __init__(self, kind: Mapping[str, Any], out: Path, corpora: Path, start: Path, whole: str):
        self.kind = kind
        self.out = out
        self.start = start
        self.whole = whole
        self.data = self.collected(corpora)
        self.teacher = self.encoder_alone(self.trained("teacher", start, seed=0))

    def collected(self, corpora: Path) -> Path:
        """Pairs to train on, and the dev sets BIBLE and FLORES."""
        folder = self.out / "data"
        if not folder.exists():
            step = self.kind["data"]
            languages = [*self.kind["base_languages"], *self.kind["new_languages"]]
            place = {"corpora": str(corpora), "languages": languages, "output_dir": str(folder)}
            read_recipe(find_recipes(step["recipe"])[0], step["overrides"] | place).make()
        return folder

    def trained(self, name: str, start: Path, *, seed: int, stage: str | None = None, **fields: Any) -> Path:
        """The folder of a stage of the grid (`teacher`, `adaptation`, `extension`) that was trained from `start`."""
        step = self.kind[stage or name]
        folder = self.out / name
        place = {
            "model_name_or_path": str(start),
            "train_data": str(self.data / "train.parquet"),
            "base_languages": self.kind["base_languages"],
            "output_dir": str(folder),
            "cache_dir": str(self.out / "cache"),
            "seed": seed,
        }
        train_recipe(find_recipes(step["recipe"])[0], self.kind["steps"] | step["overrides"] | place | fields)
        return folder

    def encoder_alone(self, checkpoint: Path) -> Path:
        """The checkpoint without its decoder, whose tokens a new tokenizer does not have."""
        folder = self.out / f"{checkpoint.name}-encoder"
        if not folder.exists():
            for part in load_encoder(checkpoint, dtype="fp32"):
                part.save_pretrained(folder)
        return folder

    def tokenizer(self, size: int) -> Path:
        """A tokenizer of all languages; of the layout without prompts, as the teacher's."""
        folder = self.out / f"tokenizer-{size}"
        if not folder.exists():
            largest = self.out / f"tokenizer-{self.kind['largest_vocabulary']}"
            if not largest.exists():
                counts = count_words(self.data / "train.parquet", self.out / "counts.parquet", progress=False)
                tokenizer = train_from_counts(counts.balanced(), self.kind["largest_vocabulary"], progress=False)
                EchoTokenizer.around(tokenizer).save_pretrained(largest)
            if folder != largest:
                shutil.copytree(largest, folder)
                shorten(folder / "tokenizer.json", size)
        return folder

    def adapted(self, vocabulary: int | None, steps: int | None, seed: int) -> Path:
        """The student before the extension (OS 4.5.1): on a new tokenizer, trained for so many steps to read it."""
        if vocabulary is None:
            return self.teacher
        swapped = self.out / f"swapped-{vocabulary}"
        if not swapped.exists():
            swap_checkpoint(self.teacher, self.tokenizer(vocabulary), swapped)
        if steps == 0:
            return swapped
        fields = {} if steps is None else {"max_steps": steps}
        name = f"adapted-{vocabulary}-{seed}"
        return self.trained(name, swapped, seed=seed, stage="adaptation", teacher=str(self.teacher), **fields)

    def figures(self, row: Mapping[str, Any], seed: int) -> dict[str, float]:
        """Adapt and extend as a row says, then measure."""
        start = self.adapted(row["vocabulary"], row.get("adaptation_steps"), seed)
        fields = fields_of(row) | {"teacher": str(self.teacher)}
        shutil.rmtree(self.out / "run", ignore_errors=True)
        extended = self.trained("run", start, seed=seed, stage="extension", **fields)
        figures = self.measured(extended)
        shutil.rmtree(extended)
        return figures

    def measured(self, checkpoint: Path) -> dict[str, float]:
        """xsim or xsim++, chrF++ by the whole model's decoder, tokens and sentences/s: BIBLE new, FLORES base."""
        model, tokenizer = load_encoder(checkpoint, dtype="fp32")
        decoder = load_translator(self.whole, dtype="fp32")
        bible = pd.read_parquet(self.data / "dev_bible.parquet")
        flores = pd.read_parquet(self.data / "dev_flores.parquet")
        verses = sorted(bible.id.unique())[: self.kind["bible_verses"]]
        bible = bible[bible.id.isin(verses) & bible.lang.isin([*self.kind["new_languages"], ENGLISH])]
        flores = flores[flores.lang.isin(self.kind["base_languages"])]
        figures = {"million parameters": sum(weight.numel() for weight in model.parameters()) / 1e6}
        for name, table, error in (("BIBLE", bible, "xsim"), ("FLORES", flores, "xsim++")):
            rows = table.to_dict("records")
            encoder = Remembered(model, tokenizer)
            for lang, of_lang in table.groupby("lang"):
                encoder(list(of_lang.text), lang)
            figures[f"{name} sentences/s"] = len(table) / encoder.seconds
            english = table[table.lang == ENGLISH]
            negatives = None
            if error == "xsim++":
                negatives = dict(zip(english.id, hard_negatives_for(list(english.text)), strict=True))
            errors = evaluate_xsim(encoder, rows, negatives=negatives).average
            figures[f"{name} {error}"] = errors[error.replace("++", "pp")]
            figures[f"{name} chrF++"] = self.chrf(decoder, rows, encoder)
            texts = list(zip(table.lang, table.text))
            report = vocabulary_report({"own": tokenizer}, [texts], progress=False)
            figures[f"{name} tokens"] = report.get("own").tokens_per_sentence
        return figures

    def chrf(self, decoder: tuple[Any, Any], rows: Sequence[Mapping[str, Any]], encoder: Callable) -> float:
        """Mean chrF++ into English over the other languages, of the first sentences that English has, too."""
        by_language: dict[str, dict[str, str]] = {}
        for row in rows:
            by_language.setdefault(row["lang"], {})[row["id"]] = row["text"]
        english = by_language.pop(ENGLISH)
        scores = []
        for lang, texts in by_language.items():
            keys = sorted(texts.keys() & english.keys())[: self.kind["translated"]]
            embeddings = encoder([texts[key] for key in keys], lang)
            hypotheses = translate(*decoder, embeddings, num_beams=1, max_new_tokens=60)
            scores.append(translation_scores(hypotheses, [english[key] for key in keys], spbleu=False).chrf)
        return mean(scores)


def run(
    grid: Mapping[str, Any], tables: Sequence[str], seeds: int, out: Path, corpora: Path | None = None
) -> dict[str, list[dict[str, Any]]]:
    """{table: [{"name", "paper", "columns", "runs": [{measure: value}, one a seed]}]}"""
    file = out / "results.json"
    finished: dict[str, dict] = json.loads(file.read_text()) if file.exists() else {}
    results = {}
    for table in tables:
        results[table] = []
        for row in grid["tables"][table]:
            kind = grid[row.get("row", "row")]
            columns = kind.get("columns") or list(kind["measures"])
            results[table].append({"name": row["name"], "paper": row.get("paper"), "columns": columns, "runs": []})
    omnilingual = None
    jobs = [
        (seed, table, number)
        for seed in range(seeds)
        for table in tables
        for number in range(len(grid["tables"][table]))
    ]
    for seed, table, number in tqdm(jobs, desc="Ablations", unit="run"):
        row = grid["tables"][table][number]
        kind = grid[row.get("row", "row")]
        settings = {name: value for name, value in kind.items() if name not in ("columns", "measures")}
        changes = {name: value for name, value in row.items() if name not in ("name", "paper", "row")}
        key = json.dumps([settings, changes, seed], sort_keys=True)
        if key not in finished:
            if "recipe" in kind:
                figures = one_stage_figures(row, grid, seed, out)
            else:
                if omnilingual is None:
                    start = start_point(grid, out)
                    omnilingual = Omnilingual(kind, out / "omnilingual", corpora, start, grid["start"]["model"])
                figures = omnilingual.figures(row, seed)
            finished[key] = figures
            file.write_text(json.dumps(finished, indent=1) + "\n")
        results[table][number]["runs"].append(finished[key])
    return results


def order(values: Sequence[float | None], *, higher_is_better: bool = False) -> list[int | None]:
    """Place of each among those that are not None, 1 the best."""
    known = sorted((value for value in values if value is not None), reverse=higher_is_better)
    return [None if value is None else known.index(value) + 1 for value in values]


def as_markdown(results: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """A table of Markdown for each of the grid: mean (each seed), place; then the paper's figures and places."""
    blocks = []
    for table, rows in results.items():
        columns = rows[0]["columns"]
        means, places, paper_places = {}, {}, {}
        for number, column in enumerate(columns):
            higher = column.endswith(HIGHER_IS_BETTER)
            means[column] = [mean(run[column] for run in row["runs"]) for row in rows]
            places[column] = order(means[column], higher_is_better=higher)
            printed = [row["paper"][number] if row["paper"] else None for row in rows]
            paper_places[column] = order(printed, higher_is_better=higher)
        lines = [
            f"### {table}\n",
            f"| row | {' | '.join(columns)} | order | paper | its order |",
            "|---|" + "---:|" * len(columns) + "---|---|---|",
        ]
        for place, row in enumerate(rows):
            cells = [row["name"]]
            for column in columns:
                by_seed = " ".join(f"{run[column]:.1f}" for run in row["runs"])
                cells.append(f"{means[column][place]:.1f} ({by_seed})")
            cells.append(" / ".join(str(places[column][place]) for column in columns))
            if row["paper"]:
                cells.append(" / ".join(str(value) for value in row["paper"]))
                cells.append(" / ".join(str(paper_places[column][place]) for column in columns))
            else:
                cells += ["", ""]
            lines.append(f"| {' | '.join(cells)} |")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("outputs/ablations"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--tables", nargs="*", default=[], help="starts of table names; all by default")
    parser.add_argument("--corpora", type=Path, help="folder of the parallel corpora, for OS Tables 14a, 14c and 16")
    args = parser.parse_args()
    grid = yaml.safe_load(GRID.read_text())
    tables = [table for table in grid["tables"] if not args.tables or table.startswith(tuple(args.tables))]
    if not tables:
        parser.error(f"no table starts with {args.tables}; there are {', '.join(grid['tables'])}")
    kinds = {row.get("row", "row") for table in tables for row in grid["tables"][table]}
    if not args.corpora and any("recipe" not in grid[kind] for kind in kinds):
        parser.error("these tables need --corpora, the folder of the parallel corpora")
    args.out.mkdir(parents=True, exist_ok=True)
    if "extension" in kinds:
        split_dev(grid)
    text = as_markdown(run(grid, tables, args.seeds, args.out, args.corpora))
    (args.out / "table.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
