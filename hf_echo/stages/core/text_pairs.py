"""How a stage reads text pairs: training rows, dev sets, the tokenizer,
and the tokens of the rows."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from datasets import Dataset, concatenate_datasets
from transformers import AutoTokenizer

from ... import data
from ...data.prepared import TOKENIZER, PreparedParallel, is_prepared
from ...data.tokenized import TokenizedParallel, tokenize_parallel
from ...inference.encode import opening
from ...languages import ENGLISH
from ...modeling import EchoTokenizer
from .arguments import DataArguments, ModelArguments
from .dev_sets import DevSet, check_dev_set
from .text import TextConfig

logger = logging.getLogger(__name__)

# Fields of a recipe's data that need texts: prepared data hold tokens alone.
READ_TEXTS = ("data_options", "batch_by", "live_teacher")


def load_pairs(args: DataArguments) -> Dataset | PreparedParallel:
    """The pairs of a recipe: texts, or prepared tokens."""
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
    return load_with(data.load_parallel, args.train_data, args.data_options)


def with_rule_negatives(rows: Dataset, most: int) -> Dataset:
    """The rows with at most `most` hard negatives by rule in the column `hard_negatives`, none for
    targets that are not English: the rules write English."""
    from ...negatives.rules import hard_negatives_for

    of_targets = hard_negatives_for(rows["target"], most)
    negatives: list[list[str]] = []
    for lang, of_target in zip(rows["target_lang"], of_targets, strict=True):
        negatives.append([text for text, _ in of_target] if lang == ENGLISH else [])
    if "hard_negatives" in rows.column_names:
        rows = rows.remove_columns("hard_negatives")
    return rows.add_column("hard_negatives", negatives)


def load_dev_sets(args: DataArguments) -> dict[str, DevSet]:
    """The dev sets of a recipe, with hard negatives where it asks for them."""
    dev_sets = {}
    for name, source in args.dev_data.items():
        if source == "builtin":
            from ...data.builtin import dev_set

            rows, negatives = dev_set(max_negatives=args.dev_negatives)
        else:
            rows = _dev_rows(name, source)
            negatives = None
            if args.dev_negatives:
                from ...negatives.rules import hard_negatives_by_id

                negatives = hard_negatives_by_id(rows, args.dev_negatives)
        dev_sets[name] = DevSet(rows, negatives or None)
        check_dev_set(name, dev_sets[name])
    return dev_sets


def _dev_rows(name: str, source: Any) -> Dataset:
    """Rows of a dev set: a path, or a mapping with path and split;
    without split `dev_split` chooses it."""
    options = source if isinstance(source, dict) else {"path": source}
    if not options.get("path") or options.keys() - {"path", "split"}:
        raise ValueError(
            f"dev_data.{name} is {source!r}: give a path, or a mapping with path and split"
        )
    try:
        split = options["split"] if "split" in options else data.dev_split(options["path"])
    except ValueError as error:
        raise ValueError(
            f"dev_data.{name}: {error} (dev_data: {{{name}: {{path: ..., split: ...}}}})"
        ) from None
    rows = data.load_nway(options["path"], split=split)
    # It may be the test split: the user sees which one is read.
    if split is not None:
        logger.warning(
            "dev_data.%s: the %d rows of split %r of %s", name, len(rows), split, options["path"]
        )
    return rows


def load_tokenizer(
    args: ModelArguments, dataset: Dataset | PreparedParallel, max_length: int
) -> EchoTokenizer:
    """The tokenizer that the recipe names, or the checkpoint's; else one trained on the data."""
    name = args.tokenizer_name_or_path or args.model_name_or_path or args.backbone
    if name:
        with opening(name) as place:
            named = AutoTokenizer.from_pretrained(place)
        return named if isinstance(named, EchoTokenizer) else EchoTokenizer.around(named)
    if isinstance(dataset, PreparedParallel):
        tokenizer: Any = AutoTokenizer.from_pretrained(dataset.folder / TOKENIZER)
        return tokenizer
    from ...vocabulary import train_tokenizer

    sources = dataset.select_columns(["source"]).rename_column("source", "text")
    targets = dataset.select_columns(["target"]).rename_column("target", "text")
    texts = concatenate_datasets([sources, targets])
    return train_tokenizer((row["text"] for row in texts), args.vocab_size, max_length=max_length)


def pair_tokenizer(
    args: ModelArguments,
    dataset: Dataset | PreparedParallel,
    config: TextConfig,
    resume: str | None,
) -> EchoTokenizer:
    """The weights of a checkpoint belong to its own tokenizer, whatever a new one would be."""
    if resume:
        tokenizer: Any = AutoTokenizer.from_pretrained(resume)
        return tokenizer
    return load_tokenizer(args, dataset, config.max_length)


def tokenized_pairs(
    dataset: Dataset | PreparedParallel,
    tokenizer: EchoTokenizer,
    args: DataArguments,
    config: TextConfig,
) -> TokenizedParallel | PreparedParallel:
    """The pairs as tokens, tokenized now or prepared before."""
    if isinstance(dataset, PreparedParallel):
        dataset.check_tokenizer(tokenizer, config.max_length)
        return dataset
    return tokenize_parallel(
        dataset, tokenizer, max_length=config.max_length, cache_dir=args.cache_dir
    )


def load_with(load: Callable[..., Any], name: str, options: dict[str, Any]) -> Any:
    """`load` of the data of a recipe with its `data_options`."""
    try:
        return load(name, **options)
    except TypeError as error:  # an option that does not exist, or a value of a wrong kind
        if not options:
            raise
        reason = str(error).replace(f"{load.__name__}() ", "")
        raise ValueError(f"data_options: {reason}") from error
