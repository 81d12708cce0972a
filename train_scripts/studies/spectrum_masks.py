"""Draw docs/spectrum-masks.svg: who reads whom in a document of three sentences, from the masks that the model uses.

python train_scripts/studies/spectrum_masks.py docs/spectrum-masks.svg
"""

import sys
from pathlib import Path

import torch

from hf_echo.modeling.masks_spectrum import reading_mask, token_mask, tower_mask
from hf_echo.modeling.packing_spectrum import PackedDocument, Segment, pack, sentence_segments

CELL, LEFT, TOP, GAP = 16, 56, 56, 90
SENTENCES = (("the", "cat"), ("sleeps",), ("it", "rains"))


def panels() -> list[tuple[str, list[str], list[str], torch.Tensor]]:
    """(title, readers, read, mask) of each panel."""
    words = [word for sentence in SENTENCES for word in sentence]
    ids = [[3 + words.index(word) for word in sentence] for sentence in SENTENCES]
    names = ["s", "/s", "", *words]
    vectors = torch.zeros(3, 1)
    causal = pack([PackedDocument(vectors, segments=sentence_segments(ids, [0], 1))])
    both = pack([PackedDocument(vectors[:2], prefix=2, segments=[Segment([0, *ids[2], 1], 1, 3)])])
    drawn = []
    for batch, title in ((causal, "sentences"), (both, "prefix")):
        slots = ["BOE", *(f"e{i}" for i in range(1, batch["positions"].shape[1]))]
        tokens = [names[i] for i in batch["input_ids"][0]]
        slot_ids = (batch["document_ids"], batch["positions"])
        drawn.append((f"{title}: tower", slots, slots, tower_mask(*slot_ids, batch["prefix"])[0]))
        token_ids = (batch["token_documents"], batch["segment_ids"])
        drawn.append((f"{title}: tokens", tokens, tokens, token_mask(*token_ids)[0]))
        cross = reading_mask(batch["token_documents"], batch["reads"], *slot_ids)[0]
        drawn.append((f"{title}: cross-attention", tokens, slots, cross))
    return drawn


def svg() -> str:
    """A row for sentence-level language modelling, a row for prefix language modelling."""
    parts, top, width = [], 0, 0
    drawn = panels()
    for row in (drawn[:3], drawn[3:]):
        left = 0
        for title, readers, read, mask in row:
            parts.append(f'<text x="{left + LEFT}" y="{top + 14}" font-weight="bold">{title}</text>')
            for j, name in enumerate(read):
                x = left + LEFT + CELL * j + 11
                parts.append(f'<text transform="translate({x},{top + TOP - 4}) rotate(-60)">{name}</text>')
            for i, name in enumerate(readers):
                y = top + TOP + CELL * i
                parts.append(f'<text x="{left + LEFT - 5}" y="{y + 12}" text-anchor="end">{name}</text>')
                for j in range(len(read)):
                    fill = "#2b6cb0" if mask[i, j] else "#edf2f7"
                    x = left + LEFT + CELL * j
                    parts.append(f'<rect x="{x}" y="{y}" width="{CELL - 1}" height="{CELL - 1}" fill="{fill}"/>')
            left += LEFT + CELL * len(read) + GAP
            width = max(width, left)
        top += TOP + CELL * max(len(readers) for _, readers, _, _ in row) + 24
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" font-family="sans-serif" font-size="11">'
    )
    ground = f'<rect width="{width}" height="{top}" fill="white"/>'
    return "\n".join([head, ground, *parts, "</svg>", ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(svg(), encoding="utf-8")
