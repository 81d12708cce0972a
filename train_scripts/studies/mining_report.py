"""Bitext mining as BUCC measures it: held-out pairs hidden among sentences without a partner, found again by margin.

    python train_scripts/studies/mining_report.py CORPORA outputs/nano-real/data MODEL --out outputs/mining

Each language has two pairs of collections: the threshold is chosen on one and the figures are measured on the other.
The right pairs come from nano-real's dev parts. The other sentences come from the training text of the same corpora,
each without its translation, so nano-real has seen them in training. The corpora link none of these English sentences
with a foreign one of the collection, directly or through another translation; paraphrases that they do not link count
as errors. MODEL is a folder, a name on the Hub, or minilm.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from hf_echo.evaluation.report.models import minilm_folder
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.search import MinedPairs, best_threshold, bucc_f1, mine_files

sys.path.append(str(Path(__file__).parents[1] / "corpora"))
from nano_real_data import ENG, LANGUAGES, english_pairs, pairs_of_nway, read

SHARE = 0.02  # of a collection that has a partner
ORDER = {
    "ntrex": 0,
    "flores": 0,
    "bible": 1,
    "tatoeba": 1,
    "docs": 2,
}  # manuals, of which dev has none, only fill up
WORDS = 3  # an English sentence shorter than that is a name or an exclamation
COLUMNS = [
    "model",
    "language",
    "sentences a side",
    "right pairs",
    "threshold",
    "precision",
    "recall",
    "F1",
    "encode CPU s",
    "search CPU s",
]


def partnered(data: Path, lang: str) -> pd.DataFrame:
    """source, target of every dev part that has the language."""
    tables = [pd.read_parquet(data / f"dev_{n}.parquet") for n in ("ntrex", "flores", "bible", "tatoeba")]
    return once(pd.concat(pairs_of_nway(table[table.lang.isin([lang, ENG])], "id") for table in tables))


def training_pairs(corpora: Path, dev: set[str]) -> pd.DataFrame:
    """All languages' pairs with English, by corpus: those of the dev parts, and manuals. Without texts of dev."""
    bible = pd.concat([read(corpora, f, split="train") for f in ("bible.parquet", "bible_more.parquet")])
    tatoeba = pd.concat([read(corpora, f"tatoeba_{name}.parquet") for name in ("pairs", "more")])
    parts = {
        "ntrex": pairs_of_nway(read(corpora, "ntrex.parquet"), "id"),
        "flores": pairs_of_nway(read(corpora, "flores_sib.parquet", split="train"), "index_id"),
        "bible": pairs_of_nway(bible, "verse_id"),
        "tatoeba": english_pairs(tatoeba),
        "docs": english_pairs(read(corpora, "docs_parallel.parquet")),
    }
    table = pd.concat([part.assign(corpus=name) for name, part in parts.items()], ignore_index=True)
    table = table[table.target.str.count(" ") >= WORDS - 1]
    return table[~table.source.map(folded).isin(dev) & ~table.target.map(folded).isin(dev)]


def once(pairs: pd.DataFrame) -> pd.DataFrame:
    pairs = pairs.assign(**{c: pairs[c].str.split().str.join(" ") for c in ("source", "target")})
    return pairs.drop_duplicates("source").drop_duplicates("target")


def folded(text: str) -> str:
    return " ".join(text.lower().split())


def without_partner(pairs: pd.DataFrame, lang: str, count: int) -> tuple[list[str], list[str]]:
    """At most `count` foreign sentences, and as many English ones of the same corpora."""
    shuffled = pairs.sample(frac=1, random_state=1)
    shuffled = shuffled.sort_values("corpus", key=lambda c: c.map(ORDER), kind="stable")
    own = shuffled[shuffled.source_lang == lang].drop_duplicates("source")
    foreign = own[own.groupby("corpus").cumcount() % 2 == 0].head(count)  # leaves English of each corpus
    english = set(foreign.target)
    for _ in range(2):  # translations of translations
        english |= set(pairs.target[pairs.source.isin(set(pairs.source[pairs.target.isin(english)]))])
    rest = shuffled[~shuffled.target.isin(english)].drop_duplicates("target")
    wanted = foreign.corpus.value_counts()
    same = rest[rest.groupby("corpus").cumcount() < rest.corpus.map(wanted).fillna(0)]
    rest = pd.concat([same, rest.drop(same.index)])
    return foreign.source.tolist(), rest.target.head(len(foreign)).tolist()


def collections(pairs: pd.DataFrame, gold: pd.DataFrame, lang: str, most: int) -> list[tuple]:
    """Two of (foreign lines, English lines, right pairs as rows): one to choose on, one to measure on."""
    gold = gold.sample(frac=1, random_state=0).head(2 * int(most * SHARE))
    foreign, english = without_partner(pairs, lang, int(len(gold) / SHARE) - len(gold))
    rng, made = np.random.default_rng(2), []
    for half in range(2):
        right, sides, places = gold[half::2], [], []
        for texts, others in ((right.source, foreign[half::2]), (right.target, english[half::2])):
            texts = list(dict.fromkeys([*texts, *(" ".join(text.split()) for text in others)]))
            order = rng.permutation(len(texts))
            sides.append([texts[i] for i in order])
            places.append(np.argsort(order)[: len(right)].tolist())
        made.append((*sides, set(zip(*places, strict=True))))
    return made


def mined(encode, foreign: list[str], english: list[str], lang: str, place: Path) -> tuple[MinedPairs, dict]:
    """What `hf-echo mine` finds, as rows of the two lists; and the CPU seconds it took."""
    place.mkdir(parents=True, exist_ok=True)
    for name, texts in ((lang, foreign), (ENG, english)):
        (place / f"{name}.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    spent = [0.0]

    def timed(texts, code):
        start = time.process_time()
        vectors = encode(texts, code)
        spent[0] += time.process_time() - start
        return vectors

    start = time.process_time()
    files = (place / f"{lang}.txt", place / f"{ENG}.txt", place / "pairs.tsv")
    mine_files(*files, timed, source_lang=lang, target_lang=ENG)
    seconds = {"encode CPU s": spent[0], "search CPU s": time.process_time() - start - spent[0]}
    lines = [line.split("\t") for line in files[2].read_text(encoding="utf-8").rstrip("\n").split("\n")[1:]]
    rows = [{text: row for row, text in enumerate(texts)} for texts in (foreign, english)]
    found = MinedPairs(
        np.array([float(score) for score, _, _ in lines]),
        np.array([rows[0][source] for _, source, _ in lines]),
        np.array([rows[1][target] for _, _, target in lines]),
    )
    return found, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path, help="folder with bible.parquet, ntrex.parquet, ...")
    parser.add_argument("data", type=Path, help="folder of dev_*.parquet (nano_real_data.py)")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--out", type=Path, required=True, help="embeddings and mined pairs")
    parser.add_argument("--lang", nargs="+", default=["fra_Latn", "deu_Latn", "rus_Cyrl", "zho_Hans"])
    parser.add_argument("--most", type=int, default=15_000, help="sentences on a side of a collection")
    args = parser.parse_args()
    if unknown := set(args.lang) - set(LANGUAGES):
        parser.error(f"no {', '.join(sorted(unknown))} among nano-real's languages: {', '.join(LANGUAGES)}")
    gold = {lang: partnered(args.data, lang) for lang in args.lang}
    tables = [pd.read_parquet(file, columns=["text"]) for file in sorted(args.data.glob("dev_*.parquet"))]
    pairs = training_pairs(args.corpora, {folded(text) for table in tables for text in table.text})
    rows = []
    for name in args.models:
        encode = any_encoder(minilm_folder() if name == "minilm" else name)
        for lang in args.lang:
            choose, measure = collections(pairs, gold[lang], lang, args.most)
            place = args.out / Path(name).name / lang
            found, _ = mined(encode, *choose[:2], lang, place / "choose")
            threshold = best_threshold(found, choose[2]).threshold
            found, seconds = mined(encode, *measure[:2], lang, place / "measure")
            score = bucc_f1(found.above(threshold).pairs(), measure[2])
            cells = [Path(name).name, lang, len(measure[0]), score.gold, threshold]
            cells += [score.precision, score.recall, score.f1]
            rows.append(dict(zip(COLUMNS, [*cells, *seconds.values()], strict=True)))
            print(json.dumps(rows[-1]))
    (args.out / "mining.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    print("| " + " | ".join(COLUMNS) + " |\n|---|---" + "|---:" * (len(COLUMNS) - 2) + "|")
    for row in rows:
        threshold = f"{row['threshold']:.3f}"
        cells = [f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in row.values()]
        cells[4] = threshold
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
