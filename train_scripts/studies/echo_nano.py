"""Measure the releases of echo-static and echo-nano, and write the figures into their cards.

    python train_scripts/studies/nano_real_data.py CORPORA outputs/echo/data --parts echo
    python train_scripts/studies/echo_nano.py CORPORA

Trains what is not trained yet, as `hf-echo train echo-nano` does. Each model is measured in a process of its own, since
the figures include the peak memory of the process.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from hf_echo.stages.run.journey import run_journey
from hf_echo.stages.run.recipe import find_recipes

REPORT = Path(__file__).with_name("echo_nano_report.py")
STATIC, NANO = Path("outputs/echo-static"), Path("outputs/echo-nano")
COMPARED = ["--decoder", "--static", STATIC / "results.json", "--steps", NANO]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path, help="folder with bible.parquet, ntrex.parquet, ...")
    corpora = parser.parse_args().corpora
    for folder, options in ((STATIC, []), (NANO, COMPARED)):
        steps = find_recipes(folder.name)
        list(run_journey(steps))
        command = [sys.executable, REPORT, folder / "release", corpora, "--out", folder / "results.json", *options]
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
        list(run_journey(steps[-1:]))  # the card, with figures
        print((folder / "release" / "README.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
