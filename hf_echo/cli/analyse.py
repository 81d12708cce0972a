"""hf-echo evaluate geometry, cost, alignment, tagging, wic: other measures of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..languages import ENGLISH
from ..utils.settings import DATA, DefaultOf, setting, step
from .options import OpensModel, language, model

if TYPE_CHECKING:
    from ..utils.results import Table


def split() -> Any:
    return setting("use only rows with this value in the column `split`; default: all", None)


@step(
    "evaluate geometry", example="hf-echo evaluate geometry --data nway.jsonl --json geometry.json"
)
class Geometry(OpensModel):
    """Measure spread, rank, isotropy, invariance, Calinski-Harabasz and RSIM on the sentences that
    all languages have.

    Only the file of --json contains the singular values."""

    reports = True

    file_only = ("singular_values",)

    model: str = model("Echo checkpoint or any SentenceTransformer")
    data: Path = setting(
        "n-way table with the columns id (or verse_id, index_id), lang, text", reads=DATA
    )
    lang: list[str] = language("use only this language; repeatable; default: all", list)
    split: str | None = split()

    def run(self) -> dict[str, Any]:
        """Measures of all languages together and of each, and the singular values."""
        from ..data import load_nway
        from ..evaluation.geometry import encode_parallel, evaluate_geometry
        from ..inference.any_encoder import any_encoder

        # Before the model, so that bad data are named early.
        rows = load_nway(self.data, split=self.split)
        parts = encode_parallel(any_encoder(self.model), rows, self.lang or None)
        result = evaluate_geometry(parts)
        return {
            "model": self.model,
            **result.to_row(),
            "by_language": result.by_language().rows,
            "singular_values": result.singular_values.tolist(),
        }


@step("evaluate cost", example="hf-echo evaluate cost --texts a.txt --lang fra_Latn")
class Cost(OpensModel):
    """Measure sentences and tokens per second of a model on this machine, and its memory."""

    reports = True

    model: str = model("Echo checkpoint or any SentenceTransformer")
    texts: Path | None = setting(
        "texts, one per line; default: built-in sentences", None, reads=DATA
    )
    lang: str | None = language("language of the texts; default: fra_Latn for the built-in ones")
    rounds: int = setting(
        "measured rounds, after one warm-up round",
        DefaultOf("evaluation.benchmarks.speed.measure_speed"),
        least=1,
    )

    def run(self) -> dict[str, Any]:
        """Sentences and tokens a second on a user's texts, or on the built-in ones."""
        from transformers import AutoTokenizer

        from ..data.builtin import builtin_parallel
        from ..data.texts import read_texts
        from ..evaluation.benchmarks.speed import measure_speed
        from ..inference.any_encoder import any_encoder
        from ..inference.encode import opening
        from ..modeling import EchoTokenizer

        # The texts: of a file, or the built-in ones.
        lang = self.lang or (None if self.texts else "fra_Latn")
        column, options = ("target", {}) if lang == ENGLISH else ("source", {"languages": [lang]})
        texts = (
            read_texts(self.texts) if self.texts else builtin_parallel(n=512, **options)[column][:]
        )
        with opening(self.model) as name:
            tokenizer = AutoTokenizer.from_pretrained(name)

        def count_tokens(texts: Iterable[str], lang: str | None) -> int:
            prompt = {"lang": lang} if isinstance(tokenizer, EchoTokenizer) else {}
            return sum(map(len, tokenizer(list(texts), truncation=True, **prompt)["input_ids"]))

        # Speed with tokens, which are counted once.
        speed = measure_speed(
            any_encoder(self.model), texts, lang, count_tokens=count_tokens, rounds=self.rounds
        )
        return {
            "model": self.model,
            "texts": str(self.texts or "builtin"),
            "lang": lang,
            **speed.to_row(),
        }


@step(
    "evaluate alignment",
    example="hf-echo evaluate alignment --model M --data word_alignment.parquet --split dev --layers 2 --layers -1",
)
class Alignment(OpensModel):
    """Measure the alignment error rate of argmax and itermax by layer and language pair."""

    reports = True

    model: str = model("Echo checkpoint or release")
    data: Path = setting(
        "table (Parquet, JSONL) of src_tokens, tgt_tokens, alignment, possible", reads=DATA
    )
    layers: list[int] = setting(
        "layer to evaluate; repeatable; 0 is the embeddings, -1 the last layer; default: all", list
    )
    split: str | None = split()
    limit: int | None = setting("sentence pairs per language pair; default: all", None, least=1)
    iterations: int = setting(
        "iterations of itermax",
        DefaultOf("evaluation.tokens.alignment.evaluate_alignment"),
        least=1,
    )
    on_long: Literal["error", "skip"] = setting(
        "for pairs longer than the model's limit",
        DefaultOf("evaluation.tokens.alignment.evaluate_alignment"),
    )

    def run(self) -> dict[str, Any]:
        """The alignment error rate by method and layer."""
        from ..evaluation.tokens.alignment import (
            METHODS,
            aer_by_layer,
            evaluate_alignment,
            load_alignment,
        )
        from ..inference import load_encoder

        pairs = load_alignment(self.data, split=self.split, limit=self.limit)
        encoder, tokenizer = load_encoder(self.model)
        options = {
            "layers": self.layers or None,
            "iterations": self.iterations,
            "on_long": self.on_long,
        }
        table = evaluate_alignment(encoder, tokenizer, pairs, **options, progress=True)
        by_layer = {method: aer_by_layer(table, method).rows for method in METHODS}
        return {"model": self.model, **table.notes, "aer_by_layer": by_layer, "rows": table.rows}


@dataclass(kw_only=True)
class Probe(OpensModel):
    """A linear probe on the token states of a frozen encoder,
    on two files of rows or on a public set."""

    reports = True

    model: str = model("Echo checkpoint or release")
    train: Path | None = setting("training rows (Parquet, JSONL)", None, reads=DATA, unless="set")
    test: Path | None = setting(
        "test rows in any languages (Parquet, JSONL)", None, reads=DATA, unless="set"
    )
    set: str | None = setting("name of a public set, instead of train and test", None)
    path: Path | None = setting(
        "local copy of the set; default: download from the Hub", None, reads=DATA, needs="set"
    )
    train_lang: str = language("language of the training rows of the set", ENGLISH, needs="set")
    lang: list[str] = language(
        "test language of the set; repeatable; default: all", list, needs="set"
    )
    layer: int = setting("layer of the token states: 0 is the embeddings, -1 the last layer", -1)

    def rows(self, shape: str, columns: Any) -> tuple[list, list]:
        """Training and test rows."""
        from ..evaluation.benchmarks.public_sets import SETS, load_benchmark
        from ..evaluation.labelled_rows import read_rows

        # Rows of the user, else those of a public set of this shape.
        if self.set is None:
            if self.train is None or self.test is None:
                raise ValueError(
                    "give --train and --test (two files of rows) or --set (a public set)"
                )
            rows_of_files = []
            for file in (self.train, self.test):
                numbered_rows = read_rows(file, columns, ["lang"], tsv=False)
                rows_of_files.append([row for _, row in numbered_rows])
            training_rows, test_rows = rows_of_files
            return training_rows, test_rows
        fitting = [name for name, public_set in SETS.items() if public_set.shape == shape]
        if self.set not in fitting:
            raise ValueError(
                f"--set {self.set!r} has no rows for {shape}; choose from {', '.join(fitting)}"
            )
        training_rows = load_benchmark(
            self.set, langs=[self.train_lang], split="train", path=self.path
        )
        test_rows = load_benchmark(self.set, langs=self.lang or None, path=self.path)
        return training_rows, test_rows

    def measured(self, evaluate: Callable[..., Table], rows: tuple[list, list]) -> dict[str, Any]:
        from ..inference import load_encoder

        table = evaluate(*load_encoder(self.model), *rows, layer=self.layer, progress=True)
        return {"model": self.model, **table.notes, "rows": table.rows, "average": table.average}


@step(
    "evaluate tagging",
    example="hf-echo evaluate tagging --model M --train eng.jsonl --test all.jsonl",
)
class Tagging(Probe):
    """Measure span F1 by language with a linear probe on a frozen encoder.

    Rows have tokens, tags (B-X, I-X, O) and lang. Public sets: panx, massive_slots."""

    def run(self) -> dict[str, Any]:
        from ..evaluation.tokens.tagging import COLUMNS, evaluate_tagging

        return self.measured(evaluate_tagging, self.rows("tagging", COLUMNS))


@step(
    "evaluate wic",
    example="hf-echo evaluate wic --model M --set xlwic --path XL-WIC --lang deu_Latn",
)
class WordInContext(Probe):
    """Measure word-in-context accuracy by language: a linear probe and a cosine threshold on a
    frozen encoder.

    Rows have sentence1, start1, end1, sentence2, start2, end2 (in characters), label
    (same meaning or not) and lang. Public sets: wic, xlwic."""

    def run(self) -> dict[str, Any]:
        from ..evaluation.tokens.wic import COLUMNS, evaluate_wic

        return self.measured(evaluate_wic, self.rows("wic", COLUMNS))
