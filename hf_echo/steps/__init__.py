"""Steps of a recipe: what they are (`table`, `operations`), the YAML file read, run,
resumed and recorded."""
