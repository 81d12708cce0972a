"""How well models find everyday sentences, encyclopaedia and news: one table by group of languages
and length.

    python train_scripts/studies/echo_nano_report.py outputs/echo-nano/data hf_echo/pretrained/echo-nano CHECKPOINT

The dev sets are those of the recipe echo-nano/00_data. Figures are percent wrong, X to English; an
equal text is right. Each language is searched among the same number of English sentences: its own
and, if it has fewer, others of the set. Means are over languages with at least 20 sentences; means
by length are over sentences. A language that a model was not trained on is read with the prompt
"Unspecified language".
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import yaml
from study_parts import command_line, english_of

from hf_echo.evaluation.report.models import minilm_folder
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.inference.encoders import tfidf_encoder
from hf_echo.languages import ENGLISH
from hf_echo.search.margin import best_matches
from hf_echo.utils.files import read_json, write_json
from hf_echo.utils.results import markdown_table

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


def in_order(ids: Iterable[Any]) -> list[Any]:
    """A fixed order that has nothing to do with the texts."""
    return sorted(ids, key=lambda text: hashlib.sha256(str(text).encode()).digest())


def candidates(asked: list[str], every_id: list[str], number: int) -> list[str]:
    """Ids to search: the first `number` of a language's own, filled up with others;
    the own ones come first."""
    pool = dict.fromkeys([*asked[:number], *every_id])
    return list(pool)[:number]


def search(
    encode: Callable,
    rows: pd.DataFrame,
    number: int,
    margins: Sequence[str | None] = (None, "ratio"),
    cut: Sequence[int] = (),
) -> pd.DataFrame:
    """One row for each sentence that is searched: lang, id, words (of the English) and wrong by
    each margin, and by the cosine of the first so many dimensions (`cut`)."""
    english = english_of(rows)
    every_id = in_order(english.index)
    # Of each language: the ids that are searched, and those among which.
    asked: dict[str, list[str]] = {}
    pools: dict[str, list[str]] = {}
    for lang, group in rows[rows.lang != ENGLISH].groupby("lang", sort=True):
        ids_with_english = group.id[group.id.isin(english.index)]
        asked[lang] = in_order(ids_with_english)[:number]
        pools[lang] = candidates(asked[lang], every_id, number)
    # Each English sentence is encoded once for all languages.
    needed = list(dict.fromkeys(chain.from_iterable(pools.values())))
    places = pd.Series(range(len(needed)), index=needed)
    english_vectors = encode(english[needed].tolist(), ENGLISH)
    tables = []
    for lang, ids in asked.items():
        texts = rows[rows.lang == lang].set_index("id").text
        x = encode(texts[ids].tolist(), lang)
        y = english_vectors[places[pools[lang]].to_numpy()]
        right = english[ids].to_numpy()
        offered = english[pools[lang]].to_numpy()
        words = [len(text.split()) for text in right]
        table = pd.DataFrame({"lang": lang, "id": ids, "words": words})
        for margin in margins:
            table[margin or "cosine"] = offered[best_matches(x, y, margin)] != right
        for size in cut:
            table[str(size)] = offered[best_matches(x[:, :size], y[:, :size], None)] != right
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def by_group(table: pd.DataFrame, column: str = "cosine") -> dict[str, tuple[float, int]]:
    """{group: (mean over its languages, percent wrong; how many languages counted)}."""
    of_languages = table.groupby("lang")[column].agg(["mean", "size"])
    errors = 100 * of_languages["mean"][of_languages["size"] >= LEAST]
    means = {}
    for name, group in GROUPS.items():
        in_group = errors[errors.index.isin(group)]
        if len(in_group):
            means[name] = (float(in_group.mean()), len(in_group))
    return means


def by_length(table: pd.DataFrame, languages: list[str]) -> dict[str, tuple[float, int]]:
    """{words: (percent wrong over all sentences of these languages, how many sentences)}."""
    table = table[table.lang.isin(languages)]
    errors = {}
    for name, ends in LENGTHS.items():
        part = table[table.words.between(*ends)]
        if len(part):
            errors[name] = (100 * float(part["cosine"].mean()), len(part))
    return errors


def opened(name: str, texts: list[str]) -> Callable:
    """The encoder of a folder, "minilm" or "tfidf" (fitted on `texts`);
    it names only languages that it knows."""
    if name == "tfidf":
        return tfidf_encoder(texts)
    encode = loaded(name)
    config = Path(name) / "config.json"
    languages = read_json(config).get("languages") if config.exists() else None
    if not languages:
        return encode
    return lambda texts, lang: encode(texts, lang if lang in languages else None)


@lru_cache(maxsize=1)
def loaded(name: str) -> Callable:
    return any_encoder(minilm_folder() if name == "minilm" else name)


class Key(NamedTuple):
    """What a figure is of: `group` is a group of languages or one language, `part` the vectors that
    were compared, or the sentences of one length; None for a language by itself."""

    set_name: str
    group: str
    counted: str
    part: str | None = None


def measure(folder: str, data: Path) -> Iterator[tuple[Key, float]]:
    """Yield the percent that is wrong by set and group, by length, by language."""
    cut = () if folder == "tfidf" else DIMENSIONS
    for name, number in SETS.items():
        rows = pd.read_parquet(data / f"dev_{name}.parquet")
        encode = opened(folder, rows.text.tolist())
        table = search(encode, rows, number, cut=cut)
        _, _, _, *ways = table.columns  # behind lang, id and words
        for way in ways:
            for group, (wrong, count) in by_group(table, way).items():
                yield Key(name, group, f"{count} languages", way), wrong
        if name == "everyday":
            for group in ("12", "41", "all (104)"):
                for words, (wrong, count) in by_length(table, GROUPS[group]).items():
                    yield Key(name, group, f"{words} words", f"{count} sentences"), wrong
        if name in ("everyday", "flores"):
            for lang, of_language in table.groupby("lang"):
                wrong = 100 * float(of_language.cosine.mean())
                yield Key(name, lang, f"{len(of_language)} sentences"), wrong


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("data", type=Path, help="folder of the recipe echo-nano/00_data")
    parser.add_argument(
        "models",
        nargs="+",
        help="folders of Echo checkpoints or SentenceTransformers, minilm, tfidf",
    )
    parser.add_argument("--out", type=Path, help="write the figures of all models as JSON too")
    args = parser.parse_args()
    figures = {}
    for model in args.models:
        figures[model] = {}
        for key, wrong in measure(model, args.data):
            figures[model][", ".join(filter(None, key))] = wrong
    if args.out:
        write_json(args.out, figures)
    table = pd.DataFrame(figures).map("{:.1f}".format, na_action="ignore").fillna("")
    print(markdown_table(["set", *table.columns], table.reset_index().to_numpy()))


if __name__ == "__main__":
    main()
