from ..stages.conftest import pairs, place, recipe, tiny_bert, train_stopped, write_recipe  # noqa: F401
