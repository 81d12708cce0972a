"""Token-level evaluation: word alignment, tagging, word in context, token neighbours, attention."""
