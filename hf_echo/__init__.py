"""hf-echo: cross-lingual, cross-modal sentence embeddings (ECHO, Omnilingual SONAR) that live on the Hugging Face Hub.

After `import hf_echo` these need no trust_remote_code:

    AutoModel.from_pretrained(name), SentenceTransformer(name), pipeline("sonar-translation", model=name)

The import itself is light. transformers finds the class of a configuration by its model type; here it is told the
names of ours, and `hf_echo.modeling`, which brings half of transformers and registers all the rest, is imported when
one of them, or a class below, is first asked for.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from transformers.models.auto.configuration_auto import CONFIG_MAPPING

if TYPE_CHECKING:
    from .modeling import (
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
    if name != "modeling" and name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    modeling = importlib.import_module(f"{__name__}.modeling")
    return modeling if name == "modeling" else getattr(modeling, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "modeling"})


# What transformers has for its own models: model type -> name of the class, and the module that holds it.
for _model_type, _name in {"echo": "EchoConfig", "echo_decoder": "EchoDecoderConfig"}.items():
    CONFIG_MAPPING._mapping[_model_type] = _name
    CONFIG_MAPPING._modules[_model_type] = sys.modules[__name__]
