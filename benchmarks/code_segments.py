"""Speed of splitting source code: snippets per second, and their statistics.

    python benchmarks/code_segments.py                        # Python's standard library without its tests
    python benchmarks/code_segments.py FOLDER --language go --files 100 --json out.json

One process, one thread. Seconds are CPU time of `segment_code` alone, with parsing and without
reading files.
"""

from __future__ import annotations

import argparse
import json
import sys
import sysconfig
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "train_scripts" / "corpora"))

from run_script import find_files  # noqa: E402
from source_code import SUFFIXES, segment_code  # noqa: E402


def measure(files: list[Path], language: str, max_size: int) -> dict:
    """Snippets of source files, and the speed of splitting them."""
    seconds = 0.0
    source_bytes = 0
    read = 0
    sizes: dict[str, list[int]] = {"code": [], "text": []}
    for path in files:
        source = path.read_bytes()
        start = time.process_time()
        try:
            # Only the splitting is timed.
            snippets = segment_code(source, language, max_size=max_size)
        except UnicodeDecodeError:
            continue
        seconds += time.process_time() - start
        read += 1
        source_bytes += len(source)
        for snippet in snippets:
            sizes[snippet.kind].append(len("".join(snippet.text.split())))
    count = sum(map(len, sizes.values()))
    return {
        "files": read,
        "megabytes": source_bytes / 1e6,
        "snippets": count,
        "snippets_per_second": count / seconds,
        "megabytes_per_second": source_bytes / 1e6 / seconds,
        **{f"share_{kind}": len(of) / count for kind, of in sizes.items()},
        **{f"mean_non_blank_{kind}": sum(of) / max(len(of), 1) for kind, of in sizes.items()},
        "mean_non_blank": sum(map(sum, sizes.values())) / count,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=Path(sysconfig.get_path("stdlib")))
    parser.add_argument("--language", choices=SUFFIXES, default="python")
    parser.add_argument(
        "--files", type=int, help="number of files, taken at equal distances; default: all"
    )
    parser.add_argument("--max-size", type=int, default=100)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    left_out = {"test", "tests", "idle_test", "site-packages"}
    files = []
    for path in find_files([arguments.folder], SUFFIXES[arguments.language]):
        if not left_out.intersection(path.relative_to(arguments.folder).parts):
            files.append(path)
    files = files[:: max(len(files) // (arguments.files or len(files)), 1)]
    figures = measure(files, arguments.language, arguments.max_size)
    report = json.dumps(
        {"language": arguments.language, "max_size": arguments.max_size, **figures}, indent=2
    )
    print(report)
    if arguments.json:
        arguments.json.write_text(report + "\n")


if __name__ == "__main__":
    main()
