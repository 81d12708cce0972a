"""Run the blocks of docs/serving.md that ask a server of `hf-echo serve`: LangChain, LlamaIndex,
Haystack, Qdrant, ...

    hf-echo serve echo-nano --port 8080 &
    python -m venv clients
    clients/bin/pip install openai langchain-openai llama-index-embeddings-openai-like \\
        llama-index-embeddings-text-embeddings-inference haystack-ai qdrant-client duckdb==1.5.5
        duckdb-extension-vss
    clients/bin/python benchmarks/serve_clients.py

The environment is one of its own, because the clients pin versions and need nothing of this
package. Each block marked `py` that names the server is run behind the first block, which holds the
texts, and must print what its comments say; `# not run` in the first line skips it. The exit code
is the number of blocks that fail.

    clients/bin/python benchmarks/serve_clients.py langchain_huggingface

runs the blocks that name this package instead, such as those that open outputs/stock without a
server.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import traceback
from importlib.util import find_spec
from pathlib import Path

SERVER = "http://127.0.0.1:8080"
PAGE = Path(__file__).parents[1] / "docs" / "serving.md"


def blocks(page: str) -> list[tuple[str, str]]:
    """(heading, code) of each block."""
    headed_blocks = []
    heading = ""
    for title, code in re.findall(
        r"^#+ ([^\n]+)$|^```py\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL
    ):
        heading = title or heading
        if code:
            headed_blocks.append((heading, code))
    return headed_blocks


def failure(code: str, names: dict) -> str:
    """Why a block fails; "" if it prints what its comments say."""
    expected = re.findall(r"^print\(.*\)  # (.+)$", code, flags=re.MULTILINE)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(PAGE), "exec"), names)
    except Exception:
        return traceback.format_exc()
    lines = printed.getvalue().splitlines()
    return "" if lines == expected else f"printed {lines}, not {expected}"


def main() -> int:
    wheel = find_spec("duckdb_extension_vss")
    if wheel:  # so that INSTALL downloads nothing
        import duckdb

        (extension,) = Path(wheel.submodule_search_locations[0]).rglob("vss.duckdb_extension")
        duckdb.execute(f"INSTALL '{extension}'")
    (_, texts), *others = blocks(PAGE.read_text(encoding="utf-8"))
    named = sys.argv[1] if len(sys.argv) > 1 else SERVER
    asking = [(heading, code) for heading, code in others if named in code]
    failed = 0
    for heading, code in asking:
        if code.startswith("# not run"):
            print(f"{heading}: not run")
            continue
        names: dict = {}
        exec(texts, names)
        reason = failure(code, names)
        print(f"{heading}: {reason or 'as the page says'}", flush=True)
        failed += bool(reason)
    return failed


if __name__ == "__main__":
    sys.exit(main())
