"""Commands of scripts."""

import sys

import pytest
import run_script


@pytest.fixture
def run_main(monkeypatch, capsys):
    """run_main(main, *arguments) of a script in train_scripts/corpora:
    (exit code, output, errors)."""

    def call(main, *arguments):
        monkeypatch.setattr(sys, "argv", ["script", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            run_script.run(*(main if isinstance(main, list) else [main]))
        return end.value.code, *capsys.readouterr()

    return call


@pytest.fixture
def main_refused(run_main):
    """main_refused(message, main, *arguments): exit code 2 and one line that holds the message."""

    def call(message, main, *arguments):
        code, out, err = run_main(main, *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert message in err

    return call
