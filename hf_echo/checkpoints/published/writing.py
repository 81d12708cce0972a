"""The folder of a converted model: written whole, with its lineage and its card."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...cards.model_card import write_checkpoint_card
from ...cards.stamp import license_of
from ...utils.folders import write_folder
from ...utils.hub import snapshot
from ...utils.lineage import write_lineage

SONAR_LICENSE = "cc-by-nc-4.0"  # of SONAR's text and speech encoders and of BLASER


@contextmanager
def converted(
    out: str | Path, operation: str, values: Mapping[str, Any], **parents: str | Path | None
) -> Iterator[Path]:
    """Gives an empty folder to write the model to; it becomes `out` when the block ends without an error.

    Args:
        operation, values: name and settings of the conversion, for the lineage; `license` is the card's.
        parents: what the model was made of, by role; `source` first. None is left out.
    """
    with write_folder(out) as folder:
        yield folder
        known = {role: name for role, name in parents.items() if name is not None}
        write_lineage(folder, operation, values, parents=known, output_dir=out)
        write_checkpoint_card(folder)


def license_of_source(source: str | Path) -> str | None:
    """The license in the README.md of a folder or Hub name; None for a file, or where there is none."""
    return None if Path(source).is_file() else license_of(snapshot(source))
