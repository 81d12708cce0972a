"""MEXMA, with the head for masked tokens and the trainer that EMMA-X takes over from it."""

from .mexma_stage import STAGE as STAGE
from .mexma_stage import MexmaConfig as MexmaConfig
from .mexma_stage import MexmaTrainer as MexmaTrainer
