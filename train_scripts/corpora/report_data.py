"""The data folder of `hf-echo report`: the built-in corpus, or the dev parts of nano-real.

    python train_scripts/corpora/report_data.py builtin OUT
    python train_scripts/corpora/report_data.py CORPORA OUT      # or only OUT: public text

The first writes 300 held-out meanings of the built-in corpus in its ten languages; it needs no
other data, and `make report` uses it. The second writes ntrex, flores (with topics; the train rows
of the probe's two languages), bible, tatoeba and word_alignment (at most 200 dev pairs per language
pair). The parts are those of recipes/nano_real_dev.yaml; none of them is in nano-real's training
data, except FLORES's train rows, whose topics nano-real never saw.
"""

import argparse
from pathlib import Path

import pandas as pd
from dev_parts import LANGUAGES, dev_tables, read

from hf_echo.data.builtin import builtin_nway
from hf_echo.languages import ENGLISH
from hf_echo.steps.public_text import add_corpora, corpora_of

PROBE_LANGS = ["fra_Latn", ENGLISH]
PAIRS = 200
MEANINGS = 300  # of the built-in corpus


def with_topics(corpora: Path, dev: pd.DataFrame) -> pd.DataFrame:
    """The dev rows and the train rows of the probe's languages, both with split and category."""
    table = read(corpora, "flores_sib.parquet").rename(columns={"index_id": "id"})
    table["id"] = table.id.astype(str)
    teaches_probe = (table.split == "train") & table.lang.isin(PROBE_LANGS)
    is_dev = (table.split == "dev") & table.id.isin(dev.id) & table.lang.isin(LANGUAGES)
    rows = table[teaches_probe | is_dev].drop_duplicates(["split", "id", "lang"])
    return rows[["id", "lang", "text", "category", "split"]]


def alignment(corpora: Path) -> pd.DataFrame:
    table = read(corpora, "word_alignment.parquet", split="dev")
    table = table[table.src_lang.isin(LANGUAGES) & table.tgt_lang.isin(LANGUAGES)]
    return table.groupby(["src_lang", "tgt_lang"], sort=False).head(PAIRS)


def real_tables(corpora: Path) -> dict[str, pd.DataFrame]:
    tables = dev_tables(corpora)
    tables["flores"] = with_topics(corpora, tables["flores"])
    if (corpora / "word_alignment.parquet").exists():  # it is not among the public sources
        tables["word_alignment"] = alignment(corpora)
    return tables


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_corpora(parser)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    if args.corpora == Path("builtin"):
        tables = {"builtin": builtin_nway(MEANINGS, split="test").to_pandas()}
    else:
        names = ("flores_sib", "ntrex", "bible", "bible_more", "tatoeba_challenge")
        tables = real_tables(corpora_of(args, *names))
    args.out.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.to_parquet(args.out / f"{name}.parquet", index=False)
        print(f"{name}: {len(table)} rows")


if __name__ == "__main__":
    main()
