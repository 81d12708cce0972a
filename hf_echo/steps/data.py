"""Data of a run: their fingerprints, the rows that a stage trains on, and embeddings of frozen
encoders."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from transformers import AutoConfig, AutoModel

from ..data.prepared import PreparedParallel, prepare_parallel, tokenizer_hash
from ..inference.any_encoder import any_encoder
from ..inference.embedding_store import LiveNegatives, LiveRows, frozen_embeddings
from ..inference.encode import opening
from ..inference.shard_embeddings import ShardEmbeddings, ShardEncoder, embed_shards
from ..inference.similar_texts import text_clusters
from ..stages.core.arguments import DataArguments, ModelArguments
from ..stages.core.base import CoreConfig
from ..stages.core.dev_sets import DevSet
from ..stages.core.stage import Stage
from ..utils.fingerprint import fingerprint, sha256
from ..utils.hub import snapshot
from ..utils.quiet import opening_quietly
from .record import data_fingerprint

CLUSTER = 1000  # rows of a cluster of similar targets, about
# So many pairs, or more, are prepared in shards: otherwise one process holds all of them.
PREPARE_FROM = 2_000_000


def data_fingerprints(
    pairs: Dataset, dev_sets: dict[str, DevSet], args: DataArguments
) -> dict[str, str]:
    """Of the rows, and of the models that say something about them."""
    prints = {}
    if isinstance(pairs, PreparedParallel):
        prints["train_data"] = pairs.fingerprint
    else:
        prints["train_data"] = data_fingerprint(pairs)
    for name, dev in dev_sets.items():
        prints[f"dev_data.{name}"] = data_fingerprint(dev.rows)
    for role, model in (("teacher", args.teacher), ("guide", args.guide)):
        if not model:
            continue
        model_print = fingerprint(model)
        if not model_print.endswith(":unknown"):  # nothing is cached yet
            prints[role] = model_print
    if args.teacher_xsimpp:
        prints["teacher_xsimpp"] = sha256(args.teacher_xsimpp)
    return prints


def training_rows(
    stage: Stage, args: DataArguments, config: CoreConfig, dataset: Dataset
) -> Dataset:
    """The rows that the stage trains on. Sets `config.base_languages` to those of the teacher if it
    is empty.

    Raises:
        ValueError: `source_languages` leaves no row, or the recipe would choose other rows than
            prepared data have.
    """
    # Prepared data were chosen when they were prepared.
    if args.source_languages and not isinstance(dataset, PreparedParallel):
        languages = set(args.source_languages)
        every = dataset
        column = stage.language_column
        dataset = dataset.filter(lambda lang: lang in languages, input_columns=column)
        if not len(dataset):
            raise ValueError(
                f"source_languages: no row of {args.train_data} is from {', '.join(sorted(languages))}; it holds "
                f"{', '.join(sorted(set(every[column])))}"
            )
    # The stage leaves the teacher's own languages as they are.
    if hasattr(config, "base_languages"):
        config.base_languages = config.base_languages or teacher_languages(
            args.base_languages_of or args.teacher
        )
    # They must have been chosen by the same settings.
    if isinstance(dataset, PreparedParallel):
        dataset.check_row_choice(row_choice(stage, args, config))
        return dataset
    return stage.choose_rows(dataset, args, config)


def row_choice(stage: Stage, args: DataArguments, config: CoreConfig) -> dict[str, Any]:
    """The settings by which `training_rows` chooses; empty: it takes all rows."""
    choice = stage.row_choice(args, config)
    if args.source_languages:
        choice["source_languages"] = sorted(args.source_languages)
    return choice


def teacher_languages(name: str) -> list[str]:
    """What an Echo checkpoint says it was trained on; nothing of other models."""
    with opening(name) as place:
        try:
            return getattr(AutoConfig.from_pretrained(place), "languages", None) or []
        except ValueError:  # a SentenceTransformer need not have a config of its own
            return []


def tokenized_rows(
    stage: Stage,
    args: DataArguments,
    config: CoreConfig,
    dataset: Dataset | PreparedParallel,
    tokenizer: Any,
) -> Any:
    """The trainer's rows, as `stage.prepare` makes them; many text pairs are prepared in shards in
    `cache_dir`."""
    reads_texts = args.batch_by or args.live_teacher
    has_pairs = type(stage).prepare is Stage.prepare
    is_large = has_pairs and not reads_texts and len(dataset) >= PREPARE_FROM
    if isinstance(dataset, PreparedParallel) or not is_large:
        return stage.prepare(dataset, tokenizer, args, config)
    max_length = getattr(config, "max_length", 128)
    name = f"prepared-{dataset._fingerprint}-{tokenizer_hash(tokenizer)[:16]}-{max_length}"
    folder = Path(args.cache_dir) / name
    prepare_parallel(dataset, tokenizer, folder, max_length=max_length)
    return PreparedParallel(folder)


def embedded_sides(
    stage: Stage,
    model_args: ModelArguments,
    args: DataArguments,
    config: CoreConfig,
    dataset: Dataset | PreparedParallel,
    train_dataset: Any = None,
) -> dict[str, Any]:
    """Embeddings of the texts by a frozen encoder, under the trainer's name for them: guide,
    teacher or embeddings.

    All processes of the run embed, each its share. Every process must call it.

    Args:
        dataset: the rows. train_dataset: what `tokenized_rows` made of them.
    """
    needed = stage.embedded
    encoder = shard_encoder(stage, model_args, args, config)
    if needed is None or encoder is None:
        return {}
    # Prepared data have their embeddings beside the shards.
    if isinstance(train_dataset, PreparedParallel):
        if not isinstance(dataset, PreparedParallel):
            embed_shards(dataset, train_dataset.folder, encoder, by_all_ranks=True)
        sides = []
        for side in needed.sides:
            sides.append(ShardEmbeddings(train_dataset, encoder, side, normalize=needed.normalize))
        return {needed.role: tuple(sides)}
    encode = encoder.open()
    with config.main_process_first(local=False, desc="texts"):
        dataset = stage.texts(dataset)
    languages = needed.languages(config)
    # A live teacher embeds each batch when it is read; else all is embedded before the first step.
    if needed.role == "teacher" and args.live_teacher:
        live = [LiveRows(dataset, side, encode, languages=languages) for side in needed.sides]
        embeddings: dict[str, Any] = {needed.role: tuple(live)}
        if needed.negatives and "hard_negatives" in dataset.column_names:
            embeddings["negatives"] = LiveNegatives(dataset, encode)
        return embeddings
    stored = frozen_embeddings(
        dataset,
        encode,
        encoder.name,
        args.cache_dir,
        normalize=needed.normalize,
        sides=needed.sides,
        languages=languages,
        by_all_ranks=True,
    )
    return {needed.role: stored}


def shard_encoder(
    stage: Stage, model_args: ModelArguments, args: DataArguments, config: CoreConfig
) -> ShardEncoder | None:
    """The frozen encoder that a run needs, not opened yet; None: it needs none."""
    needed = stage.embedded
    name = needed.encoder(model_args, args) if needed else None
    if needed is None or not name:
        return None
    languages = needed.languages(config)
    return ShardEncoder(
        f"{name} {fingerprint(name)}",
        partial(any_encoder, name),
        needed.sides,
        None if languages is None else tuple(sorted(languages)),
    )


def row_groups(dataset: Dataset, by: str, start: str, tokenizer: Any) -> np.ndarray:
    """(rows,) the number of each row's group; rows of a group share batches.

    languages: if each language has its own domain (one the Bible, another manuals), a model can
    tell the targets of a mixed batch apart by domain alone. similarity: the negatives of a batch
    are hard.
    """
    if by == "languages":
        pairs = [
            f"{source} {target}"
            for source, target in zip(dataset["source_lang"], dataset["target_lang"])
        ]
        return np.unique(pairs, return_inverse=True)[1]
    with opening_quietly():
        vectors = AutoModel.from_pretrained(snapshot(start)).get_input_embeddings().weight
    return text_clusters(dataset["target"][:], tokenizer, vectors, -(-len(dataset) // CLUSTER))
