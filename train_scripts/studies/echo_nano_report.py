"""How well models find everyday sentences, encyclopaedia and news: one table by group of languages and length.

    python train_scripts/studies/echo_nano_report.py outputs/echo-nano/data hf_echo/pretrained/echo-nano CHECKPOINT

The dev sets are those of the recipe echo-nano/00_data. Figures are percent wrong, X to English; an equal text is right.
Each language is searched among the same number of English sentences: its own and, if it has fewer, others of the set.
Means are over languages with at least 20 sentences; means by length are over sentences. A language that a model was not
trained on is read with the prompt "Unspecified language".
"""

import argparse
import hashlib
import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import pandas as pd
import yaml

from hf_echo.evaluation.report.models import minilm_folder
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.inference.encoders import tfidf_encoder
from hf_echo.search.margin import best_matches

ENG = "eng_Latn"
PARTS = yaml.safe_load((Path(__file__).parents[1] / "recipes" / "echo_nano_dev.yaml").read_text())
TWELVE = [
    *("fra_Latn", "deu_Latn", "spa_Latn", "rus_Cyrl", "zho_Hans", "jpn_Jpan"),
    *("arb_Arab", "hin_Deva", "tur_Latn", "swh_Latn", "fin_Latn", "vie_Latn"),
]
FORTY_ONE = [*PARTS["languages"], *PARTS["new_languages"]]
GROUPS = {
    "12": TWELVE,
    "41": FORTY_ONE,
    "joined last (12)": PARTS["extension_languages"],
    "new (51)": PARTS["more_languages"],
    "all (104)": [*FORTY_ONE, *PARTS["extension_languages"], *PARTS["more_languages"]],
}
SETS = {"everyday": 300, "flores": 99, "ntrex": 259, "wmt": 500}
LENGTHS = {"1-5": (1, 5), "6-10": (6, 10), "11-20": (11, 20), "21+": (21, 10_000)}
LEAST = 20  # sentences of a language that counts
DIMENSIONS = (256, 128)  # of cut embeddings (`truncate_dim`)


def in_order(ids) -> list[str]:
    """A fixed order that has nothing to do with the texts."""
    return sorted(ids, key=lambda text: hashlib.sha256(str(text).encode()).digest())


def candidates(own: list[str], everything: list[str], number: int) -> list[str]:
    """Ids to search: the first `number` of a language's own, filled up with others; the own ones come first."""
    own = own[:number]
    known = set(own)
    return own + [other for other in everything if other not in known][: number - len(own)]


def search(encode: Callable, rows: pd.DataFrame, number: int, margins=(None, "ratio"), cut=()) -> pd.DataFrame:
    """One row for each sentence that is searched: lang, id, words (of the English) and wrong by each margin, and by the
    cosine of the first so many dimensions (`cut`)."""
    english = rows[rows.lang == ENG].set_index("id").text
    everything, pools = in_order(english.index), {}
    for lang, group in rows[rows.lang != ENG].groupby("lang", sort=True):
        own = in_order(i for i in group.id if i in english.index)[:number]
        pools[lang] = own, candidates(own, everything, number)
    needed = list(dict.fromkeys(i for _, pool in pools.values() for i in pool))
    vectors, place = encode(english[needed].tolist(), ENG), {i: at for at, i in enumerate(needed)}
    found = []
    for lang, (own, pool) in pools.items():
        text = rows[rows.lang == lang].set_index("id").text
        x, y = encode(text[own].tolist(), lang), vectors[[place[i] for i in pool]]
        right, offered = english[own].to_numpy(), english[pool].to_numpy()
        table = pd.DataFrame({"lang": lang, "id": own, "words": [len(t.split()) for t in right]})
        for margin in margins:
            table[margin or "cosine"] = offered[best_matches(x, y, margin)] != right
        for size in cut:
            table[str(size)] = offered[best_matches(x[:, :size], y[:, :size], None)] != right
        found.append(table)
    return pd.concat(found, ignore_index=True)


def by_group(table: pd.DataFrame, column: str = "cosine") -> dict[str, float]:
    """{group: mean over its languages, percent wrong}, and how many languages counted."""
    languages = table.groupby("lang")[column].agg(["mean", "size"])
    languages = languages[languages["size"] >= LEAST]["mean"] * 100
    return {
        name: (float(own.mean()), len(own))
        for name, group in GROUPS.items()
        if len(own := languages[languages.index.isin(group)])
    }


def by_length(table: pd.DataFrame, languages: list[str], column: str = "cosine") -> dict[str, tuple[float, int]]:
    """{words: (percent wrong over all sentences of these languages, how many sentences)}."""
    table = table[table.lang.isin(languages)]
    parts = {name: table[table.words.between(*ends)] for name, ends in LENGTHS.items()}
    return {name: (100 * float(part[column].mean()), len(part)) for name, part in parts.items() if len(part)}


def known_languages(folder: str) -> set[str] | None:
    config = Path(folder) / "config.json"
    found = json.loads(config.read_text()).get("languages") if config.exists() else None
    return set(found) if found else None


def opened(name: str, texts: list[str]) -> Callable:
    """The encoder of a folder, "minilm" or "tfidf" (fitted on `texts`); it names only languages that it knows."""
    encode, known = tfidf_encoder(texts) if name == "tfidf" else loaded(name), known_languages(name)
    return lambda texts, lang: encode(texts, lang if known is None or lang in known else None)


@lru_cache(maxsize=1)
def loaded(name: str) -> Callable:
    return any_encoder(minilm_folder() if name == "minilm" else name)


def measure(folder: str, data: Path) -> dict[str, dict[str, float]]:
    """{row of the table: percent wrong}."""
    values = {}
    for name, number in SETS.items():
        rows = pd.read_parquet(data / f"dev_{name}.parquet")
        encode = opened(folder, rows.text.tolist())
        table = search(encode, rows, number, cut=() if folder == "tfidf" else DIMENSIONS)
        for column in table.columns[3:]:
            for group, (wrong, count) in by_group(table, column).items():
                values[f"{name}, {group}, {count} languages, {column}"] = wrong
        if name == "everyday":
            for group in ("12", "41", "all (104)"):
                for words, (wrong, count) in by_length(table, GROUPS[group]).items():
                    values[f"everyday, {group}, {words} words, {count} sentences"] = wrong
        if name in ("everyday", "flores"):
            for lang, wrong in (table.groupby("lang").cosine.mean() * 100).items():
                values[f"{name}, {lang}, {int((table.lang == lang).sum())} sentences"] = float(wrong)
    return values


def table_of(found: dict[str, dict[str, float]]) -> str:
    """Markdown, a column for each model."""
    lines = ["| set | " + " | ".join(found) + " |", "|---" + "|--:" * len(found) + "|"]
    rows = dict.fromkeys(row for values in found.values() for row in values)
    for row in rows:
        lines.append(f"| {row} | " + " | ".join(f"{v[row]:.1f}" if row in v else "" for v in found.values()) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of the recipe echo-nano/00_data")
    parser.add_argument("models", nargs="+", help="folders of Echo checkpoints or SentenceTransformers, minilm, tfidf")
    parser.add_argument("--out", type=Path, help="write the figures of all models as JSON too")
    args = parser.parse_args()
    found = {model: measure(model, args.data) for model in args.models}
    if args.out:
        args.out.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(table_of(found))


if __name__ == "__main__":
    main()
