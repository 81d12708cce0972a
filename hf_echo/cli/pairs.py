"""hf-echo mine, score, inspect, match, align: sentence pairs that translate each other."""

from __future__ import annotations

import sys
from copy import copy
from pathlib import Path
from typing import Any, Literal

from ..utils.settings import CHECKPOINT, DATA, DefaultOf, Step, positions, setting, step
from .options import (
    DEFAULT_MODEL,
    TEXTS,
    Dtype,
    Executor,
    Margin,
    OpensModel,
    column,
    device,
    dtype,
    executor,
    language,
    model,
    resume,
)


def anywhere(model: str) -> Any:
    """An encoder that workers in other folders open too."""
    from ..inference.any_encoder import NamedEncoder

    return NamedEncoder(str(Path(model).absolute()) if Path(model).exists() else model)


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@step(
    "mine",
    example="hf-echo mine fr.txt en.txt --source-lang fra_Latn --target-lang eng_Latn --out pairs.tsv",
)
class Mine(OpensModel):
    """Mine pairs of translations from two files by margin score. A stopped run resumes."""

    reports = True

    source: Path = setting(TEXTS, argument=True, reads=DATA)
    target: Path = setting("texts in the other language, in any order", argument=True, reads=DATA)
    out: Path = setting(
        "pairs with their scores, best first: .tsv, .csv, .jsonl (also .gz, .bz2, .zst, .xz), .parquet, .tmx, a Moses "
        "pair NAME.fr-en, or - for TSV on standard output",
        writes="file",
        short="-o",
    )
    model: str = model("Echo checkpoint or any SentenceTransformer", audio=True)
    source_lang: str | None = language("language of SOURCE", unless="audio")
    target_lang: str | None = language("language of TARGET", unless="audio_target")
    column: str | None = column()
    threshold: float | None = setting(
        "lowest margin score of a pair to keep; default: keep all", None
    )
    retrieval: Literal["max", "forward", "backward", "intersection"] = setting(
        "each source's best (forward), each target's (backward), pairs that are both (intersection), or either (max)",
        "max",
    )
    margin: Margin = setting("score of a pair", "ratio")
    k: int = setting(
        "number of neighbours per sentence: for the margin, and as candidates",
        DefaultOf("search.file_mining.plan_mining"),
        least=1,
    )
    dedup: bool = setting(
        "remove duplicate lines from each file", DefaultOf("search.file_mining.mine_files")
    )
    index: str | None = setting(
        "faiss index factory string, such as IVF4096,PQ64;nprobe=32 or SQ8, built in memory; default: exact search",
        None,
    )
    work: Path | None = setting("folder for embeddings and neighbours; default: OUT.work", None)
    executor: Executor = executor()
    resume: bool = resume()
    block: int = setting(
        "rows per block of the search, held in memory by one worker",
        DefaultOf("search.file_mining.plan_mining"),
        least=1,
    )
    audio: bool = setting("SOURCE lists audio; MODEL is a speech encoder", False)
    audio_target: bool = setting("TARGET lists audio files too", False, needs="audio")
    text_model: str = setting(
        "text encoder of the same space, for TARGET",
        DEFAULT_MODEL,
        needs="audio",
        unless="audio_target",
    )
    dry_run: bool = setting(
        "print hours and gigabytes, measured on a sample; mine nothing", False, unless="audio"
    )

    def run(self) -> dict[str, Any]:
        """Mine pairs of lines or recordings, or describe what mining would do."""
        from ..search.file_mining import mine_files, plan_mining
        from ..utils.executors import executor_named

        source = self.source
        target = self.target
        encode = None
        encode_target = None
        # Nothing is opened before both files are there.
        for path in (source, target):
            if not path.is_file() and str(path) != "-":
                raise FileNotFoundError(
                    f"no file {path}; give a text file with one sentence per line"
                )
        if self.dry_run:
            langs = (self.source_lang, self.target_lang)
            return self.call(plan_mining, encode=anywhere(self.model), langs=langs)
        # Where the sides are read: texts by one model, or audio by a speech encoder.
        name = "mined" if str(self.out) == "-" else self.out.name
        work = self.work or self.out.with_name(name + ".work")
        if self.audio:
            from .speech import audio_encoder, on_this_machine, write_paths

            on_this_machine(self.executor)
            encode = audio_encoder(self.model)
            source = write_paths(source, work / "source.paths.txt")
            if self.audio_target:
                target = write_paths(target, work / "target.paths.txt")
            else:
                encode_target = anywhere(self.text_model)
        # The search, in the folder of its work.
        names = (
            "source_lang",
            "target_lang",
            "dedup",
            "model",
            "k",
            "margin",
            "retrieval",
            "threshold",
            "index",
        )
        options = {name: getattr(self, name) for name in (*names, "block", "column")}
        mined = mine_files(
            source,
            target,
            self.out,
            encode or anywhere(self.model),
            encode_target=encode_target,
            work=work,
            executor=executor_named(self.executor),
            fresh=not self.resume,
            **options,
        )
        return mined.to_row()


@step(
    "score",
    example="hf-echo score pairs.tsv.gz --source-lang fr --target-lang en --threshold 0.7 > kept.tsv",
)
class Score(OpensModel):
    """Score sentence pairs, one line for each in order, or keep those above a threshold.
    A stopped run resumes."""

    reports = True

    source: Path = setting(
        "pairs: TSV, CSV, JSONL, Parquet, TMX, XLIFF, an alignment of OPUS (.xml), a Moses pair (NAME.fr-en), or - for "
        "TSV on standard input; with TARGET: texts (.gz, .bz2, .zst, .xz too)",
        Path("-"),
        argument=True,
        reads=DATA,
    )
    target: Path | None = setting(
        "texts that translate those of SOURCE, row by row", None, argument=True, reads=DATA
    )
    out: Path = setting(
        "output: - or a text file (scores, or with --threshold the pairs that are kept), or a table of score, source "
        "and target (formats as of hf-echo mine)",
        Path("-"),
        writes="file",
        short="-o",
    )
    model: str = model("Echo checkpoint or any SentenceTransformer")
    source_lang: str | None = language("language of the sources, where the file does not say it")
    target_lang: str | None = language("language of the targets, where the file does not say it")
    score: Literal["cosine", "margin", "blaser-qe"] = setting(
        "what is computed", DefaultOf("search.score_pairs")
    )
    threshold: str | None = setting(
        "lowest score that is kept: a number, or the JSON file of hf-echo data calibrate, one for each direction",
        None,
    )
    sigma: float = setting(
        "standard deviations below the mean, of a calibrated threshold (OS 3.5)",
        DefaultOf("search.score_pairs"),
        needs="threshold",
    )
    blaser: str | None = setting(
        "BLASER 2.0 qe model, of --score blaser-qe: folder or Hub name", None, reads=CHECKPOINT
    )
    reference: Path | None = setting(
        "pairs whose texts are the neighbours of a margin; needed for standard input; default: the input",
        None,
        reads=DATA,
    )
    k: int = setting("number of neighbours of a margin", DefaultOf("search.score_pairs"), least=1)
    columns: dict[str, str | int] = setting(
        "columns of other names, such as source=src, or numbers in a TSV file without header, such as source=3",
        dict,
        option="--column",
    )
    dtype: Dtype = dtype()
    resume: bool = resume()

    def run(self) -> dict[str, Any]:
        """Write the scores of the pairs, or the pairs above a threshold."""
        from ..search import open_pairs, score_pairs

        # A threshold is a number, or the file of one for each direction.
        if (
            self.threshold is not None
            and not is_number(self.threshold)
            and not Path(self.threshold).is_file()
        ):
            raise ValueError(
                f"--threshold is {self.threshold!r}; give a number, or the JSON file that hf-echo data calibrate writes"
            )
        # The pairs, and those whose texts are the neighbours of a margin.
        langs = (self.source_lang, self.target_lang)
        pairs = open_pairs(self.source, self.target, langs=langs, columns=self.columns)
        reference = (
            None
            if self.reference is None
            else open_pairs(self.reference, langs=langs, columns=self.columns)
        )
        names = ("score", "blaser", "k", "threshold", "sigma", "dtype")
        options = {name: getattr(self, name) for name in names} | {
            "langs": langs,
            "reference": reference,
        }
        progress = sys.stderr.isatty() and str(self.out) != "-"
        report = score_pairs(
            pairs, self.out, self.model, fresh=not self.resume, progress=progress, **options
        )
        return report.to_row()


@step(
    "inspect",
    calls="evaluation.report.inspection.inspect_pairs",
    example="hf-echo inspect pairs.tsv.gz --source-lang fra_Latn --target-lang eng_Latn --out pairs.html",
)
class Inspect(Step):
    """Write a page that shows what filters keep and drop: counts, histograms, the worst and the
    borderline pairs.

    The page is one file without scripts. It also shows the line of a data recipe that drops these
    pairs.
    """

    reports = True

    pairs: list[str] = setting("files or folders of pairs", argument=True, reads=DATA)
    out: Path = setting("HTML file", writes="file", short="-o")
    recipe: str | None = setting(
        "data recipe whose filters are shown: a YAML file or the name of an included one; default: sanity, "
        "length_ratio, exact_duplicates, and threshold where there are scores",
        None,
    )
    model: str | None = setting(
        "encoder whose cosines are the scores: folder, Hub name or echo-nano; default: the column score or quality",
        None,
        reads=CHECKPOINT,
        short="-m",
    )
    source_lang: str | None = language("language of all sources, where no column has it")
    target_lang: str | None = language("language of all targets, where no column has it")
    columns: dict[str, str] = setting(
        "schema columns of other names, such as source=src", dict, option="--column"
    )
    limit: int = setting(
        "most pairs, the first ones",
        DefaultOf(),
        least=1,
    )
    examples: int = setting("pairs in each table", DefaultOf(), least=1)
    device: str | None = device()

    def run(self) -> dict[str, Any]:
        """Write the page about the filters of a recipe."""
        from ..data.pipeline import read_recipe
        from ..negatives.recipe_steps import STEPS
        from ..utils.extras import extra
        from ..utils.hub import packaged_model

        with extra("plots"):  # before pairs are scored
            import matplotlib  # noqa: F401
        steps = None if self.recipe is None else read_recipe(self.recipe, STEPS).steps
        scorer = None
        if self.model is not None:
            from ..inference.scorer import EchoScorer

            scorer = EchoScorer(packaged_model(self.model))
        return self.call(steps=steps, scorer=scorer)


class OfDocuments(OpensModel):
    """A command on the documents of two languages, which the function that it `calls` reads and
    writes."""

    executor: Executor
    resume: bool

    def run(self) -> dict[str, Any]:
        """Call the function of the command with encoder, executor and options."""
        from ..utils.executors import executor_named

        options = self.options("device", "executor", "resume", "named_out")
        arguments = [getattr(self, name) for name in positions(type(self))]
        report = self.function()(
            *arguments,
            anywhere(self.model),
            executor=executor_named(self.executor),
            fresh=not self.resume,
            **options,
        )
        return report.to_row()


@step(
    "match",
    calls="search.match_files",
    example="hf-echo match fr/ en/ matched --source-lang fra_Latn --target-lang eng_Latn --raw",
)
class Match(OfDocuments):
    """Find which documents of two folders, or of two crawls, translate each other, whatever their
    names.

    OUT gets the pairs as documents of equal names in OUT/source and OUT/target, which `hf-echo
    align OUT/source OUT/target` takes, and OUT/pairs.tsv. If OUT is PAIRS.tsv, it is that table
    alone. A stopped run resumes.
    """

    reports = True

    source: Path = setting(
        "folder of documents (one sentence per line, or --raw), or a table of a document a row (JSONL, Parquet ...)",
        argument=True,
        reads=DATA,
    )
    target: Path = setting(
        "the same in the other language, with strangers among them", argument=True, reads=DATA
    )
    out: Path | None = setting(
        "output folder of source/, target/ and pairs.tsv; or PAIRS.tsv, the table alone",
        None,
        argument=True,
        writes="any",
    )
    named_out: Path | None = setting(
        "OUT by name", None, writes="any", option="--out", short="-o", unless="out"
    )
    model: str = model("Echo checkpoint or any SentenceTransformer")
    source_lang: str | None = language("language of SOURCE")
    target_lang: str | None = language("language of TARGET")
    raw: bool = setting(
        "the documents of folders are raw text, which is cut into sentences by rules",
        DefaultOf(),
    )
    threshold: float | None = setting(
        "lowest score of a pair to keep: 1 is equal; default: keep all, since each model has its own scale",
        None,
    )
    k: int = setting(
        "candidates of each document, by the means of its sentences",
        DefaultOf(),
        least=1,
    )
    index: str | None = setting(
        "faiss index factory string of the search for candidates, such as IVF1024,Flat;nprobe=16; default: exact",
        None,
    )
    column: str | None = column()
    work: Path | None = setting("folder for sentences and embeddings; default: OUT.work", None)
    executor: Executor = executor()
    resume: bool = resume()

    def run(self) -> dict[str, Any]:
        """Match, into the output that either name gives."""
        settings = copy(self)
        settings.out = self.out or self.named_out
        if settings.out is None:
            raise ValueError("no OUT: give a folder, or PAIRS.tsv for the table alone")
        return OfDocuments.run(settings)


@step(
    "align",
    calls="search.align_files",
    example="hf-echo align fr/ en/ pairs.tmx --source-lang fra_Latn --target-lang eng_Latn --raw",
)
class Align(OfDocuments):
    """Align the sentences of two documents, or of two folders of documents with equal names, many
    to many, in order.

    A stopped run resumes.
    """

    reports = True

    source: Path = setting(
        "a document, one sentence per line, or a folder of documents", argument=True, reads=DATA
    )
    target: Path = setting(
        "its translation, or a folder of translations of the same names", argument=True, reads=DATA
    )
    out: Path = setting(
        "pairs with scores: .tsv, .csv, .jsonl, .tmx, .parquet, a Moses pair NAME.fr-en, or - for TSV on standard "
        "output; or vecalign's line numbers: .path, for folders a folder of them",
        argument=True,
        writes="any",
    )
    model: str = model("Echo checkpoint or any SentenceTransformer")
    source_lang: str | None = language("language of SOURCE")
    target_lang: str | None = language("language of TARGET")
    raw: bool = setting(
        "the documents are raw text, which is cut into sentences by rules",
        DefaultOf(),
    )
    largest: int = setting(
        "most sentences of a pair, both sides together",
        DefaultOf(),
        least=2,
        most=16,
    )
    threshold: float | None = setting(
        "lowest score of a pair to keep: 1 is equal, about 0 strangers; default: keep all", None
    )
    column: str | None = column()
    work: Path | None = setting("folder for sentences and embeddings; default: OUT.work", None)
    executor: Executor = executor()
    resume: bool = resume()
