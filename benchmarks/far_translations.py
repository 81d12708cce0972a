"""The cosine of a source and of its translation, of good translations and of long news: the
threshold of a warning.

    python benchmarks/far_translations.py CORPORA [--model echo-nano] [--rows 200] [--languages fra_Latn deu_Latn ...]

`hf-echo translate` warns below `FAR` of hf_echo/inference/faithful.py. Good: everyday sentences of
Tatoeba whose translation reaches 60 chrF against the reference. Bad: long sentences of news (40
words and more) whose translation stays below 25 chrF. Prints quantiles of the cosine, and the share
of each below some thresholds.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import sacrebleu

from hf_echo.inference import load_translator, translate
from hf_echo.inference.faithful import cosines_to_sources
from hf_echo.steps.public_text import add_corpora, corpora_of

# Kind of translation -> file, and the fewest and most English words of a sentence.
SETS = {
    "good": ("tatoeba_challenge.parquet", 3, 12),
    "bad": ("wmt_news.parquet", 40, 200),
}
GOOD = 60  # least chrF of a good translation
BAD = 25  # chrF that a bad one does not reach
QUANTILES = [0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 1]


def rows_of(
    file: Path, lang: str, least_words: int, most_words: int, count: int
) -> tuple[list[str], list[str]]:
    """(sources, English references) with that number of English words."""
    table = pq.read_table(file, columns=["src", "tgt_lang", "tgt"])
    table = table.filter(pc.equal(table["tgt_lang"], lang))
    english_texts = table["src"].to_pylist()
    texts = table["tgt"].to_pylist()
    rows = []
    for english, text in zip(english_texts, texts, strict=True):
        words = len(english.split())
        if least_words <= words <= most_words:
            rows.append((text, english))
    # So many of them, drawn by seed.
    order = np.random.default_rng(0).permutation(len(rows))
    sources = []
    references = []
    for i in order[:count]:
        text, english = rows[i]
        sources.append(text)
        references.append(english)
    return sources, references


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    add_corpora(parser)
    parser.add_argument("--model", default="echo-nano")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--languages", nargs="+", default=["fra_Latn", "deu_Latn", "rus_Cyrl"])
    arguments = parser.parse_args()
    corpora = corpora_of(arguments, "tatoeba_challenge", "wmt_news", license="research")
    model, tokenizer = load_translator(arguments.model)
    cosines: dict[str, list[float]] = {"good": [], "bad": []}
    for kind, (file, least_words, most_words) in SETS.items():
        for lang in arguments.languages:
            path = corpora / file
            sources, references = rows_of(path, lang, least_words, most_words, arguments.rows)
            if not sources:
                continue
            written = translate(model, tokenizer, sources, lang)
            near = cosines_to_sources(model, tokenizer, sources, written, lang)
            # Translations in between are neither good nor bad.
            for cosine, text, reference in zip(near, written, references, strict=True):
                chrf = sacrebleu.sentence_chrf(text, [reference]).score
                is_clear = chrf >= GOOD if kind == "good" else chrf < BAD
                if is_clear:
                    cosines[kind].append(float(cosine))
    print_shares(cosines)


def print_shares(cosines: Mapping[str, list[float]]) -> None:
    """Quantiles of both kinds, and the share of each below some thresholds."""
    for kind, values in cosines.items():
        quantiles = np.quantile(values, QUANTILES)
        figures = [f"{value:.3f}" for value in quantiles]
        print(kind, len(values), *figures)
    for threshold in np.arange(0.4, 0.96, 0.05):
        good = 100 * np.mean(np.array(cosines["good"]) < threshold)
        bad = 100 * np.mean(np.array(cosines["bad"]) < threshold)
        print(f"below {threshold:.2f}: good {good:.1f} %, bad {bad:.1f} %")


if __name__ == "__main__":
    main()
