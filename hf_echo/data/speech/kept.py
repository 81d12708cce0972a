"""Voices and recordings that are kept for measuring: training refuses them, so that measured voices are unheard."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

# By engine. A speaker is written VOICE, or VOICE+VARIANT for espeak-ng ("en-us+f5").
KEPT_VOICES = {
    "espeak-ng": ("f5", "m8", "travis", "victor", "antonio", "iven3", "mario", "michael"),
    "flite": ("slt",),
    "rhvoice": ("slt",),  # the same speaker
}
# Recordings: telephone prompts, language courses, and the sentences of LASER's Tatoeba test.
KEPT_SOURCES = ("asterisk", "artikulate", "tatoeba")


def kept_for_measuring(source: str | None, speaker: str | None) -> str | None:
    """Why a source or voice must not be trained on, or None if it may."""
    source = (source or "").lower()
    if kept := next((name for name in KEPT_SOURCES if name in source), None):
        return f"{kept} recordings are kept for measuring"
    parts = re.split(r"[+_/ ]", (speaker or "").lower())
    for engine, voices in KEPT_VOICES.items():
        if engine in source and (kept := next((voice for voice in voices if voice in parts), None)):
            return f"{engine} voice {kept} is kept for measuring"
    return None


def refuse_kept(rows: Any, where: str = "the speech") -> None:
    """Check that no row comes from a voice or source that is kept for measuring.

    Args:
        rows: a `Dataset` of `load_speech`, or mappings with source and speaker.

    Raises:
        ValueError: a kept one, with the number of its first row.
    """
    for number, (source, speaker) in enumerate(_origins(rows), 1):
        if reason := kept_for_measuring(source, speaker):
            raise ValueError(f"{where}, row {number}: {reason}; leave these rows out of training")


def _origins(rows: Any) -> Iterable[tuple[str | None, str | None]]:
    names = getattr(rows, "column_names", None)
    if names is None:
        return ((row.get("source"), row.get("speaker")) for row in rows if isinstance(row, Mapping))
    columns = [rows[name] if name in names else [None] * len(rows) for name in ("source", "speaker")]
    return zip(*columns, strict=True)
