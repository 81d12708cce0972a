"""The tabs of the Space without a browser, compared with NumPy, scikit-learn and the package itself."""

import importlib.util
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

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
TAGS = set(
    "div p span bdi small table caption thead tbody tr th td svg rect g title circle text".split()
)
ATTRIBUTES = set(
    "class role dir tabindex scope title style aria-label aria-hidden viewbox x y cx cy r width height fill transform "
    "text-anchor".split()
)


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


def test_a_language_in_front_of_a_sentence_is_read():
    assert split_language("French: Le chat dort.") == ("Le chat dort.", "fra_Latn")
    assert split_language("fra_Latn: Le chat dort.") == ("Le chat dort.", "fra_Latn")
    assert split_language("Chinese：猫在睡觉。") == ("猫在睡觉。", "zho_Hans")
    # an ordinary colon, and a short word that is a code of some language
    for line in (
        "Note: the cat sleeps.",
        "So: what now?",
        "It is late: go home.",
        "French:",
        ": no",
        "a" * 99 + ": b",
    ):
        assert split_language(line) == (line, None)


def test_one_sentence_per_line():
    assert read_sentences("Texts", "\n a \n\nFrench: b\r\n") == (["a", "b"], [None, "fra_Latn"])
    lines = limits.MAX_SENTENCES
    for text, said in (
        (None, "Texts is empty: write one sentence per line"),
        (" \n\t\n", "Texts is empty"),
        ("a\n" * (lines + 1), f"Texts has {lines + 1} lines: this tab takes at most {lines}"),
        (
            "a" * (limits.MAX_CHARACTERS + 1),
            "Texts has 20,001 characters: this page takes at most 20,000",
        ),
    ):
        pytest.raises(ValueError, read_sentences, "Texts", text).match(f"^{re.escape(said)}")


def words_of(text, tokens):
    return [text[start:end] for start, end in word_spans(text, tokens)]


def test_words_are_split_at_punctuation():
    words = words_of("L'été, c'est हिन्दी!", np.zeros((0, 2)))
    assert words == ["L'été", ",", "c'est", "हिन्दी", "!"]


def test_chinese_is_split_at_tokens():
    """Two tokens are bytes of one character."""
    tokens = np.array([[0, 1], [0, 1], [1, 2], [2, 5]])
    assert words_of("黑猫 ok", tokens) == ["黑", "猫", "ok"]


def test_search_shows_scores_of_numpy(views):
    """Cosines and margins by NumPy from the embeddings; here a text has two neighbours, the queries."""
    asked, asked_langs = read_sentences("", QUERIES)
    texts, langs = read_sentences("", SENTENCES + "\nOne more.")
    x, y = (
        encode(views.encoder, views.tokenizer, *side, normalize=True)
        for side in ((asked, asked_langs), (texts, langs))
    )
    cosines = x.astype(np.float64) @ y.T
    around = (np.sort(cosines, 1)[:, -4:].mean(1)[:, None] + cosines.mean(0)) / 2
    # the ratio, with the floor of small sides
    margins = 1 + (cosines - around) / np.maximum(around, 0.3)
    rows = [
        row
        for row in Page(views.search(QUERIES, SENTENCES + "\nOne more.")).cells
        if row[0] in texts
    ]
    assert len(rows) == 2 * 4
    for i, of_query in enumerate((rows[:4], rows[4:])):
        order = np.argsort(-cosines[i])[:4]
        assert [row[0] for row in of_query] == [texts[j] for j in order]
        np.testing.assert_allclose(
            [float(row[1]) for row in of_query], cosines[i, order], atol=6e-4
        )
        np.testing.assert_allclose(
            [float(row[2]) for row in of_query], margins[i, order], atol=6e-3, rtol=1e-3
        )
    # the translations
    assert (rows[0][0], rows[4][0]) == (
        "Der Zug ist spät.",
        "Je n'ai pas d'argent.",
    )


def test_translate_shows_what_the_package_writes(views):
    texts, langs = read_sentences("", SENTENCES)
    written = translate(views.translator, views.tokenizer, texts, langs, max_new_tokens=100)
    assert Page(views.translate(SENTENCES)).cells[1:] == [
        list(pair) for pair in zip(texts, written)
    ]
    assert views.targets == [("English", "eng_Latn")]
    most = limits.MAX_TRANSLATED
    assert f"this tab takes at most {most}" in shown(views.translate)("a\n" * (most + 1))
    assert "decoder" in Page(shown(views.translate)("a", "fra_Latn")).text  # it writes English only


def test_a_sentence_is_aligned_with_itself(views):
    sentence = "English: Seven black cats sleep under our old table"
    page = views.align(sentence, sentence)
    head, *rows = Page(page).cells
    assert head[1:] == sentence.split()[1:] == [row[0] for row in rows]
    assert [row[1 + i] for i, row in enumerate(rows)] == ["100"] * 8
    assert len(re.findall(r'class="[^"]*\blink\b', page)) == 8


def test_align_outlines_no_weak_link(views):
    page = views.align(
        "French: Le chat noir dort dans la maison.", "English: I have no money left."
    )
    outlined = [int(value) for value in re.findall(r'class="[^"]*\blink\b[^>]*>(-?[0-9]+)<', page)]
    assert all(value >= 60 for value in outlined)
    cells = page.count("<td ")
    assert len(outlined) < cells / 10


def test_align_names_what_it_cannot_show(views):
    words = limits.MAX_WORDS
    for text, said in (
        (
            "a b " * words,
            f"First sentence has {2 * words} words: the heat map shows at most {words}",
        ),
        ("x" * 10_000, "First sentence is longer than the model's 512 tokens: give a shorter one"),
        ("one\ntwo", "First sentence has 2 lines: give one sentence"),
        ("", "First sentence is empty"),
    ):
        assert said in Page(shown(views.align)(text, "a")).text


def test_the_plane_is_that_of_scikit_learn():
    from sklearn.decomposition import PCA

    vectors = np.random.default_rng(0).normal(size=(12, 7)) * np.arange(1, 8)
    pca = PCA(2).fit(vectors)
    points, shares = principal_plane(vectors)
    np.testing.assert_allclose(np.abs(points), np.abs(pca.transform(vectors)), atol=1e-9)
    np.testing.assert_allclose(shares, pca.explained_variance_ratio_, atol=1e-12)
    assert (points[np.abs(points).argmax(0), [0, 1]] > 0).all()
    same, none = principal_plane(np.ones((3, 7)))
    assert not same.any()
    assert not none.any()


def test_map_shows_every_sentence_once(views):
    page = Page(views.map(SENTENCES))
    texts, _ = read_sentences("", SENTENCES)
    assert [row[1] for row in page.cells[1:]] == texts
    assert all(name in page.text for name in ("French", "German", "language not given"))
    assert page.drawn == len(texts)
    assert "needs at least three" in Page(shown(views.map)("a\nb")).text


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_stay_texts(views, text):
    """Nothing that a visitor writes becomes a tag or an attribute, and no tab breaks."""
    calm = "one\ntwo\nthree"
    for page in (
        shown(views.search)(text, f"{calm}\n{text}"),
        shown(views.translate)(text),
        shown(views.align)(text, "one"),
        shown(views.map)(f"{calm}\n{text}"),
        shown(views.map)(f"{text}: {text}"),
    ):
        found = Page(page)
        assert found.tags <= TAGS
        assert found.attributes <= ATTRIBUTES

    markup = HOSTILE[0] + HOSTILE[3]
    assert Page(views.search("a", markup)).cells[1][0] == markup


def test_a_recording_finds_its_nearest_sentences(views, monkeypatch, tmp_path):
    monkeypatch.setattr(views, "speech_encoder", None)
    assert "hf-echo train echo-nano-speech" in Page(shown(views.find_speech)(None, "a")).text
    soundfile = pytest.importorskip("soundfile")
    save_random_encoder(tmp_path / "model")
    tone = 0.3 * np.sin(np.arange(16_000) / 9).astype(np.float32)
    soundfile.write(tmp_path / "a.wav", tone, 16_000)
    views = SpaceViews(speech=tmp_path / "model")
    texts, langs = read_sentences("", SENTENCES)
    text_side = encode(views.encoder, views.tokenizer, texts, langs, normalize=True)
    (vector,) = encode_speech(
        views.speech_encoder, views.extractor, [tmp_path / "a.wav"], normalize=True
    )
    rows = Page(views.find_speech(str(tmp_path / "a.wav"), SENTENCES)).cells[1:]
    assert [row[0] for row in rows] == [texts[i] for i in np.argsort(-text_side @ vector)]
    for audio, words in ((None, "There is no recording"), (str(tmp_path / "no.wav"), "no.wav")):
        assert words in Page(shown(views.find_speech)(audio, SENTENCES)).text
    monkeypatch.setattr(limits, "packaged_speech", lambda: tmp_path / "model")
    # as hf-echo space calls it
    assert SpaceViews(packaged_model("echo-nano")).speech_encoder is not None
    with pytest.raises(
        ValueError, match="writes 24 dimensions, echo-nano 384: they need one space"
    ):
        SpaceViews(speech=save_random_encoder(tmp_path / "model", 24))


def test_only_wrong_input_becomes_a_note():
    pytest.raises(KeyError, shown(lambda: {}["a bug"]))


def test_the_folder_can_be_pushed(run):
    """Versions in full: the Hub builds the image from them."""
    contents = contents_of(space_folder())
    assert contents.kind == "space"
    assert not contents.problems
    assert {str(file) for file in contents.files} == {"README.md", "app.py", "requirements.txt"}
    card = (space_folder() / "README.md").read_text(encoding="utf-8")
    for field in ("sdk_version", "python_version"):
        assert re.search(rf"^{field}: \d+\.\d+\.\d+$", card, re.MULTILINE)
    code, out, err = run("push", space_folder(), "me/echo", "--version", "0.2.0", "--dry-run")
    assert (code, err) == (0, "")
    assert "space me/echo, v0.2.0" in out


def test_without_gradio_one_line_says_so(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    monkeypatch.delitem(sys.modules, "hf_echo.hub.space.app", raising=False)
    refused("gradio is not installed: pip install -e '.[space]'", "space", "--model", "echo-nano")


def test_what_npm_brings_is_checked(refused, tmp_path, monkeypatch):
    """Before the model is exported; nothing is left behind."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    command = ("space", "--model", "echo-nano", "--static", tmp_path / "page")
    refused("npm is not in PATH: install Node.js", *command)
    for npm, words in (
        (
            "echo 'npm error network timeout' >&2; exit 1",
            "npm could not fetch @huggingface/transformers@4.3.1",
        ),
        ('echo other > "$4/a.tgz"', "not that of the tested one: do not use it"),
    ):
        (tmp_path / "bin" / "npm").write_text(f"#!/bin/sh\n{npm}\n", encoding="utf-8")
        (tmp_path / "bin" / "npm").chmod(0o755)
        refused(words, *command)
    assert not (tmp_path / "page").exists()


def test_the_close_cosine_lies_between_translations_and_others():
    """Cosines in the plane are those of angles: translations 10 degrees apart, other sentences 60 and more."""
    angles = np.radians([0, 10, 70, 80, 200, 210])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    close = close_cosine(vectors, np.array([0, 0, 1, 1, 2, 2]))
    assert close == pytest.approx((np.cos(np.radians(10)) + np.cos(np.radians(60))) / 2, abs=2e-3)


def test_the_close_cosine_errs_equally_often_on_both_sides():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(20, 8))
    meanings = np.repeat(np.arange(20), 4)
    vectors = unit_length(centres[meanings] + 0.8 * rng.normal(size=(80, 8)))
    close = close_cosine(vectors, meanings)
    missed = 0
    mistaken = 0
    for row, meaning in enumerate(meanings):
        cosines = np.delete(vectors @ vectors[row], row)
        is_same = np.delete(meanings, row) == meaning
        missed += cosines[is_same].max() < close
        mistaken += cosines[~is_same].max() >= close
    assert missed > 0
    assert abs(missed - mistaken) <= 1


@pytest.mark.slow  # starts a server of gradio: 12 s
@pytest.mark.skipif(
    importlib.util.find_spec("gradio") is None, reason="gradio is not installed (extra space)"
)
def test_the_page_is_bounded(views):
    """Five tabs without fonts from the network; an upload of 11 MB is refused, and the queue has an end."""
    from huggingface_hub.utils import get_session

    from hf_echo.hub.space import app

    page = app.build(views)
    tabs = [
        part["props"]["label"] for part in page.config["components"] if part["type"] == "tabitem"
    ]
    assert tabs == ["Search", "Translate", "Align words", "Map", "Speech"]
    assert not app.THEME._stylesheets
    assert page._queue.max_size == app.MAX_WAITING
    page.launch(prevent_thread_lock=True, quiet=True, **app.LAUNCH)
    try:
        url = f"{page.local_url}gradio_api/upload"
        sent = [
            get_session().post(url, files={"files": ("a.wav", bytes(n))})
            for n in (1_000, 11_000_000)
        ]
    finally:
        page.close()
    assert [answer.status_code for answer in sent] == [200, 413]


@pytest.mark.skipif(
    importlib.util.find_spec("gradio") is None, reason="gradio is not installed (extra space)"
)
def test_every_tab_opens_with_an_answer(views):
    from hf_echo.hub.space import app

    page = app.build(views)
    answers = [
        part["props"]["value"] for part in page.config["components"] if part["type"] == "html"
    ]
    assert answers[:4] == [
        views.search(app.QUERIES, app.SENTENCES),
        views.translate(app.TRANSLATE),
        views.align(*app.ALIGN),
        views.map(app.PARALLEL),
    ]


def test_the_best_sentence_is_tinted(views):
    page = views.search("English: The train is late.", SENTENCES)
    best = page[page.index('<tr class="best">') :]
    assert "Der Zug ist spät." in best[: best.index("</tr>")]
    assert page.count('class="best"') == 1


def test_sentences_as_near_to_others_are_dimmed(views):
    page = views.search("English: The train is late.", SENTENCES)
    margins = [
        float(row[2])
        for row in Page(page).cells
        if len(row) == 3 and row[2].replace(".", "").isdigit()
    ]
    assert page.count('class="weak"') == sum(margin < 1 for margin in margins) > 0
