"""Chromium for end-to-end tests, driven by Playwright, and static pages whose origin differs from the agent server's."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from tests.support.debian import program
from tests.support.listening import listening

SECONDS = 60.0
"""Longest wait for a page; it expires only on a failure."""
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str:
    """Return the path of Chromium; as root, install Debian's package if necessary. Raise ProgramMissing."""
    return program(*PROGRAMS, package="chromium")


@contextmanager
def pages(folder: Path) -> Iterator[str]:
    """Serve a folder's files until the block ends; yield the server's origin with the host name `localhost`."""
    app = Starlette(routes=[Mount("/", StaticFiles(directory=folder, html=True))])
    with listening(app) as url:
        yield url.replace("127.0.0.1", "localhost")


@contextmanager
def browser_page(url: str) -> Iterator[Page]:
    """Open the URL in a new Chromium, and close it at the end of the block. Raise ProgramMissing without Chromium."""
    path = chromium()
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=path) as browser:
        page = browser.new_page()
        page.set_default_timeout(SECONDS * 1000)
        expect.set_options(timeout=SECONDS * 1000)
        page.goto(url)
        yield page
