"""User actions in the console (send a message, open a panel), and the screens of the tests."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.e2e import forked
from tests.support.environments import node_with
from tests.support.server import ROOT


class Opened(NamedTuple):
    """Browser page with the console, the errors that the browser has logged, and the console's URL."""

    page: Page
    errors: list[str]
    url: str


class Screen(NamedTuple):
    """Width of the browser window, and the system's colour scheme."""

    width: int
    scheme: str

    @property
    def is_wide(self) -> bool:
        """True if the screen is wide enough for several panels."""
        return self.width > 800

    def __str__(self) -> str:
        return f"{self.width}-{self.scheme}"


WIDE, NARROW = Screen(1280, "light"), Screen(390, "dark")
OTHERS = [Screen(1280, "dark"), Screen(390, "light")]
SCREENS = [WIDE, NARROW, *(pytest.param(screen, marks=pytest.mark.deep) for screen in OTHERS)]
"""Screens of the layout tests: two in `make test`, all four in `make test-deep`."""


def show_on(page: Page, screen: Screen) -> None:
    """Set the page's size and colour scheme to those of the screen."""
    page.set_viewport_size({"width": screen.width, "height": 800 if screen.is_wide else 740})
    page.emulate_media(color_scheme="dark" if screen.scheme == "dark" else "light")


def choose(page: Page, agent: str) -> None:
    """Select an agent, and wait until the page has loaded its card."""
    page.select_option("#agent", label=agent)
    expect(page).to_have_title(f"{agent.capitalize()} · aion console")
    expect(page.locator("#text")).to_be_enabled()


def send(page: Page, text: str) -> None:
    show(page, "chat")
    page.fill("#text", text)
    page.press("#text", "Enter")


def failure(page: Page, button: str) -> None:
    """Click a button that causes a failure: `drop`, `repeat` or `kill`."""
    show(page, "chat")
    if not page.locator("#tools").evaluate("tools => tools.open"):
        page.click("#tools summary")
    page.click(f"#{button}")


def named(page: Page, name: str) -> str:
    """Return the context or the task of the page's address."""
    found = parse_qs(urlsplit(page.url).fragment)
    return found[name][0] if name in found else ""


def ends(page: Page, state: str = "completed") -> None:
    """Wait until the console shows this state of the task, and the stream has ended."""
    expect(page.locator("#state")).to_have_text(state)
    expect(page.locator("#drop")).to_be_disabled()


def last_answer(page: Page) -> Locator:
    return page.locator("#log .agent:visible").last


def answer(page: Page, text: str) -> None:
    show(page, "chat")
    expect(last_answer(page)).to_have_text(text)


def show(page: Page, panel: str) -> Locator:
    """Return a panel; on a narrow screen, click the panel's tab first."""
    tab = page.locator(f"#tabs [data-panel={panel}]")
    if tab.is_visible():
        tab.click()
    shown = page.locator(f"#{panel}")
    expect(shown).to_be_visible()
    return shown


def visible_panels(page: Page) -> list[str]:
    """Return the ids of the visible panels."""
    return [str(each.get_attribute("id")) for each in page.locator("main > section:visible").all()]


def rows(page: Page) -> str:
    """Return the whole text of the timeline."""
    return show(page, "timeline").locator("#events").inner_text()


def run_copies(page: Page, folder: Path, **environ: str) -> dict[str, str]:
    """Copy the timeline's first request as curl, Python and TypeScript; run each copy, and return the copies.

    Each copy must print a completed task. If a language's program is not installed, the copy is not run.
    """
    show(page, "timeline").locator("summary", has_text="SendStreamingMessage").first.click()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    copies = {}
    for name, command in {"curl": "bash", "Python": sys.executable, "TypeScript": "node"}.items():
        page.click(f"text=Copy as {name}")
        expect(page.locator(f"text=Copied {name}")).to_be_visible()
        copies[name] = str(page.evaluate("navigator.clipboard.readText()"))
        script = folder / f"{name}.mjs"
        script.write_text(copies[name])
        if shutil.which(command):
            environment = {**os.environ, **environ}
            ran = subprocess.run([command, script], env=environment, capture_output=True, text=True, timeout=60)
            assert ran.returncode == 0, ran.stderr
            assert "TASK_STATE_COMPLETED" in ran.stdout, name
    return copies


def saved(page: Page, folder: Path) -> Path:
    """Click "Save as test", and return the downloaded test file."""
    show(page, "chat")
    with page.expect_download() as download:
        page.click("#save")
    file = folder / "test_conversation.py"
    download.value.save_as(file)
    return file


def run_test(file: Path, **environ: str) -> "subprocess.CompletedProcess[str]":
    """Run the saved test without this repository's pytest plugins."""
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environ}
    arguments = ["-q", "-p", "no:cacheprovider", "-c", "/dev/null", str(file)]
    return forked.run("pytest", *arguments, cwd=file.parent, env=environment)


def screenshot(page: Page | Locator, name: str, is_screen: bool) -> None:
    """Take a screenshot for the docs, if SCREENSHOTS is set and this test runs on the docs' screen."""
    if is_screen and (images := os.environ.get("SCREENSHOTS")):
        page.screenshot(path=Path(images) / f"{name}.png", animations="disabled")


def violations(page: Page) -> list[tuple[str, str]]:
    """Return the serious accessibility problems that axe finds. Raise NodeMissing without Node."""
    page.evaluate((node_with(ROOT / "tests" / "support" / "js") / "node_modules/axe-core/axe.min.js").read_text())
    found = page.evaluate("axe.run({resultTypes: ['violations']}).then((result) => result.violations)")
    return [(each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")]
