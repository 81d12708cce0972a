"""Converters of published checkpoints: SONAR, MEXMA, BLASER."""
