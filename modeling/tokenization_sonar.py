"""SONAR's tokenizer as this package calls tokenizers: languages by `lang=`, prompts of the decoder, `on_long`.

The folder of a converted SONAR holds a generic fast tokenizer (`hf_echo.checkpoints.published.sonar_tokenizer`), which
sentence-transformers and AutoTokenizer open alone; this class is put around it.

    encoder   fra_Latn [SENTENCE] </s>
    decoder   </s> fra_Latn [SENTENCE] </s>
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from .prompting_echo import PROMPT_END, langs_of, texts_of
from .tokenization_echo import EchoTokenizer

DEFAULT_LANGUAGE = "eng_Latn"


class SonarTokenizer(EchoTokenizer):
    """As EchoTokenizer; a text without a language is read as English, since SONAR has no "unspecified"."""

    @classmethod
    def around(cls, tokenizer) -> SonarTokenizer:
        """The same tokenizer with this class's methods."""
        return cls(
            tokenizer_object=tokenizer.backend_tokenizer,
            bos_token=tokenizer.bos_token,
            eos_token=tokenizer.eos_token,
            unk_token=tokenizer.unk_token,
            pad_token=tokenizer.pad_token,
            model_max_length=tokenizer.model_max_length,
            split_special_tokens=True,
        )

    def with_prompts(self, texts: list[str], lang) -> tuple[list[str], list[str]]:
        texts = texts_of(texts)
        lang = langs_of(lang, len(texts))
        if not isinstance(lang, list):
            lang = [lang] * len(texts)
        for code in set(lang):
            self._language_id(code)
        return [(code or DEFAULT_LANGUAGE) + PROMPT_END for code in lang], texts

    def decoder_prompt_ids(self, target_lang: str, provenance: str = "primary", source_lang: str | None = None):
        return [self.eos_token_id, self._language_id(target_lang)]

    @property
    def languages(self) -> Sequence[str]:
        return sorted(token[: -len(PROMPT_END)] for token in self.get_added_vocab() if token.endswith(PROMPT_END))

    def _language_id(self, code: str | None) -> int:
        number = self.backend_tokenizer.token_to_id((code or DEFAULT_LANGUAGE) + PROMPT_END)
        if number is None:
            near = difflib.get_close_matches(str(code), self.languages, cutoff=0.5) or ["fra_Latn"]
            raise ValueError(f"SONAR does not know the language {code!r}; codes look like {', '.join(near)}")
        return number
