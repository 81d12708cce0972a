"""The training mix with everyday sentences in a hundred languages, and its dev sets.

    python train_scripts/corpora/echo_nano_data.py CORPORA outputs/echo-nano/data

Writes dev_flores, dev_ntrex, dev_bible, dev_tatoeba and nway.parquet as nano_real_data.py does, for the parts and
languages of recipes/echo_nano_dev.yaml, and
    dev_everyday.parquet    n-way table of everyday sentences, split by a hash of the English side
    dev_wmt.parquet         news (research use: for measuring only)
    train.parquet           all pairs, with English and without
    train_mix.parquet       the same, each row as often as its file and its language ask for
    train_hard.parquet      sentences with English hard negatives by rule
    train_decoder.parquet   each English sentence from at most six translations, a tenth of them from themselves
    train_both.parquet      sentences into English and into a few other languages: for translation
    train_written.parquet   as train_decoder, into English and into these languages
    tokenizer               whole characters in scripts other than Latin, Greek and Cyrillic
A text of a dev set, compared by its letters and digits, is on neither side of a training pair.
"""

from __future__ import annotations

import argparse
import hashlib
import re
from pathlib import Path

import nano_real_data as base
import numpy as np
import pandas as pd
import yaml
from nano_real_data import ENG, english_pairs, pairs_of_nway, read, repeated, schema

from hf_echo.negatives.rules import hard_negatives_for

PARTS = yaml.safe_load((Path(__file__).parents[1] / "recipes" / "echo_nano_dev.yaml").read_text())
GROUPS = ("languages", "new_languages", "extension_languages", "more_languages")
SENTENCE_END = r"[.!?…。！？][\"'”’»)」』）]*\s*$"
MEASURED_NEWS = 500  # sentences of a language in dev_wmt


def use_parts() -> None:
    """The functions of nano_real_data.py read these parts."""
    base.PARTS.clear()
    base.PARTS.update(PARTS)
    base.LANGUAGES[:] = [*(lang for group in GROUPS for lang in PARTS[group]), ENG]


def letters(text: str) -> str:
    """What is compared of a text."""
    return re.sub(r"[\W_]+", "", text.lower()) or text


def is_everyday_dev(english: str, seen: set[str]) -> bool:
    """By the hash that splits dev_tatoeba; a larger share of what echo-nano has not been trained on."""
    percent = PARTS["tatoeba"]["percent_of_english"]
    if letters(english) not in seen:
        percent = PARTS["everyday"]["percent_of_other_english"]
    digest = hashlib.sha256(english.strip().lower().encode()).digest()
    return int.from_bytes(digest[:4], "little") % 100 < percent


def everyday_table(corpora: Path) -> pd.DataFrame:
    """Rows id (the English sentence), lang, text. Where a sentence has several translations, the first one."""
    today = pd.concat(read(corpora, f) for f in PARTS["tatoeba"]["files"])
    seen = set(today.src.map(letters))
    pairs = english_pairs(pd.concat([today, read(corpora, PARTS["everyday"]["file"])]))
    english = {text: is_everyday_dev(text, seen) for text in pairs.target.unique()}
    pairs = pairs[pairs.target.map(english)]
    sides = [
        pd.DataFrame({"id": pairs.target, "lang": pairs.source_lang, "text": pairs.source}),
        pd.DataFrame({"id": pairs.target, "lang": ENG, "text": pairs.target}),
    ]
    return pd.concat(sides).drop_duplicates(["id", "lang"]).reset_index(drop=True)


def news_table(corpora: Path) -> pd.DataFrame:
    """Some sentences of each language of wmt_news, the newest test sets first."""
    table = read(corpora, "wmt_news.parquet")
    table = table[table.tgt_lang.isin(base.LANGUAGES)].sort_values("source", ascending=False, kind="stable")
    table = table.drop_duplicates(["tgt_lang", "src"]).groupby("tgt_lang").head(MEASURED_NEWS)
    sides = [
        pd.DataFrame({"id": table.src, "lang": table.tgt_lang, "text": table.tgt}),
        pd.DataFrame({"id": table.src, "lang": ENG, "text": table.src}),
    ]
    return pd.concat(sides).drop_duplicates(["id", "lang"]).reset_index(drop=True)


def without_english(corpora: Path) -> pd.DataFrame:
    """Pairs of two other languages."""
    table = read(corpora, PARTS["everyday"]["pairs"])
    table = table[table.src_lang.isin(base.LANGUAGES) & table.tgt_lang.isin(base.LANGUAGES)]
    return schema(table.src, table.src_lang, table.tgt).assign(target_lang=list(table.tgt_lang))


def train_table(corpora: Path, dev: dict[str, pd.DataFrame]) -> pd.DataFrame:
    parts = [base.train_table(corpora, dev)]
    parts += [english_pairs(read(corpora, name)) for name in PARTS["more"]["english"]]
    for name, key in PARTS["more"]["nway"].items():
        table = read(corpora, name)
        parts.append(pairs_of_nway(table[table.split == "train"] if "split" in table else table, key))
    parts.append(without_english(corpora))
    table = pd.concat(parts, ignore_index=True).drop_duplicates(["source", "source_lang", "target"])
    return without_held_out(table, dev).reset_index(drop=True)


def without_held_out(table: pd.DataFrame, dev: dict[str, pd.DataFrame]) -> pd.DataFrame:
    held_out = {letters(text) for rows in dev.values() for text in rows.text}
    known = {text: letters(text) in held_out for side in ("source", "target") for text in table[side].unique()}
    return table[~(table.source.map(known) | table.target.map(known))]


def mixed(train: pd.DataFrame, corpora: Path, wanted: dict) -> pd.DataFrame:
    """Each row as often as its file asks for, times what its language asks for; at most `rows`, drawn by chance."""
    with_english = train.target_lang == ENG
    times = base.weights_of_rows(train, corpora, wanted["weights"], wanted["others"])
    times[~with_english] = wanted["without_english"]
    times *= language_scale(train.source_lang, times, wanted["power"], wanted["most"])
    return repeated(train, times).head(wanted["rows"])  # they are shuffled


def both_directions(mix: pd.DataFrame, written: list[str], least: int = 2) -> pd.DataFrame:
    """Pairs into English and into the `written` languages, from any other. Each pair once, without dictionaries and
    single words (English has at least `least` words; words of other languages are not counted)."""
    pairs = mix[mix.provenance != "dictionary"].drop_duplicates(["source", "source_lang", "target"])
    swapped = {
        "source": "target",
        "source_lang": "target_lang",
        "target": "source",
        "target_lang": "source_lang",
    }
    both = pd.concat([pairs, pairs.rename(columns=swapped)[pairs.columns]])
    both = both[both.target_lang.isin([ENG, *written])]
    for side in ("source", "target"):
        english = both[f"{side}_lang"] == ENG
        both = both[~english | (both[side].str.count(" ") + 1 >= least)]
    return both.sample(frac=1, random_state=0).reset_index(drop=True)


def decoder_table(rows: pd.DataFrame, sources: int = 6, itself: float = 0.1, most: int = 60) -> pd.DataFrame:
    """Each target sentence from at most `sources` translations, and a share of them from themselves.

    A decoder that reads the same verse from forty languages learns it by heart; one that mostly rebuilds English does
    not learn to read translations (docs/trials/decoder.md). A sentence has at most `most` words and ends as one: the
    names and menu entries of the localisation files teach a decoder to leave sentences unfinished.
    """
    rows = rows.drop_duplicates(["source", "source_lang", "target", "target_lang"])
    rows = rows[rows.target.str.contains(SENTENCE_END) & (rows.target.str.count(" ") < most)]
    some = rows.sample(frac=1, random_state=0).groupby(["target_lang", "target"]).head(sources)
    own = some.drop_duplicates(["target_lang", "target"]).sample(frac=itself, random_state=0)
    own = own.assign(source=own.target, source_lang=own.target_lang)
    return pd.concat([some, own]).sample(frac=1, random_state=0).reset_index(drop=True)


def written_rows(mix: pd.DataFrame, written: list[str], most: int, sources: int = 6) -> pd.DataFrame:
    """Rows into English and into each of the `written` languages: at most `most` sentences of each language, from
    English, from pairs without English, and from other languages whose English is the same."""
    rows = both_directions(mix, written)
    known = rows[rows.target_lang == ENG]
    some = known.groupby("target").head(sources).rename(columns={"target": "english"})
    own = known[known.source_lang.isin(written)]
    own = own[["source", "source_lang", "target"]].set_axis(["target", "target_lang", "english"], axis=1)
    pivoted = own.merge(some.drop(columns="target_lang"), on="english")
    pivoted = pivoted[pivoted.source_lang != pivoted.target_lang]
    rows = pd.concat([rows, pivoted[rows.columns]])
    chosen = rows[["target_lang", "target"]].drop_duplicates().sample(frac=1, random_state=0)
    return rows.merge(chosen.groupby("target_lang").head(most))


def hard_table(mix: pd.DataFrame, most: int, negatives: int = 2, least: int = 3) -> pd.DataFrame:
    """Sentences with hard negatives by rule of their English, at most `most` rows per language. Every copy of a row has
    other negatives."""
    rows = english_sentences(mix, least).groupby("source_lang").head(most)
    targets = rows.target.drop_duplicates().tolist()
    made = dict(zip(targets, hard_negatives_for(targets, 5), strict=True))
    rng = np.random.default_rng(0)
    some = [[texts[i][0] for i in rng.permutation(len(texts))[:negatives]] for texts in rows.target.map(made)]
    return rows.assign(hard_negatives=some).sample(frac=1, random_state=0).reset_index(drop=True)


def english_sentences(mix: pd.DataFrame, least: int) -> pd.DataFrame:
    """Rows into English of at least `least` words, without dictionaries."""
    rows = mix[(mix.target_lang == ENG) & (mix.provenance != "dictionary")]
    return rows[rows.target.str.count(" ") + 1 >= least]


def language_scale(langs: pd.Series, times: pd.Series, power: float, most: float) -> pd.Series:
    """Of each row: its language's n rows (by `times`) become n to the power of `power`, the largest language staying as
    it is, and no row comes more than `most` times as often as before."""
    rows = times.groupby(langs).sum().clip(lower=1e-9)
    scale = ((rows.max() / rows) ** (1 - power)).clip(upper=most)
    return langs.map(scale)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path, help="folder with tatoeba_challenge.parquet, bible.parquet, ...")
    parser.add_argument("out", type=Path)
    parser.add_argument("--dev-only", action="store_true", help="write just the dev sets")
    args = parser.parse_args()
    if not (args.corpora / PARTS["everyday"]["file"]).exists():
        parser.error(f"{args.corpora} holds no {PARTS['everyday']['file']}; give the folder of the parallel corpora")
    use_parts()
    args.out.mkdir(parents=True, exist_ok=True)
    dev = base.dev_tables(args.corpora) | {"everyday": everyday_table(args.corpora), "wmt": news_table(args.corpora)}
    for name, table in dev.items():
        table.to_parquet(args.out / f"dev_{name}.parquet")
        print(f"dev_{name}: {table.id.nunique()} ids, {len(table)} rows, {table.lang.nunique() - 1} languages")
    if args.dev_only:
        return
    train = train_table(args.corpora, dev).sample(frac=1, random_state=0).reset_index(drop=True)
    train.to_parquet(args.out / "train.parquet")
    mix = mixed(train, args.corpora, PARTS["mix"])
    mix.to_parquet(args.out / "train_mix.parquet")
    print(f"train_mix: {len(mix)} pairs\n{mix.source_lang.value_counts().to_string()}")
    decoder_table(english_sentences(mix, 2)).to_parquet(args.out / "train_decoder.parquet")
    hard_table(mix, PARTS["hard"]["most"]).to_parquet(args.out / "train_hard.parquet")
    both_directions(mix, PARTS["written"]).to_parquet(args.out / "train_both.parquet")
    written = written_rows(mix, PARTS["written"], PARTS["sentences_written"])
    decoder_table(written).to_parquet(args.out / "train_written.parquet")
    base.nway_table(args.corpora, dev).to_parquet(args.out / "nway.parquet")
    english = train[train.target_lang == ENG]
    base.write_tokenizer(english, args.out / "tokenizer", PARTS["vocabulary"]["latin"], english_times=2)


if __name__ == "__main__":
    main()
