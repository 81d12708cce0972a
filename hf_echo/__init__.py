"""hf-echo: cross-lingual, cross-modal sentence embeddings (ECHO, Omnilingual SONAR) for the Hugging Face Hub.

After `import hf_echo` these calls need no trust_remote_code:

    AutoModel.from_pretrained(name), SentenceTransformer(name), pipeline("sonar-translation", model=name)

The import is fast, because it loads neither torch nor transformers. It registers the names of the configurations with
transformers, now or when transformers is imported. `hf_echo.modeling`, which registers all other classes and imports a
large part of transformers, is loaded when one of these names, or a class below, is first used. `hf_echo.evaluation`,
`hf_echo.hub` and other parts are imported on first use.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

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


def pretrained(name: str) -> Path:
    """Folder of a checkpoint in the package.

    "echo-nano" encodes 104 languages and English with two layers, and its decoder writes English.

    Raises:
        ValueError: the package has no such checkpoint.

    Example:
        >>> from sentence_transformers import SentenceTransformer
        >>> SentenceTransformer(str(pretrained("echo-nano"))).encode(["Bonjour !"]).shape
        (1, 384)
    """
    folder = Path(__file__).parent / "pretrained"
    known = sorted(path.name for path in folder.iterdir() if (path / "modules.json").exists())
    if name not in known:
        raise ValueError(f"the package has no checkpoint {name!r}; it has {', '.join(known)}")
    return folder / name


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


# Registration: transformers looks up a model type in CONFIG_MAPPING, which has the name of the class and its module.
_AUTO_FOLDER = "transformers.models.auto."
_AUTO = _AUTO_FOLDER + "configuration_auto"


def _register(configuration_auto) -> None:
    mapping = configuration_auto.CONFIG_MAPPING
    for model_type, name in {
        "echo": "EchoConfig",
        "echo_decoder": "EchoDecoderConfig",
        "echo_speech": "EchoSpeechConfig",
        "blaser": "BlaserConfig",
        "spectrum": "SpectrumConfig",
    }.items():
        mapping._mapping[model_type] = name
        mapping._modules[model_type] = sys.modules[__name__]


class _RegisterAfterImport:
    """Import hook that registers our configurations after transformers' mapping has been imported.

    It reacts to all modules of the folder, because torch may import this package while the mapping is half imported.
    """

    @staticmethod
    def find_spec(name, path=None, target=None):
        if not name.startswith(_AUTO_FOLDER):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None:
            execute = spec.loader.exec_module

            def execute_and_register(module) -> None:
                execute(module)
                if hasattr(sys.modules.get(_AUTO), "CONFIG_MAPPING"):
                    _register(sys.modules[_AUTO])

            spec.loader.exec_module = execute_and_register
        return spec


def _register_with_transformers() -> None:
    """Register now or after the import of transformers. torch calls it at `import torch`, as an entry point."""
    if hasattr(sys.modules.get(_AUTO), "CONFIG_MAPPING"):
        _register(sys.modules[_AUTO])
    elif _RegisterAfterImport not in sys.meta_path:
        sys.meta_path.insert(0, _RegisterAfterImport)


_register_with_transformers()
