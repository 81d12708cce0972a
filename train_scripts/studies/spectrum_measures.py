"""Measure Spectrum on documents as text and as speech, on the data of corpora/spectrum_data.py:

    python train_scripts/corpora/speak.py outputs/spectrum/spoken.jsonl outputs/spectrum/spoken --measure
    python train_scripts/studies/spectrum_measures.py outputs/spectrum outputs/spectrum-nano outputs/spectrum/spoken

The paper's public sets (OS 9.1) are measured by spectrum_choices.py.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

import hf_echo
from hf_echo.data.speech import load_speech
from hf_echo.evaluation.spectrum import (
    SIB_TOPICS,
    Choice,
    Embed,
    choice_accuracy,
    next_sentence_retrieval,
    tower_predictions,
)
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.inference.encode_speech import encode_speech, load_speech_encoder
from hf_echo.stages.spectrum.prompts import draw_prompt, written_prompt
from hf_echo.utils.vectors import unit_length


def asked(rows: pd.DataFrame, tokenizer: Any, size: int) -> list[Choice]:
    """Topics after a prompt of fine-tuning, drawn by the row's number: the same for text and speech.

    Ids beyond the decoder's vocabulary of `size` are read as in training: as the separator.
    """
    prompts = [draw_prompt(row, np.random.default_rng(n)) for n, row in enumerate(rows.to_dict("records"))]
    written = [written_prompt(prompt, tokenizer) for prompt in prompts]
    written = [[number if number < size else tokenizer.sep_token_id for number in prompt] for prompt in written]
    return [
        Choice(row.sentences, row.lang, prompt, list(SIB_TOPICS), SIB_TOPICS.index(row.answer))
        for row, prompt in zip(rows.itertuples(), written, strict=True)
    ]


def main() -> None:
    """Of text and of speech: next sentences of English news, topics by a linear probe and by Spectrum."""
    from sklearn.linear_model import LogisticRegression

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("models", type=Path, help="folder of 1_tower and 4_tasks")
    parser.add_argument("spoken", help="the sentences as speech; those without are left out of text too")
    parser.add_argument("--speech", default=hf_echo.pretrained("echo-nano-speech"))
    args = parser.parse_args()
    encode, clips = any_encoder(hf_echo.pretrained("echo-nano")), load_speech(args.spoken)
    vectors = encode_speech(*load_speech_encoder(args.speech), clips["audio"], on_long="split", progress=True)
    spoken = dict(zip(zip(clips["text"], clips["lang"], strict=True), vectors, strict=True))
    ways: dict[str, Embed] = {"text": encode}
    ways["speech"] = lambda texts, lang: np.stack([spoken[text, lang] for text in texts])
    news = pd.read_json(args.data / "news_eng_Latn.jsonl", lines=True).sentences
    news = [[text for text in document if (text, "eng_Latn") in spoken] for document in news]
    topics = [pd.read_json(file, lines=True) for file in sorted(args.data.glob("topics_*_*.jsonl"))]
    topics = [rows[[(row.sentences[0], row.lang) in spoken for row in rows.itertuples()]] for rows in topics]
    train = pd.read_json(args.data / "topics_train.jsonl", lines=True).query("choices.isna()")
    read = unit_length(encode([row[0] for row in train.sentences], "eng_Latn"))
    probe = LogisticRegression(C=100, max_iter=2000).fit(read, train.answer)
    tower = AutoModel.from_pretrained(args.models / "1_tower", dtype=torch.float32).eval()
    for name, embed in ways.items():
        documents = [embed(document, "eng_Latn") for document in news if document]
        print(name, "next sentence", next_sentence_retrieval(documents, tower_predictions(tower, documents)))
        for rows in topics:
            lang, read = rows.lang.iloc[0], embed([row[0] for row in rows.sentences], rows.lang.iloc[0])
            print(name, "probe", lang, len(rows), 100 * probe.score(unit_length(read), rows.answer), flush=True)
    model = AutoModelForCausalLM.from_pretrained(args.models / "4_tasks", dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(args.models / "4_tasks")
    choices = [choice for rows in topics for choice in asked(rows, tokenizer, model.config.decoder.vocab_size)]
    for name, embed in ways.items():
        print(name, choice_accuracy(model, tokenizer, embed, choices).to_markdown(), sep="\n", flush=True)


if __name__ == "__main__":
    main()
