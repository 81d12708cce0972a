"""Boundary F1 of a segmenter by language, on FLORES and NTREX sentences put together. Needs hf-echo[segment].

    python train_scripts/studies/segmentation_report.py CORPORA --out outputs/segmentation.json
    python train_scripts/studies/segmentation_report.py CORPORA --model sat-12l-sm

Documents are 3 to 8 sentences in the order of the table, the same in every language. Some "sentences" of FLORES and
NTREX are two, which costs every segmenter the same few points of precision.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import pyarrow.parquet as pq

from hf_echo.data.segmentation import join_sentences, rule_segmenter, sat_segmenter
from hf_echo.evaluation.results import Table
from hf_echo.evaluation.segmentation import boundary_scores, count_consistency
from hf_echo.languages import is_language

TABLES = {"flores": ("flores_sib.parquet", "index_id"), "ntrex": ("ntrex.parquet", "id")}


def documents(path: Path, key: str, sentences: int) -> dict[str, list[list[str]]]:
    """Language -> documents; the same ids, cut at the same places, in each."""
    table = pq.read_table(path, columns=[key, "lang", "text"]).to_pylist()
    by_lang: dict[str, dict] = {}
    for row in table:
        if is_language(row["lang"]):
            by_lang.setdefault(row["lang"], {})[row[key]] = row["text"]
    ids = sorted(set.intersection(*(set(texts) for texts in by_lang.values())))[:sentences]
    cuts, rng = [0], random.Random(0)
    while cuts[-1] < len(ids):
        cuts.append(cuts[-1] + rng.randint(3, 8))
    parts = [ids[start:stop] for start, stop in zip(cuts, cuts[1:], strict=False)]
    return {lang: [[texts[i] for i in part] for part in parts] for lang, texts in sorted(by_lang.items())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--model", help="SaT model; the rules by default")
    parser.add_argument("--sentences", type=int, default=100, help="of each language")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    segment = sat_segmenter(args.model) if args.model else rule_segmenter

    report = {}
    for name, (file, key) in TABLES.items():
        found = documents(args.corpora / file, key, args.sentences)
        table = Table.of(
            [boundary_scores(parts, segment, lang) for lang, parts in found.items()],
            ["precision", "recall", "f1"],
        )
        paragraphs = {lang: [join_sentences(part, lang)[0] for part in parts] for lang, parts in found.items()}
        spread = count_consistency(paragraphs, segment)
        worst = sorted(table.rows, key=lambda row: row["f1"])[:15]
        print(f"{name}: {len(found)} languages, standard deviation of counts {spread.std:.2f}")
        print(Table(worst, table.average).to_markdown(["lang", "precision", "recall", "f1"], 1), end="\n\n")
        report[name] = {"rows": table.rows, "average": table.average, "count_std": spread.std}
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
