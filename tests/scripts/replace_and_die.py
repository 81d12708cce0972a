"""Replace a folder, and be killed behind the first of two renames: the earlier folder has moved
away, the new one has not come.

    python replace_and_die.py OUT
"""

import os
import signal
import sys

from hf_echo.utils.folders import write_folder

rename = os.replace


def die_behind(source, target):
    rename(source, target)
    os.kill(os.getpid(), signal.SIGKILL)


with write_folder(sys.argv[1]) as unfinished:
    (unfinished / "config.json").write_text("new")
    os.replace = die_behind
