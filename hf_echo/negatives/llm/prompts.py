"""Prompts of OS Figures 13 and 15 (ECHO Figures 3 and 4), and few-shot examples from a file.

A prompt is a text with placeholders: ``{example}`` is the input, ``{target_lang}`` and ``{programming_language}`` are
names, ``{few-shot examples}`` is replaced by the examples. A prompt without that last placeholder has its examples as
earlier turns of the chat. `replies` checks the replies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

SHOTS = "{few-shot examples}"
_PLACE = re.compile(r"\{(few-shot examples|example|target_lang|programming_language)\}")


class Example(NamedTuple):
    """One few-shot example. With ``lang`` (a code) it is used for that language only."""

    input: str
    output: str  # the expected reply
    lang: str | None = None


@dataclass(frozen=True)
class Prompt:
    user: str
    system: str | None = None
    examples: tuple[Example, ...] = ()

    def messages(self, text: str, lang: str | None = None, **names: str) -> list[dict[str, str]]:
        """Chat messages for ``text``; ``lang`` selects examples, ``names`` fill the other placeholders."""
        shown = [e for e in self.examples if e.lang is None or e.lang == lang]
        turns = [("system", self.system)] if self.system else []
        if SHOTS in self.user:
            names["few-shot examples"] = "\n\n".join(f"Input: {e.input}\nOutput: {e.output}" for e in shown)
        else:
            for e in shown:
                turns += [("user", _fill(self.user, {**names, "example": e.input})), ("assistant", e.output)]
        turns.append(("user", _fill(self.user, {**names, "example": text})))
        return [{"role": role, "content": content} for role, content in turns]


def _fill(template: str, values: Mapping[str, str]) -> str:
    """Fill all placeholders at once, so that braces in the inserted text (code) are kept."""
    return _PLACE.sub(lambda match: values.get(match[1], match[0]), template)


def as_list(sentences: Sequence[str] | Sequence[Sequence[str]]) -> str:
    """Write a list in the format of the prompt of OS Figure 15: one item per line."""
    return "[\n" + ",\n".join(json.dumps(item, ensure_ascii=False) for item in sentences) + "\n]"


BACK_TRANSLATE = Prompt(
    system="You are a helpful translation assistant. You respond only with the translation, without additional"
    " comments, context, or explanation.",
    user="Translate the following text from English into {target_lang}. Don't produce any other output outside"
    " of the translation.\n\n{example}",
)

DESCRIBE_CODE = Prompt(
    "Translate the following {programming_language} snippet to a single sentence, ensuring that all elements"
    " and operations in the code are included. The sentence should convey the semantic meaning of the code,"
    " effectively translating it into a clear and concise lexical explanation without making any assumptions or"
    " inferences beyond what is explicitly stated in the code. Describe only and exactly its explicit elements"
    " and operations, without any additional context or explanation. Use a single, direct sentence that"
    " includes all elements and operations in the code, avoiding introductory words or additional context."
    " Please provide only the sentence and nothing else:\n\n{example}"
)

DESCRIBE_MATH = Prompt(
    "Describe the following mathematical text in a single sentence. The sentence should convey the semantic"
    " meaning of the mathematical notation, effectively translating the mathematical notation into a clear and"
    " concise lexical explanation. Please provide only the sentence and nothing else.\n\n{example}"
)

_NEGATIVES = """\
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
{few-shot examples}

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

# The sentences of OS Table 31, without its two with the same meaning as the input ("Tonight will not be short").
_TABLE_31 = (
    Example(
        "Tonight will be long.",
        as_list(["Yesterday may be long", "Tomorrow will be short", "Tonight may not be long", "Last night was short"]),
    ),
    Example(
        "You got the archaeologist and the psychologist wrong.",
        as_list(
            [
                "She got the anthropologist and the sociologist wrong",
                "They got the archaeologist and the psychologist correct",
                "We did not get the biologist and the physicist wrong",
                "He got the economist and the politician right",
            ]
        ),
    ),
)

NEGATIVES = Prompt(_NEGATIVES, examples=_TABLE_31)

#: The prompt of Figure 15 with the kind of each sentence; this format and its examples are ours.
NEGATIVES_BY_KIND = Prompt(
    _NEGATIVES.replace(
        '"Transformed sentence 1",\n"Transformed sentence 2",',
        '["causality", "Transformed sentence 1"],\n["number", "Transformed sentence 2"],',
    )
    .replace(
        "list of 1-5 modified sentences",
        "list of 1-5 pairs of method (causality, entity or number) and modified sentence",
    )
    .replace("Python list of strings", "Python list of pairs of strings"),
    examples=(
        Example(
            "She did not sell 15% of the firm to Nokia in 2019.",
            as_list(
                [
                    ["causality", "She sold 15% of the firm to Nokia in 2019."],
                    ["entity", "He did not sell 15% of the firm to Sony in 2019."],
                    ["number", "She did not sell 40% of the firm to Nokia in 2019."],
                ]
            ),
        ),
        Example(
            "Tonight will be long.",
            as_list([["causality", "Tonight will be short."], ["causality", "Tonight may not be long."]]),
        ),
    ),
)


def load_prompt(path: str | Path, default: Prompt) -> Prompt:
    """Load few-shot examples, and optionally another prompt text, from a JSON or YAML file into a copy of ``default``.

    The file has a list of examples, or a mapping of ``examples``, ``user`` and ``system``. An example has ``input``,
    ``output`` (a text, or a list for hard negatives) and optionally ``lang`` (a language code).

    Raises:
        FileNotFoundError: the file does not exist. ValueError: not JSON or YAML, or another format.
    """
    import yaml

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}; give a JSON or YAML file of few-shot examples")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))  # JSON is YAML
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not JSON or YAML ({' '.join(str(error).split())})") from None
    content = {"examples": content} if isinstance(content, list) else content
    if not isinstance(content, dict) or not content or set(content) - {"examples", "user", "system"}:
        raise ValueError(f"{path}: give a list of examples, or a mapping with examples, user and system")
    for name in ("user", "system"):
        if name in content and not (isinstance(content[name], str) and content[name].strip()):
            raise ValueError(f"{path}: {name} is not a text")
    if "{example}" not in content.get("user", "{example}"):
        raise ValueError(f"{path}: user has no {{example}}, the placeholder of the input")
    examples = content.pop("examples", None)
    if examples is not None:
        if not isinstance(examples, list):
            raise ValueError(f"{path}: examples is not a list")
        content["examples"] = tuple(_example(e, f"{path}: example {i}") for i, e in enumerate(examples, 1))
    prompt = replace(default, **content)
    if prompt.examples == default.examples and SHOTS in default.user and SHOTS not in prompt.user:
        prompt = replace(prompt, examples=())  # a custom text without the examples placeholder has no examples
    return prompt


def _example(value: Any, where: str) -> Example:
    if not isinstance(value, dict) or set(value) - {"input", "output", "lang"} or not value.get("output"):
        raise ValueError(f"{where}: give input, output and perhaps lang, not {value!r}")
    output = value["output"]
    if isinstance(output, list):
        output = as_list(output)
    if not isinstance(value.get("input"), str) or not isinstance(output, str):
        raise ValueError(f"{where}: input must be a text, output a text or a list of texts")
    return Example(value["input"], output, value.get("lang"))
