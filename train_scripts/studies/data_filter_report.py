"""What the data filters find: known noise is put into a parallel corpus, and recall and precision are counted by kind.

    python train_scripts/studies/data_filter_report.py outputs/nano-real/data/train.parquet \\
        --model outputs/nano-real/3_hard_negatives --dev outputs/nano-real/data/dev_*.parquet --out filters.json

Of a random part of SOURCE 5 % of the rows are mispaired and 5 % get a target in another language
(`inject`). Each filter sees all rows; the length ratio is fitted on the spoilt rows,
the thresholds are calibrated on the dev sets (n-way tables). Rows that were bad before count as clean: precision is a
lower bound.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hf_echo.data import load_nway, nway_pairs
from hf_echo.data.pipeline.filters import DirectionThreshold, build
from hf_echo.data.pipeline.filters.columns import by_direction, codes_of
from hf_echo.data.pipeline.filters.threshold import calibrate, score
from hf_echo.data.schema import normalise
from hf_echo.inference import EchoScorer

CLEAN, MISPAIRED, SAME_MEANING, OTHER_TEXT = ("clean", "mispaired", "wrong language", "wrong language and meaning")
KINDS = (MISPAIRED, SAME_MEANING, OTHER_TEXT)


def inject(table: pa.Table, *, share: float = 0.05, seed: int = 0) -> tuple[pa.Table, np.ndarray]:
    """Mispair ``share`` of the rows, and give as many a target in another language.

    Mispaired: targets are swapped within their direction. Wrong language: the target is replaced by the source text of
    a row with the same target and another source language (same meaning), or, if there is none, of any row with another
    source language; its label stays.

    Returns:
        The table without the column ``quality``, and per row CLEAN, MISPAIRED, SAME_MEANING or OTHER_TEXT. A row
        stays CLEAN if no other text fits.

    Raises:
        ValueError: ``share`` is not in (0, 0.5].
    """
    if not 0 < share <= 0.5:
        raise ValueError(f"share={share!r} must be above 0 and at most 0.5")
    rng, rows = np.random.default_rng(seed), round(share * len(table))
    chosen = rng.permutation(len(table))[: 2 * rows]
    targets, kinds = table["target"].to_pylist(), np.full(len(table), CLEAN, dtype=object)
    original = list(targets)
    _mispair(table, chosen[:rows], original, targets, rng)
    _other_language(table, chosen[rows:], original, targets, kinds, rng)
    moved = [row for row in chosen[:rows] if targets[row] != original[row]]
    kinds[moved] = MISPAIRED
    column = table.column_names.index("target")
    table = table.set_column(column, "target", pa.array(targets, table.schema.field("target").type))
    return table.drop_columns(["quality"]) if "quality" in table.column_names else table, kinds


def _mispair(table, chosen: np.ndarray, original: list[str], targets: list[str], rng) -> None:
    for _, rows in by_direction(table.select(["source_lang", "target_lang"]).take(pa.array(chosen))):
        circle = rng.permutation(chosen[rows])
        for row, other in zip(circle, np.roll(circle, 1)):
            targets[row] = original[other]


def _other_language(table, chosen: np.ndarray, original, targets, kinds, rng) -> None:
    langs, names = codes_of(table["source_lang"])
    target_langs = table["target_lang"].to_pylist()
    sources = table["source"].to_pylist()
    same: dict[str, list[int]] = {}
    for row, text in enumerate(original):
        same.setdefault(text, []).append(row)
    for row in chosen:
        fits = [r for r in same[original[row]] if langs[r] != langs[row] and names[langs[r]] != target_langs[row]]
        kind, candidates = SAME_MEANING, fits
        if not fits:
            drawn = rng.integers(len(table), size=20)
            candidates = [r for r in drawn if langs[r] != langs[row] and names[langs[r]] != target_langs[row]]
            kind = OTHER_TEXT
        if candidates:
            chosen_row = candidates[rng.integers(len(candidates))] if fits else candidates[0]
            targets[row], kinds[row] = sources[chosen_row], kind


def sample(source: Path, rows: int, seed: int) -> pa.Table:
    table = pq.read_table(source)
    chosen = np.random.default_rng(seed).choice(len(table), min(rows, len(table)), replace=False)
    return normalise(dict(zip(table.column_names, table.take(pa.array(np.sort(chosen))).columns)))[0]


def scored(table: pa.Table, scorer: EchoScorer, cache: Path | None) -> pa.Table:
    """With the column quality; scores are written to ``cache``, or read from it."""
    if cache is not None and cache.exists():
        return table.append_column("quality", pa.array(np.load(cache).astype(np.float64)))
    table = score(table, scorer)
    if cache is not None:
        np.save(cache, table["quality"].to_numpy())
    return table


def dev_tables(paths: list[Path]) -> list[pa.Table]:
    return [nway_pairs(load_nway(path)).with_format("arrow")[:] for path in paths]


def figures(keep: np.ndarray, kinds: np.ndarray) -> dict[str, float]:
    """In percent: recall of each kind, precision over all kinds, and the clean rows that went."""
    row = {f"recall, {kind}": 100 * float((~keep[kinds == kind]).mean()) for kind in KINDS if (kinds == kind).any()}
    bad = kinds != CLEAN
    row["recall, all"] = 100 * float((~keep[bad]).mean())
    row["precision"] = 100 * float(bad[~keep].mean()) if (~keep).any() else float("nan")
    return row | {"clean rows dropped": 100 * float((~keep[~bad]).mean()), "rows dropped": int((~keep).sum())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--dev", type=Path, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--k", type=float, nargs="+", default=[1, 2, 3])
    parser.add_argument("--scores", type=Path, help="where the cosines of the rows are kept between runs (.npy)")
    args = parser.parse_args()

    scorer = EchoScorer(args.model, progress=True)
    table, kinds = inject(sample(args.source, args.rows, args.seed), share=args.share, seed=args.seed)
    table = scored(table, scorer, args.scores)
    calibrated = calibrate(dev_tables(args.dev), scorer).calibrated
    filters = {
        "sanity": build("sanity"),
        "length_ratio": build("length_ratio").fit([table]),
        "language_id": build("language_id"),
    } | {f"threshold, k = {k:g}": DirectionThreshold(k=k, calibrated=calibrated) for k in args.k}
    keeps = {name: filter_.keep(table) for name, filter_ in filters.items()}
    for k in args.k:
        names = ("sanity", "length_ratio", "language_id", f"threshold, k = {k:g}")
        keeps[f"all four, k = {k:g}"] = np.logical_and.reduce([keeps[name] for name in names])
    report = {
        "source": args.source.name,
        "rows": {str(kind): int(n) for kind, n in zip(*np.unique(kinds.astype(str), return_counts=True))},
        "filters": {name: figures(keep, kinds) for name, keep in keeps.items()},
        "calibrated": calibrated,
    }
    args.out.write_text(json.dumps(report, indent=1), encoding="utf-8")
    columns = list(next(iter(report["filters"].values())))
    print("|".join(["", "filter", *columns, ""]))
    print("|".join(["", "---", *["--:"] * len(columns), ""]))
    for name, row in report["filters"].items():
        print("|".join(["", name, *(f"{row[c]:,}" if c == "rows dropped" else f"{row[c]:.1f}" for c in columns), ""]))


if __name__ == "__main__":
    main()
