"""Curves of a token stage over its steps: alignment error rate, xsim++ and tagging
(OS 10.1, Figure 11).

    hf-echo train nano-omni/3_token save_steps=20 save_total_limit=20 train_data=PAIRS output_dir=RUN
    python train_scripts/studies/token_curves.py RUN --alignment ALIGNMENT.parquet --nway NWAY.parquet --out OUT

RUN is the folder of the stage with its checkpoints. The curves begin with the model that RUN
started from. Writes curves.json, curves.md and curves.png into OUT.

- AER: mean over language pairs, last layer, itermax (`hf_echo.evaluation.tokens.alignment`).
- xsim++: mean over the languages of NWAY (id, lang, text) into English, hard negatives by rule.
- tagging: span F1 of a probe that learns English and is asked about the other languages, zero-shot.
  The paper takes Massive: --tagging massive_slots --tagging-path FOLDER. Without these, tags are
  made from ALIGNMENT: an English word with a capital (not the first one) is a NAME, one with a
  digit a NUMBER, and the words that it is linked to have its tag. Every second pair trains. These
  tags are silver: compare the points of one curve, not with the paper.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from study_parts import command_line

from hf_echo.data import load_nway
from hf_echo.evaluation import evaluate_xsim
from hf_echo.evaluation.benchmarks.public_sets import load_benchmark
from hf_echo.evaluation.tokens.alignment import (
    AlignedPair,
    aer_by_layer,
    evaluate_alignment,
    load_alignment,
)
from hf_echo.evaluation.tokens.tagging import OUTSIDE, evaluate_tagging
from hf_echo.inference import encode, load_encoder
from hf_echo.languages import ENGLISH
from hf_echo.negatives.rules import hard_negatives_by_id
from hf_echo.steps.record import read_record
from hf_echo.utils.hub import packaged_model
from hf_echo.utils.results import Table

CURVES = {"AER": "alignment error rate", "xsim++": "xsim++, percent", "F1": "tagging, span F1"}


def saved_checkpoints(run: Path) -> dict[int, Path]:
    """{step: folder} of the checkpoints of a run, in the order of their steps."""
    checkpoints = {}
    for folder in run.glob("checkpoint-*"):
        number = re.fullmatch(r"checkpoint-(\d+)", folder.name)
        if number and (folder / "config.json").is_file():
            checkpoints[int(number[1])] = folder
    if not checkpoints:
        raise FileNotFoundError(
            f"{run} holds no checkpoint; train with save_steps=N and save_total_limit=M"
        )
    return dict(sorted(checkpoints.items()))


def first_model(run: Path) -> str:
    """The model that a run started from, as its recipe.json says."""
    record = read_record(run)
    if record is None:
        raise FileNotFoundError(
            f"{run} holds no recipe.json; give the folder of a stage that hf-echo train made"
        )
    return packaged_model(record["values"]["model_name_or_path"])


def silver_tags(words: Sequence[str]) -> list[str]:
    """A tag for each word of an English sentence:
    NAME (a capital, not first, not "I"), NUMBER (a digit) or O."""
    tags = []
    for place, word in enumerate(words):
        if any(character.isdigit() for character in word):
            tags.append("NUMBER")
        elif place and word[:1].isupper() and word != "I":
            tags.append("NAME")
        else:
            tags.append(OUTSIDE)
    return tags


def words_of(text: str, spans: np.ndarray) -> list[str]:
    return [text[start:end] for start, end in spans.tolist()]


def projected(pairs: Sequence[AlignedPair]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(training rows, test rows) for `evaluate_tagging`: English of even pairs, the other language
    of odd pairs.

    Pairs without English are left out. A word of the other language takes the tag of the first
    English word with a tag that it is linked to.
    """
    train = []
    test = []
    for number, pair in enumerate(pairs):
        source = words_of(pair.source, pair.source_words)
        target = words_of(pair.target, pair.target_words)
        links = pair.sure
        other_lang = pair.target_lang
        if pair.target_lang == ENGLISH:
            source, target = target, source
            links = {(j, i) for i, j in links}
            other_lang = pair.source_lang
        elif pair.source_lang != ENGLISH:
            continue
        tags = silver_tags(source)
        if number % 2 == 0:
            train.append({"tokens": source, "tags": tags, "lang": ENGLISH})
            continue
        # The first linked English word with a tag decides: later links do not replace it.
        other_tags = [OUTSIDE] * len(target)
        for i, j in sorted(links, reverse=True):
            if tags[i] != OUTSIDE:
                other_tags[j] = tags[i]
        test.append({"tokens": target, "tags": other_tags, "lang": other_lang})
    return train, test


def measured(
    checkpoint: Path | str,
    pairs: Sequence[AlignedPair],
    nway: Iterable[Mapping[str, Any]],
    tagging: tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]],
) -> dict[str, float]:
    """The three measures of one checkpoint: {"AER", "xsim++", "F1"}.

    Args:
        nway: rows (id, lang, text). tagging: (training rows, test rows).
    """
    model, tokenizer = load_encoder(checkpoint)
    alignment = evaluate_alignment(model, tokenizer, pairs, layers=[-1], on_long="skip")
    encoder = partial(encode, model, tokenizer)
    errors = evaluate_xsim(encoder, nway, negatives=hard_negatives_by_id(nway)).average
    tags = evaluate_tagging(model, tokenizer, *tagging).average
    return {
        "AER": aer_by_layer(alignment).rows[0]["mean"],
        "xsim++": errors["xsimpp"],
        "F1": tags["f1"],
    }


def draw(table: Table, path: Path) -> None:
    """A panel for each curve over the steps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 * len(CURVES), 3), layout="constrained")
    steps = [row["step"] for row in table.rows]
    for axes, (name, label) in zip(figure.subplots(1, len(CURVES)), CURVES.items(), strict=True):
        axes.plot(steps, [row[name] for row in table.rows], marker="o")
        axes.set_xlabel("step")
        axes.set_title(label)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("run", type=Path, help="folder of a token stage with its checkpoints")
    parser.add_argument(
        "--start", help="model that the run started from; by default the one that its record names"
    )
    parser.add_argument(
        "--alignment", type=Path, required=True, help="word alignments (hf-echo evaluate alignment)"
    )
    parser.add_argument("--nway", type=Path, required=True, help="dev table (id, lang, text)")
    parser.add_argument("--limit", type=int, help="most sentence pairs of a language pair")
    parser.add_argument(
        "--tagging",
        help="public set, such as massive_slots; by default tags made from the alignments",
    )
    parser.add_argument("--tagging-path", type=Path, help="a local copy of that set")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    pairs = load_alignment(args.alignment, limit=args.limit)
    nway = load_nway(args.nway, split=None)
    if args.tagging:
        train = load_benchmark(args.tagging, langs=[ENGLISH], split="train", path=args.tagging_path)
        tagging = (train, load_benchmark(args.tagging, path=args.tagging_path))
    else:
        tagging = projected(pairs)
    rows = [{"step": 0, **measured(args.start or first_model(args.run), pairs, nway, tagging)}]
    for step, folder in saved_checkpoints(args.run).items():
        rows.append({"step": step, **measured(folder, pairs, nway, tagging)})
        print(rows[-1], flush=True)
    table = Table(rows, notes={"run": str(args.run), "tagging": args.tagging or "silver"})
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "curves.json").write_text(table.to_json() + "\n", encoding="utf-8")
    (args.out / "curves.md").write_text(table.to_markdown() + "\n", encoding="utf-8")
    draw(table, args.out / "curves.png")
    print(table.to_markdown())


if __name__ == "__main__":
    main()
