"""BLASER 2.0 (ref or qe) from fairseq2's file as a `BlaserModel`."""

from __future__ import annotations

import re
from pathlib import Path

from ...modeling import BlaserConfig, BlaserModel
from ...modeling.configuration_blaser import INPUTS
from .weights import load_torch
from .writing import SONAR_LICENSE, converted

EMBEDDING_SIZE = 1024  # of SONAR
PARTS = ("weight", "bias")


def convert_blaser(file: str | Path, out: str | Path, *, license: str = SONAR_LICENSE) -> Path:
    """Write BLASER 2.0 as a folder that `AutoModel` opens; ref or qe is read from the first layer's
    width.

    Raises:
        FileNotFoundError: no such file. ValueError: it is not BLASER 2.0, or holds pickled code.
    """
    checkpoint = load_torch(file)
    tensors = dict(checkpoint.get("model", checkpoint))
    # mlp.1, mlp.4, mlp.7: what stands between them has no weights.
    numbers = {
        int(number)
        for number in re.findall(r"^mlp\.(\d+)\.weight$", "\n".join(tensors), re.MULTILINE)
    }
    layers = [f"mlp.{number}" for number in sorted(numbers)]
    names = {f"{layer}.{part}" for layer in layers for part in PARTS}
    if not layers or names != tensors.keys() or tensors[f"{layers[-1]}.weight"].shape[0] != 1:
        raise ValueError(
            f"{file} is not BLASER 2.0: tensors mlp.N.weight and mlp.N.bias that end in one score are"
        )
    first_weight = tensors[f"{layers[0]}.weight"]
    width = first_weight.shape[1]
    kinds = {count * EMBEDDING_SIZE: kind for kind, count in INPUTS.items()}
    if width not in kinds:
        widths = " or ".join(f"{width:,} ({kind})" for width, kind in kinds.items())
        raise ValueError(f"{file} reads {width:,} numbers; BLASER 2.0 reads {widths}")
    hidden_sizes = [tensors[f"{layer}.weight"].shape[0] for layer in layers[:-1]]
    config = BlaserConfig(
        kind=kinds[width], embedding_size=EMBEDDING_SIZE, hidden_sizes=hidden_sizes
    )
    state = {}
    for i, layer in enumerate(layers):  # ours are 1, 4, 7, whatever the numbers in the file
        for part in PARTS:
            state[f"mlp.{1 + 3 * i}.{part}"] = tensors[f"{layer}.{part}"]
    model = BlaserModel.from_pretrained(
        None, config=config, state_dict=state, dtype=first_weight.dtype
    )
    with converted(out, "blaser", {"license": license}, source=file) as folder:
        model.save_pretrained(folder)
    return Path(out)
