"""Read results by language: JSON files of `hf-echo evaluate ... --json`,
and result files of mteb."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..languages import meanings
from ..utils.files import first_line
from ..utils.results import Table


def read_result(file: str | Path) -> tuple[str, Table]:
    """(name of the benchmark, table with a row per language) of a result file.

    A file of mteb (`TASK.json`) gives the task's name and its main score times 100, as `score`, of
    each subset of the split test (or its only split). A file of this package gives its own name and
    the measures of its average.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a file of another layout.
    """
    file = Path(file)
    if not file.is_file():
        raise FileNotFoundError(
            f"no file {file}; give a result of `hf-echo evaluate ... --json` or of mteb"
        )
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is not JSON: {first_line(error)}") from None
    if not isinstance(content, dict):
        content = {}
    # A result of mteb, or one of ours.
    if "task_name" in content and isinstance(content.get("scores"), dict):
        return str(content["task_name"]), _of_mteb(file, content["scores"])
    if content.get("rows") and content.get("average"):
        notes = {"train_lang": content.get("train_lang")}
        return file.stem, Table(content["rows"], content["average"], notes)
    raise ValueError(
        f"{file} has neither rows and an average (`hf-echo evaluate ... --json`) nor task_name and scores"
    )


def _of_mteb(file: Path, scores: dict[str, Any]) -> Table:
    """The main score in percent by language, of a result file of MTEB."""
    if "test" not in scores and len(scores) != 1:
        raise ValueError(
            f"{file} has the splits {', '.join(scores) or 'none'}; it needs test, or one split alone"
        )
    subsets = scores["test"] if "test" in scores else next(iter(scores.values()))
    rows = [{"lang": _language(subset), "score": 100 * subset["main_score"]} for subset in subsets]
    return Table(rows).with_average(["score"])


def _language(subset: dict[str, Any]) -> str:
    """The NLLB code of a subset; of a pair with English the other language's;
    else the subset's own name."""
    names = subset.get("languages", [])
    others = [name for name in names if not name.startswith("eng")]
    codes: set[str] = set()
    for name in others or names:
        codes.update(meanings(name))
    if len(codes) == 1:
        return codes.pop()
    return str(subset.get("hf_subset"))
