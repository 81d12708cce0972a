"""The dev parts of nano-real as the data folder of `hf-echo report`.

    python train_scripts/report_data.py CORPORA OUT

Writes ntrex, flores (with topics; the train rows of the probe's two languages), bible, tatoeba and word_alignment
(at most 200 dev pairs of each two languages). The parts are those of recipes/nano_real_dev.yaml; nothing of them is in
nano-real's training data, but for FLORES's train rows, whose topics it never saw.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
from nano_real_data import LANGUAGES, dev_tables, read

PROBE_LANGS = ["fra_Latn", "eng_Latn"]
PAIRS = 200


def with_topics(corpora: Path, dev: pd.DataFrame) -> pd.DataFrame:
    """The dev rows and the train rows of the probe's languages, both with split and category."""
    table = (
        read(corpora, "flores_sib.parquet")
        .rename(columns={"index_id": "id"})
        .assign(id=lambda t: t.id.astype(str))
    )
    wanted = (table.split == "train") & table.lang.isin(PROBE_LANGS)
    wanted |= (table.split == "dev") & table.id.isin(set(dev.id)) & table.lang.isin(LANGUAGES)
    return table[wanted].drop_duplicates(["split", "id", "lang"])[["id", "lang", "text", "category", "split"]]


def alignment(corpora: Path) -> pd.DataFrame:
    table = read(corpora, "word_alignment.parquet", split="dev")
    table = table[table.src_lang.isin(LANGUAGES) & table.tgt_lang.isin(LANGUAGES)]
    return table.groupby(["src_lang", "tgt_lang"], sort=False).head(PAIRS)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path, help="folder with bible.parquet, ntrex.parquet, ...")
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    tables = dev_tables(args.corpora)
    tables["flores"] = with_topics(args.corpora, tables["flores"])
    tables["word_alignment"] = alignment(args.corpora)
    args.out.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.to_parquet(args.out / f"{name}.parquet", index=False)
        print(f"{name}: {len(table)} rows")


if __name__ == "__main__":
    main()
