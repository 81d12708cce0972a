"""Progress bars are for terminals; truth: what tqdm itself writes to a stream."""

import io

from tqdm.auto import tqdm

from hf_echo.utils.bars import hidden


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(stream, progress):
    for _ in tqdm(range(2), file=stream, disable=hidden(progress)):
        pass
    return stream.getvalue()


def test_a_log_has_no_bar():
    assert shown(io.StringIO(), progress=True) == ""


def test_a_terminal_has_one():
    assert "2/2" in shown(Terminal(), progress=True)


def test_without_progress_a_terminal_has_none():
    assert shown(Terminal(), progress=False) == ""


def test_encode_writes_no_bar_to_a_log(hf_echo_cli, tmp_path):
    (tmp_path / "in.txt").write_text("Le chat dort.\n", encoding="utf-8")

    files = (tmp_path / "in.txt", tmp_path / "out.npy")
    code, _, errors = hf_echo_cli("encode", "--lang", "fra_Latn", *files)

    assert code == 0, errors
    assert "Encoding" not in errors
