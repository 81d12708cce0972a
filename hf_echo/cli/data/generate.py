"""hf-echo data describe, back-translate, negatives: rows that a language model writes."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from ..common import PLAIN, Json, example, print_report

commands = typer.Typer(**PLAIN)

Rows = Annotated[Path, typer.Argument(help="Table: .jsonl, .parquet or .tsv.")]
Out = Annotated[Path, typer.Argument(help="OUT.jsonl; failures go to OUT.failed.jsonl.")]
FewShots = Annotated[
    Path | None, typer.Option(help="JSON or YAML: a list of {input, output}, or {examples, user, system}.")
]
OnBadRow = Annotated[str, typer.Option(help="A bad row of the table: error or skip.")]
Only = Annotated[
    str | None, typer.Option(help="Only rows of this class: code, inline, sentence ... (of data code, math).")
]


@dataclass(frozen=True)
class Asking:
    """The options that every command here has: who is asked, and how."""

    model: Annotated[
        str,
        typer.Option("--model", "-m", help="Name that the endpoint knows; or folder, GGUF file or Hub name."),
    ]
    endpoint: Annotated[
        str | None,
        typer.Option(help="OpenAI-compatible address, such as http://localhost:8000/v1; without, the model runs here."),
    ] = None
    api_key_env: Annotated[str, typer.Option(help="Environment variable that holds the key.")] = "OPENAI_API_KEY"
    timeout: Annotated[float, typer.Option(help="Seconds without an answer.")] = 120
    retries: Annotated[int, typer.Option(min=0, help="After time-outs, dropped connections, 429 and 5xx.")] = 5
    concurrency: Annotated[int, typer.Option(min=1, help="Questions under way at a time.")] = 8
    attempts: Annotated[int, typer.Option(min=1, help="Questions for a row until a reply is valid.")] = 3
    temperature: Annotated[float, typer.Option(min=0, help="Of the first attempt; 0.7 or more afterwards.")] = 0.0
    max_tokens: Annotated[int, typer.Option(min=1, help="Length limit of a reply.")] = 512
    seed: Annotated[int, typer.Option(help="Each further attempt adds 1.")] = 0
    cache: Annotated[Path | None, typer.Option(help="File of all replies; OUT.replies.jsonl by default.")] = None
    on_fail: Annotated[str, typer.Option(help="A row without a good answer: skip or stop.")] = "skip"
    price_in: Annotated[float, typer.Option(help="Price of a million prompt tokens.")] = 0.0
    price_out: Annotated[float, typer.Option(help="Price of a million completion tokens.")] = 0.0
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show one prompt and count; ask nothing.")] = False
    report: Json = None

    def write(self, jobs: Iterable[Any], out: Path, total: int) -> None:
        from ...synthesis import llm
        from ...synthesis.llm.writing import default_cache

        sampling = llm.Sampling(self.temperature, self.max_tokens, self.seed, self.attempts)
        prices, cache = (self.price_in, self.price_out), self.cache or default_cache(out)
        if self.dry_run:
            counts = llm.estimate(jobs, self.model, sampling, cache=cache, prices=prices)
            for message in counts.pop("prompt") or []:
                typer.echo(f"[{message['role']}]\n{message['content']}\n", err=True)
            return print_report(counts, self.report)
        done = llm.write_rows(
            jobs,
            self._backend(),
            out,
            total=total,
            cache=cache,
            sampling=sampling,
            concurrency=self.concurrency,
            on_fail=self.on_fail,
            prices=prices,
        )
        print_report(done.to_row(), self.report)

    def _backend(self) -> Any:
        from ...synthesis import llm

        if self.endpoint is None:
            return llm.LocalModel(self.model)
        key = os.environ.get(self.api_key_env)
        return llm.Endpoint(self.model, self.endpoint, api_key=key, timeout=self.timeout, retries=self.retries)


def asks(command: Callable) -> Callable:
    """Gives a command the options of `Asking`; it receives them as the argument ``asking``."""
    hints, own = get_type_hints(command, include_extras=True), inspect.signature(command).parameters
    shared = get_type_hints(Asking, include_extras=True)
    parameters = [p.replace(annotation=hints[p.name]) for p in own.values() if p.name != "asking"]
    parameters = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters]
    for field in fields(Asking):
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        parameters.append(
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=shared[field.name]
            )
        )

    def call(**options: Any) -> None:
        asking = Asking(**{name: options.pop(name) for name in shared})
        command(**options, asking=asking)

    call.__name__, call.__doc__ = command.__name__, command.__doc__
    call.__signature__ = inspect.Signature(parameters)
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    return call


def _with_language(names: list[str]) -> list[tuple[str, str]]:
    """Pairs of text and language columns, the schema's first."""
    return [(name, lang) for name in names for lang in (f"{name}_lang", "lang", "language")]


@commands.command(
    **example("hf-echo data describe snippets.jsonl described.jsonl --model M --endpoint http://localhost:8000/v1")
)
@asks
def describe(
    rows: Rows,
    out: Out,
    asking: Asking,
    column: Annotated[str | None, typer.Option(help="Column of the code; source, code or text.")] = None,
    lang: Annotated[str | None, typer.Option(help="python, latex ... where no column says.")] = None,
    only: Only = None,
    few_shots: FewShots = None,
    on_bad_row: OnBadRow = "error",
) -> None:
    """Describe code and LaTeX in English (OS A.3, Figure 13): rows code -> English."""
    from ...synthesis import llm

    names = [column] if column else ["source", "code", "text"]
    texts = llm.read_texts(
        rows,
        columns=_with_language(names),
        lang=lang,
        only=only,
        on_bad_row=on_bad_row,
        check=lambda text: llm.describable(text, lang),
    )
    code, math = llm.DESCRIBE_CODE, llm.DESCRIBE_MATH
    if few_shots:
        code, math = llm.load_prompt(few_shots, code), llm.load_prompt(few_shots, math)
    asking.write(llm.describe(texts, code=code, math=math), out, len(texts))


@commands.command(
    "back-translate",
    **example(
        "hf-echo data back-translate english.jsonl out.jsonl --to fra_Latn --model M --endpoint http://localhost:8000/v1"
    ),
)
@asks
def back_translate(
    rows: Rows,
    out: Out,
    asking: Asking,
    to: Annotated[list[str] | None, typer.Option(help="Language; repeat it. The paper's seven.")] = None,
    column: Annotated[str | None, typer.Option(help="Column of English text; target or text.")] = None,
    only: Only = None,
    few_shots: FewShots = None,
    on_bad_row: OnBadRow = "error",
) -> None:
    """Translate English into other languages (OS A.3): rows language -> English, provenance back_translation."""
    from ...synthesis import llm

    names = [column] if column else ["target", "text"]
    texts = llm.read_texts(
        rows, columns=_with_language(names), lang="eng_Latn", only=only, on_bad_row=on_bad_row, check=llm.translatable
    )
    prompt = llm.load_prompt(few_shots, llm.BACK_TRANSLATE) if few_shots else llm.BACK_TRANSLATE
    languages = to or llm.PAPER_LANGUAGES
    jobs = llm.back_translate(texts, languages, prompt=prompt)
    asking.write(jobs, out, len(texts) * len(set(languages)))


@commands.command(**example("hf-echo data negatives pairs.tsv out.jsonl --model M --endpoint http://localhost:8000/v1"))
@asks
def negatives(
    rows: Rows,
    out: Out,
    asking: Asking,
    kinds: Annotated[bool, typer.Option("--kinds", help="Ask for the kind of each, too.")] = False,
    few_shots: FewShots = None,
    on_bad_row: OnBadRow = "error",
) -> None:
    """Write xsim++ hard negatives of English targets (OS A.4, Figure 15) into the column hard_negatives."""
    from ...data import load_parallel
    from ...synthesis import llm

    pairs = load_parallel(rows, split=None, on_bad_row=on_bad_row)
    prompt = llm.NEGATIVES_BY_KIND if kinds else llm.NEGATIVES
    if few_shots:
        prompt = llm.load_prompt(few_shots, prompt)
    asking.write(llm.negatives(pairs, kinds=kinds, prompt=prompt), out, len(pairs))
