"""A tone as a WAV file, which stands for speech."""

import math
import struct

RATE = 8000


def wav(text: str, pitch: float, speed: float) -> bytes:
    """The longer the text, the longer the tone."""
    samples = []
    for time in range(int(RATE * 0.02 * (len(text) + 5) / speed)):
        samples.append(int(9000 * math.sin(2 * math.pi * pitch * time / RATE)))
    data = struct.pack(f"<{len(samples)}h", *samples)
    # One channel of 16 bits.
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, RATE, 2 * RATE, 2, 16)
    head = struct.pack("<4sI4s", b"RIFF", 36 + len(data), b"WAVE")
    return head + form + struct.pack("<4sI", b"data", len(data)) + data
