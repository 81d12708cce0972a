"""Build the training and dev files of nano-real from the parallel corpora (a folder of Parquet files).

    python train_scripts/corpora/nano_real_data.py CORPORA outputs/nano-real/data

Writes train.parquet (parallel schema, X->eng), train_strict.parquet (stage 3), a tokenizer of 32k sub-words with all
languages in like parts, and dev_flores, dev_ntrex, dev_bible, dev_tatoeba (n-way tables). A text of a dev part, English
or not, is in no training row. The parts are those of recipes/nano_real_dev.yaml.
"""

import argparse
import hashlib
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import yaml

from hf_echo.vocabulary import train_tokenizer

ENG = "eng_Latn"
PARTS: dict = {}
LANGUAGES: list[str] = []


def use_parts(name: str) -> None:
    PARTS.clear()
    PARTS.update(yaml.safe_load((Path(__file__).parents[1] / "recipes" / f"{name}_dev.yaml").read_text()))
    LANGUAGES[:] = [*PARTS["languages"], *PARTS.get("new_languages", []), ENG]


use_parts("nano_real")


def read(corpora: Path, name: str, **equal) -> pd.DataFrame:
    table = pd.read_parquet(corpora / name)
    if name in (leave_out := PARTS.get("leave_out", {})):
        table = table[~table.lang.isin(leave_out[name])] if leave_out[name] else table[:0]
    for column, value in equal.items():
        table = table[table[column] == value]
    return table


def pairs_of_nway(table: pd.DataFrame, key: str, provenance: str = "primary") -> pd.DataFrame:
    """Rows (key, lang, text) -> X->eng pairs of equal key."""
    table = table[table.lang.isin(LANGUAGES)].rename(columns={key: "id"})[["id", "lang", "text"]]
    english = table[table.lang == ENG].drop_duplicates("id")[["id", "text"]].rename(columns={"text": "target"})
    joined = table[table.lang != ENG].merge(english, on="id")
    return schema(joined.text, joined.lang, joined.target, provenance)


def schema(source, source_lang, target, provenance: str = "primary") -> pd.DataFrame:
    return pd.DataFrame(
        {
            "source": list(source),
            "source_lang": list(source_lang),
            "target": list(target),
            "target_lang": ENG,
            "provenance": provenance,
        }
    )


def english_pairs(table: pd.DataFrame, provenance: str = "primary") -> pd.DataFrame:
    """Rows src (English), tgt_lang, tgt -> X->eng pairs."""
    table = table[(table.src_lang == ENG) & table.tgt_lang.isin(LANGUAGES)]
    return schema(table.tgt, table.tgt_lang, table.src, provenance)


def is_tatoeba_dev(english: str) -> bool:
    """2 % by a hash of the English side, whatever file it stands in."""
    digest = hashlib.sha256(english.strip().lower().encode()).digest()
    return int.from_bytes(digest[:4], "little") % 100 < PARTS["tatoeba"]["percent_of_english"]


def dev_tables(corpora: Path) -> dict[str, pd.DataFrame]:
    flores = read(corpora, "flores_sib.parquet", split="dev").rename(columns={"index_id": "id"})
    ntrex = read(corpora, "ntrex.parquet")
    documents = list(dict.fromkeys(ntrex[ntrex.lang == ENG].sort_values("id").document))
    ntrex = ntrex[ntrex.document.isin(documents[-PARTS["ntrex"]["last_documents"] :])]
    bible = pd.concat([read(corpora, f, split="dev") for f in ("bible.parquet", "bible_more.parquet")])
    tatoeba = pd.concat(english_pairs(read(corpora, f)) for f in PARTS["tatoeba"]["files"])
    tatoeba = tatoeba[tatoeba.target.map(is_tatoeba_dev)]
    sides = [
        tatoeba.assign(id=tatoeba.target, lang=tatoeba.source_lang, text=tatoeba.source),
        tatoeba.assign(id=tatoeba.target, lang=ENG, text=tatoeba.target),
    ]
    tables = {
        "flores": flores,
        "ntrex": ntrex,
        "bible": bible.rename(columns={"verse_id": "id"}),
        "tatoeba": pd.concat(sides),
    }
    tables = {name: t[t.lang.isin(LANGUAGES)].drop_duplicates(["id", "lang"]) for name, t in tables.items()}
    return {name: t[["id", "lang", "text"]].astype(str).reset_index(drop=True) for name, t in tables.items()}


def train_table(corpora: Path, dev: dict[str, pd.DataFrame]) -> pd.DataFrame:
    bible = pd.concat([read(corpora, f, split="train") for f in ("bible.parquet", "bible_more.parquet")])
    ntrex = read(corpora, "ntrex.parquet")
    parts = [
        pairs_of_nway(bible, "verse_id"),
        pairs_of_nway(ntrex[~ntrex.id.astype(str).isin(set(dev["ntrex"].id))], "id"),
        pairs_of_nway(read(corpora, "flores_sib.parquet", split="train"), "index_id"),
        pairs_of_nway(read(corpora, "captions.parquet", split="train"), "id"),
        pairs_of_nway(read(corpora, "qa_parallel.parquet", split="train"), "id"),
        english_pairs(read(corpora, "dictionaries.parquet"), "dictionary"),
    ]
    quran = read(corpora, "quran.parquet")
    parts.append(pairs_of_nway(quran, "verse_id"))
    for name in ("tatoeba_pairs", "tatoeba_more", "localisation", "docs_parallel"):
        parts.append(english_pairs(read(corpora, f"{name}.parquet")))
    parts.append(english_pairs(read(corpora, "african_news.parquet", split="train")))
    table = pd.concat(parts, ignore_index=True).drop_duplicates(["source", "source_lang", "target"])
    held_out = {text.strip().lower() for t in dev.values() for text in t.text}
    clean = ~(table.source.str.strip().str.lower().isin(held_out) | table.target.str.strip().str.lower().isin(held_out))
    table = table[clean & (table.source.str.strip() != "") & (table.target.str.strip() != "")]
    # An untranslated interface string teaches nothing.
    return table[table.source.str.lower() != table.target.str.lower()].reset_index(drop=True)


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
    parts = [g.source.sample(min(len(g), 60_000), random_state=0) for _, g in train.groupby("source_lang")]
    english = train.target.drop_duplicates()
    sample = english.sample(min(len(english), 150_000), random_state=0)
    parts.append(sample)
    train_tokenizer((text for part in parts for text in part), vocab_size, max_length=256).save_pretrained(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path, help="folder with bible.parquet, ntrex.parquet, ...")
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    if not (args.corpora / "flores_sib.parquet").exists():
        parser.error(f"{args.corpora} holds no flores_sib.parquet; give the folder of the parallel corpora")
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
