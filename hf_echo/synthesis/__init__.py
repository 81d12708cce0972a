"""Data made by rules: hard negatives for English sentences."""

from __future__ import annotations

from .rules import RULES, hard_negatives_for, normal_form, rule_based_hard_negatives

__all__ = ["RULES", "hard_negatives_for", "normal_form", "rule_based_hard_negatives"]
