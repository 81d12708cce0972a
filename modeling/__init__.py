"""Code that a checkpoint needs to run; it is pushed to the Hub. Text needs only torch and transformers,
audio also soundfile and soxr, SentenceTransformer its own package.

Importing this folder registers its classes with transformers.
"""

from pathlib import Path

from transformers import (
    AutoConfig,
    AutoFeatureExtractor,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
)
from transformers.pipelines import PIPELINE_REGISTRY

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

for config in (BlaserConfig, EchoConfig, EchoDecoderConfig, EchoSpeechConfig, SpectrumConfig):
    AutoConfig.register(config.model_type, config, exist_ok=True)
AutoModel.register(BlaserConfig, BlaserModel, exist_ok=True)
AutoModel.register(EchoConfig, EchoEncoder, exist_ok=True)
AutoModel.register(EchoSpeechConfig, EchoSpeechEncoder, exist_ok=True)
AutoFeatureExtractor.register(EchoSpeechConfig, EchoAudioFeatureExtractor, exist_ok=True)
AutoModelForSeq2SeqLM.register(EchoConfig, EchoForTranslation, exist_ok=True)
AutoModelForSeq2SeqLM.register(EchoDecoderConfig, EchoDecoder, exist_ok=True)
AutoModelForSeq2SeqLM.register(EchoSpeechConfig, EchoSpeechForTranslation, exist_ok=True)
AutoModel.register(SpectrumConfig, SpectrumModel, exist_ok=True)
AutoModelForCausalLM.register(SpectrumConfig, SpectrumForCausalLM, exist_ok=True)
AutoTokenizer.register(EchoConfig, SonarTokenizer, exist_ok=True)  # by its name in tokenizer_config.json
AutoTokenizer.register(EchoConfig, EchoTokenizer, exist_ok=True)
PIPELINE_REGISTRY.register_pipeline(
    "sonar-translation",
    pipeline_class=SonarTranslationPipeline,
    pt_model=AutoModelForSeq2SeqLM,
    default={"model": (str(Path(__file__).parents[1] / "pretrained" / "echo-nano"), None)},
    type="text",
)
