"""Stage 5: a speech encoder learns the space of a text encoder (OS 4.6)."""

from .speech_shape import new_config as new_config
from .speech_shape import new_extractor as new_extractor
from .speech_stage import STAGE as STAGE
from .speech_stage import SpeechConfig as SpeechConfig
from .speech_stage import SpeechTrainer as SpeechTrainer
from .speech_stage import scale_projection as scale_projection
