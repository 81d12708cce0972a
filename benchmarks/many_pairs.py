"""Write a large Parquet file of real pairs, to measure how a preparation behaves at its size.

    hf-echo data download corpora
    python benchmarks/many_pairs.py corpora outputs/many_pairs.parquet --pairs 20000000
    /usr/bin/time -v hf-echo data prepare outputs/many_pairs.parquet outputs/prepared --tokenizer echo-nano

The pairs are those of every two languages of a sentence or verse of at most 130 characters, in a
seeded order. A sentence stands in many of them.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from hf_echo.languages import is_language

# Table of translated sentences -> its column of numbers.
TABLES = {
    "bible": "verse_id",
    "bible_more": "verse_id",
    "quran": "verse_id",
    "flores_sib": "index_id",
    "ntrex": "id",
}
LONGEST = 130  # characters
ROWS = 250_000  # written at a time


def short_sentences(corpora: Path) -> list[pd.DataFrame]:
    """The table of each source that is there: number, lang and text, sorted by number."""
    tables = []
    for name, number_column in TABLES.items():
        path = corpora / f"{name}.parquet"
        if not path.is_file():
            print(f"{path} is not there: left out")
            continue
        rows = pd.read_parquet(path, columns=[number_column, "lang", "text"])
        rows.columns = ["number", "lang", "text"]
        has_code = rows["lang"].map(is_language)
        is_short = rows["text"].str.len() <= LONGEST
        tables.append(rows[has_code & is_short].sort_values("number", kind="stable"))
    return tables


def rows_of_pairs(tables: list[pd.DataFrame]) -> np.ndarray:
    """(2, pairs) rows of source and target in all tables one after the other: every two languages
    of a sentence, both ways."""
    pairs = []
    first_row = 0
    for table in tables:
        # The translations of a sentence stand together.
        for size in table.groupby("number").size().tolist():
            source, target = np.indices((size, size), dtype=np.int32)
            is_pair = source != target
            pairs.append(first_row + np.stack([source[is_pair], target[is_pair]]))
            first_row += size
    return np.concatenate(pairs, axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path, help="folder that `hf-echo data download` made")
    parser.add_argument("out", type=Path, help="Parquet file that is written")
    parser.add_argument("--pairs", type=int, default=20_000_000, help="at most so many")
    arguments = parser.parse_args()

    tables = short_sentences(arguments.corpora)
    pairs = rows_of_pairs(tables)
    order = np.random.default_rng(0).permutation(pairs.shape[1])[: arguments.pairs]
    sentences = pd.concat(tables)
    texts = pa.array(sentences["text"].tolist())
    langs = pa.array(sentences["lang"].tolist())

    names = ["src_lang", "src", "tgt_lang", "tgt"]
    schema = pa.schema([(name, pa.string()) for name in names])
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(arguments.out, schema, compression="zstd") as writer:
        for start in range(0, len(order), ROWS):
            source, target = pairs[:, order[start : start + ROWS]]
            columns = [
                langs.take(source),
                texts.take(source),
                langs.take(target),
                texts.take(target),
            ]
            writer.write_table(pa.table(dict(zip(names, columns, strict=True)), schema=schema))
    print(f"{len(order)} pairs in {arguments.out}")


if __name__ == "__main__":
    main()
