"""The console of `aion dev` in Chromium: chat, questions, lost connections, a killed worker, narrow and dark screens."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser import BrowserMissing, browser_page
from tests.e2e.talking import AGENT, WHOLE
from tests.support.environments import NodeMissing, node_with
from tests.support.server import ROOT, serving

SECONDS = 60.0
"""Longest wait for the page; a killed worker's lease has to expire meanwhile."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("console")
    (folder / "agent.py").write_text(AGENT)
    return folder


@pytest.fixture(scope="module")
def opened(folder: Path) -> Iterator[tuple[Page, list[str]]]:
    """Return the console's page, and the errors of the browser."""
    expect.set_options(timeout=SECONDS * 1000)
    command = [str(Path(sys.executable).with_name("aion")), "dev", str(folder / "agent.py"), "--no-reload"]
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
    expect(page.locator("#agent option")).to_have_count(1)
    expect(page.locator("#task-list")).to_be_attached()
    errors.clear()
    yield page
    assert [error for error in errors if "net::" not in error] == []


def send(page: Page, text: str) -> None:
    page.fill("#text", text)
    page.press("#text", "Enter")


def ends(page: Page, state: str = "completed") -> None:
    expect(page.locator("#state")).to_have_text(state)


def refreshed(page: Page) -> int:
    """Refresh the list of tasks, and return its length."""
    page.click("#refresh")
    expect(page.locator("#task-list")).to_have_attribute("aria-busy", "false")
    return page.locator("#task-list li").count()


def answer(page: Page, text: str) -> None:
    expect(page.locator("#log .agent:visible").last).to_have_text(text)


def rows(page: Page) -> str:
    return page.locator("#events").inner_text()


def test_console_shows_streamed_answer_and_its_events(console: Page) -> None:
    send(console, "hello")
    ends(console)
    answer(console, WHOLE)
    assert re.search(r"→ SendStreamingMessage.*← task submitted.*← status working.*chunks, 2\.\d+\.0 to 2\.\d+\.1\d.*← status completed",
                     rows(console), re.DOTALL)  # fmt: skip
    console.locator("#events summary", has_text="SendStreamingMessage").click()
    shown = json.loads(console.locator("#events pre").inner_text())
    assert (shown["method"], shown["params"]["message"]["parts"]) == ("SendStreamingMessage", [{"text": "hello"}])
    console.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for name, start in (
        ("curl", "curl -N 'http://127"),
        ("Python", "import json"),
        ("TypeScript", "const response = await"),
    ):
        console.click(f"text=Copy as {name}")
        expect(console.locator(f"text=Copied {name}")).to_be_visible()
        assert console.evaluate("navigator.clipboard.readText()").startswith(start)


def test_console_shows_markup_of_agent_as_text(console: Page) -> None:
    send(console, "markup")
    ends(console)
    shown = console.locator("#log .agent").last
    expect(shown).to_contain_text("<img src=x onerror=alert(1)> bold")
    assert shown.locator("img").count() == 0
    assert shown.locator("strong").inner_text() == "bold"
    assert shown.locator("li").all_inner_texts() == ["one", "two"]
    assert shown.locator("a").get_attribute("href") == "https://example.com"


def test_console_shows_data_of_artifact(console: Page) -> None:
    send(console, "data")
    ends(console)
    shown = json.loads(console.locator("#log .agent pre").inner_text())
    assert shown == {"rows": ["first", "second"]}


def test_console_answers_question_by_form(console: Page) -> None:
    send(console, "book a table")
    ends(console, "input required")
    form = console.locator("#question")
    expect(form).to_be_visible()
    form.locator("select").select_option(label="Tuesday")
    form.locator("button").click()
    ends(console)
    answer(console, "Booked for Tuesday.")
    expect(form).to_be_hidden()


def test_dropped_connection_resumes_after_last_event(console: Page, folder: Path) -> None:
    send(console, "gate dropped")
    expect(console.locator("#log .agent")).to_contain_text("word5")
    console.click("#drop")
    (folder / "dropped").touch()
    ends(console)
    answer(console, WHOLE)
    lost = re.search(r"The connection is lost; subscribing again after event (\S+)\.(\d+)\.\s+→?", rows(console))
    assert lost, rows(console)
    assert f"{lost[1]}.{int(lost[2]) + 1} to" in rows(console), "the next chunk follows the last one"


def test_killed_workers_turn_is_taken_over(console: Page, folder: Path) -> None:
    send(console, "gate killed")
    expect(console.locator("#log .agent")).to_contain_text("word5")
    console.click("#kill")
    (folder / "killed").touch()
    ends(console)
    answer(console, WHOLE)
    assert "Another worker has taken over the turn" in rows(console)
    if images := os.environ.get("SCREENSHOTS"):
        console.screenshot(path=Path(images) / "console.png")


def test_repeated_message_makes_no_second_task(console: Page) -> None:
    send(console, "hello")
    ends(console)
    tasks = refreshed(console)
    console.click("#repeat")
    expect(console.locator("#repeat")).to_be_disabled()
    expect(console.locator("#repeat")).to_be_enabled()
    answer(console, WHOLE)
    assert refreshed(console) == tasks


def test_console_cancels_running_task(console: Page) -> None:
    send(console, "gate never")
    expect(console.locator("#log .agent")).to_contain_text("word5")
    console.click("#cancel")
    ends(console, "canceled")


def test_console_opens_stored_task(console: Page) -> None:
    send(console, "hello")
    ends(console)
    console.click("#fresh")
    expect(console.locator("#log .message")).to_have_count(0)
    console.locator("#task-list button").first.click()
    answer(console, WHOLE)
    ends(console)


def test_saved_test_passes_on_running_server(console: Page, tmp_path: Path) -> None:
    send(console, "hello")
    ends(console)
    expect(console.locator("#drop")).to_be_disabled()
    with console.expect_download() as download:
        console.click("#save")
    saved = tmp_path / "test_conversation.py"
    download.value.save_as(saved)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", str(saved)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_console_fits_screen_and_is_accessible(console: Page, scheme: str, width: int) -> None:
    try:
        axe = (node_with(ROOT / "tests" / "support" / "js") / "node_modules/axe-core/axe.min.js").read_text()
    except NodeMissing:
        pytest.skip("NOT PROVEN: accessibility of the console. Node is missing.")
    console.set_viewport_size({"width": width, "height": 740})
    console.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    try:
        send(console, "book")
        ends(console, "input required")
        for panel in ("tasks", "timeline", "chat"):
            if width == 360:
                console.click(f"#tabs [data-panel={panel}]")
            expect(console.locator(f"#{panel}")).to_be_visible()
            assert console.evaluate("document.documentElement.scrollWidth") <= width
            console.evaluate(axe)
            found = console.evaluate("axe.run().then((result) => result.violations)")
            assert [
                (each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")
            ] == []
    finally:
        console.set_viewport_size({"width": 1280, "height": 800})
        console.emulate_media(color_scheme="light")
