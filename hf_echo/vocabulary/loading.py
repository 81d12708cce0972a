"""Open a tokenizer from a folder, a tokenizer.json, a GGUF file or the Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from ..modeling import EchoTokenizer
from ..utils.files import first_line
from ..utils.hub import locate, packaged_model, read_pretrained


def load_tokenizer(source: str | Path) -> PreTrainedTokenizerFast:
    """Open a fast tokenizer from a folder, a tokenizer.json, a GGUF file, a Hub name or a model of
    the package.

    Raises:
        FileNotFoundError: there is no tokenizer at `source`. ValueError: it is not a tokenizer, or
            not a fast one.
    """
    source = packaged_model(str(source))
    path = Path(source)
    if path.is_file() and path.suffix == ".json":
        try:
            return PreTrainedTokenizerFast(tokenizer_file=str(path))
        except Exception as error:  # tokenizers raises plain Exceptions
            reason = first_line(error)
            raise ValueError(f"{path} is not a tokenizer.json: {reason}") from None
    if path.is_dir() and (path / "tokenizer.json").is_file():
        place = str(path)
        options: dict[str, Any] = {}
    else:
        place, options = locate(source)
    tokenizer = read_pretrained(AutoTokenizer, source, place, **options)
    if not hasattr(tokenizer, "backend_tokenizer"):
        raise ValueError(
            f"{source} is a {type(tokenizer).__name__}; give a fast tokenizer (tokenizer.json)"
        )
    return tokenizer


def with_backend(tokenizer: PreTrainedTokenizerFast, backend: Tokenizer) -> PreTrainedTokenizerFast:
    """The same settings and special tokens around another backend.

    A class of transformers, which would build its own backend again when it is opened, becomes the
    generic one.
    """
    kind = type(tokenizer) if isinstance(tokenizer, EchoTokenizer) else PreTrainedTokenizerFast
    settings = (
        "model_max_length",
        "padding_side",
        "truncation_side",
        "split_special_tokens",
        "model_input_names",
    )
    options = {name: getattr(tokenizer, name) for name in settings}
    options |= tokenizer.special_tokens_map
    if isinstance(tokenizer, EchoTokenizer):
        for name in ("on_long", "prompts"):
            if name in tokenizer.init_kwargs:
                options[name] = tokenizer.init_kwargs[name]
    return kind(tokenizer_object=backend, **options)
