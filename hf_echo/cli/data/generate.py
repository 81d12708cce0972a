"""hf-echo data describe, back-translate, negatives: generate rows with a language model."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from ...utils.files import check_output
from ..common import PLAIN, Json, example, print_report

commands = typer.Typer(**PLAIN)

Rows = Annotated[Path, typer.Argument(help="Input table: .jsonl, .parquet or .tsv.")]
Out = Annotated[Path, typer.Argument(help="Output file OUT.jsonl; failed rows go to OUT.failed.jsonl.")]
FewShots = Annotated[
    Path | None,
    typer.Option(help="Few-shot examples (JSON or YAML): a list of {input, output}, or {examples, user, system}."),
]
OnBadRow = Annotated[str, typer.Option(help="For bad rows of the table: error or skip.")]
Only = Annotated[
    str | None,
    typer.Option(help="Use only rows of this class (column class): code, inline, sentence ..."),
]


@dataclass(frozen=True)
class Asking:
    """Options of all commands here: the language model and how to query it."""

    model: Annotated[
        str,
        typer.Option(
            "--model", "-m", help="Language model: its name at --endpoint, or a folder, GGUF file or Hub name."
        ),
    ]
    endpoint: Annotated[
        str | None,
        typer.Option(help="OpenAI-compatible address, such as http://localhost:8000/v1. Default: load the model here."),
    ] = None
    api_key_env: Annotated[str, typer.Option(help="Environment variable with the API key.")] = "OPENAI_API_KEY"
    timeout: Annotated[float, typer.Option(help="Seconds to wait for an answer.")] = 120
    retries: Annotated[
        int,
        typer.Option(
            min=0, help="Retries of a request after time-outs, dropped connections, and status 408, 409, 429 or 5xx."
        ),
    ] = 5
    concurrency: Annotated[int, typer.Option(min=1, help="Number of requests at a time.")] = 8
    attempts: Annotated[int, typer.Option(min=1, help="Attempts per row to get a valid reply.")] = 3
    temperature: Annotated[
        float, typer.Option(min=0, help="Sampling temperature of the first attempt; later ones use at least 0.7.")
    ] = 0.0
    max_tokens: Annotated[int, typer.Option(min=1, help="Longest reply in tokens.")] = 512
    seed: Annotated[int, typer.Option(help="Random seed; each further attempt adds 1.")] = 0
    cache: Annotated[Path | None, typer.Option(help="File of cached replies. Default: OUT.replies.jsonl.")] = None
    on_fail: Annotated[str, typer.Option(help="For rows without a valid reply: skip or stop.")] = "skip"
    price_in: Annotated[float, typer.Option(help="Price per million prompt tokens, for the report.")] = 0.0
    price_out: Annotated[float, typer.Option(help="Price per million completion tokens, for the report.")] = 0.0
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show one prompt and the counts; send no request.")] = False
    report: Json = None

    def write(self, jobs: Iterable[Any], out: Path, total: int) -> None:
        from ...negatives import llm
        from ...negatives.llm.writing import default_cache

        sampling = llm.Sampling(self.temperature, self.max_tokens, self.seed, self.attempts)
        prices, cache = (self.price_in, self.price_out), self.cache or default_cache(out)
        check_output(cache, [self.report] if self.report else [])
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
        from ...negatives import llm

        if self.endpoint is None:
            return llm.LocalModel(self.model)
        key = os.environ.get(self.api_key_env)
        return llm.Endpoint(self.model, self.endpoint, api_key=key, timeout=self.timeout, retries=self.retries)


def asks(command: Callable) -> Callable:
    """Decorator: add the options of `Asking` to a command, which receives them as the argument ``asking``."""
    # Not `typing.get_type_hints`: in Python 3.10 it hides the help of an option whose default is None.
    own, shared = inspect.signature(command, eval_str=True).parameters, inspect.get_annotations(Asking, eval_str=True)
    parameters = [p.replace(kind=p.KEYWORD_ONLY) for p in own.values() if p.name != "asking"]
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
    setattr(call, "__signature__", inspect.Signature(parameters))  # noqa: B010  (a function has no such field)
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    return call


def _with_language(names: list[str]) -> list[tuple[str, str]]:
    """Candidate pairs of text and language columns, those of the schema first."""
    return [(name, lang) for name in names for lang in (f"{name}_lang", "lang", "language")]


@commands.command(
    **example("hf-echo data describe snippets.jsonl described.jsonl --model M --endpoint http://localhost:8000/v1")
)
@asks
def describe(
    rows: Rows,
    out: Out,
    asking: Asking,
    column: Annotated[str | None, typer.Option(help="Column of the code. Default: source, code or text.")] = None,
    lang: Annotated[
        str | None, typer.Option(help="Language of the snippets, such as python or latex. Default: the table's column.")
    ] = None,
    only: Only = None,
    few_shots: FewShots = None,
    on_bad_row: OnBadRow = "error",
) -> None:
    """Describe code and LaTeX in English with a language model (OS A.3, Figure 13): rows code -> English."""
    from ...negatives import llm

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
    to: Annotated[
        list[str] | None, typer.Option(help="Target language; repeatable. Default: the seven of the paper.")
    ] = None,
    column: Annotated[str | None, typer.Option(help="Column of the English text. Default: target or text.")] = None,
    only: Only = None,
    few_shots: FewShots = None,
    on_bad_row: OnBadRow = "error",
) -> None:
    """Translate English into other languages with a language model (OS A.3): rows language -> English."""
    from ...negatives import llm

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
    kinds: Annotated[bool, typer.Option("--kinds", help="Also ask for the kind of each negative.")] = False,
    few_shots: FewShots = None,
    on_bad_row: OnBadRow = "error",
) -> None:
    """Generate xsim++ hard negatives of English targets with a language model (OS A.4, Figure 15)."""
    from ...data import load_parallel
    from ...negatives import llm

    pairs = load_parallel(rows, split=None, on_bad_row=on_bad_row)
    prompt = llm.NEGATIVES_BY_KIND if kinds else llm.NEGATIVES
    if few_shots:
        prompt = llm.load_prompt(few_shots, prompt)
    asking.write(llm.negatives(pairs, kinds=kinds, prompt=prompt), out, len(pairs))
