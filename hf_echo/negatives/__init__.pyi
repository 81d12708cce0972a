from .rules import hard_negatives_for as hard_negatives_for
from .rules import rule_based_hard_negatives as rule_based_hard_negatives
