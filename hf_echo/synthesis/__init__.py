"""Synthetic data: rule-based hard negatives for English, and rows written by a language model (`llm`)."""

from __future__ import annotations

from .rules import RULES, hard_negatives_for, normal_form, rule_based_hard_negatives

__all__ = ["RULES", "hard_negatives_for", "normal_form", "rule_based_hard_negatives"]
