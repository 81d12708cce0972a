"""Repository, version and license in a card, written when the repository is known: at the push.

Code blocks of a new card name THIS_REPO and THIS_VERSION. The last line of a pushed card, a
comment, names what stands there now, so that the next push finds it; text that was added by hand
stays.
"""

from __future__ import annotations

import re
from pathlib import Path

BLOCK = re.compile(r"^```python\n.*?^```$", flags=re.MULTILINE | re.DOTALL)
MARK = re.compile(r"\n<!-- hf-echo: (\S+) (\S+) -->\n?\Z")
NEW = ("THIS_REPO", "THIS_VERSION")


def stamp(text: str, repo: str, tag: str) -> str:
    """A card, new or stamped before, with this repository and tag in its Python blocks; unchanged
    if it names neither."""
    mark = MARK.search(text)
    before = mark.groups() if mark else NEW
    if not mark and not any(f'"{word}"' in text for word in NEW):
        return text

    def name(block: re.Match[str]) -> str:
        code = block[0]
        for old, new in zip(before, (repo, tag), strict=True):
            code = code.replace(f'"{old}"', f'"{new}"')
        return code

    return f"{BLOCK.sub(name, MARK.sub('', text)).rstrip()}\n\n<!-- hf-echo: {repo} {tag} -->\n"


def stamp_file(card: Path, repo: str, tag: str) -> None:
    """Apply `stamp` to a README.md; an unchanged or missing card is not written."""
    if not card.is_file():
        return
    text = card.read_text(encoding="utf-8")
    stamped = stamp(text, repo, tag)
    if stamped != text:
        card.write_text(stamped, encoding="utf-8")


def set_license(card: Path, license: str) -> None:
    """Write the license into the metadata of a README.md."""
    from huggingface_hub import RepoCard

    content = RepoCard.load(card, ignore_metadata_errors=False)
    if content.data.get("license") != license:
        content.data["license"] = license
        content.save(card)


def license_of(name: str | Path) -> str | None:
    """The license in the header of the README.md of a folder or Hub name;
    None where there is none."""
    from huggingface_hub import RepoCard
    from transformers.utils import cached_file

    file = cached_file(str(name), "README.md", _raise_exceptions_for_missing_entries=False)
    return RepoCard.load(file).data.get("license") if file else None
