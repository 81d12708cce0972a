"""hf-echo: cross-lingual, cross-modal sentence embeddings (ECHO, Omnilingual SONAR) that live on the Hugging Face Hub.

Importing the package registers its models with transformers, after which these need no trust_remote_code:

    AutoModel.from_pretrained(name), SentenceTransformer(name), pipeline("sonar-translation", model=name)
"""

from __future__ import annotations

from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer
from transformers.pipelines import PIPELINE_REGISTRY

from .modeling.configuration_echo import EchoConfig, EchoDecoderConfig
from .modeling.modeling_echo import EchoDecoder, EchoEncoder, EchoForTranslation
from .modeling.pipeline_echo import SonarTranslationPipeline
from .modeling.tokenization_echo import EchoTokenizer

__version__ = "0.1.0.dev0"
__all__ = [
    "EchoConfig",
    "EchoDecoder",
    "EchoDecoderConfig",
    "EchoEncoder",
    "EchoForTranslation",
    "EchoTokenizer",
    "SonarTranslationPipeline",
]


def _register() -> None:
    AutoConfig.register("echo", EchoConfig, exist_ok=True)
    AutoConfig.register("echo_decoder", EchoDecoderConfig, exist_ok=True)
    AutoModel.register(EchoConfig, EchoEncoder, exist_ok=True)
    AutoModelForSeq2SeqLM.register(EchoConfig, EchoForTranslation, exist_ok=True)
    AutoModelForSeq2SeqLM.register(EchoDecoderConfig, EchoDecoder, exist_ok=True)
    AutoTokenizer.register(EchoConfig, fast_tokenizer_class=EchoTokenizer, exist_ok=True)
    PIPELINE_REGISTRY.register_pipeline(
        "sonar-translation",
        pipeline_class=SonarTranslationPipeline,
        pt_model=AutoModelForSeq2SeqLM,
        type="text",
    )


_register()
