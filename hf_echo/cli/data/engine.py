"""hf-echo data filter, sample, calibrate, stats, push: filter, sample, count and publish parallel data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from ...utils.executors import executor_named
from ...utils.files import write_whole
from ..common import PLAIN, Executor, Json, Model, Resume, example, print_report

commands = typer.Typer(**PLAIN)

Out = Annotated[Path, typer.Option("--out", "-o", help="Output folder: data/, counts and statistics.")]
OnBadRow = Annotated[
    str, typer.Option(help="For bad rows: error (stop and name file and line) or skip (and list them in counts.json).")
]
Overwrite = Annotated[bool, typer.Option(help="Replace another recipe's result in OUT.")]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        help="NAME=COLUMN for a schema column with another name, or source_lang=fra_Latn for one language; repeatable.",
    ),
]


@commands.command(
    "filter",
    **example("hf-echo data filter nano_real_strict --out outputs/strict --on-bad-row skip", folder=True),
)
def filter_(
    recipe: Annotated[str, typer.Argument(help="Recipe: a YAML file, or the name of an included recipe.")],
    out: Out,
    executor: Executor = "local",
    on_bad_row: OnBadRow = "error",
    resume: Resume = True,
    overwrite: Overwrite = False,
    block: Annotated[int, typer.Option(min=1, help="Rows per block, held in memory by one worker.")] = 50_000,
) -> None:
    """Run a data recipe: read, filter, deduplicate, score, sample. A stopped run resumes."""
    from ...data.pipeline import read_recipe, run
    from ...negatives.recipe_steps import STEPS

    done = run(
        read_recipe(recipe, STEPS),
        out,
        executor=executor_named(executor),
        on_bad_row=on_bad_row,
        block=block,
        overwrite=overwrite,
        fresh=not resume,
    )
    _tell(done)


@commands.command(
    **example(
        "hf-echo data sample pairs.parquet --out s --method temperature --exponent 0.6 --rows 1000000",
        folder=True,
    )
)
def sample(
    paths: Annotated[
        list[str], typer.Argument(help="Files, folders or Hub datasets of parallel rows; each is one source.")
    ],
    out: Out,
    method: Annotated[str, typer.Option(help="Sampling method: natural, temperature, two_step or unimax.")] = "natural",
    exponent: Annotated[
        float | None, typer.Option(help="Exponent of temperature (required), or of two_step (default 0.5).")
    ] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Number of rows to draw. Default: all rows.")] = None,
    by: Annotated[str, typer.Option(help="Column to balance: source_lang, target_lang or direction.")] = "source_lang",
    seed: Annotated[int, typer.Option(help="Random seed of the draw.")] = 0,
    shards: Annotated[
        int | None, typer.Option(min=1, help="Number of output files. Default: one per million rows.")
    ] = None,
    executor: Executor = "local",
    on_bad_row: OnBadRow = "error",
    resume: Resume = True,
    overwrite: Overwrite = False,
) -> None:
    """Sample rows in exact proportions by language; rows of languages with too few are repeated evenly."""
    from ...data.pipeline import Output, Recipe, Sampling, run
    from ...data.pipeline.recipe import source_of

    recipe = Recipe(
        [source_of(path, path) for path in paths],
        sampling=Sampling(method, by, exponent, rows, seed=seed),
        out=Output(shards),
    )
    options = {"on_bad_row": on_bad_row, "overwrite": overwrite, "fresh": not resume}
    _tell(run(recipe, out, executor=executor_named(executor), **options))


@commands.command(
    **example("hf-echo data calibrate dev.parquet --model outputs/nano-real/2_contrastive --out dev.json")
)
def calibrate(
    paths: Annotated[list[str], typer.Argument(help="Clean parallel or n-way data: files, folders or Hub datasets.")],
    model: Model,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Output JSON file, for the field `calibrated` of the filter `threshold`."),
    ],
    direction: Annotated[str | None, typer.Option(help="Directions of n-way data: x_eng, eng_x or all.")] = None,
    blaser: Annotated[
        str | None, typer.Option(help="BLASER 2.0 qe model whose scores replace cosines: folder or Hub name.")
    ] = None,
) -> None:
    """Compute mean and standard deviation of the scores of clean pairs, of all splits, by direction (OS 3.5)."""
    from ...data.pipeline.filters.threshold import calibrate as fit
    from ...data.pipeline.sources import read_unit, units_of
    from ...data.tables import BadRows
    from ...inference.blaser import BlaserScorer
    from ...inference.scorer import EchoScorer

    scorer = BlaserScorer(blaser, model) if blaser else EchoScorer(model)
    options = {"direction": direction} if direction else {}
    units = units_of([{"path": path, "label": path, "split": None, **options} for path in paths])
    threshold = fit((table for unit in units for table in read_unit(unit, BadRows("error"))), scorer)
    with write_whole(out) as unfinished:
        threshold.save(unfinished)
    typer.echo(f"{len(threshold.calibrated)} directions calibrated: {out}")


@commands.command(**example("hf-echo data stats outputs/strict/data --markdown table.md"))
def stats(
    paths: Annotated[list[str], typer.Argument(help="Files, folders or Hub datasets of parallel rows.")],
    column: Columns = None,
    split: Annotated[
        str | None, typer.Option(help="Count only this split (by file name, column or on the Hub). Default: all.")
    ] = None,
    report: Json = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the table to this Markdown file.")] = None,
    on_bad_row: OnBadRow = "error",
) -> None:
    """Count pairs, directions, languages and characters by provenance (as in OS Table 34)."""
    from ...data.pipeline import collect_statistics

    options = {"split": split, "on_bad_row": on_bad_row, **_columns(column)}
    try:
        statistics = collect_statistics(paths, **options)
    except ValueError as error:
        raise ValueError(_with_column_options(str(error))) from None
    if markdown is not None:
        with write_whole(markdown) as unfinished:
            unfinished.write_text(statistics.to_markdown(), encoding="utf-8")
    if report is not None:
        print_report(statistics.to_json(), report)
    else:
        typer.echo(statistics.to_markdown(), nl=False)


@commands.command(**example("hf-echo data push outputs/strict me/strict-pairs --version 1.1 --license cc-by-4.0"))
def push(
    folder: Annotated[Path, typer.Argument(help="Output folder of `hf-echo data filter`.")],
    repo: Annotated[str, typer.Argument(help="Dataset repository on the Hub, OWNER/NAME.")],
    version: Annotated[str, typer.Option(help="Version; the repository gets the tag vVERSION.")] = "1.0",
    title: Annotated[str | None, typer.Option(help="Title of the card. Default: the folder's name.")] = None,
    license: Annotated[str | None, typer.Option(help="License identifier of the Hub, such as cc-by-4.0.")] = None,
    private: Annotated[bool, typer.Option(help="Create a private repository.")] = False,
    by_language: Annotated[
        bool, typer.Option("--by-language", help="Divide the files by language; each becomes a configuration.")
    ] = False,
    card_only: Annotated[bool, typer.Option(help="Only write README.md into the folder; do not push.")] = False,
) -> None:
    """Push a versioned dataset to the Hub, with a card made from its statistics."""
    from ...hub.dataset_card import push_dataset, write_card
    from ...hub.language_groups import group_by_language

    if by_language:
        group_by_language(folder)
    if card_only:
        typer.echo(write_card(folder, title=title, version=version, license=license))
    else:
        typer.echo(push_dataset(folder, repo, version=version, private=private, title=title, license=license))


def _columns(given: list[str] | None) -> dict:
    """Parse --column: ``source=src`` names a column, ``source_lang=fra_Latn`` is one value for all rows."""
    from ...languages import is_language

    columns, constants = {}, {}
    for item in given or []:
        name, equals, value = item.partition("=")
        if not equals:
            raise ValueError(f"--column {item!r} must be NAME=COLUMN, such as source=src")
        (constants if name.endswith("_lang") and is_language(value) else columns)[name] = value
    return {**constants, **({"columns": columns} if columns else {})}


def _with_column_options(message: str) -> str:
    """The message with --column in place of Python's `columns=`, `source_lang=` and `target_lang=`."""
    message = re.sub(r"\b(\w+_lang)=('(\w+)'|)", r"--column \1=\3", message)
    message, columns = message.replace("columns= ", "--column "), re.compile(r"columns=\{(.*?)\}")
    return columns.sub(lambda found: re.sub(r"'(\w+)': \.\.\.(,?)", r"--column \1=COLUMN", found[1]), message)


def _tell(done) -> None:
    from ...data.pipeline.report import steps_table

    typer.echo(steps_table(done.steps))
    typer.echo(f"{done.rows:,} rows in {done.folder / 'data'}; see counts.md and stats.md beside it")
