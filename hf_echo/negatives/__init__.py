"""Hard negatives, texts close to a target that mean something else:
by rule, or written by a model."""
