"""Conversations in the console: streamed text, failures on request, events as JSON and code, and saved tests."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.console.page import answer, choose, ends, last_answer, rows, run_test, saved, screenshot, send
from tests.e2e.talking import WHOLE


def tasks(page: Page) -> int:
    """Refresh the list of tasks, and return its length."""
    page.click("#refresh")
    expect(page.locator("#task-list")).to_have_attribute("aria-busy", "false")
    return page.locator("#task-list .task").count()


def test_console_shows_streamed_answer_and_its_events(console: Page) -> None:
    send(console, "hello")
    ends(console)
    answer(console, WHOLE)
    events = r"→ SendStreamingMessage.*← task submitted.*← status working.*chunks, 2\.\d+\.0 to 2\.\d+\.1\d.*← status completed"
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


def test_copied_request_runs_in_each_language(console: Page, tmp_path: Path) -> None:
    """The same messageId is sent each time, so the server answers with the same task."""
    send(console, "hello")
    ends(console)
    console.locator("#events summary", has_text="SendStreamingMessage").click()
    console.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for name, command in {"curl": "bash", "Python": sys.executable, "TypeScript": "node"}.items():
        console.click(f"text=Copy as {name}")
        expect(console.locator(f"text=Copied {name}")).to_be_visible()
        script = tmp_path / f"{name}.mjs"
        script.write_text(console.evaluate("navigator.clipboard.readText()"))
        if shutil.which(command):
            ran = subprocess.run([command, str(script)], capture_output=True, text=True, timeout=60)
            assert ran.returncode == 0, ran.stderr
            assert "TASK_STATE_COMPLETED" in ran.stdout, name


def test_dropped_connection_resumes_after_last_event(console: Page, folder: Path) -> None:
    send(console, "gate dropped")
    expect(last_answer(console)).to_contain_text("word5")
    console.click("#drop")
    (folder / "dropped").touch()
    ends(console)
    answer(console, WHOLE)
    lost = re.search(r"The connection is lost; subscribing again after event (\S+)\.(\d+)\.\s+→?", rows(console))
    assert lost, rows(console)
    assert f"{lost[1]}.{int(lost[2]) + 1} to" in rows(console), "the next chunk follows the last one"


def test_killed_workers_turn_is_taken_over(console: Page, folder: Path) -> None:
    send(console, "gate killed")
    expect(last_answer(console)).to_contain_text("word5")
    console.click("#kill")
    (folder / "killed").touch()
    ends(console)
    answer(console, WHOLE)
    assert "Another worker has taken over the turn" in rows(console)
    expect(console.locator("#entries")).to_contain_text("step 1, loop")
    screenshot(console, "console")


def test_repeated_message_makes_no_second_task(console: Page) -> None:
    send(console, "hello")
    ends(console)
    before = tasks(console)
    console.click("#repeat")
    expect(console.locator("#repeat")).to_be_disabled()
    expect(console.locator("#repeat")).to_be_enabled()
    answer(console, WHOLE)
    assert tasks(console) == before


def test_console_cancels_running_task(console: Page) -> None:
    send(console, "gate never")
    expect(last_answer(console)).to_contain_text("word5")
    console.click("#cancel")
    ends(console, "canceled")


def test_conversation_needs_keyboard_only(console: Page) -> None:
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
    answer(console, "Booked for Tuesday.")


def test_stored_context_and_task_are_shown_again(console: Page) -> None:
    for text in ("hello", "data"):
        send(console, text)
        ends(console)
        expect(console.locator("#repeat")).to_be_enabled()
        # A list that is replaced between the two halves of a click loses the click.
        expect(console.locator("#task-list")).to_have_attribute("aria-busy", "false")
    console.click("#fresh")
    expect(console.locator("#log .message")).to_have_count(0)
    context = console.locator("#task-list > li").first
    expect(context.locator(".task")).to_have_count(2)
    expect(context.locator(".task").first).to_contain_text("completed")
    context.locator(".context").click()
    expect(console.locator("#log .user")).to_have_count(2)
    context.locator(".task", has_text="hello").click()
    expect(console.locator("#log .user")).to_have_text("hello")
    answer(console, WHOLE)
    ends(console)


def test_saved_test_passes_until_answer_changes(console: Page, tmp_path: Path) -> None:
    send(console, "hello")
    ends(console)
    file = saved(console, tmp_path)
    ran = run_test(file)
    assert ran.returncode == 0, ran.stdout
    file.write_text(file.read_text().replace("word11", "other"))
    assert run_test(file).returncode == 1


@pytest.mark.parametrize("text", ["book", "both"])
def test_saved_test_answers_questions(console: Page, tmp_path: Path, text: str) -> None:
    choose(console, "asking")
    send(console, text)
    ends(console, "input required")
    if text == "book":
        console.fill("#question [name=seats]", "2")
    console.click("#question button")
    ends(console)
    ran = run_test(saved(console, tmp_path))
    assert ran.returncode == 0, ran.stdout
