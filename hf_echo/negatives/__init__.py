"""Hard negatives: texts close to a translation that mean something else."""
