"""How the stages of Spectrum read their data: documents, embeddings of their sentences, and BOE as the last row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import Dataset
from transformers import AutoTokenizer

from ...data.documents import TokenizedDocuments, flat_sentences, load_documents
from ...inference.any_encoder import any_encoder
from ...inference.embedding_store import frozen_embeddings
from ...inference.encode import opening
from ...modeling import EchoTokenizer, SpectrumConfig
from ...utils.fingerprint import fingerprint
from ..core.stage import Embedded, Rows, load_with

BOE = (SpectrumConfig.boe_text, "eng_Latn")


@dataclass
class DevDocuments:
    """Documents to measure on, and the encoder of their sentences."""

    rows: Dataset
    encoder: str
    cache_dir: str

    def embeddings(self) -> np.ndarray:
        """(sentences, d) of all documents, one after the other."""
        key = f"{self.encoder} {fingerprint(self.encoder)}"
        texts = flat_sentences(self.rows)
        (rows,) = frozen_embeddings(texts, any_encoder(self.encoder), key, self.cache_dir, sides=("source",))
        return rows[np.arange(len(texts))]


def encoder(model_args: Any, data_args: Any) -> str:
    """The frozen encoder of the sentences, in the field `teacher` of a recipe."""
    if not data_args.teacher:
        raise ValueError("teacher is missing: the sentence encoder whose embeddings the tower reads")
    return data_args.teacher


def _load(args: Any) -> Dataset:
    if not args.train_data:
        raise ValueError("train_data is missing: a JSONL or Parquet file of documents (sentences, lang)")
    return load_with(load_documents, args.train_data, args.data_options)


def _load_dev(args: Any) -> dict[str, DevDocuments]:
    found = {name: load_documents(source) for name, source in args.dev_data.items()}
    return {name: DevDocuments(rows, args.teacher, args.cache_dir) for name, rows in found.items()}


def _tokenizer(model_args: Any, rows: Dataset, config: Any, resume: str | None) -> Any:
    fields = (model_args.tokenizer_name_or_path, model_args.decoder, model_args.model_name_or_path)
    name = resume or next((value for value in fields if value), None)
    if name is None:
        raise ValueError("tokenizer_name_or_path is missing: the tokenizer of the token decoder, or of the encoder")
    with opening(name) as place:
        found = AutoTokenizer.from_pretrained(place)
    return found if hasattr(found, "text_ids") else EchoTokenizer.around(found)


def _prepare(rows: Dataset, tokenizer: Any, data_args: Any, config: Any) -> TokenizedDocuments:
    return TokenizedDocuments(rows, tokenizer, max_sentences=config.max_sentences, max_length=config.max_length)


DOCUMENTS = Rows(
    load=_load,
    load_dev=_load_dev,
    processor=_tokenizer,
    prepare=_prepare,
    texts=lambda rows: flat_sentences(rows, last=BOE),
    languages=lambda documents: documents.languages,
)
EMBEDDED = Embedded("embeddings", encoder, sides=("source",))
