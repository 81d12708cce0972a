"""The ablations of ECHO (Tables 9 to 11 and 13) and OS (7.1 to 7.4) at nano size, our order beside
the paper's.

    python train_scripts/studies/ablations.py --out outputs/ablations --seeds 2
    python train_scripts/studies/ablations.py --out outputs/ablations --tables margin pooling
    python train_scripts/studies/ablations.py --out outputs/ablations --tables vocabulary teacher --corpora CORPORA

recipes/ablations.yaml has the rows, steps and the paper's figures. A row that is the same in two
tables is trained once; a finished row is trained again only after its settings changed. Writes
results.json and table.md in the output folder. Every row starts from the packaged echo-nano without
two thirds of its layers; the whole model leaves too few errors to compare.

The tables of OS 14a, 14c and 16 take the steps of OS 4.5 from end to end, on languages that
echo-nano was not trained on. They read CORPORA, a folder of parallel corpora, or public text; the
others read the data of steps 0a and 0b of the recipe nano-real.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import pandas as pd
import yaml
from study_parts import RememberingEncoder, command_line, dev_rows
from tqdm import tqdm

from hf_echo.checkpoints import prune_checkpoint, swap_checkpoint
from hf_echo.evaluation import evaluate_xsim, translation_scores
from hf_echo.evaluation.nway_texts import texts_by_language
from hf_echo.inference import encode, load_encoder, load_translator, translate
from hf_echo.languages import ENGLISH
from hf_echo.modeling import EchoTokenizer
from hf_echo.negatives.rules import hard_negatives_by_id
from hf_echo.steps.public_text import add_corpora, corpora_of
from hf_echo.steps.recipe import find_recipes, read_recipe
from hf_echo.steps.training import train_recipe
from hf_echo.utils.files import read_json, write_json
from hf_echo.utils.hub import packaged_model
from hf_echo.utils.results import markdown_table
from hf_echo.vocabulary import count_words, train_from_counts, vocabulary_report

GRID = Path(__file__).parents[1] / "recipes" / "ablations.yaml"
NOT_FIELDS = ("name", "paper", "start", "pooling", "row", "vocabulary", "adaptation_steps")
HIGHER_IS_BETTER = ("chrF++", "sentences/s")  # ends of names of measures

Grid = Mapping[str, Any]  # recipes/ablations.yaml
Row = Mapping[str, Any]  # a row of one of its tables


def kind_of(row: Row, grid: Grid) -> dict[str, Any]:
    """What all rows of the same kind share: recipe, settings, measures."""
    return grid[row.get("row", "row")]


def recipe_of(step: Mapping[str, Any]) -> Path:
    return find_recipes(step["recipe"])[0]


def start_point(grid: Grid, out: Path) -> Path:
    """The packaged model's encoder and decoder with fewer layers, untrained since."""
    folder = out / "start"
    if not folder.exists():
        start = grid["start"]
        prune_checkpoint(packaged_model(start["model"]), folder, shape=start["shape"])
    return folder


def with_pooling(start: Path, pooling: str) -> Path:
    """The same weights, pooled otherwise."""
    folder = start.with_name(f"{start.name}-{pooling}")
    if not folder.exists():
        shutil.copytree(start, folder)
        config = read_json(folder / "config.json")
        config["pooling"] = pooling
        write_json(folder / "config.json", config)
    return folder


def fields_of(row: Row) -> dict[str, Any]:
    """The fields of a recipe that a row changes."""
    return {name: value for name, value in row.items() if name not in NOT_FIELDS}


def split_dev(grid: Grid) -> None:
    """FLORES of the languages that the extension calls base, and of its new ones,
    each with English."""
    flores = pd.read_parquet(grid["row"]["overrides"]["dev_data"]["flores"])
    extension = grid["extension"]["overrides"]
    is_base = flores.lang.isin(extension["base_languages"])
    is_english = flores.lang == ENGLISH
    flores[is_base].to_parquet(extension["dev_data"]["base"])
    flores[~is_base | is_english].to_parquet(extension["dev_data"]["new"])


def one_stage_figures(row: Row, grid: Grid, seed: int, out: Path) -> dict[str, float]:
    """Train one stage from the start; the measures that its recipe's dev sets have."""
    kind = kind_of(row, grid)
    folder = out / "run"
    overrides = kind["overrides"] | fields_of(row) | {"seed": seed, "output_dir": str(folder)}
    start = start_point(grid, out)
    # Random weights need the shape; the tokenizer stays.
    if row.get("start") == "random":
        overrides |= {
            "model_name_or_path": None,
            "tokenizer_name_or_path": str(start),
            "shape": grid["random"],
        }
    else:
        if "pooling" in row:
            start = with_pooling(start, row["pooling"])
        overrides["model_name_or_path"] = str(start)
    results = train_recipe(recipe_of(kind), overrides, fresh=True)
    shutil.rmtree(folder)
    return {name: results[f"eval_{measure}"] for name, measure in kind["measures"].items()}


def shorten(tokenizer_file: Path, size: int) -> None:
    """Keep the first tokens of a BPE whose ids are in the order of its merges:
    as if it had been trained to `size`."""
    content = json.loads(tokenizer_file.read_text(encoding="utf-8"))
    model = content["model"]
    # Each token too many comes from one of the last merges.
    too_many = len(model["vocab"]) - size
    del model["merges"][len(model["merges"]) - too_many :]
    model["vocab"] = {token: number for token, number in model["vocab"].items() if number < size}
    tokenizer_file.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


class Omnilingual:
    """OS 4.5 from end to end: tokenizer, vocabulary adaptation, extension. Steps that rows share
    are made once.

    Args:
        kind: a kind of rows in the grid, such as `omnilingual`. out: folder of all steps. corpora:
            the parallel corpora. start: encoder that the teacher starts from. whole: model that the
            teacher learns from, whose decoder reads every encoder of the space.
    """

    def __init__(self, kind: Mapping[str, Any], out: Path, corpora: Path, start: Path, whole: str):
        self.kind = kind
        self.out = out
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
            read_recipe(recipe_of(step), step["overrides"] | place).make()
        return folder

    def trained(
        self, name: str, start: Path, *, seed: int, stage: str | None = None, **fields: Any
    ) -> Path:
        """The folder of a stage of the grid (`teacher`, `adaptation`, `extension`) that was trained
        from `start`."""
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
        train_recipe(recipe_of(step), self.kind["steps"] | step["overrides"] | place | fields)
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
        largest_size = self.kind["largest_vocabulary"]
        largest = self.out / f"tokenizer-{largest_size}"
        if not largest.exists():
            pairs = self.data / "train.parquet"
            counts = count_words(pairs, self.out / "counts.parquet", progress=False)
            tokenizer = train_from_counts(counts.balanced(), largest_size, progress=False)
            EchoTokenizer.around(tokenizer).save_pretrained(largest)
        folder = self.out / f"tokenizer-{size}"
        if not folder.exists():
            shutil.copytree(largest, folder)
            shorten(folder / "tokenizer.json", size)
        return folder

    def adapted(self, vocabulary: int | None, steps: int | None, seed: int) -> Path:
        """The student before the extension (OS 4.5.1):
        on a new tokenizer, trained for so many steps to read it."""
        if vocabulary is None:
            return self.teacher
        swapped = self.out / f"swapped-{vocabulary}"
        if not swapped.exists():
            swap_checkpoint(self.teacher, self.tokenizer(vocabulary), swapped)
        if steps == 0:
            return swapped
        fields: dict[str, Any] = {"teacher": str(self.teacher)}
        if steps is not None:
            fields["max_steps"] = steps
        name = f"adapted-{vocabulary}-{seed}"
        return self.trained(name, swapped, seed=seed, stage="adaptation", **fields)

    def figures(self, row: Row, seed: int) -> dict[str, float]:
        """Adapt and extend as a row says, then measure."""
        start = self.adapted(row["vocabulary"], row.get("adaptation_steps"), seed)
        fields = fields_of(row) | {"teacher": str(self.teacher)}
        shutil.rmtree(self.out / "run", ignore_errors=True)
        extended = self.trained("run", start, seed=seed, stage="extension", **fields)
        figures = self.measured(extended)
        shutil.rmtree(extended)
        return figures

    def measured(self, checkpoint: Path) -> dict[str, float]:
        """xsim or xsim++, chrF++ by the whole model's decoder, tokens and sentences/s:
        BIBLE new, FLORES base."""
        model, tokenizer = load_encoder(checkpoint, dtype="fp32")
        figures = {"million parameters": model.num_parameters() / 1e6}
        # BIBLE measures the new languages, FLORES the base ones.
        bible = dev_rows(self.data, "bible", self.kind["new_languages"])
        verses = sorted(bible.id.unique())[: self.kind["bible_verses"]]
        bible = bible[bible.id.isin(verses)]
        flores = dev_rows(self.data, "flores", self.kind["base_languages"])
        for name, table in (("BIBLE", bible), ("FLORES", flores)):
            encoder = RememberingEncoder(partial(encode, model, tokenizer))
            # All texts at once: the measures below ask again, and the encoder remembers.
            for lang, of_language in table.groupby("lang"):
                encoder(list(of_language.text), lang)
            figures[f"{name} sentences/s"] = len(table) / encoder.seconds
            rows = table.to_dict("records")
            if name == "BIBLE":
                figures["BIBLE xsim"] = evaluate_xsim(encoder, rows).average["xsim"]
            else:  # errors of FLORES without hard negatives are too few to compare
                errors = evaluate_xsim(encoder, rows, negatives=hard_negatives_by_id(rows))
                figures["FLORES xsim++"] = errors.average["xsimpp"]
            figures[f"{name} chrF++"] = self.chrf(rows, encoder)
            texts = list(zip(table.lang, table.text))
            report = vocabulary_report({"own": tokenizer}, [texts], progress=False)
            figures[f"{name} tokens"] = report.get("own").tokens_per_sentence
        return figures

    def chrf(self, rows: Sequence[Row], encoder: Callable) -> float:
        """Mean chrF++ into English over the other languages,
        of the first sentences that English has, too."""
        decoder = load_translator(self.whole, dtype="fp32")
        by_language = texts_by_language(rows)
        english = by_language.pop(ENGLISH)
        scores = []
        for lang, texts in by_language.items():
            keys = sorted(texts.keys() & english.keys())[: self.kind["translated"]]
            embeddings = encoder([texts[key] for key in keys], lang)
            hypotheses = translate(*decoder, embeddings, num_beams=1, max_new_tokens=60)
            references = [english[key] for key in keys]
            scores.append(translation_scores(hypotheses, references, spbleu=False).chrf)
        return mean(scores)


def run(
    grid: Grid, tables: Sequence[str], seeds: int, out: Path, corpora: Path | None = None
) -> dict[str, list[dict[str, Any]]]:
    """{table: [{"name", "paper", "columns", "runs": [{measure: value}, one a seed]}]}"""
    file = out / "results.json"
    finished: dict[str, dict] = read_json(file, {})
    omnilingual = None
    results: dict[str, list[dict[str, Any]]] = {}
    jobs = []  # (row of the grid, its figures of each seed)
    for table in tables:
        results[table] = []
        for row in grid["tables"][table]:
            kind = kind_of(row, grid)
            columns = kind.get("columns") or list(kind["measures"])
            line = {"name": row["name"], "paper": row.get("paper"), "columns": columns, "runs": []}
            results[table].append(line)
            jobs.append((row, line["runs"]))
    # All rows of the first seed, then all of the next: a run that is stopped has whole tables.
    seeded_jobs = list(product(range(seeds), jobs))
    for seed, (row, runs) in tqdm(seeded_jobs, desc="Ablations", unit="run"):
        kind = kind_of(row, grid)
        key = run_key(row, kind, seed)
        if key not in finished:
            if "recipe" in kind:
                finished[key] = one_stage_figures(row, grid, seed, out)
            else:
                if omnilingual is None:
                    folder = out / "omnilingual"
                    start = start_point(grid, out)
                    omnilingual = Omnilingual(kind, folder, corpora, start, grid["start"]["model"])
                finished[key] = omnilingual.figures(row, seed)
            write_json(file, finished)
        runs.append(finished[key])
    return results


def run_key(row: Row, kind: Mapping[str, Any], seed: int) -> str:
    """The settings of a run, by which it is known: two tables may share a row, and a changed one
    is new."""
    settings = {name: kind[name] for name in kind if name not in ("columns", "measures")}
    changes = {name: row[name] for name in row if name not in ("name", "paper", "row")}
    return json.dumps([settings, changes, seed], sort_keys=True)


def order(values: Sequence[float | None], *, higher_is_better: bool = False) -> list[int | None]:
    """Place of each among those that are not None, 1 the best."""
    ranked = sorted((value for value in values if value is not None), reverse=higher_is_better)
    return [None if value is None else ranked.index(value) + 1 for value in values]


def slashed(values: Iterable[Any]) -> str:
    return " / ".join(map(str, values))


def as_markdown(results: Mapping[str, Sequence[Row]]) -> str:
    """A table of Markdown for each of the grid: mean (each seed), place;
    then the paper's figures and places."""
    blocks = []
    for table, rows in results.items():
        columns = rows[0]["columns"]
        cells: list[list[str]] = [[row["name"]] for row in rows]
        our_places: list[list] = [[] for _ in rows]  # of each row, its place in each column
        paper_places: list[list] = [[] for _ in rows]
        for number, column in enumerate(columns):
            by_seed = [[run[column] for run in row["runs"]] for row in rows]
            means = [mean(figures) for figures in by_seed]
            printed = [row["paper"] and row["paper"][number] for row in rows]
            higher_is_better = column.endswith(HIGHER_IS_BETTER)
            ours = order(means, higher_is_better=higher_is_better)
            papers = order(printed, higher_is_better=higher_is_better)
            for i, figures in enumerate(by_seed):
                each = " ".join(f"{figure:.1f}" for figure in figures)
                cells[i].append(f"{means[i]:.1f} ({each})")
                our_places[i].append(ours[i])
                paper_places[i].append(papers[i])
        for i, row in enumerate(rows):
            cells[i].append(slashed(our_places[i]))
            paper = [slashed(row["paper"]), slashed(paper_places[i])] if row["paper"] else ["", ""]
            cells[i] += paper
        header = ["row", *columns, "order", "paper", "its order"]
        blocks.append(f"### {table}\n\n{markdown_table(header, cells)}\n")
    return "\n".join(blocks)


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--out", type=Path, default=Path("outputs/ablations"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument(
        "--tables", nargs="*", default=[], help="starts of table names; all by default"
    )
    add_corpora(parser, "--corpora")
    args = parser.parse_args()
    grid = yaml.safe_load(GRID.read_text())
    tables = list(grid["tables"])
    if args.tables:
        tables = [table for table in tables if table.startswith(tuple(args.tables))]
    if not tables:
        parser.error(f"no table starts with {args.tables}; there are {', '.join(grid['tables'])}")
    kinds = [kind_of(row, grid) for table in tables for row in grid["tables"][table]]
    corpora = None
    if any("recipe" not in kind for kind in kinds):
        corpora = corpora_of(args, "bible", "ntrex", "flores_sib")
    args.out.mkdir(parents=True, exist_ok=True)
    if grid["extension"] in kinds:
        split_dev(grid)
    text = as_markdown(run(grid, tables, args.seeds, args.out, corpora))
    (args.out / "table.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
