"""The console of `aion dev` with several agents, in one Chromium for all tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser import BrowserMissing, browser_page
from tests.e2e.console.agents import FILES
from tests.e2e.console.page import Opened, Screen, violations
from tests.support.environments import NodeMissing
from tests.support.server import aion_dev, serving

SECONDS = 60.0
"""Longest wait for the page; a killed worker's lease has to expire meanwhile."""


SCREENS = (Screen(1280, "light"), Screen(360, "dark"), Screen(1280, "dark"), Screen(360, "light"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on one screen, and in test-deep on all.

    Every other test of a module has the narrow dark screen, and the others the wide light one. A test marked
    `each_width` runs on both.
    """
    if "screen" not in metafunc.fixturenames:
        return
    names = [name for name in vars(metafunc.module) if name.startswith("test_")]
    screens = SCREENS[:2]
    if metafunc.definition.get_closest_marker("each_width") is None:
        screens = (SCREENS[names.index(metafunc.function.__name__) % 2],)
    marks = [() if screen in screens else pytest.mark.deep for screen in SCREENS]
    ids = [f"{screen.width}-{screen.scheme}" for screen in SCREENS]
    given = [pytest.param(screen, marks=mark) for screen, mark in zip(SCREENS, marks, strict=True)]
    metafunc.parametrize("screen", given, ids=ids, scope="function")


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the agents."""
    folder = tmp_path_factory.mktemp("console")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="package")
def opened(folder: Path) -> Iterator[Opened]:
    """Start `aion dev` and a browser."""
    expect.set_options(timeout=SECONDS * 1000)
    command = aion_dev(str(folder / "aion.yaml"), "--no-reload")
    try:
        with serving(command, AION_LEASE_SECONDS="2") as server, browser_page("about:blank") as page:
            errors: list[str] = []
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
            yield Opened(page, errors, server.url)
    except BrowserMissing as missing:
        pytest.skip(f"NOT PROVEN: the console in a browser. {missing}")


@pytest.fixture
def console(opened: Opened, screen: Screen) -> Iterator[Page]:
    """Open the console anew on the screen.

    Fail for an error of the browser, except for connections that a test breaks, and for a serious problem of
    accessibility at the end of the test.
    """
    page, errors, url = opened
    page.set_viewport_size({"width": screen.width, "height": 800 if screen.is_wide else 740})
    page.emulate_media(color_scheme="dark" if screen.scheme == "dark" else "light")
    page.goto("about:blank")
    page.goto(url)
    expect(page.locator("#agent option")).to_have_count(4)
    expect(page.locator("#text")).to_be_enabled()
    errors.clear()
    yield page
    assert page.evaluate("document.documentElement.scrollWidth") <= screen.width
    assert [error for error in errors if "net::" not in error] == []
    try:
        assert violations(page) == []
    except NodeMissing:
        pytest.skip("NOT PROVEN: accessibility of the console. Node is missing.")
