"""`hf-echo tour`: search and translate in ten languages with echo-nano,
without training or network."""

from __future__ import annotations

import csv
from pathlib import Path

from rich.console import Console
from rich.table import Table

from .. import pretrained
from ..languages import ENGLISH

# Sentences of Tatoeba (CC BY 2.0 FR) that echo-nano was not trained on: of each language the first
# two by a fixed order (the SHA-256 of their ids); none was chosen for its result.
SENTENCES = Path(__file__).with_name("tour_sentences.tsv")


def tour_sentences() -> list[dict[str, str]]:
    """Rows with lang, text and english."""
    with open(SENTENCES, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))


def run_tour(console: Console | None = None) -> list[dict[str, str]]:
    """Find the English of each sentence among all of them, and translate it;
    returns the rows with nearest, written."""
    from ..inference import encode, load_translator, translate
    from ..search import nearest_neighbours

    console = console or Console()
    model, tokenizer = load_translator(pretrained("echo-nano"), device="cpu", dtype="fp32")
    rows = tour_sentences()
    # The nearest English sentence of each, and its translation.
    texts = [row["text"] for row in rows]
    languages = [row["lang"] for row in rows]
    english = [row["english"] for row in rows]
    vectors = encode(model, tokenizer, texts, languages, normalize=True)
    english_vectors = encode(model, tokenizer, english, ENGLISH, normalize=True)
    nearest = nearest_neighbours(vectors, english_vectors, 1).indices[:, 0]
    written = translate(model, tokenizer, texts, languages, max_new_tokens=40)
    # The nearest ones, with a mark at those that are wrong.
    table = Table(
        title=f"echo-nano: held-out sentences, the nearest of {len(rows)} English ones, and a translation"
    )
    table.add_column("", no_wrap=True)
    for heading in ("sentence", "nearest English sentence", "translation"):
        table.add_column(heading)
    right = 0
    for row, best, line in zip(rows, nearest, written, strict=True):
        row["nearest"] = english[best]
        row["written"] = line
        is_right = row["nearest"] == row["english"]
        right += is_right
        mark = "" if is_right else "wrong: "
        table.add_row(row["lang"], row["text"], mark + row["nearest"], line)
    console.print(table)
    console.print(
        f"{right} of {len(rows)} found. The sentences were drawn by a fixed order from a test set, not chosen. "
        "In larger collections more are wrong; the README has the figures."
    )
    return rows
