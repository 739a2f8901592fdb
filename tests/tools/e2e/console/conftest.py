"""Console of `aion dev` with several agents, and one Chromium for all tests of this folder."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.debian import ProgramMissing
from tests.support.e2e.browser import browser_page
from tests.support.environments import NodeMissing
from tests.support.server import aion_dev, serving
from tests.tools.e2e.console.agents import FILES
from tests.tools.e2e.console.page import NARROW, OTHERS, WIDE, Opened, Screen, show_on, violations

DEEP = bool(os.environ.get("SIMULATION_DEEP"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on one screen, in `make test-deep` on all. Tests with their own `screen` parameter are left as they are.

    In a module, the wide light screen and the narrow dark screen alternate from test to test.
    """
    named = any("screen" in str(mark.args[0]) for mark in metafunc.definition.iter_markers("parametrize"))
    if "screen" in metafunc.fixturenames and not named:
        tests = [name for name in vars(metafunc.module) if name.startswith("test_")]
        first, second = (WIDE, NARROW)[:: -1 if tests.index(metafunc.function.__name__) % 2 else 1]
        deep = [pytest.param(screen, marks=pytest.mark.deep) for screen in (second, *OTHERS)]
        metafunc.parametrize("screen", [first, *deep], ids=str)


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the agents and aion.yaml into a folder, and return it."""
    folder = tmp_path_factory.mktemp("console")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="package")
def browser() -> Iterator[Page]:
    """Start Chromium, and return its page."""
    try:
        with browser_page("about:blank") as page:
            yield page
    except ProgramMissing as missing:
        pytest.skip(f"NOT PROVEN: the console in a browser. {missing}")


@pytest.fixture(scope="package")
def opened(folder: Path, browser: Page) -> Iterator[Opened]:
    """Start `aion dev`."""
    errors: list[str] = []
    browser.on("pageerror", lambda error: errors.append(str(error)))
    browser.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    with serving(aion_dev(str(folder / "aion.yaml"), "--no-reload"), AION_LEASE_SECONDS="2") as server:
        yield Opened(browser, errors, server.url)


@pytest.fixture
def console(opened: Opened, screen: Screen, request: pytest.FixtureRequest) -> Iterator[Page]:
    """Open a fresh console page on the screen.

    After the test, fail if the browser has logged an error (except network errors), or if the page has a serious
    accessibility problem. `make test` searches for these after the tests of views only, as each search takes 0.2 CPU-seconds.
    """
    page, errors, url = opened
    show_on(page, screen)
    page.goto("about:blank")
    page.goto(url)
    expect(page.locator("#agent option")).to_have_count(8)
    expect(page.locator("#text")).to_be_enabled()
    errors.clear()
    yield page
    assert page.evaluate("document.documentElement.scrollWidth") <= screen.width
    assert [error for error in errors if "net::" not in error] == []
    if not (DEEP or request.path.name == "test_views.py"):
        return
    try:
        assert violations(page) == []
    except NodeMissing:
        pytest.skip("NOT PROVEN: accessibility of the console. Node is missing.")
