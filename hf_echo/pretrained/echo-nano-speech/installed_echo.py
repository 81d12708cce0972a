"""For trust_remote_code=True: the code of this checkpoint is the installed package."""

from hf_echo.modeling import EchoSpeechConfig, EchoSpeechEncoder, EchoSpeechForTranslation, EchoAudioFeatureExtractor  # noqa: F401
