"""`rule_based_hard_negatives` under the name that design and papers' scripts use;
it lives in `hf_echo.negatives`."""

from __future__ import annotations

from .negatives.rules import RULES, hard_negatives_for, normal_form, rule_based_hard_negatives

__all__ = ["RULES", "hard_negatives_for", "normal_form", "rule_based_hard_negatives"]
