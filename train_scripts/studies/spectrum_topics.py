"""Topic of a text by fine-tuned Spectrum, in languages that it never saw, for docs/trials/spectrum.md.

    python train_scripts/studies/spectrum_topics.py outputs/spectrum outputs/spectrum-nano/3_prefix \\
        outputs/spectrum-nano/4_tasks
    python train_scripts/corpora/speak.py outputs/spectrum/topics_eng_Latn.txt \\
        outputs/spectrum/spoken --lang eng_Latn --measure
    python train_scripts/studies/spectrum_topics.py outputs/spectrum outputs/spectrum-nano/4_tasks \\
        --spoken outputs/spectrum/spoken --speech outputs/speech-nano/7_speech

Accuracy in percent on the dev sentences of SIB (spectrum_data.py): the topic with the lowest negative log likelihood
after a prompt of fine-tuning without choices. The last row is a logistic regression on the same English embeddings,
the most that the decoder can read from one embedding by a linear rule. With --spoken, the documents are the audio of
the English sentences instead, embedded by the speech encoder --speech.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from datasets import Audio
from sklearn.linear_model import LogisticRegression
from transformers import AutoTokenizer

import hf_echo
from hf_echo.data.speech.readers import load_speech
from hf_echo.evaluation.spectrum.choices import SIB_TOPICS, Choice, choice_accuracy
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.inference.encode_speech import encode_speech, load_speech_encoder
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


def embed(encode, rows: pd.DataFrame, lang: str) -> np.ndarray:
    vectors = encode([text for row in rows.sentences for text in row], lang)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def linear(encode, data: Path, dev: dict[str, pd.DataFrame]) -> LogisticRegression:
    train = pd.read_json(data / "topics_train.jsonl", lines=True)
    train = train[train.choices.isna()]
    probe = LogisticRegression(C=100, max_iter=2000).fit(embed(encode, train, "eng_Latn"), train.answer)
    scores = {lang: 100 * probe.score(embed(encode, rows, lang), rows.answer) for lang, rows in dev.items()}
    print("logistic regression", {lang: round(score, 1) for lang, score in scores.items()})
    return probe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of spectrum_data.py")
    parser.add_argument("models", type=Path, nargs="+", help="folders of Spectrum models")
    parser.add_argument(
        "--spoken", type=Path, help="folder of python train_scripts/corpora/speak.py with the English dev sentences"
    )
    parser.add_argument("--speech", help="speech encoder of the same space")
    args = parser.parse_args()
    encode = any_encoder(str(hf_echo.pretrained("echo-nano")))
    languages = LANGUAGES[:1] if args.spoken else LANGUAGES
    dev = {lang: pd.read_json(args.data / f"topics_{lang}.jsonl", lines=True) for lang in languages}
    probe = linear(encode, args.data, dev)
    if args.spoken:
        clips = load_speech(str(args.spoken)).cast_column("audio", Audio(decode=False))
        spoken = dict(zip(clips["text"], encode_speech(*load_speech_encoder(args.speech), clips["audio"]), strict=True))
        rows = dev["eng_Latn"]
        dev["eng_Latn"] = rows = rows[[row[0] in spoken for row in rows.sentences]]

        def encode(texts, lang):
            return np.stack([spoken[text] for text in texts])

        print(f"audio of {len(rows)} sentences, logistic regression:", end=" ")
        print(round(100 * probe.score(embed(encode, rows, "eng_Latn"), rows.answer), 1))
    for folder in args.models:
        model = SpectrumForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
        choices = [choice for rows in dev.values() for choice in questions(rows, tokenizer)]
        for mean in (False, True):
            table = choice_accuracy(model, tokenizer, encode, choices, mean=mean)
            print(folder, "mean NLL per token" if mean else "sum of NLL", table.to_markdown(), sep="\n", flush=True)


if __name__ == "__main__":
    main()
