"""The Space without a server, in a real Chromium from a loopback server:
Python's embeddings, offline, keyboard."""

import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from unicodedata import normalize

import numpy as np
import pytest

from hf_echo.hub.space_views import principal_plane, split_language
from hf_echo.hub.static_space import PAGE, write_static_space
from hf_echo.hub.upload_checks import card_data, contents_of
from hf_echo.inference import encode, load_encoder

from .browser import contrast, fits, needs, tab_until
from .test_space import HOSTILE

pytestmark = needs("playwright", "onnx", "onnxruntime", npm=shutil.which("npm"))
LINES = (PAGE / "sentences.txt").read_text(encoding="utf-8").splitlines()
TEXTS = [split_language(line)[0] for line in LINES]
READY, ONLY_FILES = "#results li", True
TIE = 0.003  # a difference of cosines that 8 bits can turn round
READ_ALL = """texts => new Promise((resolve, reject) => {
    const worker = new Worker("worker.js", { type: "module" });
    worker.onerror = event => reject(new Error(event.message));
    worker.onmessage = ({ data }) => {
        if (data.error) reject(new Error(data.error));
        if (data.vectors) resolve(data.vectors.map(vector => [...vector]));
    };
    worker.postMessage({ id: 1, texts });
})"""
GEOMETRY = """async rows => {
    const { nearest, principalPlane } = await import("./geometry.js");
    const vectors = rows.map(row => Float32Array.from(row));
    const plane = principalPlane(vectors);
    return [vectors.map(v => nearest(v, vectors, 3).map(hit => [hit.index, hit.cosine])), vectors.map(plane)];
}"""


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    return write_static_space("echo-nano", tmp_path_factory.mktemp("space") / "page")


@pytest.fixture(scope="module")
def address(space):
    headers = card_data(space)["custom_headers"]

    class AsTheHub(SimpleHTTPRequestHandler):
        def end_headers(self):
            for name, value in headers.items():
                self.send_header(name, value)
            super().end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(AsTheHub, directory=str(space)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


def search(page, text: str) -> list[str]:
    page.get_by_label("Search for").fill(text)
    page.evaluate("document.querySelector('#results').replaceChildren()")
    page.get_by_role("button", name="Search", exact=True).click()
    page.locator("#results li").first.wait_for()
    return page.locator("#results span[dir]").all_inner_texts()


def test_the_neighbours_are_those_of_python(visit):
    """200 sentences of 20 languages, against the float32 model of the package;
    the plane against NumPy's."""
    encoder, tokenizer = load_encoder("echo-nano", device="cpu", dtype="fp32")
    # transformers.js has NFKC in place of a tokenizer's own table of characters; here they differ
    # in full-width marks.
    expected = encode(
        encoder, tokenizer, [normalize("NFKC", text) for text in TEXTS], normalize=True
    )
    page = visit()
    vectors = np.array(page.evaluate(READ_ALL, TEXTS))
    assert ((expected * vectors).sum(1) > 0.999).all()
    cosines = (expected @ expected.T) - 2 * np.eye(len(TEXTS))
    nearest = (vectors @ vectors.T - 2 * np.eye(len(TEXTS))).argmax(1)
    loss = cosines.max(1) - cosines[range(len(TEXTS)), nearest]
    assert (loss < TIE).all()
    assert (cosines.argmax(1) == nearest).mean() >= 0.95
    hits, points = page.evaluate(GEOMETRY, vectors.tolist())
    order = np.argsort(-(vectors @ vectors.T), 1, kind="stable")[:, :3]
    assert (np.array(hits)[:, :, 0] == order).mean() > 0.99  # sums in another order swap near ties
    known, _ = principal_plane(vectors)
    signs = np.sign((known * points).sum(0))
    np.testing.assert_allclose(points * signs, known, atol=1e-3)
    rows = search(page, TEXTS[0])
    assert rows == [TEXTS[i] for i in np.argsort(-(vectors @ vectors[0]))[:10]]


def test_after_loading_it_needs_no_network(visit):
    page = visit()
    page.context.set_offline(True)
    assert search(page, "Der Zug hat Verspätung.")
    page.reload()
    page.locator("#results li").first.wait_for()
    assert TEXTS[0] in search(page, TEXTS[0])


def test_the_bar_grows_while_the_files_arrive(visit):
    # The page's own bar is watched from the start.
    watch = """addEventListener("DOMContentLoaded", () => {
        self.seen = [];
        const bar = document.getElementById("bar"), line = document.getElementById("status");
        new MutationObserver(() => seen.push([line.textContent, bar.value])).observe(bar, { attributes: true });
    });"""
    page = visit(watch)

    seen = page.evaluate("seen")
    # It only grows, to the end.
    megabytes = [value for line, value in seen if line.startswith("Loading the model")]
    assert len(set(megabytes)) > 5
    assert megabytes == sorted(megabytes)
    assert megabytes[-1] > 0.97
    assert any(line == "Reading 200 sentences" for line, _ in seen)
    assert page.locator("#loading").is_hidden()


@pytest.mark.parametrize("scheme, width", [("light", 1100), ("dark", 360)])
def test_it_is_readable_on_any_screen(visit, scheme, width):
    """Nothing is wider than a phone; the contrast is that of WCAG AA."""
    page = visit(color_scheme=scheme, viewport={"width": width, "height": 740})
    page.locator("summary").click()
    assert fits(page)
    for part in ("#results li span", "#point", "textarea", "h1"):
        assert contrast(page.locator(part).first) >= 4.5


def test_the_page_says_when_nothing_is_close(visit):
    page = visit()
    search(page, TEXTS[0])
    assert page.locator("#far").is_hidden()
    search(page, "Quarterly revenue of the semiconductor division fell by nine per cent.")
    page.locator("#far").wait_for()


def test_groups_on_the_map_have_names(visit):
    """Of the ten meanings most have a place of their own, and a label is the English sentence."""
    page = visit()
    assert page.locator("#space").is_visible()
    labels = page.locator("#map .label").all_text_contents()
    english = [split_language(line)[0] for line in LINES if line.startswith("English:")]
    assert len(labels) >= 5
    for label in labels:
        assert any(text.startswith(label.removesuffix("…")) for text in english)


def test_keyboard_only(visit):
    page = visit()
    # A search without a mouse.
    tab_until(page, "e.id === 'query'")
    page.keyboard.press("Control+A")
    page.keyboard.type("I have no money.")
    page.keyboard.press("Enter")
    page.locator("#results li", has_text="I have no money.").first.wait_for()
    # A result is reached by Tab and searched by Enter.
    tab_until(page, "e.closest('#results')")
    page.keyboard.press("Tab")
    second = page.evaluate("document.activeElement.querySelector('span').textContent")
    assert second in page.locator("#point").inner_text()
    page.keyboard.press("Enter")
    page.wait_for_function("text => document.getElementById('query').value === text", arg=second)
    # The arrows move through the map.
    tab_until(page, "e.id === 'map'")
    before = page.locator("#point").inner_text()
    for key in ("ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
        assert page.locator("#map .here").count() == 1
    assert page.locator("#point").inner_text() != before


@pytest.fixture
def use_sentences(visit):
    """use_sentences(lines): the page after these lines were typed in place of its own."""
    page = visit()
    page.locator("summary").click()

    def use(lines: str):
        page.locator("#lines").fill(lines)
        page.get_by_role("button", name="Use these sentences").click()
        return page

    return use


def test_hostile_sentences_are_shown_as_text(use_sentences):
    page = use_sentences("\n".join([*HOSTILE, "German: Der Hund bellt.", "Note: a dog."]))

    page.locator("#count", has_text=f"{len(HOSTILE) + 2} sentences").wait_for()
    page.locator("#results li", has_text=HOSTILE[0]).wait_for()
    assert fits(page)
    assert not page.locator("#results script, #results img").count()


def test_a_language_in_front_of_a_sentence_is_shown(use_sentences):
    page = use_sentences("German: Der Hund bellt.\nNote: a dog.\nA cat.")

    row = page.locator("#results li", has_text="Der Hund bellt.")
    row.wait_for()
    assert row.locator("small").inner_text() == "German"


def test_sentences_come_from_a_file(visit):
    page = visit()
    page.locator("summary").click()
    file = {"name": "own.txt", "mimeType": "text/plain", "buffer": b"eins\nzwei\ndrei"}

    page.locator("#file").set_input_files(file)

    page.wait_for_function("document.getElementById('lines').value.startsWith('eins')")
    page.get_by_role("button", name="Use these sentences").click()
    page.locator("#count", has_text="3 sentences").wait_for()


@pytest.mark.parametrize(
    "lines, words",
    [("one\ntwo", "at least three sentences"), ("a\n" * 2001, "at most 2000 lines")],
)
def test_too_few_or_too_many_sentences_are_refused(use_sentences, lines, words):
    page = use_sentences(lines)

    page.locator("#status.error", has_text=words).wait_for()


def test_the_folder_can_be_pushed(space):
    contents = contents_of(space)
    assert (contents.kind, contents.problems, contents.left_out) == ("space", [], [])
    assert "vendor/LICENSES.txt" in map(str, contents.files)
