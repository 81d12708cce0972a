"""Small files to try the commands on, under the names that README, the pages and `--help` print."""

from __future__ import annotations

import csv
import gzip
import json
import wave
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..languages import ENGLISH
from ..utils.files import check_output, write_text

LANGUAGES = (ENGLISH, "fra_Latn", "deu_Latn")
RATE = 16_000


def sample_sentences() -> dict[str, list[str]]:
    """Language -> 20 sentences, written for this package;
    those of one number translate each other."""
    with Path(__file__).with_name("samples.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return {lang: [row[lang] for row in rows] for lang in LANGUAGES}


def write_samples(folder: str | Path) -> list[Path]:
    """Write the sample files into a folder, and return them; a file that is there is refused.

    in.txt, a.txt and fr.txt are French lines. b.txt is the English of a.txt, line by line; en.txt
    is English in another order with strangers. fr/ and en/ hold a document each. corpus.tsv,
    pairs.parquet and pairs.tsv.gz (French alone, without languages) hold pairs, dev.parquet and
    nway.jsonl tables of id, lang and text. hello.wav is a second of sound.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = Path(folder)
    sentences = sample_sentences()
    english, french, german = (sentences[lang] for lang in LANGUAGES)
    pairs = _pairs(sentences)
    table = [
        {"id": str(i), "lang": lang, "text": sentences[lang][i]}
        for i in range(20)
        for lang in LANGUAGES
    ]
    # Content by name; pairs and tables repeat the same sentences.
    texts = {
        "in.txt": _lines(french),
        "a.txt": _lines(french[:12]),
        "b.txt": _lines(english[:12]),
        "fr.txt": _lines(french[:14]),
        "en.txt": _lines([*english[19:5:-1], *english[:4]]),
        "fra_Latn.txt": _lines(french),
        "fr/story.txt": _lines([" ".join(french[:6]), " ".join(french[6:12])]),
        "en/story.txt": _lines([" ".join(english[:6]), " ".join(english[6:12])]),
        "corpus.tsv": _tsv(pairs),
        "nway.jsonl": _lines([json.dumps(row, ensure_ascii=False) for row in table]),
    }
    others = ("pairs.tsv.gz", "pairs.parquet", "dev.parquet", "hello.wav")
    files = [folder / name for name in (*texts, *others)]
    # All names are free before the first file is written.
    check_output(folder, folder=True)
    for file in files:
        if file.exists():
            raise ValueError(f"{file} is there: name another folder")
    for name, text in texts.items():
        write_text(folder / name, text)
    with gzip.open(folder / "pairs.tsv.gz", "wt", encoding="utf-8") as packed:
        packed.write(
            _tsv([{"source": row["source"], "target": row["target"]} for row in pairs[:20]])
        )
    pq.write_table(pa.Table.from_pylist(pairs), folder / "pairs.parquet")
    pq.write_table(pa.Table.from_pylist(table), folder / "dev.parquet")
    _write_sound(folder / "hello.wav")
    return files


def _pairs(sentences: dict[str, list[str]]) -> list[dict[str, str]]:
    """French and German with English, as rows of the parallel schema."""
    rows = []
    for lang in LANGUAGES[1:]:
        for source, target in zip(sentences[lang], sentences[ENGLISH], strict=True):
            rows.append(
                {"source": source, "source_lang": lang, "target": target, "target_lang": ENGLISH}
            )
    return rows


def _lines(texts: Sequence[str]) -> str:
    return "".join(f"{text}\n" for text in texts)


def _tsv(rows: Sequence[dict[str, str]]) -> str:
    return _lines(["\t".join(rows[0]), *("\t".join(row.values()) for row in rows)])


def _write_sound(path: Path) -> None:
    """A second of a voice without words: a falling tone with overtones, in four syllables."""
    seconds = np.arange(RATE) / RATE
    pitch = 2 * np.pi * (140 * seconds - 20 * seconds**2)
    tone = sum(np.sin(number * pitch) / number for number in range(1, 9))
    syllables = np.sin(4 * np.pi * seconds) ** 2
    samples = (6_000 * tone * syllables).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", None))
        file.writeframes(samples.tobytes())
