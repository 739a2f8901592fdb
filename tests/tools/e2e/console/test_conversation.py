"""Conversations in the console: streamed text, failures caused by its buttons, events as JSON and code, saved tests."""

import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.support.e2e.talking import WHOLE
from tests.tools.e2e.console.page import (
    Opened,
    Screen,
    answer,
    choose,
    ends,
    failure,
    last_answer,
    named,
    rows,
    run_copies,
    run_test,
    saved,
    send,
    show,
)

PAGE = 20
"""Number of tasks on a page of the list."""


def conversations(page: Page) -> Locator:
    """Refresh the list of conversations, and return its entries."""
    show(page, "tasks").locator("#refresh").click()
    expect(page.locator("#task-list")).to_have_attribute("aria-busy", "false")
    return page.locator("#task-list .conversation")


def rpc(page: Page, method: str, task: str | None) -> None:
    """Call a method with the id of a task, outside the console, and wait for the end of the response."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": task}}
    page.request.post(page.url, data=body, headers={"A2A-Version": "1.0"})


@pytest.mark.deep
def test_console_names_required_extensions_of_card(console: Page) -> None:
    choose(console, "strict")
    send(console, "left")
    ends(console)
    answer(console, "Said by left.")


def test_console_shows_streamed_answer_and_its_events(console: Page) -> None:
    send(console, "hello")
    ends(console)
    answer(console, WHOLE)
    events = (
        r"\d\d:\d\d:\d\d\.\d{3} → SendStreamingMessage.*← task submitted.*← status working.*chunks of lease 1, 2\.1\.0 to 2\.1\.1\d"
        r".*← status completed"
    )
    assert re.search(events, rows(console), re.DOTALL)
    for title, content in (
        ("SendStreamingMessage", '"method": "SendStreamingMessage"'),
        ("chunks", '"artifactUpdate"'),
    ):
        event = console.locator("#events li", has=console.locator("summary", has_text=title))
        event.locator("summary").click()
        expect(event.locator("pre")).to_contain_text(content)
    sent = json.loads(console.locator("#events li.out pre").inner_text())
    assert sent["params"]["message"]["parts"] == [{"text": "hello"}]


@pytest.mark.deep
def test_request_copied_from_console_runs_in_each_language(console: Page, tmp_path: Path) -> None:
    """Run the copied request in curl, Python and TypeScript: all send the same messageId and get the same task."""
    send(console, "hello")
    ends(console)
    for copy in run_copies(console, tmp_path).values():
        assert "AION_KEY" not in copy


@pytest.mark.deep
def test_console_resubscribes_after_last_event_of_dropped_stream(console: Page, folder: Path, screen: Screen) -> None:
    file = f"dropped-{screen.width}-{screen.scheme}"
    send(console, f"gate {file}")
    expect(last_answer(console)).to_contain_text("word5")
    failure(console, "drop")
    (folder / file).touch()
    ends(console)
    answer(console, WHOLE)
    text = rows(console)
    lost = re.search(r"The connection is lost; subscribing again after event (\d+\.\d+)\.(\d+)\.", text)
    assert lost, text
    assert f"{lost[1]}.{int(lost[2]) + 1} to" in text, "the next chunk follows the last one"


@pytest.mark.deep
def test_state_is_working_after_first_chunk_of_new_stream(console: Page, folder: Path, screen: Screen) -> None:
    file = f"again-{screen.width}-{screen.scheme}"
    send(console, f"gate {file}")
    expect(last_answer(console)).to_contain_text("word5")
    console.evaluate("""() => {
        window.states = [];
        const note = (records) => states.push(...records.flatMap((each) => [...each.addedNodes].map((node) => node.data)));
        new MutationObserver(note).observe(document.querySelector("#state"), { childList: true });
    }""")
    failure(console, "drop")
    expect(console.locator("#events > li", has_text="→ SubscribeToTask")).to_have_count(1)
    (folder / file).touch()
    ends(console)
    assert console.evaluate("states") == ["reconnecting", "working", "completed"]


def test_turn_of_killed_worker_continues_in_console(console: Page, folder: Path, screen: Screen) -> None:
    file = f"{screen.scheme}-{screen.width}"
    send(console, f"Say twelve words, and pause at the gate {file}")
    expect(last_answer(console)).to_contain_text("word5")
    failure(console, "kill")
    # Open the gate only after the worker is killed: otherwise it could stream the rest of the text itself.
    expect(show(console, "timeline").locator("#events")).to_contain_text("subscribing again after event")
    (folder / file).touch()
    ends(console)
    answer(console, WHOLE)
    text = rows(console)
    story = re.search(
        r"chunks of lease 1, 2\.1\.0 to (?P<last>2\.1\.\d+)\s.*The worker process is killed\."
        r".*subscribing again after event (?P=last)\..*→ SubscribeToTask"
        r".*Takeover: lease 1 ended after chunk (?P=last)\. Another worker has lease (?P<next>\d+) and goes on with chunk 2\.(?P=next)\.0\."
        r".*chunks of lease (?P=next), 2\.(?P=next)\.0 to 2\.(?P=next)\.\d+\s.*← status completed",
        text,
        re.DOTALL,
    )
    assert story, text
    expect(show(console, "stored").locator("#entries")).to_contain_text("step 1, loop")


@pytest.mark.deep
def test_answer_sent_over_lost_connection_is_sent_again(console: Page) -> None:
    """Let the connection fail twice before the server receives the answer."""
    losses = [1, 2]

    def fail(route: Route) -> None:
        is_message = "SendStreamingMessage" in (route.request.post_data or "")
        route.abort() if is_message and losses and losses.pop() else route.fallback()

    send(console, "book")
    ends(console, "input required")
    console.route("**/agents/talk", fail)
    console.locator("#question button").click()
    ends(console)
    answer(console, "Booked for Monday.")
    assert "sending the request again" in rows(console)
    console.unroute_all()


@pytest.mark.deep
def test_console_names_unreachable_server(console: Page) -> None:
    console.route("**/agents/talk", lambda route: route.abort())
    send(console, "hello")
    error = console.locator("#log .error")
    expect(error).to_contain_text("The server cannot be reached (Failed to fetch).")
    expect(console.locator("#state")).to_have_text("disconnected")
    console.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(console.locator("#state")).to_have_text("reachable again")
    console.unroute_all()
    error.get_by_text("Try again").click()
    ends(console)
    answer(console, WHOLE)


@pytest.mark.deep
def test_console_repeat_button_creates_no_second_task(console: Page) -> None:
    send(console, "hello")
    ends(console)
    before = conversations(console).count()
    failure(console, "repeat")
    # Check the timeline, because the repeated answer may appear too fast for the driver to see a change in the chat.
    expect(console.locator("#events > li", has_text="→ SendStreamingMessage")).to_have_count(2)
    ends(console)
    answer(console, WHOLE)
    assert conversations(console).count() == before


def test_console_cancels_running_task(console: Page) -> None:
    send(console, "gate never")
    expect(last_answer(console)).to_contain_text("word5")
    console.click("#cancel")
    ends(console, "canceled")
    expect(console.locator("#log .agent")).to_have_text([re.compile("^word0 .*word5"), "Canceled."])
    expect(console.locator("#log [aria-busy=true]")).to_have_count(0)


@pytest.mark.deep
def test_expanded_group_of_chunks_shows_chunks_that_arrive_later(console: Page, folder: Path, screen: Screen) -> None:
    file = f"group-{screen.width}-{screen.scheme}"
    send(console, f"gate {file}")
    expect(last_answer(console)).to_contain_text("word5")
    group = show(console, "timeline").locator("#events li", has_text="chunks")
    group.locator("summary").click()
    expect(group.locator("pre")).to_contain_text("word5")
    (folder / file).touch()
    expect(group.locator("pre")).to_contain_text("word11")
    ends(console)


@pytest.mark.deep
def test_answer_is_not_shown_in_another_context(console: Page, folder: Path, screen: Screen) -> None:
    file = f"left-{screen.width}-{screen.scheme}"
    send(console, f"gate {file}")
    expect(last_answer(console)).to_contain_text("word5")
    left = named(console, "task")
    console.click("#fresh")
    send(console, "data")
    ends(console)
    (folder / file).touch()
    # The response ends with the task.
    rpc(console, "SubscribeToTask", left)
    expect(show(console, "chat").locator("#log .user")).to_have_text(["data"])
    expect(console.locator("#log .agent")).to_have_count(2)


@pytest.mark.parametrize(
    "way", ["list", *(pytest.param(way, marks=pytest.mark.deep) for way in ("reload", "back", "address"))]
)
def test_opened_running_conversation_continues_its_stream(
    console: Page, folder: Path, screen: Screen, way: str
) -> None:
    file = f"opened-{way}-{screen.width}-{screen.scheme}"
    send(console, f"gate {file}")
    expect(last_answer(console)).to_contain_text("word5")
    address = console.url
    if way == "reload":
        console.reload()
    else:
        console.click("#fresh")
        expect(console.locator("#log .message")).to_have_count(0)
        assert not named(console, "context")
    if way == "list":
        listed = conversations(console).filter(has_text=file)
        expect(listed).to_contain_text("working")
        listed.click()
    elif way == "back":
        console.go_back()
    elif way == "address":
        console.goto("about:blank")
        console.goto(address)
    expect(last_answer(console)).to_contain_text("word5")
    expect(console.locator("#log .user")).to_have_text([f"gate {file}"])
    assert console.url == address
    expect(console.locator("#drop")).to_be_enabled()
    (folder / file).touch()
    ends(console)
    answer(console, WHOLE)
    expect(console.locator("#save")).to_be_disabled()


@pytest.mark.parametrize(
    ("agent", "text", "state"),
    [
        ("talk", "book", "input required"),
        pytest.param("talk", "hello", "completed", marks=pytest.mark.deep),
        pytest.param("talk", "gate never", "canceled", marks=pytest.mark.deep),
        pytest.param("signing", "hello", "auth required", marks=pytest.mark.deep),
        pytest.param("working", "fail", "failed", marks=pytest.mark.deep),
    ],
)
def test_reload_and_back_keep_conversation_in_each_state(console: Page, agent: str, text: str, state: str) -> None:
    if agent != "talk":
        choose(console, agent)
    send(console, text)
    if state == "canceled":
        expect(last_answer(console)).to_contain_text("word5")
        console.click("#cancel")
    ends(console, state)
    messages = console.locator("#log .message:not(.note)")
    # The task of a canceled turn does not have the text that it had streamed.
    kept = messages.count() - (state == "canceled")
    address = console.url
    console.reload()
    ends(console, state)
    expect(messages).to_have_count(kept)
    expect(messages.first).to_have_text(text)
    expect(console.locator("#question")).to_be_visible(visible=state in ("input required", "auth required"))
    console.click("#fresh")
    expect(messages).to_have_count(0)
    console.go_back()
    ends(console, state)
    expect(messages).to_have_count(kept)
    assert console.url == address


@pytest.mark.deep
def test_open_interrupt_is_answerable_after_its_context_is_opened_again(console: Page) -> None:
    send(console, "book the context")
    ends(console, "input required")
    console.click("#fresh")
    expect(conversations(console).first).to_contain_text("input required")
    conversations(console).first.click()
    show(console, "chat").locator("#question button").click()
    ends(console)
    answer(console, "Booked for Monday.")


@pytest.mark.deep
def test_second_message_sent_while_task_runs_is_answered_once(console: Page, folder: Path, screen: Screen) -> None:
    file = f"second-{screen.width}-{screen.scheme}"
    send(console, f"gate {file}")
    expect(last_answer(console)).to_contain_text("word5")
    expect(console.get_by_role("article", name="Talk")).to_have_attribute("aria-busy", "true")
    expect(console.get_by_role("article", name="You")).to_have_text(f"gate {file}")
    send(console, "book")
    expect(console.locator("#events > li", has_text="← task")).to_have_count(2)
    (folder / file).touch()
    ends(console, "input required")
    expect(console.locator("#log .agent", has_text="word11")).to_have_count(1)
    expect(console.locator("#log .agent", has_text="Which day?")).to_have_count(1)


@pytest.mark.deep
def test_stream_continues_after_refused_second_message(console: Page, folder: Path, screen: Screen) -> None:
    def refuse(route: Route) -> None:
        is_message = "SendStreamingMessage" in (route.request.post_data or "")
        route.fulfill(json={"error": {"code": -32602, "message": "Refused."}}) if is_message else route.fallback()

    file = f"refused-{screen.width}-{screen.scheme}"
    send(console, f"gate {file}")
    expect(last_answer(console)).to_contain_text("word5")
    console.route("**/agents/talk", refuse)
    send(console, "more")
    expect(console.locator("#log .error")).to_have_text("Refused. (-32602)")
    expect(console.locator("#events > li", has_text="→ SubscribeToTask")).to_have_count(1)
    (folder / file).touch()
    ends(console)
    expect(console.locator("#log .agent")).to_have_text([WHOLE])
    console.unroute_all()


@pytest.mark.deep
def test_task_answer_is_shown_although_second_message_was_refused(console: Page, folder: Path, screen: Screen) -> None:
    """Let the task end before its second message is refused."""
    file = f"ended-{screen.width}-{screen.scheme}"
    send(console, f"gate {file}")
    expect(last_answer(console)).to_contain_text("word5")
    task = named(console, "task")

    def refuse(route: Route) -> None:
        if "SendStreamingMessage" in (route.request.post_data or ""):
            (folder / file).touch()
            rpc(console, "SubscribeToTask", task)
            route.fulfill(json={"error": {"code": -32602, "message": "Refused."}})
        else:
            route.fallback()

    console.route("**/agents/talk", refuse)
    send(console, "more")
    ends(console)
    expect(console.locator("#log .agent")).to_have_text([WHOLE])
    console.unroute_all()


@pytest.mark.deep
def test_answer_to_cancelled_task_shows_that_task_is_cancelled(console: Page) -> None:
    """Cancel the task outside the console while its question is open."""
    send(console, "book")
    ends(console, "input required")
    task = named(console, "task")
    rpc(console, "CancelTask", task)
    show(console, "chat").locator("#question button").click()
    ends(console, "canceled")
    send(console, "hello")
    ends(console)
    answer(console, WHOLE)


@pytest.mark.deep
def test_chunks_received_in_one_animation_frame_are_drawn_together(console: Page) -> None:
    console.evaluate(
        "() => { window.frames_ = []; window.requestAnimationFrame = (draw) => window.frames_.push(draw); }"
    )
    send(console, "hello")
    ends(console)
    # The answer has taken the place of its preview; the user's own text may have been rendered too.
    assert console.evaluate("frames_.length") <= 2
    console.evaluate("frames_.forEach((draw) => draw())")
    answer(console, WHOLE)


@pytest.mark.deep
def test_console_conversation_needs_only_keyboard(console: Page) -> None:
    console.keyboard.press("Tab")
    expect(console.locator(".skip")).to_be_focused()
    console.keyboard.press("Enter")
    expect(console.locator("#text")).to_be_focused()
    console.keyboard.type("book a table")
    console.keyboard.press("Enter")
    ends(console, "input required")
    expect(console.locator("#question select")).to_be_focused()
    console.keyboard.press("ArrowDown")
    console.keyboard.press("Tab")
    console.keyboard.press("Enter")
    ends(console)
    expect(console.locator("#text")).to_be_focused()
    answer(console, "Booked for Tuesday.")


@pytest.mark.deep
def test_stored_conversation_is_shown_again(console: Page) -> None:
    """Its row has the first message as its title, and an address with a task leads to that task."""
    places = []
    for text in ("hello", "data"):
        send(console, text)
        ends(console)
        places.append(console.url)
        expect(console.locator("#repeat")).to_be_enabled()
    console.click("#fresh")
    expect(console.locator("#log .message")).to_have_count(0)
    row = conversations(console).filter(has_text="hello").first
    expect(row).to_contain_text("completed")
    row.click()
    expect(show(console, "chat").locator("#log .user")).to_have_text(["hello", "data"])
    expect(row).to_have_attribute("aria-current", "true")
    ends(console)
    assert console.url == places[1], "the newest task"
    console.goto(places[0])
    expect(console.locator("#log .user")).to_have_text(["hello", "data"])
    ends(console)


@pytest.mark.deep
def test_row_of_conversation_appears_when_message_is_sent(console: Page, folder: Path, screen: Screen) -> None:
    """Send in another client, too: its running task appears in the list without a click, and ends there."""
    file = f"listed-{screen.width}-{screen.scheme}"
    send(console, f"gate {file}")
    row = console.locator("#task-list .conversation", has_text=file)
    expect(last_answer(console)).to_contain_text("word5")
    expect(row).to_have_text(re.compile("working"))
    console.click("#fresh")
    (folder / file).touch()
    expect(row).to_have_text(re.compile("completed"), timeout=20_000)


@pytest.mark.deep
def test_task_of_another_client_appears_in_list_by_itself(console: Page, opened: Opened) -> None:
    text = f"data {uuid.uuid4()}"
    for agent in ("talk", "showing"):
        _task(console, f"{opened.url}/agents/{agent}", str(uuid.uuid4()), text)
    expect(console.locator("#task-list .conversation", has_text=text)).to_have_count(2, timeout=12_000)


@pytest.mark.deep
def test_refused_message_leaves_no_conversation(console: Page) -> None:
    refusal = {"error": {"code": -32602, "message": "Refused."}}
    is_sent = "SendStreamingMessage"
    console.route(
        "**/agents/talk",
        lambda route: route.fulfill(json=refusal) if is_sent in (route.request.post_data or "") else route.fallback(),
    )
    send(console, "refused for ever")
    expect(console.locator("#log .error")).to_contain_text("Refused.")
    expect(console.locator("#task-list .conversation", has_text="refused for ever")).to_have_count(0)
    console.unroute_all()


@pytest.mark.deep
def test_answer_of_gateway_is_named_instead_of_breaking_page(console: Page, opened: Opened) -> None:
    is_sent = "SendStreamingMessage"
    console.route(
        "**/agents/talk",
        lambda route: (
            route.fulfill(status=429, json={"message": "Too Many Requests"})
            if is_sent in (route.request.post_data or "")
            else route.fallback()
        ),
    )
    send(console, "hello")
    expect(console.locator("#log .error")).to_have_text("Too Many Requests (429)")
    console.unroute_all()
    opened.errors.clear()  # the browser has logged the expected status 429 as an error


@pytest.mark.deep
def test_link_to_message_keeps_open_conversation(console: Page) -> None:
    send(console, "hello")
    ends(console)
    console.evaluate("document.querySelector('.skip').click()")
    expect(console.locator("#text")).to_be_focused()
    answer(console, WHOLE)


@pytest.mark.deep
def test_older_conversations_are_appended_to_list(console: Page, opened: Opened) -> None:
    """Show the tasks of a context in one row with its first message, even if they are on two pages of the list."""
    agent = f"{opened.url}/agents/talk"
    context = str(uuid.uuid4())
    made = [context, *(str(uuid.uuid4()) for _ in range(PAGE - 1))]
    _task(console, agent, context, "data at first")
    for each in [*made[1:], context]:
        _task(console, agent, each, "data")
    console.reload()
    listed = conversations(console)
    row = console.locator(f"#task-list [title='{context}']")
    expect(row).to_contain_text("data at first")
    more = console.get_by_text("Older conversations")
    while more.is_visible():
        before = listed.count()
        more.click()
        expect(more).to_be_enabled()
        if listed.count() == before:
            break
    contexts = listed.evaluate_all("rows => rows.map((row) => row.title)")
    assert len(contexts) == len(set(contexts))
    assert set(made) <= set(contexts)


def _task(page: Page, agent: str, context: str, text: str) -> str:
    """Send a message without the console, and return the id of the completed task."""
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}], "contextId": context}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    answered: dict[str, Any] = page.request.post(agent, data=body, headers={"A2A-Version": "1.0"}).json()
    return str(answered["result"]["task"]["id"])


@pytest.mark.deep
def test_click_on_skill_example_fills_message_field(console: Page) -> None:
    choose(console, "asking")
    expect(console.locator("#log .empty")).to_contain_text("Asking")
    console.locator("#log .empty button", has_text="Book a table for four").click()
    expect(console.locator("#text")).to_have_value("Book a table for four")
    expect(console.locator("#text")).to_be_focused()
    console.keyboard.press("Enter")
    ends(console, "input required")
    expect(console.locator("#log .empty")).to_have_count(0)


@pytest.mark.deep
def test_json_example_of_card_is_sent_as_data(console: Page) -> None:
    """The agent takes no text: the example of its card starts it as it stands."""
    console.locator("#agent").select_option("ordering")
    console.locator("#log .empty button", has_text='{"number": 1}').click()
    console.locator("#text").press("Enter")
    expect(console.locator("#log .message.agent")).to_contain_text("Ordered 1.")


@pytest.mark.deep
def test_test_saved_by_console_fails_if_agent_answers_differently(console: Page, tmp_path: Path) -> None:
    expect(console.locator("#save")).to_be_disabled()
    send(console, "hello")
    ends(console)
    file = saved(console, tmp_path)
    ran = run_test(file)
    assert ran.returncode == 0, ran.stdout
    file.write_text(file.read_text().replace("word11", "other"))
    assert run_test(file).returncode == 1


@pytest.mark.deep
@pytest.mark.parametrize("text", [pytest.param("book", marks=pytest.mark.deep), "both"])
def test_saved_test_answers_interrupt_and_passes(console: Page, tmp_path: Path, text: str) -> None:
    choose(console, "asking")
    send(console, text)
    ends(console, "input required")
    if text == "book":
        console.fill("#question [name=seats]", "2")
    console.click("#question button")
    ends(console)
    ran = run_test(saved(console, tmp_path))
    assert ran.returncode == 0, ran.stdout


@pytest.mark.deep
def test_credential_is_hidden_in_chat_list_and_saved_test(console: Page, tmp_path: Path) -> None:
    choose(console, "signing")
    send(console, "hello")
    ends(console, "auth required")
    console.fill("#question [name]", "my token")
    console.click("#question button")
    ends(console)
    expect(console.locator("#log .user").last).to_have_text("••••")
    file = saved(console, tmp_path)
    assert "my token" not in file.read_text()
    ran = run_test(file, AION_SECRET="another token")
    assert ran.returncode == 0, ran.stdout
    expect(conversations(console).first).not_to_contain_text("my token")
    console.reload()
    expect(show(console, "chat").locator("#log .user").last).to_have_text("••••")
