"""Sentences per second: sentence-transformers against `hf_echo.inference.encode`, in one run.

    python benchmarks/encode_speed.py [--model CHECKPOINT] [--english FILE] [--mixed FILE] [--threads 1]
    python benchmarks/encode_speed.py --model CHECKPOINT --dtypes [--threads 1]

Without files, the texts have one to six sentences of the built-in corpus. `mixed` lines may be `code<TAB>text`. Without
a model, random weights are used, because speed does not depend on them, with a tokenizer trained on the texts: six
layers of 256/1024, or with `--shape e5-small` the twelve of multilingual-e5-small. Rounds are interleaved (A B C,
A B C, ...), and the best of each counts: CPU time with one thread (machines are shared), wall time with more. "Padded"
is the forward pass of transformers' blocks, as in any stock model. `times_default` and the cosines compare with
sentence-transformers' default, that path in float32; `times_st` and `times_st_sorted_by_tokens` with that path in the
dtype in which the model opens here.

`--graphs` adds onnxruntime and OpenVINO (extras onnx, openvino) on the graphs of `hf-echo export`, in batches of 32
sorted by tokens, and the padded path in bfloat16.

`--dtypes` compares SentenceTransformer.encode of the model opened without a dtype, in float32 and in bfloat16.

The last line is a bound: the time of the real tokens' matrix products alone, at the fp32 rate of these rounds. (It
includes the parts of the last layer that pooling makes unnecessary: about 15 % of a CLS model of six layers.)
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from transformers import BertConfig

import hf_echo  # noqa: F401
from hf_echo import EchoConfig, EchoEncoder
from hf_echo.checkpoints.pruning.shapes import SIZES
from hf_echo.data.builtin import LANGUAGES, builtin_nway
from hf_echo.export.graphs import INPUTS, export_graph
from hf_echo.export.stock import open_stock
from hf_echo.inference import encode, load_encoder
from hf_echo.inference.encode import has_fast_bf16
from hf_echo.modeling import modeling_echo_encoder
from hf_echo.stages.core.model_shape import new_config
from hf_echo.vocabulary import train_tokenizer

DEFAULT = "ST, Echo, padded, float32"
STOCK, SORTED = "ST, Echo, padded", "ST, Echo, padded, sorted by tokens"
ECHO = "ST, Echo"
LIMIT = "bound: products of real tokens"


def builtin_texts(n: int, languages) -> list[tuple[str, str]]:
    rng = random.Random(0)
    by_lang = {lang: builtin_nway(2000, languages=[lang])["text"] for lang in languages}
    return [
        (lang, " ".join(rng.choices(by_lang[lang], k=rng.choice((1, 1, 2, 3, 6)))))
        for lang in rng.choices(languages, k=n)
    ]


def read(path: Path, n: int, default: str) -> list[tuple[str, str]]:
    lines = [line.split("\t", 1) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [(row[0], row[1]) if len(row) == 2 else (default, row[0]) for row in lines][:n]


def random_checkpoint(texts: list[str], folder: Path, shape: str) -> Path:
    tokenizer = train_tokenizer(texts, 8000, max_length=256, progress=False)
    if shape == "e5-small":  # that of multilingual-e5-small
        sizes = dict(hidden_size=384, num_hidden_layers=12, num_attention_heads=12, intermediate_size=1536)
        roles = {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id") for role in ("pad", "cls", "sep")}
        backbone = BertConfig(vocab_size=len(tokenizer), **sizes, pad_token_id=roles["pad_token_id"])
        model = EchoEncoder(EchoConfig(backbone=backbone, pooling="mean", embedding_size=None, **roles))
        model.save_pretrained(folder)
    else:
        values = {**SIZES["nano"], "embedding_size": 256, "pooling": "mean", "decoder_layers": 1}
        hf_echo.EchoForTranslation(new_config(values, tokenizer)).save_release(folder)
    tokenizer.save_pretrained(folder)
    return folder


def padded_path(run: Callable) -> Callable:
    """The same call without the encoder's packed forward pass."""

    def call():
        with patch.object(modeling_echo_encoder, "packed_states", lambda *_: None):
            return run()

    return call


def graphs(model: str | Path, folder: Path, threads: int, bf16: bool) -> dict[str, Callable]:
    """Path -> (ids and mask of a batch) -> embeddings, by other engines."""
    import onnxruntime
    import openvino

    file = folder / "graph.onnx"
    export_graph(open_stock(model), file)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    paths = {"onnxruntime, fp32": lambda batch: session.run(None, batch)[0]}
    for name, hint in {"fp32": "f32", **({"bf16": "bf16"} if bf16 else {})}.items():
        settings = {"INFERENCE_PRECISION_HINT": hint, "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1}
        compiled = openvino.Core().compile_model(file, "CPU", settings)
        paths[f"OpenVINO, {name}"] = lambda batch, compiled=compiled: compiled(batch)[0]
    return paths


def gigaflops(encoder, lengths: list[int]) -> float:
    """Floating-point operations of the layers' matrix products over rows of these lengths, in billions."""
    weights = sum(part.weight.numel() for part in encoder.backbone.modules() if isinstance(part, torch.nn.Linear))
    config = encoder.config
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    pairs = config.num_hidden_layers * config.num_attention_heads * head * sum(n * n for n in lengths)
    return 2e-9 * (weights * sum(lengths) + 2 * pairs)


def products(config, tokens: int = 1536) -> tuple[Callable, float]:
    """(a run of fp32 products of the model's up-projection, its operations in billions)."""
    x, w = torch.randn(tokens, config.hidden_size), torch.randn(config.intermediate_size, config.hidden_size)
    out = torch.empty(tokens, config.intermediate_size)

    def run():
        for _ in range(30):
            torch.mm(x, w.t(), out=out)

    return run, 30 * 2e-9 * tokens * w.numel()


def compare_dtypes(checkpoint: Path, sets: dict, rounds: int, clock: Callable) -> dict:
    """Best sentences per second of SentenceTransformer.encode, by the dtype that was asked for."""
    asked = {"no dtype": {}, "float32": {"dtype": torch.float32}, "bfloat16": {"dtype": torch.bfloat16}}
    models = {name: SentenceTransformer(str(checkpoint), model_kwargs=kw) for name, kw in asked.items()}
    report = {}
    for name, rows in sets.items():
        best = dict.fromkeys(models, float("inf"))
        for _ in range(rounds):
            for dtype, model in models.items():
                prompted = [model.prompts.get(lang, "") + text for lang, text in rows]
                start = clock()
                model.encode(prompted, batch_size=32)
                best[dtype] = min(best[dtype], clock() - start)
        for dtype, seconds in best.items():
            opened = str(next(models[dtype].parameters()).dtype)
            row = {"opened_as": opened, "sentences_per_second": round(len(rows) / seconds, 1)}
            report.setdefault(name, {})[dtype] = row
            print(f"{name:8} {dtype:10} {row}")
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--shape", choices=["nano", "e5-small"], default="nano", help="without --model")
    parser.add_argument("--english", type=Path)
    parser.add_argument("--mixed", type=Path)
    parser.add_argument("-n", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--dtypes", action="store_true", help="compare dtypes, not paths; needs --model")
    parser.add_argument("--graphs", action="store_true", help="also onnxruntime and OpenVINO")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if args.dtypes and args.model is None:
        parser.error("--dtypes needs --model CHECKPOINT")
    torch.set_num_threads(args.threads)
    clock = time.process_time if args.threads == 1 else time.perf_counter
    english, mixed = (args.english, ["eng_Latn"]), (args.mixed, list(LANGUAGES))
    sets = {
        name: read(file, args.n, "eng_Latn") if file else builtin_texts(args.n, languages)
        for name, (file, languages) in {"english": english, "mixed": mixed}.items()
    }
    if args.dtypes:
        report = compare_dtypes(args.model, sets, args.rounds, clock)
        if args.json:
            args.json.write_text(json.dumps(report, indent=2))
        return
    with tempfile.TemporaryDirectory() as tmp:
        texts = [text for rows in sets.values() for _, text in rows]
        model = args.model or random_checkpoint(texts, Path(tmp) / "echo", args.shape)
        st = SentenceTransformer(str(model))
        default = SentenceTransformer(str(model), model_kwargs={"dtype": torch.float32})
        half = SentenceTransformer(str(model), model_kwargs={"dtype": torch.bfloat16})
        encoder, tokenizer = load_encoder(model, dtype="fp32")
        bf16 = load_encoder(model, dtype="bf16")[0] if has_fast_bf16() else None
        engines = graphs(model, Path(tmp), args.threads, bf16 is not None) if args.graphs else {}
        multiply, multiplied = products(encoder.config)
        report = {"threads": args.threads, "native_bf16": bf16 is not None, "sets": {}}
        for name, rows in sets.items():
            langs, texts = [lang for lang, _ in rows], [text for _, text in rows]
            prompted = [st.prompts.get(lang, "") + text for lang, text in rows]
            lengths = [len(tokenizer(text, lang=lang)["input_ids"]) for lang, text in rows]
            order = np.argsort(lengths)

            def by_tokens(embed=st.encode, prompted=prompted, order=order):
                # sentence-transformers sorts by characters, so batches of equal token length are passed one by one
                out = np.empty((len(order), st.get_embedding_dimension()), np.float32)
                for i in range(0, len(order), 32):
                    out[order[i : i + 32]] = embed([prompted[j] for j in order[i : i + 32]])
                return out

            def by_engine(run, by_tokens=by_tokens):
                def embed(some):
                    batch = st.tokenizer(some, padding=True, return_tensors="np")
                    return run({name: batch[name] for name in INPUTS})

                return by_tokens(embed)

            paths = {
                DEFAULT: padded_path(lambda prompted=prompted: default.encode(prompted, batch_size=32)),
                STOCK: padded_path(lambda prompted=prompted: st.encode(prompted, batch_size=32)),
                SORTED: padded_path(by_tokens),
                ECHO: lambda prompted=prompted: st.encode(prompted, batch_size=32),
                "hf-echo encode, fp32": lambda texts=texts, langs=langs: encode(encoder, tokenizer, texts, langs),
            }
            if bf16 is not None:
                paths["hf-echo encode, bf16"] = lambda texts=texts, langs=langs: encode(bf16, tokenizer, texts, langs)
            if engines and bf16 is not None:
                paths[f"{STOCK}, bfloat16"] = padded_path(partial(half.encode, prompted, batch_size=32))
            paths |= {path: partial(by_engine, run) for path, run in engines.items()}
            best, vectors = dict.fromkeys([*paths, LIMIT], float("inf")), {}
            for _ in range(args.rounds):
                for path, run in {**paths, LIMIT: multiply}.items():
                    start = clock()
                    vectors[path] = run()
                    best[path] = min(best[path], clock() - start)
            rate = multiplied / best[LIMIT]
            best[LIMIT] = gigaflops(encoder, lengths) / rate
            print(f"{name}: {sum(lengths) / len(rows):.1f} tokens per text, products at {rate:.1f} GFLOP/s")
            reference = vectors[DEFAULT]
            report["sets"][name] = {"tokens_a_text": sum(lengths) / len(rows), "gflops": rate}
            for path, seconds in best.items():
                row = {
                    "sentences_per_second": round(len(texts) / seconds, 1),
                    "times_default": round(best[DEFAULT] / seconds, 2),
                    "times_st": round(best[STOCK] / seconds, 2),
                    "times_st_sorted_by_tokens": round(best[SORTED] / seconds, 2),
                }
                if path != LIMIT:
                    x = vectors[path]
                    cosine = (x * reference).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(reference, axis=1)
                    row["min_cosine"] = round(float(cosine.min()), 5)
                report["sets"][name][path] = row
                print(f"{name:8} {path:36} {row}")
    if args.json:
        args.json.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
