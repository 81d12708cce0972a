"""An OpenAI-compatible server of the tests' own, in a thread, that does what the test says."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Server(ThreadingHTTPServer):
    """``script(request, times)`` says what to do with a request that came for the ``times``-th time
    (from 1):

    a string (the reply), a dict (the whole answer), an int (that status), bytes (a body that is no
    answer), "drop" as an exception class ConnectionError, or a function that is called first and
    gives one of these.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = lambda request, times: "ok"
        self.seen: list[str] = []  # every request, as JSON
        self.answered: list[str] = []  # those that got a reply
        self.guard = threading.Lock()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"

    def requests(self):
        return [json.loads(body) for body in self.seen]

    def handle_error(self, request, client_address):
        pass  # clients that time out or are killed


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        with self.server.guard:
            self.server.seen.append(body)
            times = self.server.seen.count(body)
        request = json.loads(body)
        action = self.server.script(request, times)
        # What the script of the test says: drop the connection, an error code, or an answer.
        if action is ConnectionError:
            self.close_connection = True
            return
        if isinstance(action, int):
            self.send(action, b'{"error": {"message": "the test says so"}}')
            return
        if isinstance(action, str):
            action = completion(action, request)
        if isinstance(action, dict):
            action = json.dumps(action).encode()
        self.send(200, action)
        with self.server.guard:
            self.server.answered.append(body)

    def send(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status != 200:
            self.send_header("retry-after-ms", "10")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def completion(text, request=None, finish="stop", **changes):
    """A chat completion; one prompt token a character and one completion token a word."""
    prompt = sum(len(m["content"]) for m in (request or {}).get("messages", []))
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}
        ],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": len(str(text).split()),
            "total_tokens": prompt,
        },
        **changes,
    }


@pytest.fixture
def server():
    pytest.importorskip("openai")
    server = Server()
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
