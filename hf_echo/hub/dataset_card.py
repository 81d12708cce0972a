"""Push a parallel dataset to the Hub as a version, with a card made from its statistics.

The pushed folder is the output of `hf-echo data filter` (data/, stats.json, counts.json, recipe.yaml); a tag names the
version. Statistics are computed only if stats.json is missing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hf_echo.data.pipeline import Statistics, collect_statistics
from hf_echo.languages import language

from .push import push
from .template import render

TEMPLATE = "dataset.md.j2"
SIZES = (
    (10**3, "n<1K"),
    (10**4, "1K<n<10K"),
    (10**5, "10K<n<100K"),
    (10**6, "100K<n<1M"),
    (10**7, "1M<n<10M"),
    (10**8, "10M<n<100M"),
    (10**9, "100M<n<1B"),
    (10**10, "1B<n<10B"),
)


def write_card(
    folder: str | Path, *, title: str | None = None, version: str = "1.0", license: str | None = None
) -> Path:
    """Write README.md of a dataset folder, with the YAML header that `load_dataset` reads.

    Raises:
        FileNotFoundError: the folder has no data/*.parquet.
    """
    folder = Path(folder)
    if not list(folder.glob("data/*.parquet")):
        raise FileNotFoundError(f"{folder} has no data/*.parquet; give the OUT of `hf-echo data filter`")
    splits = sorted({path.name.split("-")[0] for path in folder.glob("data/*.parquet")})
    stats = _read(folder / "stats.json")
    statistics = Statistics.from_json(stats) if stats else collect_statistics([folder / "data"])
    counts, recipe = _read(folder / "counts.json"), folder / "recipe.yaml"
    text = render(
        TEMPLATE,
        title=title or folder.resolve().name,
        version=version,
        license=license,
        splits=splits,
        languages=_languages(statistics),
        size=_size(statistics.rows()[-1]["pairs"]),
        table=statistics.to_markdown(),
        total=statistics.rows()[-1],
        steps=counts["steps"] if counts else [],
        recipe=recipe.read_text(encoding="utf-8").strip() if recipe.exists() else "",
        optional=[c for c in ("hard_negatives", "quality") if c in _columns(folder)],
    )
    path = folder / "README.md"
    path.write_text(text, encoding="utf-8")
    return path


def push_dataset(folder: str | Path, repo: str, *, version: str = "1.0", private: bool = False, **card: Any) -> str:
    """Write the card and push the folder as one version (`hf_echo.hub.push`); returns the address of the version.

    Raises:
        ValueError: see `push`. FileNotFoundError: the folder has no data/*.parquet.
    """
    write_card(folder, version=version, **card)
    return push(folder, repo, version=version, kind="dataset", private=private).url


def _languages(statistics: Statistics) -> list[str]:
    """ISO 639-3 codes, without code and mathematics, which the Hub does not count as languages."""
    codes = {code for d in statistics.directions for code in (d.source_lang, d.target_lang)}
    return sorted({code.split("_")[0] for code in codes if language(code).script is not None})


def _size(pairs: int) -> str:
    return next((name for limit, name in SIZES if pairs < limit), "n>1T")


def _columns(folder: Path) -> list[str]:
    import pyarrow.parquet as pq

    return pq.read_schema(sorted(folder.glob("data/*.parquet"))[0]).names


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
