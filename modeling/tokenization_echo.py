"""EchoTokenizer: any fast tokenizer with the encoder layout `<CLS><s> [LANGUAGE]:<SEP>
[SENTENCE]</s>` (OS Table 40).

The language comes from `lang=`, from a prompt in front of the text (sentence-transformers), or is
"unspecified". With `prompts="none"` the layout is that of the tokenizer itself, and `lang=` changes
nothing.
A special token that is spelled out in a text is treated as text. Texts are never truncated silently
(`on_long`). Threads may share a tokenizer.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from threading import RLock
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, normalizers, processors
from transformers import PreTrainedTokenizerFast
from transformers.tokenization_utils_base import BatchEncoding, TruncationStrategy
from transformers.utils import cached_file

from .configuration_echo import DECODER_FOLDER
from .prompting_echo import (
    NAME_END,
    decoder_prompt,
    encoder_prompt,
    langs_of,
    split_prompt,
    texts_of,
)

logger = logging.getLogger(__name__)

CLS = "<CLS>"
SEP = "<SEP>"
BOS = "<s>"
EOS = "</s>"
PAD = "<pad>"
ON_LONG = ("warn", "error", "split")

# transformers loads remote code without making it an attribute of its package. dill
# (`Dataset.map(num_proc=2)`) would then copy the classes by value, and with them the lock below, as
# one that nobody can acquire.
if __name__.startswith("transformers_modules."):
    setattr(sys.modules[__package__], __name__.rpartition(".")[2], sys.modules[__name__])

_backend_lock = RLock()


def _alone(method: Callable) -> Callable:
    """One thread at a time: a call sets truncation and padding of the backend,
    which all calls share."""

    @wraps(method)
    def call(*args: Any, **kwargs: Any):
        with _backend_lock:
            return method(*args, **kwargs)

    return call


def why_no_tokenizer(file: Path) -> str | None:
    """One line about a tokenizer.json that cannot be read; None where it can or does not exist."""
    if not file.is_file():
        return None
    try:
        Tokenizer.from_file(str(file))
    except Exception as error:  # a bare Exception
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        return f"{file} is damaged or incomplete ({reason}): download or copy it again"
    return None


class EchoTokenizer(PreTrainedTokenizerFast):
    """
    Args:
        on_long: treatment of texts longer than `max_length`, if truncation is on or the call passes
            it (`tokenizer(texts, on_long="error")`). "warn" truncates and logs how many texts were
            truncated; "error" raises; "split" returns the pieces as separate rows with
            `overflow_to_sample_mapping`, and EchoEncoder averages them.
        prompts: "name" (the layout above) or "none".

    Example:
        >>> tokenizer(["Bonjour", "Hallo"], lang=["fra_Latn", "deu_Latn"], padding=True, return_tensors="pt")
    """

    model_input_names = ["input_ids", "attention_mask"]

    _auto_map = {"AutoTokenizer": [None, "tokenization_echo.EchoTokenizer"]}

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | Path, *args: Any, **kwargs: Any
    ) -> EchoTokenizer:
        """As in transformers; a damaged tokenizer.json of a folder is refused in one line that
        names it."""
        try:
            return super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)
        # tokenizers raises a bare Exception, transformers a KeyError and others
        except Exception as error:
            folder = Path(str(pretrained_model_name_or_path)) / (kwargs.get("subfolder") or "")
            reason = why_no_tokenizer(folder / "tokenizer.json")
            if reason:
                raise ValueError(reason) from error
            raise

    # Do not define __init__: transformers would then rebuild the tokenizer from its vocabulary and
    # lose the rest.
    @property
    def on_long(self) -> str:
        return self.init_kwargs.get("on_long", "warn")

    @on_long.setter
    def on_long(self, value: str) -> None:
        if value not in ON_LONG:
            raise ValueError(f"on_long must be one of {', '.join(ON_LONG)}, not {value!r}")
        self.init_kwargs["on_long"] = value

    @property
    def prompts(self) -> str:
        return self.init_kwargs.get("prompts", "name")

    @property
    def target(self) -> EchoTokenizer:
        """The tokenizer of what the decoder writes:
        this one, unless `open_target` found another (OS 4.7)."""
        return getattr(self, "_target", self)

    def open_target(self, name: str | Path, **hub: Any) -> EchoTokenizer:
        """Let the tokenizer in `decoder/` of a checkpoint, where there is one, be the target's;
        returns itself."""
        if _holds(name, "tokenizer.json", **hub):
            self._target = type(self).from_pretrained(name, subfolder=DECODER_FOLDER, **hub)
        return self

    @property
    def roles(self) -> tuple[str, ...]:
        """The special tokens that it needs."""
        return ("cls", "sep", "bos", "eos", "pad") if self.prompts == "name" else ("eos", "pad")

    @_alone
    def _encode_plus(
        self,
        text: str | list[str],
        text_pair: str | list[str] | None = None,
        add_special_tokens: bool = True,
        truncation_strategy: TruncationStrategy = TruncationStrategy.DO_NOT_TRUNCATE,
        max_length: int | None = None,
        is_split_into_words: bool = False,
        return_overflowing_tokens: bool = False,
        lang: str | Sequence[str | None] | None = None,
        on_long: str | None = None,
        **kwargs: Any,
    ) -> BatchEncoding:
        """Ids of texts behind their prompts; long texts are cut, split or refused."""
        options = dict(max_length=max_length, is_split_into_words=is_split_into_words, **kwargs)
        # Pairs and split words have no prompt: transformers' own way.
        if not add_special_tokens or text_pair is not None or is_split_into_words:
            if on_long is not None:
                raise ValueError(
                    "on_long is for plain texts with special tokens, not for pairs or split words"
                )
            if lang is not None and add_special_tokens:
                raise ValueError("lang is for plain texts, not for pairs or split words")
            return super()._encode_plus(
                text,
                text_pair,
                add_special_tokens=add_special_tokens,
                truncation_strategy=truncation_strategy,
                return_overflowing_tokens=return_overflowing_tokens,
                **options,
            )
        # What happens to long texts asks for truncation, which the caller need not name.
        if on_long is not None and truncation_strategy == TruncationStrategy.DO_NOT_TRUNCATE:
            truncation_strategy = TruncationStrategy.LONGEST_FIRST
            options["max_length"] = max_length = max_length or self.model_max_length
        on_long = on_long or self.on_long
        if on_long not in ON_LONG:
            raise ValueError(f"on_long must be one of {', '.join(ON_LONG)}, not {on_long!r}")
        # Prompt and text become a pair, of which the text alone is cut or split.
        single = isinstance(text, str)
        rows: Any = [text] if single else text
        prompts, texts = self.with_prompts(rows, lang)
        truncates = truncation_strategy != TruncationStrategy.DO_NOT_TRUNCATE
        if truncates:
            self._check_room(prompts, max_length)
        overflowing = return_overflowing_tokens or (truncates and on_long == "split")
        if truncates:
            truncation_strategy = TruncationStrategy.ONLY_SECOND
        encoded = self._encode_prompted(
            prompts,
            texts,
            truncation_strategy=truncation_strategy,
            return_overflowing_tokens=overflowing,
            **options,
        )
        # What was cut is reported; where nothing was long, the rows are as usual.
        if truncates and not overflowing:
            self._report_cut(encoded, max_length, on_long)
        no_text_was_long = len(encoded["input_ids"]) == len(texts)
        if overflowing and no_text_was_long and not return_overflowing_tokens:
            encoded.pop("overflow_to_sample_mapping", None)
            overflowing = False
        if single and kwargs.get("return_tensors") is None and not overflowing:
            row = {key: value[0] for key, value in encoded.items()}
            return BatchEncoding(row, encoded.encodings)
        return BatchEncoding(encoded.data, encoded.encodings)

    def _encode_prompted(
        self, prompts: list[str], texts: list[str], **options: Any
    ) -> BatchEncoding:
        """Prompts and texts as pairs; texts alone where the tokenizer writes no prompts."""
        if self.prompts == "name":
            return super()._encode_plus(prompts, texts, **options)
        if options["truncation_strategy"] == TruncationStrategy.ONLY_SECOND:
            options["truncation_strategy"] = TruncationStrategy.ONLY_FIRST
        return super()._encode_plus(texts, **options)

    @_alone
    def _decode(self, *args: Any, **kwargs: Any) -> str:
        return super()._decode(*args, **kwargs)

    def with_prompts(
        self, texts: list[str], lang: str | Iterable[str | None] | None
    ) -> tuple[list[str], list[str]]:
        """(prompts, texts without prompt) for these languages, one for all or one each."""
        texts = texts_of(texts)
        lang = langs_of(lang, len(texts))
        if self.prompts == "none":
            return [""] * len(texts), texts
        if not isinstance(lang, list):
            lang = [lang] * len(texts)
        # sentence-transformers puts its default prompt even in front of a text that starts with a
        # prompt.
        default = encoder_prompt() + NAME_END
        prompts = []
        plain_texts = []
        for text, code in zip(texts, lang):
            if code:
                prompt = encoder_prompt(code)
            else:
                prompt, text = split_prompt(text.removeprefix(default))
            prompts.append(prompt)
            plain_texts.append(text)
        return prompts, plain_texts

    @_alone
    def pair_ids(self, prompts: list[str], texts: list[str]) -> list[list[int]]:
        """Ids of the encoder layout as lists, without truncation or padding; faster than a call.

        Each distinct prompt is tokenized once.
        """
        end = self.end_ids
        names = list(dict.fromkeys(prompts))
        backend = self._bare_backend()
        inputs = ["" if self.prompts == "none" else (name, "") for name in names]
        heads = {}  # ids in front of a text, by its prompt
        for name, encoding in zip(names, backend.encode_batch_fast(inputs)):
            heads[name] = encoding.ids[: len(encoding.ids) - len(end)]
        rows = []
        for prompt, ids in zip(prompts, self.text_ids(texts), strict=True):
            rows.append([*heads[prompt], *ids, *end])
        return rows

    @property
    def end_ids(self) -> list[int]:
        """Ids behind a text: `</s>`, or what the tokenizer's own template has there."""
        if self.prompts != "none":
            return [self.eos_token_id]
        # The special tokens behind the last one of a text.
        encoding = self._bare_backend().encode("a")
        end = len(encoding.ids)
        while end and encoding.special_tokens_mask[end - 1]:
            end -= 1
        return encoding.ids[end:]

    @_alone
    def text_ids(self, texts: list[str]) -> list[list[int]]:
        """Ids of the texts alone, without prompts and special tokens."""
        encodings = self._bare_backend().encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def _bare_backend(self) -> Tokenizer:
        """The backend without the truncation and padding that an earlier call left in it."""
        backend = self.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = self.split_special_tokens
        return backend

    def _check_room(self, prompts: list[str], max_length: int) -> None:
        """Raise if the language prefix alone fills `max_length`,
        which would truncate the prefix."""
        # A sub-word has at least one byte, and a character at most four: short prompts need no
        # count.
        longest = max(map(len, prompts), default=0)
        if max_length > 8 + 4 * longest:
            return
        lengths = [len(ids) for ids in self.pair_ids(prompts, [""] * len(prompts))]
        if max_length <= max(lengths):
            prompt = prompts[lengths.index(max(lengths))]
            raise ValueError(
                f"max_length {max_length} leaves no room for text: {prompt!r} takes {max(lengths)} tokens; raise it"
            )

    def _report_cut(self, encoded: BatchEncoding, max_length: int | None, on_long: str) -> None:
        """Warn of texts that were cut, or refuse them."""
        cut = []
        for row, encoding in enumerate(encoded.encodings or [], 1):
            if encoding.overflowing:
                cut.append(row)
        if not cut:
            return
        limit = max_length or self.model_max_length
        message = f"{len(cut)} of {len(encoded.encodings)} texts are longer than {limit} tokens"
        if on_long == "error":
            first = f"the first is row {cut[0]}"
            raise ValueError(
                f"{message}, {first}; shorten them, or use on_long='split' or on_long='warn'"
            )
        logger.warning(
            "%s and were cut; on_long='split' averages their pieces, on_long='error' refuses them",
            message,
        )

    def decoder_prompt_ids(
        self, target_lang: str, provenance: str = "primary", source_lang: str | None = None
    ) -> list[int]:
        """Ids that the decoder starts with:
        `<s> This is a possible translation in [LANGUAGE]:<SEP>` (OS Table 40)."""
        text = decoder_prompt(target_lang, provenance, source_lang)
        bos = [] if self.bos_token_id is None else [self.bos_token_id]
        return [*bos, *self.encode(text, add_special_tokens=False), self.sep_token_id]

    @classmethod
    def around(
        cls, tokenizer: PreTrainedTokenizerFast, *, split_special_tokens: bool = True
    ) -> EchoTokenizer:
        """The same tokenizer with `lang=` (unused), `on_long` and the prompts of a decoder. Its ids
        stay.

        A missing bos token is the CLS token, a missing eos token the SEP token and the other way
        round, a missing pad token eos. Where the tokenizer names no longest text, it is 512 tokens.

        Args:
            split_special_tokens: whether a special token that is spelled out in a text is text.

        Raises:
            ValueError: a tokenizer without a fast backend, or with neither eos nor SEP token.
        """
        if not getattr(tokenizer, "is_fast", False):
            raise ValueError(
                f"{tokenizer.name_or_path!r} has a {type(tokenizer).__name__}; give a fast tokenizer"
            )
        # Special tokens that the other tokenizer lacks stand in for each other.
        roles = {
            role: getattr(tokenizer, f"{role}_token")
            for role in ("cls", "sep", "bos", "eos", "pad", "unk", "mask")
        }
        roles["bos"] = roles["bos"] or roles["cls"]
        roles["sep"], roles["eos"] = roles["sep"] or roles["eos"], roles["eos"] or roles["sep"]
        roles["pad"] = roles["pad"] or roles["eos"]
        if roles["eos"] is None:
            raise ValueError(
                f"the tokenizer of {tokenizer.name_or_path!r} has neither an eos nor a SEP token"
            )
        # Its backend without truncation and padding, which each call chooses.
        longest = tokenizer.model_max_length
        backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        backend.no_padding()
        backend.no_truncation()
        return cls(
            tokenizer_object=backend,
            **{f"{role}_token": token for role, token in roles.items() if token is not None},
            model_max_length=longest if longest < 10**9 else 512,
            padding_side=tokenizer.padding_side,
            truncation_side=tokenizer.truncation_side,
            split_special_tokens=split_special_tokens,
            prompts="none",
        )

    @classmethod
    def from_backend(
        cls,
        backend: Tokenizer,
        *,
        max_length: int = 512,
        bos: str = BOS,
        eos: str = EOS,
        **kwargs: Any,
    ) -> EchoTokenizer:
        """Wrap a `tokenizers.Tokenizer`: add CLS, SEP and pad (bos and eos if missing) and keep the
        old ids."""
        backend = Tokenizer.from_str(backend.to_str())
        backend.add_special_tokens([AddedToken(t, special=True) for t in (CLS, bos, SEP, eos, PAD)])
        backend.no_padding()
        backend.no_truncation()
        ids = {t: backend.token_to_id(t) for t in (CLS, bos, SEP, eos)}
        backend.post_processor = processors.TemplateProcessing(
            single=f"{CLS} {bos} $A {eos}",
            pair=f"{CLS} {bos} $A {SEP} $B:1 {eos}:1",
            special_tokens=list(ids.items()),
        )
        # Prompt and sentence each start with a space, as the template prints them, so their
        # sub-words are those of mid-sentence text. SentencePiece-like tokenizers add this space
        # themselves.
        layers = [normalizers.Strip()]
        if "Prepend" not in str(backend.normalizer) and "Metaspace" not in str(
            backend.pre_tokenizer
        ):
            layers.append(normalizers.Prepend(" "))
            if backend.decoder is not None:  # decoding removes that space
                first_space = decoders.Strip(" ", 1, 0)
                backend.decoder = decoders.Sequence([backend.decoder, decoders.Fuse(), first_space])
        if backend.normalizer is not None:
            layers.append(backend.normalizer)
        backend.normalizer = normalizers.Sequence(layers)
        return cls(
            tokenizer_object=backend,
            cls_token=CLS,
            sep_token=SEP,
            bos_token=bos,
            eos_token=eos,
            pad_token=PAD,
            model_max_length=max_length,
            split_special_tokens=True,  # "<SEP>" in a text is text
            **kwargs,
        )


def _holds(name: str | Path, file: str, **hub: Any) -> bool:
    silent = {
        "_raise_exceptions_for_missing_entries": False,
        "_raise_exceptions_for_connection_errors": False,
    }
    return cached_file(str(name), file, subfolder=DECODER_FOLDER, **silent, **hub) is not None
