"""hf-echo data negatives: hard negatives written by a language model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..common import PLAIN, Json, example, print_report

commands = typer.Typer(**PLAIN)


@commands.command(**example("hf-echo data negatives pairs.tsv out.jsonl --model M --endpoint http://localhost:8000/v1"))
def negatives(
    pairs: Annotated[str, typer.Argument(help="Parallel rows: file, folder, builtin, or Hub dataset.")],
    out: Annotated[Path, typer.Argument(help="Output file OUT.jsonl; failed rows go to OUT.failed.jsonl.")],
    model: Annotated[
        str, typer.Option("--model", "-m", help="Its name at --endpoint, or a folder, GGUF file or Hub name.")
    ],
    endpoint: Annotated[str | None, typer.Option(help="OpenAI-compatible address. Default: load it here.")] = None,
    api_key_env: Annotated[str, typer.Option(help="Environment variable with the API key.")] = "OPENAI_API_KEY",
    timeout: Annotated[float, typer.Option(help="Seconds to wait for an answer.")] = 120,
    retries: Annotated[int, typer.Option(min=0, help="Retries after time-outs, dropped connections, 429 or 5xx.")] = 5,
    concurrency: Annotated[int, typer.Option(min=1, help="Number of requests at a time.")] = 8,
    attempts: Annotated[int, typer.Option(min=1, help="Attempts per row to get a valid reply.")] = 3,
    temperature: Annotated[float, typer.Option(min=0, help="Of the first attempt; later ones use at least 0.7.")] = 0.0,
    max_tokens: Annotated[int, typer.Option(min=1, help="Longest reply in tokens.")] = 512,
    seed: Annotated[int, typer.Option(help="Random seed; each further attempt adds 1.")] = 0,
    on_bad_row: Annotated[str, typer.Option(help="For bad rows of the table: error or skip.")] = "error",
    report: Json = None,
) -> None:
    """Generate xsim++ hard negatives of English targets with a language model (OS A.4, Figure 15)."""
    given = {name: value for name, value in locals().items() if name != "report"}
    from ...negatives.written import WriteNegatives, run
    from ...utils.settings import make

    print_report(run(make(WriteNegatives, given)), report)
