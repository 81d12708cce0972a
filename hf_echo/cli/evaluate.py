"""hf-echo evaluate xsim, xsimpp, noise, translation, speech, average: scores of a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from ..languages import ENGLISH
from ..steps.step import language_code
from ..utils.hub import packaged_model
from ..utils.settings import CHECKPOINT, DATA, DefaultOf, Step, setting, step
from .options import (
    DEFAULT_MODEL,
    Margin,
    OnBadRow,
    OpensModel,
    device,
    language,
    model,
    named_model,
    on_bad_row,
)

if TYPE_CHECKING:
    import numpy as np
    from datasets import Dataset

    from ..evaluation.translation import Blaser, Translate


# Hard negatives (index of the target sentence, text, kind), and their entries in the report.
Described = tuple[list[tuple[int, str, str]], dict[str, Any]]


@dataclass(kw_only=True)
class LinesOrTable(OpensModel):
    """A command on two files of lines, or on one table."""

    reports = True

    source: Path | None = setting("texts, one per line", None, reads=DATA, unless="data")
    target: Path | None = setting(
        "their translations, line by line", None, reads=DATA, unless="data"
    )
    data: Path | None = setting(
        "instead, a table of id, lang, text (TSV, JSONL, Parquet)", None, reads=DATA
    )
    source_lang: str | None = language("language of the source", unless="data")
    target_lang: str = language(
        "language of the target, or the pivot language of the table", ENGLISH
    )
    split: str | None = setting(
        "rows with this value in the column `split`; default: all", None, needs="data"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data is None and (self.source is None or self.target is None):
            raise ValueError("give --source and --target, two files of lines, or --data, one table")


def margin() -> Any:
    return setting(
        "score of a candidate (cosine: OS 6.1)",
        DefaultOf("evaluation.retrieval.xsim.xsim", "margin"),
    )


def neighbours() -> Any:
    return setting(
        "number of neighbours for the margin",
        DefaultOf("evaluation.retrieval.xsim.xsim", "k"),
        least=1,
    )


def check_neighbours(k: int, margin: str) -> None:
    if k != 4 and margin == "cosine":
        raise ValueError("--k needs --margin ratio or distance")


@dataclass(kw_only=True)
class Search(LinesOrTable):
    """A command that searches translations, with or without hard negatives of the target's
    sentences."""

    model: str = model("Echo checkpoint or any SentenceTransformer")
    margin: Margin = margin()
    k: int = neighbours()
    group: list[str] = setting(
        "also print averages by script, family, resource or head (EMMA-X) of the languages, or over a paper's "
        "languages, such as mexma-72, and the others; repeatable",
        list,
        needs="data",
    )

    def negatives_of(self, sentences: list[str], file: Path) -> Described | None:
        """Hard negatives of the target sentences, which are from `file`; None: xsim alone."""
        raise NotImplementedError

    def run(self) -> dict[str, Any]:
        from ..evaluation.groups import check_grouping

        check_neighbours(self.k, self.margin)
        for name in self.group:
            check_grouping(name)
        report = self._of_lines() if self.data is None else self._of_table()
        return {"model": self.model, **report}

    def _of_lines(self) -> dict[str, Any]:
        """xsim of two files of lines, and xsim++ where there are hard negatives."""
        from ..evaluation import text_groups, xsim, xsimpp
        from ..inference.any_encoder import any_encoder
        from ..search.checks import refuse_broken

        # Texts, their hard negatives, and the embeddings of both sides.
        langs = (self.source_lang, self.target_lang)
        sources, targets = read_pairs(self.source, self.target, langs=langs)
        negatives = self.negatives_of(targets, self.target)
        encoder = any_encoder(self.model)
        x = encoder(sources, self.source_lang)
        y = encoder(targets, self.target_lang)
        refuse_broken(x, lambda row: f"{self.source}:{row + 1} ({self.source_lang})", zeros=False)
        refuse_broken(y, lambda row: f"{self.target}:{row + 1} ({self.target_lang})", zeros=False)
        # xsim, and xsim++ where there are hard negatives.
        options = {"margin": self.margin, "k": self.k, "gold": text_groups(targets)}
        result = xsim(x, y, **options)
        report = {
            "source_lang": self.source_lang,
            "target_lang": self.target_lang,
            **result.to_row(),
        }
        if negatives is not None:
            items, description = negatives
            owners, texts, kinds = zip(*items, strict=True)
            wrong = encoder(list(texts), self.target_lang)
            report["xsimpp"] = xsimpp(
                x, y, wrong, list(owners), negative_kind=list(kinds), **options
            ).to_row()
            report["negatives"] = description
        return report

    def _of_table(self) -> dict[str, Any]:
        """xsim of every language of an n-way table against the pivot language."""
        from .. import evaluation
        from ..data import load_nway
        from ..evaluation.retrieval.hard_negatives import by_id
        from ..inference.any_encoder import any_encoder

        # The sentences of the pivot language, which the hard negatives are of.
        rows = load_nway(self.data, split=self.split)
        lang = self.target_lang
        langs = sorted(set(rows["lang"]))
        if lang not in langs:
            raise ValueError(
                f"{self.data} has no rows in --target-lang {lang!r}; it has {', '.join(langs)}"
            )
        of_pivot = [row for row in rows if row["lang"] == lang]
        ids = [row["id"] for row in of_pivot]
        negatives = self.negatives_of([row["text"] for row in of_pivot], self.data)
        # The table by language, with averages of groups.
        encoder = any_encoder(self.model)
        options: dict[str, Any] = {"margin": self.margin, "k": self.k, "progress": True}
        options["direction"] = getattr(self, "direction", "to")
        options["negatives"] = None if negatives is None else by_id(negatives[0], ids)
        with naming(self.data):
            table = evaluation.evaluate_xsim(encoder, rows, target_lang=lang, **options)
        report = {
            "data": str(self.data),
            **table.notes,
            "rows": table.rows,
            "average": table.average,
        }
        if negatives is not None:
            report["negatives"] = negatives[1]
        return report | {f"by_{name}": evaluation.grouped(table, name).rows for name in self.group}


@step(
    "evaluate xsim",
    example="hf-echo evaluate xsim --source a.txt --source-lang fra_Latn --target b.txt",
)
class Xsim(Search):
    """Measure xsim: the percentage of sentences whose nearest candidate is not their translation.

    A candidate with the same text as the translation is right, as in `hf-echo report`."""

    hard_negatives: bool = setting(
        "also report xsim++, with rule negatives (English targets)", False
    )
    direction: Literal["to", "from", "all"] = setting(
        "pairs to or from the pivot language, or all", "to", needs="data"
    )

    def negatives_of(self, sentences: list[str], file: Path) -> Described | None:
        return by_rule(sentences, self.target_lang, file) if self.hard_negatives else None


@step(
    "evaluate xsimpp",
    example="hf-echo evaluate xsimpp --model M --data flores.parquet --negatives errtype.json",
)
class Xsimpp(Search):
    """Measure xsim++: xsim with hard negatives of every target sentence among the candidates.

    The negatives are those of the published FLORES set (--negatives), or made by rule; the report
    says which."""

    negatives: Path | None = setting(
        "LANG_errtype.SPLIT.json of the published xsim++ set; default: rule negatives (English targets)",
        None,
        reads=DATA,
    )

    def negatives_of(self, sentences: list[str], file: Path) -> Described | None:
        """The hard negatives of sentences, made by rule or published, with what they are; None
        without."""
        from ..evaluation.retrieval.hard_negatives import PUBLISHED, described, published_negatives

        if self.negatives is None:
            return by_rule(sentences, self.target_lang, file)
        negatives = published_negatives(self.negatives, sentences)
        return negatives, described(negatives, PUBLISHED, self.negatives)


@step("evaluate bitext", example="hf-echo evaluate bitext M --data corpora/test --lang fra_Latn")
class Bitext(OpensModel):
    """Measure xsim into English on public test sets, for any model, in one table: Tatoeba, NTREX,
    FLORES.

    They are downloaded after a question. `hf-echo data download corpora` writes more sets to
    corpora/test, for --data. --leave-out keeps the figures honest for a model that saw some of
    their sentences."""

    reports = True

    model: str = model("Echo checkpoint or any SentenceTransformer", argument=True)
    data: Path | None = setting(
        "folder of test sets: Parquet files of id, lang, text or of pairs with English; default: the public ones",
        None,
        reads=DATA,
    )
    yes: bool = setting("download the public sets without a question", False, short="-y")
    set: list[str] = setting("set to measure (NAME.parquet); repeatable; default: all", list)
    lang: list[str] = setting(
        "language to measure, in the sets that have it; repeatable; default: all",
        list,
        convert=language_code,
    )
    limit: int | None = setting("largest number of sentences of a language", None, least=1)
    hard_negatives: bool = setting(
        "also report xsim++, with rule negatives",
        DefaultOf("evaluation.benchmarks.bitext.measure_bitext"),
    )
    translation: bool = setting(
        "also report chrF++ and BLEU of the decoder's translations into English", False
    )
    leave_out: Path | None = setting(
        "training text of the model: its sentences are left out of the sets", None, reads=DATA
    )
    results: Path | None = setting(
        "also write mteb's result files into this folder", None, writes="folder"
    )

    def run(self) -> dict[str, Any]:
        """xsim of the public test sets, one after the other, with a line of the table for each."""
        from time import perf_counter

        from .. import inference
        from ..evaluation.benchmarks.bitext import (
            NothingToMeasure,
            bitext_files,
            measure_bitext,
            read_bitext,
            summary,
            write_task_results,
        )
        from ..inference.any_encoder import any_encoder
        from ..steps.public_text import BITEXT, public_folder

        folder = self.data
        if folder is None:
            corpora = public_folder(
                BITEXT, yes=self.yes, reader="evaluate bitext", instead="--data FOLDER"
            )
            folder = corpora / "test"
        # Each set by itself, with a line of the table as soon as it is measured.
        files = bitext_files(folder, self.set)
        encoder = any_encoder(self.model)
        translate = None
        if self.translation:
            translate = partial(inference.translate, *inference.load_translator(self.model))
        tables = {}
        seconds = {}
        left_out = {}
        for name, file in files.items():
            start = perf_counter()
            with naming(file):
                try:
                    tables[name] = measure_bitext(
                        encoder,
                        read_bitext(file),
                        languages=self.lang,
                        limit=self.limit,
                        hard_negatives=self.hard_negatives,
                        train=self.leave_out,
                        translate=translate,
                    )
                except NothingToMeasure as error:
                    # One set of many does not end the measurement of the others.
                    if self.set or len(files) == 1:
                        raise
                    left_out[name] = str(error)
                    typer.echo(f"{file}: {error}: left out", err=True)
                    continue
            seconds[name] = perf_counter() - start
            typer.echo(summary({name: tables[name]}).to_markdown(), err=True)
        if not tables:
            raise ValueError(f"{folder} has no set that can be measured: the lines above say why")
        # The summary of all, and mteb's files if asked for.
        report: dict[str, Any] = {"model": self.model, "rows": summary(tables).rows}
        if left_out:
            report["left_out"] = left_out
        report["languages"] = {name: table.rows for name, table in tables.items()}
        if self.results is not None:
            written = write_task_results(tables, self.model, self.results, seconds)
            report["results"] = [str(file) for file in written]
        return report


@step("evaluate noise", example="hf-echo evaluate noise --data nway.jsonl --limit 100")
class Noise(OpensModel):
    """Measure xsim of texts as people have them: capitals, lower case, other white space, invisible
    characters.

    The side of the target language stays clean."""

    reports = True

    model: str = model("Echo checkpoint or any SentenceTransformer")
    data: Path = setting("table of id, lang, text (TSV, JSONL, Parquet)", reads=DATA)
    lang: list[str] = setting("language to measure; repeatable; default: all", list)
    target_lang: str = setting("language that is searched", DefaultOf("evaluation.evaluate_noise"))
    limit: int | None = setting("largest number of sentences of a language", None, least=1)
    seed: int = setting(
        "random seed of the places of the noise", DefaultOf("evaluation.evaluate_noise")
    )

    def run(self) -> dict[str, Any]:
        """xsim of texts as people write them."""
        from .. import evaluation
        from ..data import load_nway
        from ..inference.any_encoder import any_encoder

        rows = load_nway(self.data)
        options = dict(target_lang=self.target_lang, limit=self.limit, seed=self.seed)
        with naming(self.data):
            table = evaluation.evaluate_noise(
                any_encoder(self.model), rows, source_langs=self.lang or None, **options
            )
        return {"model": self.model, "data": str(self.data), **table.notes, "rows": table.rows}


@step(
    "evaluate translation",
    example="hf-echo evaluate translation --source a.txt --source-lang fra_Latn --target b.txt",
)
class Translation(LinesOrTable):
    """Measure chrF++ and spBLEU of the decoder's translations, with sacrebleu's signatures.

    The source may be embeddings (.npy), one row per reference translation."""

    model: str = model("Echo checkpoint or release with a decoder")
    direction: Literal["to", "from", "both", "all"] = setting(
        "pairs to or from the pivot language",
        DefaultOf("evaluation.evaluate_translation"),
        needs="data",
    )
    num_beams: int | None = setting(
        "beams of the search; 1 is greedy; default: the model's own", None, least=1
    )
    blaser: str | None = setting(
        "also report BLASER 2.0: folder or Hub name of `hf-echo convert blaser`",
        None,
        reads=CHECKPOINT,
    )
    blaser_encoder: str | None = setting(
        "encoder whose embeddings BLASER reads: SONAR; default: the model",
        None,
        reads=CHECKPOINT,
        needs="blaser",
    )

    def run(self) -> dict[str, Any]:
        """Scores of translations: of two files of lines, or of an n-way table."""
        from .. import inference
        from ..evaluation import blaser_scorer

        vectors = self.source is not None and self.source.suffix.lower() == ".npy"
        if vectors and self.blaser:
            raise ValueError(
                f"--blaser needs texts, but {self.source} holds embeddings: leave it out"
            )
        # Inputs and BLASER before the model, so that bad data are named early.
        langs = (self.source_lang, self.target_lang)
        lines = read_pairs(self.source, self.target, vectors, langs) if self.data is None else None
        scorer = (
            blaser_scorer(self.blaser, self.blaser_encoder or self.model) if self.blaser else None
        )
        translator, tokenizer = inference.load_translator(self.model)

        # The decoder as the measures call it.
        def translate(
            inputs: dict[str, Any], source_lang: str | None, target_lang: str
        ) -> list[str]:
            options = {"num_beams": self.num_beams}
            return inference.translate(
                translator, tokenizer, inputs, source_lang, target_lang, **options
            )

        report = (
            self._of_table(translate, scorer)
            if lines is None
            else self._of_lines(translate, scorer, *lines)
        )
        return {"model": self.model, **report}

    def _of_lines(
        self,
        translate: Translate,
        blaser: Blaser | None,
        sources: list[str] | np.ndarray,
        targets: list[str],
    ) -> dict[str, Any]:
        """chrF++, BLEU and, where asked for, BLASER of the lines of one direction."""
        from ..evaluation import translation_scores

        langs = self.source_lang, self.target_lang
        hypotheses = translate(sources, *langs)
        report = translation_scores(
            hypotheses, targets, source_lang=langs[0] or "", target_lang=langs[1]
        ).to_row()
        if blaser is not None:
            report["blaser"] = blaser(sources, hypotheses, targets, *langs)
        return report

    def _of_table(self, translate: Translate, blaser: Blaser | None) -> dict[str, Any]:
        """The report of an n-way table: rows by direction, and their average."""
        from .. import evaluation
        from ..data import load_nway

        rows = load_nway(self.data, split=self.split)
        options = {"target_lang": self.target_lang, "direction": self.direction, "progress": True}
        with naming(self.data):
            table = evaluation.evaluate_translation(translate, rows, blaser=blaser, **options)
        return {"data": str(self.data), **table.notes, "rows": table.rows, "average": table.average}


@step(
    "evaluate speech",
    example="hf-echo evaluate speech --model S --data spoken --text-model echo-nano --hard-negatives",
)
class Speech(Step):
    """Measure speech to English text (xsim, xsim++), to its own text, and speech translation."""

    reports = True

    model: str = setting("speech encoder: folder or Hub name", reads=CHECKPOINT, short="-m")
    data: str = setting(
        "speech: a table, Common Voice, FLEURS, Parquet with audio, or a Hub dataset", reads=DATA
    )
    text_model: str = setting(
        "text encoder of the same space: folder or Hub name", DEFAULT_MODEL, reads=CHECKPOINT
    )
    lang: str | None = language("language of all rows, if the data have no column for it")
    split: str = setting("split of the data, if they have splits", "test")
    limit: int | None = setting("largest number of rows", None, least=1)
    hard_negatives: bool = setting(
        "also report xsim++, with rule negatives of the English texts", False
    )
    negatives: Path | None = setting(
        "also report xsim++, with the published set: LANG_errtype.SPLIT.json",
        None,
        reads=DATA,
        unless="hard_negatives",
    )
    device: str | None = device()
    decoder: str | None = setting(
        "Echo checkpoint with a decoder: also report BLEU and chrF++", None, reads=CHECKPOINT
    )
    unheard: list[str] = setting(
        "language without speech in training; repeatable; default: those the model does not name",
        list,
        convert=language_code,
    )
    margin: Margin = margin()
    k: int = neighbours()
    on_bad_row: OnBadRow = on_bad_row()

    def run(self) -> dict[str, Any]:
        """xsim of speech by language, against the texts of a text encoder."""
        from ..data.speech import load_speech
        from ..data.speech.batches import audio_lengths
        from ..evaluation.retrieval.speech import english_negatives, evaluate_speech
        from ..inference.any_encoder import any_encoder
        from ..inference.encode_speech import encode_speech, load_speech_encoder, open_extractor

        check_neighbours(self.k, self.margin)
        text_model = named_model(self.text_model)
        # before weights are loaded, so that bad data are named early
        rate = open_extractor(self.model).sampling_rate
        options = dict(
            lang=self.lang, split=self.split, on_bad_row=self.on_bad_row, limit=self.limit
        )
        rows = load_speech(self.data, **options)
        skipped = 0
        if self.on_bad_row == "skip":
            rows, skipped = usable(rows, rate)
        seconds = audio_lengths(rows, rate) / rate
        encoder, extractor = load_speech_encoder(self.model)
        encode = any_encoder(text_model)
        size = encode([rows[0]["text"]], rows[0]["lang"]).shape[1]
        if size != encoder.config.embedding_size:
            raise ValueError(
                f"{self.model} gives embeddings of size {encoder.config.embedding_size} and {text_model} of size "
                f"{size}: give the text encoder that it was trained with (--text-model)"
            )
        negatives = description = None
        if self.hard_negatives or self.negatives:
            negatives, description = english_negatives(rows, self.negatives)
        unheard = self.unheard
        if not unheard and encoder.config.languages:
            unheard = [code for code in set(rows["lang"]) if code not in encoder.config.languages]
        table = evaluate_speech(
            rows,
            encode_speech(encoder, extractor, rows["audio"], progress=True),
            encode,
            negatives=negatives,
            translate=translator(packaged_model(self.decoder)) if self.decoder else None,
            unheard=unheard if unheard or encoder.config.languages else None,
            margin=self.margin,
            k=self.k,
        )
        optional = {"decoder": self.decoder, "skipped": skipped, "negatives": description}
        return {
            "model": self.model,
            "text_model": text_model,
            "data": self.data,
            "hours": seconds.sum() / 3600,
            **{name: value for name, value in optional.items() if value},
            "rows": table.rows,
            "average": table.average,
            **table.notes,
        }


@step(
    "evaluate average",
    example="hf-echo evaluate average flores.json ntrex.json --languages mexma-72",
)
class Average(Step):
    """Average results over languages, then over benchmarks, to one score (ECHO 5.2, OS 6.2).

    The files are results by language of `hf-echo evaluate ... --json`, or result files of mteb."""

    reports = True

    files: list[Path] = setting("result files, one per benchmark", reads=DATA, argument=True)
    languages: str | None = setting(
        "average over the languages of one paper, such as common-80 or mexma-72; default: all of each file",
        None,
    )

    def run(self) -> dict[str, Any]:
        """The averages over benchmarks, from their result files."""
        from ..evaluation.groups import average_over_benchmarks
        from ..evaluation.result_files import read_result

        tables: dict[str, Any] = {}
        for file in self.files:
            name, table = read_result(file)
            if name in tables:
                raise ValueError(
                    f"{file}: a second result of {name!r}; give one file per benchmark"
                )
            tables[name] = table
        averages = average_over_benchmarks(tables, languages=self.languages)
        return {**averages.notes, "rows": averages.rows, "average": averages.average}


@contextmanager
def naming(file: Path) -> Iterator[None]:
    """Errors inside begin with the name of a file."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def read_pairs(
    source: Path,
    target: Path,
    vectors: bool = False,
    langs: tuple[str | None, str | None] = (None, None),
) -> tuple[Any, list[str]]:
    """The texts of two files, or embeddings and texts; text i must translate text i."""
    from ..data.texts import read_texts

    sources = read_embeddings(source) if vectors else read_texts(source, lang=langs[0])
    targets = read_texts(target, lang=langs[1])
    if len(sources) != len(targets):
        unit = "rows" if vectors else "lines"
        raise ValueError(
            f"{source} has {len(sources)} {unit}, {target} {len(targets)} lines: line i translates line i"
        )
    return sources, targets


def read_embeddings(path: Path) -> Any:
    """(sentences, size) embeddings of a .npy file; broken rows are named."""
    import numpy as np

    from ..search.checks import refuse_broken
    from ..utils.files import load_npy

    vectors = load_npy(path)
    if vectors.ndim != 2:
        raise ValueError(
            f"{path} has shape {vectors.shape}; it must have shape (sentences, embedding size)"
        )
    refuse_broken(vectors, lambda row: f"{path}, row {row + 1}")
    return vectors.astype(np.float32)


def by_rule(sentences: list[str], lang: str, file: Path) -> Described:
    """Hard negatives by rule of the target sentences, which are from `file`."""
    from ..evaluation.retrieval.hard_negatives import RULES, described, rule_negatives

    if lang != ENGLISH:
        raise ValueError(f"rule negatives are English, not {lang}: leave hard negatives out")
    with naming(file):
        negatives = rule_negatives(sentences)
    return negatives, described(negatives, RULES)


def translator(decoder: str) -> Translate:
    from .. import inference

    model, tokenizer = inference.load_translator(decoder)
    return lambda inputs, source, target: inference.translate(
        model, tokenizer, inputs, source, target
    )


def usable(rows: Dataset, sampling_rate: int) -> tuple[Any, int]:
    """The rows whose audio can be decoded, and the number of others."""
    from ..data.speech import check_audio

    reasons = [check_audio(audio, sampling_rate) for audio in rows["audio"]]
    good = [number for number, reason in enumerate(reasons) if reason is None]
    if not good:
        raise ValueError(f"no usable audio: {reasons[0]}")
    bad = len(reasons) - len(good)
    if bad:
        first = next(reason for reason in reasons if reason)
        typer.echo(f"skipped {bad} of {len(reasons)} audio files, the first: {first}", err=True)
    return (rows.select(good) if bad else rows), bad
