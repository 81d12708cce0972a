"""`make report` works in a fresh checkout: its data script needs no corpora, and its page is not in git."""

import re
import subprocess
import sys
from pathlib import Path

from hf_echo.evaluation.report import read_folder

ROOT = Path(__file__).resolve().parents[2]


def test_data_of_make_report_is_readable(tmp_path):
    """Runs the data script as the Makefile does, then reads the folder as `hf-echo report` does."""
    script, folder = re.search(
        r"python (train_scripts/\S+) builtin (\S+)$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE
    ).groups()
    subprocess.run([sys.executable, str(ROOT / script), "builtin", str(tmp_path / folder)], cwd=ROOT, check=True)
    content = read_folder(tmp_path / folder, target_lang="eng_Latn")
    (table,) = content.tables.values()
    assert len(table.texts) == 10 and len(table.common) == 300


def test_report_is_ignored_by_git():
    assert "docs/report/" in (ROOT / ".gitignore").read_text().splitlines()
