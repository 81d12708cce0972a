"""Public text for journeys and scripts that are not given a folder of corpora: what is downloaded,
the question, and the download."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .recipe import known_overrides, read_recipe
from .training_data import PUBLIC, CollectData

if TYPE_CHECKING:
    from ..data.sources.table import License

# Their sentences leave the training tables although nobody reads them.
TESTS = ("flores_devtest", "tatoeba_laser")
# Hours that all steps of a journey took on two cores of a server processor (docs/reproduce.md).
JOURNEY_HOURS = {"echo-nano": 3.5, "echo-nano-speech": 2.0, "nano-real": 1.0}
BITEXT = ("tatoeba_laser", "ntrex", "flores_devtest")  # whose test sets `evaluate bitext` reads


def public_sources(paths: Sequence[Path], overrides: Mapping[str, Any]) -> list[str]:
    """Names of the public sources that the steps of a journey read;
    none if it reads a folder of the user's."""
    from ..data.sources import SOURCES

    names: list[str] = []
    for path in paths:
        step = read_recipe(path, known_overrides(path, dict(overrides)))
        if isinstance(step, CollectData) and step.corpora == PUBLIC:
            names += [file.removesuffix(".parquet") for file in step.how]
    # Text that is not free for all uses is not taken for a journey unless the user downloads it.
    allowed = [name for name in SOURCES if name in names and SOURCES[name].license != "research"]
    return [*allowed, *TESTS] if allowed else []


def public_folder(
    names: Sequence[str],
    *,
    license: License | None = None,
    yes: bool = False,
    reader: str = "this recipe",
    instead: str = "corpora=FOLDER",
    journey: str = "",
) -> Path:
    """The folder with these public sources; those that it lacks are downloaded after a question.

    Args:
        names: of the sources; what is to be downloaded is shown on stderr.
        license: the least free text that is taken; default: share-alike.
        yes: download without a question.
        reader, instead: who reads the text, and how a user names a folder of his own, for the
            messages.
        journey: its name, if one reads the text; the hours that it took are said.

    Raises:
        ValueError: the answer is no, or nobody is there to answer. OSError: as
            `hf_echo.data.sources.download`.
    """
    from ..data.sources import download

    announce(names, license=license, reader=reader, instead=instead, journey=journey)
    if not yes and not are_there(names):
        if not sys.stdin.isatty():
            raise ValueError(f"{PUBLIC} lacks text: add --yes to download it, or give {instead}")
        print("Download it? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise ValueError(f"nothing was downloaded; give {instead} to use text of your own")
    download(PUBLIC, names, license=license)
    return Path(PUBLIC)


def announce(
    names: Sequence[str],
    *,
    license: License | None = None,
    reader: str = "this recipe",
    instead: str = "corpora=FOLDER",
    journey: str = "",
) -> None:
    """Say on stderr which text is read, with its licences, sizes and the time that it takes."""
    from ..data.sources import chosen_sources, plan_lines

    sources, _ = chosen_sources(names, license)
    print(f"without {instead} {reader} reads public text in {PUBLIC}:", file=sys.stderr)
    for line in plan_lines(sources):
        print(line, file=sys.stderr)
    if journey in JOURNEY_HOURS:
        hours = JOURNEY_HOURS[journey]
        print(f"{journey} took {hours:g} hours on two cores of a server processor", file=sys.stderr)


def are_there(names: Sequence[str]) -> bool:
    """Whether an earlier download wrote the tables of all these sources."""
    from ..data.sources.downloading import STATE
    from ..utils.files import read_json

    return set(names) <= set(read_json(Path(PUBLIC) / STATE, {}))


def add_corpora(parser: ArgumentParser, name: str = "corpora") -> None:
    """Let a script take a folder of corpora, or download public text after a question."""
    help = "folder of parallel corpora; without it public text is downloaded after a question"
    if name.startswith("--"):
        parser.add_argument(name, type=Path, help=help)
    else:
        parser.add_argument(name, type=Path, nargs="?", help=help)
    parser.add_argument("--yes", action="store_true", help="download it without a question")


def corpora_of(arguments: Namespace, *names: str, license: License | None = None) -> Path:
    """The folder that a script was given, or that of these public sources.
    One line and exit code 1 without both."""
    if arguments.corpora is not None:
        return arguments.corpora
    try:
        return public_folder(
            [*names, *TESTS],
            license=license,
            yes=arguments.yes,
            reader="this script",
            instead="CORPORA",
        )
    except (ValueError, OSError) as error:
        raise SystemExit(f"{error}") from None
