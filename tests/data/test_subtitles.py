"""Subtitles: the texts of cues, compared with the library that composes them."""

from datetime import timedelta

import pytest
import srt

from hf_echo.data.texts import read_texts
from hf_echo.search import open_pairs

from ..refusals import refuses

VTT = """WEBVTT

NOTE a comment

1
00:01.000 --> 00:02.000 align:start
<v Bob><i>Hello</i>
there

00:03.000 --> 00:04.000
Bye &amp; thanks
"""


def test_the_texts_of_srt(tmp_path):
    contents = ["<i>Hello</i>\nthere", "{\\an8}Bye", "<font color='red'>x < y</font>"]
    cues = [
        srt.Subtitle(i, timedelta(seconds=i), timedelta(seconds=i + 1), text)
        for i, text in enumerate(contents, 1)
    ]
    (tmp_path / "a.srt").write_text(srt.compose(cues))

    assert read_texts(tmp_path / "a.srt") == ["Hello there", "Bye", "x < y"]


def test_the_texts_of_webvtt(tmp_path):
    (tmp_path / "a.vtt").write_text(VTT)

    assert read_texts(tmp_path / "a.vtt") == ["Hello there", "Bye & thanks"]


def test_cues_without_text_are_counted(tmp_path, caplog):
    (tmp_path / "a.srt").write_text(
        "1\n00:00:01,000 --> 00:00:02,000\n{\\an8}\n\n2\n00:00:03,000 --> 00:00:04,000\nBye\n"
    )

    assert read_texts(tmp_path / "a.srt") == ["Bye"]
    assert "left out 1 (cues without text: 1)" in caplog.text


@pytest.mark.parametrize("suffix", ["srt", "vtt"])
def test_a_damaged_cue_is_refused(tmp_path, suffix):
    times = "00:00:01.000 --> 00:00:02.000" if suffix == "vtt" else "00:00:01,000 --> 00:00:02,000"
    head = "WEBVTT\n\n" if suffix == "vtt" else ""
    (tmp_path / f"a.{suffix}").write_text(
        f"{head}1\n{times}\nHello\n\n2\n00:xx:03,000 --> 00:00:04,000\nBye\n"
    )

    refuses(rf"a.{suffix}: (not valid|cue 1 holds)", read_texts, tmp_path / f"a.{suffix}")


def test_two_files_of_cues_are_pairs(tmp_path):
    for name, text in (("fr", "Bonjour"), ("en", "Hello")):
        (tmp_path / f"{name}.srt").write_text(f"1\n00:00:01,000 --> 00:00:02,000\n{text}\n")

    (block,) = open_pairs(tmp_path / "fr.srt", tmp_path / "en.srt").blocks()

    assert (block.sources, block.targets) == (["Bonjour"], ["Hello"])
