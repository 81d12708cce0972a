"""Prepare the data of a stage's recipe: its rows, its tokens,
and the embeddings of its guide or teacher."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..data.prepared import PreparedParallel, prepare_parallel
from ..inference.shard_embeddings import embed_shards
from ..utils.executors import LocalExecutor, RayExecutor
from .data import row_choice, shard_encoder, training_rows
from .recipe import RECIPES, Training, find_recipes, read_recipe


def is_recipe(name: str) -> bool:
    """Whether a name is that of a YAML file, or of a recipe of the package."""
    return name.endswith((".yaml", ".yml")) or (RECIPES / f"{name}.yaml").is_file()


def prepare_recipe(
    recipe: str,
    out: str | Path,
    overrides: Mapping[str, Any],
    *,
    shard_rows: int,
    workers: int,
    executor: LocalExecutor | RayExecutor,
) -> dict[str, Any]:
    """Write shards of the rows that a recipe trains on, so that its run with `train_data` of `out`
    is the same.

    Args:
        executor: where the guide or teacher embeds the shards. The others: as of
            `prepare_parallel`.

    Raises:
        ValueError: the recipe is not that of a stage that trains on text pairs, or its data are
            prepared already.
    """
    (path,) = find_recipes(recipe)
    training = read_recipe(path, overrides)
    if not isinstance(training, Training) or not training.stage.reads_pairs:
        raise ValueError(f"{path} is not the recipe of a stage that trains on text pairs")
    stage = training.stage
    loaded = stage.load_rows(training.data)
    if isinstance(loaded, PreparedParallel):
        raise ValueError(f"train_data of {path} is prepared already: {training.data.train_data}")
    rows = training_rows(stage, training.data, training.config, loaded)
    report = prepare_parallel(
        rows,
        stage.open_processor(training.model, rows, training.config, None),
        out,
        max_length=training.config.max_length,
        shard_rows=shard_rows,
        workers=workers,
        row_choice=row_choice(stage, training.data, training.config),
    )
    encoder = shard_encoder(stage, training.model, training.data, training.config)
    if encoder is not None:
        report["embedded_shards"] = embed_shards(rows, out, encoder, executor=executor)
    return report
