"""Steps that make training data: a data recipe, or a folder of corpora. As in `operations`, nothing
heavy is imported.

operation: collect_data
output_dir: outputs/mine/data
corpora: CORPORA                       # a folder, or corpora=FOLDER on the command line
languages: [fra_Latn, deu_Latn]
tables:
  ntrex.parquet: {id: id, weight: 4, dev: ntrex, dev_documents: 15}
  flores.parquet: {id: index_id, weight: 4, split: train, dev: flores, dev_split: dev}
  tatoeba.parquet: {weight: 3.5, dev: everyday, dev_percent: 10}
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..utils.choices import ExecutorName, OnBadRow
from ..utils.settings import CHECKPOINT, DATA, DefaultOf, make, setting, step
from .step import Operation, language_code, output

logger = logging.getLogger(__name__)


PUBLIC = "outputs/corpora"  # where a journey that is not given a folder of corpora downloads public ones to


@dataclass(kw_only=True)
class Table:
    """How the rows of a Parquet file are used."""

    id: str | None = setting("column of the ids of an n-way table; none for a table of pairs", None)
    english: str | None = setting(
        "file of the same ids that has the English, if this one has none", None, needs="id"
    )
    split: str | None = setting("only rows of this split are trained on", None)
    leave_out: list[str] = setting("languages that are not read from it", list)
    provenance: str = setting("provenance of its rows", "primary")
    weight: float = setting("how often a row comes", 1.0, least=0)
    without_english: float | None = setting("the same for pairs without English", None, least=0)
    dev: str | None = setting("name of the dev set that rows of this table go to", None)
    dev_split: str | None = setting(
        "the rows of the dev set are those of this split", None, needs="dev"
    )
    dev_documents: int | None = setting(
        "those of the last so many documents", None, needs="dev", least=1
    )
    dev_percent: int | None = setting(
        "of so many percent of the English texts", None, needs="dev", least=1, most=99
    )
    optional: bool = setting("leave it out where the folder of the corpora does not hold it", False)


@step(operation="collect_data")
class CollectData(Operation):
    """Collect a training mix and held-out dev sets from a folder of parallel corpora."""

    output_dir: str = output("folder of the tables")
    corpora: str = setting(
        "folder of the corpora (Parquet files); without it hf-echo train downloads public ones",
        PUBLIC,
        reads=DATA,
    )
    languages: list[str] = setting("languages beside English")
    tables: dict[str, dict] = setting("file name: how its rows are used")
    power: float = setting(
        "a language of n rows gets n to this power, relative to the largest", 1.0, least=0, most=1
    )
    most: float = setting(
        "no row comes more than so many times as often for its language", 10.0, least=1
    )
    rows: int | None = setting("largest number of rows of the mix", None, least=1)
    decoder_sources: int = setting(
        "translations of one English sentence in train_decoder", 6, least=1
    )
    decoder_itself: float = setting(
        "share of them that also come from themselves", 0.1, least=0, most=1
    )
    decoder_words: int = setting("longest English sentence in train_decoder, in words", 60, least=1)
    noise: float = setting(
        "share of rows with capitals, lower case, odd spaces on a side", 0.0, least=0, most=1
    )
    seed: int = setting("random seed", 0)

    def __post_init__(self):
        super().__post_init__()
        self.how = {
            name: make(Table, values, f"tables: {name}") for name, values in self.tables.items()
        }

    def make(self) -> dict[str, Any]:
        """Write the mix and the dev sets, compare it with test splits, and record it."""
        from ..data.collect import collect
        from ..utils.folders import write_folder
        from ..utils.lineage import write_lineage

        tables = {
            name: table for name, table in self.how.items() if not self._is_left_out(name, table)
        }
        with write_folder(self.output_dir) as folder:
            rows = collect(Path(self.corpora), Path(folder), self.languages, tables, self)
            rows |= self._count_leaks(Path(folder))
            options = dict(
                parents={}, data=self.names(DATA), output_dir=self.output_dir, results=rows
            )
            write_lineage(folder, str(self.operation), self.names(None), **options)
        return {"output_dir": self.output_dir, **rows}

    def _count_leaks(self, folder: Path) -> dict[str, int]:
        """Compare the mix with the test splits beside the corpora, if there are any:
        `leaks.json`, for a release."""
        from ..data.leaks import REPORT, find_leaks
        from ..utils.files import write_json

        tests = Path(self.corpora) / "test"
        if not tests.is_dir():
            return {}
        report = find_leaks(folder / "train.parquet", tests)
        report |= {"train": str(Path(self.output_dir) / "train.parquet"), "files": {}}
        write_json(folder / REPORT, report)
        return {"test_texts": report["test_texts"], "leaks": report["leaks"]}

    def _is_left_out(self, name: str, table: Table) -> bool:
        """Whether a table that need not be there is not there, which a warning says."""
        is_left_out = table.optional and not (Path(self.corpora) / name).exists()
        if is_left_out:
            logger.warning("%s has no %s: the mix is made without it", self.corpora, name)
        return is_left_out

    def is_whole(self) -> bool:
        return (Path(self.output_dir) / "train.parquet").is_file()


@dataclass(kw_only=True)
class HubTable:
    """How a dataset of the Hub is read."""

    dataset: str = setting("name and version: org/name@revision")
    configurations: list[str] = setting("configurations that are read; default: all", list)
    split: str = setting("split that is read", "train")
    english: str = setting("column of the English text", "english")
    other: str = setting("column of the other text", "non_english")
    translation: str | None = setting("column of both texts by their codes, as opus-100 has", None)
    id: str | None = setting("of an n-way table: column of the ids", None)
    text: str = setting("of an n-way table: column of the texts", "text")
    codes: dict[str, str] = setting("languages of codes that are ambiguous: {zh: zho_Hans}", dict)
    rows: int | None = setting(
        "most rows of each configuration, drawn near its start", None, least=1
    )
    test: bool = setting("it is a test set: no row of the mix may hold one of its sentences", False)


@step(operation="hub_tables")
class HubTables(Operation):
    """Write datasets of the Hub as a folder of corpora that `collect_data` reads.
    A stopped run continues."""

    continues = True

    output_dir: str = output("folder of the corpora; test sets go to its folder test/")
    datasets: dict[str, dict] = setting("name: how a dataset is read")
    languages: list[str] = setting(
        "only these languages beside English; default: all", list, convert=language_code
    )
    seed: int = setting("random seed", 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.how: dict[str, HubTable] = {}
        for name, values in self.datasets.items():
            self.how[name] = make(HubTable, values, f"datasets: {name}")

    def make(self) -> dict[str, Any]:
        """Write the tables of the Hub's data sets, and record them."""
        from ..data.hub_tables import write_hub_table
        from ..utils.lineage import write_lineage

        report = {}
        for name, table in self.how.items():
            folder = Path(self.output_dir) / "test" if table.test else Path(self.output_dir)
            report[name] = write_hub_table(name, table, folder, self.languages, self.seed)
        write_lineage(
            self.output_dir, str(self.operation), self.names(None), parents={}, results=report
        )
        return {"output_dir": self.output_dir, **report}

    def is_whole(self) -> bool:
        return True  # the lineage is written last


@step(
    "data speak",
    operation="speak",
    example="hf-echo data speak nway.parquet outputs/speech/train --engine espeak-ng --copies 2",
)
class Speak(Operation):
    """Speak sentences with speech engines such as espeak-ng: a corpus of recordings that a speech
    encoder learns from.

    A stopped run continues, and the same seed gives the same clips.
    """

    continues = True

    texts: str = setting(
        "sentences: lines (.txt), a table of text and lang, n-way, or pairs",
        argument=True,
        reads=DATA,
    )
    output_dir: str = output("folder of the clips")
    lang: str | None = setting(
        "language of TEXTS, if it has no column for it", None, convert=language_code
    )
    languages: list[str] = setting(
        "speak only this language; repeatable; default: all", list, option="--only-lang"
    )
    engines: list[str] = setting(
        "espeak-ng, flite, festival or kokoro; repeatable; default: all that are installed",
        list,
        option="--engine",
    )
    voices: list[str] = setting(
        "use only this voice, ENGINE:VOICE (espeak-ng:de+f2); repeatable", list, option="--voice"
    )
    measure: bool = setting(
        "speak with the voices kept for measuring, which training refuses",
        DefaultOf("data.speech.spoken_corpus.SpeechPlan"),
    )
    copies: int = setting(
        "clips of each sentence, with different voices",
        DefaultOf("data.speech.spoken_corpus.SpeechPlan"),
        least=1,
    )
    speed: list[float] = setting("lowest and highest speed of a voice", [0.8, 1.25])
    pitch: list[float] = setting("lowest and highest pitch of a voice", [0.85, 1.2])
    room: float = setting(
        "share of clips with the echo of a room",
        DefaultOf("data.speech.spoken_sentences.Effects"),
        least=0,
        most=1,
    )
    noise: float = setting(
        "share of clips with noise (5 to 30 dB)",
        DefaultOf("data.speech.spoken_sentences.Effects"),
        least=0,
        most=1,
    )
    band: float = setting(
        "share of clips with a narrow band, as a telephone",
        DefaultOf("data.speech.spoken_sentences.Effects"),
        least=0,
        most=1,
    )
    exclude: list[str] = setting(
        "file of lines that are not spoken, such as a test set; repeatable", list
    )
    shortest: int = setting(
        "characters of the shortest sentence",
        DefaultOf("data.speech.spoken_sentences.read_sentences"),
        least=1,
    )
    longest: int = setting(
        "characters of the longest sentence",
        DefaultOf("data.speech.spoken_sentences.read_sentences"),
        least=1,
    )
    plain: bool = setting(
        "only words of A to Z with common punctuation: of manuals, no code and no path",
        DefaultOf("data.speech.spoken_sentences.read_sentences"),
    )
    most: int | None = setting(
        "draw so many sentences of each language; default: all", None, least=1
    )
    limit: int | None = setting("draw so many sentences in all; default: all", None, least=1)
    seed: int = setting("random seed", DefaultOf("data.speech.spoken_sentences.read_sentences"))
    workers: int | None = setting(
        "engines at a time; default: one per processor", None, least=1, recorded=False
    )
    on_bad_row: OnBadRow = setting(
        "for bad rows of TEXTS: error or skip",
        DefaultOf("data.speech.spoken_sentences.read_sentences"),
        recorded=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("speed", "pitch"):
            if len(getattr(self, name)) != 2:
                raise ValueError(
                    f"{name} is {getattr(self, name)}: give the lowest and the highest"
                )

    def make(self) -> dict[str, Any]:
        """Speak the sentences of the texts, and record how."""
        from ..data.speech.speech_engines import open_engines
        from ..data.speech.spoken_corpus import SpeechPlan, speak_corpus
        from ..data.speech.spoken_sentences import Effects, read_sentences
        from ..utils.lineage import write_lineage
        from ..utils.text import read_lines

        # How each sentence is spoken: copies, speed, pitch, room and noise.
        plan = SpeechPlan(
            self.copies,
            (self.speed[0], self.speed[1]),
            (self.pitch[0], self.pitch[1]),
            Effects(self.room, self.noise, self.band),
            seed=self.seed,
            measure=self.measure,
            voices=tuple(self.voices),
        )
        # Which sentences: those of other sets are left out.
        engines = open_engines(self.engines)
        left_out = {line for file in self.exclude for line in read_lines(file)}
        sentences = read_sentences(
            self.texts,
            lang=self.lang,
            langs=self.languages,
            exclude=left_out,
            shortest=self.shortest,
            longest=self.longest,
            plain=self.plain,
            most=self.most,
            limit=self.limit,
            seed=self.seed,
            on_bad_row=self.on_bad_row,
        )
        # A stopped run resumes; the lineage is written last.
        report = speak_corpus(
            sentences, self.output_dir, engines, plan, workers=self.workers, progress=True
        )
        write_lineage(
            self.output_dir,
            str(self.operation),
            self.names(None),
            parents={},
            data=self.names(DATA),
            results=report,
        )
        return {"output_dir": self.output_dir, **report}

    def missing(self) -> Iterable[str]:
        from ..data.speech.speech_engines import missing_engines

        return missing_engines(self.engines)

    def is_whole(self) -> bool:
        return True  # the lineage is written last


@step(operation="prepare_data")
class PrepareData(Operation):
    """Tokenize training data into shards that every process of a training run maps into memory.

    Then `train_data: OUT` in a recipe of a text stage. A second call makes only the shards that are
    missing.
    """

    data: str = setting("parallel data, as train_data of a recipe", argument=True, reads=DATA)
    output_dir: str = output("folder of the shards")
    # A command that takes a recipe in place of data has none.
    tokenizer: str | None = setting(
        "tokenizer of the model: checkpoint, folder or Hub name", reads=CHECKPOINT
    )
    data_options: dict = setting("further arguments of load_parallel", dict, option="--data-option")
    max_length: int = setting(
        "tokens of a text, as in the recipe; longer ones are cut, with a warning",
        DefaultOf("data.prepared.prepare_parallel"),
        least=1,
    )
    shard_rows: int = setting(
        "pairs of a shard, about; a process holds the lengths of one",
        DefaultOf("data.prepared.prepare_parallel"),
        least=1,
    )
    workers: int = setting(
        "processes; each holds a shard in memory",
        DefaultOf("data.prepared.prepare_parallel"),
        least=1,
        recorded=False,
    )

    def make(self) -> dict[str, Any]:
        report = self.prepare()
        self.write_record(report)
        return {"output_dir": self.output_dir, **report}

    def prepare(self) -> dict[str, Any]:
        """Tokenize the pairs into shards."""
        from ..data import load_parallel
        from ..data.prepared import prepare_parallel
        from ..modeling import EchoTokenizer
        from ..vocabulary.loading import load_tokenizer

        if self.tokenizer is None:
            raise ValueError(
                "--tokenizer is missing: the tokenizer of the model that will be trained"
            )
        tokenizer = load_tokenizer(self.tokenizer)
        if not isinstance(tokenizer, EchoTokenizer):
            tokenizer = EchoTokenizer.around(tokenizer)
        rows = load_parallel(self.data, **self.data_options)
        options = dict(max_length=self.max_length, shard_rows=self.shard_rows, workers=self.workers)
        return prepare_parallel(rows, tokenizer, self.output_dir, **options)

    def write_record(self, report: dict[str, Any]) -> None:
        from ..utils.lineage import write_lineage

        lineage = dict(parents=self.names(CHECKPOINT), data=self.names(DATA), results=report)
        write_lineage(self.output_dir, str(self.operation), self.names(None), **lineage)

    def is_whole(self) -> bool:
        from ..data.prepared import PREPARED

        return (Path(self.output_dir) / PREPARED).is_file()


@step(
    "data filter",
    operation="filter_data",
    example="hf-echo data filter nano_real_strict --out outputs/strict --on-bad-row skip",
)
class FilterData(Operation):
    """Run a data recipe: read, filter, deduplicate, score, sample. A stopped run resumes."""

    reports = False
    opens_models = False

    recipe: str = setting("data recipe: a YAML file, or the name of an included one", argument=True)
    output_dir: str = output(
        "output folder: data/, counts and statistics", argument=False, option="--out", short="-o"
    )
    executor: ExecutorName = setting(
        "where to run: one process, or ray: the cluster at RAY_ADDRESS, or this machine",
        "local",
        recorded=False,
    )
    on_bad_row: OnBadRow = setting("for bad rows: error (name file and row) or skip", "error")
    resume: bool = setting(
        "resume a stopped run, or start again", True, option="--resume/--fresh", recorded=False
    )
    overwrite: bool = setting("replace another recipe's result in OUT", False, recorded=False)
    block: int = setting(
        "rows per block, held in memory by one worker", 50_000, least=1, recorded=False
    )

    def make(self) -> None:
        from ..data.pipeline import read_recipe
        from ..negatives.recipe_steps import STEPS

        run_pipeline(self, read_recipe(self.recipe, STEPS), self.output_dir, block=self.block)

    def alone(self) -> AbstractContextManager[Any]:
        return nullcontext()  # the pipeline locks its folder

    def run(self) -> None:
        self.make()  # the steps are printed, and the folder has its own report


def run_pipeline(s: Any, recipe: Any, out: str | Path, **options: Any) -> None:
    """Run a data recipe with the options of its step, and print what its filters kept."""
    from ..data.pipeline import run
    from ..data.pipeline.statistics import steps_table
    from ..utils.executors import executor_named

    shared = dict(on_bad_row=s.on_bad_row, overwrite=s.overwrite, fresh=not s.resume)
    outcome = run(recipe, out, executor=executor_named(s.executor), **shared, **options)
    print(steps_table(outcome.steps))
    print(
        f"{outcome.rows:,} rows in {outcome.folder / 'data'}; see counts.md and stats.md beside it"
    )
