"""Build the training and dev files of nano-real from the parallel corpora (a folder of Parquet files).

    python train_scripts/corpora/nano_real_data.py CORPORA outputs/nano-real/data

Writes train.parquet (parallel schema, X->eng), train_strict.parquet (stage 3), a tokenizer of 32k sub-words with all
languages in like parts, and dev_flores, dev_ntrex, dev_bible, dev_tatoeba (n-way tables). A text of a dev part, English
or not, is in no training row. The parts are those of recipes/nano_real_dev.yaml.
"""

import argparse
import hashlib
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

import pandas as pd
import yaml

from hf_echo.vocabulary import train_tokenizer

ENG = "eng_Latn"
BIBLES = ("bible.parquet", "bible_more.parquet")
PARTS: dict = {}
LANGUAGES: list[str] = []


def use_parts(name: str) -> None:
    PARTS.clear()
    PARTS.update(
        yaml.safe_load((Path(__file__).parents[1] / "recipes" / f"{name}_dev.yaml").read_text())
    )
    LANGUAGES[:] = [*PARTS["languages"], *PARTS.get("new_languages", []), ENG]


use_parts("nano_real")


def read(corpora: Path, name: str, **equal: str) -> pd.DataFrame:
    """A table of the corpora; only rows with these values. What the parts leave out of it is left out."""
    table = pd.read_parquet(corpora / name)
    left_out = PARTS.get("leave_out", {})
    if name in left_out:
        table = table[~table.lang.isin(left_out[name])] if left_out[name] else table[:0]
    for column, value in equal.items():
        table = table[table[column] == value]
    return table


def read_bibles(corpora: Path, split: str) -> pd.DataFrame:
    return pd.concat([read(corpora, name, split=split) for name in BIBLES])


def pairs_of_nway(table: pd.DataFrame, key: str, provenance: str = "primary") -> pd.DataFrame:
    """Rows (key, lang, text) -> X->eng pairs of equal key."""
    table = table[table.lang.isin(LANGUAGES)].rename(columns={key: "id"})[["id", "lang", "text"]]
    is_english = table.lang == ENG
    english = (
        table[is_english].drop_duplicates("id")[["id", "text"]].rename(columns={"text": "target"})
    )
    joined = table[~is_english].merge(english, on="id")
    return schema(joined.text, joined.lang, joined.target, provenance)


def schema(
    source: Iterable[str],
    source_lang: Iterable[str],
    target: Iterable[str],
    provenance: str = "primary",
) -> pd.DataFrame:
    columns = {"source": list(source), "source_lang": list(source_lang), "target": list(target)}
    return pd.DataFrame(columns | {"target_lang": ENG, "provenance": provenance})


def english_pairs(table: pd.DataFrame, provenance: str = "primary") -> pd.DataFrame:
    """Rows src (English), tgt_lang, tgt -> X->eng pairs."""
    table = table[(table.src_lang == ENG) & table.tgt_lang.isin(LANGUAGES)]
    return schema(table.tgt, table.tgt_lang, table.src, provenance)


def both_sides(pairs: pd.DataFrame) -> pd.DataFrame:
    """X->eng pairs -> rows id (the English text), lang, text."""
    sources = pd.DataFrame({"id": pairs.target, "lang": pairs.source_lang, "text": pairs.source})
    targets = pd.DataFrame({"id": pairs.target, "lang": ENG, "text": pairs.target})
    return pd.concat([sources, targets])


def is_tatoeba_dev(english: str) -> bool:
    """2 % by a hash of the English side, whatever file it stands in."""
    digest = hashlib.sha256(english.strip().lower().encode()).digest()
    return int.from_bytes(digest[:4], "little") % 100 < PARTS["tatoeba"]["percent_of_english"]


def is_last_document(ntrex: pd.DataFrame) -> pd.Series:
    """Whether a row of NTREX is of the last documents, in the order of English, which are kept for measuring."""
    documents = ntrex[ntrex.lang == ENG].sort_values("id").document.unique()
    return ntrex.document.isin(documents[-PARTS["ntrex"]["last_documents"] :])


def dev_tables(corpora: Path) -> dict[str, pd.DataFrame]:
    """Rows id, lang, text of each part that is kept for measuring."""
    flores = read(corpora, "flores_sib.parquet", split="dev").rename(columns={"index_id": "id"})
    ntrex = read(corpora, "ntrex.parquet")
    bible = read_bibles(corpora, "dev").rename(columns={"verse_id": "id"})
    tatoeba = pd.concat([english_pairs(read(corpora, name)) for name in PARTS["tatoeba"]["files"]])
    tatoeba = both_sides(tatoeba[tatoeba.target.map(is_tatoeba_dev)])
    tables = {
        "flores": flores,
        "ntrex": ntrex[is_last_document(ntrex)],
        "bible": bible,
        "tatoeba": tatoeba,
    }
    for name, table in tables.items():
        # One text of a language for each id.
        table = table[table.lang.isin(LANGUAGES)].drop_duplicates(["id", "lang"])
        tables[name] = table[["id", "lang", "text"]].astype(str).reset_index(drop=True)
    return tables


def train_table(corpora: Path, dev: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """All pairs whose texts are in no dev part."""
    ntrex = read(corpora, "ntrex.parquet")
    parts = [
        pairs_of_nway(read_bibles(corpora, "train"), "verse_id"),
        pairs_of_nway(ntrex[~ntrex.id.astype(str).isin(set(dev["ntrex"].id))], "id"),
        pairs_of_nway(read(corpora, "flores_sib.parquet", split="train"), "index_id"),
        pairs_of_nway(read(corpora, "captions.parquet", split="train"), "id"),
        pairs_of_nway(read(corpora, "qa_parallel.parquet", split="train"), "id"),
        english_pairs(read(corpora, "dictionaries.parquet"), "dictionary"),
        pairs_of_nway(read(corpora, "quran.parquet"), "verse_id"),
    ]
    for name in ("tatoeba_pairs", "tatoeba_more", "localisation", "docs_parallel"):
        parts.append(english_pairs(read(corpora, f"{name}.parquet")))
    parts.append(english_pairs(read(corpora, "african_news.parquet", split="train")))
    table = pd.concat(parts, ignore_index=True).drop_duplicates(["source", "source_lang", "target"])
    # A text of a dev part, in any language, keeps its row out.
    held_out = {text.strip().lower() for rows in dev.values() for text in rows.text}
    source = table.source.str.strip().str.lower()
    target = table.target.str.strip().str.lower()
    is_clean = ~(source.isin(held_out) | target.isin(held_out))
    is_empty = (source == "") | (target == "")
    # An untranslated interface string teaches nothing.
    is_untranslated = table.source.str.lower() == table.target.str.lower()
    return table[is_clean & ~is_empty & ~is_untranslated].reset_index(drop=True)


def strict(train: pd.DataFrame) -> pd.DataFrame:
    """OS 4.4: primary sources only, each text once in the corpus; and sentences, no single words (stage 3)."""
    table = train[(train.provenance == "primary") & (train.target.str.count(" ") >= 3)]
    return table.drop_duplicates("target").drop_duplicates("source").reset_index(drop=True)


def short_pairs(train: Path, languages: Sequence[str], longest: int) -> pd.DataFrame:
    """Pairs of these languages whose texts have fewer characters than `longest`, without those of dictionaries."""
    table = pd.read_parquet(train)
    table = table[(table.provenance != "dictionary") & table.source_lang.isin(languages)]
    return table[(table.source.str.len() < longest) & (table.target.str.len() < longest)]


def write_tokenizer(train: pd.DataFrame, out: Path, vocab_size: int = 32_000) -> None:
    """At most 60,000 sentences a language and 150,000 English ones."""
    parts = []
    for _, of_language in train.groupby("source_lang"):
        parts.append(of_language.source.sample(min(len(of_language), 60_000), random_state=0))
    english = train.target.drop_duplicates()
    parts.append(english.sample(min(len(english), 150_000), random_state=0))
    train_tokenizer(chain.from_iterable(parts), vocab_size, max_length=256).save_pretrained(out)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path, help="folder with bible.parquet, ntrex.parquet, ...")
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    if not (args.corpora / "flores_sib.parquet").exists():
        parser.error(
            f"{args.corpora} holds no flores_sib.parquet; give the folder of the parallel corpora"
        )
    args.out.mkdir(parents=True, exist_ok=True)
    dev = dev_tables(args.corpora)
    for name, table in dev.items():
        table.to_parquet(args.out / f"dev_{name}.parquet")
        print(f"dev_{name}: {table.id.nunique()} ids, {len(table)} rows")
    train = train_table(args.corpora, dev)
    train = train.sample(frac=1, random_state=0).reset_index(drop=True)
    train.to_parquet(args.out / "train.parquet")
    strict(train).to_parquet(args.out / "train_strict.parquet")
    write_tokenizer(train, args.out / "tokenizer")
    print(f"train: {len(train)} pairs\n{train.source_lang.value_counts().to_string()}")


if __name__ == "__main__":
    main()
