"""hf-echo data: filter, sample, count and publish parallel data;
rows made with an encoder or a language model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import typer

from ..steps.training_data import PrepareData, run_pipeline
from ..utils.settings import CHECKPOINT, DATA, DefaultOf, Step, setting, step
from .options import (
    Executor,
    OnBadRow,
    OpensModel,
    column,
    executor,
    language,
    model,
    on_bad_row,
    resume,
)


def paths(help: str = "files, folders or Hub datasets of parallel rows") -> Any:
    return setting(help, argument=True, reads=DATA)


@step(
    "data prepare",
    operation="prepare_data",
    example="hf-echo data prepare outputs/strict/data outputs/prepared --tokenizer outputs/tokenizer --workers 8",
)
class Prepare(PrepareData):
    """Tokenize training data into shards that every process of a training run maps into memory.

    Then `train_data: OUT` in a recipe of a text stage. A second call makes only what is missing.

    Of a recipe it takes the data, the tokenizer, the longest text and the choice of rows
    (source_languages, hard negatives by rule, the rows of an extension or a distillation), and the
    embeddings of a guide or teacher are computed and stored beside the shards. The run of the
    recipe with `train_data=OUT` is then that of the data.
    """

    data: str = setting(
        "parallel data, as train_data of a recipe; or the recipe of a text stage: a YAML file or an included one",
        argument=True,
        reads=DATA,
    )
    tokenizer: str | None = setting(
        "tokenizer of the model: checkpoint, folder or Hub name; a recipe has its own",
        None,
        reads=CHECKPOINT,
    )
    overrides: dict = setting("values in place of the recipe's, KEY=VALUE", dict, option="--set")
    executor: Executor = setting(
        "where guide or teacher run: this process, or ray: all GPUs of the cluster at RAY_ADDRESS, or of this machine",
        "local",
        recorded=False,
    )

    def check_inputs(self) -> None:
        from ..steps.prepare import is_recipe

        if not is_recipe(self.data):
            super().check_inputs()

    def prepare(self) -> dict[str, Any]:
        """Prepare the rows of a recipe, or of data with a tokenizer;
        the options of both do not mix."""
        from ..steps.prepare import is_recipe, prepare_recipe
        from ..utils.executors import executor_named

        if not is_recipe(self.data):
            if self.overrides:
                raise ValueError("--set changes a recipe, and the first argument names data")
            return super().prepare()
        if self.tokenizer or self.data_options:
            raise ValueError(
                "--tokenizer and --data-option are the recipe's own: --set KEY=VALUE changes the recipe"
            )
        return prepare_recipe(
            self.data,
            self.output_dir,
            self.overrides,
            shard_rows=self.shard_rows,
            workers=self.workers,
            executor=executor_named(self.executor),
        )


@step(
    "data sample",
    example="hf-echo data sample pairs.parquet --out s --method temperature --exponent 0.6",
)
class Sample(Step):
    """Sample rows in exact proportions by language;
    rows of languages with too few are repeated evenly."""

    opens_models = False

    paths: list[str] = paths("files, folders or Hub datasets of parallel rows; each is one source")
    out: Path = setting("output folder: data/, counts and statistics", writes="folder", short="-o")
    method: Literal["natural", "temperature"] = setting("sampling method", "natural")
    exponent: float | None = setting("of temperature", None)
    rows: int | None = setting("number of rows to draw; default: all rows", None, least=1)
    by: Literal["source_lang", "target_lang", "direction"] = setting(
        "column to balance", "source_lang"
    )
    seed: int = setting("random seed of the draw", 0)
    shards: int | None = setting(
        "number of output files; default: one per million rows", None, least=1
    )
    executor: Executor = executor()
    on_bad_row: OnBadRow = on_bad_row()
    resume: bool = resume()
    overwrite: bool = setting("replace another recipe's result in OUT", False)

    def run(self) -> None:
        from ..data.pipeline import Output, Recipe, Sampling
        from ..data.pipeline.data_recipe import source_of

        sampling = Sampling(self.method, self.by, self.exponent, self.rows, seed=self.seed)
        sources = [source_of(path, path) for path in self.paths]
        run_pipeline(self, Recipe(sources, sampling=sampling, out=Output(self.shards)), self.out)


@step(
    "data calibrate", example="hf-echo data calibrate dev.parquet --direction x_eng --out dev.json"
)
class Calibrate(OpensModel):
    """Compute mean and standard deviation of the scores of clean pairs, of all splits,
    by direction (OS 3.5)."""

    paths: list[str] = paths("clean parallel or n-way data: files, folders or Hub datasets")
    model: str = model("Echo checkpoint or release")
    out: Path = setting(
        "JSON file, for the field `calibrated` of the filter `threshold`", writes="file", short="-o"
    )
    direction: Literal["x_eng", "eng_x", "all"] | None = setting("directions of n-way data", None)
    blaser: str | None = setting(
        "BLASER 2.0 qe model whose scores replace cosines: folder or Hub name",
        None,
        reads=CHECKPOINT,
    )

    def run(self) -> None:
        """Score the pairs, and write mean and deviation of each direction."""
        from ..data.pipeline.filters.threshold import calibrate
        from ..data.pipeline.units import read_unit, units_of
        from ..data.tables import BadRows
        from ..inference.scorer import EchoScorer
        from ..utils.files import write_whole

        options = {"direction": self.direction} if self.direction else {}
        units = units_of(
            [{"path": path, "label": path, "split": None, **options} for path in self.paths]
        )
        # After the data, whose mistakes cost no time so.
        scorer = EchoScorer(self.model, blaser=self.blaser)
        threshold = calibrate(
            (table for unit in units for table in read_unit(unit, BadRows("error"))), scorer
        )
        with write_whole(self.out) as unfinished:
            threshold.save(unfinished)
        for name, (mean, deviation) in sorted(threshold.calibrated.items()):
            typer.echo(f"{name}: mean {mean:.3f}, standard deviation {deviation:.3f}")
        typer.echo(
            f"{self.out}: {len(threshold.calibrated)} directions, for hf-echo score --threshold {self.out} and the "
            "filter `threshold`",
            err=True,
        )


@step("data stats", example="hf-echo data stats pairs.parquet --markdown table.md")
class Statistics(Step):
    """Count pairs, directions, languages and characters by provenance (as in OS Table 34)."""

    opens_models = False

    paths: list[str] = paths()
    columns: dict[str, str] = setting(
        "schema columns of other names, such as source=src", dict, option="--column"
    )
    source_lang: str | None = language("language of all sources, where no column has it")
    target_lang: str | None = language("language of all targets, where no column has it")
    split: str | None = setting(
        "count only this split (by file name, column or on the Hub); default: all", None
    )
    json: Path | None = setting(
        "write the statistics to this JSON file and print them", None, writes="file"
    )
    markdown: Path | None = setting("write the table to this Markdown file", None, writes="file")
    on_bad_row: OnBadRow = on_bad_row()

    def run(self) -> None:
        """Print the statistics of the rows, or write them as Markdown or JSON."""
        from ..data.pipeline import collect_statistics
        from ..utils.files import write_text
        from .generate import print_report

        options = {name: getattr(self, name) for name in ("columns", "source_lang", "target_lang")}
        options = {name: value for name, value in options.items() if value}
        statistics = collect_statistics(
            self.paths, split=self.split, on_bad_row=self.on_bad_row, **options
        )
        if self.markdown is not None:
            write_text(self.markdown, statistics.to_markdown())
        if self.json is not None:
            print_report(statistics.to_json(), self.json)
        else:
            typer.echo(statistics.to_markdown(), nl=False)


@step(
    "data push",
    example="hf-echo data push outputs/strict me/strict-pairs --version 1.1 --license cc-by-4.0",
)
class PushData(Step):
    """Push a versioned dataset to the Hub, with a card made from its statistics."""

    opens_models = False

    folder: Path = setting("what `hf-echo data filter` wrote", argument=True, reads=DATA)
    repo: str = setting("dataset repository on the Hub, OWNER/NAME", argument=True)
    version: str = setting(
        "version; the repository gets the tag vVERSION", DefaultOf("hub.dataset_card.write_card")
    )
    title: str | None = setting("title of the card; default: the folder's name", None)
    license: str | None = setting("license identifier of the Hub, such as cc-by-4.0", None)
    private: bool = setting(
        "create a private repository", DefaultOf("hub.dataset_card.push_dataset")
    )
    card_only: bool = setting("only write README.md into the folder; do not push", False)

    def run(self) -> None:
        from ..hub.dataset_card import push_dataset, write_card

        card_facts = dict(version=self.version, title=self.title, license=self.license)
        if self.card_only:
            typer.echo(write_card(self.folder, **card_facts))
        else:
            typer.echo(push_dataset(self.folder, self.repo, private=self.private, **card_facts))


@step("data segment", example="hf-echo data segment in.txt --lang fra_Latn --out sentences.txt")
class Segment(Step):
    """Split texts into sentences with a SaT model or with rules."""

    reports = True
    opens_models = False

    source: Path = setting(
        "texts, as for hf-echo encode; - is standard input", argument=True, reads=DATA
    )
    lang: str = language("language of the texts", ...)
    out: Path = setting(
        "output, one sentence per line (.gz, .bz2, .zst, .xz too; -)", writes="file", short="-o"
    )
    column: str | None = column()
    model: str | None = setting(
        "SaT model: name such as sat-12l-sm, or folder; default: rules, without a model",
        None,
        reads=CHECKPOINT,
        short="-m",
    )
    threshold: float | None = setting(
        "lowest probability of a sentence end; default: the model's own",
        None,
        needs="model",
        least=0,
        most=1,
    )

    def run(self) -> dict[str, Any]:
        """Write the sentences of all texts, one a line; returns how many there were."""
        from tqdm.auto import tqdm

        from ..data.pair_writer import check_text_output
        from ..data.segmentation import rule_segmenter, sat_segmenter, trimmed
        from ..data.texts import read_texts
        from ..utils.text import open_output

        check_text_output(self.out)
        texts = read_texts(self.source, column=self.column, lang=self.lang)
        count = 0
        segmenter = (
            sat_segmenter(self.model, threshold=self.threshold) if self.model else rule_segmenter
        )
        segmenter([], self.lang)  # raises for an unknown language before a file is written
        with open_output(self.out) as file:
            for start in tqdm(range(0, len(texts), 1_000), desc="Segmenting", unit="block"):
                for pieces in segmenter(texts[start : start + 1_000], self.lang):
                    sentences = trimmed(pieces)
                    file.writelines(f"{sentence}\n" for sentence in sentences)
                    count += len(sentences)
        return {"texts": len(texts), "sentences": count, "out": str(self.out)}


@step(
    "data negatives",
    example="hf-echo data negatives pairs.tsv out.jsonl --model M --endpoint http://localhost:8000/v1",
)
class WriteNegatives(Step):
    """Generate xsim++ hard negatives of English targets with a language model
    (OS A.4, Figure 15)."""

    reports = True
    opens_models = False

    pairs: str = setting(
        "parallel rows: file, folder, builtin, or Hub dataset", reads=DATA, argument=True
    )
    out: Path = setting(
        "output file OUT.jsonl; failed rows go to OUT.failed.jsonl", writes="file", argument=True
    )
    model: str = setting("language model: its name at the endpoint", short="-m")
    endpoint: str = setting(
        "OpenAI-compatible address, such as that of `transformers serve`",
        "http://localhost:8000/v1",
    )
    api_key_env: str = setting("environment variable with the API key", "OPENAI_API_KEY")
    timeout: float = setting("seconds to wait for an answer", 120.0, above=0)
    retries: int = setting(
        "retries after time-outs, dropped connections, 408, 409, 429 or 5xx", 5, least=0
    )
    concurrency: int = setting("number of requests at a time", 8, least=1)
    attempts: int = setting("attempts per row to get a valid reply", 3, least=1)
    temperature: float = setting(
        "temperature of the first attempt; later ones use at least 0.7", 0.0, least=0
    )
    max_tokens: int = setting("longest reply in tokens", 512, least=1)
    seed: int = setting("random seed; each further attempt adds 1", 0)
    on_bad_row: OnBadRow = on_bad_row()

    def run(self) -> dict[str, Any]:
        from ..negatives.written import write_negatives

        return write_negatives(self)
