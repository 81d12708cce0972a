"""Measure a release of echo-nano for its card: search, hard negatives, translation, topics, space, speed.

    hf-echo train echo-nano
    python train_scripts/studies/echo_nano_figures.py outputs/echo-nano/09_release CORPORA \\
        --out outputs/echo-nano/results.json
    hf-echo train echo-nano/09_release card=echo_nano.md.j2 results=outputs/echo-nano/results.json

The last command writes the figures into the card. Reads outputs/echo-nano/data/dev_*.parquet and the SIB topics of
CORPORA. Speed is that of this machine, peak memory that of this process.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import torch
from echo_nano_report import ENG, FORTY_ONE, SETS, TWELVE, in_order, measure

from hf_echo.evaluation import evaluate_geometry, evaluate_xsim, measure_speed, translation_scores
from hf_echo.evaluation.probes.downstream import evaluate_classification
from hf_echo.inference import load_translator, translate
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.modeling.precision_echo import bf16_is_faster
from hf_echo.negatives.rules import hard_negatives_for

SENTENCES = 60  # translated per language
EXAMPLES = 10
MOST_TOKENS = 60  # of a translation


def hard_negatives(encode, data: Path) -> tuple[dict[str, float], dict[str, float]]:
    """{set: xsim++ in percent}, mean of the twelve languages, with five negatives by rule per English sentence; and
    {kind: percent of the sentences with a negative of this kind that chose it}, over all sets."""
    found: dict[str, float] = {}
    chosen, offered = Counter(), Counter()
    for name in ("everyday", "flores", "ntrex"):
        table = pd.read_parquet(data / f"dev_{name}.parquet")
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
    return found, {kind: 100 * chosen[kind] / number for kind, number in offered.most_common()}


def translation(checkpoint: Path, data: Path) -> dict:
    """chrF++ and BLEU into English of the decoder (as set and greedy), of the source itself and the nearest of
    100,000 training sentences, in the twelve languages; and examples drawn by a fixed order that ignores the texts."""
    model, tokenizer = load_translator(checkpoint, dtype="fp32")
    encode = any_encoder(str(checkpoint))
    pool = pd.read_parquet(data / "train_decoder.parquet", columns=["target"]).target.drop_duplicates()
    pool = pool.sample(min(len(pool), 100_000), random_state=0).tolist()
    known = torch.nn.functional.normalize(torch.tensor(np.asarray(encode(pool, ENG))), dim=1)
    found: dict = {"sets": {}}
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
    """A probe trained on French (SIB train), accuracy and cross-lingual transfer on SIB dev, in 41 languages."""
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
    texts = (news[news.lang == ENG].text.tolist() * 40)[:8000]
    found = measure_speed(encode, texts, ENG, rounds=3)
    model, tokenizer = load_translator(checkpoint)

    def run(batch, lang, num_beams=None):
        return translate(model, tokenizer, batch, lang, ENG, num_beams=num_beams, max_new_tokens=MOST_TOKENS)

    translated = measure_speed(run, texts[:256], ENG, rounds=1)
    greedy = measure_speed(partial(run, num_beams=1), texts[:256], ENG, rounds=1)
    return {
        "encode": speeds(found),
        "translate": speeds(translated),
        "translate_greedy": speeds(greedy),
        "threads": torch.get_num_threads(),
        "dtype": "bf16" if bf16_is_faster() else "fp32",
    }


def speeds(found) -> dict[str, float]:
    return {"sentences_per_second": found.sentences_per_second, "peak_memory_mib": found.peak_memory}


def search(checkpoint: Path, data: Path) -> dict:
    """Figures of echo_nano_report.py as rows for the card: by set and group, by length, by language."""
    values = {tuple(key.split(", ")): value for key, value in measure(str(checkpoint), data).items()}
    rows: dict[tuple[str, str], dict] = {}
    for key, value in values.items():
        if key[-1] in ("cosine", "ratio"):
            row = rows.setdefault(key[:2], {"set": key[0], "group": key[1], "counted": key[2]})
            row[key[-1]] = value
    lengths = [{"group": k[1], "words": k[2], "wrong": value} for k, value in values.items() if k[2].endswith(" words")]
    languages = {key[1]: value for key, value in values.items() if len(key) == 3 and "_" in key[1]}
    return {"rows": list(rows.values()), "lengths": lengths, "everyday_languages": dict(sorted(languages.items()))}


def report(model: Path, corpora: Path, data: Path) -> dict:
    """Everything above for one release."""
    encode = any_encoder(str(model))
    found: dict = {"speed": speed(encode, model, data)}  # first: peak memory is that of the process so far
    found["search"] = search(model, data)
    found["xsimpp"], found["errors_by_kind"] = hard_negatives(encode, data)
    found["topics"] = topics(encode, corpora)
    found["geometry"] = geometry(encode, data)
    found["translation"] = translation(model, data)
    train = data / "train.parquet"
    digest = hashlib.sha256(train.read_bytes()).hexdigest()
    return found | {"train": {"pairs": pq.read_metadata(train).num_rows, "sha256": digest}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder of a release")
    parser.add_argument("corpora", type=Path, help="folder with flores_sib.parquet")
    parser.add_argument("--data", type=Path, default=Path("outputs/echo-nano/data"))
    parser.add_argument("--out", type=Path, required=True, help="JSON file of the figures")
    args = parser.parse_args()
    found = report(args.model, args.corpora, args.data)
    text = json.dumps(found, indent=2, ensure_ascii=False, default=float) + "\n"
    args.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
