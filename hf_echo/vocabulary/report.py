"""Compare tokenizers on languages: tokens per sentence (fertility) and related measures, by language and script.

    vocabulary_report({"llama3": old, "ours": new}, "dev.parquet").to_markdown()

There is one row per language and tokenizer. A script and "all" are means over their languages, as the papers average
over the 200 languages of FLORES (ECHO D: 79 -> 44 tokens per sentence). `loading` opens tokenizers, `fertility` counts,
`plot` draws.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from ..utils.markdown import cell_text, markdown_table
from .fertility import ALL, MEANS, Fertility, Probe, texts_by_language

if TYPE_CHECKING:
    from datasets import Dataset
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

MEASURES = (*MEANS, "unused", "failures")


@dataclass
class VocabularyReport:
    """Rows per tokenizer and language, script, and all; `sizes`: vocabulary sizes, the base tokenizer first."""

    sizes: dict[str, int]
    rows: list[Fertility]

    @property
    def base(self) -> str:
        return next(iter(self.sizes))

    def get(self, tokenizer: str, name: str = ALL) -> Fertility:
        """The row of a tokenizer and a language code, a script's English name, or "all"; ValueError if missing."""
        for row in self.rows:
            if row.tokenizer == tokenizer and row.name == name:
                return row
        raise ValueError(f"no row for tokenizer {tokenizer!r} and {name!r}; give names of the report")

    def level(self, level: str) -> dict[str, dict[str, Fertility]]:
        """{name: {tokenizer: row}} of "language", "script" or "all", by descending fertility of the base."""
        table: dict[str, dict[str, Fertility]] = {}
        for row in self.rows:
            if row.level == level:
                table.setdefault(row.name, {})[row.tokenizer] = row
        return dict(sorted(table.items(), key=lambda item: -item[1][self.base].tokens_per_sentence))

    def to_row(self) -> dict[str, Any]:
        """Means over all languages as one flat dict with keys `measure/tokenizer`."""
        overall = self.level(ALL)[ALL]
        base = overall[self.base]
        row: dict[str, Any] = {"languages": base.languages, "sentences": base.sentences}
        for measure in (*MEASURES, "ratio"):
            row |= {f"{measure}/{name}": getattr(overall[name], measure) for name in self.sizes}
        return row

    def to_json(self, indent: int | None = 2) -> str:
        content = {"base": self.base, "sizes": self.sizes, "rows": [asdict(row) for row in self.rows]}
        return json.dumps(content, ensure_ascii=False, indent=indent)

    def to_markdown(self, by: str = "script", measure: str = "tokens_per_sentence", digits: int = 1) -> str:
        """Markdown table with one column per tokenizer and one row per script (or language); the last is over all.

        Args:
            by: "script", "language", or "all" (measures as rows, over all languages).

        Raises:
            ValueError: unknown `by` or measure.
        """
        if by not in ("script", "language", ALL):
            raise ValueError(f"by={by!r} must be script, language or all")
        if measure not in MEASURES:
            raise ValueError(f"measure={measure!r} must be one of {', '.join(MEASURES)}")
        overall = self.level(ALL)[ALL]
        if by == ALL:
            rows: list[list[Any]] = [["tokens in all", *self.sizes.values()]]
            rows += [[m.replace("_", " "), *self._values(overall, m, 3)] for m in (*MEASURES, "ratio")]
            return markdown_table(["over all languages", *self.sizes], rows)
        ratios = [n for n in self.sizes if n != self.base and measure == "tokens_per_sentence"]
        header = [by, "script" if by == "language" else "languages", "sentences", *self.sizes]
        header += [f"{name} / {self.base}" for name in ratios]
        rows = []
        for name, cells in {**self.level(by), ALL: overall}.items():
            base = cells[self.base]
            line = [name, base.script if by == "language" else base.languages, base.sentences]
            line += self._values(cells, measure, digits)
            rows.append(line + [cell_text(cells[n].ratio, 2) for n in ratios])
        return markdown_table(header, rows)

    def _values(self, cells: Mapping[str, Fertility], measure: str, digits: int) -> list[str]:
        return [cell_text(getattr(cells[name], measure), digits) for name in self.sizes]


def vocabulary_report(
    tokenizers: Mapping[str, PreTrainedTokenizerFast | Tokenizer],
    data: str | PathLike | Dataset | Sequence[str | PathLike | Dataset],
    *,
    split: str | None = None,
    on_bad_row: str = "error",
    progress: bool = True,
) -> VocabularyReport:
    """Measure tokenizers on the same texts; the first one is the base that ratios refer to.

    Args:
        tokenizers: name -> fast tokenizer of transformers or of `tokenizers`; they are not changed.
        data: files or folders (Parquet, TSV, JSONL, and .txt with the language in the name; see `counts_sources`),
            or Datasets, with the columns lang and text. Both sides of pairs are measured.
        split: value of the column ``split``, or split in the file names of a folder; None reads all.
        on_bad_row: "error", or "skip" with one warning.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: no tokenizer or a slow one, no texts and languages, a bad row, no row.
    """
    if not tokenizers:
        raise ValueError("no tokenizers: give at least one")
    probes = [Probe(name, tokenizer) for name, tokenizer in tokenizers.items()]
    for lang, texts in texts_by_language(data, split, on_bad_row, progress):
        texts = [unicodedata.normalize("NFC", text.strip()) for text in texts]
        for probe in probes:
            probe.add(lang, texts)
    by_probe = [probe.rows() for probe in probes]
    for rows in by_probe:
        for row, base in zip(rows, by_probe[0], strict=True):
            if base.tokens_per_sentence:
                row.ratio = row.tokens_per_sentence / base.tokens_per_sentence
    return VocabularyReport({probe.name: probe.size for probe in probes}, [r for rows in by_probe for r in rows])
