"""Open a modular encoder with the code of this package, and encode each text in its language."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers.utils import cached_file

from ..modeling.prompting_echo import langs_of, texts_of
from .encoders import Encode

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from ..modeling.sentence_transformer_modular import ModularEncoder


def is_modular(name: str) -> bool:
    """Whether a folder or a name on the Hub is a modular encoder."""
    return (
        cached_file(name, "modular.json", _raise_exceptions_for_missing_entries=False) is not None
    )


def open_modular(
    name: str | Path, languages: list[str] | None = None, **options: Any
) -> SentenceTransformer:
    """A modular encoder as SentenceTransformer, with all languages or some, by the code of this
    package.

    Raises:
        FileNotFoundError: this is no modular encoder, or a file of a language is missing.
        ValueError: a language is not in the model.
    """
    if not is_modular(str(name)):
        raise FileNotFoundError(
            f"{name} has no modular.json; give a modular encoder (hf-echo modular start)"
        )
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    from ..modeling.sentence_transformer_modular import ModularEncoder

    module = ModularEncoder.load(str(name), model_kwargs={"languages": languages})
    pooling = Pooling(module.get_embedding_dimension(), pooling_mode="mean")
    return SentenceTransformer(modules=[module, pooling], **options)


def modular_module(model: SentenceTransformer) -> ModularEncoder:
    """The module of a model of `open_modular` that holds its languages."""
    from ..modeling.sentence_transformer_modular import ModularEncoder

    module = model[0]
    if not isinstance(module, ModularEncoder):
        raise TypeError(f"{type(module).__name__} is no modular encoder")
    return module


def modular_encoder(model: Any, *, batch_size: int = 32) -> Encode:
    """Encoder (texts, lang) -> embeddings; without lang, the language of each text is
    identified."""

    def encode(texts: list[str], lang: str | None = None) -> Any:
        """(n, d) embeddings of texts in one language, in one each,
        or in languages to be identified."""
        texts = texts_of(texts)
        given_langs = langs_of(lang, len(texts))
        langs = given_langs if isinstance(given_langs, list) else [given_langs] * len(texts)
        inputs: list[Any] = []
        for text, code in zip(texts, langs, strict=True):
            inputs.append({"text": text, "lang": code} if code else text)
        return model.encode(
            inputs, batch_size=batch_size, convert_to_numpy=True, show_progress_bar=False
        )

    return encode
