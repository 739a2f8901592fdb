"""The console of `aion dev` with several agents, in one Chromium for all tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser import BrowserMissing, browser_page
from tests.e2e.console.agents import FILES
from tests.support.server import aion_dev, serving

SECONDS = 60.0
"""Longest wait for the page; a killed worker's lease has to expire meanwhile."""


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the agents."""
    folder = tmp_path_factory.mktemp("console")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="package")
def opened(folder: Path) -> Iterator[tuple[Page, list[str]]]:
    """Return the console's page, and the errors of the browser."""
    expect.set_options(timeout=SECONDS * 1000)
    command = aion_dev(str(folder / "aion.yaml"), "--no-reload")
    try:
        with serving(command, AION_LEASE_SECONDS="2") as server, browser_page("about:blank") as page:
            errors: list[str] = []
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
            page.set_viewport_size({"width": 1280, "height": 800})
            page.goto(server.url)
            yield page, errors
    except BrowserMissing as missing:
        pytest.skip(f"NOT PROVEN: the console in a browser. {missing}")


@pytest.fixture
def console(opened: tuple[Page, list[str]]) -> Iterator[Page]:
    """Open the console anew. Fail for an error of the browser, except for connections that a test breaks."""
    page, errors = opened
    page.reload()
    expect(page.locator("#agent option")).to_have_count(4)
    expect(page.locator("#text")).to_be_enabled()
    errors.clear()
    yield page
    assert [error for error in errors if "net::" not in error] == []
