"""Return free memory to the system while training on a CPU.

Batches by token budget have many shapes, and glibc keeps freed blocks for the next allocation of
the same size. With two layers and batches of 32k tokens, a process held 8.3 GB after 100 steps and
12 GB after 500, and used 1.4 GB.
"""

from __future__ import annotations

import ctypes
import functools

EVERY = 25  # steps; allocating the memory again costs well under a second


@functools.cache
def _malloc_trim():
    try:
        return ctypes.CDLL("libc.so.6").malloc_trim
    except (OSError, AttributeError):  # no glibc: macOS, Windows, musl
        return None


def give_back_memory() -> bool:
    """Return free memory to the system; False if nothing was returned, as always without glibc."""
    trim = _malloc_trim()
    return bool(trim and trim(0))
