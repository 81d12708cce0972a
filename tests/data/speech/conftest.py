"""Fake speech engines: they answer as the real ones and write a tone of the voice's pitch."""

import shutil
import sys

import pytest

from hf_echo.data.speech import speech_engines as engines

from ...processes import SCRIPTS

FAKES = SCRIPTS / "fake_engines"


@pytest.fixture
def fake_engines(tmp_path, monkeypatch):
    """Only the fake engines are on the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    shutil.copy(FAKES / "tone.py", folder)
    for name in ("espeak-ng", "flite"):
        program = folder / name
        script = (FAKES / f"{name}.py").read_text(encoding="utf-8")
        program.write_text(f"#!{sys.executable} -SE\n{script}", encoding="utf-8")
        program.chmod(0o755)
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
