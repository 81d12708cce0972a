"""When a progress bar is shown."""

from __future__ import annotations


def hidden(progress: object) -> bool | None:
    """tqdm's `disable`: True without `progress`; None, which hides the bar outside a terminal, with
    it.

    A False would show the bar in a log, whatever `TQDM_DISABLE` says.
    """
    return None if progress else True
