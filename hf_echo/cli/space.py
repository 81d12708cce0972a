"""hf-echo space: the page of the Space, on this machine."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Annotated

import typer

from .common import Translator, example

commands = typer.Typer()


@commands.command(**example("hf-echo space --port 7861"))
def space(
    model: Translator,
    speech: Annotated[
        str | None, typer.Option(help="Speech encoder of the model's space: folder or Hub name. Default: none.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of the page. Default: the first free one from 7860.")
    ] = None,
) -> None:
    """Open a page in the browser to search, translate, align words, draw a map and find speech.

    It runs on this machine's CPU, without network. `hf-echo push` sends the same page to the Hub as a Space.
    """
    from ..hub.space_views import SpaceViews

    app = open_app()
    app.build(SpaceViews(model, speech)).launch(server_port=port, **app.LAUNCH)


def open_app() -> ModuleType:
    """The file `app.py` of the Space as a module.

    Raises:
        ImportError: gradio is not installed.
    """
    from ..hub import space_folder

    spec = spec_from_file_location("hf_echo_space", space_folder() / "app.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        if error.name != "gradio":
            raise
        raise ImportError("the page needs gradio: pip install 'hf-echo[space]'") from None
    return module
