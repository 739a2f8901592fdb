"""Work of an agent in the console: its steps, its drawing, a failure with its cause, and runs from a stored state."""

import json
import re
import signal
from pathlib import Path
from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from tests.support.server import aion_dev, serving
from tests.tools.e2e.console.page import Opened, Screen, answer, choose, ends, failure, named, send, show


def test_tool_call_is_shown_while_it_runs_and_after(console: Page, folder: Path, screen: Screen) -> None:
    city = f"gate work-{screen.width}-{screen.scheme}"
    choose(console, "working")
    send(console, city)
    line = console.locator("#log .work > summary")
    expect(line).to_have_text("1 model call · Calling weather …")
    line.click()
    call = console.locator("#log .work details")
    call.locator("summary").press("Enter")
    parts = show(console, "graph").locator("#drawing .part")
    expect(parts.filter(has_text="tools")).to_have_class(re.compile("running"))
    expect(parts.filter(has_text="agent")).to_have_class(re.compile(r"\bran\b"))
    opened = show(console, "trace").locator(".waterfall details").first
    opened.locator("summary").click()
    show(console, "chat")
    call.locator("summary").focus()
    (folder / city.split()[-1]).touch()
    expect(call.locator("summary")).to_contain_text("→ sunny in")
    expect(call.locator("summary")).to_be_focused()
    show(console, "graph")
    expect(parts.filter(has_text="tools")).not_to_have_class(re.compile("running"))
    expect(parts.filter(has_text="agent").locator(".count")).to_have_text("×2")
    show(console, "chat")
    ends(console)
    answer(console, f"It is sunny in {city}.")
    expect(line).to_have_text(re.compile(r"2 model calls, weather · [\d.]+ m?s"))
    expect(call.locator("summary")).to_contain_text(f'{{"city": "{city}"}} → sunny in {city}')
    assert json.loads(call.locator("pre").first.inner_text()) == {"city": city}
    expect(console.locator("#log .work li").first).to_contain_text("12 → 7 tokens")
    rows = show(console, "trace").locator(".waterfall li")
    expect(rows).to_have_count(7)
    expect(rows.nth(4)).to_contain_text("weather")
    expect(opened).to_have_attribute("open", "")
    show(console, "chat")


@pytest.mark.deep
def test_node_is_lit_in_its_own_subgraph(console: Page) -> None:
    choose(console, "strict")
    send(console, "right")
    ends(console)
    parts = show(console, "graph").locator("#drawing .part.node")
    expect(parts).to_have_text(["left › say", "right › say"])
    expect(parts.last).to_have_class(re.compile(r"\bran\b"))
    expect(parts.first).not_to_have_class(re.compile(r"\bran\b"))


@pytest.mark.deep
def test_work_of_stored_conversation_is_read_in_one_request(console: Page) -> None:
    choose(console, "working")
    for text in ("Oslo", "Bergen", "fail"):
        send(console, text)
        ends(console, "failed" if text == "fail" else "completed")
    expect(console.locator("#log .error .cause")).to_contain_text("in the node agent")
    asked: list[str] = []
    console.on("request", lambda request: asked.append(request.url) if "/console/turns" in request.url else None)
    console.reload()
    expect(console.locator("#log .work:visible > summary")).to_have_text([re.compile("2 model calls, weather")] * 2)
    expect(console.locator("#log .error .cause")).to_contain_text("in the node agent")
    answer(console, "It is sunny in Bergen.")
    assert len(asked) == 1


def test_failure_names_its_cause_and_can_be_tried_again(console: Page) -> None:
    choose(console, "working")
    send(console, "fail")
    ends(console, "failed")
    error = console.locator("#log .error").last
    expect(error).to_contain_text("The task failed.")
    expect(error).to_contain_text("the database said no")
    expect(error.locator(".cause")).to_have_text(re.compile(r"^ValueError in the node agent at working\.py:\d+$"))
    first = named(console, "task")
    error.get_by_text("Try again").click()
    expect(console.locator("#log .user")).to_have_text(["fail", "fail"])
    ends(console, "failed")
    expect(console.locator("#log .error")).to_have_count(2)
    assert named(console, "task") != first
    console.reload()
    expect(console.locator("#log .error .cause")).to_contain_text("in the node agent")


@pytest.mark.deep
def test_graph_runs_from_edited_checkpoint_in_new_context(console: Page, opened: Opened) -> None:
    choose(console, "working")
    send(console, "Oslo")
    ends(console)
    context = named(console, "context")
    entry = show(console, "stored").locator("#entries li", has_text="next tools")
    entry.locator("summary").click()
    editor = entry.locator("textarea")
    values = json.loads(editor.input_value())
    editor.fill("no JSON")
    entry.get_by_text("Run from here").click()
    expect(entry.locator(".error")).to_contain_text("The values are not JSON")
    editor.fill('{"messages": [{"type": "nobody"}]}')
    entry.get_by_text("Run from here").click()
    expect(console.locator("#log .error")).to_contain_text("messages does not fit the state")
    opened.errors.clear()  # the browser has logged the expected status 400 as an error
    show(console, "stored")
    values["messages"][-1]["tool_calls"][0]["args"]["city"] = "Bergen"
    editor.fill(json.dumps(values))
    entry.get_by_text("Run from here").click()
    answer(console, "It is sunny in Bergen.")
    expect(console.locator("#log .note")).to_contain_text("A new context begins at: step 1")
    assert named(console, "context") not in ("", context)
    console.go_back()
    answer(console, "It is sunny in Oslo.")
    assert named(console, "context") == context


@pytest.mark.deep
def test_adk_turn_runs_again_from_message_before_event(console: Page) -> None:
    choose(console, "counting")
    for number in (1, 2):
        console.set_input_files(
            "#files", {"name": "n.txt", "mimeType": "text/plain", "buffer": f"file {number}".encode()}
        )
        send(console, f"message {number}")
        ends(console)
        answer(console, f"Message {number}.")
    entries = show(console, "stored").locator("#entries ol li", has_text="counting")
    expect(entries).to_have_count(2)
    entries.first.locator("summary").click()
    entries.first.get_by_text("Run again from the message before").click()
    answer(console, "Message 2.")
    expect(console.locator("#log .user .text")).to_have_text(["message 2"])
    expect(console.locator("#log .user pre")).to_have_text(["file 2"])


@pytest.mark.deep
def test_suspended_turn_says_when_it_goes_on(console: Page, opened: Opened) -> None:
    """Send without waiting for the answer: only then is the turn suspended."""
    message = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": "sleep"}], "contextId": str(uuid4())}
    params = {"message": message, "configuration": {"returnImmediately": True}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    console.request.post(f"{opened.url}/agents/working", data=body, headers={"A2A-Version": "1.0"})
    console.goto(f"{opened.url}/agents/working/#context={message['contextId']}")
    line = console.locator("#log .work > summary")
    expect(line).to_have_text(re.compile(r"suspended since \d\d:\d\d:\d\d, next look at \d\d:\d\d:\d\d"))
    ends(console)
    answer(console, "Awake.")
    expect(line).not_to_contain_text("suspended")


@pytest.mark.deep
@pytest.mark.usefixtures("console")
def test_takeover_counts_lease_down_and_lost_server_is_named(opened: Opened, folder: Path, screen: Screen) -> None:
    page, file = opened.page, f"lease-{screen.width}-{screen.scheme}"
    with serving(aion_dev(str(folder / "aion.yaml"), "--no-reload"), AION_LEASE_SECONDS="6") as server:
        page.goto(server.url)
        send(page, f"gate {file}")
        expect(page.locator("#log .agent")).to_contain_text("word5")
        failure(page, "kill")
        # On a busy machine, the lease has ended before the new worker can say when it does.
        counted = (
            r"The worker with lease 1 no longer answers\. Another one goes on in \d+ s, unless it renews its lease\."
        )
        expect(page.locator("#log .lease")).to_have_text(
            re.compile(rf"{counted}|Lease 1 has ended: another worker takes")
        )
        (folder / file).touch()
        ends(page)
        expect(page.locator("#log .lease")).to_have_count(0)
        server.process.send_signal(signal.SIGKILL)
        expect(page.locator("#state")).to_have_text("disconnected", timeout=15_000)
    opened.errors.clear()  # the browser has logged the refused connections
