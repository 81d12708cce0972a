"""The page in a browser: light and dark, desk and phone; nothing hangs over the edge, and text can be read."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_echo import reports
from hf_echo.evaluation.report.models import open_models

pytestmark = pytest.mark.slow
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)

# Sizes that the page reports, with everything opened; a table may scroll within its own frame.
LOOK = """<script>addEventListener("load", () => {
  document.querySelectorAll("details").forEach(d => { d.open = true; });
  const wide = [...document.body.querySelectorAll("*")].filter(e => {
    const frame = e.parentElement.closest(".wide, svg");
    return !frame && e.getBoundingClientRect().right > innerWidth + 0.5;
  }).map(e => e.outerHTML.slice(0, 80));
  const colours = [...document.querySelectorAll("p, td, th, figcaption, h2, summary, svg text")].map(e => {
    const own = getComputedStyle(e);
    return e.namespaceURI.endsWith("svg") ? own.fill : own.color;
  });
  const style = getComputedStyle(document.body);
  parent.postMessage(JSON.stringify({ width: innerWidth, scroll: document.documentElement.scrollWidth, wide,
    page: style.backgroundColor, ink: style.color, colours: [...new Set(colours)],
    drawings: [...document.querySelectorAll("svg")].map(s => s.getBoundingClientRect().width) }), "*");
})</script>"""
FRAME = """<!doctype html><body style="margin:0"><iframe src="page.html" style="border:0;width:{width}px;height:900px">
</iframe><pre id="said"></pre><script>addEventListener("message", m => {{
  document.getElementById("said").textContent = m.data; }})</script></body>"""


@pytest.fixture(scope="module")
def page(toy, tmp_path_factory):
    """A report with names as long as they come, opened in a frame as wide as the screen."""
    folder, out = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("out")
    rows = [
        row | {"category": "c" + str(row["id"] % 2), "split": part}
        for part in ("train", "dev")
        for row in toy.nway_rows(part)
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "a-set-with-a-long-name.parquet")
    data = reports.read_folder(folder)
    models = open_models(["tfidf"], data.texts)
    models.append(reports.ReportModel("somebodys-organisation/a-model-with-a-name-without-end", dense, "d"))
    measured = reports.measure(models, data, out / "cache", progress=False)
    reports.write_report(measured, out)
    html = (out / "index.html").read_text(encoding="utf-8")
    (out / "page.html").write_text(html.replace("</body>", LOOK + "</body>"), encoding="utf-8")
    return out


def dense(texts, lang):
    return np.stack([np.random.default_rng(list(text.encode())).normal(size=16) for text in texts])


def look(page, tmp_path, width: int, dark: bool) -> tuple[dict, np.ndarray]:
    """Sizes that the page reports, and its screenshot."""
    (page / "frame.html").write_text(FRAME.format(width=width), encoding="utf-8")
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--no-first-run",
        f"--user-data-dir={tmp_path}",
        f"--window-size={max(width, 600)},900",
        "--virtual-time-budget=4000",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
    ]
    picture, address = tmp_path / "page.png", (page / "frame.html").as_uri()
    command = [BROWSER, *options, "--dump-dom", address]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    said = re.search(r'<pre id="said">(.*?)</pre>', dom, re.S)[1]
    command = [BROWSER, *options, f"--screenshot={picture}", address]
    subprocess.run(command, capture_output=True, timeout=300, check=True)
    from matplotlib.image import imread

    text = said.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    return json.loads(text), imread(picture)[:, :width, :3]


def luminance(colour: str) -> float:
    channels = [int(c) / 255 for c in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_fits_and_can_be_read(page, tmp_path, width, dark):
    said, picture = look(page, tmp_path, width, dark)
    assert said["width"] == width
    assert said["scroll"] <= width and said["wide"] == []
    assert said["drawings"] and all(100 < drawn <= width for drawn in said["drawings"])
    paper = luminance(said["page"])
    assert paper < 0.05 if dark else paper > 0.9
    for colour in {said["ink"], *said["colours"]} - {
        "rgb(255, 255, 255)",
        "rgb(0, 0, 0)",
    }:  # those of heat maps
        light, dim = sorted([luminance(colour), paper], reverse=True)
        assert (light + 0.05) / (dim + 0.05) >= 4.5, f"{colour} on {said['page']}"  # WCAG AA
    corner = [int(c) / 255 for c in re.findall(r"\d+", said["page"])[:3]]
    np.testing.assert_allclose(picture[2, 2], corner, atol=0.02)
    assert (np.abs(picture - corner).sum(2) > 0.5).mean() > 0.01  # something is written on it
