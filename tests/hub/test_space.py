"""The tabs of the Space without a browser, compared with NumPy,
scikit-learn and the package itself."""

import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from huggingface_hub.utils import get_session
from sklearn.decomposition import PCA

from hf_echo.export.folder import PACKAGES
from hf_echo.hub import space_folder
from hf_echo.hub import space_views as limits
from hf_echo.hub.space_views import (
    SpaceViews,
    principal_plane,
    read_sentences,
    shown,
    split_language,
    word_spans,
)
from hf_echo.hub.static_space import close_cosine
from hf_echo.hub.upload_checks import contents_of
from hf_echo.inference import encode, translate
from hf_echo.inference.encode_speech import encode_speech
from hf_echo.utils.hub import packaged_model
from hf_echo.utils.vectors import unit_length

from ..speech_toy import save_random_encoder

SENTENCES = (
    "French: Le chat dort.\nGerman: Der Zug ist spät.\nJe n'ai pas d'argent.\nEl parlamento votó."
)
QUERIES = "English: The train is late.\nI have no money."
HOSTILE = [
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "</td></table>${1+1}{{value}}<b>",
    "\u202eفاز الفريق بالمباراة\u202c 👩‍👩‍👧‍👦 \u200b\x00\x1f",
    "\" onmouseover='alert(1)",
    "x" * 300,
    "e\u0301" * 100,
]
TAGS = "div p span bdi small table caption thead tbody tr th td svg rect g title circle text"
ATTRIBUTES = "class role dir tabindex scope title style aria-label aria-hidden viewbox x y cx cy r"
ATTRIBUTES += " width height fill transform text-anchor"


class Page(HTMLParser):
    """Tags, attributes and the texts of table cells of a piece of HTML."""

    def __init__(self, html: str):
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.cells: list[list[str]] = []
        self.text, self.in_cell, self.drawn = "", False, 0
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}
        if tag == "tr":
            self.cells.append([])
        if tag in ("td", "th"):
            self.cells[-1].append("")
        self.in_cell = tag in ("td", "th") or (tag == "span" and self.in_cell)
        self.drawn += tag == "g"  # points of the map

    def handle_endtag(self, tag):
        self.in_cell &= tag not in ("td", "th", "small")

    def handle_data(self, data):
        self.text += data
        if self.in_cell:
            self.cells[-1][-1] += data


@pytest.fixture(scope="module")
def views() -> SpaceViews:
    return SpaceViews()


@pytest.mark.parametrize(
    "line, text, lang",
    [
        ("French: Le chat dort.", "Le chat dort.", "fra_Latn"),
        ("fra_Latn: Le chat dort.", "Le chat dort.", "fra_Latn"),
        ("Chinese：猫在睡觉。", "猫在睡觉。", "zho_Hans"),
    ],
)
def test_a_language_in_front_of_a_sentence_is_read(line, text, lang):
    assert split_language(line) == (text, lang)


@pytest.mark.parametrize(
    "line",
    [
        "Note: the cat sleeps.",
        "So: what now?",  # a code of some language
        "It is late: go home.",
        "French:",
        ": no",
        "a" * 99 + ": b",
    ],
)
def test_an_ordinary_colon_is_text(line):
    assert split_language(line) == (line, None)


def test_one_sentence_per_line():
    assert read_sentences("Texts", "\n a \n\nFrench: b\r\n") == (["a", "b"], [None, "fra_Latn"])


TOO_MANY = limits.MAX_SENTENCES + 1


@pytest.mark.parametrize(
    "text, message",
    [
        (None, "Texts is empty: write one sentence per line"),
        (" \n\t\n", "Texts is empty"),
        ("a\n" * TOO_MANY, f"Texts has {TOO_MANY} lines: this tab takes at most {TOO_MANY - 1}"),
        ("a" * 20_001, "Texts has 20,001 characters: this page takes at most 20,000"),
    ],
)
def test_texts_that_a_tab_does_not_take(text, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        read_sentences("Texts", text)


def words_of(text, tokens):
    return [text[start:end] for start, end in word_spans(text, tokens)]


def test_words_are_split_at_punctuation():
    words = words_of("L'été, c'est हिन्दी!", np.zeros((0, 2)))
    assert words == ["L'été", ",", "c'est", "हिन्दी", "!"]


def test_chinese_is_split_at_tokens():
    """Two tokens are bytes of one character."""
    tokens = np.array([[0, 1], [0, 1], [1, 2], [2, 5]])
    assert words_of("黑猫 ok", tokens) == ["黑", "猫", "ok"]


class Search:
    """The rows of the search tab, and its cosines and margins by NumPy from the embeddings."""

    def __init__(self, views):
        texts = SENTENCES + "\nOne more."
        self.texts, langs = read_sentences("", texts)
        x = encode(views.encoder, views.tokenizer, *read_sentences("", QUERIES), normalize=True)
        y = encode(views.encoder, views.tokenizer, self.texts, langs, normalize=True)
        self.cosines = x.astype(np.float64) @ y.T
        # a query has four neighbours here, a text two: the queries; small sides have a floor
        around_queries = np.sort(self.cosines, axis=1)[:, -4:].mean(axis=1, keepdims=True)
        around = (around_queries + self.cosines.mean(axis=0)) / 2
        self.margins = 1 + (self.cosines - around) / np.maximum(around, 0.3)
        cells = Page(views.search(QUERIES, texts)).cells
        rows = [row for row in cells if row[0] in self.texts]
        self.rows = [rows[:4], rows[4:]]


@pytest.fixture(scope="module")
def searched(views):
    return Search(views)


@pytest.mark.parametrize("query", [0, 1])
def test_search_shows_scores_of_numpy(searched, query):
    rows = searched.rows[query]
    order = np.argsort(-searched.cosines[query])[:4]

    texts, cosines, margins = zip(*rows, strict=True)

    assert list(texts) == [searched.texts[place] for place in order]
    # Cosines and margins of NumPy, to the printed digits.
    expected = searched.cosines[query, order]
    np.testing.assert_allclose(np.array(cosines, float), expected, atol=6e-4)
    expected = searched.margins[query, order]
    np.testing.assert_allclose(np.array(margins, float), expected, atol=6e-3, rtol=1e-3)


def test_translate_shows_what_the_package_writes(views):
    page = Page(views.translate(SENTENCES))

    texts, langs = read_sentences("", SENTENCES)
    translations = translate(views.translator, views.tokenizer, texts, langs, max_new_tokens=100)
    _, *rows = page.cells
    assert rows == [list(pair) for pair in zip(texts, translations, strict=True)]


def test_translate_takes_few_sentences(views):
    most = limits.MAX_TRANSLATED
    note = shown(views.translate)("a\n" * (most + 1))
    assert f"this tab takes at most {most}" in note


def test_echo_nano_writes_english_only(views):
    assert views.targets == [("English", "eng_Latn")]
    assert "decoder" in Page(shown(views.translate)("a", "fra_Latn")).text


def test_a_sentence_is_aligned_with_itself(views):
    """The diagonal of the heat map is 100, and outlined."""
    words = "Seven black cats sleep under our old table"

    page = views.align(f"English: {words}", f"English: {words}")

    header, *rows = Page(page).cells
    assert header[1:] == words.split()
    assert [row[0] for row in rows] == words.split()
    cosines = np.array([row[1:] for row in rows])
    assert set(cosines.diagonal()) == {"100"}
    assert len(re.findall(r'class="[^"]*\blink\b', page)) == 8


def test_align_outlines_no_weak_link(views):
    """Two sentences that are no translations."""
    first = "French: Le chat noir dort dans la maison."

    page = views.align(first, "English: I have no money left.")

    outlined = re.findall(r'class="[^"]*\blink\b[^>]*>(-?[0-9]+)<', page)
    assert min(map(int, outlined), default=100) >= 60
    assert len(outlined) < page.count("<td ") / 10


TOO_MANY_WORDS = "a b " * limits.MAX_WORDS


@pytest.mark.parametrize(
    "text, note",
    [
        (TOO_MANY_WORDS, f"words: the heat map shows at most {limits.MAX_WORDS}"),
        ("x" * 10_000, "First sentence is longer than the model's 512 tokens: give a shorter one"),
        ("one\ntwo", "First sentence has 2 lines: give one sentence"),
        ("", "First sentence is empty"),
    ],
)
def test_align_names_what_it_cannot_show(views, text, note):
    assert note in Page(shown(views.align)(text, "a")).text


def test_the_plane_is_that_of_scikit_learn():
    """Up to signs; the largest coordinate of an axis is positive."""
    vectors = np.random.default_rng(0).normal(size=(12, 7)) * np.arange(1, 8)

    points, shares = principal_plane(vectors)

    pca = PCA(2).fit(vectors)
    np.testing.assert_allclose(np.abs(points), np.abs(pca.transform(vectors)), atol=1e-9)
    np.testing.assert_allclose(shares, pca.explained_variance_ratio_, atol=1e-12)
    largest = np.abs(points).argmax(axis=0)
    assert (points[largest, [0, 1]] > 0).all()


def test_equal_vectors_have_no_plane():
    points, shares = principal_plane(np.ones((3, 7)))

    assert not points.any()
    assert not shares.any()


def test_map_shows_every_sentence_once(views):
    page = Page(views.map(SENTENCES))

    texts, _ = read_sentences("", SENTENCES)
    assert [row[1] for row in page.cells[1:]] == texts
    assert page.drawn == len(texts)


@pytest.mark.parametrize("name", ["French", "German", "language not given"])
def test_map_names_languages(views, name):
    assert name in Page(views.map(SENTENCES)).text


def test_map_needs_three_sentences(views):
    assert "Sentences: 2 of them; a map needs at least three" in Page(shown(views.map)("a\nb")).text


CALM = "one\ntwo\nthree"


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize(
    ("view", "inputs"),
    [
        ("search", ["{text}", f"{CALM}\n{{text}}"]),
        ("translate", ["{text}"]),
        ("align", ["{text}", "one"]),
        ("map", [f"{CALM}\n{{text}}"]),
        ("map", ["{text}: {text}"]),
    ],
)
def test_hostile_texts_stay_texts(views, view, inputs, text):
    """Nothing that a visitor writes becomes a tag or an attribute, and no tab breaks."""
    written = [part.replace("{text}", text) for part in inputs]

    page = Page(shown(getattr(views, view))(*written))

    assert page.tags <= set(TAGS.split())
    assert page.attributes <= set(ATTRIBUTES.split())


def test_markup_is_shown_as_it_was_written(views):
    markup = HOSTILE[0] + HOSTILE[3]
    assert Page(views.search("a", markup)).cells[1][0] == markup


def test_without_a_speech_encoder_the_tab_says_how_to_make_one(views, monkeypatch):
    monkeypatch.setattr(views, "speech_encoder", None)
    assert "hf-echo train echo-nano-speech" in Page(shown(views.find_speech)(None, "a")).text


@pytest.fixture
def recording(tmp_path):
    soundfile = pytest.importorskip("soundfile")
    tone = 0.3 * np.sin(np.arange(16_000) / 9).astype(np.float32)
    soundfile.write(tmp_path / "a.wav", tone, 16_000)
    return tmp_path / "a.wav"


@pytest.fixture(scope="module")
def speech_views(tmp_path_factory):
    """Views with a speech encoder of random weights."""
    return SpaceViews(speech=save_random_encoder(tmp_path_factory.mktemp("speech") / "model"))


def test_a_recording_finds_its_nearest_sentences(speech_views, recording):
    page = Page(speech_views.find_speech(str(recording), SENTENCES))

    views = speech_views
    texts, langs = read_sentences("", SENTENCES)
    vectors = encode(views.encoder, views.tokenizer, texts, langs, normalize=True)
    (speech,) = encode_speech(views.speech_encoder, views.extractor, [recording], normalize=True)
    order = np.argsort(-vectors @ speech)
    assert [row[0] for row in page.cells[1:]] == [texts[place] for place in order]


@pytest.mark.parametrize("audio, note", [(None, "There is no recording"), ("no.wav", "no.wav")])
def test_a_recording_that_is_missing_is_named(speech_views, audio, note):
    assert note in Page(shown(speech_views.find_speech)(audio, SENTENCES)).text


def test_the_space_of_echo_nano_has_its_speech_encoder(monkeypatch, tmp_path):
    """As `hf-echo space` calls it."""
    speech = save_random_encoder(tmp_path / "model")
    monkeypatch.setattr(limits, "packaged_speech", lambda: speech)
    assert SpaceViews(packaged_model("echo-nano")).speech_encoder is not None


def test_a_speech_encoder_of_another_space_is_refused(tmp_path):
    message = "writes 24 dimensions, echo-nano 384: they need one space"
    with pytest.raises(ValueError, match=message):
        SpaceViews(speech=save_random_encoder(tmp_path / "model", 24))


def test_only_wrong_input_becomes_a_note():
    """A mistake of the page itself is none."""
    with pytest.raises(KeyError):
        shown(lambda: {}["a bug"])()


def test_the_folder_can_be_pushed(run):
    contents = contents_of(space_folder())
    assert (contents.kind, contents.problems) == ("space", [])
    assert {str(file) for file in contents.files} == {"README.md", "app.py", "requirements.txt"}

    code, out, err = run("push", space_folder(), "me/echo", "--version", "0.2.0", "--dry-run")

    assert (code, err) == (0, "")
    assert "space me/echo, v0.2.0" in out


@pytest.mark.parametrize("field", ["sdk_version", "python_version"])
def test_the_card_has_versions_in_full(field):
    """The Hub builds the image from them."""
    card = (space_folder() / "README.md").read_text(encoding="utf-8")
    assert re.search(rf"^{field}: \d+\.\d+\.\d+$", card, re.MULTILINE)


def test_without_gradio_one_line_says_so(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    monkeypatch.delitem(sys.modules, "hf_echo.hub.space.app", raising=False)
    refused("gradio is not installed: pip install -e '.[space]'", "space", "--model", "echo-nano")


@pytest.fixture
def static_space(tmp_path, monkeypatch):
    """The command that writes a static Space, where PATH is an empty folder and no package is
    missing."""
    monkeypatch.setitem(PACKAGES, "onnx", ())
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return ["space", "--model", "echo-nano", "--static", tmp_path / "page"]


def test_a_static_space_needs_npm(refused, static_space):
    refused("npm is not in PATH: install Node.js", *static_space)


@pytest.mark.parametrize(
    "npm, message",
    [
        ("echo 'npm error' >&2; exit 1", "npm could not fetch @huggingface/transformers@4.3.1"),
        ('echo other > "$4/a.tgz"', "not that of the tested one: do not use it"),
    ],
)
def test_what_npm_brings_is_checked(refused, static_space, tmp_path, npm, message):
    """Before the model is exported; nothing is left behind."""
    script = tmp_path / "bin" / "npm"
    script.write_text(f"#!/bin/sh\n{npm}\n", encoding="utf-8")
    script.chmod(0o755)

    refused(message, *static_space)

    assert not (tmp_path / "page").exists()


@pytest.fixture
def counted_npm(tmp_path):
    """A program `npm` that brings nothing; the file that it writes when it is called."""
    script = tmp_path / "bin" / "npm"
    script.write_text(f"#!/bin/sh\necho called > {tmp_path}/called\n", encoding="utf-8")
    script.chmod(0o755)
    return tmp_path / "called"


def test_a_package_that_is_missing_is_named_before_npm(
    refused, static_space, counted_npm, monkeypatch
):
    monkeypatch.setitem(PACKAGES, "onnx", ("onnxruntime",))
    monkeypatch.setitem(sys.modules, "onnxruntime", None)

    refused("onnxruntime is not installed: pip install -e '.[onnx]'", *static_space)

    assert not counted_npm.exists()


@pytest.mark.parametrize(
    "model, message",
    [
        ("echo-nano-speech", "is a speech encoder: this operation is for text encoders"),
        ("./none", "no folder ./none"),
    ],
)
def test_a_wrong_model_is_named_before_npm(refused, static_space, counted_npm, model, message):
    command = [model if word == "echo-nano" else word for word in static_space]

    refused(message, *command)

    assert not counted_npm.exists()


def test_a_folder_that_is_there_is_named_before_npm(refused, static_space, counted_npm):
    page = static_space[-1]
    page.mkdir()
    (page / "notes.txt").write_text("mine")

    refused("page is there", *static_space)

    assert not counted_npm.exists()
    assert (page / "notes.txt").read_text() == "mine"


def test_the_close_cosine_separates_translations_from_others():
    """Cosines in the plane are those of angles:
    translations 10 degrees apart, other sentences 60 and more."""
    angles = np.radians([0, 10, 70, 80, 200, 210])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)

    close = close_cosine(vectors, np.array([0, 0, 1, 1, 2, 2]))

    assert close == pytest.approx(np.cos(np.radians([10, 60])).mean(), abs=2e-3)


def test_the_close_cosine_errs_equally_often_on_both_sides():
    """Twenty meanings in four languages with much noise."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(20, 8))
    meanings = np.repeat(np.arange(20), 4)
    vectors = unit_length(centres[meanings] + 0.8 * rng.normal(size=(80, 8)))

    close = close_cosine(vectors, meanings)

    is_same = meanings[:, None] == meanings
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -1)
    nearest_translation = np.where(is_same, cosines, -1).max(axis=1)
    nearest_other = np.where(is_same, -1, cosines).max(axis=1)
    missed = (nearest_translation < close).sum()
    mistaken = (nearest_other >= close).sum()
    assert missed > 0
    assert abs(missed - mistaken) <= 1


@pytest.fixture(scope="module")
def page(views):
    """The page of gradio."""
    pytest.importorskip("gradio")
    from hf_echo.hub.space import app

    return app.build(views)


def values_of(page, kind: str, name: str) -> list:
    """A property of all components of a kind."""
    values = []
    for part in page.config["components"]:
        if part["type"] == kind:
            values.append(part["props"][name])
    return values


def test_the_page_has_five_tabs(page):
    tabs = values_of(page, "tabitem", "label")
    assert tabs == ["Search", "Translate", "Align words", "Map", "Speech"]


def test_the_page_takes_no_fonts_from_the_network(page):
    from hf_echo.hub.space import app

    assert not app.THEME._stylesheets


@pytest.mark.slow  # starts a server of gradio: 12 s
def test_the_page_is_bounded(page):
    """An upload of 11 MB is refused, and the queue has an end."""
    from hf_echo.hub.space import app

    page.launch(prevent_thread_lock=True, quiet=True, **app.LAUNCH)
    url = f"{page.local_url}gradio_api/upload"
    try:
        small = get_session().post(url, files={"files": ("a.wav", bytes(1_000))})
        large = get_session().post(url, files={"files": ("a.wav", bytes(11_000_000))})
    finally:
        page.close()
    assert page._queue.max_size == app.MAX_WAITING
    assert (small.status_code, large.status_code) == (200, 413)


def test_every_tab_opens_with_an_answer(page, views):
    from hf_echo.hub.space import app

    assert values_of(page, "html", "value")[:4] == [
        views.search(app.QUERIES, app.SENTENCES),
        views.translate(app.TRANSLATE),
        views.align(*app.ALIGN),
        views.map(app.PARALLEL),
    ]


def test_the_best_sentence_is_tinted(views):
    page = views.search("English: The train is late.", SENTENCES)

    (best,) = re.findall(r'<tr class="best">.*?</tr>', page, re.DOTALL)
    assert "Der Zug ist spät." in best


def test_sentences_as_near_to_others_are_dimmed(views):
    """Their margin is below 1."""
    page = views.search("English: The train is late.", SENTENCES)

    texts, _ = read_sentences("", SENTENCES)
    margins = [float(row[2]) for row in Page(page).cells if row[0] in texts]
    weak = sum(margin < 1 for margin in margins)
    assert weak > 0
    assert page.count('class="weak"') == weak
