"""Fake speech engines: they answer as the real ones and write a tone of the voice's pitch."""

import stat
import sys

import pytest

from hf_echo.data.speech import speech_engines as engines

TONE = r"""
import math, struct, sys
def wav(text, pitch, speed, rate=8000):
    count = int(rate * 0.02 * (len(text) + 5) / speed)
    data = b"".join(struct.pack("<h", int(9000 * math.sin(2 * math.pi * pitch * n / rate))) for n in range(count))
    return struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16,
        b"data", len(data)) + data
args = sys.argv[1:]
"""
ESPEAK = (
    TONE
    + r"""
if args == ["--voices"]:
    print("Pty Language Age/Gender VoiceName File")
    for code in ("de", "en-us", "en-gb", "xx"):
        print(" 5 ", code, "--/M", "Name", "f/" + code)
elif args == ["--voices=variant"]:
    print("Pty Language Age/Gender VoiceName File")
    for name in ("f2", "m3", "f5", "whisper"):
        print(" 5  variant F", name, "!v/" + name)
elif "--ipa" in args:  # reads letters as sounds, and the second word in another language
    text = sys.stdin.buffer.read().decode()
    sys.stdout.buffer.write(text.replace("ei", "e^ɪ").replace("two", "(xx)t^ʃ(en)").encode())
else:
    text = sys.stdin.buffer.read().decode()
    if "crash" in text:
        sys.exit("Error: crashed")
    if "nothing" not in text:
        sound = wav(text, {"f2": 400, "m3": 200}.get(args[1].partition("+")[2], 300), int(args[3]) / 175)
        sys.stdout.buffer.write(sound)
"""
)
FLITE = (
    TONE
    + r"""
if args == ["-lv"]:
    print("Voices available: kal16 rms slt awb_time")
else:
    voice, setting, source, out = args[1], args[3], args[5], args[7]
    text = open(source, encoding="utf-8").read().strip()
    open(out, "wb").write(wav(text, {"kal16": 500, "rms": 600}[voice], 1 / float(setting.partition("=")[2])))
"""
)


@pytest.fixture
def fake_engines(tmp_path, monkeypatch):
    """Only the fake engines are on the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    scripts = {"espeak-ng": ESPEAK, "flite": FLITE}
    for name, script in scripts.items():
        place = folder / name
        place.write_text(f"#!{sys.executable} -SE\n{script}")
        place.chmod(place.stat().st_mode | stat.S_IXUSR)
    forget(monkeypatch, str(folder))
    yield engines.ENGINES
    clear()


@pytest.fixture
def no_engines(tmp_path, monkeypatch):
    forget(monkeypatch, str(tmp_path))
    yield
    clear()


def forget(monkeypatch, path: str) -> None:
    monkeypatch.setenv("PATH", path)
    clear()


def clear() -> None:
    for name in ("espeak", "flite", "festival"):
        getattr(engines, f"_{name}_voices").cache_clear()
