"""Find a whole document among its near misses: xsim and xsim++ by kind of negative (OS 10.2), a row a model.

    python train_scripts/studies/long_context_report.py MODEL [MODEL ...] --data outputs/nano-real-variants/paragraphs

--data holds dev_NAME.parquet of id, lang, sentences (long_context_data.py). Every model reads up to
--max-length tokens, whatever it was trained on (rotary positions need no weights). A kind's figure is the percent of
documents whose nearest neighbour was a negative of that kind; figures are means over languages. --out: tables as JSON.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

import pandas as pd

from hf_echo.evaluation.retrieval.multilingual import evaluate_documents
from hf_echo.inference import encode, load_encoder
from hf_echo.negatives.documents import KINDS, document_negatives
from hf_echo.utils.results import cell_text, markdown_table

ENG = "eng_Latn"


def documents_and_negatives(path: Path) -> tuple[dict, dict]:
    """Language -> id -> sentences, and id -> [(sentences, kind)] of the English."""
    documents: dict[str, dict[str, list[str]]] = {}
    for row in pd.read_parquet(path).itertuples():
        documents.setdefault(row.lang, {})[row.id] = list(row.sentences)
    english = documents[ENG]
    negatives = {
        key: document_negatives(text, [s for other, t in english.items() if other != key for s in t])
        for key, text in english.items()
    }
    return documents, negatives


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--max-length", type=int, default=576)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    files = sorted(args.data.glob("dev_*.parquet"))
    if not files:
        parser.error(f"{args.data} holds no dev_NAME.parquet; train_scripts/corpora/long_context_data.py makes them")
    rows, tables = [], []
    for name in args.models:
        model, tokenizer = load_encoder(name, dtype="fp32")
        for file in files:
            table = evaluate_documents(
                partial(encode, model, tokenizer, max_length=args.max_length),
                *documents_and_negatives(file),
            )
            tables.append({"model": name, "set": file.stem, **json.loads(table.to_json())})
            shares = [
                sum(100 * row.get(f"xsimpp_errors/{kind}", 0) / row["count"] for row in table.rows) / len(table.rows)
                for kind in KINDS
            ]
            rows.append([name, file.stem, table.average["xsim"], table.average["xsimpp"], *shares])
    if args.out:
        args.out.write_text(json.dumps(tables, indent=2) + "\n", encoding="utf-8")
    header = ["model", "set", "xsim", "xsim++", *(kind.replace("_", " ") for kind in KINDS)]
    print(markdown_table(header, [[cell_text(value) for value in row] for row in rows]))


if __name__ == "__main__":
    main()
