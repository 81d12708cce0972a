"""The files that make a folder of stock transformers weights a SentenceTransformer of stock modules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...utils.files import write_json


def write_sentence_transformer(
    folder: str | Path,
    *,
    dimension: int,
    pooling: str,
    prompts: Mapping[str, str] | None = None,
    default_prompt: str | None = None,
) -> None:
    """A Transformer module in the root and a Pooling module beside it.

    Args:
        dimension: size of the embedding.
        pooling: "mean" over the attention mask, prompt included, or "cls".
        prompts: name -> what stands in front of a text; `default_prompt` is the name of one of them.
    """
    folder = Path(folder)
    prompts = dict(prompts or {})
    if default_prompt is not None:
        # encode_query and encode_document would otherwise put nothing in front of a text.
        prompts |= {"query": prompts[default_prompt], "document": prompts[default_prompt]}
    package = "sentence_transformers"
    files = {
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": f"{package}.base.modules.transformer.Transformer"},
            {
                "idx": 1,
                "name": "1",
                "path": "1_Pooling",
                "type": f"{package}.sentence_transformer.modules.pooling.Pooling",
            },
        ],
        "sentence_bert_config.json": {
            "transformer_task": "feature-extraction",
            "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
            "module_output_name": "token_embeddings",
            "unpad_inputs": False,  # M2M100 counts positions row by row
        },
        "1_Pooling/config.json": {
            "embedding_dimension": dimension,
            "pooling_mode": pooling,
            "include_prompt": True,
        },
        "config_sentence_transformers.json": {
            "model_type": "SentenceTransformer",
            "prompts": prompts,
            "default_prompt_name": default_prompt,
            "similarity_fn_name": "cosine",
        },
    }
    for name, content in files.items():
        write_json(folder / name, content)
