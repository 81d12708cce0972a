"""hf-echo data mine-negatives, consistency, segment: rows made with an encoder or a sentence segmenter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ...utils.files import write_whole
from ...utils.text import read_lines
from ..common import PLAIN, Json, example, print_report

commands = typer.Typer(**PLAIN)

Pairs = Annotated[str, typer.Argument(help="Parallel rows: file, folder, builtin, or Hub dataset.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Output file (Parquet).")]
Encoder = Annotated[
    str, typer.Option("--model", "-m", help="Echo checkpoint or any SentenceTransformer: folder or Hub name.")
]
Work = Annotated[Path | None, typer.Option(help="Folder for embeddings. Default: OUT.work.")]
Seed = Annotated[int, typer.Option(help="Random seed of the pool.")]
All = Annotated[int, typer.Option(min=0, help="Pool size in texts per language; 0 is all.")]


@commands.command("mine-negatives", **example("hf-echo data mine-negatives code.parquet --model M --out mined.parquet"))
def negatives(
    pairs: Pairs,
    out: Out,
    model: Encoder,
    pool: Annotated[
        str | None, typer.Option(help="Parallel rows whose targets are the candidates. Default: PAIRS.")
    ] = None,
    k: Annotated[int, typer.Option(min=1, help="Negatives per row.")] = 5,
    max_cosine: Annotated[
        float, typer.Option(help="Highest cosine of a negative to the row's target; above it counts as the same text.")
    ] = 0.95,
    pool_size: All = 200_000,
    work: Work = None,
    seed: Seed = 0,
    report: Json = None,
) -> None:
    """Mine hard negatives for code and mathematics: near texts of a pool. A stopped run resumes."""
    from ...data import load_parallel
    from ...negatives.mined import mine_negatives

    _parquet(out)
    own = {"pool": None if pool is None else load_parallel(pool), "k": k, "max_cosine": max_cosine}
    shared = {"pool_size": pool_size or None, "work": work, "seed": seed}
    _mine(mine_negatives, pairs, model, out, report, **own, **shared)


@commands.command("consistency", **example("hf-echo data consistency described.parquet --model M --out kept.parquet"))
def consistency(
    pairs: Pairs,
    out: Out,
    model: Encoder,
    snippets: Annotated[str, typer.Option(help="Column of the snippets: source or target.")] = "source",
    pool_size: All = 100_000,
    work: Work = None,
    seed: Seed = 0,
    report: Json = None,
) -> None:
    """Keep descriptions whose nearest snippet is their own, among snippets of one language (OS A.3, ECHO A.1.5)."""
    from ...negatives.consistency import check_side, filter_consistent

    _parquet(out)
    check_side(snippets)
    shared = {"pool_size": pool_size or None, "work": work, "seed": seed}
    _mine(filter_consistent, pairs, model, out, report, snippets=snippets, **shared)


@commands.command("segment", **example("hf-echo data segment in.txt --lang fra_Latn --out sentences.txt"))
def segment(
    source: Annotated[Path, typer.Argument(help="Texts, one per line; - is standard input.")],
    lang: Annotated[str, typer.Option(help="Language of the texts.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Output text file, one sentence per line.")],
    model: Annotated[
        str | None,
        typer.Option(
            "--model", "-m", help="SaT model: name such as sat-12l-sm, or folder. Default: rules, without a model."
        ),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="With --model: lowest probability of a sentence end. Default: the model's own.")
    ] = None,
) -> None:
    """Split texts into sentences with a SaT model or with rules."""
    from tqdm.auto import tqdm

    from ...data.segmentation import rule_segmenter, sat_segmenter, trimmed

    if model is None and threshold is not None:
        raise ValueError(f"--threshold {threshold} needs a SaT model: give --model")
    texts = read_lines(source)
    segmenter = sat_segmenter(model, threshold=threshold) if model else rule_segmenter
    segmenter([], lang)  # raises for an unknown language before a file is written
    count = 0
    with write_whole(out) as unfinished, unfinished.open("w", encoding="utf-8", newline="\n") as file:
        for start in tqdm(range(0, len(texts), 1_000), desc="Segmenting", unit="block"):
            for pieces in segmenter(texts[start : start + 1_000], lang):
                sentences = trimmed(pieces)
                file.writelines(f"{sentence}\n" for sentence in sentences)
                count += len(sentences)
    print_report({"texts": len(texts), "sentences": count, "out": str(out)})


def _mine(mining: Callable, pairs: str, model: str, out: Path, report: Path | None, **options: Any) -> None:
    """Run a function of `hf_echo.search` on the rows with this encoder, and print what it counts."""
    from ...data import load_parallel
    from ...inference.any_encoder import any_encoder

    print_report(mining(load_parallel(pairs), any_encoder(model), out, model=model, **options).to_row(), report)


def _parquet(out: Path) -> None:
    if out.suffix.lower() != ".parquet":
        raise ValueError(f"{out}: the file name must end in .parquet")
