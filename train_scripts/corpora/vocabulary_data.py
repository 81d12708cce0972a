"""Write the text that the vocabularies of docs/results.md are counted from: train parts of the
parallel corpora.

    python train_scripts/corpora/vocabulary_data.py CORPORA outputs/vocabulary/data
    hf-echo vocabulary count outputs/vocabulary/data/train_*.parquet --out outputs/vocabulary/counts.parquet

Parallel text (pairs with English): NTREX, FLORES (SIB) and localisation. Monolingual text (lang,
text): the Bibles. The parts that recipes/nano_real_dev.yaml keeps for measuring are left out, and
every text that occurs in one of them; they are written as dev_flores, dev_ntrex and dev_bible
(lang, text).
"""

import argparse
from pathlib import Path

import pandas as pd
from dev_parts import is_last_document, read, read_bibles

from hf_echo.languages import ENGLISH
from hf_echo.steps.public_text import add_corpora, corpora_of


def nway(table: pd.DataFrame, key: str = "id") -> pd.DataFrame:
    """Columns id, lang, text of an n-way table."""
    return table.rename(columns={key: "id"})[["id", "lang", "text"]]


def plain(texts: pd.Series) -> pd.Series:
    """What is compared of a text."""
    return texts.str.strip().str.lower()


def pairs_with_english(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of equal id, English first; so English stands beside every language,
    as in a corpus of pairs."""
    is_english = table.lang == ENGLISH
    english = table[is_english].rename(columns={"lang": "src_lang", "text": "src"})
    other = table[~is_english].rename(columns={"lang": "tgt_lang", "text": "tgt"})
    return other.merge(english, on="id")[["src_lang", "src", "tgt_lang", "tgt"]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_corpora(parser)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    corpora = corpora_of(args, "ntrex", "flores_sib", "bible", "bible_more", "localisation")
    args.out.mkdir(parents=True, exist_ok=True)

    ntrex = read(corpora, "ntrex.parquet")
    is_dev = is_last_document(ntrex)
    dev = {
        "ntrex": nway(ntrex[is_dev]),
        "flores": nway(read(corpora, "flores_sib.parquet", split="dev"), "index_id"),
        "bible": nway(read_bibles(corpora, "dev"), "verse_id"),
    }
    for name, table in dev.items():
        table[["lang", "text"]].to_parquet(args.out / f"dev_{name}.parquet", index=False)
    held_out = set(plain(pd.concat(dev.values()).text))

    flores = nway(read(corpora, "flores_sib.parquet", split="train"), "index_id")
    train = {
        "ntrex": pairs_with_english(nway(ntrex[~is_dev])),
        "flores": pairs_with_english(flores),
        "localisation": read(corpora, "localisation.parquet")[
            ["src_lang", "src", "tgt_lang", "tgt"]
        ],
        "bible": read_bibles(corpora, "train")[["lang", "text"]],
    }
    for name, table in train.items():
        # Neither side of a row may be a text of a dev part.
        for column in table.columns.intersection(["src", "tgt", "text"]):
            table = table[~plain(table[column]).isin(held_out)]
        table.to_parquet(args.out / f"train_{name}.parquet", index=False)
        print(f"{name}: {len(table)} rows")


if __name__ == "__main__":
    main()
