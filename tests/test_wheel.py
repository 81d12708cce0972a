"""The wheel as users install it: alone in an empty environment, without extras.
Needs an index of packages; minutes."""

import os
import re
import subprocess
import wave
from pathlib import Path

import pytest
import torch

from .processes import python
from .speech_toy import save_random_encoder
from .test_package import ROOT, build, copy_sources

LARGEST = 100e6  # bytes: PyPI takes no larger file
# Which torch build: CUDA by default on Linux, as in the Makefile.
TORCH = os.environ.get("TORCH_INSTALL_ARGS", f"torch=={torch.__version__.split('+')[0]}").split()
FILES = {
    "in.txt": "Le chat dort.\nBonjour !\n",
    "en.txt": "The cat sleeps.\nHello!\n",
    "a.po": 'msgid "a"\nmsgstr "b"\n',
    "speech.tsv": "audio\ttext\tlang\na.wav\thello\teng_Latn\n",
}
# What needs an extra, and the extra that its one line names.
EXTRAS = {
    "encode --executor ray in.txt far.npy": "ray",
    "encode --audio a.wav heard.npy --model speech": "speech",
    "evaluate speech --model speech --data speech.tsv": "speech",
    "report echo-nano --data in.txt --out report": "plots",
    "space": "space",
    "data segment in.txt --lang fra_Latn --out sentences.txt": "segment",
    "modular start echo-nano modular": "modular",
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def empty(tmp_path_factory) -> Path:
    """Folder of an environment that holds torch, the wheel and what it asks for,
    and a working folder `work`."""
    place = tmp_path_factory.mktemp("empty")
    wheel = build("wheel", copy_sources(place / "source"), place)
    assert wheel.stat().st_size < LARGEST
    python("-m", "venv", place / "env")
    # A new environment gets torch and the wheel.
    pip = [
        place / "env" / "bin" / "python",
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--quiet",
        "install",
    ]
    subprocess.run([*pip, *TORCH, wheel], check=True)
    work = place / "work"
    work.mkdir()
    # What the commands read.
    for name, text in FILES.items():
        (work / name).write_text(text, encoding="utf-8")
    with wave.open(str(work / "a.wav"), "wb") as sound:
        sound.setnchannels(1), sound.setsampwidth(2), sound.setframerate(16_000)
        sound.writeframes(bytes(32_000))
    save_random_encoder(work / "speech")
    return place


def run(empty: Path, *command) -> subprocess.CompletedProcess:
    """A program of the environment, in `work`, without this checkout and without the Hub."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "HF_"))
    }
    environment = kept | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(empty / "home")}
    program, *arguments = map(str, command)
    options = dict(cwd=empty / "work", env=environment, capture_output=True, encoding="utf-8")
    return subprocess.run([empty / "env" / "bin" / program, *arguments], **options)


def test_the_ten_lines_of_the_readme_run(empty):
    (code,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )[:1]
    (empty / "work" / "ten.py").write_text(
        code + "\nprint(hf_echo.__file__, french.shape)\n", encoding="utf-8"
    )
    process = run(empty, "python", "ten.py")
    assert process.returncode == 0, process.stderr
    assert str(empty / "env") in process.stdout
    assert process.stdout.endswith("(2, 384)\n")


@pytest.mark.parametrize(
    "arguments",
    [
        "tour",
        "encode --lang fra_Latn in.txt out.npy",
        "translate in.txt --from fra_Latn",
        "mine in.txt en.txt --source-lang fra_Latn --target-lang eng_Latn --out mined.tsv",
        "train nano --dry-run",
        "--version",
    ],
)
def test_commands_run_without_extras(empty, arguments):
    process = run(empty, "hf-echo", *arguments.split())
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize("arguments", EXTRAS)
def test_a_missing_extra_is_one_line(empty, arguments):
    process = run(empty, "hf-echo", *arguments.split())
    assert process.returncode == 2
    assert f"pip install -e '.[{EXTRAS[arguments]}]'" in process.stderr.splitlines()[-1]
    assert "Traceback" not in process.stderr
