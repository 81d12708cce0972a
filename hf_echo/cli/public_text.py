"""hf-echo data sources, download, leaks: public parallel text,
and test sentences in training text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

import typer

from ..utils.settings import DATA, Step, setting, step

License = Literal["permissive", "share-alike", "research"]


def _separate(words: list[str]) -> list[str]:
    """["a,b", "c"] -> ["a", "b", "c"]."""
    return [part.strip() for word in words for part in word.split(",") if part.strip()]


@step("data sources", example="hf-echo data sources --languages swh_Latn --license research")
class ListSources(Step):
    """List the public sources: rows, megabytes, languages, licence,
    and the version of their origin."""

    opens_models = False

    languages: list[str] = setting(
        "only sources with one of these languages; repeatable, or A,B", list
    )
    license: License | None = setting("only what this licence allows; default: all sources", None)

    def run(self) -> None:
        from ..data.sources import chosen_sources, plan_lines

        languages = _separate(self.languages)
        sources, _ = chosen_sources(license=self.license or "research", languages=languages)
        for line in plan_lines(sources):
            typer.echo(line)


@step(
    "data download",
    example="hf-echo data download corpora --sources ntrex,flores_sib --languages fra_Latn,swh_Latn",
)
class Download(Step):
    """Download public parallel text as tables that `collect_data` reads; test splits go to
    OUT/test. A stopped download continues, and a second call does nothing."""

    continues = True
    opens_models = False
    reports = True

    # `download` decides what it may replace.
    folder: Path = setting("folder of the tables and of test/", argument=True)
    more_sources: list[str] = setting("further names for --sources", list, argument=True)
    sources: list[str] = setting(
        "names of sources; repeatable, or A,B; default: all that --license allows (see hf-echo data sources)",
        list,
    )
    languages: list[str] = setting("only these languages beside English; repeatable, or A,B", list)
    license: License | None = setting(
        "least free text to take: permissive, share-alike (CC BY-SA, GPL, MPL; the default), or research (text that is "
        "not for commercial use, too)",
        None,
    )
    mirror: Path | None = setting(
        "read clones and packages in this folder instead of the network (docs/start.md)", None
    )
    yes: bool = setting("do not ask before the download", False, option="--yes", short="-y")
    dry_run: bool = setting("say what would be downloaded", False)

    def run(self) -> dict[str, Any] | None:
        """Show what will be downloaded, ask a person, and download it."""
        from ..data.sources import chosen_sources, download, plan_lines

        names = _separate([*self.sources, *self.more_sources])
        languages = _separate(self.languages)
        sources, _ = chosen_sources(names, self.license, languages)
        for line in plan_lines(sources):
            typer.echo(line, err=not self.dry_run)
        if self.dry_run:
            return None
        # Who types the command is asked; a script is not.
        if (
            not self.yes
            and sys.stdin.isatty()
            and not typer.confirm(f"Download into {self.folder}?", err=True)
        ):
            raise ValueError("nothing was downloaded")
        return download(
            self.folder, names, license=self.license, languages=languages, mirror=self.mirror
        )


@step("data leaks", example="hf-echo data leaks outputs/mine/data/train.parquet corpora/test")
class Leaks(Step):
    """Count test sentences that stand in training text, in any language,
    by letters and digits only."""

    reports = True
    opens_models = False

    train: str = setting("training text: a file or a folder", argument=True, reads=DATA)
    test: str = setting("test sentences: a file or a folder", argument=True, reads=DATA)

    def run(self) -> dict[str, Any]:
        from ..data.leaks import find_leaks

        return find_leaks(self.train, self.test)
