"""Rule-based hard negatives for English: `rule_based` asks the rules of the other modules in
turn."""

from __future__ import annotations

from .rule_based import (
    RULES,
    hard_negatives_by_id,
    hard_negatives_for,
    normal_form,
    rule_based_hard_negatives,
)

__all__ = [
    "RULES",
    "hard_negatives_by_id",
    "hard_negatives_for",
    "normal_form",
    "rule_based_hard_negatives",
]
