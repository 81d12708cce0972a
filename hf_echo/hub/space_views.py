"""What the tabs of the Space compute: texts in, HTML out, without gradio.
Wrong input is a ValueError of one line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import regex

from .. import pretrained
from ..evaluation.tokens.alignment import itermax_links, token_similarity, word_links
from ..evaluation.tokens.token_states import owners, token_states
from ..inference import encode, load_translator, translate
from ..languages import ENGLISH, LANGUAGES, find_language
from ..search import margin_scores, nearest_neighbours
from ..utils.hub import packaged_model, packaged_speech
from . import space_html as html

MAX_CHARACTERS = 20_000  # of one field: a page for everybody must not be blocked by one visitor
MAX_SENTENCES = 200
MAX_TRANSLATED = 40  # 5 seconds on two busy cores; 200 would take half a minute
MAX_WORDS = 60  # of a side of the heat map
# Links of smaller cosines are not outlined. With echo-nano, on English, French and German of
# `hf-echo samples`, 98 % of the links between translations are above it, and 5 % of those between
# sentences that have nothing in common.
WEAK_LINK = 0.6
NEIGHBOURS = 4  # as in margin scoring (Artetxe and Schwenk 2019)
NO_SPEECH = (
    "No speech model of this space is open. Train one (`hf-echo train echo-nano-speech`), then start this page with "
    "`hf-echo space --speech FOLDER`."
)
# Scripts that do not write spaces between words: there a token is the unit.
WORD = regex.compile(r"[\p{L}\p{M}\p{N}'’-]+|\S\p{M}*")
UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")


class SpaceViews:
    """The models behind the tabs, opened once. Each method is one tab: texts in, HTML out."""

    def __init__(
        self, model: str = "echo-nano", speech: str | Path | None = None, *, device: str = "cpu"
    ):
        """Open a release with a decoder and a speech encoder of its space; of echo-nano that of the
        package, if it is there."""
        self.translator, self.tokenizer = load_translator(model, device=device)
        self.encoder = self.translator.encoder
        self.speech_encoder: Any = None
        # commands give its folder, others its name
        packaged = packaged_model(model) == pretrained("echo-nano")
        if not speech and packaged:
            speech = packaged_speech()
        if speech:
            from ..inference.encode_speech import load_speech_encoder

            self.speech_encoder, self.extractor = load_speech_encoder(speech, device=device)
            speech_size = self.speech_encoder.config.embedding_size
            size = self.encoder.config.embedding_size
            if speech_size != size:
                raise ValueError(
                    f"{speech} writes {speech_size} dimensions, {model} {size}: they need one space"
                )

    @property
    def targets(self) -> list[tuple[str, str]]:
        """(name, code) of the languages that the decoder writes, sorted by name."""
        codes = self.translator.decoder.config.languages or list(LANGUAGES)
        return sorted((LANGUAGES[code].name, code) for code in codes)

    def search(self, queries: str, sentences: str) -> str:
        """The nearest sentences of each query, with cosine and ratio margin."""
        query_texts, query_langs = read_sentences("Search for", queries)
        texts, langs = read_sentences("Sentences", sentences)
        return self._nearest(query_texts, self._embed(query_texts, query_langs), texts, langs)

    def translate(self, sentences: str, target: str = ENGLISH) -> str:
        """Each sentence beside its translation."""
        texts, langs = read_sentences("Sentences", sentences, MAX_TRANSLATED)
        translations = translate(
            self.translator,
            self.tokenizer,
            texts,
            langs,
            target,
            max_new_tokens=100,
            on_long="split",
        )
        return html.table(
            ["sentence", LANGUAGES[target].name], list(zip(texts, translations, strict=True))
        )

    def align(self, source: str, target: str) -> str:
        """Heat map of the cosines of two sentences' words;
        links of itermax that are not weak are outlined."""
        words_x, states_x, owner_x = self._words("First sentence", source)
        words_y, states_y, owner_y = self._words("Second sentence", target)
        similarity = token_similarity(states_x, states_y)
        links = word_links(itermax_links(similarity), owner_x, owner_y)
        # Two words are as near as their nearest tokens. `token_similarity` scales cosines to 0..1.
        cosines = np.full((len(words_x), len(words_y)), -1.0)
        np.maximum.at(cosines, (owner_x[:, None], owner_y[None, :]), 2 * similarity - 1)
        strong = {(i, j) for i, j in links if cosines[i, j] >= WEAK_LINK}
        return html.heat_map(words_x, words_y, cosines, strong)

    def map(self, sentences: str) -> str:
        """The sentences in the plane of their two first principal components,
        coloured by language."""
        texts, langs = read_sentences("Sentences", sentences)
        if len(texts) < 3:
            raise ValueError(f"Sentences: {len(texts)} of them; a map needs at least three")
        points, shares = principal_plane(self._embed(texts, langs))
        return html.scatter(points, shares, texts, [language_label(lang) for lang in langs])

    def find_speech(self, audio: str | None, sentences: str) -> str:
        """The sentences nearest to a recording (path of an audio file)."""
        if self.speech_encoder is None:
            raise ValueError(NO_SPEECH)
        if not audio:
            raise ValueError(
                "There is no recording yet: record or upload one; a long one takes a moment to arrive"
            )
        from ..inference.encode_speech import encode_speech

        texts, langs = read_sentences("Sentences", sentences)
        vector = encode_speech(
            self.speech_encoder, self.extractor, [audio], on_long="split", normalize=True
        )
        return self._nearest(["the recording"], vector, texts, langs)

    def _embed(self, texts: list[str], langs: list[str | None]) -> np.ndarray:
        return encode(self.encoder, self.tokenizer, texts, langs, normalize=True, on_long="split")

    def _nearest(
        self, titles: list[str], queries: np.ndarray, texts: list[str], langs: list[str | None]
    ) -> str:
        """A table for each of the query vectors (queries, dim), under its title."""
        vectors = self._embed(texts, langs)
        # Each side has its own k: one query may have four neighbours, a text then has one.
        forward = nearest_neighbours(queries, vectors, min(NEIGHBOURS, len(texts)))
        backward = nearest_neighbours(vectors, queries, min(NEIGHBOURS, len(titles)))
        margins = margin_scores(forward, backward, "ratio")
        tables = []
        for number, title in enumerate(titles):
            rows = []
            kinds = []
            best = margins[number].max()
            for index, cosine, margin in zip(
                forward.indices[number], forward.scores[number], margins[number], strict=True
            ):
                sentence = f"{texts[index]}\n{language_label(langs[index])}"
                rows.append((sentence, f"{cosine:.3f}", f"{margin:.2f}"))
                kind = "best" if margin == best else ""
                kinds.append("weak" if margin < 1 else kind)  # as near to others as to this one
            tables.append(
                html.table(
                    ["nearest sentence", "cosine", "margin"], rows, caption=title, kinds=kinds
                )
            )
        return "".join(tables)

    def _words(self, field: str, text: str) -> tuple[list[str], np.ndarray, np.ndarray]:
        """(words, (tokens, hidden) states of the last layer, (tokens,) word of each token) of one
        sentence."""
        texts, langs = read_sentences(field, text)
        if len(texts) > 1:
            raise ValueError(f"{field} has {len(texts)} lines: give one sentence")
        (sentence,) = texts
        (tokens,) = token_states(
            self.encoder, self.tokenizer, texts, langs, layers=[-1], on_long="skip"
        )
        if tokens is None:
            limit = self.tokenizer.model_max_length
            raise ValueError(
                f"{field} is longer than the model's {limit} tokens: give a shorter one"
            )
        spans = word_spans(sentence, tokens.offsets)
        if len(spans) > MAX_WORDS:
            raise ValueError(
                f"{field} has {len(spans)} words: the heat map shows at most {MAX_WORDS}"
            )
        owner = owners(tokens.offsets, spans)
        has_word = owner >= 0  # tokens of spaces belong to no word
        if not has_word.any():
            raise ValueError(f"{field} has no words that the model reads")
        words = [sentence[start:end] for start, end in spans]
        return words, tokens.states[0, has_word], owner[has_word]


def shown(view: Callable[..., str]) -> Callable[..., str]:
    """The view, with wrong input as a note on the page."""

    def call(*values: Any) -> str:
        try:
            return view(*values)
        except (ValueError, OSError, ImportError) as error:
            return html.note(str(error).splitlines()[0])

    return call


def read_sentences(
    field: str, text: str | None, most: int = MAX_SENTENCES
) -> tuple[list[str], list[str | None]]:
    """One sentence per line, and its language, which "French: Le chat dort." or "fra_Latn: ..."
    names, else None."""
    text = text or ""
    if len(text) > MAX_CHARACTERS:
        raise ValueError(
            f"{field} has {len(text):,} characters: this page takes at most {MAX_CHARACTERS:,}"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"{field} is empty: write one sentence per line")
    if len(lines) > most:
        raise ValueError(f"{field} has {len(lines)} lines: this tab takes at most {most}")
    sentences = []
    langs = []
    for line in lines:
        sentence, lang = split_language(line)
        sentences.append(sentence)
        langs.append(lang)
    return sentences, langs


def split_language(line: str) -> tuple[str, str | None]:
    """(sentence, language code) of "French: Le chat dort.";
    a line that names no language is returned whole."""
    # shorter prefixes are words: "So: what now?"
    match = re.fullmatch(r"([^:：]{4,40})[:：]\s*(\S.*)", line)
    if match is None:
        return line, None
    language, sentence = match.groups()
    try:
        return sentence, find_language(language)
    except ValueError:
        return line, None


def language_label(code: str | None) -> str:
    return LANGUAGES[code].name if code else "language not given"


def word_spans(text: str, offsets: np.ndarray) -> np.ndarray:
    """(words, 2) character spans of words and marks of punctuation;
    where a script writes no spaces, of tokens."""
    spans = []
    for match in WORD.finditer(text):
        if not UNSPACED.search(match[0]):
            spans.append(match.span())
            continue
        last = match.start()
        for start, end in offsets:
            start = max(int(start), last)
            end = min(int(end), match.end())
            if start < end:  # tokens of the bytes of one character share its span
                spans.append((start, end))
                last = end
    return np.array(spans, np.int64).reshape(-1, 2)


def principal_plane(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """((n, 2) coordinates, (2,) share of the variance of each) by PCA;
    the largest coordinate of each is positive."""
    centred = vectors - vectors.mean(0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    points = left[:, :2] * singular[:2]
    largest = points[np.abs(points).argmax(0), [0, 1]]  # with its sign, of each axis
    points = points * np.where(largest < 0, -1, 1)
    variances = singular**2
    return points, variances[:2] / max(float(variances.sum()), 1e-12)
