"""hf-echo vocabulary: count words, extend or train a tokenizer, move a model onto it, and see what was gained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..utils.files import write_whole
from .common import PLAIN, example, print_report

commands = typer.Typer(help="Tokenizers: count, extend, train, swap, report.", no_args_is_help=True, **PLAIN)


def use_recipe(context: typer.Context, recipe: str | None) -> str | None:
    """The fields of a recipe stand in for the options that the command line leaves out."""
    if recipe:
        context.default_map = read_recipe(recipe, context.info_name, [p.name for p in context.command.params])
    return recipe


def read_recipe(recipe: str, command: str, options: list[str]) -> dict[str, Any]:
    """Options of a YAML file, or of a recipe of the package.

    Raises:
        FileNotFoundError: there is no such recipe. ValueError: it is for another command, or has an unknown field.
    """
    import yaml

    folder = Path(__file__).parents[1] / "recipes" / "vocabulary"
    path = next((p for p in (Path(recipe), folder / f"{recipe}.yaml") if p.is_file()), None)
    if path is None:
        known = ", ".join(sorted(p.stem for p in folder.glob("*.yaml")))
        raise FileNotFoundError(f"no recipe {recipe!r}; give a YAML file or one of {known}")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold `field: value` lines, not a {type(values).__name__}")
    if values.pop("command", None) != command:
        raise ValueError(f"{path} is no recipe of this command; it must say `command: {command}`")
    if unknown := sorted(set(values) - set(options)):
        raise ValueError(f"{path}: unknown field {unknown[0]!r}; known are {', '.join(sorted(options))}")
    if isinstance(weights := values.get("language_weight"), dict):
        values["language_weight"] = [f"{lang}={weight}" for lang, weight in weights.items()]
    return values


Counts = Annotated[Path, typer.Option(help="File of `hf-echo vocabulary count`.")]
Pattern = Annotated[str | None, typer.Option(help="echo or llama3; by default that of the counts.")]
Top = Annotated[int, typer.Option(min=1, help="So many of the largest languages get the same share (UniMax).")]
Upsampling = Annotated[float, typer.Option(min=1, help="The others are repeated at most so often.")]
Weights = Annotated[
    list[str] | None, typer.Option(help="LANGUAGE=FACTOR on its share, such as ell_Grek=2; may be repeated.")
]
MinCount = Annotated[int, typer.Option(min=1, help="Leave out words seen fewer times in a language.")]
Recipe = Annotated[
    str | None,
    typer.Option(callback=use_recipe, is_eager=True, help="YAML file of these options, or languages_200, omnilingual."),
]


def balanced_counts(
    counts: Path,
    pattern: str | None,
    top_languages: int,
    max_upsampling: float,
    language_weight: list[str] | None,
    min_count: int,
) -> tuple[str, dict[str, int]]:
    """(pattern, frequency by word) of a balanced sample."""
    from ..vocabulary.counts import WordCounts

    weights = {}
    for text in language_weight or []:
        lang, _, factor = text.partition("=")
        try:
            weights[lang] = float(factor)
        except ValueError:
            raise ValueError(f"--language-weight {text!r} is not LANGUAGE=FACTOR, such as ell_Grek=2") from None
    loaded = WordCounts.load(counts)
    pattern = pattern or loaded.pattern
    loaded.check_pattern(pattern)
    return pattern, loaded.balanced(
        top_n=top_languages, max_upsampling=max_upsampling, language_weights=weights, min_count=min_count
    )


@commands.command("count", **example("hf-echo vocabulary count corpus/ fra_Latn.txt --out counts.parquet"))
def count(
    files: Annotated[
        list[Path],
        typer.Argument(help="Files or folders: Parquet, TSV, JSONL, or .txt with a language code."),
    ],
    out: Annotated[Path, typer.Option(help="The counts, a Parquet file.")],
    pattern: Annotated[str, typer.Option(help="How words are split: echo (ECHO D) or llama3.")] = "echo",
    kind: Annotated[str | None, typer.Option(help="parallel or monolingual; by default by the columns.")] = None,
    lang: Annotated[str | None, typer.Option(help="Language of text that names none.")] = None,
    split: Annotated[str, typer.Option(help="Where a file has splits; all counts every one.")] = "train",
    processes: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 2,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave bad rows out with a warning.")] = False,
) -> None:
    """Word counts by language, pairs and other text apart. An interrupted count resumes."""
    from ..vocabulary.counts import count_words

    counts = count_words(
        files,
        out,
        pattern=pattern,
        kind=kind,
        lang=lang,
        split=None if split == "all" else split,
        processes=processes,
        on_bad_row="skip" if skip_bad else "error",
    )
    figures = ("sentences", "words", "characters", "distinct")
    totals = {name: sum(getattr(entry, name) for entry in counts.entries) for name in figures}
    print_report({"out": str(out), "pattern": pattern, "languages": len(counts.languages), **totals})


@commands.command(
    "extend",
    **example(
        "hf-echo vocabulary extend meta-llama/Meta-Llama-3-8B outputs/tokens --counts counts.parquet --merges 128000",
        folder=True,
    ),
)
def extend(
    tokenizer: Annotated[str, typer.Argument(help="Byte-level BPE: folder, tokenizer.json, GGUF or Hub name.")],
    out: Annotated[Path, typer.Argument(help="Folder of the extended tokenizer.")],
    counts: Counts,
    merges: Annotated[int | None, typer.Option(min=1, help="Merges to add.")] = None,
    vocab_size: Annotated[int | None, typer.Option(help="Or: the size to reach.")] = None,
    pattern: Pattern = None,
    top_languages: Top = 126,
    max_upsampling: Upsampling = 100,
    language_weight: Weights = None,
    min_count: MinCount = 1,
    recipe: Recipe = None,
) -> None:
    """Continue the training of a tokenizer (ECHO D): every old token keeps its id."""
    from ..vocabulary.extend import extend_tokenizer
    from ..vocabulary.loading import load_tokenizer

    if (merges is None) == (vocab_size is None):
        raise ValueError("give either --merges or --vocab-size")
    old = load_tokenizer(tokenizer)
    pattern, words = balanced_counts(counts, pattern, top_languages, max_upsampling, language_weight, min_count)
    new = extend_tokenizer(old, words, merges, vocab_size=vocab_size, pattern=pattern)
    new.save_pretrained(out)
    print_report({"out": str(out), "old_tokens": len(old), "tokens": len(new), "distinct_words": len(words)})


@commands.command(
    "train",
    **example("hf-echo vocabulary train outputs/tokenizer --counts counts.parquet --vocab-size 32000", folder=True),
)
def train(
    out: Annotated[Path, typer.Argument(help="Folder of the tokenizer.")],
    counts: Counts,
    vocab_size: Annotated[int, typer.Option(help="Of the tokenizer, special and reserved tokens included.")],
    reserved: Annotated[int, typer.Option(min=0, help="Reserved tokens for later use.")] = 16,
    max_length: Annotated[int, typer.Option(min=8, help="Longest text in tokens.")] = 512,
    pattern: Pattern = None,
    top_languages: Top = 126,
    max_upsampling: Upsampling = 100,
    language_weight: Weights = None,
    min_count: MinCount = 1,
    recipe: Recipe = None,
) -> None:
    """A byte-level BPE from scratch (the omnilingual tokenizer of OS 4.1)."""
    from ..vocabulary.train import train_from_counts

    pattern, words = balanced_counts(counts, pattern, top_languages, max_upsampling, language_weight, min_count)
    new = train_from_counts(words, vocab_size, n_reserved=reserved, pattern=pattern, max_length=max_length)
    new.save_pretrained(out)
    print_report({"out": str(out), "tokens": len(new), "distinct_words": len(words)})


@commands.command(
    "swap", **example("hf-echo vocabulary swap outputs/echo outputs/tokenizer outputs/echo-256k", folder=True)
)
def swap(
    model: Annotated[Path, typer.Argument(help="Folder of an Echo checkpoint or release.")],
    tokenizer: Annotated[Path, typer.Argument(help="Its new tokenizer: folder or tokenizer.json.")],
    out: Annotated[Path, typer.Argument(help="Folder of the new checkpoint.")],
    init: Annotated[str, typer.Option(help="Of new tokens: mean (ECHO 4.1), sum (bags), focus or random.")] = "mean",
    auxiliary: Annotated[
        Path | None, typer.Option(help="For focus: texts (one a line), or vectors (.vec, .npy).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of random draws.")] = 0,
) -> None:
    """Move a model onto another tokenizer; what both have is copied."""
    from ..checkpoints.swap_tokenizer import swap_checkpoint

    print_report(swap_checkpoint(model, tokenizer, out, method=init, auxiliary=auxiliary, seed=seed))


@commands.command(
    "report",
    **example(
        "hf-echo vocabulary report meta-llama/Meta-Llama-3-8B outputs/tokenizer --data dev.parquet --plot fertility.png"
    ),
)
def report(
    tokenizers: Annotated[
        list[str], typer.Argument(help="Folder, tokenizer.json, GGUF or Hub name; the first is the base.")
    ],
    data: Annotated[list[Path], typer.Option(help="Table with columns lang and text; may be repeated.")],
    split: Annotated[str | None, typer.Option(help="Only this split of the data.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave bad rows out with a warning.")] = False,
    json: Annotated[Path | None, typer.Option(help="Write everything here as JSON.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write tables by script and language here.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw tokens per sentence by language (.png, .svg).")] = None,
) -> None:
    """Tokens per sentence and more by language and script, tokenizers side by side."""
    from ..vocabulary.loading import load_tokenizer
    from ..vocabulary.plot import check_plot, plot_report
    from ..vocabulary.report import vocabulary_report

    if plot:
        check_plot(plot)  # now, and not after the work
    names = [Path(t).stem if Path(t).is_file() else Path(t).name for t in tokenizers]
    names = tokenizers if len(set(names)) < len(names) else names
    if len(set(names)) < len(names):
        raise ValueError(f"a tokenizer is given twice: {', '.join(names)}")
    loaded = {name: load_tokenizer(source) for name, source in zip(names, tokenizers, strict=True)}
    found = vocabulary_report(loaded, data, split=split, on_bad_row="skip" if skip_bad else "error")
    typer.echo(f"{found.to_markdown('all')}\n\n{found.to_markdown()}")
    if json:
        write(json, found.to_json())
    if markdown:
        write(markdown, "\n\n".join(found.to_markdown(by) for by in ("all", "script", "language")))
    if plot:
        with write_whole(plot) as unfinished:
            plot_report(found, unfinished)


def write(path: Path, text: str) -> None:
    with write_whole(path) as unfinished:
        unfinished.write_text(text + "\n", encoding="utf-8")
