"""Sentences that a speech encoder is trained on, and those that it is measured on.

    python train_scripts/corpora/speech_nano_data.py CORPORA outputs/echo-nano-speech/texts

Writes tables of text, lang, english: train.tsv, dev.tsv, and test.tsv with 400 sentences per language. They are
everyday sentences of Tatoeba; the measured ones are chosen by the hash of the recipe echo-nano, so echo-nano has not
been trained on them. Swahili has few Tatoeba sentences: Wikipedia, TICO-19 and Bible verses. Dutch is only measured.
Texts that allow no commercial use are left out, as in echo-nano. Languages that only the engine Kokoro reads stand in
kokoro_train.tsv and kokoro_dev.tsv; manuals.tsv has English of manuals and interfaces, which recorded prompts are like.
"""

import argparse
import hashlib
import re
from pathlib import Path

import nano_real_data as base
import pandas as pd
import yaml
from nano_real_data import ENG

PARTS = yaml.safe_load((Path(__file__).parents[1] / "recipes" / "echo_nano_dev.yaml").read_text())
GROUPS = ("languages", "new_languages", "extension_languages", "more_languages")
HEARD = (
    *(ENG, "deu_Latn", "fra_Latn", "spa_Latn", "rus_Cyrl", "tur_Latn"),
    *(
        "ita_Latn",
        "por_Latn",
        "hin_Deva",
        "swh_Latn",
        "jpn_Jpan",
        "zho_Hans",
    ),  # engines read Arabic without vowels
)
KOKORO = ("jpn_Jpan", "zho_Hans")  # espeak-ng reads them by the names of characters
UNHEARD = ("nld_Latn",)
SHORTEST = 10  # characters
LONGEST = 80  # a longer clip costs more time and teaches no more characters per second
LONGEST_SWAHILI = 130  # its sentences are news and verses
TEST = 400  # sentences per language
DEV = 60
MANUALS = {
    "docs_parallel": (5500, 14, 110),
    "localisation": (4500, 14, 90),
    "tico19": (1000, 20, 120),
}  # rows, length
PLAIN = re.compile(
    r"[A-Za-z0-9 ,.'?!;:()*#…-]+"
)  # what an engine reads as a person does; and no code or path
CODE = re.compile(r"[a-z][A-Z]|\.\w{2,4}\b|--|\(\)")


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
    today = pd.concat(base.read(corpora, f) for f in PARTS["tatoeba"]["files"])
    seen = set(today.src.map(letters))
    pairs = base.english_pairs(pd.concat([today, base.read(corpora, PARTS["everyday"]["file"])]))
    english = {text: is_everyday_dev(text, seen) for text in pairs.target.unique()}
    pairs = pairs[pairs.target.map(english)]
    return base.both_sides(pairs).drop_duplicates(["id", "lang"]).reset_index(drop=True)


def in_bounds(table: pd.DataFrame) -> pd.DataFrame:
    most = table.lang.map(lambda lang: LONGEST_SWAHILI if lang == "swh_Latn" else LONGEST)
    unquoted = ~(
        table.text.str.contains('["\t]') | table.english.str.contains('["\t]')
    )  # plain TSV
    return table[table.text.str.len().between(SHORTEST, most) & unquoted]


def speech_rows(pairs: pd.DataFrame) -> pd.DataFrame:
    """X->eng pairs -> rows text, lang, english, the English itself included; one row for each text."""
    table = base.both_sides(pairs).rename(columns={"id": "english"})[["text", "lang", "english"]]
    # The English of Swahili is news and verses, which are not spoken here.
    of_swahili = pd.concat([pairs.source_lang, pairs.source_lang]) == "swh_Latn"  # of a row's pair
    table = table[~((table.lang == ENG) & of_swahili.to_numpy())]
    return in_bounds(table).drop_duplicates(["lang", "text"]).sample(frac=1, random_state=0)


def measured_pairs(corpora: Path, dev: dict[str, pd.DataFrame]) -> pd.DataFrame:
    pairs = pd.concat(
        [base.pairs_of_nway(dev[name], "id") for name in ("flores", "ntrex", "bible")]
    )
    swahili = pairs[pairs.source_lang == "swh_Latn"]
    return pd.concat([base.pairs_of_nway(everyday_table(corpora), "id"), swahili])


def training_pairs(corpora: Path, held_out: set[str]) -> pd.DataFrame:
    parts = [
        base.english_pairs(base.read(corpora, name)) for name in base.PARTS["tatoeba"]["files"]
    ]
    parts.append(base.english_pairs(base.read(corpora, base.PARTS["everyday"]["file"])))
    nway = [("flores_sib.parquet", "index_id", {"split": "train"}), ("ntrex.parquet", "id", {})]
    nway += [("tico19.parquet", "id", {}), ("bible.parquet", "verse_id", {"split": "train"})]
    for name, key, equal in nway:
        pairs = base.pairs_of_nway(base.read(corpora, name, **equal), key)
        parts.append(pairs[pairs.source_lang == "swh_Latn"])
    pairs = pd.concat(parts)
    source_is_held_out = pairs.source.map(letters).isin(held_out)
    target_is_held_out = pairs.target.map(letters).isin(held_out)
    return pairs[~(source_is_held_out | target_is_held_out)]


def other_rows(corpora: Path, held_out: set[str]) -> pd.DataFrame:
    """Sentences of pairs without English -> rows text, lang, english.

    The English is that of the other side in a pair with English, and else empty: the student then learns its own text.
    """
    pairs = base.read(corpora, "tatoeba_challenge_xx.parquet")
    sides = {"src_lang": "lang", "src": "text", "tgt_lang": "other_lang", "tgt": "other"}
    swapped = dict(zip(sides, ("other_lang", "other", "lang", "text"), strict=True))
    rows = pd.concat([pairs.rename(columns=sides), pairs.rename(columns=swapped)])
    rows = rows[rows.lang.isin(HEARD)]
    tables = [
        base.read(corpora, name)
        for name in (*base.PARTS["tatoeba"]["files"], base.PARTS["everyday"]["file"])
    ]
    known = pd.concat(tables).drop_duplicates(["tgt_lang", "tgt"])
    known = known.rename(columns={"tgt_lang": "other_lang", "tgt": "other", "src": "english"})
    # A sentence may have its English in another corpus, by the sentence beside it.
    rows = rows.merge(known[["other_lang", "other", "english"]], how="left").fillna({"english": ""})
    rows = rows.sort_values(
        "english", ascending=False, kind="stable"
    )  # of equal texts, the one with English stays
    rows = in_bounds(rows[["text", "lang", "english"]]).drop_duplicates(["lang", "text"])
    left = rows.text.map(letters).isin(held_out) | rows.english.map(letters).isin(held_out - {""})
    return rows[~left].sample(frac=1, random_state=2)


def manuals(corpora: Path, held_out: set[str]) -> pd.DataFrame:
    """Rows text, lang, english."""
    chosen: dict[str, str] = {}
    for name, (rows, shortest, longest) in MANUALS.items():
        table = base.read(corpora, f"{name}.parquet")
        table = table.rename(columns={"src": "text", "src_lang": "lang"})
        texts = table.text[table.lang == ENG].drop_duplicates().sample(frac=1, random_state=3)
        # Sentences that an engine reads as a person does: words, no code and no path.
        fit = (
            texts.str.len().between(shortest, longest)
            & texts.str.fullmatch(PLAIN)
            & ~texts.str.contains(CODE)
        )
        fit &= (texts.str.count(" ") >= 2) & (texts.str.count("[A-Za-z]") > 0.7 * texts.str.len())
        new: dict[str, str] = {}
        for text in texts[fit]:
            key = letters(text)
            if key not in held_out and key not in chosen:
                new[key] = text
        chosen |= dict(list(new.items())[:rows])
    texts = pd.Series(list(chosen.values())).sample(frac=1, random_state=0)
    return pd.DataFrame({"text": texts, "lang": ENG, "english": texts})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--english", type=int, default=16_000, help="sentences to train on")
    parser.add_argument("--others", type=int, default=8_000, help="the same of each other language")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    use_parts()
    base.LANGUAGES[:] = [*HEARD, *UNHEARD]
    dev = base.dev_tables(args.corpora)
    measured = measured_pairs(args.corpora, dev)
    held_out = {letters(text) for side in ("source", "target") for text in measured[side]}
    held_out |= {letters(text) for rows in dev.values() for text in rows.text}
    rows = speech_rows(measured)
    train = speech_rows(training_pairs(args.corpora, held_out))
    train = pd.concat([train, other_rows(args.corpora, held_out)]).drop_duplicates(["lang", "text"])
    parts = []
    for lang in HEARD:
        parts.append(train[train.lang == lang].head(args.english if lang == ENG else args.others))
    train = pd.concat(parts).sample(frac=1, random_state=1)
    rows = rows.drop_duplicates(["lang", "english"])  # as many candidates as rows
    test = pd.concat(rows[rows.lang == lang].head(TEST) for lang in (*HEARD, *UNHEARD))
    rest = rows[~rows.text.isin(test.text)]
    small = pd.concat(rest[rest.lang == lang].head(DEV) for lang in HEARD)
    tables = {"test": test, "manuals": manuals(args.corpora, held_out)}
    for name, table in (("train", train), ("dev", small)):
        by_kokoro = table.lang.isin(KOKORO)
        tables[name] = table[~by_kokoro]
        tables[f"kokoro_{name}"] = table[by_kokoro]
    for name, table in tables.items():
        table.to_csv(args.out / f"{name}.tsv", sep="\t", index=False)
        print(name, len(table), table.lang.value_counts().to_dict())


if __name__ == "__main__":
    main()
