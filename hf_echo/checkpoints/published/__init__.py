"""Converters of published checkpoints: SONAR, MEXMA, BLASER, Whisper, wav2vec 2.0."""
