"""Chromium for end-to-end tests, driven by Playwright, and static pages whose origin differs from the agent server's."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from aion_tools.package.cache import file_lock
from tests.support.listening import listening
from tests.support.server import ROOT

SECONDS = 60.0
"""Longest wait for a page; it expires only on a failure."""
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
# Wait for the lock of dpkg, because another process may be installing a package.
APT = ["apt-get", "--quiet", "--option", "DPkg::Lock::Timeout=300"]
COMMANDS = [[*APT, "update"], [*APT, "install", "--yes", "--no-install-recommends", "chromium"]]


class BrowserMissing(Exception):
    """Error: Chromium is neither installed nor installable on this machine."""


def chromium() -> str:
    """Return the path of Chromium; as root, install Debian's package if necessary. Raise BrowserMissing without Chromium."""
    with file_lock(ROOT / ".cache" / "chromium"):
        if found := _installed():
            return found
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise BrowserMissing("chromium is not there: apt-get install chromium")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in COMMANDS:
            ran = subprocess.run(command, env=environment, capture_output=True, text=True)
            if ran.returncode != 0:
                raise BrowserMissing(f"{' '.join(command)} failed: {ran.stderr.strip()[-500:]}")
    found = _installed()
    assert found is not None, "the package has been installed without its program"
    return found


def _installed() -> str | None:
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


@contextmanager
def pages(folder: Path) -> Iterator[str]:
    """Serve a folder's files until the block ends; yield the server's origin with the host name `localhost`."""
    app = Starlette(routes=[Mount("/", StaticFiles(directory=folder, html=True))])
    with listening(app) as url:
        yield url.replace("127.0.0.1", "localhost")


@contextmanager
def browser_page(url: str) -> Iterator[Page]:
    """Open the URL in a new Chromium, and close it at the end of the block. Raise BrowserMissing without Chromium."""
    program = chromium()
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=program) as browser:
        page = browser.new_page()
        page.set_default_timeout(SECONDS * 1000)
        expect.set_options(timeout=SECONDS * 1000)
        page.goto(url)
        yield page
