"""hf-echo push, space and the languages of a modular encoder:
what concerns the Hub and its pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import typer

from ..utils.settings import DefaultOf, Step, setting, step
from .options import OpensModel, model


def license() -> Any:
    return setting(
        "license identifier of the Hub, written into the card; default: that of the existing card",
        None,
    )


@step("push", example="hf-echo push outputs/release your-name/your-model --version 1.2.0 --dry-run")
class Push(Step):
    """Push a folder to the Hub as one version: one commit, one tag, checksums compared.

    Run the same command again after an interruption: it completes the push. A version that is on
    the Hub with the same content is left as it is; with other content it is refused.
    """

    folder: Path = setting(
        "a release (hf-echo release), a dataset (hf-echo data filter) or a Space", argument=True
    )
    repo: str = setting(
        "OWNER/NAME of a repository on the Hub; created if it does not exist", argument=True
    )
    version: str = setting("becomes the tag vVERSION, for example 1.2.0")
    kind: Literal["model", "dataset", "space"] | None = setting(
        "kind of repository; default: by the files", None, option="--type"
    )
    private: bool = setting("create it as a private one", DefaultOf("hub.push.push"))
    license: str | None = license()
    dry_run: bool = setting("list the files and problems; push nothing", False)

    def run(self) -> None:
        from ..hub.push import push

        if self.dry_run:
            self.describe()
            return
        options = {"kind": self.kind, "private": self.private, "license": self.license}
        push_report = push(self.folder, self.repo, version=self.version, **options)
        typer.echo(f"{push_report.url} ({push_report.status})")

    def describe(self) -> None:
        """List what would go up; exit code 2 where something forbids it."""
        from ..hub.push import ask_about_card, check_repository, tag_of
        from ..hub.upload_checks import contents_of

        tag = tag_of(self.version)
        contents = contents_of(self.folder, self.kind, license=self.license)
        problems = contents.problems
        sizes = [(self.folder / file).stat().st_size for file in contents.files]
        # What would go up, then what stops it.
        for file, size in zip(contents.files, sizes, strict=True):
            typer.echo(f"{size:>14,}  {file}")
        typer.echo(
            f"{sum(sizes):>14,}  bytes in {len(sizes)} files: {contents.kind} {self.repo}, {tag}"
        )
        for file in contents.left_out:
            typer.echo(f"left out: {file}")
        # The Hub checks the card's fields; it is asked when all else is right.
        if not problems:
            try:
                problem = ask_about_card(self.folder, contents.kind, license=self.license)
                problems += [problem] if problem else []
            except ConnectionError as error:
                typer.echo(f"the Hub was not asked about the card: {error}")
        try:
            check_repository(self.repo)
        except ValueError as error:
            problems.append(str(error))
        for problem in problems:
            typer.echo(f"problem: {problem}", err=True)
        raise typer.Exit(2 if problems else 0)


@step("space", example="hf-echo space --port 7861")
class Space(OpensModel):
    """Open a page in the browser to search, translate, align words, draw a map and find speech.

    It runs on this machine, on the CPU unless --device says otherwise, without network. `hf-echo
    push` sends the same page to the Hub as a Space. With --static it writes a page that needs no
    server: the model runs in the visitor's browser, and the page searches and draws the map.
    """

    model: str = model("Echo checkpoint or release with a decoder")
    speech: str | None = setting(
        "speech encoder of the model's space: folder or Hub name; default: echo-nano's, if the package has it",
        None,
        unless="static",
    )
    port: int | None = setting(
        "port of the page; default: the first free one from 7860",
        None,
        least=1,
        most=65535,
        unless="static",
    )
    static: Path | None = setting(
        "folder to write the page without a server to; needs npm", None, writes="folder"
    )

    def run(self) -> None:
        """Write the page as files, or serve it."""
        if self.static:
            from ..hub.static_space import write_static_space

            write_static_space(self.model, self.static)
            typer.echo(
                f"{self.static}: python -m http.server --directory {self.static} --bind 127.0.0.1 shows it"
            )
            return
        from ..hub.space_views import SpaceViews
        from ..utils.extras import extra

        with extra("space"):
            from ..hub.space import app
        app.build(SpaceViews(self.model, self.speech, device=self.device or "cpu")).launch(
            server_port=self.port, **app.LAUNCH
        )


@step(
    "metrics", example="hf-echo metrics outputs/metrics", calls="hub.metric_folders.write_metrics"
)
class Metrics(Step):
    """Write xsim, xsim++, ratio margin and cross-lingual transfer as metrics of the evaluate
    library.

    Each folder opens with evaluate.load("OUT/xsim"), and `hf-echo push OUT/xsim` sends it to the
    Hub as a Space.
    """

    opens_models = False
    then = "{out}: xsim, xsimpp, ratio_margin, clt"

    out: Path = setting(
        "new or empty folder; gets a folder for each metric", argument=True, writes="folder"
    )


@step("modular card", example="hf-echo modular card -m outputs/modular --license mit")
class ModularCard(Step):
    """Write README.md of a modular encoder: its languages, parts and data.
    It replaces the existing one."""

    then = "{model}/README.md: push it with hf-echo push"

    model: Path = setting("folder of a modular encoder", short="-m")
    license: str | None = license()

    def run(self) -> None:
        from ..cards.model_card import write_checkpoint_card
        from ..stages.modular.folder import check_modular

        check_modular(self.model)
        write_checkpoint_card(self.model, self.license, again=True)
