"""Hub datasets from a local Hub server, read in another process, because the address is read on import."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS = [
    {"src": f"s{i}", "tgt": f"t{i}" if i != 7 else "", "src_lang": "fra_Latn", "tgt_lang": "eng_Latn"} for i in range(9)
]
OPUS = [{"id": str(i), "translation": {"fr": f"s{i}", "en": f"t{i}"}} for i in range(3)]


def parquet(rows):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


def jsonl(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


NWAY = [{"id": i, "lang": lang, "text": f"{lang} {i}"} for i in range(2) for lang in ("fra_Latn", "eng_Latn")]
CARD = b"""---
configs:
- config_name: en-fr
  data_files: a.jsonl
- config_name: two
  data_files: b.jsonl
---
"""
REPOS = {
    "tester/pairs": {"train.parquet": parquet(ROWS), "test.parquet": parquet(ROWS[:1])},
    "tester/opus": {"README.md": CARD, "a.jsonl": jsonl(OPUS), "b.jsonl": jsonl(OPUS[:1])},
    "tester/nway": {"train.jsonl": jsonl(NWAY)},
}


class Hub(BaseHTTPRequestHandler):
    """The read-only part of the Hub's API that `datasets` asks for."""

    def log_message(self, *args):
        pass

    def answer(self, code, body=b"", **headers):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        for key, value in {"Content-Length": len(body), "Content-Type": "application/json", **headers}.items():
            self.send_header(key.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def missing(self, what):
        self.answer(404, {"error": "not found"}, X_Error_Code=f"{what}NotFound", X_Repo_Commit="0" * 40)

    def do_GET(self):
        path = self.path.split("?")[0]
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size).decode()
        if file := re.fullmatch(r"/datasets/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path):
            if file[1] not in REPOS:
                return self.missing("Repo")
            data = REPOS[file[1]].get(file[2])
            if data is None:
                return self.missing("Entry")
            headers = {
                "ETag": f'"{hashlib.sha1(data).hexdigest()}"',
                "X_Repo_Commit": "0" * 40,
                "Accept_Ranges": "bytes",
            }
            if part := re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
                first, last = int(part[1]), min(int(part[2] or len(data) - 1), len(data) - 1)
                headers["Content_Range"] = f"bytes {first}-{last}/{len(data)}"
                return self.answer(206, data[first : last + 1], **headers)
            return self.answer(200, data, **headers)
        api = re.fullmatch(r"/api/datasets/([^/]+/[^/]+)(/.*)?", path)
        files = REPOS.get(api[1]) if api else None
        if files is None:
            return self.missing("Repo")
        entries = [
            {"type": "file", "path": p, "size": len(d), "oid": hashlib.sha1(d).hexdigest()} for p, d in files.items()
        ]
        rest = api[2] or ""
        if rest.startswith("/paths-info"):
            return self.answer(200, [e for e in entries if e["path"] in body])
        if tree := re.fullmatch(r"/tree/[^/]+/?(.*)", rest):
            inside = [e for e in entries if e["path"].startswith(tree[1])]
            return self.answer(200, inside) if inside else self.missing("Entry")
        self.answer(200, {"id": api[1], "sha": "0" * 40, "siblings": [{"rfilename": p} for p in files]})

    do_HEAD = do_POST = do_GET


SCRIPT = """
import json, sys
from hf_echo.data import load_parallel
results = []
for call in json.load(sys.stdin):
    try:
        results.append(list(load_parallel(**call)))
    except (ValueError, FileNotFoundError) as error:
        results.append(f"{type(error).__name__}: {error}")
print(json.dumps(results))
"""
FRENCH = {"source_lang": "fra_Latn", "target_lang": "eng_Latn"}
OPUS_COLUMNS = {"columns": {"source": "translation.fr", "target": "translation.en"}, **FRENCH}
CALLS = {
    f"{kind}{' streamed' if streaming else ''}": call | {"streaming": streaming}
    for streaming in (False, True)
    for kind, call in {
        "bad": {"path_or_name": "tester/pairs"},
        "skip": {"path_or_name": "tester/pairs", "on_bad_row": "skip", "provenance": "mined"},
        "limit": {"path_or_name": "tester/pairs", "limit": 2},
        "test": {"path_or_name": "tester/pairs", "split": "test"},
        "nested": {"path_or_name": "tester/opus", "name": "en-fr", **OPUS_COLUMNS},
        "columns": {"path_or_name": "tester/opus", "name": "en-fr", **FRENCH},
        "name": {"path_or_name": "tester/opus", **OPUS_COLUMNS},
        "split": {"path_or_name": "tester/pairs", "split": "dev"},
        "nway": {"path_or_name": "tester/nway"},
        "nobody": {"path_or_name": "tester/nothing"},
    }.items()
}


def ask(hub: type, script: str, calls: dict, home) -> tuple[dict, str]:
    """(answers, standard error) of a script that makes these calls in another process, with `hub` as its Hub."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {k: v for k, v in os.environ.items() if k not in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")}
    environment |= {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HOME": str(home)}
    environment |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(list(calls.values())),
        text=True,
        capture_output=True,
        env=environment,
        timeout=300,
    )
    server.shutdown()
    assert done.returncode == 0, done.stderr
    return dict(zip(calls, json.loads(done.stdout), strict=True)), done.stderr


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    found, errors = ask(Hub, SCRIPT, CALLS, tmp_path_factory.mktemp("home"))
    return found | {"stderr": errors}


def pairs(rows):
    return [(row["source"], row["target"]) for row in rows]


@pytest.mark.parametrize("how", ["", " streamed"])
class TestHub:
    def test_rows_of_a_split(self, answers, how):
        row = {"source": "s0", "target": "t0", "provenance": "primary"} | FRENCH
        assert answers["test" + how] == [row]
        assert pairs(answers["limit" + how]) == [("s0", "t0"), ("s1", "t1")]

    def test_bad_rows(self, answers, how):
        assert "tester/pairs:8: target is empty (1 bad row" in answers["bad" + how]
        assert pairs(answers["skip" + how]) == [(f"s{i}", f"t{i}") for i in range(9) if i != 7]
        assert {row["provenance"] for row in answers["skip" + how]} == {"mined"}

    def test_nested_columns_of_a_configuration(self, answers, how):
        assert pairs(answers["nested" + how]) == [(f"s{i}", f"t{i}") for i in range(3)]
        assert "found: id, translation.fr, translation.en" in answers["columns" + how]

    def test_n_way(self, answers, how):
        assert sorted(pairs(answers["nway" + how])) == [(f"fra_Latn {i}", f"eng_Latn {i}") for i in range(2)]

    def test_what_is_not_there(self, answers, how):
        wrong = answers["nobody" + how]
        assert wrong.startswith("FileNotFoundError: tester/nothing: no such file or folder, nor a readable dataset on")
        for kind, word in (("name", "en-fr"), ("split", "test")):
            assert answers[kind + how].startswith("ValueError: tester/") and word in answers[kind + how]
            assert "\n" not in answers[kind + how]
