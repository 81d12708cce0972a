"""Training stages: one file per stage with a Config, a Trainer and `STAGE`; `hf_echo.steps.table` lists them.

core        what all stages share: declaration, trainer, texts, translation
modular     languages of a modular encoder, trained one at a time
"""

from .contrastive import ContrastiveConfig, ContrastiveTrainer
from .core.dev_sets import DevSet, evaluate_sets
from .decoder import DecoderConfig, DecoderTrainer
from .distillation import DistillationConfig, DistillationTrainer
from .emma_x import EmmaX, EmmaXConfig, EmmaXTrainer
from .extension import ExtensionConfig, ExtensionTrainer
from .hard_negatives import HardNegativesConfig, HardNegativesTrainer
from .long_context import LongContextConfig, LongContextTrainer
from .mexma import Mexma, MexmaConfig, MexmaTrainer
from .seq2seq import Seq2SeqConfig, Seq2SeqTrainer
from .speech import SpeechConfig, SpeechTrainer
from .token import TokenConfig, TokenTrainer

__all__ = [
    "ContrastiveConfig",
    "ContrastiveTrainer",
    "DecoderConfig",
    "DecoderTrainer",
    "DevSet",
    "DistillationConfig",
    "DistillationTrainer",
    "EmmaX",
    "EmmaXConfig",
    "EmmaXTrainer",
    "ExtensionConfig",
    "ExtensionTrainer",
    "HardNegativesConfig",
    "HardNegativesTrainer",
    "LongContextConfig",
    "LongContextTrainer",
    "Mexma",
    "MexmaConfig",
    "MexmaTrainer",
    "Seq2SeqConfig",
    "Seq2SeqTrainer",
    "SpeechConfig",
    "SpeechTrainer",
    "TokenConfig",
    "TokenTrainer",
    "evaluate_sets",
]
