"""`aion send` and `aion chat` as processes, against `aion dev`: answers, questions, files, Ctrl-C, a killed worker."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pexpect
import pytest

from tests.e2e.talking import AGENT, WHOLE
from tests.support.server import ROOT, serving

AION = str(Path(sys.executable).with_name("aion"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chat")
    (folder / "agent.py").write_text(AGENT)
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    command = [AION, "dev", str(folder / "agent.py"), "--no-reload", "--data-dir", str(folder / ".aion")]
    with serving(command, AION_LEASE_SECONDS="2") as server:
        yield server.url


def send(url: str, *arguments: str, **options: object) -> "subprocess.CompletedProcess[str]":
    command = [AION, "send", "--url", url, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)  # type: ignore[call-overload,no-any-return]


def test_send_prints_streamed_answer(url: str) -> None:
    sent = send(url, "hello")
    assert (sent.returncode, sent.stdout.strip(), sent.stderr) == (0, WHOLE, "")


def test_send_reads_standard_input_and_prints_json(url: str) -> None:
    sent = send(url, "-", "--json", "--context", "c 1", input="data")
    answer = json.loads(sent.stdout)
    assert (sent.returncode, answer["state"], answer["text"], answer["context"]) == (
        0,
        "completed",
        "See the data.",
        "c 1",
    )
    assert [part["data"] for part in answer["parts"]] == [{"rows": ["first", "second"]}]


def test_send_answers_question_of_task(url: str) -> None:
    asked = send(url, "book a table", "--json")
    question = json.loads(asked.stdout)
    assert (asked.returncode, question["text"]) == (3, "Which day?")
    answered = send(url, "Tuesday", "--task", question["task"], "--context", question["context"])
    assert (answered.returncode, answered.stdout.strip()) == (0, "Booked for Tuesday.")


def test_send_reports_refused_message(url: str) -> None:
    sent = send(url, "hello", "--task", "unknown")
    assert (sent.returncode, sent.stdout) == (1, "")
    assert "The message is refused" in sent.stderr
    assert "Traceback" not in sent.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "Give a TEXT or a --file"),
        (("hello", "--file", "missing.txt"), 1, "missing.txt cannot be read"),
    ],
)
def test_send_refuses_wrong_command(url: str, arguments: tuple[str, ...], code: int, said: str) -> None:
    sent = send(url, *arguments)
    assert (sent.returncode, said in sent.stderr) == (code, True)


def test_send_finds_development_server_or_says_what_to_do(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "AION_DATA_DIR"}
    sent = subprocess.run([AION, "send", "hello"], cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert (sent.returncode, "No `aion dev` runs in this folder" in sent.stderr) == (1, True)
    sent = send("http://127.0.0.1:9", "hello")
    assert (sent.returncode, "does not answer" in sent.stderr) == (1, True)
    data = tmp_path / "data"
    with serving([AION, "dev", str(ROOT / "examples/echo/agent.py"), "--no-reload"], AION_DATA_DIR=str(data)):
        sent = subprocess.run(
            [AION, "send", "found it"], env={**environ, "AION_DATA_DIR": str(data)}, capture_output=True, text=True
        )
    assert (sent.returncode, sent.stdout.strip()) == (0, "found it")


def test_send_resumes_after_killed_worker(url: str, folder: Path) -> None:
    process = subprocess.Popen([AION, "send", "--url", url, "gate killed-send"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed = ""
    while "word5" not in printed:
        printed += process.stdout.read(1)
    with contextlib.suppress(httpx.TransportError):
        httpx.post(f"{url}/console/kill")
    (folder / "killed-send").touch()
    printed += process.stdout.read()
    assert process.wait(timeout=60) == 0
    assert printed.strip().endswith(WHOLE)
    listed = subprocess.run([AION, "tasks", "list", "--json"], cwd=folder, capture_output=True, text=True)
    newest = max(json.loads(listed.stdout), key=lambda each: each["since"])
    why = subprocess.run([AION, "why", newest["task"]], cwd=folder, capture_output=True, text=True)
    sentences = [line[25:] for line in why.stdout.splitlines()]
    assert ": “gate killed-send”." in sentences[2]
    assert sentences[3] == "A worker of `aion dev` began the turn."
    assert sentences[4].startswith("A worker of `aion dev` took over the turn (try 2)")
    assert any(each.startswith("The turn ended as completed after ") for each in sentences[5:])
    assert why.stdout.splitlines()[-1].startswith("Now: The task is completed since ")


def test_chat_answers_cancels_and_starts_anew(url: str) -> None:
    terminal = pexpect.spawn(
        AION,
        ["chat", url],
        encoding="utf-8",
        timeout=60,
        env={**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
        dimensions=(40, 200),
    )
    terminal.expect("/help lists the commands")
    terminal.expect("you>")
    terminal.sendline("hello")
    terminal.expect("word11")
    terminal.expect("you>")
    terminal.sendline("/help")
    terminal.expect("Ctrl-C cancels the running task")
    terminal.sendline("gate never-chat")
    terminal.expect("word5")
    terminal.sendintr()
    terminal.expect("The task is canceled")
    terminal.sendline("book")
    terminal.expect("Which day")
    terminal.expect("answer>")
    terminal.sendline("Monday")
    terminal.expect("Booked for Monday")
    terminal.sendline("/new")
    terminal.expect("A new conversation")
    terminal.sendline("/quit")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 0
