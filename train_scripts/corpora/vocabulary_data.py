"""Write the text that the vocabularies of docs/results.md are counted from: train parts of the parallel corpora.

    python train_scripts/corpora/vocabulary_data.py CORPORA outputs/vocabulary/data
    hf-echo vocabulary count outputs/vocabulary/data/train_*.parquet --out outputs/vocabulary/counts.parquet

Parallel text (pairs with English): NTREX, FLORES (SIB) and localisation. Monolingual text (lang, text): the Bibles. The
parts that recipes/nano_real_dev.yaml keeps for measuring are left out, and every text that occurs in one of them; they
are written as dev_flores, dev_ntrex and dev_bible (lang, text).
"""

import argparse
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

DEV = yaml.safe_load((Path(__file__).parents[1] / "recipes" / "nano_real_dev.yaml").read_text())
ENG = DEV["pivot"]


def read(corpora: Path, name: str, split: str | None = None, key: str = "id") -> pa.Table:
    """Columns id, lang, text of an n-way table."""
    filters = None if split is None else [("split", "==", split)]
    table = pq.read_table(corpora / name, columns=[key, "lang", "text"], filters=filters)
    return pa.table({"id": table[key].cast(pa.string()), "lang": table["lang"], "text": table["text"]})


def ntrex(corpora: Path) -> tuple[pa.Table, pa.Table]:
    """(train, dev): the last documents, in the order of English, are dev."""
    documents = pq.read_table(corpora / DEV["ntrex"]["file"], columns=["id", "document", "lang"])
    english = documents.filter(pc.equal(documents["lang"], ENG)).sort_by("id")
    last = pa.array(english["document"].unique().to_pylist()[-DEV["ntrex"]["last_documents"] :])
    is_dev = pc.is_in(documents["document"], last)
    table = read(corpora, DEV["ntrex"]["file"])
    return table.filter(pc.invert(is_dev)), table.filter(is_dev)


def bibles(corpora: Path, split: str) -> pa.Table:
    files = (DEV["bible"]["file"], DEV["bible"]["more"])
    return pa.concat_tables(read(corpora, file, split, "verse_id") for file in files)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path, help="folder with bible.parquet, ntrex.parquet, ...")
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    if not (args.corpora / DEV["flores"]["file"]).exists():
        parser.error(f"{args.corpora} holds no {DEV['flores']['file']}; give the folder of the parallel corpora")
    args.out.mkdir(parents=True, exist_ok=True)

    ntrex_train, ntrex_dev = ntrex(args.corpora)
    flores = [read(args.corpora, DEV["flores"]["file"], split, "index_id") for split in ("train", "dev")]
    pairs = pq.read_table(args.corpora / "localisation.parquet", columns=["src_lang", "src", "tgt_lang", "tgt"])
    dev = {"ntrex": ntrex_dev, "flores": flores[1], "bible": bibles(args.corpora, DEV["bible"]["split"])}
    for name, table in dev.items():
        pq.write_table(table.select(["lang", "text"]), args.out / f"dev_{name}.parquet")
    held_out = pc.unique(plain(pa.concat_tables(dev.values())["text"]))

    tables = {
        "ntrex": pairs_with_english(ntrex_train),
        "flores": pairs_with_english(flores[0]),
        "localisation": pairs,
        "bible": bibles(args.corpora, "train").select(["lang", "text"]),
    }
    for name, table in tables.items():
        texts = [column for column in ("src", "tgt", "text") if column in table.column_names]
        for column in texts:
            table = table.filter(pc.invert(pc.is_in(plain(table[column]), held_out)))
        pq.write_table(table, args.out / f"train_{name}.parquet")
        print(f"{name}: {len(table)} rows")


def plain(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.utf8_lower(pc.utf8_trim_whitespace(texts))


def pairs_with_english(table: pa.Table) -> pa.Table:
    """Rows of equal id, English first; so English stands beside every language, as in a corpus of pairs."""
    is_english = pc.equal(table["lang"], ENG)
    english = table.filter(is_english).rename_columns(["id", "src_lang", "src"])
    other = table.filter(pc.invert(is_english)).rename_columns(["id", "tgt_lang", "tgt"])
    return other.join(english, "id", join_type="inner").select(["src_lang", "src", "tgt_lang", "tgt"])


if __name__ == "__main__":
    main()
