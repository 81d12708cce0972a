"""Topic of a text by fine-tuned Spectrum, in languages that it never saw, for docs/trials/spectrum.md.

    python train_scripts/studies/spectrum_topics.py outputs/spectrum outputs/spectrum-nano/3_prefix \\
        outputs/spectrum-nano/4_tasks

Accuracy in percent on the dev sentences of SIB (spectrum_data.py): the topic with the lowest negative log likelihood
after a prompt of fine-tuning without choices. The last row is a logistic regression on the same English embeddings,
the most that the decoder can read from one embedding by a linear rule.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression
from transformers import AutoTokenizer

import hf_echo
from hf_echo.evaluation.spectrum.choices import SIB_TOPICS, Choice, choice_accuracy
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.modeling import SpectrumForCausalLM
from hf_echo.stages.spectrum.prompts import draw_prompt, written_prompt

LANGUAGES = ("eng_Latn", "fra_Latn", "rus_Cyrl", "tur_Latn", "swh_Latn")


def questions(rows: pd.DataFrame, tokenizer) -> list[Choice]:
    """Each with a prompt drawn by its own seed, the same for all models."""
    found = []
    for number, row in enumerate(rows.to_dict("records")):
        prompt = written_prompt(draw_prompt(row, np.random.default_rng(number)), tokenizer)
        found.append(Choice(row["sentences"], row["lang"], prompt, list(SIB_TOPICS), SIB_TOPICS.index(row["answer"])))
    return found


def main(data: Path, models: list[Path]) -> None:
    encode = any_encoder(str(hf_echo.pretrained("echo-nano")))
    dev = {lang: pd.read_json(data / f"topics_{lang}.jsonl", lines=True) for lang in LANGUAGES}
    for folder in models:
        model = SpectrumForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
        choices = [choice for rows in dev.values() for choice in questions(rows, tokenizer)]
        for mean in (False, True):
            table = choice_accuracy(model, tokenizer, encode, choices, mean=mean)
            print(folder, "mean NLL per token" if mean else "sum of NLL", table.to_markdown(), sep="\n", flush=True)
    train = pd.read_json(data / "topics_train.jsonl", lines=True)
    train = train[train.choices.isna()]

    def embed(rows: pd.DataFrame, lang: str) -> np.ndarray:
        vectors = encode([text for row in rows.sentences for text in row], lang)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    probe = LogisticRegression(C=100, max_iter=2000).fit(embed(train, "eng_Latn"), train.answer)
    scores = {lang: 100 * probe.score(embed(rows, lang), rows.answer) for lang, rows in dev.items()}
    print("logistic regression", {lang: round(score, 1) for lang, score in scores.items()})


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
