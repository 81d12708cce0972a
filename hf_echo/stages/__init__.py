"""One stage a file: XConfig (TrainingArguments) and XTrainer (transformers.Trainer)."""

from .contrastive import ContrastiveConfig, ContrastiveTrainer
from .decoder import DecoderConfig, DecoderTrainer
from .dev_sets import DevSet, evaluate_sets
from .distillation import DistillationConfig, DistillationTrainer
from .extension import ExtensionConfig, ExtensionTrainer
from .hard_negatives import HardNegativesConfig, HardNegativesTrainer
from .lexical import LexicalConfig, LexicalTrainer, bag_encoder, start_from_bag
from .long_context import LongContextConfig, LongContextTrainer
from .seq2seq import Seq2SeqConfig, Seq2SeqTrainer
from .token import TokenConfig, TokenTrainer

__all__ = [
    "ContrastiveConfig",
    "ContrastiveTrainer",
    "DecoderConfig",
    "DecoderTrainer",
    "DevSet",
    "DistillationConfig",
    "DistillationTrainer",
    "ExtensionConfig",
    "ExtensionTrainer",
    "HardNegativesConfig",
    "HardNegativesTrainer",
    "LexicalConfig",
    "LexicalTrainer",
    "LongContextConfig",
    "LongContextTrainer",
    "Seq2SeqConfig",
    "Seq2SeqTrainer",
    "TokenConfig",
    "TokenTrainer",
    "bag_encoder",
    "evaluate_sets",
    "start_from_bag",
]
