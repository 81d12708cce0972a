"""hf-echo data filter, sample, calibrate, stats, push: run a recipe over parallel collections, count what it leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...utils.files import write_whole
from ..common import PLAIN, Json, Model, example, print_report

commands = typer.Typer(**PLAIN)

Out = Annotated[Path, typer.Option("--out", "-o", help="Folder of the result: data/, counts, statistics.")]
Executor = Annotated[
    str, typer.Option(help="local (one process) or ray (the cluster of RAY_ADDRESS, or this machine).")
]
OnBadRow = Annotated[
    str, typer.Option(help="error: stop and name file and line; skip: leave out and list in counts.json.")
]
Resume = Annotated[bool, typer.Option("--resume/--fresh", help="Go on with a stopped run, or forget it.")]
Overwrite = Annotated[bool, typer.Option(help="Replace the result of another recipe in OUT.")]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", help="NAME=FOUND: a schema column under another name; or source_lang=fra_Latn."),
]


@commands.command(
    "filter",
    **example("hf-echo data filter nano_real_strict --out outputs/strict --on-bad-row skip", folder=True),
)
def filter_(
    recipe: Annotated[str, typer.Argument(help="YAML file, or the name of a recipe of the package.")],
    out: Out,
    executor: Executor = "local",
    on_bad_row: OnBadRow = "error",
    resume: Resume = True,
    overwrite: Overwrite = False,
    keep_work: Annotated[bool, typer.Option(help="Keep every stage's rows, for variants of the recipe.")] = False,
    block: Annotated[int, typer.Option(min=1, help="Rows that a worker holds at once.")] = 50_000,
) -> None:
    """Run a recipe: read, filter, deduplicate, score, sample. A stopped run resumes."""
    from ...data.pipeline import read_recipe, run
    from ...synthesis.recipe_steps import STEPS

    done = run(
        read_recipe(recipe, STEPS),
        out,
        executor=_executor(executor),
        on_bad_row=on_bad_row,
        block=block,
        keep_work=keep_work,
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
    paths: Annotated[list[str], typer.Argument(help="Files, folders or Hub datasets; each is one source.")],
    out: Out,
    method: Annotated[str, typer.Option(help="natural, temperature, two_step or unimax.")] = "natural",
    exponent: Annotated[float | None, typer.Option(help="Of temperature, or of two_step (0.5).")] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Rows in all; as many as there are by default.")] = None,
    by: Annotated[str, typer.Option(help="source_lang, target_lang or direction.")] = "source_lang",
    seed: Annotated[int, typer.Option(help="Which rows.")] = 0,
    shards: Annotated[int | None, typer.Option(min=1, help="Files; one for each million rows by default.")] = None,
    executor: Executor = "local",
    on_bad_row: OnBadRow = "error",
    resume: Resume = True,
    overwrite: Overwrite = False,
) -> None:
    """Draw rows in exact proportions; a language with too few repeats them evenly."""
    from ...data.pipeline import Output, Recipe, Sampling, run
    from ...data.pipeline.recipe import source_of

    recipe = Recipe(
        [source_of(path, path) for path in paths],
        sampling=Sampling(method, by, exponent, rows, seed=seed),
        out=Output(shards),
    )
    options = {"on_bad_row": on_bad_row, "overwrite": overwrite, "fresh": not resume}
    _tell(run(recipe, out, executor=_executor(executor), **options))


@commands.command(**example("hf-echo data calibrate dev_flores.parquet --model outputs/nano-real/3 --out flores.json"))
def calibrate(
    paths: Annotated[list[str], typer.Argument(help="Clean parallel or n-way data.")],
    model: Model,
    out: Annotated[Path, typer.Option("--out", "-o", help="JSON for the field calibrated of the filter threshold.")],
    direction: Annotated[str | None, typer.Option(help="Of n-way data: x_eng, eng_x or all.")] = None,
    blaser: Annotated[
        str | None, typer.Option(help="Scores of this BLASER 2.0 qe model in place of cosines: folder or Hub name.")
    ] = None,
) -> None:
    """Mean and deviation of the scores of clean pairs, by direction (OS 3.5)."""
    from ...data.pipeline.filters.threshold import calibrate as fit
    from ...data.pipeline.sources import read_unit, units_of
    from ...data.tables import BadRows
    from ...inference.blaser import BlaserScorer
    from ...inference.scorer import EchoScorer

    scorer = BlaserScorer(blaser, model) if blaser else EchoScorer(model)
    how = {"direction": direction} if direction else {}
    units = units_of([{"path": path, "label": path, **how} for path in paths])
    found = fit((table for unit in units for table in read_unit(unit, BadRows("error"))), scorer)
    with write_whole(out) as unfinished:
        found.save(unfinished)
    typer.echo(f"{len(found.calibrated)} directions calibrated: {out}")


@commands.command(**example("hf-echo data stats outputs/strict/data --markdown table.md"))
def stats(
    paths: Annotated[list[str], typer.Argument(help="Files, folders or Hub datasets of parallel rows.")],
    column: Columns = None,
    report: Json = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the table here as Markdown.")] = None,
    executor: Executor = "local",
    on_bad_row: OnBadRow = "error",
) -> None:
    """Pairs, directions, languages and characters by provenance, as in OS Table 34."""
    from ...data.pipeline import collect_statistics

    found = collect_statistics(paths, executor=_executor(executor), on_bad_row=on_bad_row, **_columns(column))
    if markdown is not None:
        with write_whole(markdown) as unfinished:
            unfinished.write_text(found.to_markdown(), encoding="utf-8")
    if report is not None:
        print_report(found.to_json(), report)
    else:
        typer.echo(found.to_markdown(), nl=False)


@commands.command(**example("hf-echo data push outputs/strict me/strict-pairs --version 1.1 --license cc-by-4.0"))
def push(
    folder: Annotated[Path, typer.Argument(help="What `hf-echo data filter` left.")],
    repo: Annotated[str, typer.Argument(help="OWNER/NAME on the Hub.")],
    version: Annotated[str, typer.Option(help="Becomes the tag vVERSION.")] = "1.0",
    title: Annotated[str | None, typer.Option(help="Of the card; the folder's name by default.")] = None,
    license: Annotated[str | None, typer.Option(help="Hub licence identifier.")] = None,
    private: Annotated[bool, typer.Option(help="Create the repository as a private one.")] = False,
    card_only: Annotated[bool, typer.Option(help="Write README.md into the folder, push nothing.")] = False,
) -> None:
    """Push a versioned dataset with a card made of its statistics."""
    from ...hub.dataset_card import push_dataset, write_card

    if card_only:
        typer.echo(write_card(folder, title=title, version=version, license=license))
    else:
        typer.echo(push_dataset(folder, repo, version=version, private=private, title=title, license=license))


def _executor(name: str):
    from ...data.pipeline import LocalExecutor, RayExecutor

    if name not in ("local", "ray"):
        raise ValueError(f"--executor {name!r} is not local or ray")
    return LocalExecutor() if name == "local" else RayExecutor()


def _columns(given: list[str] | None) -> dict:
    """``source=src`` names a column, ``source_lang=fra_Latn`` is one value for all rows."""
    from ...languages import is_language

    columns, constants = {}, {}
    for item in given or []:
        name, equals, value = item.partition("=")
        if not equals:
            raise ValueError(f"--column {item!r} is not NAME=FOUND")
        (constants if name.endswith("_lang") and is_language(value) else columns)[name] = value
    return {**constants, **({"columns": columns} if columns else {})}


def _tell(done) -> None:
    from ...data.pipeline import counts

    typer.echo(counts.steps_table(done.steps))
    typer.echo(f"{done.rows:,} rows in {done.folder / 'data'}; counts.md and stats.md beside it say what they are")
