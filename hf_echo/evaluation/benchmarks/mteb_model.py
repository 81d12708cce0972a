"""Evaluate Echo with mteb: a checkpoint as mteb model (`pip install 'hf-echo[mteb]'`).

    import mteb
    from hf_echo.evaluation.benchmarks.mteb_model import EchoForMTEB

    mteb.evaluate(EchoForMTEB("outputs/echo"), mteb.get_tasks(tasks=["Tatoeba"]))

The prompt contains the language of a text if mteb names it; otherwise (two languages in one subset) texts are encoded
as "Unspecified language".
"""

from __future__ import annotations

import numpy as np

try:
    from mteb.models import ModelMeta
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.models.model_meta import ScoringFunction
except ImportError as error:
    raise ImportError("mteb_model needs mteb: pip install 'hf-echo[mteb]'") from error

from ...languages import is_language


class EchoForMTEB(AbsEncoder):
    """An Echo checkpoint, or any SentenceTransformer, as an mteb model.

    mteb's own wrapper takes the prompts of a checkpoint, one a language, for prompts of tasks: it warns about each and
    ignores them. Here the language of a subset chooses the prompt.

    Args:
        model_name: folder or Hub name, also the name in mteb's results.
        dtype: as in `any_encoder`.
    """

    def __init__(self, model_name: str, revision: str | None = None, *, dtype: str = "auto"):
        from ...inference.any_encoder import any_encoder

        self.encoder = any_encoder(str(model_name), dtype=dtype)
        name = str(model_name).rstrip("/")
        self.mteb_model_meta = ModelMeta.create_empty(
            {
                "name": name if name.count("/") == 1 else f"local/{name.rpartition('/')[2]}",
                "revision": revision or "local",
                "embed_dim": int(np.shape(self.encoder(["1"], None))[1]),
                "similarity_fn_name": ScoringFunction.COSINE,
                "framework": ["PyTorch"],
            }
        )

    def encode(self, inputs, *, task_metadata, hf_split: str, hf_subset: str, prompt_type=None, **kwargs) -> np.ndarray:
        """Embeddings (texts, d) of a DataLoader whose batches have the key "text"."""
        texts = [text for batch in inputs for text in batch["text"]]
        return np.asarray(self.encoder(texts, language_of(task_metadata, hf_subset)))


def language_of(task_metadata, hf_subset: str) -> str | None:
    """The language of a subset ("fra-Latn" in mteb) as "fra_Latn"; None for two languages or an unknown one."""
    names = task_metadata.hf_subsets_to_langscripts.get(hf_subset, [hf_subset])
    codes = {name.replace("-", "_") for name in names}
    code = codes.pop() if len(codes) == 1 else ""
    return code if is_language(code) else None
