"""Measure Spectrum on documents as text and as speech, on the data of corpora/spectrum_data.py:

    hf-echo data speak outputs/spectrum/spoken.jsonl outputs/spectrum/spoken --measure
    python train_scripts/studies/spectrum_measures.py outputs/spectrum outputs/spectrum-nano outputs/spectrum/spoken

The paper's public sets (OS 9.1) are measured by spectrum_choices.py.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from spectrum_choices import decoder_ids
from study_parts import command_line
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
from hf_echo.languages import ENGLISH
from hf_echo.stages.spectrum.prompts import draw_prompt, written_prompt
from hf_echo.utils.vectors import unit_length


def asked(rows: pd.DataFrame, tokenizer: Any, size: int) -> list[Choice]:
    """Topics after a prompt of fine-tuning, drawn by the row's number:
    the same for text and speech."""
    choices = []
    for number, row in enumerate(rows.to_dict("records")):
        drawn = draw_prompt(row, np.random.default_rng(number))
        prompt = decoder_ids(written_prompt(drawn, tokenizer), tokenizer, size)
        answer = SIB_TOPICS.index(row["answer"])
        choices.append(Choice(row["sentences"], row["lang"], prompt, list(SIB_TOPICS), answer))
    return choices


def unit_vectors(embed: Embed, rows: pd.DataFrame) -> np.ndarray:
    """(rows, dimensions) of the first sentence of each row; all rows are in one language."""
    first_sentences = [sentences[0] for sentences in rows.sentences]
    return unit_length(embed(first_sentences, rows.lang.iloc[0]))


Spoken = dict[tuple[str, str], np.ndarray]  # (text, language) -> the vector of its clip


def spoken_vectors(clips: str, speech_encoder: str) -> Spoken:
    """The vector of each sentence that was spoken."""
    rows = load_speech(clips)
    model, extractor = load_speech_encoder(speech_encoder)
    vectors = encode_speech(model, extractor, rows["audio"], on_long="split", progress=True)
    return dict(zip(zip(rows["text"], rows["lang"]), vectors, strict=True))


def spoken_news(data: Path, spoken: Spoken) -> list[list[str]]:
    """English documents, of the sentences that were spoken."""
    news = []
    for document in pd.read_json(data / f"news_{ENGLISH}.jsonl", lines=True).sentences:
        sentences = [text for text in document if (text, ENGLISH) in spoken]
        if sentences:
            news.append(sentences)
    return news


def spoken_topics(data: Path, spoken: Spoken) -> list[pd.DataFrame]:
    """The rows of each language whose sentence was spoken."""
    topics = []
    for file in sorted(data.glob("topics_*_*.jsonl")):
        rows = pd.read_json(file, lines=True)
        was_spoken = [(row.sentences[0], row.lang) in spoken for row in rows.itertuples()]
        topics.append(rows[was_spoken])
    return topics


def main() -> None:
    """Of text and of speech: next sentences of English news,
    topics by a linear probe and by Spectrum."""
    from sklearn.linear_model import LogisticRegression

    parser = command_line(__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("models", type=Path, help="folder of 1_tower and 4_tasks")
    parser.add_argument(
        "spoken", help="the sentences as speech; those without are left out of text too"
    )
    parser.add_argument("--speech", default=hf_echo.pretrained("echo-nano-speech"))
    args = parser.parse_args()
    spoken = spoken_vectors(args.spoken, args.speech)
    news = spoken_news(args.data, spoken)
    topics = spoken_topics(args.data, spoken)

    def encode_spoken(texts: list[str], lang: str) -> np.ndarray:
        return np.stack([spoken[text, lang] for text in texts])

    encode = any_encoder(hf_echo.pretrained("echo-nano"))
    ways: dict[str, Embed] = {"text": encode, "speech": encode_spoken}

    # The probe learns from English text alone; speech and other languages are asked.
    train = pd.read_json(args.data / "topics_train.jsonl", lines=True)
    train = train[train.choices.isna()].assign(lang=ENGLISH)
    probe = LogisticRegression(C=100, max_iter=2000)
    probe.fit(unit_vectors(encode, train), train.answer)
    tower = AutoModel.from_pretrained(args.models / "1_tower", dtype=torch.float32).eval()
    for name, embed in ways.items():
        documents = [embed(document, ENGLISH) for document in news]
        retrieval = next_sentence_retrieval(documents, tower_predictions(tower, documents))
        print(name, "next sentence", retrieval)
        for rows in topics:
            accuracy = 100 * probe.score(unit_vectors(embed, rows), rows.answer)
            print(name, "probe", rows.lang.iloc[0], len(rows), accuracy, flush=True)

    folder = args.models / "4_tasks"
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    choices = asked(pd.concat(topics), tokenizer, model.config.decoder.vocab_size)
    for name, embed in ways.items():
        table = choice_accuracy(model, tokenizer, embed, choices)
        print(name, table.to_markdown(), sep="\n", flush=True)


if __name__ == "__main__":
    main()
