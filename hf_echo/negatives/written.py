"""Hard negatives written by a language model: the prompt of OS Figure 15 (ECHO Figure 4), and the
check of its replies.

hf-echo data negatives pairs.tsv out.jsonl --model MODEL --endpoint http://localhost:8000/v1
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ..data.schema import is_unicode
from ..languages import ENGLISH
from .language_model import Endpoint, InvalidReply, Job, write_rows
from .rules import normal_form

MAX_NEGATIVES = 5
LONGEST = 20_000  # characters; longer replies are invalid, and searching them for a list takes time
STARTS = 20  # number of brackets to try

_THOUGHTS = re.compile(r"<think>.*?</think>", re.DOTALL)
_FENCED = re.compile(r"```[\w+-]*\n(.*?)\n?```", re.DOTALL)
_TOKENS = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[\[\]]""", re.DOTALL)

PROMPT = """\
You are a text transformation specialist. Generate ONLY valid xsim++ transformations using these EXCLUSIVE methods:
1. CAUSALITY ALTERATION:
- Add/remove negations ("did not", "was not")
- Replace adjectives with antonyms ("good" -> "bad")
- Change modal verbs ("may" -> "will")
2. ENTITY REPLACEMENT:
- Swap proper nouns (people, locations, organizations)
- Replace pronouns (he -> she, they -> we)
3. NUMBER ALTERATION:
- Change quantities (5 -> 12)
- Modify dates/times (2023 -> 2019)
- Alter percentages (15% -> 22%)

Follow these patterns from training examples:
{examples}

Now transform THIS SPECIFIC INPUT SENTENCE using the above patterns. Output ONLY a Python list of 1-5 modified \
sentences in this exact format:
[
"Transformed sentence 1",
"Transformed sentence 2",
...
]

Key requirements:
1. Create 1-5 unique modified sentences
2. Maximize difference from original text
3. Mix transformation types where possible
4. Maintain grammatical correctness
5. Do NOT generate paraphrases, or synonyms
6. NEVER output empty strings
7. Output ONLY a Python list of strings
8. No explanations, headers, or additional text

Input sentence to transform: {example}"""

# The sentences of OS Table 31, without its two with the same meaning as the input ("Tonight will
# not be short").
EXAMPLES = (
    (
        "Tonight will be long.",
        [
            "Yesterday may be long",
            "Tomorrow will be short",
            "Tonight may not be long",
            "Last night was short",
        ],
    ),
    (
        "You got the archaeologist and the psychologist wrong.",
        [
            "She got the anthropologist and the sociologist wrong",
            "They got the archaeologist and the psychologist correct",
            "We did not get the biologist and the physicist wrong",
            "He got the economist and the politician right",
        ],
    ),
)


def write_negatives(settings: Any) -> dict[str, Any]:
    """Write the rows with their negatives, as `hf_echo.cli.data.WriteNegatives` says;
    returns those of `write_rows`."""
    from ..data import load_parallel

    pairs = load_parallel(settings.pairs, split=None, on_bad_row=settings.on_bad_row)
    names = ("concurrency", "attempts", "temperature", "max_tokens", "seed")
    options = {name: getattr(settings, name) for name in names}
    key = os.environ.get(settings.api_key_env)
    model = Endpoint(
        settings.model,
        settings.endpoint,
        api_key=key,
        timeout=settings.timeout,
        retries=settings.retries,
    )
    return write_rows(negatives(pairs), model, settings.out, total=len(pairs), **options)


def negatives(rows: Iterable[Mapping[str, Any]]) -> Iterator[Job]:
    """Jobs that add up to five hard negatives to each English target, after those that the row
    already has.

    Every row is written. Targets in other languages get no request; failed rows get no new
    negatives.
    """
    examples = [f"Input: {text}\nOutput: {_as_list(wrong)}" for text, wrong in EXAMPLES]
    prompt_of_examples = PROMPT.replace("{examples}", "\n\n".join(examples))
    for row in rows:
        prompt = prompt_of_examples.replace("{example}", row["target"])
        messages = None
        if row["target_lang"] == ENGLISH:
            messages = [{"role": "user", "content": prompt}]
        yield Job(
            failure_fields={"target": row["target"]},
            messages=messages,
            parse=partial(parse_negatives, text=row["target"]),
            row=partial(_with_negatives, dict(row)),
        )


def _as_list(sentences: Sequence[str]) -> str:
    """A list in the format of the prompt: one item per line."""
    return "[\n" + ",\n".join(json.dumps(item, ensure_ascii=False) for item in sentences) + "\n]"


def _with_negatives(row: dict[str, Any], new: Sequence[str] | None) -> dict[str, Any]:
    negatives_of_row = list(row.get("hard_negatives") or [])
    seen = {normal_form(sentence) for sentence in negatives_of_row}
    negatives_of_row += [sentence for sentence in new or () if normal_form(sentence) not in seen]
    return {**row, "hard_negatives": negatives_of_row}


def parse_negatives(reply: str, text: str) -> list[str]:
    """Parse 1 to 5 sentences other than ``text``, which are compared by letters and digits
    (`normal_form`).

    The list may be Python or JSON, with text and code fences around it; nothing is repaired. One
    bad sentence makes the reply invalid, because a model that repeats the input has not understood
    the task.

    Raises:
        InvalidReply: no list, not 1 to 5 sentences, or a sentence that is empty, or equal to the
            text or to another.
    """
    # Sentences that are equal by letters and digits are one.
    items = _find_list(clean_reply(reply))
    if not 1 <= len(items) <= MAX_NEGATIVES:
        raise InvalidReply(f"a list of {len(items)} sentences instead of 1-{MAX_NEGATIVES}")
    seen = {normal_form(text): "the input"}
    for number, sentence in enumerate(items, 1):
        if not isinstance(sentence, str):
            raise InvalidReply(f"item {number} is not a string but {type(sentence).__name__}")
        if not is_unicode(sentence):
            raise InvalidReply(f"item {number} is not valid Unicode")
        form = normal_form(sentence)
        if not form:
            raise InvalidReply(f"item {number} is empty")
        if form in seen:
            raise InvalidReply(f"item {number} is equal to {seen[form]}")
        seen[form] = f"item {number}"
    return [" ".join(sentence.split()) for sentence in items]


def clean_reply(reply: str) -> str:
    """The reply without thoughts and code fences."""
    if len(reply) > LONGEST:
        raise InvalidReply(f"{len(reply)} characters long")
    if not is_unicode(reply):
        raise InvalidReply("not valid Unicode")
    reply = _THOUGHTS.sub("", reply).strip()
    if not reply:
        raise InvalidReply("empty")
    fenced = _FENCED.search(reply)
    return (fenced[1] if fenced else reply).strip()


def _find_list(text: str) -> list:
    """The first list of strings in the text; "[1]" in a sentence does not count."""
    # Each bracket may begin the list; text before it is allowed.
    starts = [match.start() for match in re.finditer(r"\[", text)]
    for start in starts[:STARTS]:
        end = _list_end(text, start)
        if end is None:
            continue
        items = _literal(text[start:end])
        if isinstance(items, list) and (not items or isinstance(items[0], (str, list))):
            return items
    raise InvalidReply("no Python list of strings")


def _list_end(text: str, start: int) -> int | None:
    """Position after the list that begins at ``start``; None if it has no end or lacks a comma
    (Python joins adjacent strings, so that two sentences would become one)."""
    # Brackets inside of strings do not count.
    depth = 0
    last_string = -1  # where the last string ended
    for token in _TOKENS.finditer(text, start):
        if token[0] == "[":
            depth += 1
        elif token[0] == "]":
            depth -= 1
            if depth == 0:
                return token.end()
        else:
            if last_string >= 0 and not text[last_string : token.start()].strip():
                return None
            last_string = token.end()
    return None


def _literal(text: str) -> Any:
    """The value that a reply spells, as JSON or in Python; None for other text."""
    try:
        # first, because its escapes ("\\/", "\\ud83d\\ude00") mean something else in Python
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
