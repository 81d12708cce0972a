"""Measures of Spectrum (OS 9): rebuilt documents and multiple choice, with the rows of three public sets.

    from spectrum_measures import choice_accuracy, rebuild_bleu, topic_choices

Run as a script it measures documents as text and as speech, on the data of corpora/spectrum_data.py:

    python train_scripts/corpora/speak.py outputs/spectrum/spoken.jsonl outputs/spectrum/spoken --measure
    python train_scripts/studies/spectrum_measures.py outputs/spectrum outputs/spectrum-nano outputs/spectrum/spoken
"""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

import hf_echo
from hf_echo.data.speech import load_speech
from hf_echo.evaluation.spectrum import SIB_TOPICS, next_sentence_retrieval, tower_predictions
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.inference.encode_speech import encode_speech, load_speech_encoder
from hf_echo.stages.spectrum.prompts import draw_prompt, written_prompt
from hf_echo.utils.results import Table
from hf_echo.utils.vectors import unit_length

Embed = Callable[[list[str], str], np.ndarray]


def rebuild_bleu(
    written: Sequence[str], references: Sequence[str], lengths: Sequence[int], *, limits: Sequence[int] = (4, 8, 16)
) -> Table:
    """BLEU-1 to BLEU-4 of documents rebuilt from their embeddings (OS Table 20), by range of sentences and for all.

    BLEU-n is the n-gram precision with the brevity penalty, `bleu` their geometric mean, as sacrebleu computes them.

    Args:
        lengths: sentences of each document.
        limits: upper ends of the ranges; a last range holds longer documents.

    Raises:
        ValueError: the numbers of texts differ, or there are none.
    """
    from sacrebleu.metrics import BLEU

    if not written or not len(written) == len(references) == len(lengths):
        raise ValueError(
            f"there are {len(written)} texts, {len(references)} references and {len(lengths)} lengths: give one of "
            "each per document, at least one"
        )
    metric, rows = BLEU(), []
    ranges = [("all", 0, float("inf"))]
    ranges += [(f"{start + 1} to {end}", start, end) for start, end in zip([0, *limits], limits, strict=False)]
    for label, start, end in [*ranges, (f"over {limits[-1]}", limits[-1], float("inf"))]:
        chosen = [i for i, count in enumerate(lengths) if start < count <= end]
        if not chosen:
            continue
        score = metric.corpus_score([written[i] for i in chosen], [[references[i] for i in chosen]])
        parts = {f"bleu{n}": precision * score.bp for n, precision in enumerate(score.precisions, 1)}
        rows.append({"sentences": label, "documents": len(chosen), **parts, "bleu": score.score})
    return Table(rows, notes={"signature": str(metric.get_signature())})


@dataclass
class Choice:
    """A question about a document.

    Attributes:
        sentences: the document, in any language of the space; one element where segmentation is unreliable (the paper
            does not cut SIB-200).
        prompt: English text in front of the options, or its ids; empty for a plain continuation.
        options: English texts.
        answer: number of the right one.
    """

    sentences: list[str]
    lang: str
    prompt: str | Sequence[int]
    options: list[str]
    answer: int


def choice_accuracy(
    model: Any, tokenizer: Any, encode: Embed, choices: Sequence[Choice], *, mean: bool = False, batch: int = 16
) -> Table:
    """Accuracy in percent by language of multiple choice by negative log likelihood (OS 9.1, Figure 9, Table 21).

    Args:
        model: a SpectrumForCausalLM.
        tokenizer: the decoder's, with `text_ids`.
        encode: (texts, lang) -> (n, d).
        mean: NLL per token instead of the sum.

    Raises:
        ValueError: no questions, or questions with different numbers of options in one language.
    """
    if not choices:
        raise ValueError("there are no questions")
    start, end, rows = model.config.start_token_id, model.config.decoder.eos_token_id, []
    for lang in dict.fromkeys(choice.lang for choice in choices):
        own, right = [choice for choice in choices if choice.lang == lang], 0
        for first in range(0, len(own), batch):
            part = own[first : first + batch]
            documents = [torch.as_tensor(np.asarray(encode(choice.sentences, lang))) for choice in part]
            options = [[[*ids, end] for ids in tokenizer.text_ids(list(choice.options))] for choice in part]
            prompts = []
            for choice in part:
                ids = tokenizer.text_ids([choice.prompt])[0] if isinstance(choice.prompt, str) else choice.prompt
                prompts.append([start, *ids] if choice.prompt else model.config.prompt_ids)
            scores = model.score_options(model.encode_document(documents), options, prompts, mean=mean)
            right += sum(best == choice.answer for best, choice in zip(scores.argmin(1).tolist(), part, strict=True))
        chance = float(np.mean([100 / len(choice.options) for choice in own]))
        rows.append({"lang": lang, "accuracy": 100 * right / len(own), "chance": chance, "count": len(own)})
    return Table(rows).with_average(["accuracy"])


def belebele_choices(
    rows: Iterable[Mapping[str, Any]], english: Iterable[Mapping[str, Any]], lang: str, cut: Callable[[str], list[str]]
) -> list[Choice]:
    """XBelebele: passages of `rows` (facebook/belebele, a language), questions and answers of the English rows.

    Args:
        cut: passage -> sentences.
    """
    asked = {(row["link"], row["question_number"]): row for row in english}
    choices = []
    for row in rows:
        if question := asked.get((row["link"], row["question_number"])):
            options = [question[f"mc_answer{i}"] for i in range(1, 5)]
            prompt, answer = f"Question: {question['question']}\nAnswer: ", int(question["correct_answer_num"]) - 1
            choices.append(Choice(cut(row["flores_passage"]), lang, prompt, options, answer))
    return choices


def story_choices(rows: Iterable[Mapping[str, Any]], english: Iterable[Mapping[str, Any]], lang: str) -> list[Choice]:
    """XStoryCloze: four sentences of `rows` (juletxara/xstory_cloze, a language), two endings of the English rows."""
    endings = {row["story_id"]: row for row in english}
    choices = []
    for row in rows:
        if ending := endings.get(row["story_id"]):
            options = [ending["sentence_quiz1"], ending["sentence_quiz2"]]
            sentences = [row[f"input_sentence_{i}"] for i in range(1, 5)]
            choices.append(Choice(sentences, lang, "", options, int(ending["answer_right_ending"]) - 1))
    return choices


def topic_choices(rows: Iterable[Mapping[str, Any]], lang: str) -> list[Choice]:
    """SIB-200 (Davlan/sib200, a language): one text, not cut, and its topic."""
    return [Choice([row["text"]], lang, "Topic: ", list(SIB_TOPICS), SIB_TOPICS.index(row["category"])) for row in rows]


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
