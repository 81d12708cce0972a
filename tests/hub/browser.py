"""The Chromium of this machine, and what the tests of both Spaces ask of a page."""

import importlib.util
import os
import shutil

import numpy as np
import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSERS = [path for path in map(shutil.which, NAMES) if path]
BROWSER = BROWSERS[0] if BROWSERS else None
# Chromium's sandbox refuses root
SANDBOX = [] if os.name != "posix" or os.geteuid() else ["--no-sandbox"]
MICROPHONE = ["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"]
SECONDS = 240_000  # milliseconds that a slow machine may take for one answer


def needs(*packages: str, **programs: str | None) -> list:
    """Marks of tests that need a Chromium, packages, and programs with their place in PATH."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    missing += [name for name, place in {"Chromium": BROWSER, **programs}.items() if place is None]
    return [
        pytest.mark.slow,
        pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}"),
    ]


def fits(page) -> bool:
    """Nothing makes the whole page wider than the window."""
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def luminance(colour: list[float]) -> float:
    """Relative luminance of red, green and blue from 0 to 255, as WCAG defines it."""
    share = np.array(colour) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(element) -> float:
    """Contrast of an element's text with the page behind it, as WCAG defines it."""
    colours = element.evaluate(
        "e => [getComputedStyle(e).color, getComputedStyle(document.body).backgroundColor]"
        ".map(c => c.match(/[0-9.]+/g).slice(0, 3).map(Number))"
    )
    dark, light = sorted(map(luminance, colours))
    return (light + 0.05) / (dark + 0.05)


def tab_until(page, condition: str) -> None:
    """Press Tab until the element `e` that has the focus meets a condition."""
    for _ in range(40):
        if page.evaluate(f"(e => {condition})(document.activeElement)"):
            return
        page.keyboard.press("Tab")
    pytest.fail(f"40 times Tab reach nothing with {condition}")
