"""README.md of a converted checkpoint: what it was made from, under which licence, how it opens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from transformers.utils import cached_file

SNIPPET = "```python\n{code}\n```\n"


def write_card(
    folder: str | Path,
    *,
    title: str,
    about: str,
    code: str,
    licence: str | None,
    base_model: str | None,
    tags: Sequence[str],
    languages: Sequence[str] = (),
    library: str = "sentence-transformers",
) -> None:
    """
    Args:
        about: paragraphs under the title.
        code: Python that opens it; THIS_REPO stands for its name.
        licence: identifier of the Hub; the one of the weights that were converted.
        languages: codes such as fra_Latn.
    """
    header = {"license": licence, "library_name": library, "base_model": base_model}
    lines = [f"{name}: {value}" for name, value in header.items() if value]
    if tags:
        lines += ["tags:", *(f"- {tag}" for tag in tags)]
    if languages:
        # "no" in quotes: YAML reads the bare word as false.
        lines += ["language:", *(f'- "{code}"' for code in sorted({code.split("_")[0] for code in languages}))]
    text = "\n".join(["---", *lines, "---", "", f"# {title}", "", about, "", SNIPPET.format(code=code)])
    (Path(folder) / "README.md").write_text(text, encoding="utf-8")


def licence_of(name: str | Path) -> str | None:
    """The licence in the header of the README.md of a folder or Hub name; None where there is none."""
    from huggingface_hub import ModelCard

    file = cached_file(str(name), "README.md", _raise_exceptions_for_missing_entries=False)
    return ModelCard.load(file).data.get("license") if file else None
