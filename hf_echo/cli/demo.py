"""`make demo`: train stages 1 to 3 at nano size on the built-in corpus,
then use the result in three ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from ..data.builtin import LANGUAGES, builtin_nway, dev_set
from ..evaluation import translation_scores
from ..hub.release import release_checkpoint
from ..inference import load_translator, translate
from ..languages import ENGLISH
from ..stages import DevSet, evaluate_sets
from ..steps.recipe import find_recipes
from ..steps.training import train_recipe
from ..utils.quiet import opening_quietly
from .tour import run_tour

STAGES = ("seq2seq", "contrastive", "hard_negatives")
HELD_OUT = 300  # meanings of the test split: used neither for training nor for checkpoint selection


def run_demo(out: Path, *, fresh: bool = False) -> dict:
    """Train, measure on held-out meanings, release and show examples. Writes results.json;
    returns its content."""
    console = Console()
    rows = []
    previous = None
    test = DevSet(*dev_set(HELD_OUT, split="test"))
    # Each stage starts from the one before it, and is measured.
    for path in find_recipes("nano"):
        stage = yaml.safe_load(path.read_text(encoding="utf-8"))["stage"]
        if stage not in STAGES:
            continue
        overrides = {
            "output_dir": str(out / path.stem),
            "cache_dir": str(out / "cache"),
            "report_to": "none",
        }
        if previous is not None:
            overrides["model_name_or_path"] = str(previous)
        console.rule(path.stem)
        trained = train_recipe(path, overrides, fresh=fresh)
        previous = out / path.stem
        rows.append({"stage": stage, **measure(previous, test), "seconds": trained["seconds"]})
    # The release, and the figures of the stages.
    release = out / "release"
    release_checkpoint(previous, release)
    report = {
        "rows": rows,
        "release": str(release),
        "held_out_meanings": HELD_OUT,
        "languages": list(LANGUAGES),
    }
    (out / "results.json").write_text(
        json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    console.print(as_table(rows))
    show(console, release)
    console.print(f"Release: {release}. Results: {out / 'results.json'}")
    console.rule("echo-nano, trained on real text, included in the package (hf-echo tour)")
    run_tour(console)
    return report


def measure(checkpoint: Path, test: DevSet) -> dict[str, float]:
    """xsim and xsim++ (percent) over all languages, and chrF++ (0 to 100) into English."""
    model, tokenizer = load_translator(checkpoint, dtype="fp32")
    metrics = evaluate_sets(model, tokenizer, {"test": test}, prefix="eval")
    english = {row["id"]: row["text"] for row in test.rows if row["lang"] == ENGLISH}
    hypotheses = []
    references = []
    # 40 sentences of each language into English.
    for lang in (code for code in LANGUAGES if code != ENGLISH):
        texts = {row["id"]: row["text"] for row in test.rows if row["lang"] == lang}
        keys = list(texts)[:40]
        hypotheses += translate(
            model, tokenizer, [texts[k] for k in keys], lang, ENGLISH, max_new_tokens=40
        )
        references += [english[k] for k in keys]
    scores = translation_scores(hypotheses, references, spbleu=False)
    return {
        "xsim": round(metrics["eval_xsim"], 2),
        "xsimpp": round(metrics["eval_xsimpp"], 2),
        "chrf": round(scores.chrf, 2),
    }


def as_table(rows: list[dict]) -> Table:
    """The figures of the stages as a table for the terminal."""
    table = Table(title=f"{HELD_OUT} held-out meanings, {len(LANGUAGES) - 1} languages to English")
    for name in ("stage", "xsim %", "xsim++ %", "chrF++", "seconds"):
        table.add_column(name, justify="left" if name == "stage" else "right")
    for row in rows:
        table.add_row(
            row["stage"],
            f"{row['xsim']:.2f}",
            f"{row['xsimpp']:.2f}",
            f"{row['chrf']:.1f}",
            f"{row['seconds']:.0f}",
        )
    return table


def show(console: Console, release: Path) -> None:
    """Use the release on held-out sentences: AutoModel, SentenceTransformer and
    pipeline("sonar-translation")."""
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel, AutoTokenizer, pipeline

    # AutoModel: one sentence in all languages.
    texts = {row["lang"]: row["text"] for row in builtin_nway(1, split="test")}
    tokenizer = AutoTokenizer.from_pretrained(release)
    encoder = AutoModel.from_pretrained(release)
    with torch.no_grad():
        batch = tokenizer(list(texts.values()), lang=list(texts), padding=True, return_tensors="pt")
        vectors = torch.nn.functional.normalize(encoder(**batch).sentence_embedding, dim=-1)
    console.rule("AutoModel: one sentence in all languages, cosine to the English one")
    english_vector = vectors[list(texts).index(ENGLISH)]
    for (lang, text), cosine in zip(texts.items(), vectors @ english_vector):
        console.print(f"{cosine:6.3f}  {lang}  {text}")

    # SentenceTransformer: French against English.
    console.rule("SentenceTransformer: search")
    with opening_quietly():
        model = SentenceTransformer(str(release))
    pool = builtin_nway(200, split="test", languages=[ENGLISH, "fra_Latn"])
    english = [row["text"] for row in pool if row["lang"] == ENGLISH]
    french = [row["text"] for row in pool if row["lang"] == "fra_Latn"][:3]
    french_vectors = model.encode(french, prompt_name="fra_Latn")
    english_vectors = model.encode(english, prompt_name=ENGLISH)
    hits = model.similarity(french_vectors, english_vectors).argmax(1)
    for text, hit in zip(french, hits):
        console.print(f"{text}  ->  {english[int(hit)]}")

    # The pipeline: three languages into English.
    console.rule('pipeline("sonar-translation")')
    task: Any = "sonar-translation"  # transformers' types name its own tasks alone
    translator = pipeline(task, model=str(release))
    for lang in ("fra_Latn", "deu_Latn", "jpn_Jpan"):
        text = texts[lang]
        (answer,) = translator(text, src_lang=lang, tgt_lang=ENGLISH, max_new_tokens=40)
        console.print(f"{lang} {text}  ->  {answer['translation_text']}")
