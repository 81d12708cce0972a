"""Does a small encoder stand in for its teacher? A row a model: size, search, a classifier, the
decoder (OS 4.8).

    python train_scripts/studies/drop_in_report.py TEACHER STUDENT ... --dev outputs/nano-real/data --topics SIB
    python train_scripts/studies/drop_in_report.py outputs/nano-omni/extension outputs/nano-omni/2_small --builtin

--dev: folder of dev_NAME.parquet (xsim, and xsim++ with hard negatives by rule). --topics: Parquet
of lang, text, category, split (train, dev); ONE linear probe is trained on the teacher's embeddings
of all languages that the teacher knows, and reads every model's; "own probe" is trained on the
model's own. --builtin: held-out meanings of the built-in corpus, and chrF++ of the TEACHER's
decoder on every encoder. --out writes the rows as JSON.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from study_parts import command_line

from hf_echo.data.builtin import dev_set
from hf_echo.evaluation import evaluate_translation
from hf_echo.evaluation.probes.downstream import fit_linear_probe, vectors_of
from hf_echo.inference import encode, load_translator, translate
from hf_echo.modeling import EchoForTranslation
from hf_echo.stages import DevSet, evaluate_sets
from hf_echo.stages.core.arguments import DataArguments
from hf_echo.stages.core.text_pairs import load_dev_sets
from hf_echo.utils.files import write_json
from hf_echo.utils.results import Table

Model = tuple[EchoForTranslation, Any]  # and its tokenizer


def dev_sets(folder: Path | None, builtin: int) -> dict[str, DevSet]:
    """The dev sets of a folder (dev_NAME.parquet), and `builtin` sentences of the built-in test
    split."""
    files = sorted(folder.glob("dev_*.parquet")) if folder else []
    if folder and not files:
        raise FileNotFoundError(f"{folder} holds no dev_NAME.parquet")
    names = {file.stem.removeprefix("dev_"): str(file) for file in files}
    sets = load_dev_sets(DataArguments(dev_data=names))
    if builtin:
        sets["builtin"] = DevSet(*dev_set(builtin, split="test"))
    return sets


def vectors_of_rows(model: Model, rows: pd.DataFrame) -> np.ndarray:
    """Unit vectors (rows, dimensions) of the texts, each read in its language."""
    vectors = np.zeros((len(rows), model[0].config.embedding_size), np.float32)
    for lang in rows.lang.unique():
        places = np.flatnonzero(rows.lang == lang)
        texts = list(rows.text.iloc[places])
        vectors[places] = vectors_of(lambda texts, lang: encode(*model, texts, lang), texts, lang)
    return vectors


def topic_accuracies(
    teacher: Model, models: Mapping[str, Model], rows: pd.DataFrame
) -> dict[str, dict[str, float]]:
    """{model: {"teacher's probe", "own probe"}}, percent right on `dev`,
    the mean over languages."""
    rows = rows[rows.lang.isin(teacher[0].config.languages or rows.lang.unique())]
    learn = rows[rows.split == "train"]
    ask = rows[rows.split == "dev"]
    labels = learn.category.to_numpy()
    # One probe, taught on the teacher, reads every model; another is taught on each model.
    teachers_probe = fit_linear_probe(vectors_of_rows(teacher, learn), labels)
    accuracies: dict[str, dict[str, float]] = {}
    for name, model in models.items():
        own_probe = teachers_probe
        if model is not teacher:
            own_probe = fit_linear_probe(vectors_of_rows(model, learn), labels)
        vectors = vectors_of_rows(model, ask)
        accuracies[name] = {}
        for kind, probe in (("teacher's probe", teachers_probe), ("own probe", own_probe)):
            right = probe.predict(vectors) == ask.category
            accuracies[name][kind] = 100 * right.groupby(ask.lang).mean().mean()
    return accuracies


def with_decoder_of(teacher: Model, model: Model) -> EchoForTranslation:
    """The model's encoder under the teacher's decoder, which was never trained on it."""
    if model[1].get_vocab() != teacher[1].get_vocab():
        raise ValueError(
            "student and teacher have other vocabularies: the decoder's texts would be misread"
        )
    return EchoForTranslation.from_parts(model[0].encoder, teacher[0].decoder).eval()


def chrf(teacher: Model, model: Model, rows: Sequence[Mapping[str, Any]]) -> float:
    """chrF of translations by the teacher's decoder from the embeddings of `model`."""
    joined = with_decoder_of(teacher, model)

    def written(texts: Sequence[str], source: str, target: str) -> list[str]:
        return translate(joined, model[1], texts, source, target, max_new_tokens=40)

    return evaluate_translation(written, rows, spbleu=False).average["chrf"]


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("models", nargs="+", help="the teacher, then its students")
    parser.add_argument("--dev", type=Path)
    parser.add_argument("--topics", type=Path)
    parser.add_argument(
        "--builtin", type=int, nargs="?", const=300, default=0, help="held-out meanings (300)"
    )
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    sets = dev_sets(args.dev, args.builtin)
    models = {name: load_translator(name, dtype="fp32") for name in args.models}
    teacher = models[args.models[0]]
    topics = topic_accuracies(teacher, models, pd.read_parquet(args.topics)) if args.topics else {}
    rows = []
    for name, model in models.items():
        row: dict[str, Any] = {"model": name, "parameters": model[0].encoder.num_parameters()}
        for measured, value in evaluate_sets(*model, sets).items():
            row[measured.removeprefix("eval_").replace("_", " ")] = value
        row |= topics.get(name, {})
        if args.builtin:
            texts, _ = dev_set(50, split="test", max_negatives=0)
            row["chrF++ by the teacher's decoder"] = chrf(teacher, model, texts)
        rows.append(row)
    if args.out:
        write_json(args.out, rows)
    print(Table(rows).to_markdown())


if __name__ == "__main__":
    main()
