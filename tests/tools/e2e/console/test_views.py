"""Views of the console besides the chat: agents, cards, stored state, webhooks, screen sizes and colour schemes."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from aion_core.bootstrap import build_app
from aion_core.settings import Settings
from tests.support.e2e.talking import WHOLE
from tests.support.listening import listening
from tests.support.server import aion_dev, serving
from tests.tools.e2e.console.page import (
    SCREENS,
    Opened,
    Screen,
    answer,
    choose,
    ends,
    last_answer,
    run_copies,
    run_test,
    saved,
    send,
    show,
    violations,
    visible_panels,
)


@pytest.mark.deep
def test_agent_selector_switches_to_chosen_agent(console: Page, opened: Opened) -> None:
    assert console.locator("#agent option").all_inner_texts() == [
        "asking",
        "counting",
        "ordering",
        "showing",
        "signing",
        "strict",
        "talk",
        "working",
    ]
    expect(console).to_have_title("Talk · aion console")
    choose(console, "counting")
    send(console, "hello")
    ends(console)
    answer(console, "Message 1.")
    console.click("#card-open")
    assert json.loads(console.locator("#card-json").inner_text())["name"] == "Counting"
    console.keyboard.press("Escape")
    expect(console.locator("#card")).to_be_hidden()
    console.goto(f"{opened.url}/agents/nobody/")
    expect(console.locator("#log .error")).to_have_text("This server has no agent nobody.")
    expect(console).to_have_title("Talk · aion console")
    assert console.url == f"{opened.url}/"
    console.go_back()
    expect(console).to_have_title("Counting · aion console")


@pytest.mark.deep
def test_agent_without_readable_card_is_not_selected(console: Page) -> None:
    console.route("**/agents/counting/.well-known/agent-card.json", lambda route: route.abort())
    console.select_option("#agent", label="counting")
    expect(console.locator("#log .error")).to_have_text("The agent's card cannot be read: Failed to fetch")
    expect(console.locator("#agent option:checked")).to_have_text("talk")
    console.unroute_all()
    send(console, "hello")
    ends(console)
    answer(console, WHOLE)


@pytest.mark.deep
def test_console_lists_mistakes_in_agent_card(console: Page) -> None:
    """Replace the card on its way to the page by a card with mistakes."""

    def spoil(route: Route) -> None:
        card: dict[str, Any] = route.fetch().json()
        del card["version"]
        card["skills"] = [{"id": "one", "name": "One", "description": "First"}] * 2
        for interface in card["supportedInterfaces"]:
            interface["url"] = "https://other.example.com/a2a"
        card["securityRequirements"] = [{"schemes": {"gone": {}}}]
        route.fulfill(json=card)

    expect(console.locator("#card-open")).to_have_text("Agent card")
    console.route(re.compile("agent-card"), spoil)
    try:
        console.reload()
        console.click("text=Agent card (")
        expect(console.locator("#card-notes .bad")).to_have_text([
            "The card has no version, which A2A requires.",
            "Skill one has no tags, which A2A requires.",
            "Skill one has no tags, which A2A requires.",
            "Two skills have the id one.",
            "The security scheme gone is required but not defined.",
            re.compile("No interface has the host of this page"),
        ])  # fmt: skip
        expect(console.locator("#card-notes")).to_contain_text("The card is not signed")
    finally:
        console.unroute(re.compile("agent-card"))


@pytest.mark.deep
def test_late_response_does_not_replace_newer_state(console: Page) -> None:
    held: list[Route] = []
    answers = re.compile(r"/state\?contextId")
    console.route(answers, lambda route: route.continue_() if held else held.append(route))
    try:
        send(console, "hello")
        ends(console)
        send(console, "hello")
        ends(console)
        entries = show(console, "stored").locator("#entries")
        expect(entries).to_contain_text("LangGraph thread")
        with console.expect_event("requestfinished", lambda request: request == held[0].request):
            held[0].fulfill(json=None)
        console.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        expect(entries).to_contain_text("LangGraph thread")
    finally:
        console.unroute(answers)


@pytest.mark.deep
def test_session_of_adk_agent_is_shown(console: Page) -> None:
    choose(console, "counting")
    for count in (1, 2):
        send(console, "hello")
        expect(console.locator("#log .agent").last).to_have_text(f"Message {count}.")
        ends(console)
    entries = show(console, "stored").locator("#entries")
    expect(entries).to_contain_text("ADK session")
    # Wait until the page shows the state after the second turn, because this update closes all opened entries.
    expect(entries.locator("ol summary", has_text="counting")).to_have_count(2)
    entries.locator("summary", has_text="current state").click()
    expect(entries.locator("pre")).to_contain_text('"count": 2')


@pytest.mark.deep
def test_console_shows_failed_webhook_and_redrives_it(console: Page, screen: Screen) -> None:
    show(console, "webhooks")
    console.check("#notified")
    console.select_option("#answered", "410")
    try:
        send(console, "hello")
        ends(console)
        hooks = show(console, "webhooks").locator("#hooks")
        expect(hooks).to_contain_text("disabled")
        expect(hooks.locator("ol li")).to_have_count(1)
        expect(hooks.locator("ol")).to_contain_text("410 ← status working, signature verified")
        console.select_option("#answered", "500")
        hooks.get_by_text("Redrive").click()
        expect(hooks).to_contain_text("1 failed try, next try at")
    finally:
        console.select_option("#answered", "204")
    hooks.get_by_text("Redrive").click()
    expect(hooks.locator("ol")).to_contain_text("204 ← status completed, signature verified")
    expect(hooks).to_contain_text(": ok.")
    hooks.locator("ol summary").first.click()
    posted = json.loads(hooks.locator("ol pre").inner_text())
    assert posted["body"]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert {"webhook-id", "webhook-signature", "webhook-timestamp"} <= posted["headers"].keys()


@pytest.mark.parametrize("screen", SCREENS, ids=str)
def test_console_fits_screen_and_is_accessible(console: Page, screen: Screen) -> None:
    show(console, "webhooks")
    console.check("#notified")
    send(console, "essay 400")
    ends(console)
    send(console, "book")
    ends(console, "input required")
    expect(last_answer(console)).to_be_in_viewport(ratio=1)
    beside = ["tasks", "chat", "timeline"] if screen.is_wide else []
    inner = ("graph", "trace", "stored", "webhooks")
    for panel in inner if screen.is_wide else ("tasks", "timeline", *inner, "chat"):
        show(console, panel)
        assert visible_panels(console) == [*beside, panel]
        assert console.evaluate("document.documentElement.scrollWidth") <= screen.width
        assert violations(console) == []
    console.click("#access summary")
    assert console.evaluate("document.documentElement.scrollWidth") <= screen.width
    assert violations(console) == []
    console.click("#access summary")
    console.click("#card-open")
    assert violations(console) == []
    console.click("#card-close")


@pytest.mark.deep
def test_three_columns_fit_narrowest_wide_screen(console: Page) -> None:
    console.set_viewport_size({"width": 801, "height": 800})
    assert console.evaluate("document.documentElement.scrollWidth") <= 801
    console.set_viewport_size({"width": 390, "height": 740})


@pytest.mark.deep
def test_form_is_readable_on_low_screen(console: Page) -> None:
    console.set_viewport_size({"width": 740, "height": 360})
    choose(console, "asking")
    send(console, "book")
    ends(console, "input required")
    form = console.locator("#question")
    assert form.evaluate("form => form.scrollHeight - form.clientHeight") == 0
    console.set_viewport_size({"width": 390, "height": 740})


SECURED = """
aion:
  security: {schemes: {key: {type: api-key}}, require: [{key: []}]}
  agents:
    talk: {path: "agent.py:graph", name: Talk}
"""


@pytest.mark.deep
@pytest.mark.usefixtures("console")
def test_entered_api_key_is_sent_with_every_request(opened: Opened, folder: Path, tmp_path: Path) -> None:
    (folder / "secured.yaml").write_text(SECURED)
    page = opened.page
    with serving([*aion_dev(str(folder / "secured.yaml"), "--no-reload", "--auth", "on")]) as server:
        page.goto(server.url)
        expect(page.locator("#text")).to_be_enabled()
        send(page, "hello")
        expect(page.locator("#credential")).to_be_visible()
        page.goto(server.url)
        expect(show(page, "tasks").locator("#task-list")).to_contain_text("not authenticated")
        opened.errors.clear()  # the browser has logged the expected status 401 as an error
        key = re.search(r"aion_\S+?(?=')", "".join(server.printed))
        assert key is not None
        page.click("#access summary")
        page.click("#header")  # no bar of a panel covers the sheet
        page.fill("#credential", key[0])
        page.keyboard.press("Tab")
        expect(page.locator("#task-list")).to_contain_text("No conversations yet")
        page.click("#access summary")
        send(page, "hello")
        ends(page)
        answer(page, WHOLE)
        expect(show(page, "stored").locator("#entries")).to_contain_text("LangGraph thread")
        expect(show(page, "tasks").locator(".conversation")).to_have_count(1)
        for copy in run_copies(page, tmp_path, AION_KEY=key[0]).values():
            assert key[0] not in copy
            assert "Needs the value of the header X-API-Key in the environment variable AION_KEY." in copy
        file = saved(page, tmp_path)
        assert key[0] not in file.read_text()
        assert run_test(file, AION_KEY=key[0]).returncode == 0


def test_deployed_console_has_chat_and_timeline_only(console: Page, folder: Path, screen: Screen) -> None:
    environ = {
        "AION_STORE": "memory",
        "AION_CONFIG": str(folder / "aion.yaml"),
        "AION_AUTH": "off",
        "AION_CONSOLE": "on",
    }
    with listening(build_app(Settings.from_environ(environ))) as url:
        console.goto(url)
        send(console, "hello")
        ends(console)
        answer(console, WHOLE)
        if screen.is_wide:
            assert visible_panels(console) == ["tasks", "chat", "timeline"]
            expect(console.locator("#tabs button:visible")).to_have_count(0)
            assert console.locator("#timeline").evaluate("panel => panel.clientHeight") > 700
        else:
            expect(console.locator("#tabs button:visible")).to_have_text(["Chats", "Chat", "Timeline"])
        expect(console.locator("#kill")).to_be_hidden()
