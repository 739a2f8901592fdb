"""`aion console URL` on servers of strangers, as a process and in Chromium."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.environments import NodeMissing
from tests.support.foreign import adk_server, odd_server, sdk_server
from tests.support.server import serving
from tests.tools.e2e.console.page import (
    NARROW,
    WIDE,
    Screen,
    answer,
    ends,
    last_answer,
    rows,
    send,
    show,
    show_on,
    violations,
)


@contextlib.contextmanager
def console_on(url: str) -> Iterator[str]:
    """Run `aion console URL`; yield the console's URL, and expect that Ctrl-C ends it without an error."""
    command = [sys.executable, "-m", "aion_tools.cli", "console", url, "--no-open", "--port", "0"]
    with serving(command) as server:
        yield server.url
        assert server.stop() == 0


class Seen:
    """Requests and log of a page."""

    def __init__(self, page: Page) -> None:
        self.errors: list[str] = []
        self.hosts: set[str] = set()
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: self.hosts.add("/".join(request.url.split("/")[:3])))


@pytest.fixture
def page(browser: Page) -> Iterator[Page]:
    """Return the page without a console: that of an earlier test would go on asking its server, which has ended."""
    browser.goto("about:blank")
    yield browser
    browser.goto("about:blank")


@pytest.mark.parametrize("screen", [NARROW, pytest.param(WIDE, marks=pytest.mark.deep)], ids=str)
def test_console_talks_to_official_sdks_server(page: Page, screen: Screen, tmp_path: Path) -> None:
    """Check the card, send, see the JSON of both directions, and receive a webhook, without a foreign request."""
    seen = Seen(page)
    show_on(page, screen)
    with sdk_server() as url, console_on(url) as here:
        page.goto(here)
        expect(page).to_have_title("Stranger · aion console")
        expect(page.locator("#card-open")).to_have_text("Agent card")
        expect(page.locator("a[href$=docs]")).to_be_hidden()
        expect(page.locator("[data-panel=stored]")).to_be_hidden()
        page.locator("#log .empty button", has_text="say hello").click()
        page.press("#text", "Enter")
        answer(page, "hello!")
        ends(page)
        assert "SendStreamingMessage" in rows(page)
        show(page, "timeline").locator("summary", has_text="SendStreamingMessage").first.click()
        expect(page.locator("#events pre:visible").first).to_contain_text('"jsonrpc": "2.0"')
        show(page, "webhooks").locator("#notified").check()
        send(page, "say **hook**")
        answer(page, "hook!")
        expect(last_answer(page).locator("strong")).to_have_text("hook")
        posts = show(page, "webhooks").locator("#hooks > ol > li")
        expect(posts.first).to_contain_text("204 ← ")
        expect(posts.first).not_to_contain_text("signature")
        send(page, "ask")
        page.locator("#question [name=answer]").fill("Rome")
        page.click("#question button[type=submit]")
        answer(page, "Heard Rome.")
        with contextlib.suppress(NodeMissing):
            assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= screen.width
        assert seen.hosts == {here}
    assert [error for error in seen.errors if "net::" not in error] == []


@pytest.mark.deep
def test_console_talks_to_server_of_old_version(page: Page) -> None:
    show_on(page, WIDE)
    with sdk_server("0.3") as url, console_on(url) as here:
        page.goto(here)
        expect(page).to_have_title("Stranger · aion console")
        expect(page.locator("#card-open")).to_have_text("Agent card")
        expect(page.locator("#task-list")).to_contain_text("The server has no ListTasks")
        send(page, "ask")
        page.locator("#question [name=answer]").fill("Rome")
        page.click("#question button[type=submit]")
        answer(page, "Heard Rome.")
        ends(page)
        page.click("#fresh")
        expect(page.locator("#log .message")).to_have_count(0)
        page.locator("#task-list .conversation").click()
        for _ in range(2):
            expect(page.locator("#log .note")).to_contain_text("This server cannot list its tasks")
            answer(page, "Heard Rome.")
            page.reload()


@pytest.mark.deep
def test_console_talks_to_servers_without_streams_and_of_adk(page: Page) -> None:
    show_on(page, WIDE)
    with sdk_server(streaming=False) as url, console_on(url) as here:
        page.goto(here)
        send(page, "say hello")
        answer(page, "hello!")
        ends(page)
        assert "SendMessage" in rows(page)
    with adk_server() as url, console_on(url) as here:
        page.goto(here)
        send(page, "hello")
        answer(page, "ADK heard: hello")
        ends(page)


@pytest.mark.deep
def test_console_explains_odd_cards(page: Page) -> None:
    show_on(page, WIDE)
    seen = Seen(page)
    elsewhere = [{"url": "https://elsewhere.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]
    with odd_server({"name": "<b>odd</b>", "supportedInterfaces": elsewhere}) as url, console_on(url) as here:
        page.goto(here)
        expect(page).to_have_title("<b>odd</b> · aion console")
        expect(page.locator("#card-open")).to_contain_text("wrong")
        page.click("#card-open")
        expect(page.locator("#card-notes")).to_contain_text("No interface has the host of")
        page.keyboard.press("Escape")
        send(page, "hello")
        expect(page.locator("#log .error")).to_contain_text("this console calls only")
        page.goto("about:blank")
    with odd_server(b'{"name": 5, "skills": [{"id": "s"}, 7], "x": "\\ud800"}') as url, console_on(url) as here:
        page.goto(here)
        expect(page.locator("#log .error")).to_contain_text("The card cannot be used. It is no valid A2A")
        for button in ("#refresh", "#fresh"):
            page.click(button)
        page.locator("#card-open", has_text="wrong").click()
        notes = page.locator("#card-notes .bad")
        expect(notes.first).to_contain_text("The card cannot be used.")
        expect(notes.filter(has_text="The card has no version, which A2A requires.")).to_have_count(1)
        expect(notes.filter(has_text="Skill s has no name, which A2A requires.")).to_have_count(1)
        expect(page.locator("#card-json")).to_contain_text('"name": 5')
        module = "import('/console/card.js').then(({ checked }) => checked('<html>', '', 'Not found.').wrong)"
        assert page.evaluate(module) == ["Not found.", "The answer is no card. It is shown below."]
        page.goto("about:blank")
    assert [error for error in seen.errors if "502" not in error] == []
