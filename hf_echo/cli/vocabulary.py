"""hf-echo vocabulary: count words, extend or train a tokenizer, swap a model's tokenizer, compare tokenizers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..utils.files import read_yaml, write_whole
from .common import PLAIN, example, print_report

commands = typer.Typer(help="Tokenizers: count words, extend, train, swap, compare.", no_args_is_help=True, **PLAIN)


def use_recipe(context: typer.Context, recipe: str | None) -> str | None:
    """Use the fields of a recipe as defaults of the command's options."""
    if recipe:
        context.default_map = read_recipe(recipe, context.info_name, [p.name for p in context.command.params])
    return recipe


def read_recipe(recipe: str, command: str, options: list[str]) -> dict[str, Any]:
    """Read the options of a YAML file, or of a recipe included in the package.

    Raises:
        FileNotFoundError: the recipe does not exist. ValueError: it is for another command or has an unknown field.
    """
    folder = Path(__file__).parents[1] / "recipes" / "vocabulary"
    path = next((p for p in (Path(recipe), folder / f"{recipe}.yaml") if p.is_file()), None)
    if path is None:
        known = ", ".join(sorted(p.stem for p in folder.glob("*.yaml")))
        raise FileNotFoundError(f"no recipe {recipe!r}; give a YAML file or one of {known}")
    values = read_yaml(path)
    if not isinstance(values, dict):
        raise ValueError(f"{path} must be a mapping of `field: value` lines, not a {type(values).__name__}")
    if values.pop("command", None) != command:
        raise ValueError(f"{path} is not a recipe of this command; it must have the line `command: {command}`")
    if unknown := sorted(set(values) - set(options)):
        raise ValueError(f"{path}: unknown field {unknown[0]!r}; choose from {', '.join(sorted(options))}")
    if isinstance(weights := values.get("language_weight"), dict):
        values["language_weight"] = [f"{lang}={weight}" for lang, weight in weights.items()]
    return values


Counts = Annotated[Path, typer.Option(help="Word counts: a file written by `hf-echo vocabulary count`.")]
Pattern = Annotated[
    str | None, typer.Option(help="Pre-tokenization pattern: echo or llama3. Default: that of the counts.")
]
Top = Annotated[int, typer.Option(min=1, help="Number of largest languages that get equal shares (UniMax).")]
Upsampling = Annotated[float, typer.Option(min=1, help="Largest repetition factor of the smaller languages.")]
Weights = Annotated[
    list[str] | None,
    typer.Option(help="LANGUAGE=FACTOR that multiplies a language's share, such as ell_Grek=2; repeatable."),
]
MinCount = Annotated[int, typer.Option(min=1, help="Smallest count of a word in a language; rarer words are left out.")]
Recipe = Annotated[
    str | None,
    typer.Option(
        callback=use_recipe,
        is_eager=True,
        help="Recipe with defaults of these options: YAML file, languages_200 or omnilingual.",
    ),
]


def balanced_counts(
    counts: Path,
    pattern: str | None,
    top_languages: int,
    max_upsampling: float,
    language_weight: list[str] | None,
    min_count: int,
) -> tuple[str, dict[str, int]]:
    """(pattern, {word: frequency}) of the counts after language balancing (UniMax)."""
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
        typer.Argument(help="Files or folders: Parquet, TSV, JSONL, or .txt with a language code in the name."),
    ],
    out: Annotated[Path, typer.Option(help="Output file of the counts (Parquet).")],
    pattern: Annotated[str, typer.Option(help="Pre-tokenization pattern: echo (ECHO D) or llama3.")] = "echo",
    kind: Annotated[
        str | None, typer.Option(help="Kind of data: parallel or monolingual. Default: decided by the columns.")
    ] = None,
    lang: Annotated[str | None, typer.Option(help="Language of text without a language column or code.")] = None,
    split: Annotated[
        str, typer.Option(help="Split to count, in files that have splits; all counts every split.")
    ] = "train",
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip bad rows with a warning. Default: stop with an error.")
    ] = False,
) -> None:
    """Count words by language, separately for parallel and monolingual text. A stopped count resumes."""
    from ..vocabulary.counts import count_words

    counts = count_words(
        files,
        out,
        pattern=pattern,
        kind=kind,
        lang=lang,
        split=None if split == "all" else split,
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
    tokenizer: Annotated[
        str, typer.Argument(help="Byte-level BPE tokenizer: folder, tokenizer.json, GGUF, Hub name or echo-nano.")
    ],
    out: Annotated[Path, typer.Argument(help="Output folder of the extended tokenizer.")],
    counts: Counts,
    merges: Annotated[int | None, typer.Option(min=1, help="Number of merges to add; or give --vocab-size.")] = None,
    vocab_size: Annotated[
        int | None, typer.Option(help="Vocabulary size to reach, in tokens; or give --merges.")
    ] = None,
    pattern: Pattern = None,
    top_languages: Top = 126,
    max_upsampling: Upsampling = 100,
    language_weight: Weights = None,
    min_count: MinCount = 1,
    recipe: Recipe = None,
) -> None:
    """Extend a BPE tokenizer with new merges (ECHO D); every old token keeps its id."""
    from ..vocabulary.extend import extend_tokenizer
    from ..vocabulary.loading import load_tokenizer

    _refuse_model(out)
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
    out: Annotated[Path, typer.Argument(help="Output folder of the tokenizer.")],
    counts: Counts,
    vocab_size: Annotated[int, typer.Option(help="Vocabulary size in tokens, special and reserved tokens included.")],
    reserved: Annotated[int, typer.Option(min=0, help="Number of reserved tokens.")] = 16,
    max_length: Annotated[int, typer.Option(min=8, help="Longest text, in tokens (model_max_length).")] = 512,
    pattern: Pattern = None,
    top_languages: Top = 126,
    max_upsampling: Upsampling = 100,
    language_weight: Weights = None,
    min_count: MinCount = 1,
    recipe: Recipe = None,
) -> None:
    """Train a byte-level BPE tokenizer from scratch (as the omnilingual tokenizer of OS 4.1)."""
    from ..vocabulary.train import train_from_counts

    _refuse_model(out)
    pattern, words = balanced_counts(counts, pattern, top_languages, max_upsampling, language_weight, min_count)
    new = train_from_counts(words, vocab_size, n_reserved=reserved, pattern=pattern, max_length=max_length)
    new.save_pretrained(out)
    print_report({"out": str(out), "tokens": len(new), "distinct_words": len(words)})


@commands.command(
    "swap", **example("hf-echo vocabulary swap outputs/echo outputs/tokenizer outputs/echo-256k", folder=True)
)
def swap(
    model: Annotated[str, typer.Argument(help="Echo checkpoint or release: folder, org/name@v1.2.0 or echo-nano.")],
    tokenizer: Annotated[
        str, typer.Argument(help="New tokenizer: folder, tokenizer.json, org/name@v1.2.0 or echo-nano.")
    ],
    out: Annotated[Path, typer.Argument(help="Output folder of the new checkpoint.")],
    init: Annotated[
        str,
        typer.Option(help="Initial embeddings of new tokens: mean (ECHO 4.1), focus or random."),
    ] = "mean",
    auxiliary: Annotated[
        Path | None, typer.Option(help="For --init focus: texts (one per line), or vectors (.vec, .npy).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
) -> None:
    """Replace the tokenizer of a model; tokens in both vocabularies keep their embeddings."""
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
        list[str],
        typer.Argument(
            help="Tokenizers: folder, tokenizer.json, GGUF, Hub name or echo-nano. The first is the baseline."
        ),
    ],
    data: Annotated[list[Path], typer.Option(help="Table with the columns lang and text; repeatable.")],
    split: Annotated[str | None, typer.Option(help="Use only this split of the data. Default: all.")] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip bad rows with a warning. Default: stop with an error.")
    ] = False,
    json: Annotated[Path | None, typer.Option(help="Write the full report to this JSON file.")] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Write tables by script and language to this Markdown file.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write a plot of tokens per sentence by language to this file (.png, .svg).")
    ] = None,
) -> None:
    """Compare tokenizers: tokens per sentence and related measures, by language and script."""
    from ..vocabulary.loading import load_tokenizer
    from ..vocabulary.plot import check_plot, plot_report
    from ..vocabulary.report import vocabulary_report

    if plot:
        check_plot(plot)  # fail before the work starts
    names = [Path(t).stem if Path(t).is_file() else Path(t).name for t in tokenizers]
    names = tokenizers if len(set(names)) < len(names) else names
    if len(set(names)) < len(names):
        raise ValueError(f"two tokenizers have one name ({', '.join(names)}): give each tokenizer once")
    loaded = {name: load_tokenizer(source) for name, source in zip(names, tokenizers, strict=True)}
    comparison = vocabulary_report(loaded, data, split=split, on_bad_row="skip" if skip_bad else "error")
    typer.echo(f"{comparison.to_markdown('all')}\n\n{comparison.to_markdown()}")
    if json:
        write(json, comparison.to_json())
    if markdown:
        write(markdown, "\n\n".join(comparison.to_markdown(by) for by in ("all", "script", "language")))
    if plot:
        with write_whole(plot) as unfinished:
            plot_report(comparison, unfinished)


def write(path: Path, text: str) -> None:
    with write_whole(path) as unfinished:
        unfinished.write_text(text + "\n", encoding="utf-8")


def _refuse_model(out: Path) -> None:
    """Raises ValueError for the folder of a model, whose embeddings belong to its own tokenizer."""
    if (out / "config.json").exists() or (out / "modules.json").exists():
        raise ValueError(f"{out} holds a model: name another folder, and give the model the tokenizer with swap")
