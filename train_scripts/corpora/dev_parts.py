"""Parts of a folder of parallel corpora that recipes/nano_real_dev.yaml keeps for measuring, and
what is left of it.

The recipe nano-real/0a_data trains on none of these parts. Public text (`hf-echo data download`)
has them too.
"""

import hashlib
from pathlib import Path

import pandas as pd
import yaml

from hf_echo.languages import ENGLISH

BIBLES = ("bible.parquet", "bible_more.parquet")
PARTS = yaml.safe_load((Path(__file__).parents[1] / "recipes" / "nano_real_dev.yaml").read_text())
LANGUAGES = [*PARTS["languages"], ENGLISH]


def read(corpora: Path, name: str, **equal: str) -> pd.DataFrame:
    """A table of the corpora; only rows with these values."""
    table = pd.read_parquet(corpora / name)
    for column, value in equal.items():
        table = table[table[column] == value]
    return table


def read_bibles(corpora: Path, split: str) -> pd.DataFrame:
    return pd.concat([read(corpora, name, split=split) for name in BIBLES])


def pairs_of_nway(table: pd.DataFrame) -> pd.DataFrame:
    """Rows (id, lang, text) -> X->eng pairs of equal id."""
    table = table[table.lang.isin(LANGUAGES)]
    is_english = table.lang == ENGLISH
    english = table[is_english].drop_duplicates("id")
    pairs = table[~is_english].merge(english, on="id", suffixes=("", "_eng"))
    return schema(pairs.text, pairs.lang, pairs.text_eng)


def schema(source: pd.Series, source_lang: pd.Series | str, target: pd.Series) -> pd.DataFrame:
    """Pairs with English as a table of the parallel schema."""
    columns = {
        "source": source,
        "source_lang": source_lang,
        "target": target,
        "target_lang": ENGLISH,
        "provenance": "primary",
    }
    return pd.DataFrame(columns).reset_index(drop=True)


def english_pairs(table: pd.DataFrame) -> pd.DataFrame:
    """Rows src (English), tgt_lang, tgt -> X->eng pairs."""
    table = table[(table.src_lang == ENGLISH) & table.tgt_lang.isin(LANGUAGES)]
    return schema(table.tgt, table.tgt_lang, table.src)


def both_sides(pairs: pd.DataFrame) -> pd.DataFrame:
    """X->eng pairs -> rows id (the English text), lang, text."""
    sources = pd.DataFrame({"id": pairs.target, "lang": pairs.source_lang, "text": pairs.source})
    targets = pd.DataFrame({"id": pairs.target, "lang": ENGLISH, "text": pairs.target})
    return pd.concat([sources, targets])


def is_tatoeba_dev(english: str) -> bool:
    """2 % by a hash of the English side, whatever file it stands in."""
    digest = hashlib.sha256(english.strip().lower().encode()).digest()
    percent = int.from_bytes(digest[:4], "little") % 100
    return percent < PARTS["tatoeba"]["percent_of_english"]


def is_last_document(ntrex: pd.DataFrame) -> pd.Series:
    """Whether a row of NTREX is of the last documents, in the order of English,
    which are kept for measuring."""
    documents = ntrex[ntrex.lang == ENGLISH].sort_values("id").document.unique()
    count = PARTS["ntrex"]["last_documents"]
    return ntrex.document.isin(documents[-count:])


def everyday_files(corpora: Path) -> list[str]:
    """The files of everyday sentences; a folder of public text has them in one file."""
    names = [name for name in PARTS["tatoeba"]["files"] if (corpora / name).exists()]
    return names or [PARTS["tatoeba"]["public"]]


def dev_tables(corpora: Path) -> dict[str, pd.DataFrame]:
    """Rows id, lang, text of each part that is kept for measuring."""
    ntrex = read(corpora, "ntrex.parquet")
    tatoeba = pd.concat([english_pairs(read(corpora, name)) for name in everyday_files(corpora)])
    tables = {
        "flores": read(corpora, "flores_sib.parquet", split="dev"),
        "ntrex": ntrex[is_last_document(ntrex)],
        "bible": read_bibles(corpora, "dev"),
        "tatoeba": both_sides(tatoeba[tatoeba.target.map(is_tatoeba_dev)]),
    }
    for name, table in tables.items():
        table = table.rename(columns={"index_id": "id", "verse_id": "id"})
        # One text of a language for each id.
        table = table[table.lang.isin(LANGUAGES)].drop_duplicates(["id", "lang"])
        tables[name] = table[["id", "lang", "text"]].astype(str).reset_index(drop=True)
    return tables
