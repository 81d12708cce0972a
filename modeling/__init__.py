"""Code that a checkpoint needs to run; it is pushed to the Hub. Text needs only torch and transformers,
audio also soundfile and soxr, SentenceTransformer its own package.
"""

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
