"""hf-echo: cross-lingual, cross-modal sentence embeddings (ECHO, Omnilingual SONAR) for the Hugging
Face Hub.

After `import hf_echo` these calls need no trust_remote_code:

    AutoModel.from_pretrained(name), SentenceTransformer(name), pipeline("sonar-translation",
    model=name)

`pipeline("sonar-translation")` opens the packaged echo-nano.

The import registers the classes of `hf_echo.modeling` with transformers (`hf_echo.register`), so it
takes as long as that of transformers' models. `hf_echo.evaluation`, `hf_echo.hub` and other parts
are imported on first use.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .register import is_command, register_with_transformers

if TYPE_CHECKING:
    from .modeling import (
        BlaserConfig,
        BlaserModel,
        EchoConfig,
        EchoDecoder,
        EchoDecoderConfig,
        EchoEncoder,
        EchoForTranslation,
        EchoSpeechConfig,
        EchoSpeechEncoder,
        EchoTokenizer,
        SonarTranslationPipeline,
        SpectrumConfig,
        SpectrumForCausalLM,
        SpectrumModel,
    )

__version__ = "0.2.0"
__all__ = [
    "BlaserConfig",
    "BlaserModel",
    "EchoConfig",
    "EchoDecoder",
    "EchoDecoderConfig",
    "EchoEncoder",
    "EchoForTranslation",
    "EchoSpeechConfig",
    "EchoSpeechEncoder",
    "EchoTokenizer",
    "SonarTranslationPipeline",
    "SpectrumConfig",
    "SpectrumForCausalLM",
    "SpectrumModel",
    "pretrained",
]


def pretrained(name: str) -> str:
    """Folder of a checkpoint in the package.

    "echo-nano" encodes 104 languages and English with twelve layers, and its decoder writes
    English; "echo-nano-speech" encodes speech of twelve languages into the same space.

    Raises:
        ValueError: the package has no such checkpoint.

    Example:
        >>> from sentence_transformers import SentenceTransformer
        >>> SentenceTransformer(pretrained("echo-nano")).encode(["Bonjour !"]).shape
        (1, 384)
    """
    folder = Path(__file__).parent / "pretrained"
    packaged_names = sorted(
        path.name for path in folder.iterdir() if (path / "modules.json").exists()
    )
    if name not in packaged_names:
        raise ValueError(
            f"the package has no checkpoint {name!r}; it has {', '.join(packaged_names)}"
        )
    return str(folder / name)


def __getattr__(name: str):
    if name in __all__:
        return getattr(importlib.import_module(f"{__name__}.modeling"), name)
    return _submodule(__name__, name)


def _submodule(package: str, name: str):
    """Import a submodule on first use, for the `__getattr__` of its package."""
    if name not in {module.name for module in pkgutil.iter_modules(sys.modules[package].__path__)}:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return importlib.import_module(f"{package}.{name}")


def __dir__() -> list[str]:
    return sorted(
        {*globals(), *__all__, *(module.name for module in pkgutil.iter_modules(__path__))}
    )


if not is_command():  # the command registers when it runs, not for its help
    register_with_transformers()
