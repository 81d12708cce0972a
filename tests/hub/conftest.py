import json

import pytest

from ..processes import SCRIPTS, python
from .browser import BROWSER, MICROPHONE, SANDBOX, SECONDS


@pytest.fixture(scope="module")
def on_the_hub(hub_environment, tmp_path_factory):
    """on_the_hub(script, *arguments): what a file of tests/scripts prints as JSON,
    in a process that knows the loopback Hub."""

    def run(script: str, *arguments):
        place = {"env": hub_environment, "cwd": tmp_path_factory.mktemp("cwd")}
        printed = python(SCRIPTS / script, *arguments, **place)
        return json.loads(printed.splitlines()[-1])

    return run


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=SANDBOX + MICROPHONE)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium, address, request):
    """visit(script to run first, **options of the browser context) -> the page of `address` that
    shows READY.

    It asks no other machine. With ONLY_FILES it gets files alone, and nothing that a visitor wrote
    is in an address.
    """
    contexts = []
    wrong = []
    only_files = getattr(request.module, "ONLY_FILES", False)

    # Every request to another machine is noted, and so is a form that sends text.
    def watch(asked):
        of_the_page = asked.url.startswith((address, "data:", "blob:"))
        if not of_the_page or (only_files and (asked.method != "GET" or "?" in asked.url)):
            wrong.append(f"{asked.method} {asked.url}")

    def open_page(script="", **options):
        contexts.append(context := chromium.new_context(**options))
        page = context.new_page()
        page.set_default_timeout(SECONDS)
        # Errors and dialogs of the page are wrong, too.
        context.on("request", watch)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(f"a dialog: {dialog.message}"))
        page.add_init_script(script)
        page.goto(address)
        page.locator(request.module.READY).first.wait_for()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not wrong
