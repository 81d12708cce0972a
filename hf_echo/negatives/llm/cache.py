"""Cache of a model's replies in one JSONL file that survives a crash.

Each line is written with one call and synced before the reply is used, so that no paid reply is lost. Memory holds a
digest and a file position per reply, not the texts. Only one process at a time may open the file.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .backends import Reply

START = b'{"key": '  # of each line

logger = logging.getLogger(__name__)


def request_key(model: str, messages: list[dict[str, str]], parameters: dict[str, Any]) -> str:
    """Digest of everything that determines a reply: model, prompt, parameters with seed."""
    content = json.dumps([model, messages, parameters], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:32]


class ReplyCache:
    """Replies by key (`request_key`); thread-safe.

    An incomplete last line (the machine stopped while writing) or a line that is not a record is dropped with a
    warning; their requests are sent again.

    Raises:
        ValueError: another process has the file open.
    """

    def __init__(self, path: str | Path) -> None:
        from filelock import FileLock, Timeout

        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._guard = threading.Lock()
        self._places: dict[bytes, tuple[int, int]] = {}  # digest -> offset, length
        self._lock = FileLock(f"{self.path}.lock")
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise ValueError(f"{self.path} is in use by another process; wait for it, or give another file") from None
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._end = self._read()
        except ValueError:
            self.close()
            raise

    def _read(self) -> int:
        offset = 0
        with open(self.path, "rb") as file:
            if (start := file.read(len(START))) and not START.startswith(start):
                raise ValueError(f"{self.path} holds no replies of a language model: give another file")
            file.seek(0)
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    logger.warning(f"{self.path}:{number}: the last line was cut and is dropped")
                    os.ftruncate(self._file, offset)
                    return offset
                try:
                    record = json.loads(line)
                    _reply(record)
                    self._places[bytes.fromhex(record["key"])] = (offset, len(line))
                except (ValueError, KeyError, TypeError):
                    logger.warning(f"{self.path}:{number}: not a reply; its question will be asked again")
                offset += len(line)
        return offset

    def __len__(self) -> int:
        return len(self._places)

    def keys(self) -> set[str]:
        return {digest.hex() for digest in self._places}

    def get(self, key: str) -> Reply | None:
        with self._guard:
            place = self._places.get(bytes.fromhex(key))
            if place is None:
                return None
            os.lseek(self._file, place[0], os.SEEK_SET)
            line = os.read(self._file, place[1])
        return _reply(json.loads(line))

    def put(self, key: str, model: str, reply: Reply) -> None:
        """Append and sync; returns when the reply is on disk."""
        line = (json.dumps({"key": key, "model": model, **asdict(reply)}) + "\n").encode()
        with self._guard:
            os.lseek(self._file, self._end, os.SEEK_SET)
            if (written := os.write(self._file, line)) != len(line):
                raise OSError(f"{self.path}: only {written} of {len(line)} bytes were written (disk full?)")
            os.fsync(self._file)
            self._places[bytes.fromhex(key)] = (self._end, len(line))
            self._end += len(line)

    def close(self) -> None:
        os.close(self._file)
        self._lock.release()

    def __enter__(self) -> ReplyCache:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _reply(record: dict[str, Any]) -> Reply:
    if not isinstance(record["text"], str):
        raise ValueError("text is not a string")
    return Reply(record["text"], record["finish"], record["prompt_tokens"], record["completion_tokens"])
