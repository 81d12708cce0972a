"""Write a checkpoint in another format, as one folder with a lineage and a card."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from ..utils.extras import check_extra
from ..utils.folders import write_folder
from ..utils.lineage import write_lineage
from .graphs import write_onnx, write_openvino
from .static import write_static
from .stock import Stock, open_stock, write_stock

Format = Literal["stock", "onnx", "openvino", "static"]
# Format -> what writes it; the extra has the name of the format.
PACKAGES = {
    "onnx": ("onnx", "onnxscript", "onnxruntime"),
    "openvino": ("openvino", "onnx", "onnxscript"),
    "static": ("model2vec", "skeletoken"),
}
GRAPHS: dict[str, Callable[..., dict[str, Any]]] = {"onnx": write_onnx, "openvino": write_openvino}


def export_checkpoint(
    model: str | Path, out: str | Path, *, to: Format = "stock"
) -> dict[str, Any]:
    """Write a checkpoint in a format that opens without hf_echo.

    Args:
        model: checkpoint or release of a text encoder: folder, Hub name or model of the package.
        to: "stock": transformers and sentence-transformers; "onnx", "openvino": graphs in a folder
            of that name, with what sentence-transformers' backend of that name reads; "static": a
            table of token vectors, distilled by model2vec.

    Returns:
        What was measured: of ONNX the cosine of the 8-bit graph, of static embeddings xsim beside
            that of the model.

    Raises:
        FileNotFoundError: no such model. ImportError: a package is missing.
        ValueError: the format cannot hold this model.
    """
    check_packages(to)
    stock = open_stock(model)
    with write_folder(out) as folder:
        report = _write(stock, model, folder, to)
        results = report | {"languages": stock.encoder.config.languages}
        write_lineage(
            folder, "export", {"to": to}, parents={"model": model}, results=results, output_dir=out
        )
    return report


def check_packages(to: str) -> None:
    """Raises ImportError where a package is missing that writes this format."""
    check_extra(to, PACKAGES.get(to, ()))


def _write(stock: Stock, model: str | Path, folder: Path, to: str) -> dict[str, Any]:
    if to == "static":
        return write_static(stock, model, folder)
    write_stock(stock, folder, weights=to == "stock")
    return GRAPHS[to](stock, folder / to) if to in GRAPHS else {}
