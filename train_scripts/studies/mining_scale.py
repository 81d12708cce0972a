"""Encode and mine a million real sentences with a faiss index, killed twice on the way, beside LASER's exact method.

    OMP_NUM_THREADS=1 python train_scripts/studies/mining_scale.py CORPORA --out outputs/mining-scale

The English side has `--rows` sentences. The other side has as many, in the languages that echo-nano reads: one
translation each of most of them, and sentences whose English is not there. The steps:

1. `hf-echo mine --index` is killed (SIGKILL) while it encodes and while it searches, and resumes after each.
2. The search alone runs again without a stop. Its pairs must be the same.
3. `--small` pairs out of these: LASER's method (two exact faiss searches of float32, margin in a loop), our exact
   search and the index. Each runs in a process of its own.
4. LASER's exact searches of all rows, for `--queries` of them a side: the time of all by proportion, and the share of
   the true neighbours that the index found.
5. For some sentences the best match by margin, exactly: what the index costs in precision at this size.

A mined pair is right if the corpora have it. The threshold is chosen on every second sentence and measured on the
others. Seconds are processor seconds. Memory is the largest resident size, with and without the pages of mapped files.
The steps that figures.json has are not repeated. Linux only (/proc).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import faiss
import numpy as np
import pandas as pd

import hf_echo
from hf_echo.inference import load_encoder
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.inference.embedding_files import take_rows
from hf_echo.search import MinedPairs, mine

ENG, K = "eng_Latn", 4
WORDS, CHARACTERS = 3, 150  # least and most of an English sentence
PAIRS = ["docs_parallel", "localisation", "tatoeba_pairs", "tatoeba_more", "tatoeba_challenge", "wmt_news"]
N_WAY = {"bible": "verse_id", "ntrex": "id", "flores_sib": "index_id", "tico19": "id", "captions": "id"}
MATCHED = 1_000  # sentences of step 5


def english_links(corpora: Path, languages: set[str]) -> pd.DataFrame:
    """All (english, foreign) pairs in these languages, with an English sentence of three words to 150 characters."""
    parts = []
    for name in PAIRS:
        table = pd.read_parquet(corpora / f"{name}.parquet", columns=["src_lang", "src", "tgt_lang", "tgt"])
        table = table[(table.src_lang == ENG) & table.tgt_lang.isin(languages)]
        parts.append(table.rename(columns={"src": "english", "tgt": "foreign"})[["english", "foreign"]])
    for name, key in N_WAY.items():
        table = pd.read_parquet(corpora / f"{name}.parquet")
        english = table[table.lang == ENG].drop_duplicates(key)[[key, "text"]].rename(columns={"text": "english"})
        others = table[table.lang.isin(languages)].rename(columns={"text": "foreign"})
        parts.append(others.merge(english, on=key)[["english", "foreign"]])
    pairs = pd.concat(parts, ignore_index=True)
    pairs = pairs[pairs.english.str.len() <= CHARACTERS]
    pairs = pairs.apply(lambda column: column.str.split().str.join(" "))
    return pairs[pairs.english.str.count(" ") >= WORDS - 1].drop_duplicates()


def write_collections(corpora: Path, out: Path, rows: int) -> dict:
    """english.txt, foreign.txt, and links.npz: foreign and English rows of each known pair, and `partner`.

    `partner[i]`: the foreign row that was chosen as a translation of English row i, or -1.
    """
    languages = set(load_encoder(hf_echo.pretrained("echo-nano"))[0].config.languages) - {ENG}
    links = english_links(corpora, languages).sample(frac=1, random_state=0)
    one = links.drop_duplicates("english").drop_duplicates("foreign")  # a translation each
    if len(one) < rows:
        raise SystemExit(f"{len(one)} English sentences in {corpora}, fewer than --rows {rows}")
    english = one.english[:rows]
    strangers = one.foreign[rows:][: rows // 5]  # their English is not in the collection
    foreign = pd.concat([one.foreign[: rows - len(strangers)], strangers]).sample(frac=1, random_state=1)
    sides = {"english": english.reset_index(drop=True), "foreign": foreign.reset_index(drop=True)}
    row = {name: pd.Series(texts.index, texts) for name, texts in sides.items()}
    known = links[links.english.isin(row["english"].index) & links.foreign.isin(row["foreign"].index)]
    partner = one.foreign[:rows].map(row["foreign"]).fillna(-1).astype(int).to_numpy()
    pairs = {name: known[name].map(row[name]).to_numpy() for name in sides}
    for name, texts in sides.items():
        (out / f"{name}.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    np.savez(out / "links.npz", partner=partner, **pairs)
    return {
        "rows": [len(texts) for texts in sides.values()],
        "characters": [round(texts.str.len().mean()) for texts in sides.values()],
        "languages": len(languages),
        "known_pairs": len(known),
        "foreign_rows_with_a_partner": known.foreign.nunique(),
    }


def score(found: MinedPairs, links: dict[str, np.ndarray]) -> dict[str, float]:
    """Precision, recall and F1 in percent; the threshold comes from foreign rows 0, 2, 4 ..., the rest from 1, 3 ..."""
    known = set(zip(links["foreign"].tolist(), links["english"].tolist(), strict=True))
    right = np.array([pair in known for pair in found.pairs()])
    odd, goal = found.sources % 2 == 1, np.unique(links["foreign"])
    even_goal, odd_goal = ((goal % 2 == part).sum() for part in (0, 1))
    hits = np.cumsum(right[~odd])
    f1 = 2 * hits / (np.arange(1, len(hits) + 1) + even_goal)
    threshold = found.scores[~odd][f1.argmax()]
    kept = odd & (found.scores >= threshold)
    precision, recall = right[kept].mean(), right[kept].sum() / odd_goal
    figures = {"precision": 100 * precision, "recall": 100 * recall}
    figures["f1"] = 200 * precision * recall / (precision + recall)
    figures["recall_without_threshold"] = 100 * right[odd].sum() / odd_goal
    return {"threshold": round(float(threshold), 3)} | {name: round(float(v), 1) for name, v in figures.items()}


def command(out: Path, model: str, index: str, until=None) -> dict[str, float]:
    """Run `hf-echo mine`, and kill it as soon as `until()` holds: CPU seconds (in all, encoding), peak memory."""
    arguments = ["mine", "foreign.txt", "english.txt", "--model", model, "--out", "pairs.tsv", "--index", index]
    code = "import sys; from hf_echo.cli import main; sys.argv[0] = 'hf-echo'; main()"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}
    with (out / "mine.log").open("ab") as log:
        process = subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=out, env=environment, stderr=log)
    encoded, own = None, 0
    done, status, usage = os.wait4(process.pid, os.WNOHANG)
    while not done:
        own = max(own, own_memory(process.pid))
        if encoded is None and (out / "pairs.tsv.work" / "search").exists():
            encoded = cpu_seconds(process.pid)
        if until is not None and until():
            os.kill(process.pid, signal.SIGKILL)
            until = None
        time.sleep(0.1)
        done, status, usage = os.wait4(process.pid, os.WNOHANG)
    seconds = usage.ru_utime + usage.ru_stime
    return {
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        "exit": os.waitstatus_to_exitcode(status),
        "cpu_seconds": seconds,
        "encoding_seconds": seconds if encoded is None else encoded,
        "peak_mb": usage.ru_maxrss // 1024,
        "peak_without_mapped_files_mb": own // 2**20,
    }


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def own_memory(process: int) -> int:
    """Resident bytes without the pages of files."""
    resident, shared = Path(f"/proc/{process}/statm").read_text().split()[1:3]
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def files(out: Path, pattern: str) -> int:
    return len(list((out / "pairs.tsv.work").glob(pattern)))


def mine_million(out: Path, model: str, index: str, rows: int) -> dict:
    """Steps 1 and 2."""
    half = -(-rows // 16_384) // 2
    size = 0

    def index_built() -> bool:
        nonlocal size
        size = max([size, *(p.stat().st_size for p in out.glob("pairs.tsv.work/search/*/*.index/0*.faiss"))])
        return files(out, "search/*/x-*.npz") >= 2

    runs = [command(out, model, index, lambda: files(out, "source/0*.npy") >= half)]
    runs.append(command(out, model, index, index_built))
    runs.append(command(out, model, index))
    shutil.copy(out / "pairs.tsv", out / "pairs_resumed.tsv")
    shutil.rmtree(out / "pairs.tsv.work" / "search")
    again = command(out, model, index)
    same = (out / "pairs.tsv").read_bytes() == (out / "pairs_resumed.tsv").read_bytes()
    encoding = runs[0]["encoding_seconds"] + runs[1]["encoding_seconds"]
    return {
        "killed_by": [run["signal"] for run in runs],
        "exit": [run["exit"] for run in [*runs, again]],
        "encode_seconds": round(encoding),
        "encode_sentences_per_second": round(2 * rows / encoding),
        "search_seconds": round(again["cpu_seconds"] - again["encoding_seconds"]),
        **{n: [run[n] for run in [*runs, again]] for n in ("peak_mb", "peak_without_mapped_files_mb")},
        "embeddings_mb": sum(p.stat().st_size for p in out.glob("pairs.tsv.work/*/0*.npy")) // 2**20,
        "largest_shard_mb": size // 2**20,
        "same_pairs_after_kills": same,
    }


def same_embeddings(out: Path, model: str, number: int) -> bool:
    """Whether a shard of foreign sentences, encoded again, is what the stopped run has written."""
    kept = np.load(out / "pairs.tsv.work" / "source" / f"{number:06d}.npy")
    encode = any_encoder(model)
    texts = (out / "foreign.txt").read_text(encoding="utf-8").split("\n")[number * 16_384 :][: len(kept)]
    again = [encode(texts[i : i + 2_048], None) for i in range(0, len(texts), 2_048)]
    return np.array_equal(np.concatenate([np.asarray(part) for part in again]), kept)


def embeddings(out: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(foreign, English) shards, memory-mapped."""
    work = out / "pairs.tsv.work"
    return tuple([np.load(p, mmap_mode="r") for p in sorted((work / s).glob("0*.npy"))] for s in ("source", "target"))


def laser(x: np.ndarray, y: np.ndarray, k: int = K) -> MinedPairs:
    """LASER's mine_bitexts on a CPU: ratio margin, retrieval "max"."""
    faiss.normalize_L2(x)
    faiss.normalize_L2(y)
    neighbours = []
    for queries, rows in ((x, y), (y, x)):
        index = faiss.IndexFlatIP(rows.shape[1])
        index.add(rows)
        neighbours.append(index.search(queries, k))
    (cosines, forward), (cosines_back, backward) = neighbours
    mean, mean_back = cosines.mean(axis=1), cosines_back.mean(axis=1)
    best = []
    for own, other, found, near in ((mean, mean_back, cosines, forward), (mean_back, mean, cosines_back, backward)):
        margins = np.empty_like(found)
        for i in range(len(found)):
            for j in range(k):
                margins[i, j] = found[i, j] / ((own[i] + other[near[i, j]]) / 2)
        best.append((margins.max(axis=1), near[np.arange(len(near)), margins.argmax(axis=1)]))
    (there, target), (back, source) = best
    pairs = zip([*range(len(x)), *source.tolist()], [*target.tolist(), *range(len(y))], strict=True)
    scores, seen, seen_back, kept = np.concatenate([there, back]), set(), set(), []
    pairs = list(pairs)
    for at in np.argsort(-scores):
        i, j = pairs[at]
        if i not in seen and j not in seen_back:
            seen.add(i)
            seen_back.add(j)
            kept.append((scores[at], i, j))
    return MinedPairs(*(np.array(column) for column in zip(*kept, strict=True)))


def small_sample(out: Path, pairs: int) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """(foreign rows, English rows, known pairs among them): partners together, and strangers as often as in all."""
    links = dict(np.load(out / "links.npz"))
    rows, rng = len(links["partner"]), np.random.default_rng(3)
    english = np.sort(rng.choice(rows, pairs, replace=False))
    chosen = links["partner"][english]
    strangers = np.setdiff1d(np.arange(rows), links["foreign"])
    strangers = rng.choice(strangers, min((chosen < 0).sum(), len(strangers)), replace=False)
    foreign = np.sort(np.concatenate([chosen[chosen >= 0], strangers]))
    inside = np.isin(links["foreign"], foreign) & np.isin(links["english"], english)
    known = {"foreign": foreign, "english": english}
    return foreign, english, {side: np.searchsorted(known[side], links[side][inside]) for side in known}


def mine_small(out: Path, pairs: int, method: str, index: str) -> dict:
    foreign, english, links = small_sample(out, pairs)
    x, y = (take_rows(side, rows) for side, rows in zip(embeddings(out), (foreign, english), strict=True))
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    if method == "LASER":
        found = laser(x, y)
    else:
        found = mine(x, y, k=K, index=index if method == "index" else None)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sizes = {"method": method, "foreign": len(x), "english": len(y), "with_partner": len(np.unique(links["foreign"]))}
    memory = {"peak_mb": peak // 1024, "of_which_embeddings_and_libraries_mb": before // 1024}
    return sizes | {"seconds": round(seconds, 1)} | memory | score(found, links)


def whole_flat(out: Path, queries: int) -> dict:
    """Step 4: a part of LASER's two searches of all rows."""
    x, y = (np.concatenate(side) for side in embeddings(out))
    faiss.normalize_L2(x)
    faiss.normalize_L2(y)
    picked = np.sort(np.random.default_rng(4).choice(min(len(x), len(y)), queries, replace=False))
    seconds, figures = 0.0, {}
    for name, asking, rows in (("x", x, y), ("y", y, x)):
        start = time.process_time()
        index = faiss.IndexFlatIP(rows.shape[1])
        index.add(rows)
        _, near = index.search(asking[picked], K)
        seconds += time.process_time() - start
        indexed = neighbours(out, name)[1][picked]
        right = sum(len(set(a) & set(b)) for a, b in zip(indexed.tolist(), near.tolist(), strict=True))
        figures[f"index_finds_percent_of_neighbours_{name}"] = round(100 * right / near.size, 1)
        del index
    figures["seconds_of_the_part"] = round(seconds)
    figures["seconds_of_all"] = round(seconds * len(x) / queries)
    return figures | {"peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}


def neighbours(out: Path, side: str) -> tuple[np.ndarray, np.ndarray]:
    """(cosines, rows) that the index found for all rows of a side."""
    parts = [np.load(p) for p in sorted(out.glob(f"pairs.tsv.work/search/*/{side}-*.npz"))]
    return tuple(np.concatenate([part[name] for part in parts]) for name in ("scores", "indices"))


def exact_matches(out: Path) -> dict:
    """Step 5: precision of the best match of a foreign sentence with a partner, exact and by the index."""
    links = dict(np.load(out / "links.npz"))
    known = set(zip(links["foreign"].tolist(), links["english"].tolist(), strict=True))
    x, y = (np.concatenate(side) for side in embeddings(out))
    faiss.normalize_L2(x)
    faiss.normalize_L2(y)
    asked = np.random.default_rng(5).choice(np.unique(links["foreign"]), MATCHED, replace=False)
    english, foreign = faiss.IndexFlatIP(y.shape[1]), faiss.IndexFlatIP(x.shape[1])
    english.add(y)
    foreign.add(x)
    cosines, near = english.search(x[asked], K)
    candidates, back = np.unique(near, return_inverse=True)
    mean_back = foreign.search(y[candidates], K)[0].mean(axis=1)[back.reshape(near.shape)]
    exact = near[np.arange(len(asked)), (cosines / (cosines.mean(axis=1, keepdims=True) + mean_back)).argmax(axis=1)]
    (scores, rows), mean_y = neighbours(out, "x"), neighbours(out, "y")[0].mean(axis=1)
    scores, rows = scores[asked], rows[asked]
    margins = np.where(rows < 0, -np.inf, scores / (scores.mean(axis=1, keepdims=True) + mean_y[rows]))
    indexed = rows[np.arange(len(asked)), margins.argmax(axis=1)]

    def percent(matches: np.ndarray) -> float:
        return round(100 * np.mean([pair in known for pair in zip(asked.tolist(), matches.tolist())]), 1)

    return {"sentences": len(asked), "exact_right": percent(exact), "index_right": percent(indexed)}


def pairs_of_run(out: Path) -> MinedPairs:
    table = pd.read_csv(out / "pairs.tsv", sep="\t", quoting=3, keep_default_na=False)
    columns = []
    for column, name in (("source", "foreign"), ("target", "english")):
        texts = (out / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
        columns.append(table[column].map(pd.Series(range(len(texts)), texts)).to_numpy())
    return MinedPairs(table.score.to_numpy(), *columns)


def in_own_process(out: Path, name: str, function, *arguments) -> None:
    """Add what the function returns to figures.json, under a name, unless it is there."""
    process = multiprocessing.get_context("spawn").Process(target=recorded, args=(out, name, function, *arguments))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"{name} failed")


def recorded(out: Path, name: str, function, *arguments) -> None:
    path = out / "figures.json"
    figures = json.loads(path.read_text()) if path.exists() else {}
    if name in figures:
        return
    figures[name] = function(*arguments)
    path.write_text(json.dumps(figures, indent=2) + "\n")
    print(name, json.dumps(figures[name]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path, help="folder with docs_parallel.parquet, tatoeba_pairs.parquet, ...")
    parser.add_argument("--out", type=Path, required=True, help="texts, embeddings, pairs and figures.json")
    parser.add_argument("--model", default="echo-nano")
    parser.add_argument("--rows", type=int, default=500_000, help="sentences a side")
    parser.add_argument("--small", type=int, default=100_000, help="sentences a side that LASER's method mines")
    parser.add_argument("--queries", type=int, default=20_000, help="rows a side of LASER's searches of all")
    parser.add_argument("--index", default="IVF1024,PQ96x4fs,Refine(SQ8);nprobe=64,k_factor_rf=32")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    out = args.out.absolute()
    model = str(Path(args.model).absolute()) if Path(args.model).exists() else args.model
    in_own_process(out, "data", write_collections, args.corpora, out, args.rows)
    recorded(out, "mine", mine_million, out, model, args.index, args.rows)
    in_own_process(out, "quality", quality, out)
    killed = -(-args.rows // 16_384) // 2
    in_own_process(out, "same_embeddings_after_the_kill", same_embeddings, out, model, killed)
    for method in ("LASER", "exact", "index"):
        in_own_process(out, f"small: {method}", mine_small, out, args.small, method, args.index)
    in_own_process(out, "LASER's searches of all", whole_flat, out, args.queries)
    in_own_process(out, "best match of some", exact_matches, out)


def quality(out: Path) -> dict:
    return score(pairs_of_run(out), dict(np.load(out / "links.npz")))


if __name__ == "__main__":
    main()
