"""One stage a file: XConfig (TrainingArguments) and XTrainer (transformers.Trainer)."""

from .contrastive import ContrastiveConfig, ContrastiveTrainer
from .decoder import DecoderConfig, DecoderTrainer
from .distillation import DistillationConfig, DistillationTrainer
from .evaluation import DevSet, evaluate_sets
from .extension import ExtensionConfig, ExtensionTrainer
from .hard_negatives import HardNegativesConfig, HardNegativesTrainer
from .lexical import LexicalConfig, LexicalTrainer, bag_encoder, start_from_bag
from .seq2seq import Seq2SeqConfig, Seq2SeqTrainer

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
    "Seq2SeqConfig",
    "Seq2SeqTrainer",
    "bag_encoder",
    "evaluate_sets",
    "start_from_bag",
]
