"""Open a tokenizer from a folder, a tokenizer.json, a GGUF file or the Hub."""

from __future__ import annotations

from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerFast

from ..utils.hub import packaged_model
from ..utils.sources import locate, read_pretrained


def load_tokenizer(source: str | Path) -> PreTrainedTokenizerFast:
    """Open a fast tokenizer from a folder, a tokenizer.json, a GGUF file, a Hub name or a model of the package.

    Raises:
        FileNotFoundError: there is no tokenizer at `source`. ValueError: it is not a tokenizer, or not a fast one.
    """
    source = packaged_model(str(source))
    path = Path(source)
    if path.is_file() and path.suffix == ".json":
        try:
            return PreTrainedTokenizerFast(tokenizer_file=str(path))
        except Exception as error:  # tokenizers raises plain Exceptions
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ValueError(f"{path} is not a tokenizer.json: {reason}") from None
    if path.is_dir() and (path / "tokenizer.json").is_file():
        place, options = str(path), {}
    else:
        place, options = locate(source)
    tokenizer = read_pretrained(AutoTokenizer, source, place, **options)
    if not hasattr(tokenizer, "backend_tokenizer"):
        raise ValueError(f"{source} is a {type(tokenizer).__name__}; give a fast tokenizer (tokenizer.json)")
    return tokenizer
