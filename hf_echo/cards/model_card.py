"""The card of a checkpoint, written from its lineage: every step since the first training run, and its figures.

Contract: a lineage (`hf_echo.utils.lineage`, the content of recipe.json) and the results of the last training run in,
the text of README.md out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..languages import is_language, language
from ..utils.files import write_whole
from ..utils.fingerprint import fingerprint
from ..utils.hub import snapshot, split_revision
from ..utils.lineage import FILE, all_steps, read_lineage, steps
from ..utils.speech_data import read_speech_data
from .kinds import base_model_of, kind_of_model
from .stamp import license_of, set_license
from .template import render

TEMPLATE = "model.md.j2"
# Settings of an operation that its row names in a column of their own, or that say nothing to a reader.
OWN_COLUMN = {"output_dir", "max_steps", "learning_rate", "seed", "license", "teacher"}
OWN_COLUMN |= {"source", "model", "checkpoint"}


def model_card(
    run: Mapping[str, Any],
    languages: Sequence[str] | None,
    results: Mapping[str, Any] | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    decoder: bool = False,
    heard: Mapping[str, Any] | None = None,
) -> str:
    """README.md with the fields `stage` and `teacher` in its header.

    Args:
        run: lineage of the checkpoint: {"stage", "values", "from", ...}, "from" being the lineage of the checkpoint
            that it started from, or None.
        languages: NLLB codes that the model was trained on.
        results: {"eval_NAME_xsim": ..., "eval_NAME_xsimpp": ...} in percent; "tables" of a speech encoder.
        config: content of config.json: which kind of model this is; None: an Echo encoder.
        decoder: whether the folder has decoder/.
        heard: content of speech_data.json.
    """
    values, codes, config = run["values"], sorted(languages or []), {"model_type": "echo"} if config is None else config
    results, kind = results or {}, kind_of_model(config)
    return render(
        TEMPLATE,
        title=Path(values.get("output_dir") or run["stage"]).name,
        stage=run["stage"],
        kind=kind,
        config=config,
        decoder=decoder,
        teacher=_public(_nearest(run, "teacher")),
        base_model=_base_model(run) or base_model_of(config),
        datasets=_datasets(run),
        license=_nearest(run, "license"),
        prompt="fra_Latn" if "fra_Latn" in codes else None,
        languages=sorted({code.split("_")[0] for code in codes if not is_language(code) or language(code).script}),
        codes=codes,
        steps=[_row(step) for step in steps(run)],
        figures=[*_figures(results)],
        measured=[*_measured(results)] if kind.name == "echo_speech" else [],
        heard=heard,
    )


def checkpoint_card(folder: str | Path) -> str:
    """The card of a checkpoint's folder, from its lineage, its configuration and its results.json.

    Trained, converted and released checkpoints of every kind have this card. A release has the weights of the
    checkpoint that it was made from, so it takes the figures of that one. Other operations change the weights: their
    cards have no figures until the model is evaluated.

    Raises:
        FileNotFoundError: the folder has no lineage.
    """
    folder = Path(folder)
    lineage = read_lineage(folder)
    if lineage is None:
        raise FileNotFoundError(f"{folder / FILE} does not exist: the card is written from this file")
    config = _modular(folder) or _read(folder / "config.json")
    codes = config.get("codes") or config.get("languages") or lineage.get("results", {}).get("languages")
    results = _read(folder / "results.json") or _results_of_parent(lineage)
    found = {"decoder": (folder / "decoder").is_dir(), "heard": read_speech_data(folder)}
    return model_card(lineage, codes, results, config=config, **found)


def _modular(folder: Path) -> dict[str, Any]:
    """What the card of a modular encoder says, by the folders of its languages; empty for other models."""
    if not (folder / "modular.json").is_file():
        return {}
    notes = [_read(file) for file in sorted(folder.glob("languages/*/language.json"))]
    rows = [note | {"data": sorted({file["name"] for file in note.get("data", {}).values()})} for note in notes]
    codes = [note["language"] for note in notes]
    return _read(folder / "modular.json") | {"model_type": "modular", "languages": rows, "codes": codes}


def write_checkpoint_card(folder: str | Path, license: str | None = None, *, again: bool = False) -> None:
    """Write `checkpoint_card` as README.md, and the license into its header.

    Args:
        license: identifier of the Hub; None keeps that of the card.
        again: replace a card that the folder has.
    """
    card = Path(folder) / "README.md"
    if again and card.exists():
        license = license or license_of(folder)
    if again or not card.exists():
        text = checkpoint_card(folder)
        with write_whole(card) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
    if license:
        set_license(card, license)


def _results_of_parent(lineage: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of the checkpoint that a release was made from; none where that has changed since."""
    parent = lineage.get("parents", {}).get("model") if lineage["stage"] == "release" else None
    if parent is None or not (place := Path(snapshot(parent["name"]))).is_dir():
        return {}
    return _read(place / "results.json") if fingerprint(parent["name"]) == parent["fingerprint"] else {}


def release_card(folder: str | Path, template: str, results: str | Path | None = None) -> str:
    """The card of a released folder, from its lineage and a file of figures.

    Args:
        template: name of a file in hub_cards/. It reads
            made: the lineage of the folder;
            steps: {name of a step's folder: lineage}, of all steps that led to this folder;
            trained: rows of the training stages among them;
            codes, languages, dimensions, megabytes: of this folder;
            measured: whether `results` exists, and then every key of that file.
        results: JSON file; without it, or while it does not exist, the card has no figures.

    Raises:
        FileNotFoundError: the folder has no lineage.
    """
    folder = Path(folder)
    if (lineage := read_lineage(folder)) is None:
        raise FileNotFoundError(f"{folder / FILE} does not exist: the card is written from this file")
    config, counted = _read(folder / "config.json"), lineage.get("results", {})
    codes = sorted(config.get("languages") or counted.get("languages") or [])
    files = [file for file in folder.rglob("*") if file.is_file() and file.name not in ("README.md", FILE)]
    made = {Path(name).name: step for name, step in all_steps(lineage).items()}
    figures = _read(Path(results)) if results else {}
    return render(
        template,
        **figures
        | dict(
            measured=bool(figures),
            made=lineage,
            steps=made,
            trained=[_trained(name, step) for name, step in sorted(made.items()) if step.get("kind") != "operation"],
            codes=codes,
            languages=sorted({code.split("_")[0] for code in codes}),
            dimensions=config.get("embedding_size") or counted.get("dimensions"),
            megabytes=sum(file.stat().st_size for file in files) / 1e6,
        ),
    )


def _trained(name: str, run: Mapping[str, Any]) -> dict[str, Any]:
    """A training stage as a card's table shows it: millions of tokens, or of pairs where tokens are not counted."""
    values, results = run["values"], run.get("results", {})
    seconds, tokens = results.get("seconds"), ""
    if "tokens_per_second" in results:
        tokens = f"{results['tokens_per_second'] * seconds / 1e6:.1f}M"
    elif values.get("rows"):
        tokens = f"{values['max_steps'] * values['rows'] / 1e6:.1f}M pairs"
    return {
        "name": name,
        "steps": values.get("max_steps"),
        "seed": values.get("seed", 42),
        "tokens": tokens,
        "seconds": seconds,
    }


def _row(run: Mapping[str, Any]) -> dict[str, Any]:
    """A step as the card's table shows it."""
    values = run["values"]
    trained = run.get("kind") != "operation"
    shown = (k for k in values if (k.endswith("_weight") if trained else k not in OWN_COLUMN))
    settings = {name: values[name] for name in shown}
    start = _public(_start(run)) or "random weights"
    if trained and values.get("decoder"):
        start += f" + decoder of {_public(values['decoder'])}"
    return {
        "stage": run["stage"],
        "start": start,
        "teacher": _public(values.get("teacher")),
        "max_steps": values.get("max_steps"),
        "learning_rate": values.get("learning_rate"),
        "seed": values.get("seed", 42 if trained else None),
        "settings": ", ".join(f"{name} {_short(value)}" for name, value in settings.items() if value is not None),
    }


def _start(run: Mapping[str, Any]) -> str | None:
    """The checkpoint that a step started from; None for random weights."""
    for parent in run.get("parents", {}).values():
        return parent["name"]
    values = run["values"]
    return next((values[key] for key in ("model_name_or_path", "source") if values.get(key)), None)


def _nearest(run: Mapping[str, Any], *keys: str) -> str | None:
    """The value of the nearest step that states one. Converters write the license of the weights."""
    found = (step["values"].get(key) for step in steps(run)[::-1] for key in keys)
    return next((value for value in found if value), None)


def _datasets(run: Mapping[str, Any]) -> list[str]:
    """The data sets on the Hub that any step was trained on, without their versions."""
    names = {str(step["values"].get("train_data")) for step in all_steps(run).values()}
    known = {split_revision(name)[0] for name in names if not Path(name).exists()}
    return sorted(name for name in known if re.fullmatch(r"[\w-]+/[\w-]+", name))


def _base_model(run: Mapping[str, Any]) -> str | None:
    """The nearest model on the Hub that this one was made from; the Hub does not know folders."""
    for step in steps(run)[::-1]:
        for parent in step.get("parents", {}).values():
            if parent["fingerprint"].startswith("commit:"):
                return split_revision(parent["name"])[0]
            break  # the others are tokenizers and the like
    name = run["values"].get("model_name_or_path")
    return split_revision(name)[0] if name and not Path(name).exists() else None


def _short(value: Any) -> str:
    """A setting in a cell: paths without what is private, numbers without noise."""
    if isinstance(value, Mapping):
        return " ".join(f"{name} {_short(inner)}" for name, inner in value.items())
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return str(_public(text)).replace("|", "/")


def _public(name: str | None) -> str | None:
    """A Hub name as it is; of an absolute path the last two parts, since the rest is somebody's machine."""
    return "/".join(Path(name).parts[-2:]) if name and Path(name).is_absolute() else name


def _figures(results: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for key, value in results.items():
        name = key.removeprefix("eval_").removesuffix("_xsim")
        if key == f"eval_{name}_xsim":
            yield {"name": name, "xsim": value, "xsimpp": results.get(f"eval_{name}_xsimpp")}


def _measured(results: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Rows of a speech encoder's figures: by language, then the mean, of each set."""
    for name, table in results.get("tables", {}).items():
        for row in [*table["rows"], *([table["average"]] if table.get("average") else [])]:
            yield {"set": name, **row}


def _read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
