"""Write half of an output, say where, and wait for the end.

python write_and_wait.py file|folder OUT
"""

import sys
import time

from hf_echo.utils.files import write_whole
from hf_echo.utils.folders import write_folder

kind, out = sys.argv[1:]
write = write_whole if kind == "file" else write_folder
with write(out) as unfinished:
    half = unfinished if kind == "file" else unfinished / "config.json"
    half.write_text("half")
    print(unfinished, flush=True)
    time.sleep(600)
