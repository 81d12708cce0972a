"""Subtitles: the texts of SRT (by `srt`) and WebVTT (by `webvtt-py`), one for each cue,
without its formatting."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

from ..utils.extras import extra
from ..utils.files import first_line
from ..utils.text import BrokenFile, text_blocks

FORMATTING = re.compile(r"</?(?:i|b|u|s|font|c|v|ruby|rt|lang)\b[^>]*>|\{\\[^}]*\}", re.IGNORECASE)


def subtitle_texts(path: Path) -> Iterator[tuple[int, str]]:
    """(number, text) of each cue, from 1; its lines are joined by a space, and it may be empty.

    Raises:
        BrokenFile: what is no cue stands between the cues.
    """
    lines = []
    for block in text_blocks(path):
        for number, reason in block.bad:
            raise ValueError(f"{path}:{number}: {reason}")
        lines += block.texts
    content = "\n".join(lines) + "\n"
    is_srt = ".srt" in path.name.lower()
    try:
        texts = _srt_texts(content) if is_srt else _vtt_texts(content)
    except ImportError:
        raise
    except Exception as error:  # of two libraries
        raise BrokenFile(
            path, f"not valid {'SRT' if is_srt else 'WebVTT'} ({first_line(error)})"
        ) from None
    for number, text in enumerate(texts, 1):
        if "-->" in text:
            raise BrokenFile(
                path, f"cue {number} holds the times of another cue, which cannot be read"
            )
        yield number, " ".join(FORMATTING.sub("", text).split())


def _srt_texts(content: str) -> list[str]:
    with extra("subtitles"):
        import srt
    return [cue.content for cue in srt.parse(content)]


def _vtt_texts(content: str) -> list[str]:
    with extra("subtitles"):
        import webvtt
    return [
        html.unescape(cue.text) for cue in webvtt.WebVTT.from_string(content, strict=True).captions
    ]
