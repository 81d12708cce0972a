"""hf-echo: cross-lingual, cross-modal sentence embeddings (ECHO, Omnilingual SONAR) for the Hugging Face Hub.

After `import hf_echo` these calls need no trust_remote_code:

    AutoModel.from_pretrained(name), SentenceTransformer(name), pipeline("sonar-translation", model=name)

`pipeline("sonar-translation")` opens the packaged echo-nano.

The import is fast, because it loads neither torch nor the models of transformers. `hf_echo.modeling`, which registers
all classes and imports a large part of transformers, is loaded when a checkpoint of ours, or a class below, is first
used. `hf_echo.evaluation`, `hf_echo.hub` and other parts are imported on first use.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


class Folder(str):
    """A path that is a string, since sentence-transformers takes no other, with what a Path has."""

    def __truediv__(self, name: str) -> Path:
        return Path(self) / name

    def __getattr__(self, name: str) -> Any:
        return getattr(Path(self), name)


def pretrained(name: str) -> Folder:
    """Folder of a checkpoint in the package.

    "echo-nano" encodes 104 languages and English with twelve layers, and its decoder writes English;
    "echo-nano-speech" encodes speech of twelve languages into the same space.

    Raises:
        ValueError: the package has no such checkpoint.

    Example:
        >>> from sentence_transformers import SentenceTransformer
        >>> SentenceTransformer(pretrained("echo-nano")).encode(["Bonjour !"]).shape
        (1, 384)
    """
    folder = Path(__file__).parent / "pretrained"
    known = sorted(path.name for path in folder.iterdir() if (path / "modules.json").exists())
    if name not in known:
        raise ValueError(f"the package has no checkpoint {name!r}; it has {', '.join(known)}")
    return Folder(folder / name)


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
    return sorted({*globals(), *__all__, *(module.name for module in pkgutil.iter_modules(__path__))})


_CONFIGURATIONS = {
    "echo": "EchoConfig",
    "echo_decoder": "EchoDecoderConfig",
    "echo_speech": "EchoSpeechConfig",
    "blaser": "BlaserConfig",
    "spectrum": "SpectrumConfig",
}


def register_with_transformers() -> None:
    """Make our models and our pipeline known to transformers, as soon as it has loaded its own.

    transformers loads its parts when a name is first asked for. Ours follow then: the names of the configurations when
    its mapping is there, `hf_echo.modeling` with the pipeline when its pipelines are.
    """
    import transformers

    def with_ours(name: str):
        value = type(transformers).__getattr__(transformers, name)
        _register_what_is_loaded()
        return value

    _register_what_is_loaded()
    transformers.__getattr__ = with_ours  # a module's own (PEP 562) comes before that of its class


def _register_what_is_loaded() -> None:
    mapping = getattr(sys.modules.get("transformers.models.auto.configuration_auto"), "CONFIG_MAPPING", None)
    if mapping is not None and "echo" not in mapping._mapping:  # the name of a class, and the module that has it
        mapping._mapping.update(_CONFIGURATIONS)
        mapping._modules.update(dict.fromkeys(_CONFIGURATIONS, sys.modules[__name__]))
    if hasattr(sys.modules.get("transformers.pipelines"), "PIPELINE_REGISTRY"):
        importlib.import_module(f"{__name__}.modeling")


if Path(sys.argv[0] if sys.argv else "").stem != "hf-echo":  # the command registers when it runs, not for its help
    register_with_transformers()
