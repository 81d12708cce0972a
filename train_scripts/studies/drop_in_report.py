"""Does a small encoder stand in for its teacher? A row a model: size, search, a classifier, the decoder (OS 4.8).

    python train_scripts/studies/drop_in_report.py TEACHER STUDENT ... --dev outputs/nano-real/data --topics SIB
    python train_scripts/studies/drop_in_report.py outputs/nano-omni/extension outputs/nano-omni/2_small --builtin

--dev: folder of dev_NAME.parquet (xsim, and xsim++ with hard negatives by rule). --topics: Parquet of lang, text,
category, split (train, dev); ONE linear probe is trained on the teacher's embeddings of all languages that the teacher
knows, and reads every model's; "own probe" is trained on the model's own. --builtin: held-out meanings of the built-in
corpus, and chrF++ of the TEACHER's decoder on every encoder. --out writes the rows as JSON.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hf_echo.data.builtin import dev_set
from hf_echo.evaluation import evaluate_translation
from hf_echo.evaluation.probes.downstream import fit_linear_probe, vectors_of
from hf_echo.inference import encode, load_translator, translate
from hf_echo.modeling import EchoForTranslation
from hf_echo.stages import DevSet, evaluate_sets
from hf_echo.steps.arguments import DataArguments
from hf_echo.steps.data import load_dev_sets
from hf_echo.utils.results import cell_text, markdown_table

Model = tuple[EchoForTranslation, Any]  # and its tokenizer


def dev_sets(folder: Path | None, builtin: int) -> dict[str, DevSet]:
    found = {path.stem[4:]: str(path) for path in sorted(folder.glob("dev_*.parquet"))} if folder else {}
    if folder and not found:
        raise FileNotFoundError(f"{folder} holds no dev_NAME.parquet")
    sets = load_dev_sets(DataArguments(dev_data=found))
    return sets | ({"builtin": DevSet(*dev_set(builtin, split="test"))} if builtin else {})


def topic_accuracies(teacher: Model, models: Mapping[str, Model], rows: pd.DataFrame) -> dict[str, dict[str, float]]:
    """{model: {"teacher's probe", "own probe"}}, percent right on `dev`, the mean over languages."""
    rows = rows[rows.lang.isin(teacher[0].config.languages or rows.lang.unique())]
    learn, ask = rows[rows.split == "train"], rows[rows.split == "dev"]

    def vectors(model: Model, part: pd.DataFrame) -> np.ndarray:
        found = np.zeros((len(part), model[0].config.embedding_size), np.float32)
        for lang in part.lang.unique():
            here = np.flatnonzero(part.lang == lang)
            found[here] = vectors_of(lambda texts, lang: encode(*model, texts, lang), list(part.text.iloc[here]), lang)
        return found

    labels = learn.category.to_numpy()
    probe = fit_linear_probe(vectors(teacher, learn), labels)
    out = {}
    for name, model in models.items():
        asked = vectors(model, ask)
        own = probe if model is teacher else fit_linear_probe(vectors(model, learn), labels)
        guesses = {"teacher's probe": probe.predict(asked), "own probe": own.predict(asked)}
        right = {kind: guess == ask.category for kind, guess in guesses.items()}
        out[name] = {kind: 100 * hits.groupby(ask.lang).mean().mean() for kind, hits in right.items()}
    return out


def with_decoder_of(teacher: Model, model: Model) -> EchoForTranslation:
    """The model's encoder under the teacher's decoder, which was never trained on it."""
    if model[1].get_vocab() != teacher[1].get_vocab():
        raise ValueError("student and teacher have other vocabularies: the decoder's texts would be misread")
    return EchoForTranslation.from_parts(model[0].encoder, teacher[0].decoder).eval()


def chrf(teacher: Model, model: Model, rows) -> float:
    joined = with_decoder_of(teacher, model)

    def written(texts: Sequence[str], source: str, target: str) -> list[str]:
        return translate(joined, model[1], texts, source, target, max_new_tokens=40)

    return evaluate_translation(written, rows, spbleu=False).average["chrf"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="the teacher, then its students")
    parser.add_argument("--dev", type=Path)
    parser.add_argument("--topics", type=Path)
    parser.add_argument("--builtin", type=int, nargs="?", const=300, default=0, help="held-out meanings (300)")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    sets = dev_sets(args.dev, args.builtin)
    models = {name: load_translator(name, dtype="fp32") for name in args.models}
    teacher = models[args.models[0]]
    topics = topic_accuracies(teacher, models, pd.read_parquet(args.topics)) if args.topics else {}
    rows = []
    for name, model in models.items():
        row: dict[str, Any] = {"model": name, "parameters": model[0].encoder.num_parameters()}
        metrics = evaluate_sets(*model, sets)
        row |= {key.removeprefix("eval_").replace("_", " "): value for key, value in metrics.items()}
        row |= topics.get(name, {})
        if args.builtin:
            row["chrF++ by the teacher's decoder"] = chrf(teacher, model, dev_set(50, split="test", max_negatives=0)[0])
        rows.append(row)
    if args.out:
        args.out.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    cells = [[cell_text(value) for value in row.values()] for row in rows]
    print(markdown_table(list(rows[0]), cells))


if __name__ == "__main__":
    main()
