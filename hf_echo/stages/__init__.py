"""Training stages: one file per stage with a Config, a Trainer and `STAGE`; `table` lists them.

stage, table          what a stage declares, and all stages by name
base, text            the trainer and the settings that stages share; translation, encoder: with and without decoder
recipe, run, dry_run  a YAML file read, trained, or only described
"""

from .contrastive import ContrastiveConfig, ContrastiveTrainer
from .decoder import DecoderConfig, DecoderTrainer
from .dev_sets import DevSet, evaluate_sets
from .distillation import DistillationConfig, DistillationTrainer
from .extension import ExtensionConfig, ExtensionTrainer
from .hard_negatives import HardNegativesConfig, HardNegativesTrainer
from .long_context import LongContextConfig, LongContextTrainer
from .seq2seq import Seq2SeqConfig, Seq2SeqTrainer
from .static import StaticConfig, StaticTrainer
from .static_embeddings import start_from_static, static_encoder
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
    "LongContextConfig",
    "LongContextTrainer",
    "Seq2SeqConfig",
    "Seq2SeqTrainer",
    "StaticConfig",
    "StaticTrainer",
    "TokenConfig",
    "TokenTrainer",
    "evaluate_sets",
    "start_from_static",
    "static_encoder",
]
