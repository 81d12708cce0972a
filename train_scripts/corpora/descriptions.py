"""Descriptions of code and LaTeX, and back-translations, by a language model (OS A.3, Figure 13;
ECHO Figure 3).

    python train_scripts/corpora/descriptions.py describe snippets.jsonl out.jsonl --model M --endpoint URL
    python train_scripts/corpora/descriptions.py back-translate texts.jsonl out.jsonl --model M --endpoint URL --to hin

The first makes rows code -> English of what source_code.py and latex.py extract; the second rows
language -> English whose target is the real text. The endpoint is OpenAI-compatible, its key is in
the environment variable OPENAI_API_KEY; `transformers serve MODEL` starts one. A stopped run
resumes (`hf_echo.negatives.language_model`).
"""

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from run_script import run, show

from hf_echo.data.schema import check_language, check_text
from hf_echo.languages import ENGLISH, find_language, language
from hf_echo.negatives.language_model import Endpoint, InvalidReply, Job, write_rows
from hf_echo.negatives.rules import normal_form
from hf_echo.negatives.written import clean_reply

logger = logging.getLogger(__name__)

# OS A.3
PAPER_LANGUAGES = [
    "fra_Latn",
    "deu_Latn",
    "hin_Deva",
    "ita_Latn",
    "por_Latn",
    "spa_Latn",
    "tha_Thai",
]
PLAIN = {"delimiter": "\t", "quoting": 3, "keep_default_na": False}  # quotes and "NA" are text
READERS = {".jsonl": ("json", {}), ".parquet": ("parquet", {}), ".tsv": ("csv", PLAIN)}
TEXT_COLUMNS = ("source", "code", "text", "target")
QUOTES = {'"': '"', "'": "'", "“": "”", "«": "»", "`": "`"}

TRANSLATE = (
    "You are a helpful translation assistant. You respond only with the translation, without additional comments,"
    " context, or explanation.",
    "Translate the following text from English into {language}. Don't produce any other output outside of the"
    " translation.\n\n",
)
DESCRIBE_CODE = (
    "Translate the following {language} snippet to a single sentence, ensuring that all elements"
    " and operations in the code are included. The sentence should convey the semantic meaning of the code,"
    " effectively translating it into a clear and concise lexical explanation without making any assumptions or"
    " inferences beyond what is explicitly stated in the code. Describe only and exactly its explicit elements"
    " and operations, without any additional context or explanation. Use a single, direct sentence that"
    " includes all elements and operations in the code, avoiding introductory words or additional context."
    " Please provide only the sentence and nothing else:\n\n"
)
DESCRIBE_MATH = (
    "Describe the following mathematical text in a single sentence. The sentence should convey the semantic"
    " meaning of the mathematical notation, effectively translating the mathematical notation into a clear and"
    " concise lexical explanation. Please provide only the sentence and nothing else.\n\n"
)


class Text(NamedTuple):
    text: str
    lang: str


def read_texts(
    path: str | Path,
    usable: Callable[[Text], str | None],
    *,
    column: str | None = None,
    lang: str | None = None,
    only: str | None = None,
    on_bad_row: str = "error",
) -> list[Text]:
    """The texts of a table with their languages, in order.

    Args:
        usable: text -> why it is of no use here, or None.
        column: of the texts; None takes the first of `TEXT_COLUMNS` that has a language beside it.
        lang: language of all rows, for a table without a column of it.
        only: read only rows with this value in the column `class`.

    Raises:
        FileNotFoundError: no such file. ValueError: a missing column, a bad row, or no row.
    """
    from datasets import load_dataset

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}; give a table of texts ({', '.join(READERS)})")
    if path.suffix not in READERS:
        raise ValueError(f"{path}: not a table of texts; give {', '.join(READERS)}")
    if on_bad_row not in ("error", "skip"):
        raise ValueError(f"on_bad_row is {on_bad_row!r}; it must be 'error' or 'skip'")
    # Read by `datasets`, whose quotes and missing values are switched off for TSV.
    kind, options = READERS[path.suffix]
    rows = load_dataset(kind, data_files=str(path), split="train", **options)
    name, lang_column = _columns(rows.column_names, column, lang, only, path)
    texts = []
    bad = []
    for number, row in enumerate(rows, 1):
        if only is not None and row["class"] != only:
            continue
        # A row is bad if its text or language is, or if the command has no use for it.
        text = Text(row[name], row[lang_column] if lang_column else lang)
        reason = (
            check_text(name, text.text)
            or check_language(lang_column or "lang", text.lang)
            or usable(text)
        )
        if reason:
            bad.append(f"{path}: row {number}: {reason}")
        else:
            texts.append(text)
    if bad and on_bad_row == "error":
        raise ValueError(f"{bad[0]} ({len(bad)} bad rows)")
    if bad:
        logger.warning("skipped %d bad rows, the first: %s", len(bad), bad[0])
    if not texts:
        raise ValueError(
            f"{path}: no usable row" + (f" of class {only!r}" if only is not None else "")
        )
    return texts


def _columns(
    names: Sequence[str], column: str | None, lang: str | None, only: str | None, path: Path
) -> tuple[str, str | None]:
    """The column of the texts, and that of their languages; None: they are all in `lang`."""
    listing = f"found: {', '.join(names)}"
    if only is not None and "class" not in names:
        raise ValueError(f"{path} has no column class to choose {only!r} by; {listing}")
    text_columns = [
        name for name in (column, *TEXT_COLUMNS) if name in names and column in (None, name)
    ]
    if not text_columns:
        raise ValueError(
            f"{path} has no column of texts ({column or ', '.join(TEXT_COLUMNS)}); {listing}"
        )
    for name in text_columns:
        for lang_column in (f"{name}_lang", "lang", "language"):
            if lang_column in names:
                return name, lang_column
    if lang is None:
        raise ValueError(
            f"{path} has no column of language: give --lang, or a column lang; {listing}"
        )
    return text_columns[0], None


def describable(text: Text) -> str | None:
    return None if language(text.lang).script is None else f"{text.lang} is neither code nor latex"


def translatable(text: Text) -> str | None:
    """English, also with LaTeX."""
    return None if text.lang in (ENGLISH, "latex") else f"{text.lang} is not {ENGLISH}"


def descriptions(texts: Iterable[Text]) -> Iterator[Job]:
    """Jobs that describe snippets of code or LaTeX in English;
    rows code -> English, provenance code or math."""
    for text in texts:
        if text.lang == "latex":
            provenance = "math"
            prompt = DESCRIBE_MATH
        else:
            provenance = "code"
            prompt = DESCRIBE_CODE.format(language=language(text.lang).name)
        fields = {"source": text.text, "source_lang": text.lang}
        yield Job(
            failure_fields=fields,
            messages=[{"role": "user", "content": prompt + text.text}],
            parse=partial(parse_description, source=text.text),
            row=partial(_described, fields | {"target_lang": ENGLISH, "provenance": provenance}),
        )


def _described(fields: Mapping[str, str], description: str | None) -> dict[str, str] | None:
    return {**fields, "target": description} if description else None


def back_translations(
    texts: Sequence[Text], languages: Sequence[str] = tuple(PAPER_LANGUAGES)
) -> Iterator[Job]:
    """Jobs that translate English texts into each language; rows language -> English
    (the real text is the target).

    Raises:
        ValueError: an unknown language, or one that is English, code or math.
    """
    codes = list(dict.fromkeys(find_language(name) for name in languages))
    for code in codes:
        if code == ENGLISH or language(code).script is None:
            raise ValueError(f"cannot translate English into {code}; give another language")
    system, user = TRANSLATE
    for text in texts:
        for code in codes:
            prompt = user.format(language=language(code).name) + text.text
            fields = {"target": text.text, "source_lang": code}
            yield Job(
                failure_fields=fields | {"target_lang": text.lang},
                messages=[
                    {"role": "system", "content": system},
                    {"role": "user", "content": prompt},
                ],
                parse=partial(parse_translation, text=text.text),
                row=partial(
                    _translated, fields | {"target_lang": ENGLISH, "provenance": "back_translation"}
                ),
            )


def _translated(fields: Mapping[str, str], translation: str | None) -> dict[str, str] | None:
    return {**fields, "source": translation} if translation else None


def parse_description(reply: str, source: str) -> str:
    """The sentence that describes `source`; raises InvalidReply:
    empty, several lines, or the source verbatim."""
    text = clean_reply(reply)
    _check_lines(text, 1)
    text = _unquoted(text)
    if not normal_form(text):
        raise InvalidReply("empty")
    code = " ".join(source.split())
    if normal_form(text) == normal_form(source):
        raise InvalidReply("equal to the input")
    # a single word, such as `break`, may occur in its own description
    if not re.fullmatch(r"\w+\W?", code) and code in " ".join(text.split()):
        raise InvalidReply("contains the input verbatim")
    return text


def parse_translation(reply: str, text: str) -> str:
    """The translation of `text`; raises InvalidReply:
    empty, more lines than the text, or equal to the text."""
    translation = clean_reply(reply)
    _check_lines(translation, max(1, _lines(text)))
    # Quotes around a reply are a frame only if the text has none itself.
    if _unquoted(text) == text:
        translation = _unquoted(translation)
    if not translation.strip():
        raise InvalidReply("empty")
    form = normal_form(text)
    if translation == text.strip() or (form and normal_form(translation) == form):
        raise InvalidReply("equal to the input")
    return translation


def _lines(text: str) -> int:
    return sum(bool(line.strip()) for line in text.splitlines())


def _check_lines(text: str, most: int) -> None:
    lines = _lines(text)
    if lines > most:
        raise InvalidReply(f"{lines} lines instead of {most}")


def _unquoted(text: str) -> str:
    inner = text[1:-1]
    is_quoted = len(text) > 2 and QUOTES.get(text[0]) == text[-1]
    if is_quoted and text[0] not in inner and text[-1] not in inner:
        return inner.strip()
    return text


Rows = Annotated[Path, typer.Argument(help="Input table: .jsonl, .parquet or .tsv.")]
Out = Annotated[
    Path, typer.Argument(help="Output file OUT.jsonl; failed rows go to OUT.failed.jsonl.")
]
Model = Annotated[str, typer.Option("--model", "-m", help="Name at --endpoint.")]
Address = Annotated[
    str | None, typer.Option(help="OpenAI-compatible address, such as http://localhost:8000/v1.")
]
Column = Annotated[
    str | None, typer.Option(help="Column of the texts. Default: source, code, text or target.")
]
Only = Annotated[
    str | None, typer.Option(help="Only rows of this class: code, inline, sentence ...")
]
OnBadRow = Annotated[str, typer.Option(help="For bad rows of the table: error or skip.")]
Longest = Annotated[int, typer.Option(min=1, help="Longest reply in tokens.")]


def describe(
    rows: Rows,
    out: Out,
    model: Model,
    endpoint: Address = "http://localhost:8000/v1",
    column: Column = None,
    lang: Annotated[
        str | None, typer.Option(help="Language of all snippets, such as python or latex.")
    ] = None,
    only: Only = None,
    max_tokens: Longest = 512,
    on_bad_row: OnBadRow = "error",
) -> None:
    """Describe code and LaTeX in English (OS A.3, Figure 13): rows code -> English."""
    texts = read_texts(
        rows, describable, column=column, lang=lang, only=only, on_bad_row=on_bad_row
    )
    _write(descriptions(texts), out, model, endpoint, max_tokens, len(texts))


def back_translate(
    rows: Rows,
    out: Out,
    model: Model,
    endpoint: Address = "http://localhost:8000/v1",
    to: Annotated[list[str], typer.Option(help="Target language; repeatable.")] = PAPER_LANGUAGES,
    column: Column = None,
    only: Only = None,
    max_tokens: Longest = 512,
    on_bad_row: OnBadRow = "error",
) -> None:
    """Translate English into other languages (OS A.3): rows language -> English."""
    texts = read_texts(
        rows, translatable, column=column, lang=ENGLISH, only=only, on_bad_row=on_bad_row
    )
    _write(
        back_translations(texts, to), out, model, endpoint, max_tokens, len(texts) * len(set(to))
    )


def _write(
    jobs: Iterable[Job], out: Path, model: str, endpoint: str, max_tokens: int, total: int
) -> None:
    opened = Endpoint(model, endpoint, api_key=os.environ.get("OPENAI_API_KEY"))
    show(write_rows(jobs, opened, out, total=total, max_tokens=max_tokens))


if __name__ == "__main__":
    run(describe, back_translate)
