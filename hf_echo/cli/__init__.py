"""The command line, thin: it reads arguments, calls the package, prints. Errors are one line, exit code 2."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

PLAIN = {"rich_markup_mode": None}  # help as plain text: boxes cut long option names off

app = typer.Typer(
    name="hf-echo",
    help="Cross-lingual sentence embeddings (ECHO, Omnilingual SONAR): train, measure, use.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    **PLAIN,
)
evaluate_app = typer.Typer(help="Measure a model: xsim, xsim++, translation.", no_args_is_help=True, **PLAIN)
convert_app = typer.Typer(help="Make an Echo checkpoint from another model.", no_args_is_help=True, **PLAIN)
app.add_typer(evaluate_app, name="evaluate")
app.add_typer(convert_app, name="convert")

Model = Annotated[str, typer.Option("--model", "-m", help="Echo checkpoint or release: folder or Hub name.")]
OnLong = Annotated[str, typer.Option(help="Texts beyond the model's length: warn (cut), error, or split.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the result here as JSON.")]
Dtype = Annotated[str, typer.Option(help="auto (bf16 where it is native), fp32 or bf16.")]


def example(text: str) -> dict:
    return {"epilog": f"Example: {text}"}


@app.command(**example("hf-echo demo --out outputs/demo"))
def demo(
    out: Annotated[Path, typer.Option(help="Where checkpoints, release and results.json go.")] = Path(
        "outputs/demo"
    ),
    fresh: Annotated[bool, typer.Option(help="Train again although stages are finished.")] = False,
) -> None:
    """Train stages 1 to 3 at nano size on the built-in corpus, then embed, search and translate with the result."""
    from .demo import run_demo

    run_demo(out, fresh=fresh)


@app.command(**example("hf-echo train nano/2_contrastive max_steps=100 learning_rate=1e-3"))
def train(
    recipe: Annotated[
        str, typer.Argument(help="A YAML file, a folder of them, or a name such as nano or large.")
    ],
    overrides: Annotated[list[str] | None, typer.Argument(help="key=value, any field of the recipe.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print sizes, steps and memory; train nothing.")
    ] = False,
    fresh: Annotated[bool, typer.Option(help="Train again although the stage is finished.")] = False,
) -> None:
    """Train a recipe: one stage, or every stage of a folder in order. A killed run goes on where it was."""
    from .dry_run import dry_run as describe
    from .recipe import find_recipes, parse_overrides
    from .training import train_recipe

    values = parse_overrides(overrides or [])
    for path in find_recipes(recipe):
        print_report(describe(path, values) if dry_run else train_recipe(path, values, fresh=fresh))


@app.command(**example("hf-echo encode --model org/omnisonar --lang fra_Latn in.txt out.npy"))
def encode(
    source: Annotated[Path, typer.Argument(help="Texts, one a line; - is standard input.")],
    out: Annotated[Path, typer.Argument(help="out.npy or out.parquet (text and embedding).")],
    model: Model,
    lang: Annotated[str | None, typer.Option(help="Language of the texts; unspecified by default.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Padded tokens of a batch; fits the device.")] = None,
    normalize: Annotated[bool, typer.Option(help="Divide each embedding by its length.")] = False,
    dtype: Dtype = "auto",
    on_long: OnLong = "warn",
) -> None:
    """Embed texts, fast: batches of equal token count, bf16 where the machine has it. Rows keep their order."""
    import numpy as np

    from . import inference

    if out.suffix not in (".npy", ".parquet"):
        raise ValueError(f"{out}: the file name must end in .npy or .parquet")
    texts = read_lines(source)
    encoder, tokenizer = inference.load_encoder(model, dtype=dtype)
    vectors = inference.encode(
        encoder,
        tokenizer,
        texts,
        lang,
        max_tokens=max_tokens,
        normalize=normalize,
        on_long=on_long,
        progress=True,
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix == ".npy":
        np.save(out, vectors)
    else:
        from datasets import Dataset

        Dataset.from_dict({"text": texts, "embedding": vectors}).to_parquet(out)
    typer.echo(f"{out}: {vectors.shape[0]} x {vectors.shape[1]}", err=True)


@app.command(
    **example("echo 'Bonjour' | hf-echo translate --model org/omnisonar --from fra_Latn --to eng_Latn")
)
def translate(
    model: Model,
    target: Annotated[str, typer.Option("--to", help="Language to write.")],
    source_lang: Annotated[str | None, typer.Option("--from", help="Language of the texts.")] = None,
    source: Annotated[Path, typer.Argument(help="Texts, one a line; - is standard input.")] = Path("-"),
    num_beams: Annotated[int, typer.Option(min=1, help="1 is greedy.")] = 1,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Length limit of a translation.")] = 128,
    dtype: Dtype = "auto",
    on_long: OnLong = "warn",
) -> None:
    """Translate line by line through the sentence embedding: one line in, one line out."""
    from . import inference

    texts = read_lines(source)
    translator, tokenizer = inference.load_translator(model, dtype=dtype)
    for line in inference.translate(
        translator, tokenizer, texts, source_lang, target, num_beams=num_beams, max_new_tokens=max_new_tokens,
        on_long=on_long, progress=sys.stderr.isatty(),
    ):  # fmt: skip
        typer.echo(" ".join(line.split()))


@app.command(**example("hf-echo release outputs/nano/3_hard_negatives outputs/nano/release"))
def release(
    checkpoint: Annotated[Path, typer.Argument(help="Training checkpoint.")],
    out: Annotated[Path, typer.Argument(help="Folder of the release.")],
) -> None:
    """Turn a training checkpoint into a release: encoder in the root, decoder in decoder/."""
    from . import inference

    if out.resolve() == checkpoint.resolve():
        raise ValueError(f"{out} is the checkpoint itself: a release needs a folder of its own")
    model, tokenizer = inference.load_translator(checkpoint, dtype="fp32")
    model.save_release(out)
    tokenizer.save_pretrained(out)
    typer.echo(f"{out}: AutoModel, SentenceTransformer and pipeline('sonar-translation') open it", err=True)


@convert_app.command(
    "llama", **example("hf-echo convert llama HuggingFaceTB/SmolLM2-135M outputs/smollm2-echo")
)
def convert_llama(
    source: Annotated[str, typer.Argument(help="LlamaForCausalLM: folder, Hub name or GGUF file.")],
    out: Annotated[Path, typer.Argument(help="Folder of the Echo checkpoint.")],
    embedding_size: Annotated[int, typer.Option(help="Size of the sentence embedding.")] = 1024,
    pooling: Annotated[str, typer.Option(help="cls or mean.")] = "cls",
    cross_attention: Annotated[str, typer.Option(help="copy (of self-attention) or random.")] = "copy",
) -> None:
    """An encoder-decoder from a language model: bidirectional encoder, decoder with cross-attention (OS 4.2)."""
    from .convert import convert_llama as run

    run(source, out, embedding_size=embedding_size, pooling=pooling, cross_attention=cross_attention)
    typer.echo(f"{out}: ready for stage 1 (hf-echo train ... model_name_or_path={out})", err=True)


SourceFile = Annotated[Path, typer.Option("--source", help="Texts to search for, one a line.")]
TargetFile = Annotated[
    Path, typer.Option("--target", help="Their translations, line by line: the candidates.")
]


@evaluate_app.command("xsim", **example(
    "hf-echo evaluate xsim --model M --source a.txt --source-lang fra_Latn --target b.txt --target-lang eng_Latn"
))  # fmt: skip
def evaluate_xsim(
    model: Model,
    source: SourceFile,
    target: TargetFile,
    source_lang: Annotated[str | None, typer.Option(help="Language of --source.")] = None,
    target_lang: Annotated[str | None, typer.Option(help="Language of --target.")] = "eng_Latn",
    margin: Annotated[str | None, typer.Option(help="ratio or distance; cosine by default (OS 6.1).")] = None,
    k: Annotated[int, typer.Option(min=1, help="Neighbours of the margin.")] = 4,
    hard_negatives: Annotated[
        bool, typer.Option(help="xsim++ too, with hard negatives by rule (English).")
    ] = False,
    out: Json = None,
) -> None:
    """Error rate in percent of finding each line's translation. Any SentenceTransformer will do as model."""
    from .evaluation import xsim, xsimpp
    from .inference.any_encoder import any_encoder

    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        raise ValueError(
            f"{source} has {len(sources)} lines and {target} {len(targets)}: line i must translate line i"
        )
    encoder = any_encoder(model)
    x, y = encoder(sources, source_lang), encoder(targets, target_lang)
    found = xsim(x, y, margin=margin, k=k)
    report = {"model": model, "source_lang": source_lang, "target_lang": target_lang, **found.to_row()}
    if hard_negatives:
        from .synthesis import hard_negatives_for

        flat = [(i, text, kind) for i, row in enumerate(hard_negatives_for(targets)) for text, kind in row]
        if not flat:
            raise ValueError(f"no hard negatives could be made from {target}: is it English?")
        owners, texts, kinds = zip(*flat, strict=True)
        hard = xsimpp(
            x,
            y,
            encoder(list(texts), target_lang),
            list(owners),
            negative_kind=list(kinds),
            margin=margin,
            k=k,
        )
        report["xsimpp"] = hard.to_row()
    print_report(report, out)


@evaluate_app.command("translation", **example(
    "hf-echo evaluate translation --model M --source a.txt --source-lang fra_Latn --target b.txt"
))  # fmt: skip
def evaluate_translation(
    model: Model,
    source: SourceFile,
    target: TargetFile,
    source_lang: Annotated[str | None, typer.Option(help="Language of --source.")] = None,
    target_lang: Annotated[str, typer.Option(help="Language of --target.")] = "eng_Latn",
    num_beams: Annotated[int, typer.Option(min=1, help="1 is greedy.")] = 1,
    out: Json = None,
) -> None:
    """chrF++ and spBLEU of the decoder, with sacrebleu's signatures."""
    from . import inference
    from .evaluation import translation_scores

    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        raise ValueError(
            f"{source} has {len(sources)} lines and {target} {len(targets)}: line i must translate line i"
        )
    translator, tokenizer = inference.load_translator(model)
    hypotheses = inference.translate(
        translator, tokenizer, sources, source_lang, target_lang, num_beams=num_beams
    )
    scores = translation_scores(hypotheses, targets, source_lang=source_lang or "", target_lang=target_lang)
    print_report({"model": model, **scores.to_row()}, out)


def read_lines(path: Path) -> list[str]:
    """Lines of a file or standard input, without their ends; an empty line is an empty text."""
    if str(path) == "-":
        data, name = sys.stdin.buffer.read(), "standard input"
    else:
        if not path.is_file():
            raise FileNotFoundError(
                f"no file {path}; give a text file with one sentence a line, or - for standard input"
            )
        data, name = path.read_bytes(), str(path)
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")  # an editor's byte order mark is no text
    lines = lines[:-1] if lines[-1] == b"" else lines
    texts = []
    for number, line in enumerate(lines, 1):
        try:
            texts.append(line.decode("utf-8").removesuffix("\r"))
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{name}:{number}: not UTF-8 ({error.reason}); convert the file to UTF-8"
            ) from None
    if not texts:
        raise ValueError(f"{name} is empty: one sentence a line is needed")
    return texts


def print_report(report: dict, out: Path | None = None) -> None:
    text = json.dumps(report, indent=2, ensure_ascii=False, default=float)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n", encoding="utf-8")
    typer.echo(text)


def main() -> None:
    """Entry point: errors that a user can mend are one line."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    try:
        app()
    except (ValueError, FileNotFoundError, OSError, ImportError) as error:
        message = str(error).strip().splitlines()
        typer.echo(f"hf-echo: {message[0] if message else type(error).__name__}", err=True)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
