"""Read the help of many commands in one process, so that a module that any of them imports is seen.

    python read_helps.py COMMANDS HEAVY

COMMANDS is JSON, the words of each command; HEAVY is JSON, the names of modules. Prints JSON:
"texts", the text of each help; "imported", the heavy modules that a help is the first to import.
"""

import contextlib
import io
import json
import sys


def main() -> None:
    commands, heavy = map(json.loads, sys.argv[1:])
    sys.argv = ["hf-echo"]  # before the import, as in the command
    from hf_echo import cli

    texts = {}
    imported = {}
    for words in commands:
        name = " ".join(words)
        sys.argv = ["hf-echo", *words, "--help"]
        page = io.StringIO()
        with contextlib.redirect_stdout(page), contextlib.suppress(SystemExit):
            cli.main()
        texts[name] = " ".join(page.getvalue().split())
        new = [module for module in heavy if module in sys.modules]
        if new:
            imported[name] = new
            heavy = [module for module in heavy if module not in new]
    print(json.dumps({"texts": texts, "imported": imported}))


main()
