"""xsim with margin: our exact one-pass search against LASER's method (two flat faiss searches and a loop).

    python benchmarks/similarity_search.py              # 10,000 x 10,000 x 256 perturbed near-duplicates
    python benchmarks/similarity_search.py x.npy y.npy --json out.json
    python benchmarks/similarity_search.py --rows 100000 --only ours      # seconds and peak memory

Generated data: rows in families of five that differ by a small perturbation (as a sentence and its hard negatives do);
x is a noisier copy of y. Both methods run alternately, `--repeats` times each, with the same number of threads (one by
default); the best time of each counts. Neighbours are compared in both directions. Where they differ, `gain` is
[smallest, largest] float64 cosine of our choice minus theirs: 0 is an exact tie (we take the lowest index), a positive
number is a float32 rounding error of theirs, a clearly negative one would be our error. `one_product` is how many times
faster than LASER's method the bare float32 product of all pairs is: the upper limit for float32 searches.
"""

from __future__ import annotations

import argparse
import json
import resource
import time

import faiss
import numpy as np
import torch

from hf_echo.search import margin_scores, mutual_neighbours


def near_duplicates(rows: int, dimensions: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    families = rng.standard_normal((-(-rows // 5), dimensions), dtype=np.float32)
    y = np.repeat(families, 5, axis=0)[:rows] + 0.1 * rng.standard_normal((rows, dimensions), dtype=np.float32)
    return y + 0.3 * rng.standard_normal((rows, dimensions), dtype=np.float32), y


def laser(x: np.ndarray, y: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two IndexFlatIP searches, ratio margin in a Python loop: (predictions, forward, backward indices)."""
    x, y = x.copy(), y.copy()
    faiss.normalize_L2(x)
    faiss.normalize_L2(y)
    index_x, index_y = faiss.IndexFlatIP(x.shape[1]), faiss.IndexFlatIP(y.shape[1])
    index_x.add(x)
    index_y.add(y)
    cos_xy, forward = index_y.search(x, k)
    cos_yx, backward = index_x.search(y, k)
    mean_x, mean_y = cos_xy.mean(axis=1), cos_yx.mean(axis=1)
    predictions = np.empty(len(x), dtype=np.int64)
    for i in range(len(x)):
        scores = [cos_xy[i, j] / ((mean_x[i] + mean_y[forward[i, j]]) / 2) for j in range(k)]
        predictions[i] = forward[i, int(np.argmax(scores))]
    return predictions, forward, backward


def ours(x: np.ndarray, y: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    forward, backward = mutual_neighbours(x, y, k)
    best = margin_scores(forward, backward, "ratio").argmax(axis=1)
    return forward.indices[np.arange(len(x)), best], forward.indices, backward.indices


def product(x: np.ndarray, y: np.ndarray, k: int) -> None:
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    out = torch.empty(256, len(y))
    for rows in x.split(256):
        torch.mm(rows, y.T, out=out[: len(rows)])


def disagreement(x: np.ndarray, y: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> dict:
    """Rows whose neighbours differ; float64 cosine of our choice minus theirs at the first differing rank."""
    rows = np.flatnonzero((ours != theirs).any(axis=1))
    rank = (ours != theirs)[rows].argmax(axis=1)
    x, y = x[rows].astype(np.float64), y.astype(np.float64)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    gain = ((y[ours[rows, rank]] - y[theirs[rows, rank]]) * x).sum(axis=1)
    return {"rows": len(rows), "gain": [gain.min(initial=0.0).item(), gain.max(initial=0.0).item()]}


def timed(function, *arguments):
    wall, cpu = time.perf_counter(), time.process_time()
    result = function(*arguments)
    return result, time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "files", nargs="*", help="x.npy and y.npy; row i of one is the translation of row i of the other"
    )
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--dimensions", type=int, default=256)
    parser.add_argument("-k", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", choices=["ours"], help="seconds and peak memory of our search, without comparison")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    if len(options.files) not in (0, 2):
        parser.error(f"give two .npy files or none, got {len(options.files)}")
    if options.files:
        x, y = (np.ascontiguousarray(np.load(f), dtype=np.float32) for f in options.files)
    else:
        x, y = near_duplicates(options.rows, options.dimensions)
    torch.set_num_threads(options.threads)
    faiss.omp_set_num_threads(options.threads)
    if options.only:
        inputs = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        _, wall, cpu = timed(ours, x, y, options.k)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        figures = {
            "rows": [len(x), len(y)],
            "dimensions": x.shape[1],
            "seconds": round(wall, 1),
            "cpu_seconds": round(cpu, 1),
            "peak_mb": peak // 1024,
            "of_which_before_mb": inputs // 1024,
        }
        print(json.dumps(figures, indent=2))
        return

    methods = {"laser": laser, "ours": ours, "product": product}
    best = dict.fromkeys(methods, [np.inf, np.inf])
    results = {}
    for _ in range(options.repeats):
        for name, method in methods.items():
            results[name], wall, cpu = timed(method, x, y, options.k)
            best[name] = [min(best[name][0], wall), min(best[name][1], cpu)]
    figures = {
        "rows": [len(x), len(y)],
        "dimensions": x.shape[1],
        "k": options.k,
        "threads": torch.get_num_threads(),
        **{f"{name}_seconds": round(wall, 3) for name, (wall, _) in best.items()},
        **{f"{name}_cpu_seconds": round(cpu, 3) for name, (_, cpu) in best.items()},
        "ratio": round(best["laser"][0] / best["ours"][0], 2),
        "cpu_ratio": round(best["laser"][1] / best["ours"][1], 2),
        "one_product": round(best["laser"][1] / best["product"][1], 2),
        "predictions_that_differ": int((results["ours"][0] != results["laser"][0]).sum()),
        "forward_difference": disagreement(x, y, results["ours"][1], results["laser"][1]),
        "backward_difference": disagreement(y, x, results["ours"][2], results["laser"][2]),
    }
    print(json.dumps(figures, indent=2))
    if options.json:
        with open(options.json, "w") as out:
            json.dump(figures, out, indent=2)


if __name__ == "__main__":
    main()
