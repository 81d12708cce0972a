"""Multiple choice of Spectrum from the public sets (OS 9.1): documents in any language, everything
else in English.

    choices = load_choices("belebele", langs=["fra_Latn"], cut=rule_segmenter)
    choice_accuracy(model, tokenizer, encode, choices)       # hf_echo.evaluation.spectrum

What the paper prints, by set:

- XBelebele, Speech-XBelebele: question and choices stand in the prompt; the option **letter** of
  the lowest negative log likelihood (NLL) wins. Speech has clips in place of the passage, without
  passages of FLEURS' training split.
- XHellaSwag, Spoken StoryCloze: the ending of the lowest NLL wins; no prompt.
- SIB-200, Speech-SIB100, Taxi1500: the topics stand in the prompt of Figure 7. How an answer is
  chosen is not printed; here the answer ("a. travel": ID and text, as Figure 7 asks for) of the
  lowest NLL wins. Texts are not cut.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from ...data.segmentation import trimmed
from ...languages import ENGLISH, language
from ..spectrum import SIB_TOPICS, Choice
from .public_sets import SETS, load_benchmark
from .set_rows import TAXI_TOPICS, Row

LETTERS = "ABCD"
TOPICS = {"sib200": SIB_TOPICS, "taxi1500": TAXI_TOPICS}
LETTER_SETS = ("belebele", "speech_belebele")
# The English file of 2M-Belebele holds gigabytes of audio; its questions are those of Belebele.
QUESTIONS = {"speech_belebele": "belebele"}

Cut = Callable[[Sequence[str], str], list[list[str]]]


def letter_prompt(question: str, options: Sequence[str]) -> str:
    """Question block, choices block and target format of OS 9.1,
    with the choices as "A: B: C: D:"."""
    lines = [f"{letter}: {option}" for letter, option in zip(LETTERS, options, strict=False)]
    return (
        f"Answer the question about the document.\n\nQuestion: {question}\n\n"
        + "Here are the choices:\n"
        + "\n".join(lines)
        + "\n\nReturn only the ID of the correct option."
    )


def topic_options(topics: Sequence[str]) -> list[str]:
    """The answers of Figure 7: "a. science/technology", "b. travel", ..."""
    return [f"{letter}. {topic}" for letter, topic in zip(ascii_lowercase, topics, strict=False)]


def topic_prompt(lang: str, topics: Sequence[str]) -> str:
    """The prompt of Figure 7, with the name of the document's language where the package knows
    it."""
    try:
        name = f"{language(lang).name} "
    except ValueError:
        name = ""
    return (
        f"Categorize the {name}document appropriately. Return only the category label.\n\n"
        f'Options: "{", ".join(topic_options(topics))}". Which is correct?\n'
        "Output the correct option by writing both the ID and the answer text."
    )


def load_choices(
    name: str,
    *,
    langs: Sequence[str] | None = None,
    split: str | None = None,
    path: str | Path | None = None,
    english_path: str | Path | None = None,
    cut: Cut | None = None,
    as_text: bool = False,
    exclude: Collection[str] = (),
) -> list[Choice]:
    """Questions of a public set about documents in `langs`; questions, options and prompts are
    English.

    Args:
        name, langs, split, path: as `load_benchmark`, of the shape "choices" or "topics".
        english_path: local copy of the set with the English questions, if it is not `path`: that of
            Belebele for "speech_belebele".
        cut: (passages, language) -> sentences of each, such as `rule_segmenter`; None leaves them
            whole. Topics are never cut (OS 9.1).
        as_text: the spoken texts in place of the clips (the paper's T -> T beside S -> T).
        exclude: sentences that no document may have: the training split of FLEURS for the speech
            sets.

    Raises:
        ValueError: a set of another shape, a document without its English question, another right
            answer than the English question has, no spoken text, or nothing left.
        FileNotFoundError: as `load_benchmark`.
    """
    sets = [set_name for set_name, spec in SETS.items() if spec.shape in ("choices", "topics")]
    if name not in sets:
        raise ValueError(f"{name!r} has no multiple choice; choose from {', '.join(sets)}")
    rows = without_sentences(load_benchmark(name, langs=langs, split=split, path=path), exclude)
    if not rows:
        raise ValueError(f"{name}: no document is left after those with excluded sentences")
    if name in TOPICS:
        return topic_choices(rows, TOPICS[name])
    # Documents in English alone are their own questions.
    asked = QUESTIONS.get(name, name)
    if all(row["lang"] == ENGLISH for row in rows) and asked == name:
        english = rows
    else:
        english = load_benchmark(asked, langs=[ENGLISH], split=split, path=english_path or path)
    return cross_lingual_choices(
        rows, english, letters=name in LETTER_SETS, cut=cut, as_text=as_text
    )


def cross_lingual_choices(
    rows: Iterable[Row],
    english: Iterable[Row],
    *,
    letters: bool,
    cut: Cut | None = None,
    as_text: bool = False,
) -> list[Choice]:
    """Documents of `rows` with question, options and answer of the English rows with the same id
    (OS 9.1, X-En).

    `letters`: the options stand in the prompt and their letters are scored; otherwise the options
    themselves.
    """
    questions = {row["id"]: row for row in english}
    choices = []
    for row in rows:
        # Both rows must ask the same: the right option stands at the same place.
        place = f"{row['lang']}, id {row['id']}"
        question = questions.get(row["id"])
        if question is None:
            raise ValueError(f"{place}: there is no English question with this id")
        if row["answer"] != question["answer"]:
            right = f"option {row['answer'] + 1} is right, but {question['answer'] + 1} in English"
            raise ValueError(f"{place}: {right}: the options have another order")
        # The document as a list of sentences.
        document = row["spoken_texts"] if as_text else row["document"]
        if isinstance(document, str):
            sentences = [document]
            if cut is not None:
                sentences = trimmed(cut(sentences, row["lang"])[0])
            document = sentences
        # With letters the options stand in the prompt, and the letters are scored.
        options = list(question["options"])
        prompt = ""
        if letters:
            prompt = letter_prompt(question["question"], options)
            options = list(LETTERS[: len(options)])
        choices.append(
            Choice(
                list(document), row["lang"], prompt, options, question["answer"], ends=not letters
            )
        )
    return choices


def topic_choices(rows: Iterable[Row], topics: Sequence[str] = SIB_TOPICS) -> list[Choice]:
    """Rows of the shape "topics", not cut, with the prompt of Figure 7."""
    options = topic_options(topics)
    choices = []
    for row in rows:
        prompt = topic_prompt(row["lang"], topics)
        choices.append(
            Choice([row["text"]], row["lang"], prompt, options, topics.index(row["label"]))
        )
    return choices


def spoken_topics(rows: Iterable[Row], clips: Mapping[tuple[str, str], Any]) -> list[Row]:
    """Speech-SIB100 (OS 9.1): the rows of SIB-200 whose text FLEURS has as speech, with the clip as
    `text`.

    Args:
        clips: {(language, sentence): audio} of FLEURS; capitals and spaces do not matter.
    """
    by_text = {}
    for (lang, text), audio in clips.items():
        by_text[lang, _same(text)] = audio
    spoken = []
    for row in rows:
        key = (row["lang"], _same(row["text"]))
        if key in by_text:
            spoken.append(row | {"text": by_text[key], "spoken_texts": [row["text"]]})
    return spoken


def without_sentences(rows: Iterable[Row], sentences: Collection[str]) -> list[Row]:
    """The rows that have none of these sentences, whatever their capitals and spaces.

    The paper leaves out of its speech sets what the training split of FLEURS has, which the speech
    encoder has heard.
    """
    excluded = {_same(text) for text in sentences}
    kept = []
    for row in rows:
        texts = row.get("spoken_texts", [])
        if not any(_same(text) in excluded for text in texts):
            kept.append(row)
    return kept


def _same(text: str) -> str:
    return " ".join(text.split()).casefold()
