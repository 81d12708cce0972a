"""Measure echo-nano and echo-static on the dev parts: search, topics, translation, geometry, speed.

    python train_scripts/studies/echo_nano_report.py outputs/echo-static/release CORPORA \\
        --out outputs/echo-static/results.json
    python train_scripts/studies/echo_nano_report.py outputs/echo-nano/release CORPORA --decoder \\
        --static outputs/echo-static/results.json --steps outputs/echo-nano --out outputs/echo-nano/results.json

The release steps of recipes/echo-static and recipes/echo-nano write these files into the cards. Reads one checkpoint,
outputs/echo/data/dev_*.parquet and the SIB topics of CORPORA. xsim in percent (cosine, X->eng, the same text counts as
right), as the mean of all 41 languages and of the twelve that the goals name. Speed is that of this machine, peak
memory that of this process.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import torch
from everyday_report import ENG, TWELVE
from sentence_transformers import SentenceTransformer

from hf_echo.data import load_nway
from hf_echo.evaluation import evaluate_geometry, evaluate_xsim, measure_speed, translation_scores
from hf_echo.evaluation.probes.downstream import evaluate_classification
from hf_echo.inference import load_translator, translate
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.inference.encode import has_fast_bf16
from hf_echo.inference.encoders import sentence_transformer_encoder
from hf_echo.synthesis import hard_negatives_for

SETS = ("flores", "ntrex", "bible", "tatoeba")


def mean_of_twelve(rows: list[dict], column: str) -> float:
    return float(np.mean([row[column] for row in rows if row["lang"] in TWELVE]))


def search(encode, data: Path, negatives: int = 0) -> dict:
    """{set: {"all", "twelve", "languages", "ratio" (all and twelve, by ratio margin), xsimpp with negatives}}."""
    found = {}
    for name in SETS:
        rows = load_nway(str(data / f"dev_{name}.parquet"))
        made = None
        if negatives:
            english = {row["id"]: row["text"] for row in rows if row["lang"] == ENG}
            made = {k: n for k, n in zip(english, hard_negatives_for(list(english.values()), negatives)) if n}
        table = evaluate_xsim(encode, rows, negatives=made, same_text_is_right=True)
        found[name] = {
            "all": table.average["xsim"],
            "twelve": mean_of_twelve(table.rows, "xsim"),
            "languages": {row["lang"]: row["xsim"] for row in table.rows},
            "candidates": max(row["count"] for row in table.rows),
        }
        ratio = evaluate_xsim(encode, rows, margin="ratio", same_text_is_right=True)
        found[name]["ratio"] = ratio.average["xsim"]
        found[name]["ratio_twelve"] = mean_of_twelve(ratio.rows, "xsim")
        if made:
            found[name]["xsimpp"] = table.average["xsimpp"]
            found[name]["xsimpp_twelve"] = mean_of_twelve(table.rows, "xsimpp")
    return found


def extension(encode, data: Path) -> dict[str, dict[str, float]]:
    """{set: {language: xsim}} of the languages that joined last, best first."""
    found = {}
    for name in ("flores", "ntrex"):
        table = evaluate_xsim(encode, load_nway(str(data / f"dev_extension_{name}.parquet")), same_text_is_right=True)
        found[name] = dict(sorted(((row["lang"], row["xsim"]) for row in table.rows), key=lambda item: item[1]))
    return found


def topics(encode, corpora: Path, languages: list[str]) -> dict:
    """A probe trained on French (SIB train), accuracy and cross-lingual transfer on SIB dev."""
    table = pd.read_parquet(corpora / "flores_sib.parquet")
    table = table[table.lang.isin([*languages, ENG])].rename(columns={"category": "label"})
    parts = (table[table.split == split].to_dict("records") for split in ("train", "dev"))
    return evaluate_classification(encode, *parts, train_lang="fra_Latn").average


def unseen(encode, corpora: Path, languages: list[str]) -> dict[str, float]:
    """xsim of the other languages in scripts that were trained on, FLORES dev, no language given, best first."""
    table = pd.read_parquet(corpora / "flores_sib.parquet").query("split == 'dev'").rename(columns={"index_id": "id"})
    scripts = {lang.split("_")[1] for lang in languages}
    new = table.lang.str.split("_").str[1].isin(scripts) & ~table.lang.isin(languages)
    rows = table[new | (table.lang == ENG)].to_dict("records")
    found = evaluate_xsim(lambda texts, lang: encode(texts, None), rows, same_text_is_right=True)
    return dict(sorted(((row["lang"], row["xsim"]) for row in found.rows), key=lambda item: item[1]))


def translation(checkpoint: Path, data: Path, train: Path, sentences: int = 40) -> dict:
    """chrF++ into English of the decoder, of the source itself, and of the nearest training sentence."""
    model, tokenizer = load_translator(checkpoint, dtype="fp32")
    encode = any_encoder(str(checkpoint))
    rows = pd.DataFrame(load_nway(str(data / "dev_flores.parquet")))
    english = rows[rows.lang == ENG].set_index("id").text
    pool = pd.read_parquet(train, columns=["target"]).target.drop_duplicates()
    pool = pool.sample(min(len(pool), 100_000), random_state=0).tolist()
    known = torch.nn.functional.normalize(torch.tensor(np.asarray(encode(pool, ENG))), dim=1)
    outputs = {"decoder": [], "source": [], "nearest": []}
    references, examples, scripts = [], [], []
    for lang, group in rows[rows.lang != ENG].groupby("lang", sort=True):
        group = group[group.id.isin(english.index)][:sentences]
        texts = group.text.tolist()
        found = list(translate(model, tokenizer, texts, lang, ENG, max_new_tokens=60))
        hits = (torch.tensor(np.asarray(encode(texts, lang))) @ known.T).argmax(1)
        outputs["decoder"] += found
        outputs["source"] += texts
        outputs["nearest"] += [pool[i] for i in hits]
        references += [english[i] for i in group.id]
        scripts += [lang.split("_")[1]] * len(texts)
        examples.append(
            {"lang": lang, "source": texts[0], "translation": found[0], "reference": references[-len(texts)]}
        )
    latin = np.array(scripts) == "Latn"
    scores = {
        of: {name: chrf(np.array(lines)[rows], np.array(references)[rows]) for name, lines in outputs.items()}
        for of, rows in {"all": latin | True, "latin": latin, "other": ~latin}.items()
    }
    return {"chrf": scores, "sentences": len(references), "examples": examples[:10]}


def chrf(lines: np.ndarray, references: np.ndarray) -> float:
    return translation_scores(lines.tolist(), references.tolist(), spbleu=False).chrf


def geometry(encode, data: Path) -> dict:
    rows = pd.DataFrame(load_nway(str(data / "dev_flores.parquet")))
    ids = sorted(set.intersection(*(set(group.id) for _, group in rows.groupby("lang"))))
    parts = []
    for lang, group in rows.groupby("lang"):
        parts.append((lang, np.asarray(encode(group.set_index("id").text[ids].tolist(), lang))))
    found = evaluate_geometry(parts)
    values = found.singular_values / found.singular_values[0]
    row = {key: found.to_row()[key] for key in ("dimensions", "feature_std", "spread", "effective_rank", "isotropy")}
    return row | {"one_over_sqrt_dim": found.dimensions**-0.5, "least_singular_value": float(values.min())}


def speed(encode, checkpoint: Path | None, texts: list[str]) -> dict:
    found = measure_speed(encode, texts, ENG, rounds=3)
    rows = {"encode": {"sentences_per_second": found.sentences_per_second, "peak_memory_mib": found.peak_memory}}
    if checkpoint is not None:
        model, tokenizer = load_translator(checkpoint)
        run = measure_speed(
            lambda batch, lang: list(translate(model, tokenizer, batch, lang, ENG, max_new_tokens=60)),
            texts[:256],
            ENG,
            rounds=1,
        )
        rows["translate"] = {
            "sentences_per_second": run.sentences_per_second,
            "peak_memory_mib": run.peak_memory,
        }
    return rows | {"threads": torch.get_num_threads(), "dtype": "bf16" if has_fast_bf16() else "fp32"}


def report(model: Path, corpora: Path, data: Path, decoder: bool = False) -> dict:
    """Everything above for one checkpoint, a SentenceTransformer or an Echo checkpoint."""
    encode = any_encoder(str(model))
    news = pd.DataFrame(load_nway(str(data / "dev_ntrex.parquet")))
    texts = (news[news.lang == ENG].text.tolist() * 40)[:8000]
    # The larger a batch of static embeddings, the faster. First of all: peak memory is that of the process so far.
    static = None if decoder else sentence_transformer_encoder(SentenceTransformer(str(model)), batch_size=1024)
    found: dict = {"speed": speed(static or encode, model if decoder else None, texts)}
    found["search"] = search(encode, data, negatives=5)
    languages = sorted(found["search"]["flores"]["languages"])
    if decoder:  # echo-static has not seen them
        found["extension"] = extension(encode, data)
        languages += found["extension"]["flores"]
    found["twelve"], found["train"] = TWELVE, train_rows(data / "train.parquet")
    found["topics"] = topics(encode, corpora, languages)
    found["unseen"] = unseen(encode, corpora, languages)
    found["geometry"] = geometry(encode, data)
    if decoder:
        found["translation"] = translation(model, data, data / "train_strict.parquet")
    return found


def train_rows(file: Path) -> dict:
    """Distinct pairs of the training data, and the SHA-256 of the file."""
    return {"pairs": pq.read_metadata(file).num_rows, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}


def earlier_steps(steps: Path, data: Path) -> dict:
    """What hard negatives and the extension change: figures of the steps before them."""
    found = search(any_encoder(str(steps / "05_ridge_refit")), data, negatives=5)
    return found | {"extension": extension(any_encoder(str(steps / "08_static_hard")), data)}


def compared(found: dict, before: dict, floor: dict) -> dict:
    """Search against echo-static and against the step before hard negatives; which goals are missed."""
    rows = [
        {
            "name": name,
            **found["search"][name],
            "before": before[name]["xsimpp"],
            "static_all": floor[name]["all"],
            "static_twelve": floor[name]["twelve"],
        }
        for name in SETS
    ]
    flores, news = (found["search"][name]["languages"] for name in ("flores", "ntrex"))
    by_language = [
        (
            lang,
            flores[lang],
            news[lang],
            floor["flores"]["languages"][lang],
            floor["ntrex"]["languages"][lang],
        )
        for lang in sorted(flores)
    ]
    chrf = found["translation"]["chrf"]["all"]
    fewer = [1 - row["xsimpp"] / row["before"] for row in rows]
    better = sum(a + b < c + d for _, a, b, c, d in by_language)
    goals = {
        f"better than echo-static in {better} languages": better >= 0.9 * len(by_language),
        f"Bible xsim {found['search']['bible']['all']:.1f} %": found["search"]["bible"]["all"] < 10,
        f"xsim++ {100 * min(fewer):.0f} to {100 * max(fewer):.0f} % below the bag before hard negatives": min(fewer)
        >= 0.3,
        f"topics {found['topics']['clt']:.1f} %": found["topics"]["clt"] > 85,
        f"chrF++ {chrf['decoder']:.1f}": chrf["decoder"] > max(chrf["source"], chrf["nearest"]),
        f"flores {found['search']['flores']['twelve']:.1f} %": found["search"]["flores"]["twelve"] <= 10,
        f"news {found['search']['ntrex']['twelve']:.1f} %": found["search"]["ntrex"]["twelve"] <= 18,
    }
    return dict(
        rows=rows,
        by_language=by_language,
        better=better,
        missed=[goal for goal, reached in goals.items() if not reached],
        extension=[
            (
                lang,
                found["extension"]["flores"][lang],
                before["extension"]["flores"][lang],
                found["extension"]["ntrex"].get(lang),
                before["extension"]["ntrex"].get(lang),
            )
            for lang in found["extension"]["flores"]
        ],
        unseen=[
            (f"at most {most} %", [row for row in found["unseen"].items() if least < row[1] <= most])
            for least, most in ((-1, 10), (10, 20))
        ],
        unseen_others=sum(wrong > 20 for wrong in found["unseen"].values()),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder of a SentenceTransformer or an Echo checkpoint")
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--data", type=Path, default=Path("outputs/echo/data"))
    parser.add_argument("--decoder", action="store_true", help="measure translation too")
    parser.add_argument("--static", type=Path, help="results of echo-static, to compare with")
    parser.add_argument("--steps", type=Path, help="folder of the steps of echo-nano, to compare with")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    if (args.static is None) != (args.steps is None):
        parser.error("give --static and --steps together")
    found = report(args.model, args.corpora, args.data, args.decoder)
    if args.static:
        floor = json.loads(args.static.read_text(encoding="utf-8"))["search"]
        found["compared"] = compared(found, earlier_steps(args.steps, args.data), floor)
    text = json.dumps(found, indent=2, ensure_ascii=False, default=float)
    args.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
