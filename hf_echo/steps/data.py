"""Data of a run: the pairs, the dev sets, the rows that a stage trains on, and embeddings of frozen encoders."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from datasets import Dataset
from transformers import AutoConfig, AutoModel, AutoTokenizer

from ..data import load_nway, load_parallel
from ..data.nway import dev_split
from ..data.prepared import PreparedParallel, is_prepared
from ..data.tokenized import TokenizedParallel, tokenize_parallel
from ..inference.any_encoder import any_encoder
from ..inference.embedding_store import LiveRows, frozen_embeddings
from ..inference.encode import opening
from ..inference.similar_texts import text_clusters
from ..stages.core.dev_sets import DevSet, check_dev_set
from ..stages.core.stage import Rows, Stage, load_with
from ..utils.fingerprint import fingerprint, sha256
from ..utils.hub import snapshot
from ..utils.quiet import opening_quietly
from .arguments import DataArguments, ModelArguments
from .model import load_tokenizer
from .record import data_fingerprint

logger = logging.getLogger(__name__)

READ_TEXTS = (
    "data_options",
    "source_languages",
    "batch_by",
    "guide",
    "teacher",
    "cache_embeddings",
    "rule_negatives",
)
CLUSTER = 1000  # rows of a cluster of similar targets, about


def load_pairs(args: DataArguments) -> Dataset:
    if not args.train_data:
        raise ValueError(
            "train_data is missing: a TSV, JSONL or Parquet file, a Hub name, or 'builtin'"
        )
    if is_prepared(args.train_data):
        for name in READ_TEXTS:
            if getattr(args, name):
                raise ValueError(
                    f"{name} reads texts, and {args.train_data} holds tokens alone: name the data instead"
                )
        return PreparedParallel(args.train_data)
    return load_with(load_parallel, args.train_data, args.data_options)


def load_dev_sets(args: DataArguments) -> dict[str, DevSet]:
    dev_sets = {}
    for name, source in args.dev_data.items():
        if source == "builtin":
            from ..data.builtin import dev_set

            rows, negatives = dev_set(max_negatives=args.dev_negatives)
        else:
            rows = _dev_rows(name, source)
            negatives = None
            if args.dev_negatives:
                from ..negatives.rules import hard_negatives_by_id

                negatives = hard_negatives_by_id(rows, args.dev_negatives)
        dev_sets[name] = DevSet(rows, negatives or None)
        check_dev_set(name, dev_sets[name])
    return dev_sets


def _dev_rows(name: str, given: Any) -> Dataset:
    """Rows of a dev set: a path, or a mapping with path and split; without split `dev_split` chooses it."""
    options = dict(given) if isinstance(given, dict) else {"path": given}
    if not options.get("path") or options.keys() - {"path", "split"}:
        raise ValueError(
            f"dev_data.{name} is {given!r}: give a path, or a mapping with path and split"
        )
    try:
        split = options["split"] if "split" in options else dev_split(options["path"])
    except ValueError as error:
        raise ValueError(
            f"dev_data.{name}: {error} (dev_data: {{{name}: {{path: ..., split: ...}}}})"
        ) from None
    rows = load_nway(options["path"], split=split)
    if split is not None:
        logger.warning(
            "dev_data.%s: the %d rows of split %r of %s", name, len(rows), split, options["path"]
        )
    return rows


def data_fingerprints(
    pairs: Dataset, dev_sets: dict[str, DevSet], args: DataArguments
) -> dict[str, str]:
    """Of the rows, and of the models that say something about them."""
    models = {
        role: fingerprint(name) for role in ("teacher", "guide") if (name := getattr(args, role))
    }
    # nothing is cached yet
    models = {role: found for role, found in models.items() if not found.endswith(":unknown")}
    dev = {f"dev_data.{name}": data_fingerprint(dev.rows) for name, dev in dev_sets.items()}
    errors = {"teacher_xsimpp": sha256(args.teacher_xsimpp)} if args.teacher_xsimpp else {}
    own = pairs.fingerprint if isinstance(pairs, PreparedParallel) else data_fingerprint(pairs)
    return {"train_data": own} | dev | models | errors


def pair_tokenizer(args: ModelArguments, dataset: Dataset, config: Any, resume: str | None) -> Any:
    """The weights of a checkpoint belong to its own tokenizer, whatever a new one would be."""
    if resume:
        return AutoTokenizer.from_pretrained(resume)
    return load_tokenizer(args, dataset, getattr(config, "max_length", 128))


def tokenized_pairs(
    dataset: Dataset | PreparedParallel, tokenizer: Any, args: DataArguments, config: Any
) -> TokenizedParallel | PreparedParallel:
    if isinstance(dataset, PreparedParallel):
        dataset.check_tokenizer(tokenizer, getattr(config, "max_length", 128))
        return dataset
    return tokenize_parallel(
        dataset, tokenizer, max_length=getattr(config, "max_length", 128), cache_dir=args.cache_dir
    )


TEXT_PAIRS = Rows(
    load=load_pairs,
    load_dev=load_dev_sets,
    processor=pair_tokenizer,
    prepare=tokenized_pairs,
    texts=lambda pairs: pairs,
    languages=lambda tokenized: sorted(
        {*tokenized.names["source_lang"], *tokenized.names["target_lang"]}
    ),
    language_column="source_lang",
)


def rows_of(stage: Stage) -> Rows:
    """How the stage reads its data."""
    return stage.data or TEXT_PAIRS


def training_rows(stage: Stage, args: DataArguments, config: Any, dataset: Dataset) -> Dataset:
    """The rows that the stage trains on. Sets `config.base_languages` to those of the teacher if it is empty."""
    if args.source_languages:
        wanted = set(args.source_languages)
        every = dataset
        column = rows_of(stage).language_column
        dataset = dataset.filter(lambda lang: lang in wanted, input_columns=column)
        if not len(dataset):
            raise ValueError(
                f"source_languages: no row of {args.train_data} is from {', '.join(sorted(wanted))}; it holds "
                f"{', '.join(sorted(set(every[column])))}"
            )
    if hasattr(config, "base_languages"):
        config.base_languages = config.base_languages or teacher_languages(
            args.base_languages_of or args.teacher
        )
    if stage.rows is None or isinstance(dataset, PreparedParallel):
        return dataset
    return stage.rows(dataset, args, config)


def teacher_languages(name: str) -> list[str]:
    """What an Echo checkpoint says it was trained on; nothing of other models."""
    with opening(name) as found:
        try:
            return getattr(AutoConfig.from_pretrained(found), "languages", None) or []
        except ValueError:  # a SentenceTransformer need not have a config of its own
            return []


def embedded_sides(
    stage: Stage, model_args: ModelArguments, args: DataArguments, config: Any, dataset: Dataset
) -> dict[str, Any]:
    """Embeddings of the texts by a frozen encoder, under the trainer's name for them: guide, teacher or embeddings."""
    needed = stage.embedded
    name = needed.encoder(model_args, args) if needed else None
    if not name:
        return {}
    encode = any_encoder(name)
    dataset = rows_of(stage).texts(dataset)
    languages = needed.languages(config)
    if needed.role == "teacher" and args.live_teacher:
        return {
            needed.role: tuple(
                LiveRows(dataset, side, encode, languages=languages) for side in needed.sides
            )
        }
    key = f"{name} {fingerprint(name)}"
    options = dict(normalize=needed.normalize, sides=needed.sides, languages=languages)
    return {needed.role: frozen_embeddings(dataset, encode, key, args.cache_dir, **options)}


def row_groups(dataset: Dataset, by: str, start: str, tokenizer: Any) -> np.ndarray:
    """(rows,) the number of each row's group; rows of a group share batches.

    languages: if each language has its own domain (one the Bible, another manuals), a model can tell the targets of a
    mixed batch apart by domain alone. similarity: the negatives of a batch are hard.
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
