"""Hard negatives, texts close to a target that mean something else: by rule, mined from a pool, written by a model."""
