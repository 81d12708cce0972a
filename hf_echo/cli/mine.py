"""hf-echo mine: find translations in two monolingual files (bitext mining)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..utils.executors import executor_named
from .common import DEFAULT_MODEL, AnyModel, Executor, Json, Resume, example, print_report, refuse_given

if TYPE_CHECKING:
    from ..inference.any_encoder import NamedEncoder

commands = typer.Typer()


@commands.command(
    **example("hf-echo mine fr.txt en.txt --model M --source-lang fra_Latn --target-lang eng_Latn --out pairs.tsv")
)
def mine(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(help="Sentences, one per line.")],
    target: Annotated[Path, typer.Argument(help="Sentences in the other language, one per line, in any order.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="TSV file of score, source and target, best first.")],
    model: AnyModel,
    source_lang: Annotated[str | None, typer.Option(help="Language of SOURCE.")] = None,
    target_lang: Annotated[str | None, typer.Option(help="Language of TARGET.")] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Lowest margin score of a pair to keep. Default: keep all.")
    ] = None,
    retrieval: Annotated[
        str, typer.Option(help="Pairs to keep: max, forward, backward or intersection of both directions.")
    ] = "max",
    margin: Annotated[str, typer.Option(help="Score of a pair: cosine, ratio or distance.")] = "ratio",
    k: Annotated[
        int, typer.Option(min=1, help="Number of neighbours per sentence: for the margin, and as candidates.")
    ] = 4,
    dedup: Annotated[bool, typer.Option(help="Remove duplicate lines from each file.")] = False,
    index: Annotated[
        str | None,
        typer.Option(
            help="faiss index factory string, such as IVF4096,PQ64;nprobe=32 or SQ8, built in shards on disk. "
            "Default: exact search."
        ),
    ] = None,
    work: Annotated[Path | None, typer.Option(help="Folder for embeddings and neighbours. Default: OUT.work.")] = None,
    executor: Executor = "local",
    resume: Resume = True,
    block: Annotated[int, typer.Option(min=1, help="Rows per block of the search, held in memory by one worker.")] = (
        65_536
    ),
    report: Json = None,
    audio: Annotated[bool, typer.Option("--audio", help="SOURCE lists audio; MODEL is a speech encoder.")] = False,
    audio_target: Annotated[
        bool, typer.Option("--audio-target", help="With --audio: TARGET lists audio files too.")
    ] = False,
    text_model: Annotated[
        str, typer.Option(help="With --audio: text encoder of the same space, for TARGET.")
    ] = DEFAULT_MODEL,
) -> None:
    """Mine pairs of translations from two files by margin score. A stopped run resumes."""
    from ..search import mine_files

    if not audio:
        refuse_given(context, ("text_model",), "needs --audio; the encoder of two text files is --model")
    else:
        refuse_given(context, ("source_lang",), "is for texts; leave it out with --audio")
    if audio_target:
        refuse_given(context, ("target_lang", "text_model"), "is for texts; leave it out with --audio-target")
    if audio_target and not audio:
        raise ValueError("--audio-target needs --audio: for text and speech, give the list of audio files as SOURCE")
    for path in (source, target):
        if not path.is_file():
            raise FileNotFoundError(f"no file {path}; give a text file with one sentence per line")
    work = work or out.with_name(out.name + ".work")
    encode, encode_target = None, None
    if audio and executor != "local":
        raise ValueError("--audio runs on this machine only: leave --executor out")
    if audio:
        from .speech import audio_encoder, write_paths

        encode, source = audio_encoder(model), write_paths(source, work / "source.paths.txt")
        if audio_target:
            target = write_paths(target, work / "target.paths.txt")
        else:
            encode_target = named(text_model)
    mined = mine_files(
        source,
        target,
        out,
        encode or named(model),
        encode_target=encode_target,
        work=work,
        source_lang=source_lang,
        target_lang=target_lang,
        dedup=dedup,
        model=model,
        k=k,
        margin=margin,
        retrieval=retrieval,
        threshold=threshold,
        index=index,
        block=block,
        executor=executor_named(executor),
        fresh=not resume,
    )
    print_report(mined.to_row(), report)


def named(model: str) -> NamedEncoder:
    """An encoder that workers in other folders open too."""
    from ..inference.any_encoder import NamedEncoder

    return NamedEncoder(str(Path(model).absolute()) if Path(model).exists() else model)
