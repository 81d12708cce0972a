"""Code that a checkpoint needs to run; it is pushed to the Hub. Text needs only torch and
transformers, audio also soundfile and soxr, SentenceTransformer its own package.

A class is imported when it is asked for: who needs the names of languages does not wait for torch.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .configuration_blaser import BlaserConfig
    from .configuration_echo import EchoConfig, EchoDecoderConfig
    from .configuration_echo_speech import EchoSpeechConfig
    from .configuration_spectrum import SpectrumConfig
    from .feature_extraction_echo_speech import EchoAudioFeatureExtractor
    from .generation_spectrum import EncodedDocument
    from .modeling_blaser import BlaserModel
    from .modeling_echo import EchoDecoder, EchoEncoder, EchoForTranslation
    from .modeling_echo_sonar import SonarForTranslation
    from .modeling_echo_speech import EchoSpeechEncoder
    from .modeling_spectrum import SpectrumForCausalLM, SpectrumModel
    from .pipeline_echo import SonarTranslationPipeline
    from .tokenization_echo import EchoTokenizer
    from .tokenization_echo_sonar import SonarTokenizer
    from .translation_echo_speech import EchoSpeechForTranslation

__all__ = [
    "BlaserConfig",
    "BlaserModel",
    "EchoAudioFeatureExtractor",
    "EchoConfig",
    "EchoDecoder",
    "EchoDecoderConfig",
    "EchoEncoder",
    "EchoForTranslation",
    "EchoSpeechConfig",
    "EchoSpeechEncoder",
    "EchoSpeechForTranslation",
    "EchoTokenizer",
    "EncodedDocument",
    "SonarForTranslation",
    "SonarTokenizer",
    "SonarTranslationPipeline",
    "SpectrumConfig",
    "SpectrumForCausalLM",
    "SpectrumModel",
]

FILES = {
    "BlaserConfig": "configuration_blaser",
    "BlaserModel": "modeling_blaser",
    "EchoAudioFeatureExtractor": "feature_extraction_echo_speech",
    "EchoConfig": "configuration_echo",
    "EchoDecoder": "modeling_echo",
    "EchoDecoderConfig": "configuration_echo",
    "EchoEncoder": "modeling_echo",
    "EchoForTranslation": "modeling_echo",
    "EchoSpeechConfig": "configuration_echo_speech",
    "EchoSpeechEncoder": "modeling_echo_speech",
    "EchoSpeechForTranslation": "translation_echo_speech",
    "EchoTokenizer": "tokenization_echo",
    "EncodedDocument": "generation_spectrum",
    "SonarForTranslation": "modeling_echo_sonar",
    "SonarTokenizer": "tokenization_echo_sonar",
    "SonarTranslationPipeline": "pipeline_echo",
    "SpectrumConfig": "configuration_spectrum",
    "SpectrumForCausalLM": "modeling_spectrum",
    "SpectrumModel": "modeling_spectrum",
}


def __getattr__(name: str):
    if name not in FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{FILES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
