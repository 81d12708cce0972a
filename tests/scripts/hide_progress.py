"""Run a command without a terminal, then print whether its progress bar is hidden."""

import contextlib
import os
import sys


def main() -> None:
    os.environ.pop("TQDM_DISABLE", None)
    sys.argv = ["hf-echo", "--version"]  # before the import, as in the command
    from hf_echo import cli

    with contextlib.suppress(SystemExit):
        cli.main()
    from tqdm.auto import tqdm

    print(tqdm(range(3)).disable)


main()
