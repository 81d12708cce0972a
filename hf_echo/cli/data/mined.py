"""hf-echo data mine-negatives, consistency, segment: rows that an encoder or a segmenter makes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...utils.files import write_whole
from ..common import PLAIN, Json, example, print_report, read_lines

commands = typer.Typer(**PLAIN)

Pairs = Annotated[str, typer.Argument(help="Parallel rows: a file, a folder, builtin, or a Hub dataset.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Parquet file of the rows.")]
Encoder = Annotated[str, typer.Option("--model", "-m", help="Echo checkpoint or any SentenceTransformer.")]
Index = Annotated[str, typer.Option(help="A faiss index, such as IVF1024,Flat; Flat is exact.")]
Work = Annotated[Path | None, typer.Option(help="Folder of embeddings and neighbours; OUT.work by default.")]
Seed = Annotated[int, typer.Option(help="Draws the pool.")]
All = Annotated[int, typer.Option(min=0, help="Texts of the pool in each language; 0 is all.")]


@commands.command("mine-negatives", **example("hf-echo data mine-negatives code.parquet --model M --out mined.parquet"))
def negatives(
    pairs: Pairs,
    out: Out,
    model: Encoder,
    pool: Annotated[
        str | None, typer.Option(help="Parallel rows whose targets are the candidates; PAIRS by default.")
    ] = None,
    k: Annotated[int, typer.Option(min=1, help="Negatives a row.")] = 5,
    max_cosine: Annotated[float, typer.Option(help="Closer to the row's target is the same text.")] = 0.95,
    pool_size: All = 200_000,
    index: Index = "Flat",
    work: Work = None,
    seed: Seed = 0,
    report: Json = None,
) -> None:
    """Mine hard negatives for code and mathematics. A stopped run resumes."""
    from ...data import load_parallel
    from ...inference.any_encoder import any_encoder
    from ...mining.hard_negatives import mine_negatives

    _parquet(out)
    rows = load_parallel(pairs)
    candidates = None if pool is None else load_parallel(pool)
    found = mine_negatives(
        rows,
        any_encoder(model),
        out,
        pool=candidates,
        k=k,
        max_cosine=max_cosine,
        pool_size=pool_size or None,
        index=index,
        work=work,
        model=model,
        seed=seed,
    )
    print_report(found.to_row(), report)


@commands.command("consistency", **example("hf-echo data consistency described.parquet --model M --out kept.parquet"))
def consistency(
    pairs: Pairs,
    out: Out,
    model: Encoder,
    snippets: Annotated[str, typer.Option(help="Side of the snippets: source or target.")] = "source",
    pool_size: All = 100_000,
    index: Index = "Flat",
    work: Work = None,
    seed: Seed = 0,
    report: Json = None,
) -> None:
    """Keep the descriptions that find their own snippet first among those of its language."""
    from ...data import load_parallel
    from ...inference.any_encoder import any_encoder
    from ...mining.consistency import check_side, filter_consistent

    _parquet(out)
    check_side(snippets)
    found = filter_consistent(
        load_parallel(pairs),
        any_encoder(model),
        out,
        snippets=snippets,
        pool_size=pool_size or None,
        index=index,
        work=work,
        model=model,
        seed=seed,
    )
    print_report(found.to_row(), report)


@commands.command("segment", **example("hf-echo data segment in.txt --lang fra_Latn --out sentences.txt"))
def segment(
    source: Annotated[Path, typer.Argument(help="Texts, one a line; - is standard input.")],
    lang: Annotated[str, typer.Option(help="Language of the texts.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Text file of one sentence a line.")],
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="SaT model: name (sat-12l-sm) or folder; rules without."),
    ] = None,
    threshold: Annotated[float | None, typer.Option(help="Probability of a sentence end, for --model.")] = None,
) -> None:
    """Cut texts into sentences, by a SaT model or by rules that need no download."""
    from tqdm.auto import tqdm

    from ...data.segmentation import rule_segmenter, sat_segmenter, trimmed

    if model is None and threshold is not None:
        raise ValueError("--threshold is a SaT model's: name one with --model")
    texts = read_lines(source)
    segmenter = sat_segmenter(model, threshold=threshold) if model else rule_segmenter
    segmenter([], lang)  # an unknown language is refused before anything is written
    count = 0
    with write_whole(out) as unfinished, unfinished.open("w", encoding="utf-8", newline="\n") as file:
        for start in tqdm(range(0, len(texts), 1_000), desc="Segmenting", unit="block"):
            for pieces in segmenter(texts[start : start + 1_000], lang):
                sentences = trimmed(pieces)
                file.writelines(f"{sentence}\n" for sentence in sentences)
                count += len(sentences)
    print_report({"texts": len(texts), "sentences": count, "out": str(out)})


def _parquet(out: Path) -> None:
    if out.suffix != ".parquet":
        raise ValueError(f"{out}: the file name must end in .parquet")
