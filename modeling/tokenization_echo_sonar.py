"""SONAR's tokenizer: a special token names the language of a text, as NLLB's does.

encoder   fra_Latn [SENTENCE] </s>
decoder   </s> fra_Latn [SENTENCE] </s>
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any

from transformers import PreTrainedTokenizerFast
from transformers.tokenization_utils_base import BatchEncoding, TruncationStrategy

from .prompting_echo import langs_of, texts_of
from .tokenization_echo import EchoTokenizer

DEFAULT_LANGUAGE = "eng_Latn"
LANGUAGE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")


class SonarTokenizer(EchoTokenizer):
    """As EchoTokenizer; a text without a language is read as English, since SONAR has no
    "unspecified".

    The language comes from `lang=`, or is the code and a space in front of the text
    (the prompts of sentence-transformers). A token that is spelled out elsewhere in a text is text.
    """

    prompts = "tokens"
    roles = ("bos", "eos", "pad")
    _auto_map = {"AutoTokenizer": [None, "tokenization_echo_sonar.SonarTokenizer"]}

    @property
    def languages(self) -> list[str]:
        return sorted(token for token in self.get_added_vocab() if LANGUAGE.fullmatch(token))

    def with_prompts(
        self, texts: list[str], lang: str | Iterable[str | None] | None
    ) -> tuple[list[str], list[str]]:
        """(language codes, texts without code) for these languages, one for all or one each."""
        texts = texts_of(texts)
        lang = langs_of(lang, len(texts))
        if lang is None or isinstance(lang, str):
            lang = [lang] * len(texts)
        # An unknown language is named before anything is tokenized.
        for code in {*lang} - {None}:
            self.language_id(code)
        codes = []
        bodies = []
        for text, code in zip(texts, lang):
            # Without a language the text itself may begin with its token.
            if not code:
                code, text = self._split(text)
            codes.append(code)
            bodies.append(text)
        return codes, bodies

    def pair_ids(self, prompts: list[str], texts: list[str]) -> list[list[int]]:
        ids = {code: self.language_id(code) for code in set(prompts)}
        rows = zip(prompts, self.text_ids(texts), strict=True)
        return [[ids[code], *row, self.eos_token_id] for code, row in rows]

    def decoder_prompt_ids(
        self, target_lang: str, provenance: str = "primary", source_lang: str | None = None
    ) -> list[int]:
        return [self.eos_token_id, self.language_id(target_lang)]

    def language_id(self, code: str) -> int:
        """
        Raises:
            ValueError: an unknown language.
        """
        if LANGUAGE.fullmatch(str(code)):
            number = self.backend_tokenizer.token_to_id(code)
            if number is not None:
                return number
        near = difflib.get_close_matches(str(code), self.languages, cutoff=0.5) or ["fra_Latn"]
        raise ValueError(
            f"SONAR does not know the language {code!r}; codes look like {', '.join(near)}"
        )

    def _split(self, text: str) -> tuple[str, str]:
        code, _, rest = text.partition(" ")
        is_prompt = (
            LANGUAGE.fullmatch(code) and self.backend_tokenizer.token_to_id(code) is not None
        )
        return (code, rest) if is_prompt else (DEFAULT_LANGUAGE, text)

    def _encode_prompted(
        self,
        prompts: list[str],
        texts: list[str],
        *,
        truncation_strategy: TruncationStrategy,
        return_tensors: str | None = None,
        **options: Any,
    ) -> BatchEncoding:
        """The template puts English in front of every text;
        it is replaced by the language of the text."""
        if truncation_strategy == TruncationStrategy.ONLY_SECOND:
            truncation_strategy = TruncationStrategy.ONLY_FIRST
        options |= {"truncation_strategy": truncation_strategy}
        encoded = PreTrainedTokenizerFast._encode_plus(self, texts, **options)
        english = self.language_id(DEFAULT_LANGUAGE)
        rows = encoded["input_ids"]
        for row, owner in zip(
            rows, encoded.get("overflow_to_sample_mapping", range(len(rows))), strict=True
        ):
            row[row.index(english)] = self.language_id(prompts[owner])
        return BatchEncoding(encoded.data, encoded.encodings, tensor_type=return_tensors)
