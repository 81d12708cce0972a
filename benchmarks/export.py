"""What a model loses by its exports: 1,000 sentences of 20 languages, 1 to 500 tokens long, against
torch in float32.

    python benchmarks/export.py CORPORA OUT [--model echo-nano]

CORPORA holds flores_sib.parquet (index_id, lang, text). The exports are written into OUT where they
are not there yet, and the float32 embeddings into OUT/float32.npz, for programs of other
environments. Every fifth sentence is cut to its first words, every tenth joined with the next ones.
All graphs read batches of 16 sentences of mixed lengths. Prints for each file its size, the largest
difference of embeddings of length 1, the mean and least cosine, and sentences per second with one
thread. xsim: percent of sentences that find another English one first.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from parallel_texts import nway

from hf_echo.export import export_checkpoint
from hf_echo.export.stock import open_stock
from hf_echo.inference import encode, load_encoder
from hf_echo.steps.public_text import add_corpora, corpora_of
from hf_echo.utils.hub import packaged_model
from hf_echo.utils.results import markdown_table
from hf_echo.utils.vectors import unit_length

Batch = Mapping[str, torch.Tensor]

LANGUAGES = [
    "eng_Latn",
    "fra_Latn",
    "deu_Latn",
    "spa_Latn",
    "por_Latn",
    "ita_Latn",
    "nld_Latn",
    "pol_Latn",
    "tur_Latn",
    "vie_Latn",
    "swh_Latn",
    "rus_Cyrl",
    "ukr_Cyrl",
    "ell_Grek",
    "arb_Arab",
    "heb_Hebr",
    "hin_Deva",
    "tha_Thai",
    "zho_Hans",
    "jpn_Jpan",
]
EACH = 50  # sentences of a language
ROWS = 16  # of a batch
# Rows of the table: the file of a graph, or the precision that OpenVINO computes in.
ONNX_FILES = {"ONNX": "sentence_embedding", "ONNX, 8 bits": "sentence_embedding_quantized"}
OPENVINO_HINTS = {"OpenVINO": "f32", "OpenVINO, bf16": "bf16"}


def sentences(corpora: Path) -> list[str]:
    """EACH sentences of each language, the same in all, in an order by seed."""
    table = nway(corpora / "flores_sib.parquet", "index_id", LANGUAGES)[:EACH]
    texts = table[LANGUAGES].to_numpy().T.ravel().tolist()
    for number in range(0, len(texts), 5):
        if number % 10 == 0:
            end = number + 1 + number % 8
            texts[number] = " ".join(texts[number:end])
        else:
            length = 1 + number % 40
            texts[number] = texts[number][:length]
    return texts


def run(texts: list[str], batch: Callable, embed: Callable) -> tuple[np.ndarray, float]:
    """(unit embeddings, seconds)."""
    order = np.random.default_rng(0).permutation(len(texts))
    parts = []
    began = time.perf_counter()
    for start in range(0, len(texts), ROWS):
        places = order[start : start + ROWS]
        inputs = batch([texts[i] for i in places])
        parts.append(embed(inputs))
    seconds = time.perf_counter() - began
    # Back to the order of the texts.
    vectors = np.empty((len(texts), parts[0].shape[1]), np.float32)
    vectors[order] = np.concatenate(parts)
    return unit_length(vectors), seconds


def graphs(out: Path, stock: Any) -> dict[str, tuple[Path, Callable]]:
    """{name: (file, function of a batch)}"""
    import onnxruntime
    import openvino

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    embeddings: dict[str, tuple[Path, Callable]] = {}
    for name, file in ONNX_FILES.items():
        path = out / "onnx" / "onnx" / f"{file}.onnx"
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        embeddings[name] = (path, partial(by_onnx, session))
    weights = out / "openvino" / "openvino" / "openvino_model.bin"
    graph = weights.with_suffix(".xml")
    for name, hint in OPENVINO_HINTS.items():
        settings = {"INFERENCE_PRECISION_HINT": hint, "INFERENCE_NUM_THREADS": 1}
        model = openvino.compile_model(graph, "CPU", settings)
        embeddings[name] = (weights, partial(by_openvino, model, stock.encoder))
    return embeddings


def arrays(batch: Batch) -> dict[str, np.ndarray]:
    return {key: value.numpy() for key, value in batch.items()}


def by_onnx(session: Any, batch: Batch) -> np.ndarray:
    outputs = session.run(None, arrays(batch))
    return outputs[0]


@torch.no_grad()
def by_openvino(model: Callable, encoder: Any, batch: Batch) -> np.ndarray:
    """The graph ends with the states of the tokens; torch pools them."""
    outputs = model(arrays(batch))
    states = torch.from_numpy(outputs["last_hidden_state"])
    return encoder.pool(states, batch["attention_mask"]).numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    add_corpora(parser)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", default="echo-nano")
    arguments = parser.parse_args()
    model = packaged_model(arguments.model)
    texts = sentences(corpora_of(arguments, "flores_sib"))
    for kind in ("onnx", "openvino"):
        if not (arguments.out / kind).is_dir():
            print(export_checkpoint(model, arguments.out / kind, to=kind))
    # What all files are compared with.
    stock = open_stock(model)
    stock.encoder.eval()
    began = time.perf_counter()
    truth = encode(*load_encoder(model, dtype="fp32"), texts, normalize=True)
    seconds = time.perf_counter() - began
    speed = len(texts) / seconds
    rows = [["encode, float32", "", "", "", "", f"{speed:.0f}", xsim(truth)]]
    np.savez(arguments.out / "float32.npz", texts=texts, vectors=truth)
    for name, (file, embed) in graphs(arguments.out, stock).items():
        vectors, seconds = run(texts, stock.batch, embed)
        cosines = (vectors * truth).sum(1)
        largest = np.abs(vectors - truth).max()
        megabytes = file.stat().st_size / 1e6
        speed = len(texts) / seconds
        row = [
            name,
            f"{megabytes:.0f}",
            f"{largest:.1e}",
            f"{cosines.mean():.5f}",
            f"{cosines.min():.5f}",
            f"{speed:.0f}",
            xsim(vectors),
        ]
        rows.append(row)
    header = ["file", "MB", "largest difference", "mean cosine", "least", "sentences/s", "xsim"]
    print(markdown_table(header, rows))


def xsim(vectors: np.ndarray) -> str:
    """Percent of sentences of other languages whose nearest English one is not their own."""
    # (languages, sentences, dimensions)
    english, *others = vectors.reshape(len(LANGUAGES), EACH, -1)
    nearest = []
    for side in others:
        cosines = side @ english.T
        nearest.append(cosines.argmax(1))
    error_rate = np.mean(nearest != np.arange(EACH))
    return f"{100 * error_rate:.2f}"


if __name__ == "__main__":
    main()
