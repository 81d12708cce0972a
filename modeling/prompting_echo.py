"""Prompts that name language and provenance: encoder prefix and decoder prompts
(OS Table 40, ECHO Table 17).

    encoder  <CLS><s> [LANGUAGE]:<SEP> [SENTENCE]</s>
    decoder  <s> This is a possible translation in [LANGUAGE]:<SEP> [SENTENCE]</s>

The functions return text; the tokenizer adds the special tokens.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .language_names_echo import LANGUAGE_NAMES

UNSPECIFIED = "Unspecified language"
CODE_LANGUAGES = ("python", "java", "javascript", "go", "c", "cpp", "ruby", "csharp", "php")
MATH_LANGUAGES = ("latex",)

# A prompt given as a string (sentence-transformers' `prompts`) ends in the token that any tokenizer
# of the layout has: "French:<SEP>Bonjour". Only the name of a known language in front of it is a
# prompt; elsewhere "<SEP>" is text.
NAME_END = "<SEP>"

_KNOWN_PROMPTS = {f"{name}:" for name in (UNSPECIFIED, *LANGUAGE_NAMES.values())}
_DECODER_PROMPTS = {
    "primary": "This is a possible translation in {name}:",
    "dictionary": "This is a possible translation in {name}:",
    "forward_translation": "This is a possible translation in {name}:",
    "mined": "This is a possible mined translation in {name}:",
    "back_translation": "This is a possible back-translation in {name}:",
}


def language_name(code: str | None) -> str:
    """English name of a language code; ``None`` is "Unspecified language"."""
    if code is None:
        return UNSPECIFIED
    name = LANGUAGE_NAMES.get(code)
    if name is None:
        near = _nearest(str(code)) or ["fra_Latn"]
        raise ValueError(
            f"unknown language code {code!r}; codes look like {', '.join(near)} (ISO 639-3 and script)"
        )
    return name


def _nearest(text: str, n: int = 3) -> list[str]:
    """Similar codes: first those of the same ISO 639-3 code ("fra") or name ("French"),
    then similar spellings."""
    lowered = text.strip().lower()
    exact = [
        code
        for code, name in LANGUAGE_NAMES.items()
        if lowered == name.lower()
        or code.lower().split("_")[0] == lowered.split("_")[0].split("-")[0]
    ]
    alike = difflib.get_close_matches(text, LANGUAGE_NAMES, n=n, cutoff=0.5)
    return list(dict.fromkeys([*exact, *alike]))[:n]


def encoder_prompt(lang: str | None = None) -> str:
    """The encoder's language prefix without special tokens: ``"French:"``."""
    return f"{language_name(lang)}:"


def decoder_prompt(
    target_lang: str, provenance: str = "primary", source_lang: str | None = None
) -> str:
    """The decoder's instruction without special tokens (OS Table 40).

    Code and mathematics have their own prompts, whatever the provenance.
    """
    if target_lang in MATH_LANGUAGES:
        return "This is a corresponding math formula:"
    name = language_name(target_lang)
    if target_lang in CODE_LANGUAGES:
        return f"This is a corresponding code snippet in {name}:"
    if (
        source_lang in CODE_LANGUAGES
        or source_lang in MATH_LANGUAGES
        or provenance in ("code", "math")
    ):
        return f"This is a possible natural language explanation in {name}:"
    template = _DECODER_PROMPTS.get(provenance)
    if template is None:
        provenances = ", ".join([*_DECODER_PROMPTS, "code", "math"])
        raise ValueError(f"unknown provenance {provenance!r}; use one of {provenances}")
    return template.format(name=name)


def split_prompt(text: str) -> tuple[str, str]:
    """``"French:<SEP>Bonjour"`` -> ``("French:", "Bonjour")``;
    a text without prompt gets "Unspecified language:"."""
    prompt, mark, rest = text.partition(NAME_END)
    if mark and prompt in _KNOWN_PROMPTS:
        return prompt, rest
    return f"{UNSPECIFIED}:", text


def texts_of(texts: Any) -> list[str]:
    """A checked list of the texts in any container of one dimension.

    Args:
        texts: a list, tuple, generator, NumPy array, pandas or polars Series
            (its index does not matter), Column of `datasets` or Arrow array.
    """
    texts = rows_of(texts, "texts")
    check_texts(texts)
    return texts


def langs_of(lang: Any, count: int, name: str = "lang") -> str | list[str | None] | None:
    """The language of `count` texts: one code, None (not specified), or a checked list of one per
    text.

    Args:
        lang: a code, None, or a container as in `texts_of`.
    """
    is_one = lang is None or isinstance(lang, str)
    langs = [lang] if is_one else rows_of(lang, name)
    if not is_one and len(langs) != count:
        raise ValueError(
            f"{count} texts but {len(langs)} languages: give one code, or one per text"
        )
    for row, code in enumerate(langs, 1):
        if code is not None and not (isinstance(code, str) and code):
            where = name if lang is code else f"{name} in row {row}"
            raise ValueError(f"{where} is {code!r:.60}; give a code such as 'fra_Latn', or None")
    return lang if is_one else langs


def check_known_langs(
    lang: str | Iterable[str | None] | None, languages: Iterable[str] | None
) -> None:
    """Check languages that no prompt will name, and so no prompt will refuse.

    Args:
        lang: as `langs_of` gives it.
        languages: codes that the checkpoint lists; without them every code is let through.
    """
    if not languages:
        return
    codes = [lang] if lang is None or isinstance(lang, str) else lang
    for code in codes:
        if code is not None and code not in languages:
            language_name(code)  # raises for an unknown one


def check_no_lists(rows: Sequence[Any]) -> None:
    """Refuse embeddings that are given as lists, with the way to give them."""
    if rows and isinstance(rows[0], (list, tuple)):
        raise ValueError(
            f"row 1 is a {type(rows[0]).__name__} ({rows[0]!r:.60}), not a text; embeddings are one array: "
            "numpy.array(rows)"
        )


def rows_of(values: Any, name: str) -> list[Any]:
    """The rows of any container of one dimension, unchecked;
    None for a value that pandas calls missing."""
    if isinstance(values, (str, bytes)):
        raise ValueError(
            f"{name} is one {'string' if isinstance(values, str) else 'bytes object'}; give a list"
        )
    if (
        getattr(values, "ndim", 1) != 1
        or isinstance(values, Mapping)
        or not isinstance(values, Iterable)
    ):
        raise ValueError(
            f"{name} is {type(values).__name__}; give a list, or one column of a table"
        )
    column: Any = values
    if hasattr(column, "isna"):  # pandas has several values for a missing one
        return [
            None if missing else value
            for value, missing in zip(column.tolist(), column.isna(), strict=True)
        ]
    for method in ("to_pylist", "tolist", "to_list"):  # of Arrow, NumPy, polars
        if hasattr(column, method):
            return getattr(column, method)()
    return list(column)


def is_blank(text: str) -> bool:
    """Whether nothing of a text is visible: spaces, control and format characters
    (zero width, direction marks)."""
    return all(unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp", "Zs") for letter in text)


def check_texts(texts: Sequence[Any]) -> None:
    """Check that all texts are strings that can be encoded as UTF-8."""
    for row, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise ValueError(
                f"text in row {row} is {type(text).__name__} ({text!r:.60}), not a string"
            )
        try:
            text.encode()
        except UnicodeEncodeError as error:
            code = ord(text[error.start])
            raise ValueError(
                f"text in row {row} holds a lone surrogate (U+{code:04X} at character {error.start + 1}), "
                "which is not text: replace it"
            ) from None
