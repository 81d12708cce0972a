"""hf-echo mine: find the translations in two collections that are not aligned."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .common import AnyModel, Json, example, print_report

commands = typer.Typer()


@commands.command(
    **example("hf-echo mine fr.txt en.txt --model M --source-lang fra_Latn --target-lang eng_Latn --out pairs.tsv")
)
def mine(
    source: Annotated[Path, typer.Argument(help="Sentences, one a line.")],
    target: Annotated[Path, typer.Argument(help="Sentences of the other language, in any order.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="TSV of score, source, target, best first.")],
    model: AnyModel,
    source_lang: Annotated[str | None, typer.Option(help="Language of the first file.")] = None,
    target_lang: Annotated[str | None, typer.Option(help="Language of the second file.")] = None,
    threshold: Annotated[float | None, typer.Option(help="Leave out pairs that score less.")] = None,
    retrieval: Annotated[str, typer.Option(help="max, forward, backward or intersection.")] = "max",
    margin: Annotated[str, typer.Option(help="ratio, distance or cosine.")] = "ratio",
    k: Annotated[int, typer.Option(min=1, help="Neighbours of the margin, and candidates.")] = 4,
    dedup: Annotated[bool, typer.Option(help="Of equal lines of a file keep the first.")] = False,
    index: Annotated[str | None, typer.Option(help="A faiss index, such as IVF1024,Flat; exact without.")] = None,
    work: Annotated[Path | None, typer.Option(help="Folder of embeddings and neighbours; OUT.work by default.")] = None,
    report: Json = None,
) -> None:
    """Mine bitext by margin score. A stopped run resumes; any SentenceTransformer works as the model."""
    from ..inference.any_encoder import any_encoder
    from ..mining import mine_files

    for path in (source, target):
        if not path.is_file():
            raise FileNotFoundError(f"no file {path}; give a text file with one sentence a line")
    found = mine_files(
        source,
        target,
        out,
        any_encoder(model),
        work=work,
        source_lang=source_lang,
        target_lang=target_lang,
        dedup=dedup,
        model=model,
        k=k,
        margin=None if margin == "cosine" else margin,
        retrieval=retrieval,
        threshold=threshold,
        index=index,
    )
    print_report(found.to_row(), report)
