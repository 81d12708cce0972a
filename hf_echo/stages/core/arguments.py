"""What a recipe of a training stage says about model and data, beside the Config of the stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...utils.settings import setting


@dataclass(kw_only=True)
class ModelArguments:
    """Where the model comes from: a checkpoint, or a shape with a tokenizer of its own."""

    model_name_or_path: str | None = setting("checkpoint to start from (folder or Hub)", None)
    tokenizer_name_or_path: str | None = setting("default: the checkpoint's", None)
    vocab_size: int = setting(
        "of a tokenizer trained on the data, where none is given", 16_000, least=1
    )
    shape: dict = setting("EchoConfig fields of a new model; decoder_layers too", dict)
    backbone: str | None = setting(
        "pretrained text model of transformers to start from (folder or Hub)",
        None,
        unless="model_name_or_path",
    )
    decoder: str | None = setting(
        "checkpoint of the same space whose decoder the model takes over", None
    )
    adapter: dict | None = setting(
        "train low-rank matrices alone, on model_name_or_path: {r, alpha, dropout, target_modules, "
        "use_dora, load_in_4bit}",
        None,
        needs="model_name_or_path",
    )


@dataclass(kw_only=True)
class DataArguments:
    """What it is trained and measured on."""

    train_data: str | None = setting("file, folder, Hub name or 'builtin'", None)
    data_options: dict = setting("further arguments of load_parallel", dict)
    source_languages: list[str] = setting("train on rows from these languages only", list)
    dev_data: dict = setting("name: n-way file, {path, split}, or 'builtin'", dict)
    rule_negatives: int = setting("hard negatives by rule for each English target", 0, least=0)
    rule_negatives_limit: int | None = setting(
        "on this many pairs, chosen by the seed", None, least=1
    )
    dev_negatives: int = setting(
        "rule negatives per dev sentence for xsim++, 0 for none", 5, least=0
    )
    guide: str | None = setting("SentenceTransformer or Echo checkpoint for OS Eq. 3", None)
    batch_by: Literal["languages", "similarity"] | None = setting(
        "languages: a batch has one pair of languages, so that no target can be told by its language or its domain; "
        "similarity: targets of a batch share words, by k-means over the start's token vectors",
        None,
    )
    teacher: str | None = setting(
        "SentenceTransformer or Echo checkpoint to learn from (OS 4.5, 4.8)", None
    )
    live_teacher: bool = setting(
        "ask the teacher at each step instead of keeping its embeddings on disk", False
    )
    cache_embeddings: bool = setting(
        "decoder stage: keep the frozen encoder's embeddings on disk", False
    )
    base_languages_of: str | None = setting(
        "checkpoint whose languages are the base languages, where the recipe does not list them; default: the teacher",
        None,
    )
    teacher_xsimpp: str | None = setting(
        "JSON {language: the teacher's xsim++}, which the operation measure_teacher writes: no pair leads to a worse "
        "language",
        None,
    )
    english_rows: int | None = setting(
        "English sentences to themselves; default as the largest language", None, least=0
    )
    temperature: float | None = setting(
        "sample source languages by (n / N) ** temperature (OS: 0.6)", None, least=0
    )
    cache_dir: str = setting("tokenized data and guide embeddings", "outputs/cache")


# Fields of the data that only those stages read which name them in `Stage.reads`; a recipe of
# another stage that sets one is refused.
OF_SOME_STAGES = frozenset(
    {
        "base_languages_of",
        "cache_embeddings",
        "english_rows",
        "guide",
        "live_teacher",
        "rule_negatives",
        "rule_negatives_limit",
        "teacher",
        "teacher_xsimpp",
        "temperature",
    }
)
