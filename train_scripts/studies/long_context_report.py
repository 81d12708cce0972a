"""Find a whole document among its near misses: xsim and xsim++ by kind of negative (OS 10.2), a row a model.

    python train_scripts/studies/long_context_report.py MODEL [MODEL ...] --data outputs/nano-real-variants/paragraphs

--data holds dev_NAME.parquet of id, lang, sentences (long_context_data.py). Every model reads up to
--max-length tokens, whatever it was trained on (rotary positions need no weights). A kind's figure is the percent of
documents whose nearest neighbour was a negative of that kind; figures are means over languages. --out: tables as JSON.
"""

import argparse
import json
import random
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from hf_echo.evaluation import evaluate_xsim
from hf_echo.inference import encode, load_encoder
from hf_echo.inference.encoders import Encode
from hf_echo.utils.results import Table, cell_text, markdown_table

ENG = "eng_Latn"
KINDS = ("drop_last", "replace_last", "drop_random", "replace_random", "shuffle")  # of changed documents (OS 10.2)


def document_negatives(
    sentences: Sequence[str], others: Sequence[str], *, seed: int = 0, kinds: Sequence[str] = KINDS
) -> list[tuple[list[str], str]]:
    """Make hard negatives (sentences, kind) of a document, one of each kind that it allows (OS 10.2).

    Args:
        sentences: of one document; `drop_...` and `shuffle` need at least two.
        others: sentences of other documents in the same language, as replacements.
        seed: equal document, others and seed give equal negatives.

    Raises:
        ValueError: an unknown kind.
    """
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise ValueError(f"unknown kind {unknown[0]!r}; choose from {', '.join(KINDS)}")
    rng, whole, negatives = random.Random(f"{seed} {' '.join(sentences)}"), list(sentences), []
    for kind in kinds:
        negative = _spoil(kind, whole, others, rng)
        if negative and negative != whole and negative not in [n for n, _ in negatives]:
            negatives.append((negative, kind))
    return negatives


def evaluate_documents(
    encode: Encode,
    documents: Mapping[str, Mapping[str, Sequence[str]]],
    negatives: Mapping[str, Sequence[tuple[Sequence[str], str]]],
) -> Table:
    """`evaluate_xsim` of whole documents (language -> id -> sentences) with hard negative documents (by id).

    Among unrelated documents the first sentence is enough to find a document; only negatives with the same first
    sentence test whether the encoder reads all.
    """
    rows = [
        {"id": key, "lang": lang, "text": " ".join(sentences)}
        for lang, of_lang in documents.items()
        for key, sentences in of_lang.items()
    ]
    near = {key: [(" ".join(text), kind) for text, kind in items] for key, items in negatives.items()}
    return evaluate_xsim(encode, rows, negatives=near, same_text_is_right=False)


def _spoil(kind: str, whole: list[str], others: Sequence[str], rng: random.Random) -> list[str]:
    """Apply one kind of change; an empty list if the document has too few sentences for it."""
    n = len(whole)
    what, _, where = kind.partition("_")
    if what == "shuffle":
        order = list(range(n))
        for _ in range(8):  # a shuffle may give the old order
            rng.shuffle(order)
            if (shuffled := [whole[i] for i in order]) != whole:
                return shuffled
        return []
    place = n - 1 if where == "last" else rng.randrange(n) if n else 0
    if what == "drop":
        return whole[:place] + whole[place + 1 :] if n > 1 else []
    strangers = [text for text in others if text not in whole]
    return whole[:place] + [rng.choice(strangers)] + whole[place + 1 :] if strangers and n else []


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
                partial(encode, model, tokenizer, max_length=args.max_length), *documents_and_negatives(file)
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
