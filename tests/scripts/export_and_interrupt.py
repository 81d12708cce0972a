"""`hf-echo export`, which gets Ctrl-C when the first file of a graph is written.

python export_and_interrupt.py MODEL OUT onnx [--overwrite]
"""

import os
import signal
import sys

from hf_echo.cli import main

model, out, to, *overwrite = sys.argv[1:]
if to == "onnx":
    import onnx as library

    name = "save"
else:
    import openvino as library

    name = "save_model"
write = getattr(library, name)


def write_and_interrupt(*args, **options):
    write(*args, **options)
    os.kill(os.getpid(), signal.SIGINT)


setattr(library, name, write_and_interrupt)
# Who starts the tests in the background, as `nohup make test-slow &` does, has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["hf-echo", "export", model, out, "--to", to, *overwrite]
main()
