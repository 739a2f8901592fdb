"""Processes of `aion send` and `aion chat` against `aion dev`: answers, questions, files, Ctrl-C, a killed worker."""

import asyncio
import contextlib
import io
import json
import os
import pty
import re
import subprocess
import termios
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pexpect
import pyte
import pytest
from click.testing import CliRunner
from pexpect.fdpexpect import fdspawn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from aion_tools.cli.main import aion
from tests.support.e2e import forked
from tests.support.e2e.talking import AGENT, WHOLE
from tests.support.listening import listening
from tests.support.server import ROOT, aion_dev, serving


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chat")
    (folder / "agent.py").write_text(AGENT)
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    command = aion_dev(str(folder / "agent.py"), "--no-reload", "--data-dir", str(folder / ".aion"))
    with serving(command, AION_LEASE_SECONDS="2") as server:
        yield server.url


def run(
    *arguments: str, cwd: Path = ROOT, env: Mapping[str, str] = os.environ, text: str = ""
) -> "subprocess.CompletedProcess[str]":
    return forked.run("aion_tools.cli", *arguments, cwd=cwd, env=env, text=text)


def send(url: str, *arguments: str, env: Mapping[str, str] = os.environ) -> "subprocess.CompletedProcess[str]":
    return run("send", "--url", url, *arguments, env=env)


def test_send_prints_streamed_answer(url: str) -> None:
    sent = send(url, "hello")
    assert (sent.returncode, sent.stdout.strip(), sent.stderr) == (0, WHOLE, "")


def test_send_reads_standard_input_and_prints_json(url: str) -> None:
    sent = run("send", "--url", url, "-", "--json", "--context", "c 1", text="data")
    answer = json.loads(sent.stdout)
    assert (sent.returncode, answer["state"], answer["text"], answer["context"]) == (
        0,
        "completed",
        "See the data.",
        "c 1",
    )
    assert [part["data"] for part in answer["parts"]] == [{"rows": ["first", "second"]}]


def test_send_answers_one_of_several_questions(url: str) -> None:
    asked = send(url, "trip", "--json")
    question = json.loads(asked.stdout)
    first, second = question["interrupts"]
    half = send(url, "Rome", "--task", question["task"], "--interrupt", first["id"])
    assert (half.returncode, half.stdout.splitlines()[-1]) == (3, second["text"])
    done = send(url, "bus", "--task", question["task"])
    assert (done.returncode, "By? bus!" in done.stdout) == (0, True)
    listed = send(url, "trip").stderr.splitlines()
    assert [line.rpartition(": ")[2] for line in listed[-2:]] == ["From where?", "By?"]
    assert listed[-1].startswith("Answer with --interrupt ")
    assert re.fullmatch(r'The task \S+ is input-required\. Answer with: aion send "…" --task \S+', listed[-3])
    assert "Answer with: aion send --data '{…}' --task " in send(url, "form").stderr


def test_chat_answers_several_questions(url: str) -> None:
    terminal = ChatTerminal(url)
    terminal.say("trip")
    terminal.expect("Choices: bus")
    terminal.say("Rome", prompt="answer 1 of 2>")
    terminal.expect("answer 2 of 2>")
    terminal.send("b\t")
    terminal.expect("bus")
    terminal.sendline("")
    terminal.expect("By\\? bus!")
    terminal.leave()


def test_chat_continues_after_refusal_of_attached_files(url: str, tmp_path: Path) -> None:
    (file := tmp_path / "zeros.bin").write_bytes(bytes(2_000_000))
    done = run("chat", url, text=f"/file {file}\n/file {file}\nlook\nhello\n")
    assert done.stdout.count("The message is too large (413)") == 1


def test_send_reports_invalid_arguments(url: str) -> None:
    for arguments, code, said in (
        ((), 2, "Give a TEXT, a --file or --data"),
        (("--data", "{seats: 2}"), 1, "The data is not JSON"),
        (("hello", "--file", "missing.txt"), 1, "missing.txt cannot be read"),
        (("hello", "--save", "/dev/null/folder"), 1, "/dev/null/folder cannot be written: Not a directory."),
        (("hello", "--url", "localhost:8000"), 2, "'localhost:8000' has to be an http or https URL"),
    ):
        sent = CliRunner().invoke(aion, ["send", "--url", url, *arguments])
        assert (sent.exit_code, said in sent.stderr + str(sent.exception)) == (code, True), sent.output


def test_chat_reads_messages_from_pipe(url: str) -> None:
    done = run("chat", url, text="hello\n/quit\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert "you>" not in done.stdout
    assert re.search(r"aion chat … --context [0-9a-f-]{36}$", done.stdout.strip())


def test_send_finds_development_server_or_explains_failure(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "AION_DATA_DIR"}
    sent = run("send", "hello", cwd=tmp_path, env=environ)
    assert (sent.returncode, "No `aion dev` is running in this folder" in sent.stderr) == (1, True)
    sent = send("http://127.0.0.1:9", "hello")
    assert (sent.returncode, "doesn't answer" in sent.stderr) == (1, True)
    data = tmp_path / "data"
    with serving(aion_dev(str(ROOT / "examples/echo/agent.py"), "--no-reload"), AION_DATA_DIR=str(data)):
        sent = run("send", "found it", env={**environ, "AION_DATA_DIR": str(data)})
    assert (sent.returncode, sent.stdout.strip()) == (0, "found it")


def test_send_resumes_after_killed_worker(url: str, folder: Path) -> None:
    arguments = ("aion_tools.cli", "send", "--url", url, "gate killed-send")
    process = forked.ForkedProcess(*arguments, env=os.environ, stdout=subprocess.PIPE)
    assert process.stdout is not None
    printed = ""
    while "word5" not in printed:
        printed += process.stdout.read(1).decode()
    with pytest.raises(httpx.TransportError):
        httpx.post(f"{url}/agents/{folder.name}/console/kill", json={}, timeout=60)
    (folder / "killed-send").touch()
    printed += process.stdout.read().decode()
    assert process.wait(timeout=60) == 0
    assert printed.strip().endswith(WHOLE)
    listed = run("tasks", "list", "--json", cwd=folder)
    newest = max(json.loads(listed.stdout), key=lambda each: each["since"])
    why = run("why", newest["task"], cwd=folder)
    head, console, *lines = why.stdout.splitlines()
    assert f"/agents/{newest['agent']}/#context=" in console
    lines = [line[25:] for line in (head, *lines)]
    sentences = [line for line in lines if not line.startswith("  ")]  # without the steps of the turn
    assert ": “gate killed-send”." in sentences[2]
    # On a slow machine, the sentence also says how long the message has waited.
    assert re.fullmatch(r"A worker of `aion dev` began the turn(, .* after its message)?\.", sentences[3])
    assert sentences[4].startswith("A worker of `aion dev` took over the turn (try 2)")
    assert any(each.startswith("The turn ended as completed after ") for each in sentences[5:])
    assert why.stdout.splitlines()[-1].startswith("Now: The task completed at ")


class ChatTerminal(fdspawn):  # type: ignore[type-arg]  # fdspawn is generic only in its stubs
    """Pseudo-terminal that runs `aion chat`."""

    def __init__(self, *arguments: str, lines: int = 40, columns: int = 200, **environ: str) -> None:
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (lines, columns))
        environment = {**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", **environ}
        self._process = forked.ForkedProcess(
            *("aion_tools.cli", "chat", *arguments), env=environment, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        super().__init__(ours, timeout=60, encoding="utf-8")

    def say(self, line: str, prompt: str = "you>") -> None:
        """Wait for the prompt, and enter a line."""
        self.expect(prompt)
        self.sendline(line)

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.send("\x03")

    def leave(self) -> None:
        """Press Ctrl-D at the prompt; the command ends without an error."""
        self.expect("you>")
        self.send("\x04")
        self.ends()

    def ends(self) -> None:
        """Wait for the end of the command, and expect exit code 0."""
        self.expect(pexpect.EOF)
        assert self._process.wait(timeout=60) == 0
        self.close()


def test_chat_accepts_answers_cancellation_and_new_conversation(url: str) -> None:
    terminal = ChatTerminal(url)
    terminal.expect("/help lists the commands")
    terminal.say("hello")
    terminal.expect("word11")
    terminal.say("/help")
    terminal.expect("Ctrl-C cancels the running task")
    terminal.say("gate never-chat")
    terminal.expect("word5")
    terminal.interrupt()
    terminal.expect("The task is canceled")
    terminal.say("book")
    terminal.expect("Which day")
    terminal.expect("Choices: Monday, Tuesday")
    terminal.expect("answer>")
    terminal.send("Mon\t")
    terminal.expect("Monday")
    terminal.sendline("")
    terminal.expect("Booked for Monday")
    terminal.say("book")
    terminal.say("/cancel", prompt="answer>")
    terminal.expect("The task is canceled")
    terminal.say("/new")
    terminal.expect("A new conversation")
    terminal.say("/quit")
    terminal.expect("Continue this conversation: aion chat … --context ")
    terminal.ends()


@pytest.mark.deep
@pytest.mark.parametrize(
    ("number", "columns"),
    [(1000, 40), (10_000, 80), (10_000, 40)],
)
def test_long_answer_has_each_line_once_in_scrollback(url: str, number: int, columns: int) -> None:
    """Read many words, a table, a code block and right-to-left text in a small window."""
    # Shells may export the size of another window.
    terminal = ChatTerminal(url, lines=24, columns=columns, COLUMNS="100", LINES="50")
    received = io.StringIO()
    terminal.logfile_read = received
    terminal.say(f"essay {number}")
    terminal.expect("That is all", timeout=300)
    terminal.leave()
    screen = pyte.HistoryScreen(columns, 24, history=5000, ratio=0.01)
    pyte.Stream(screen).feed(received.getvalue())
    above = ["".join(line[column].data for column in range(columns)) for line in screen.history.top]
    words = re.findall(r"\b(?:word|row|code|\u05e9\u05dc\u05d5\u05dd)\d+\b", " ".join([*above, *screen.display]))
    doubled = [word for word, times in Counter(words).items() if times > 1]
    assert (len(set(words)), doubled) == (number + 60 + 80 + 400, [])


def test_chat_asks_for_each_field_of_answer(url: str) -> None:
    terminal = ChatTerminal(url)
    terminal.say("form")
    terminal.expect("Answer each field, or all as one JSON object")
    terminal.say("Paris", prompt=r"answer: city \(Oslo, Bergen\)>")
    terminal.expect("city: 'Paris' is not one of \\['Oslo', 'Bergen'\\]")
    terminal.say("Oslo", prompt=r"answer: city \(Oslo, Bergen\)>")
    terminal.say("0", prompt=r"answer: seats \(integer\)>")
    terminal.expect("seats: 0 is less than the minimum of 1")
    terminal.say("2", prompt=r"answer: seats \(integer\)>")
    terminal.say("no", prompt=r"answer: window \(yes, no, optional\)>")
    terminal.say("Ada", prompt=r"answer: who\.first \(optional\)>")
    terminal.expect(r"Got \{")
    terminal.leave()


CALLING = """
import asyncio
from pathlib import Path

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph


@tool
async def count_words(text: str) -> int:
    "Count the words."
    return len(text.split())


async def count(state: MessagesState) -> dict:
    text = state["messages"][-1].text
    number = await count_words.ainvoke({"text": text})
    while "wait" in text and not Path(__file__).with_name("go").exists():
        await asyncio.sleep(0.02)
    return {"messages": [AIMessage(f"Counted {number}.")]}


graph = StateGraph(MessagesState).add_node(count).add_edge(START, "count")
"""


def test_chat_shows_tool_calls_of_own_server(tmp_path: Path) -> None:
    """Show each call as one line, before the answer if the turn takes longer; none of a server elsewhere."""
    (tmp_path / "agent.py").write_text(CALLING)
    with serving(aion_dev(str(tmp_path / "agent.py"), "--no-reload"), AION_DATA_DIR=str(tmp_path / "data")) as server:
        terminal = ChatTerminal(AION_DATA_DIR=str(tmp_path / "data"))
        terminal.say("wait for it")
        terminal.expect(r'\xb7 count_words\(text="wait for it"\) → 3  \d+ ms\x1b\[0m\r\n')
        (tmp_path / "go").touch()
        terminal.expect("Counted 3")
        terminal.say("hello")
        terminal.expect(r'· count_words\(text="hello"\) → 1  \d+ ms')
        assert "Counted 1" in str(terminal.before)
        assert "wait for it" not in str(terminal.before)
        terminal.leave()
        elsewhere = ChatTerminal(server.url, AION_DATA_DIR=str(tmp_path / "other"))
        elsewhere.say("hello")
        elsewhere.expect("Counted 1")
        elsewhere.expect("you>")
        assert "count_words" not in str(elsewhere.before)
        elsewhere.send("\x04")
        elsewhere.ends()


def test_chat_with_context_option_answers_earlier_interrupt(url: str) -> None:
    question = json.loads(send(url, "book a table", "--json").stdout)
    terminal = ChatTerminal(url, "--context", question["context"])
    terminal.expect("Which day")
    terminal.say("Tuesday", prompt="answer>")
    terminal.expect("Booked for Tuesday")
    terminal.leave()


def test_ctrl_c_before_answer_returns_to_prompt() -> None:
    """Press Ctrl-C before the server has answered; the chat continues."""
    with silent_agent() as (url, asked):
        terminal = ChatTerminal(url)
        terminal.say("hello")
        assert asked.wait(60)
        terminal.interrupt()
        terminal.expect("Stopped before the agent had answered")
        terminal.leave()


@contextlib.contextmanager
def silent_agent() -> "Iterator[tuple[str, threading.Event]]":
    """Serve a card, but never answer a message; yield the URL, and an event that the first message sets."""
    asked = threading.Event()

    async def card(request: Request) -> Response:
        interface = {"url": str(request.base_url), "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        texts = {"name": "silent", "description": "Silent.", "version": "1"}
        return JSONResponse({**texts, "supportedInterfaces": [interface], "capabilities": {"streaming": True}})

    async def message(request: Request) -> Response:
        await request.body()
        asked.set()
        while not await request.is_disconnected():
            await asyncio.sleep(0.01)
        return Response()

    with listening(Starlette(routes=[Route("/", message, methods=["POST"]), Route("/{path:path}", card)])) as url:
        yield url, asked


def test_chat_sends_and_saves_files(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("quiet")
    with serving(aion_dev(str(ROOT / "examples/files/agent.py"), "--no-reload", "--store", "memory")) as server:
        terminal = ChatTerminal(server.url)
        terminal.say(f"/file {tmp_path / 'missing.txt'}")
        terminal.expect("cannot be read")
        terminal.sendline(f"/file {tmp_path / 'note.txt'}")
        terminal.expect("goes with the next message")
        terminal.sendline("Shout it.")
        terminal.expect("note.txt, text/plain, 5 bytes; /save FOLDER")
        terminal.sendline(f"/save {tmp_path / 'saved'}")
        terminal.expect("Saved")
        terminal.leave()
        sent = send(server.url, "Shout it.", "--file", str(tmp_path / "note.txt"))
        assert "note.txt, text/plain, 5 bytes; --save FOLDER" in sent.stderr
    assert (tmp_path / "saved" / "note.txt").read_text() == "QUIET"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[tuple[str, str]]":
    """Serve two agents that require an API key; yield the server's URL and a key."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "agent.py").write_text(AGENT)
    (folder / "aion.yaml").write_text(
        "aion:\n  security: {schemes: {key: {type: api-key}}}\n"
        "  agents: {talker: {path: 'agent.py:graph'}, helper: {path: 'agent.py:graph'}}\n"
    )
    command = aion_dev("--config", str(folder / "aion.yaml"), "--no-reload", "--auth", "on")
    with serving(command, AION_DATA_DIR=str(folder / ".aion")) as server:
        environ = {**os.environ, "AION_DATA_DIR": str(folder / ".aion")}
        yield server.url, run("key", "create", "alice", env=environ).stdout.strip()


def test_send_and_chat_authenticate_with_api_key(guarded: tuple[str, str]) -> None:
    url, key = guarded
    sent = send(url, "hello", env={**os.environ, "API_KEY": key})
    assert (sent.returncode, sent.stdout.strip()) == (0, WHOLE)
    refused = send(url, "hello", env={**os.environ, "API_KEY": "wrong"})
    assert (refused.returncode, "doesn't accept the credentials (401)" in refused.stderr) == (1, True)
    assert "/.well-known/agent-card.json" in refused.stderr
    terminal = ChatTerminal(url, "--agent", "helper", API_KEY=key)
    terminal.say("hello")
    terminal.expect("word11")
    terminal.leave()


def test_error_of_unknown_agent_suggests_similar_name(guarded: tuple[str, str]) -> None:
    url, key = guarded
    sent = send(url, "hello", "--agent", "helpr", env={**os.environ, "API_KEY": key})
    assert (sent.returncode, "There is no agent 'helpr'" in sent.stderr) == (1, True)
    assert "Did you mean 'helper'?" in sent.stderr
