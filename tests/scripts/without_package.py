"""Run another script where hf_echo cannot be imported, as on a machine that has not installed it.

python without_package.py SCRIPT ARGUMENT...
"""

import runpy
import sys

sys.modules["hf_echo"] = None
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
