"""Evaluate Echo with mteb: a checkpoint as mteb model (`pip install -e '.[mteb]'`).

    import mteb
    from hf_echo.evaluation.benchmarks.mteb_model import EchoForMTEB

    mteb.evaluate(EchoForMTEB("outputs/echo"), mteb.get_tasks(tasks=["Tatoeba"]))

`write_results` writes what two pull requests need: results for embeddings-benchmark/results, the
`ModelMeta` for mteb.

The prompt contains the language of a text if mteb names it; otherwise (two languages in one subset)
texts are encoded as "Unspecified language".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...cards.stamp import license_of
from ...inference.any_encoder import any_encoder
from ...inference.encode import opening
from ...languages import meanings
from ...modeling.sentence_transformer_echo import sentence_transformer_prompts
from ...utils.extras import extra
from ...utils.files import write_text

with extra("mteb"):
    import mteb
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.models import ModelMeta, SentenceTransformerEncoderWrapper
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.models.model_meta import ScoringFunction
    from mteb.types import PromptType


def hub_style_name(model: str) -> str:
    """The name owner/name that mteb asks for: that of the Hub, or local/FOLDER."""
    name = model.rstrip("/")
    return name if name.count("/") == 1 else f"local/{Path(name).name}"


class EchoForMTEB(AbsEncoder):
    """An Echo checkpoint, or any SentenceTransformer (folder or Hub name), as an mteb model.

    The language of a subset chooses the prompt; mteb's own wrapper takes prompts by language for
    prompts of tasks.
    """

    def __init__(self, model_name: str, revision: str | None = None):
        self.encoder = any_encoder(str(model_name))
        _, dimensions = np.shape(self.encoder(["1"], None))
        fields = {
            "name": hub_style_name(str(model_name)),
            "revision": revision or "local",
            "embed_dim": int(dimensions),
            "similarity_fn_name": ScoringFunction.COSINE,
            "framework": ["PyTorch"],
        }
        # of an Echo checkpoint: `encode` with its model and tokenizer
        if isinstance(self.encoder, partial):
            fields |= of_echo(str(model_name), *self.encoder.args)
        self.mteb_model_meta = ModelMeta.create_empty(fields)

    def encode(
        self,
        inputs: Iterable[Mapping[str, Any]],
        *,
        task_metadata: TaskMetadata,
        hf_split: str,
        hf_subset: str,
        prompt_type: PromptType | None = None,
        **kwargs: Any,
    ) -> np.ndarray:
        """Embeddings (texts, d) of a DataLoader whose batches have the key "text"."""
        texts: list[str] = []
        for batch in inputs:
            texts += batch["text"]
        return np.asarray(self.encoder(texts, language_of(task_metadata, hf_subset)))


def language_of(task_metadata: TaskMetadata, hf_subset: str) -> str | None:
    """The language of a subset ("fra-Latn", "ara-Arab") as "fra_Latn";
    None for two languages or an unknown one."""
    names = task_metadata.hf_subsets_to_langscripts.get(hf_subset, [hf_subset])
    codes: set[str] = set()
    for name in names:
        codes.update(meanings(name))  # mteb has many macrolanguages
    return codes.pop() if len(codes) == 1 else None


def of_echo(name: str, model: Any, tokenizer: Any) -> dict[str, Any]:
    """The fields of a `ModelMeta` that an Echo checkpoint states. mteb itself opens it by
    sentence-transformers.

    Its wrapper takes stored prompts for those of tasks and warns about each language;
    `model_prompts` replace them.
    """
    with opening(name) as folder:
        license = license_of(folder)
    prompts = sentence_transformer_prompts(kind=model.config.prompts)
    model_prompts = {"query": prompts["query"], "document": prompts["document"]}
    parameter_bytes = sum(parameter.nbytes for parameter in model.parameters())
    # The fields of mteb's ModelMeta.
    return {
        "loader": SentenceTransformerEncoderWrapper,
        "loader_kwargs": {"trust_remote_code": True, "model_prompts": model_prompts},
        "languages": [code.replace("_", "-") for code in model.config.languages or []],
        "n_parameters": model.num_parameters(),
        "n_embedding_parameters": model.get_input_embeddings().weight.numel(),
        "memory_usage_mb": round(parameter_bytes / 2**20),
        "max_tokens": tokenizer.model_max_length,
        "license": license,
        "open_weights": True,
        "framework": ["Sentence Transformers", "PyTorch", "safetensors"],
        "use_instructions": False,
    }


def write_results(
    model: str, tasks: Sequence[Any], out: str | Path, revision: str | None = None
) -> Path:
    """Evaluate on tasks of mteb; write OUT/results/NAME/REVISION/TASK.json and OUT/model_meta.py,
    named as on Hub."""
    encoder = EchoForMTEB(model, revision)
    mteb.evaluate(
        encoder, tasks, cache=mteb.ResultCache(Path(out).absolute()), show_progress_bar=False
    )
    write_text(Path(out) / "model_meta.py", f"model = {encoder.mteb_model_meta.to_python()}\n")
    return Path(out)
