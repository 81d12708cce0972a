"""EMMA-X: an encoder and a Gaussian mixture teach each other semantic ranks."""

from .emma_x_stage import STAGE as STAGE
from .emma_x_stage import EmmaXConfig as EmmaXConfig
from .emma_x_stage import EmmaXTrainer as EmmaXTrainer
