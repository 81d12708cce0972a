"""Kinds of models that a card introduces: what the Hub files them under, and the template that opens them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Kind:
    """One kind of model.

    Attributes:
        name: of the template hub_cards/open/NAME.md.j2, which says what the model is and opens it.
        library_name, task, tags: fields of the header. Each card has the tag hf-echo, too.
        base_model: on the Hub, where the lineage names files only.
    """

    name: str
    tags: tuple[str, ...]
    library_name: str = "transformers"
    task: str = "sentence-similarity"
    base_model: str | None = None


_ST = ("sentence-transformers", "feature-extraction")
_STOCK = {"library_name": "sentence-transformers"}
# By model_type of config.json; a folder of static embeddings has no such file, a modular encoder one of its backbone.
KINDS: dict[str | None, Kind] = {
    None: Kind("static", ("sentence-transformers", "static-embeddings"), **_STOCK),
    "echo": Kind("echo", (*_ST, "translation")),
    "echo_speech": Kind("echo_speech", (*_ST, "speech")),
    "spectrum": Kind("spectrum", ("spectrum",), task="text-generation"),
    "modular": Kind("modular", _ST, **_STOCK),
    "m2m_100": Kind("sonar", (*_ST, "sonar"), base_model="facebook/SONAR", **_STOCK),
    "xlm-roberta": Kind("mexma", (*_ST, "mexma"), base_model="facebook/MEXMA", **_STOCK),
    "blaser": Kind("blaser", ("quality-estimation", "blaser", "sonar", "translation"), task="translation"),
}


def kind_of_model(config: Mapping[str, Any]) -> Kind:
    """The kind by the content of config.json, empty where there is no such file; models without their own: "echo"."""
    return KINDS.get(config.get("model_type", "echo") if config else None, KINDS["echo"])


def base_model_of(config: Mapping[str, Any]) -> str | None:
    """The published model that a converted file holds."""
    kind = kind_of_model(config)
    return f"facebook/blaser-2.0-{config['kind']}" if kind.name == "blaser" else kind.base_model
