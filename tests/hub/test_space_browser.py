"""The Space in a real Chromium, started by `hf-echo space`: every tab, two users, hostile texts,
phone, keyboard, dark.

Needs the extras space and browser, and a Chromium or Chrome in PATH.
"""

import contextlib
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest

from ..speech_toy import save_random_encoder
from .browser import BROWSER, SANDBOX, SECONDS, contrast, fits, needs, tab_until
from .test_space import HOSTILE

pytestmark = needs("gradio", "playwright", "soundfile")
# Tab, its button, and words that its result on the example texts holds.
TABS = {
    "Search": ("Search", "Der Zug nach Berlin hat zwanzig Minuten Verspätung."),
    "Translate": ("Translate", "Je n'ai pas d'argent."),
    "Align words": ("Align", "100 × cosine"),
    "Map": ("Draw", "of the variance (PCA)"),
}
READY = 'role=button[name="Search"]'


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The page with a speech encoder of random weights. A dead proxy stands for no network."""
    folder = tmp_path_factory.mktemp("space")
    save_random_encoder(folder / "speech")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # A proxy that nobody listens to stands for no network.
    dead = {
        name: "http://127.0.0.1:9"
        for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
    }
    local = dict.fromkeys(("no_proxy", "NO_PROXY"), "127.0.0.1,localhost") | {
        "HF_HOME": str(folder / "home")
    }
    command = [
        sys.executable,
        "-m",
        "hf_echo.cli",
        "space",
        "--port",
        str(port),
        "--speech",
        str(folder / "speech"),
    ]
    # The server runs until the tests of this file are over.
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(command, env=os.environ | dead | local, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}/"
    try:
        wait_for_server(url, server, folder / "log")
        yield url
    finally:
        server.terminate()
        server.wait()
    assert "Traceback" not in (folder / "log").read_text()


def wait_for_server(url: str, server: subprocess.Popen, log: Path) -> None:
    """Returns when the page answers; fails with the log of a server that ends or is too slow."""
    deadline = time.monotonic() + SECONDS / 1000
    while True:
        with contextlib.suppress(OSError):
            urlopen(url, timeout=5).close()
            return
        assert server.poll() is None, log.read_text()
        assert time.monotonic() < deadline, f"no answer: {log.read_text()}"
        time.sleep(0.5)


def open_tab(page, name: str) -> None:
    tab = page.get_by_role("tab", name=name)
    if not tab.count():  # a narrow window hides some
        page.get_by_role("button", name="More tabs").click()
        page.locator(".overflow-dropdown").get_by_text(name).click()
    else:
        tab.click()


def result(page, words: str):
    shown = page.locator(".echo:visible", has_text=words).first
    shown.wait_for()
    return shown


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1100, 390])
def test_every_tab_answers(visit, scheme, width):
    page = visit(color_scheme=scheme, viewport={"width": width, "height": 800})
    for tab, (button, words) in TABS.items():
        open_tab(page, tab)
        page.get_by_role("button", name=button, exact=True).click()
        shown = result(page, words)
        assert fits(page)
        assert contrast(shown) >= 4.5  # WCAG AA
    open_tab(page, "Speech")
    page.get_by_role("button", name="Find its sentence").wait_for()


# Picture of docs/space.md -> tab, colour scheme, width and height of the window.
PICTURES = {
    "search.png": ("Search", "light", 900, 1100),
    "align.png": ("Align words", "dark", 900, 640),
    "map.png": ("Map", "light", 900, 900),
    "phone.png": ("Translate", "dark", 390, 760),
}


@pytest.mark.parametrize("name", PICTURES)
def test_every_tab_is_there_with_its_answer(visit, name, tmp_path):
    """Also makes the pictures of docs/space.md, in the folder of HF_ECHO_PICTURES where it is
    set."""
    tab, scheme, width, height = PICTURES[name]
    page = visit(color_scheme=scheme, viewport={"width": width, "height": height})
    assert page.get_by_role("tab").count() == len(TABS) + 1
    page.get_by_role("tab", name=tab).click()
    result(page, TABS[tab][1])
    assert fits(page)
    picture = Path(os.environ.get("HF_ECHO_PICTURES", tmp_path)) / name
    page.screenshot(path=picture, full_page=True)


def test_keyboard_only(visit):
    page = visit()
    tab_until(page, "e.getAttribute('role') === 'tab' && e.innerText.includes('Align')")
    page.keyboard.press("Enter")
    tab_until(page, "e.tagName === 'TEXTAREA' || (e.tagName === 'INPUT' && e.type === 'text')")
    page.keyboard.press("Control+A")
    page.keyboard.type("one two three")
    tab_until(page, "e.tagName === 'BUTTON' && e.innerText.trim() === 'Align'")
    page.keyboard.press("Enter")
    table = page.locator("table.heat:visible")
    table.locator("th", has_text="three").wait_for()
    tab_until(page, "e.classList.contains('echo-scroll')")  # a wide table scrolls with the arrows


def test_hostile_texts(visit):
    page = visit()
    for text in HOSTILE:
        marker = f"end of {HOSTILE.index(text)}"
        page.get_by_label("Sentences").first.fill(f"{text}\n{marker}")
        page.get_by_role("button", name="Search", exact=True).click()
        result(page, marker)
        assert fits(page)
        assert not page.locator(".echo script, .echo img, .echo b").count()
    page.get_by_label("Sentences").first.fill("x" * 20_001)
    page.get_by_role("button", name="Search", exact=True).click()
    result(page, "Sentences has 20,001 characters: this page takes at most 20,000")


def test_right_to_left_text_is_set_so(visit):
    page = visit()
    page.get_by_role("button", name="Search", exact=True).click()
    cell = result(page, "فاز").locator("td", has_text="فاز").first
    assert cell.evaluate("e => getComputedStyle(e).direction") == "rtl"


def test_two_users_at_once(address):
    from playwright.sync_api import sync_playwright

    def user(number: int) -> list[str]:
        # Each user has a browser and asks three times.
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=BROWSER, args=SANDBOX)
            page = browser.new_page()
            page.set_default_timeout(SECONDS)
            page.goto(address)
            shown = []
            for turn in range(3):
                question = f"User {number} asks for the {turn}. time."
                page.get_by_label("Search for").fill(question)
                page.get_by_role("button", name="Search", exact=True).click()
                caption = page.locator(".echo caption", has_text=question)
                caption.wait_for()
                shown += page.locator(".echo caption").all_inner_texts()
            browser.close()
        return shown

    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(user, (1, 2)))
    # Nobody sees the answer of the other.
    assert answers == [
        [f"User {number} asks for the {turn}. time." for turn in range(3)] for number in (1, 2)
    ]


@pytest.fixture
def speech_tab(visit):
    page = visit(permissions=["microphone"])
    open_tab(page, "Speech")
    return page


def find_its_sentence(page) -> None:
    page.get_by_role("button", name="Find its sentence").click()


def test_a_search_without_a_recording_says_so(speech_tab):
    find_its_sentence(speech_tab)

    result(speech_tab, "There is no recording")


def test_an_uploaded_recording_is_searched(speech_tab, tmp_path: Path):
    import soundfile

    soundfile.write(tmp_path / "tone.wav", 0.3 * np.sin(np.arange(16_000) / 9), 16_000)
    speech_tab.get_by_role("button", name="Upload file").click()
    speech_tab.locator("input[type=file]").set_input_files(tmp_path / "tone.wav")
    speech_tab.get_by_role("button", name="Play", exact=True).wait_for()

    find_its_sentence(speech_tab)

    result(speech_tab, "the recording")


def test_a_recording_of_the_microphone_is_searched_in_own_sentences(speech_tab):
    speech_tab.get_by_label("Sentences").last.fill("A sentence.\nAnother one.")
    speech_tab.get_by_role("button", name="Record audio").click()
    speech_tab.get_by_role("button", name="Record", exact=True).click()
    speech_tab.wait_for_timeout(1500)  # of sound from Chromium's own microphone
    # The button "Play" is there before the server has the recording.
    with speech_tab.expect_response(lambda response: "/upload" in response.url):
        speech_tab.get_by_role("button", name="Stop", exact=True).click()
    speech_tab.get_by_role("button", name="Play", exact=True).wait_for()

    find_its_sentence(speech_tab)

    speech_tab.locator(".echo:visible td", has_text="Another one.").wait_for()
