"""Push two folders as versions of one model, and a folder of pairs beside each.

python push_two_versions.py FIRST SECOND PAIRS
"""

import sys

from hf_echo.hub.push import push

first, second, pairs = sys.argv[1:]
for version, folder in (("1.0.0", first), ("2.0.0", second)):
    push(folder, "tester/versions", version=version)
    push(pairs, "tester/pairs", version=version)
