"""Add three languages to a space that never saw them, with and without parts of the loss; print and
write the table.

    python train_scripts/studies/extension_proof.py [outputs/nano-omni]

The teacher is the nano recipe (stages 1 to 3) on seven languages of the built-in corpus. The
extension then runs as it is and once for each of these ablations of OS 7.4: without MSE (Table
14b), without student -> teacher for new languages (Figure 3b), with the MSE weight (3a) or the
scale (3c) of base languages for new ones. The teacher's tokenizer knows all languages here, so that
there is no vocabulary to adapt (Table 14a): ablations.py does that on real text, and Table 14c.
xsim is over held-out meanings into English; chrF++ is that of the teacher's decoder, which no run
changes. A finished run is not trained again. The program ends with an error if the new languages do
not improve, if the old ones get worse, or if leaving out MSE does no harm.

Figure 3b (without student -> teacher, new languages stay bad) is printed but not required: for
sentences of one small grammar MSE alone is enough. tests/stages/test_extension.py asserts it in a
space of short embeddings, where MSE weighs little, because it grows with the square of their
length.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from study_parts import command_line

from hf_echo.data.builtin import LANGUAGES, builtin_nway, dev_set
from hf_echo.evaluation import translation_scores
from hf_echo.inference import load_translator, translate
from hf_echo.languages import ENGLISH
from hf_echo.stages import DevSet, evaluate_sets
from hf_echo.steps.recipe import find_recipes
from hf_echo.steps.run import run_operation
from hf_echo.steps.training import train_recipe
from hf_echo.utils.files import write_json
from hf_echo.utils.recipe_yaml import read_yaml
from hf_echo.utils.results import Table
from hf_echo.vocabulary import train_tokenizer

EXTENSION = find_recipes("nano-omni/1_extension")[0]
TEACHER_ERRORS = find_recipes("nano-omni/0_teacher_errors")[0]
BASE = read_yaml(EXTENSION)["base_languages"]
NEW = [lang for lang in LANGUAGES if lang not in BASE]
VARIANTS = {
    "extension": {},
    "without MSE": {"mse_weight": 0.0, "new_mse_weight": 0.0},
    "without student->teacher": {"new_student_teacher_weight": 0.0},
    "MSE as base languages": {"new_mse_weight": 0.5},
    "scale as base languages": {"new_logit_scale": 10.0},
}
HELD_OUT = 300
SENTENCES = 50


def train_teacher(out: Path) -> Path:
    """Stages 1 to 3 on the base languages, with a tokenizer of all of them
    (a vocabulary is another proof)."""
    previous = None
    for path in find_recipes("nano")[:3]:
        data_options = read_yaml(path).get("data_options", {})
        changes = {
            "output_dir": str(out / path.stem),
            "cache_dir": str(out / "cache"),
            "data_options": data_options | {"languages": BASE},
        }
        if previous is None:
            changes["tokenizer_name_or_path"] = str(tokenizer_of_all(out))
        else:
            changes["model_name_or_path"] = str(previous)
        train_recipe(path, changes)
        previous = out / path.stem
    return previous


def tokenizer_of_all(out: Path) -> Path:
    folder = out / "tokenizer"
    if not folder.exists():
        texts = (row["text"] for row in builtin_nway())
        train_tokenizer(texts, 4000, max_length=64, progress=False).save_pretrained(folder)
    return folder


def against_the_paper(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What is not as OS 7.4 says; empty where all is."""
    by_name = {row["run"]: row for row in rows}
    before = by_name["teacher"]
    whole = by_name["extension"]
    no_mse = by_name["without MSE"]
    claims = {
        "new languages fall below 10 % of their start": whole["new xsim"]
        < 0.1 * before["new xsim"],
        "base xsim stays within a point": whole["base xsim"] <= before["base xsim"] + 1,
        "base chrF++ by the old decoder stays within three": whole["base chrF++"]
        >= before["base chrF++"] - 3,
        "without MSE the old decoder reads worse": no_mse["base chrF++"] < whole["base chrF++"] - 1,
        "without MSE new languages come less far": no_mse["new xsim"] > 2 * whole["new xsim"],
    }
    return [claim for claim, holds in claims.items() if not holds]


def measure(checkpoint: Path) -> dict[str, float]:
    """xsim of the held-out meanings and chrF++ of the model's decoder,
    means over base and over new languages."""
    model, tokenizer = load_translator(checkpoint, dtype="fp32")
    tables: dict[str, Table] = {}
    evaluate_sets(
        model, tokenizer, {"test": DevSet(*dev_set(HELD_OUT, split="test"))}, tables=tables
    )
    xsim = {row["lang"]: row["xsim"] for row in tables["test"].rows}
    row = {}
    for name, languages in (("base", BASE), ("new", NEW)):
        languages = [lang for lang in languages if lang != ENGLISH]
        row[f"{name} xsim"] = round(mean(xsim[lang] for lang in languages), 2)
        row[f"{name} chrF++"] = round(mean(chrf(model, tokenizer, lang) for lang in languages), 2)
    return row


def chrf(model: Any, tokenizer: Any, lang: str) -> float:
    texts = builtin_nway(SENTENCES, split="test", languages=[lang])["text"]
    references = builtin_nway(SENTENCES, split="test", languages=[ENGLISH])["text"]
    hypotheses = translate(model, tokenizer, list(texts), lang, ENGLISH, max_new_tokens=40)
    return translation_scores(hypotheses, list(references), spbleu=False).chrf


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("out", type=Path, nargs="?", default=Path("outputs/nano-omni"))
    parser.add_argument("--steps", type=int, help="of each extension, instead of the recipe's")
    args = parser.parse_args()
    teacher = train_teacher(args.out / "base")
    errors = args.out / "0_teacher_errors"
    run_operation(TEACHER_ERRORS, {"model": str(teacher), "output_dir": str(errors)})
    rows = [{"run": "teacher", **measure(teacher), "seconds": None}]
    for name, changes in VARIANTS.items():
        folder = args.out / name.replace(" ", "_").replace("->", "_")
        changes = changes | {
            "model_name_or_path": str(teacher),
            "teacher": str(teacher),
            "teacher_xsimpp": str(errors / "xsimpp.json"),
            "output_dir": str(folder),
            "cache_dir": str(args.out / "cache"),
        }
        if args.steps:
            changes["max_steps"] = args.steps
        result = train_recipe(EXTENSION, changes)
        rows.append({"run": name, **measure(folder), "seconds": result["seconds"]})
    write_json(args.out / "results.json", rows)
    print(f"{len(BASE) - 1} base and {len(NEW)} new languages, {HELD_OUT} held-out meanings\n")
    print(Table(rows).to_markdown())
    failed_claims = against_the_paper(rows)
    if failed_claims:
        raise SystemExit("not as in the paper: " + "; ".join(failed_claims))


if __name__ == "__main__":
    main()
