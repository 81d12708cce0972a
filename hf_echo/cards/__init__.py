"""Cards (README.md) of checkpoints and datasets:
rendered from lineage and templates, stamped with a version."""
