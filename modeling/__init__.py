"""What a checkpoint needs to run. Pushed to the Hub beside the weights; torch and transformers only."""

from .configuration_echo import EchoConfig, EchoDecoderConfig
from .modeling_echo import EchoDecoder, EchoEncoder, EchoForTranslation
from .tokenization_echo import EchoTokenizer

__all__ = [
    "EchoConfig",
    "EchoDecoder",
    "EchoDecoderConfig",
    "EchoEncoder",
    "EchoForTranslation",
    "EchoTokenizer",
]
