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
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import sacrebleu

from hf_echo.inference import load_translator, translate
from hf_echo.inference.faithful import cosines_to_sources
from hf_echo.steps.public_text import add_corpora, corpora_of


def rows_of(
    file: Path, lang: str, least_words: int, most_words: int, count: int
) -> tuple[list[str], list[str]]:
    """(sources, English references) with that number of English words."""
    table = pq.read_table(file, columns=["src", "tgt_lang", "tgt"])
    table = table.filter(pc.equal(table["tgt_lang"], lang))
    rows = []
    for english, text in zip(table["src"].to_pylist(), table["tgt"].to_pylist(), strict=True):
        if least_words <= len(english.split()) <= most_words:
            rows.append((text, english))
    order = np.random.default_rng(0).permutation(len(rows))[:count]
    return [rows[i][0] for i in order], [rows[i][1] for i in order]


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
    sets = (("good", "tatoeba_challenge.parquet", 3, 12), ("bad", "wmt_news.parquet", 40, 200))
    for kind, file, least, most in sets:
        for lang in arguments.languages:
            sources, references = rows_of(corpora / file, lang, least, most, arguments.rows)
            if not sources:
                continue
            written = translate(model, tokenizer, sources, lang)
            near = cosines_to_sources(model, tokenizer, sources, written, lang)
            for cosine, text, reference in zip(near, written, references, strict=True):
                chrf = sacrebleu.sentence_chrf(text, [reference]).score
                is_clear = chrf >= 60 if kind == "good" else chrf < 25
                if is_clear:
                    cosines[kind].append(float(cosine))
    for kind, values in cosines.items():
        quantiles = np.quantile(values, [0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 1])
        print(kind, len(values), " ".join(f"{value:.3f}" for value in quantiles))
    for threshold in np.arange(0.4, 0.96, 0.05):
        shares = [
            f"{kind} {100 * np.mean(np.array(values) < threshold):.1f} %"
            for kind, values in cosines.items()
        ]
        print(f"below {threshold:.2f}:", ", ".join(shares))


if __name__ == "__main__":
    main()
