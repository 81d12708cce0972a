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
    """Write BLASER 2.0 as a folder that `AutoModel` opens; ref or qe is read from the first layer's width.

    Raises:
        FileNotFoundError: no such file. ValueError: it is not BLASER 2.0, or holds pickled code.
    """
    checkpoint = load_torch(file)
    tensors = dict(checkpoint.get("model", checkpoint))
    # mlp.1, mlp.4, mlp.7: what stands between them has no weights.
    numbers = sorted({int(found[1]) for name in tensors if (found := re.fullmatch(r"mlp\.(\d+)\.weight", name))})
    wanted = {f"mlp.{number}.{part}" for number in numbers for part in PARTS}
    if not numbers or wanted != tensors.keys() or tensors[f"mlp.{numbers[-1]}.weight"].shape[0] != 1:
        raise ValueError(f"{file} is not BLASER 2.0: tensors mlp.N.weight and mlp.N.bias that end in one score are")
    width = tensors[f"mlp.{numbers[0]}.weight"].shape[1]
    kind = {count * EMBEDDING_SIZE: kind for kind, count in INPUTS.items()}.get(width)
    if kind is None:
        known = " or ".join(f"{count * EMBEDDING_SIZE:,} ({kind})" for kind, count in INPUTS.items())
        raise ValueError(f"{file} reads {width:,} numbers; BLASER 2.0 reads {known}")
    sizes = [tensors[f"mlp.{number}.weight"].shape[0] for number in numbers[:-1]]
    config = BlaserConfig(kind=kind, embedding_size=EMBEDDING_SIZE, hidden_sizes=sizes)
    state = {f"mlp.{1 + 3 * i}.{part}": tensors[f"mlp.{n}.{part}"] for i, n in enumerate(numbers) for part in PARTS}
    dtype = tensors[f"mlp.{numbers[0]}.weight"].dtype
    model = BlaserModel.from_pretrained(None, config=config, state_dict=state, dtype=dtype)
    with converted(out, "blaser", {"license": license}, source=file) as folder:
        model.save_pretrained(folder)
    return Path(out)
