"""Sentences per second: sentence-transformers against `hf_echo.inference.encode`, in one run.

    python benchmarks/encode_speed.py [--model CHECKPOINT] [--english FILE] [--mixed FILE] [--threads 1]
    python benchmarks/encode_speed.py --model CHECKPOINT --dtypes [--threads 1]

Without files, the texts have one to six sentences of the built-in corpus. `mixed` lines may be
`code<TAB>text`. Without a model, random weights are used, because speed does not depend on them,
with a tokenizer trained on the texts: six layers of 256/1024, or with `--shape e5-small` the twelve
of multilingual-e5-small. Rounds are interleaved (A B C, A B C, ...), and the best of each counts:
CPU time with one thread (machines are shared), wall time with more. "Padded" is the forward pass of
transformers' blocks, as in any stock model. `times_default` and the cosines compare with
sentence-transformers' default, that path in float32; `times_st` and `times_st_sorted_by_tokens`
with that path in the dtype in which the model opens here.

`--graphs` adds onnxruntime and OpenVINO (extras onnx, openvino) on the graphs of `hf-echo export`,
in batches of 32 sorted by tokens, and the padded path in bfloat16.

`--dtypes` compares SentenceTransformer.encode of the model opened without a dtype, in float32 and
in bfloat16.

The last line is a bound: the time of the real tokens' matrix products alone, at the fp32 rate of
these rounds. (It includes the parts of the last layer that pooling makes unnecessary: about 15 % of
a CLS model of six layers.)
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from transformers import BertConfig, PretrainedConfig

import hf_echo  # noqa: F401
from hf_echo import EchoConfig, EchoEncoder
from hf_echo.checkpoints.pruning.shapes import SIZES
from hf_echo.data.builtin import LANGUAGES, builtin_nway
from hf_echo.export.graphs import INPUTS, export_graph
from hf_echo.export.stock import open_stock
from hf_echo.inference import encode, load_encoder
from hf_echo.inference.encode import has_fast_bf16
from hf_echo.languages import ENGLISH
from hf_echo.modeling import modeling_echo_encoder
from hf_echo.stages.core.model_shape import new_config
from hf_echo.utils.files import write_json
from hf_echo.utils.vectors import unit_length
from hf_echo.vocabulary import train_tokenizer

DEFAULT = "ST, Echo, padded, float32"
STOCK = "ST, Echo, padded"
SORTED = "ST, Echo, padded, sorted by tokens"
ECHO = "ST, Echo"
LIMIT = "bound: products of real tokens"
TOKENS = 1536  # rows of the products whose rate is the bound
PRODUCTS = 30  # in a run
Clock = Callable[[], float]


Texts = list[tuple[str, str]]  # (language, text)


def builtin_texts(n: int, languages: Sequence[str]) -> Texts:
    """(lang, text) of `n` texts of one to six sentences, in languages drawn at random."""
    rng = random.Random(0)
    by_lang = {}
    for lang in languages:
        by_lang[lang] = builtin_nway(2000, languages=[lang])["text"]
    rows = []
    for lang in rng.choices(languages, k=n):
        count = rng.choice((1, 1, 2, 3, 6))
        sentences = rng.choices(by_lang[lang], k=count)
        rows.append((lang, " ".join(sentences)))
    return rows


def read(path: Path, n: int) -> Texts:
    """Lines of `text` (English) or `code<TAB>text`."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        lang, tab, text = line.partition("\t")
        if not tab:
            lang, text = ENGLISH, line
        if text.strip():
            rows.append((lang, text))
    return rows[:n]


def read_or_draw(path: Path | None, n: int, languages: Sequence[str]) -> Texts:
    """Texts of a file, or of the built-in corpus where none is given."""
    if path is not None:
        return read(path, n)
    return builtin_texts(n, languages)


def random_checkpoint(texts: list[str], folder: Path, shape: str) -> Path:
    """A checkpoint with random weights in a shape; speed does not depend on them."""
    tokenizer = train_tokenizer(texts, 8000, max_length=256, progress=False)
    if shape == "e5-small":  # that of multilingual-e5-small
        sizes = dict(
            hidden_size=384, num_hidden_layers=12, num_attention_heads=12, intermediate_size=1536
        )
        pad = tokenizer.pad_token_id
        backbone = BertConfig(vocab_size=len(tokenizer), **sizes, pad_token_id=pad)
        config = EchoConfig(
            backbone=backbone,
            pooling="mean",
            embedding_size=None,
            pad_token_id=pad,
            cls_token_id=tokenizer.cls_token_id,
            sep_token_id=tokenizer.sep_token_id,
        )
        EchoEncoder(config).save_pretrained(folder)
    else:
        values = SIZES["nano"] | {"embedding_size": 256, "pooling": "mean", "decoder_layers": 1}
        hf_echo.EchoForTranslation(new_config(values, tokenizer)).save_release(folder)
    tokenizer.save_pretrained(folder)
    return folder


def padded_path(run: Callable) -> Callable:
    """The same call without the encoder's packed forward pass."""

    def call() -> Any:
        with patch.object(modeling_echo_encoder, "packed_states", lambda *_: None):
            return run()

    return call


def graphs(model: str | Path, folder: Path, threads: int, bf16: bool) -> dict[str, Callable]:
    """Path -> (ids and mask of a batch) -> outputs, the embeddings first, by other engines."""
    import onnxruntime
    import openvino
    from onnxruntime.quantization import quantize_dynamic

    file = folder / "graph.onnx"
    export_graph(open_stock(model), file)
    # The usual 8 bits of onnxruntime: weights once, activations in each batch with one scale.
    small_file = folder / "graph_int8.onnx"
    quantize_dynamic(file, small_file)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    engines: dict[str, Callable] = {}
    for name, graph in (("fp32", file), ("dynamic int8", small_file)):
        session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        engines[f"onnxruntime, {name}"] = partial(session.run, None)
    hints = {"fp32": "f32"}
    if bf16:
        hints["bf16"] = "bf16"
    for name, hint in hints.items():
        settings = {
            "INFERENCE_PRECISION_HINT": hint,
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
        }
        engines[f"OpenVINO, {name}"] = openvino.Core().compile_model(file, "CPU", settings)
    return engines


def gigaflops(encoder: EchoEncoder, lengths: list[int]) -> float:
    """Floating-point operations of the layers' matrix products over rows of these lengths,
    in billions."""
    weights = 0
    for part in encoder.backbone.modules():
        if isinstance(part, torch.nn.Linear):
            weights += part.weight.numel()
    config = encoder.config
    width = config.hidden_size
    if getattr(config, "head_dim", None):
        width = config.num_attention_heads * config.head_dim
    # Queries with keys, and weights with values: each is a product for every two tokens of a text.
    token_pairs = sum(length * length for length in lengths)
    attention = 2 * config.num_hidden_layers * width * token_pairs
    return 2e-9 * (weights * sum(lengths) + attention)


def products(config: PretrainedConfig) -> tuple[Callable, float]:
    """(a run of fp32 products of the model's up-projection, its operations in billions)."""
    x = torch.randn(TOKENS, config.hidden_size)
    weight = torch.randn(config.intermediate_size, config.hidden_size)
    out = torch.empty(TOKENS, config.intermediate_size)

    def run() -> None:
        for _ in range(PRODUCTS):
            torch.mm(x, weight.t(), out=out)

    return run, PRODUCTS * 2e-9 * TOKENS * weight.numel()


def best_seconds(
    paths: Mapping[str, Callable], rounds: int, clock: Clock
) -> tuple[dict[str, float], dict[str, Any]]:
    """(the best time of each path, what its last run gave); the paths take turns."""
    best = dict.fromkeys(paths, float("inf"))
    outputs = {}
    for _ in range(rounds):
        for path, run in paths.items():
            start = clock()
            outputs[path] = run()
            seconds = clock() - start
            best[path] = min(best[path], seconds)
    return best, outputs


def prompted(model: SentenceTransformer, rows: Texts) -> list[str]:
    return [model.prompts.get(lang, "") + text for lang, text in rows]


def compare_dtypes(
    checkpoint: Path, sets: Mapping[str, Texts], rounds: int, clock: Clock
) -> dict[str, Any]:
    """Best sentences per second of SentenceTransformer.encode, by the dtype that was asked for."""
    options_by_name = {
        "no dtype": {},
        "float32": {"dtype": torch.float32},
        "bfloat16": {"dtype": torch.bfloat16},
    }
    models = {}
    for name, options in options_by_name.items():
        models[name] = SentenceTransformer(str(checkpoint), model_kwargs=options)
    report: dict[str, Any] = {}
    for name, rows in sets.items():
        report[name] = {}
        paths = {}
        for dtype, model in models.items():
            paths[dtype] = partial(model.encode, prompted(model, rows), batch_size=32)
        best, _ = best_seconds(paths, rounds, clock)
        for dtype, seconds in best.items():
            opened = next(models[dtype].parameters()).dtype
            speed = len(rows) / seconds
            row = {"opened_as": str(opened), "sentences_per_second": round(speed, 1)}
            report[name][dtype] = row
            print(f"{name:8} {dtype:10} {row}")
    return report


class Paths:
    """The model behind all paths that are compared, and what they need."""

    def __init__(self, model: Path, folder: Path, threads: int, with_graphs: bool):
        self.st = SentenceTransformer(str(model))
        self.default = SentenceTransformer(str(model), model_kwargs={"dtype": torch.float32})
        self.half = SentenceTransformer(str(model), model_kwargs={"dtype": torch.bfloat16})
        self.encoder, self.tokenizer = load_encoder(model, dtype="fp32")
        self.bf16 = None
        if has_fast_bf16():
            self.bf16, _ = load_encoder(model, dtype="bf16")
        self.engines = {}
        if with_graphs:
            self.engines = graphs(model, folder, threads, self.bf16 is not None)

    def of(self, rows: Texts) -> tuple[dict[str, Callable], list[int]]:
        """(path -> a run over the rows, tokens of each row)."""
        langs = [lang for lang, _ in rows]
        texts = [text for _, text in rows]
        lengths = [len(self.tokenizer(text, lang=lang)["input_ids"]) for lang, text in rows]
        with_prompts = prompted(self.st, rows)
        order = np.argsort(lengths)
        by_tokens = partial(self.by_tokens, with_prompts, order)
        encode_default = partial(self.default.encode, with_prompts, batch_size=32)
        encode_st = partial(self.st.encode, with_prompts, batch_size=32)
        encode_half = partial(self.half.encode, with_prompts, batch_size=32)
        paths = {
            DEFAULT: padded_path(encode_default),
            STOCK: padded_path(encode_st),
            SORTED: padded_path(partial(by_tokens, self.st.encode)),
            ECHO: encode_st,
            "hf-echo encode, fp32": partial(encode, self.encoder, self.tokenizer, texts, langs),
        }
        if self.bf16 is not None:
            paths["hf-echo encode, bf16"] = partial(encode, self.bf16, self.tokenizer, texts, langs)
            if self.engines:
                paths[f"{STOCK}, bfloat16"] = padded_path(encode_half)
        # Other engines read the same batches, sorted by tokens.
        for path, engine in self.engines.items():
            paths[path] = partial(by_tokens, partial(self.by_engine, engine))
        return paths, lengths

    def by_tokens(self, texts: list[str], order: np.ndarray, embed: Callable) -> np.ndarray:
        """sentence-transformers sorts by characters, so batches of equal token length are passed
        one by one."""
        out = np.empty((len(order), self.st.get_embedding_dimension()), np.float32)
        for start in range(0, len(order), 32):
            places = order[start : start + 32]
            texts_of_batch = [texts[place] for place in places]
            out[places] = embed(texts_of_batch)
        return out

    def by_engine(self, engine: Callable, texts: list[str]) -> np.ndarray:
        batch = self.st.tokenizer(texts, padding=True, return_tensors="np")
        outputs = engine({name: batch[name] for name in INPUTS})
        return outputs[0]


def least_cosine(x: np.ndarray, y: np.ndarray) -> float:
    cosines = (unit_length(x) * unit_length(y)).sum(1)
    return float(cosines.min())


def compare_paths(
    compared: Paths, sets: Mapping[str, Texts], rounds: int, threads: int, clock: Clock
) -> dict:
    """Sentences per second of each way to encode, and of the products alone, which is the limit."""
    report: dict[str, Any] = {
        "threads": threads,
        "native_bf16": compared.bf16 is not None,
        "sets": {},
    }
    multiply, multiplied = products(compared.encoder.config)
    for name, rows in sets.items():
        paths, lengths = compared.of(rows)
        best, vectors = best_seconds(paths | {LIMIT: multiply}, rounds, clock)
        rate = multiplied / best[LIMIT]
        # How long the real tokens alone would take at the measured rate.
        best[LIMIT] = gigaflops(compared.encoder, lengths) / rate
        tokens = sum(lengths) / len(rows)
        print(f"{name}: {tokens:.1f} tokens per text, products at {rate:.1f} GFLOP/s")
        report["sets"][name] = {"tokens_a_text": tokens, "gflops": rate}
        for path, seconds in best.items():
            row = {
                "sentences_per_second": round(len(rows) / seconds, 1),
                "times_default": round(best[DEFAULT] / seconds, 2),
                "times_st": round(best[STOCK] / seconds, 2),
                "times_st_sorted_by_tokens": round(best[SORTED] / seconds, 2),
            }
            if path != LIMIT:
                row["min_cosine"] = round(least_cosine(vectors[path], vectors[DEFAULT]), 5)
            report["sets"][name][path] = row
            print(f"{name:8} {path:36} {row}")
    return report


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path)
    parser.add_argument(
        "--shape", choices=["nano", "e5-small"], default="nano", help="without --model"
    )
    parser.add_argument("--english", type=Path)
    parser.add_argument("--mixed", type=Path)
    parser.add_argument("-n", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--dtypes", action="store_true", help="compare dtypes, not paths; needs --model"
    )
    parser.add_argument("--graphs", action="store_true", help="also onnxruntime and OpenVINO")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if args.dtypes and args.model is None:
        parser.error("--dtypes needs --model CHECKPOINT")
    torch.set_num_threads(args.threads)
    clock = time.process_time if args.threads == 1 else time.perf_counter
    sets = {
        "english": read_or_draw(args.english, args.n, [ENGLISH]),
        "mixed": read_or_draw(args.mixed, args.n, list(LANGUAGES)),
    }
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if args.dtypes:
            report = compare_dtypes(args.model, sets, args.rounds, clock)
        else:
            model = args.model
            if model is None:
                texts = [text for _, text in chain.from_iterable(sets.values())]
                model = random_checkpoint(texts, folder / "echo", args.shape)
            compared = Paths(model, folder, args.threads, args.graphs)
            report = compare_paths(compared, sets, args.rounds, args.threads, clock)
    if args.json:
        write_json(args.json, report)


if __name__ == "__main__":
    main()
