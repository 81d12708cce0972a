"""hf-echo train, demo, tour, samples, encode, serve, translate, report:
train models and use them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from ..steps.training_data import PUBLIC
from ..utils.files import RAW
from ..utils.hub import packaged_speech
from ..utils.settings import CHECKPOINT, DATA, DefaultOf, Step, setting, step
from .generate import print_report
from .options import (
    DEFAULT_MODEL,
    TEXTS,
    Dtype,
    Executor,
    OnLong,
    OpensModel,
    column,
    device,
    dtype,
    executor,
    language,
    model,
    named_model,
    on_long,
    resume,
)


@step("demo", example="hf-echo demo --out outputs/demo")
class Demo(Step):
    """Train stages 1 to 3 at nano size on the built-in corpus, then embed,
    search and translate with the result."""

    continues = True

    out: Path = setting(
        "where checkpoints, release and results.json go", Path("outputs/demo"), writes="folder"
    )
    fresh: bool = setting(
        "train again although stages are finished", DefaultOf("cli.demo.run_demo")
    )

    def run(self) -> None:
        from .demo import run_demo

        run_demo(self.out, fresh=self.fresh)


@step("train", example="hf-echo train nano/2_contrastive max_steps=100 learning_rate=1e-3")
class Train(Step):
    """Carry out a recipe, or the recipes of a folder in order: training stages and operations on
    checkpoints.

    A run that was stopped continues, and a finished step is not done again.
    """

    recipe: str = setting(
        "a YAML file, a folder of them, or a name such as nano or large", argument=True
    )
    overrides: list[str] = setting(
        "fields of the recipe, as KEY=VALUE; in a folder, for each step that has the field",
        list,
        argument=True,
    )
    dry_run: bool = setting(
        "print sizes, steps, memory and problems (then exit code 1); make nothing", False
    )
    yes: bool = setting(
        "download public text that the recipe reads without a question",
        DefaultOf("steps.public_text.public_folder"),
        short="-y",
    )
    fresh: bool = setting(
        "start over: repeat finished steps, and drop the checkpoints of stopped ones",
        DefaultOf("steps.run.run_journey"),
    )
    changed_data: bool = setting(
        "continue a run although its data have changed since", DefaultOf("steps.run.run_journey")
    )

    def run(self) -> None:
        """Run the steps of a recipe, or describe them; exit code 1 where a problem was found."""
        from ..steps.public_text import announce, public_folder, public_sources
        from ..steps.recipe import find_recipes, parse_overrides
        from ..steps.run import describe_journey, run_journey

        values = parse_overrides(self.overrides)
        paths = find_recipes(self.recipe)
        # Public text that the recipe needs is downloaded first, after a question.
        sources = public_sources(paths, values)
        if self.dry_run:
            if sources:
                announce(sources, journey=self.recipe)
            steps = describe_journey(paths, values, downloads=[PUBLIC] if sources else [])
        else:
            if sources:
                public_folder(sources, yes=self.yes, journey=self.recipe)
            steps = run_journey(paths, values, fresh=self.fresh, changed_data=self.changed_data)
        has_problems = False
        for report in steps:
            print_report(report)
            has_problems = has_problems or bool(report.get("problems"))
        if has_problems:
            raise typer.Exit(1)


@step("tour", example="hf-echo tour")
class Tour(Step):
    """Find and translate 20 held-out sentences of ten languages with echo-nano,
    which is included in the package."""

    def run(self) -> None:
        from .tour import run_tour

        run_tour()


@step("samples", example="hf-echo samples .")
class Samples(Step):
    """Write small files to try the commands on, under the names that README,
    the pages and --help print."""

    continues = True
    opens_models = False

    folder: Path = setting(
        "folder for the files; a file that is there is refused", argument=True, writes="folder"
    )

    def run(self) -> None:
        from .samples import write_samples

        for file in write_samples(self.folder):
            typer.echo(file)


def check_reads_text(model: str) -> None:
    from ..inference.encode_speech import is_speech

    if is_speech(model):
        raise ValueError(
            f"{model} reads audio, not text: give --audio, and audio files instead of texts"
        )


@step("encode", example="hf-echo encode --lang fra_Latn in.txt out.npy")
class Encode(OpensModel):
    """Encode texts, or audio, as sentence embeddings; row i belongs to line i.
    A stopped run resumes."""

    source: Path = setting(TEXTS, argument=True, reads=DATA)
    out: Path = setting(
        "output file: .npy (float32, texts x embedding size), .parquet (text and embedding), or raw numbers .f32 or "
        ".f16 (their shape in OUT.json)",
        argument=True,
        writes="file",
    )
    model: str = model("Echo checkpoint or any SentenceTransformer", audio=True)
    lang: str | None = language("language of the texts; default: unspecified", unless="audio")
    column: str | None = column(unless="audio")
    max_tokens: int | None = setting(
        "padded tokens per batch; default: what fits the device", None, least=1, unless="audio"
    )
    normalize: bool = setting(
        "divide each embedding by its L2 norm", DefaultOf("inference.encode_file.encode_file")
    )
    dtype: Dtype = dtype()
    on_long: OnLong = on_long()
    audio: bool = setting("read audio with a speech encoder", False)
    executor: Executor = executor()
    resume: bool = resume()

    def run(self) -> None:
        """Write the embeddings of texts or of recordings."""
        from ..inference.any_encoder import NamedEncoder
        from ..inference.encode_file import encode_file
        from ..utils.executors import executor_named

        if self.out.suffix not in (".npy", ".parquet", *RAW):
            raise ValueError(f"{self.out}: the file name must end in .npy, .parquet, .f32 or .f16")
        # Audio by a speech encoder, or texts by blocks, on a cluster too.
        if self.audio:
            from .speech import encode_audio, on_this_machine

            on_this_machine(self.executor)
            _, vectors = encode_audio(
                self.source,
                self.model,
                dtype=self.dtype,
                out=self.out,
                normalize=self.normalize,
                on_long=self.on_long,
                fresh=not self.resume,
            )
            rows, width = vectors.shape
        else:
            check_reads_text(self.model)
            encoder = NamedEncoder(self.model, self.dtype, self.max_tokens, self.on_long)
            rows, width = self.call(
                encode_file,
                encoder=encoder,
                executor=executor_named(self.executor),
                fresh=not self.resume,
            )
        typer.echo(f"{self.out}: {rows} x {width}", err=True)


@step("serve", calls="inference.serve.serve", example="hf-echo serve echo-nano --port 8080")
class Serve(Step):
    """Serve embeddings over HTTP: OpenAI's /v1/embeddings and /v1/models, TEI's /embed and /info,
    /health, /metrics.

    Where the environment has HF_ECHO_API_KEY, requests need it as bearer token. SIGTERM lets
    accepted requests finish; then the exit code is 0.
    """

    models: list[str] = setting(
        "Echo checkpoints or any SentenceTransformers: folders or Hub names, of which a request's `model` chooses; "
        f"default: {DEFAULT_MODEL}",
        list,
        reads=CHECKPOINT,
        argument=True,
    )
    port: int = setting("port; 0 is any free one", 8080, least=0, most=65_535)
    host: str = setting("address to listen at; 0.0.0.0 lets other machines in", "127.0.0.1")
    cors_origin: list[str] = setting(
        "origin whose pages may send requests, such as https://example.org; repeatable; default: none",
        list,
    )
    dtype: Dtype = dtype()
    device: str | None = device()
    truncate: bool = setting(
        "truncate texts over the model's limit where a request does not say so; else 413",
        DefaultOf("inference.serve.make_app"),
    )
    batch_tokens: int = setting("tokens that are embedded together", 8_192, least=1)
    queue: int = setting("most texts that wait; above it the answer is 429", 8_192, least=1)
    max_texts: int = setting(
        "most texts of a request", DefaultOf("inference.serve.make_app"), least=1
    )
    max_body: int = setting(
        "most bytes of a request", DefaultOf("inference.serve.make_app"), least=1
    )

    def __post_init__(self):
        super().__post_init__()
        self.models = [named_model(name) for name in self.models or [""]]


@step("translate", example="echo 'Bonjour' | hf-echo translate --from fra_Latn --to eng_Latn")
class Translate(OpensModel):
    """Translate texts line by line, or audio, through their sentence embeddings."""

    source: Path = setting(TEXTS, Path("-"), argument=True, reads=DATA)
    model: str = model("Echo checkpoint or release with a decoder", audio=True)
    target_lang: str = language(
        "language of the translations", DefaultOf("inference.translate"), option="--to"
    )
    source_lang: str | None = language(
        "language of the texts; default: unspecified", option="--from", unless="audio"
    )
    out: Path = setting(
        "output file, packed as .gz, .bz2, .zst or .xz says; - is standard output",
        Path("-"),
        writes="file",
        short="-o",
    )
    column: str | None = column(unless="audio")
    num_beams: int | None = setting(
        "beams of the beam search; 1 is greedy; default: the model's own", None, least=1
    )
    rerank_weight: float | None = setting(
        "weight of the cosine between a beam's embedding and the sentence's; default: the model's own",
        None,
        least=0,
    )
    max_new_tokens: int = setting(
        "longest translation in tokens", DefaultOf("inference.translate"), least=1
    )
    dtype: Dtype = dtype()
    on_long: OnLong = on_long()
    audio: bool = setting("read audio with a speech encoder", False)
    decoder: str | None = setting(
        "text model of the same space whose decoder writes; default: MODEL's own; without --model, that of echo-nano",
        None,
        needs="audio",
    )

    def run(self) -> None:
        """Write the translation of each line or recording, and warn of doubtful ones."""
        from .. import inference
        from ..data.pair_writer import check_text_output
        from ..data.texts import read_texts
        from ..inference.faithful import warn_of_far_translations
        from ..utils.text import open_output

        # Inputs are checked before a model is read: a missing recording is named at once.
        check_text_output(self.out)
        if self.audio:
            from .speech import audio_files, encode_audio

            audio_files(self.source)
        else:
            check_reads_text(self.model)
            inputs: Any = read_texts(self.source, column=self.column, lang=self.source_lang)
        # The decoder, and for audio the embeddings that it reads.
        decoder = DEFAULT_MODEL if self.model == packaged_speech() else self.model
        translator, tokenizer = inference.load_translator(self.decoder or decoder, dtype=self.dtype)
        if self.audio:
            _, inputs = encode_audio(
                self.source, self.model, dtype=self.dtype, on_long=self.on_long
            )
        names = ("num_beams", "rerank_weight", "max_new_tokens", "on_long")
        options = {name: getattr(self, name) for name in names} | {"progress": sys.stderr.isatty()}
        written = inference.translate(
            translator, tokenizer, inputs, self.source_lang, self.target_lang, **options
        )
        # One line in, one line out.
        with open_output(self.out) as file:
            for line in written:
                file.write(" ".join(line.split()) + "\n")
        warn_of_far_translations(
            translator, tokenizer, inputs, written, self.source_lang, self.target_lang
        )


@step("report", example="hf-echo report outputs/my-model minilm tfidf --data dev/ --out report/")
class Report(Step):
    """Compare models on a folder of data; write HTML and JSON.
    A second run reuses the cached embeddings."""

    models: list[str] = setting(
        f"encoders: folder, Hub name, or the baselines minilm and tfidf; default: {DEFAULT_MODEL}",
        list,
        argument=True,
    )
    data: Path = setting("folder of *.parquet files: n-way tables (id, lang, text)", reads=DATA)
    out: Path = setting("output folder of index.html and report.json", writes="folder")
    target_lang: str = language(
        "language of the candidates", DefaultOf("evaluation.report.read_folder")
    )
    negatives: Path | None = setting(
        "LANG_errtype.SPLIT.json of the published xsim++ set, for the tables that hold its sentences; default: rule "
        "negatives",
        None,
        reads=DATA,
    )
    main: str | None = setting(
        "set for the map, geometry and examples: a file name without .parquet", None
    )
    examples: int = setting(
        "number of retrieval errors to show per model",
        DefaultOf("evaluation.report.measure"),
        least=0,
    )
    cache: Path | None = setting(
        "folder for cached embeddings; default: ~/.cache/hf-echo/reports", None
    )
    title: str = setting("title of the page", DefaultOf("evaluation.report.write_report"))
    device: str | None = device()

    def run(self) -> None:
        """Measure the models, and write the report as a page."""
        from ..evaluation import report
        from ..evaluation.report.models import BASELINES, open_models
        from ..utils.extras import extra
        from ..utils.outputs import cache_folder

        with extra("plots"):  # before long measurements
            import matplotlib  # noqa: F401
        content = report.read_folder(
            self.data, target_lang=self.target_lang, published=self.negatives
        )
        names = [name if name in BASELINES else named_model(name) for name in self.models or [""]]
        opened = open_models(names, content.texts)
        cache = self.cache or cache_folder() / "reports"
        measured = report.measure(opened, content, cache, main=self.main, examples=self.examples)
        for file in report.write_report(measured, self.out, title=self.title):
            typer.echo(f"{file} ({file.stat().st_size / 1000:.0f} kB)")
