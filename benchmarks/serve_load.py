"""A load on `hf-echo serve`: no answer is lost or belongs to another request, and how long the
answers take.

    python benchmarks/serve_load.py [--model echo-nano] [--dtype auto] [--clients 64] [--seconds 30]

Starts the server on this machine. Each client, a thread with a connection of its own, sends one
request after the other: mostly 1 to 4 sentences of the built-in corpus, one in 20 with 64 of them.
Every vector must have a cosine of 0.999 or more with that of the same sentence asked for alone. In
the middle 40 clients leave during a request, half of them within its body. At the end each client
sends a request of 64 sentences and the server gets SIGTERM: all must be answered. Prints JSON; the
exit code is 1 if an answer is missing or wrong.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from hf_echo.data.builtin import LANGUAGES, builtin_nway

SAME = 0.999


def texts_of(n: int) -> list[str]:
    """Different sentences of the built-in corpus, drawn by seed."""
    table = builtin_nway(2000, languages=list(LANGUAGES))
    texts = sorted(set(table["text"]))
    return random.Random(0).sample(texts, n)


def start(model: str, dtype: str) -> tuple[subprocess.Popen, int]:
    """Start `hf-echo serve`; (process, port) when it answers."""
    command = [sys.executable, "-m", "hf_echo.cli", "serve", model, "--port", "0", "--dtype", dtype]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        address = re.search(r" at http://127\.0\.0\.1:(\d+)$", line)
        if address:
            # What it says later is shown, too; nobody reading would stop the server.
            show = threading.Thread(
                target=sys.stderr.writelines, args=(server.stderr,), daemon=True
            )
            show.start()
            return server, int(address[1])
    raise SystemExit(f"the server ended with {server.wait()}")


def cpu_seconds(pid: int) -> float:
    """CPU time of a process, on Linux."""
    # Behind the name in brackets; the 12th and 13th are the ticks of user and system.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def ask(connection: http.client.HTTPConnection, texts: list[str]) -> np.ndarray:
    """(texts, size) float32 unit vectors; raises where the answer is none."""
    body = json.dumps({"inputs": texts}).encode()
    connection.request("POST", "/embed", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    content = json.loads(answer.read())
    if answer.status != 200:
        raise ValueError(f"{answer.status}: {content}")
    return np.array(content, np.float32)


class Load:
    """Clients of one server. `problems` are lines about answers that are missing or wrong."""

    def __init__(self, port: int, texts: list[str]):
        self.port = port
        self.texts = texts
        self.problems: list[str] = []
        self.seconds: list[float] = []
        connection = self.connect()
        self.truth = np.concatenate([ask(connection, [text]) for text in texts])
        near = self.truth @ self.truth.T - np.eye(len(texts))
        if near.max() >= SAME:
            raise SystemExit(
                f"two texts have a cosine of {near.max():.4f}: a mixed answer would not be seen"
            )

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)

    def request(self, connection: http.client.HTTPConnection, rows: list[int]) -> bool:
        """Whether the answer is right."""
        try:
            vectors = ask(connection, [self.texts[row] for row in rows])
            cosine = (vectors * self.truth[rows]).sum(1).min()
            if cosine >= SAME:
                return True
            self.problems.append(f"{len(rows)} vectors, least cosine {cosine:.4f}")
        except Exception as error:  # a lost connection, another status, another number of vectors
            self.problems.append(f"{type(error).__name__}: {error}")
        return False

    def client(self, number: int, until: float) -> int:
        """Texts embedded."""
        rng = random.Random(number)
        connection = self.connect()
        texts = 0
        while time.monotonic() < until:
            is_large = rng.random() < 0.05
            count = 64 if is_large else rng.randint(1, 4)
            rows = rng.choices(range(len(self.texts)), k=count)
            began = time.monotonic()
            self.request(connection, rows)
            self.seconds.append(time.monotonic() - began)
            texts += count
        return texts

    def leave(self, count: int) -> None:
        """Clients that are killed: the connection is reset."""
        body = json.dumps({"inputs": self.texts[:64]}).encode()
        # Written by hand: half of these requests end within their body.
        lines = [
            "POST /embed HTTP/1.1",
            "Host: x",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        ]
        head = "\r\n".join([*lines, "", ""]).encode()
        for number in range(count):
            with socket.create_connection(("127.0.0.1", self.port)) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                part = body
                if number % 2 == 0:
                    part = body[: len(body) // 2]
                client.sendall(head + part)
                time.sleep(0.02)

    def stop(self, server: subprocess.Popen, clients: int) -> tuple[int, int]:
        """(answered ones of the requests that were in flight at SIGTERM, exit code)."""
        with ThreadPoolExecutor(clients) as pool:
            asked = []
            for _ in range(clients):
                asked.append(pool.submit(self.request, self.connect(), list(range(64))))
            time.sleep(0.5)
            for _ in range(3):  # when later ones are answered, the server has read those
                later = self.connect()
                later.request("GET", "/health")
                later.getresponse().read()
            server.send_signal(signal.SIGTERM)
        answered = sum(answer.result() for answer in asked)
        return answered, server.wait(120)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="echo-nano")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=30)
    arguments = parser.parse_args()
    server, port = start(arguments.model, arguments.dtype)
    try:
        load = Load(port, texts_of(400))
        load_before = os.getloadavg()[0]
        cpu_before = cpu_seconds(server.pid)
        until = time.monotonic() + arguments.seconds
        with ThreadPoolExecutor(arguments.clients) as pool:
            running = [
                pool.submit(load.client, number, until) for number in range(arguments.clients)
            ]
            time.sleep(arguments.seconds / 2)
            load.leave(40)
            texts = sum(client.result() for client in running)
        cpu = cpu_seconds(server.pid) - cpu_before
        answered, status = load.stop(server, arguments.clients)
    finally:
        server.kill()
    p50, p99, longest = 1000 * np.percentile(load.seconds, [50, 99, 100])
    report = {
        "model": arguments.model,
        "dtype": arguments.dtype,
        "clients": arguments.clients,
        "seconds": arguments.seconds,
        "cores": len(os.sched_getaffinity(0)),
        "load average before": round(load_before, 1),
        "requests": len(load.seconds),
        "texts per second": round(texts / arguments.seconds, 1),
        "p50 ms": round(p50),
        "p99 ms": round(p99),
        "longest ms": round(longest),
        "texts per CPU second of the server": round(texts / cpu, 1),
        "lost or mixed answers": len(load.problems),
        "examples": load.problems[:5],
        "answered after SIGTERM": f"{answered} of {arguments.clients}",
        "ended by": signal.Signals(-status).name if status < 0 else status,
    }
    print(json.dumps(report, indent=2))
    return bool(load.problems)


if __name__ == "__main__":
    sys.exit(main())
