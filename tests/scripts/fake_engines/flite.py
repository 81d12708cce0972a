"""Stands for flite: the same options, and a tone of the voice's pitch."""

import sys
from pathlib import Path

from tone import wav

PITCHES = {"kal16": 500, "rms": 600}
arguments = sys.argv[1:]
if arguments == ["-lv"]:
    print("Voices available: kal16 rms slt awb_time")
else:
    voice, setting, source, out = arguments[1::2]
    text = Path(source).read_text(encoding="utf-8").strip()
    _, _, stretch = setting.partition("=")
    Path(out).write_bytes(wav(text, PITCHES[voice], 1 / float(stretch)))
