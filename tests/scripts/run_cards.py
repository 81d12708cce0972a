"""Run the Python blocks of the cards of metrics, where hf_echo cannot be imported.

    python run_cards.py CARD...

Prints the value of the last line of each block as JSON, one a line.
"""

import ast
import json
import re
import sys
from pathlib import Path

sys.modules["hf_echo"] = None  # a metric on the Hub has only what its requirements.txt names

for card in sys.argv[1:]:
    text = Path(card).read_text(encoding="utf-8")
    names = {}
    for block in re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        *statements, last = ast.parse(block).body
        exec(compile(ast.Module(statements, []), card, "exec"), names)
        value = eval(compile(ast.Expression(last.value), card, "eval"), names)
        print(json.dumps(value))
