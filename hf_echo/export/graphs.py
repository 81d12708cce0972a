"""ONNX and OpenVINO graphs of an encoder, in 32 and 8 bits.

    onnx/model.onnx                   ids and mask -> last_hidden_state: what sentence-transformers pools itself
    onnx/sentence_embedding.onnx      ids and mask -> sentence_embedding (pooled, projected, of length 1) and the states
    onnx/*_quantized.onnx             the same in 8 bits, by the name that transformers.js looks for
    openvino/openvino_model.xml       as onnx/model.onnx

Number and length of texts are free in all graphs. optimum, the usual way to these files, is not
used: optimum-onnx 0.1 needs transformers below 4.58 and optimum-intel 2.2 transformers below 5.6.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import nn

from ..data.builtin import builtin_nway
from ..utils.files import first_line
from .stock import Stock

logger = logging.getLogger(__name__)

WHOLE = "sentence_embedding"  # file of the graph that also pools
STATES = "model"  # file of the graph of token states
INPUTS = ["input_ids", "attention_mask"]
OUTPUTS = ["sentence_embedding", "last_hidden_state"]
LEAST_COSINE = 0.99  # of the 8-bit graph to the float32 one, in the mean over the sentences
ROWS = 10  # meanings of the built-in corpus, in ten languages
LARGEST = 2**31 - 2**24  # bytes of weights in one file of protobuf


class SentenceGraph(nn.Module):
    """Ids and mask -> (embeddings of length 1, token states)."""

    def __init__(self, stock: Stock):
        super().__init__()
        self.backbone = stock.backbone
        self.projection = stock.encoder.projection  # `pool` applies it
        self.pool = stock.encoder.pool

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.backbone(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        pooled = self.pool(hidden, attention_mask)
        return nn.functional.normalize(pooled, dim=-1), hidden


def write_onnx(stock: Stock, folder: Path) -> dict[str, Any]:
    """Write the ONNX files; returns {"cosine_8_bits"}, the mean cosine to the float32 graph over
    ten languages.

    Below `LEAST_COSINE` the 8-bit files are left out, with a warning.

    Raises:
        ValueError: the backbone cannot be exported, or is too large for one file.
    """
    import onnx.utils

    folder.mkdir(parents=True)
    whole = folder / f"{WHOLE}.onnx"
    small = folder / f"{WHOLE}_quantized.onnx"
    export_graph(stock, whole)
    write_8_bits(whole, small)
    files = [whole, small]
    # 8 bits are for the user only where they change little.
    cosine = mean_cosine(stock, whole, small)
    if cosine < LEAST_COSINE:
        files.remove(small)
        small.unlink()
        logger.warning(
            "no 8-bit files: their mean cosine to the float32 embeddings is %.4f, below %s",
            cosine,
            LEAST_COSINE,
        )
    # A graph without the pooling, for programs that pool themselves.
    for file in files:
        states = file.with_name(file.name.replace(WHOLE, STATES))
        onnx.utils.extract_model(file, states, INPUTS, OUTPUTS[1:])
    return {"cosine_8_bits": round(cosine, 4)}


def write_8_bits(file: Path, small: Path) -> None:
    """Write a graph with weights in 8 bits: matrices with a scale for each 128 of a column, token
    vectors with one.

    Activations keep their precision where a processor (or a browser) has no faster way, so that a
    text has the same embedding in every batch. `quantize_dynamic` has one scale for all activations
    of a batch and one for all token vectors, which costs more.
    """
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import (
        DefaultWeightOnlyQuantConfig,
        MatMulNBitsQuantizer,
    )

    # let products run in 8 bits, with a scale for each 128 activations, where that is faster
    fast = 4
    settings = DefaultWeightOnlyQuantConfig(
        bits=8, block_size=128, is_symmetric=True, accuracy_level=fast
    )
    with _quiet():
        matrices = MatMulNBitsQuantizer(onnx.load(file), algo_config=settings)
        matrices.process()
    _rows_in_8_bits(matrices.model.model.graph)
    onnx.save(matrices.model.model, small)


def _rows_in_8_bits(graph: Any) -> None:
    """Store the tables that a graph takes rows of as int8 with a scale per row."""
    from onnx import TensorProto, helper, numpy_helper

    tables = {}
    for table in graph.initializer:
        if len(table.dims) == 2 and table.data_type == TensorProto.FLOAT:
            tables[table.name] = table
    # Each Gather of a table becomes: take int8 rows, make them floats, multiply by their scales.
    nodes: list[Any] = []
    for node in graph.node:
        if node.op_type != "Gather" or node.input[0] not in tables:
            nodes.append(node)
            continue
        name, ids = node.input
        (out,) = node.output
        vectors = numpy_helper.to_array(tables[name])
        largest = np.abs(vectors).max(1, keepdims=True)
        scales = np.maximum(largest, 1e-12) / np.float32(127)
        rows = np.rint(vectors / scales).astype(np.int8)
        graph.initializer.append(numpy_helper.from_array(rows, f"{out}.rows"))
        graph.initializer.append(numpy_helper.from_array(scales, f"{out}.scales"))
        nodes += [
            helper.make_node("Gather", [f"{out}.rows", ids], [f"{out}.taken"]),
            helper.make_node("Cast", [f"{out}.taken"], [f"{out}.float"], to=TensorProto.FLOAT),
            helper.make_node("Gather", [f"{out}.scales", ids], [f"{out}.scale"]),
            helper.make_node("Mul", [f"{out}.float", f"{out}.scale"], [out]),
        ]
    # Tables that no node reads any more leave the file.
    used = set()
    for node in nodes:
        used.update(node.input)
    for name, table in tables.items():
        if name not in used:
            graph.initializer.remove(table)
    del graph.node[:]
    graph.node.extend(nodes)


def write_openvino(stock: Stock, folder: Path) -> dict[str, Any]:
    """Write the graph of token states for OpenVINO, in float32:
    bf16 is a hint of the program that runs it."""
    import openvino

    with TemporaryDirectory() as place:
        whole = Path(place) / "whole.onnx"
        export_graph(stock, whole)
        graph = openvino.convert_model(whole, output=OUTPUTS[1:])
        openvino.save_model(graph, folder / "openvino_model.xml", compress_to_fp16=False)
    return {}


def export_graph(stock: Stock, file: Path) -> None:
    """Write `SentenceGraph` as one ONNX file."""
    import onnx

    # The size first: torch's exporter would run out of memory at the end.
    graph = SentenceGraph(stock).eval()
    size = 4 * sum(weight.numel() for weight in graph.parameters())
    if size > LARGEST:
        raise ValueError(
            f"{size / 1e9:.1f} GB of weights do not fit into one ONNX file, which holds 2 GB"
        )
    # Batch and sequence are of any length.
    batch = stock.batch(["a b c", "d"])
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence", max=stock.max_length)}
    try:
        with _quiet(), torch.no_grad():
            program = torch.onnx.export(
                graph,
                tuple(batch[name] for name in INPUTS),
                input_names=INPUTS,
                output_names=OUTPUTS,
                dynamic_shapes=(axes, axes),
                opset_version=18,
                verbose=False,
                dynamo=True,
            )
    except Exception as error:  # torch.export and the exporter have many
        cause = error.__cause__ or error  # the exporter wraps it in advice
        kind = stock.backbone.config.model_type
        raise ValueError(
            f"a backbone of type {kind!r} has no ONNX form: {first_line(cause)}"
        ) from error
    # The exporter leaves tracebacks in the file, with paths of this machine.
    model = program.model_proto
    inner = model.graph
    for part in (
        model,
        inner,
        *inner.node,
        *inner.input,
        *inner.output,
        *inner.value_info,
        *inner.initializer,
    ):
        del part.metadata_props[:]
    onnx.save(model, file)


def mean_cosine(stock: Stock, one: Path, other: Path) -> float:
    """Mean cosine between the embeddings of two graphs, over sentences in ten languages."""
    batch = stock.batch(builtin_nway(ROWS, split="test")["text"][:])
    cosines = (run_graph(one, batch) * run_graph(other, batch)).sum(-1)
    return float(cosines.mean())


def run_graph(file: Path, batch: dict[str, torch.Tensor]) -> np.ndarray:
    """(texts, embedding_size) float32: the first output of an ONNX file."""
    import onnxruntime

    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return session.run(None, {name: batch[name].numpy() for name in INPUTS})[0]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's notes about packages and axis names, its printed graphs,
    and the quantizer's notes."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
