"""Evaluate Echo with mteb: a checkpoint as mteb model, local tables as mteb tasks (`pip install 'hf-echo[mteb]'`).

    import mteb
    from hf_echo.evaluation.benchmarks.mteb_model import EchoForMTEB, bitext_task

    mteb.evaluate(EchoForMTEB("outputs/echo"), bitext_task("Dev", rows), cache=None)

The prompt contains the language of a text if mteb names it; otherwise (two languages in one subset) texts are encoded
as "Unspecified language".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

try:
    from mteb import TaskMetadata
    from mteb.abstasks.text.bitext_mining import AbsTaskBitextMining
    from mteb.models import ModelMeta
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.models.model_meta import ScoringFunction
except ImportError as error:
    raise ImportError("mteb_model needs mteb: pip install 'hf-echo[mteb]'") from error

from datasets import Dataset, DatasetDict

from ...languages import is_language
from ..nway_texts import texts_by_language


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


def bitext_task(name: str, rows: Iterable[Mapping[str, Any]], target_lang: str = "eng_Latn") -> AbsTaskBitextMining:
    """Make an mteb bitext mining task from an n-way table (id, lang, text): find translations in `target_lang`.

    The table has one column per language and only the ids that all languages have, because mteb needs one table for
    all pairs.

    Raises:
        ValueError: no id is common to all languages, or there is no language besides the target.
    """
    texts = texts_by_language(rows)
    sources = [lang for lang in texts if lang != target_lang]
    if target_lang not in texts or not sources:
        raise ValueError(f"{name}: give rows in {target_lang!r} and in another language; found {', '.join(texts)}")
    ids = [key for key in texts[target_lang] if all(key in texts[lang] for lang in sources)]
    if not ids:
        raise ValueError(f"{name}: no id has a text in all of {', '.join(texts)}")
    table = Dataset.from_dict({lang: [texts[lang][key] for key in ids] for lang in texts})
    langs = {f"{lang}-{target_lang}": [bcp47(lang), bcp47(target_lang)] for lang in sources}

    class Local(AbsTaskBitextMining):
        metadata = TaskMetadata(
            name=name,
            description="Translations among local sentences.",
            type="BitextMining",
            category="t2t",
            dataset={"path": "local", "revision": "1"},
            eval_langs=langs,
            main_score="f1",
        )
        parallel_subsets = True

        def load_data(self, num_proc=None, **kwargs) -> None:
            self.dataset, self.data_loaded = DatasetDict(test=table), True

    return Local()


def bcp47(code: str) -> str:
    """mteb's spelling of a code: fra_Latn -> fra-Latn, without a third part (por_Latn_BR -> por-Latn)."""
    return "-".join(code.split("_")[:2])
