"""Operations on checkpoints as steps of a recipe: their settings in `table`, one step in `run`."""
