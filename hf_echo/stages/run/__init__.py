"""A recipe from its file to a saved checkpoint: read it, describe it in a dry run, run it, resume it."""
