"""Run the code blocks of cards of the Hub, as a reader copies them.

    python run_hub_cards.py with|without '{"NAME": "KIND"}' BLOCK

"without" hides hf_echo from them. BLOCK is the pattern of a code block. Prints
{name: {"text", "result", "blocks", "shapes"}} as JSON; result is "ran" or the traceback.
"""

import json
import os
import re
import sys
import traceback
from pathlib import Path

# No installed package reaches into `import torch`.
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
if sys.argv[1] == "without":
    sys.modules["hf_echo"] = None

from huggingface_hub import hf_hub_download  # noqa: E402 (after the variable)

SHOWN = ("vectors", "scores")
cards = {}
for name, kind in json.loads(sys.argv[2]).items():
    file = hf_hub_download(f"tester/{name}", "README.md", repo_type=kind, revision="v1.2.0")
    text = Path(file).read_text()
    blocks = re.findall(sys.argv[3], text, flags=re.MULTILINE | re.DOTALL)
    names = {}
    try:
        for block in blocks:
            exec(block, names)
        result = "ran"
    except Exception:
        result = traceback.format_exc()[-1500:]
    shapes = {key: list(names[key].shape) for key in SHOWN if key in names}
    cards[name] = {"text": text, "result": result, "blocks": len(blocks), "shapes": shapes}
print(json.dumps(cards))
