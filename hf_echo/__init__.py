"""hf-echo: cross-lingual, cross-modal sentence embeddings (ECHO, Omnilingual SONAR) that live on the Hugging Face Hub.

After `import hf_echo` these need no trust_remote_code:

    AutoModel.from_pretrained(name), SentenceTransformer(name), pipeline("sonar-translation", model=name)

The import itself is light: it imports neither torch nor transformers. transformers finds the class of a configuration
by its model type; as soon as transformers is imported, before or after this package, it is told the names of ours.
`hf_echo.modeling`, which brings half of transformers and registers all the rest, is imported when one of these names,
or a class below, is first asked for. `hf_echo.evaluation`, `hf_echo.hub` and other parts are imported at first use.
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
        EchoTokenizer,
        SonarTranslationPipeline,
    )

__version__ = "0.1.0.dev0"
__all__ = [
    "BlaserConfig",
    "BlaserModel",
    "EchoConfig",
    "EchoDecoder",
    "EchoDecoderConfig",
    "EchoEncoder",
    "EchoForTranslation",
    "EchoTokenizer",
    "SonarTranslationPipeline",
    "pretrained",
]


def pretrained(name: str) -> Path:
    """Folder of a checkpoint that comes with the package.

    "echo-nano" knows 53 languages and English, has two layers and a decoder that writes English; "echo-static" is a bag
    of sub-words for 41 of them, faster.

    Raises:
        ValueError: there is no such checkpoint.

    Example:
        >>> from sentence_transformers import SentenceTransformer
        >>> SentenceTransformer(str(pretrained("echo-static"))).encode(["Bonjour !"]).shape
        (1, 256)
    """
    folder = Path(__file__).parent / "pretrained"
    known = sorted(path.name for path in folder.iterdir() if (path / "modules.json").exists())
    if name not in known:
        raise ValueError(f"no checkpoint {name!r} comes with the package; there are {', '.join(known)}")
    return folder / name


def __getattr__(name: str):
    if name in __all__:
        return getattr(importlib.import_module(f"{__name__}.modeling"), name)
    return _submodule(__name__, name)


def _submodule(package: str, name: str):
    """A submodule that nobody has imported yet, for the `__getattr__` of its package."""
    if name not in {module.name for module in pkgutil.iter_modules(sys.modules[package].__path__)}:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return importlib.import_module(f"{package}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *(module.name for module in pkgutil.iter_modules(__path__))})


# Registration. transformers looks a model type up in CONFIG_MAPPING: name of the class, and the module that holds it.
_AUTO_FOLDER = "transformers.models.auto."
_AUTO = _AUTO_FOLDER + "configuration_auto"


def _register(configuration_auto) -> None:
    mapping = configuration_auto.CONFIG_MAPPING
    names = {"echo": "EchoConfig", "echo_decoder": "EchoDecoderConfig", "blaser": "BlaserConfig"}
    for model_type, name in names.items():
        mapping._mapping[model_type] = name
        mapping._modules[model_type] = sys.modules[__name__]


class _RegisterAfterImport:
    """Import hook: registers right after transformers' mapping has been imported, whoever imports it.

    The other modules of the folder count too: torch may import this package while the mapping is half imported.
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
    """Also an entry point of torch, which calls it at `import torch`: nobody has to import hf_echo first."""
    if hasattr(sys.modules.get(_AUTO), "CONFIG_MAPPING"):
        _register(sys.modules[_AUTO])
    elif _RegisterAfterImport not in sys.meta_path:
        sys.meta_path.insert(0, _RegisterAfterImport)


_register_with_transformers()
