"""Messages that `aion doctor URL` sends to agents of a real server."""

from pathlib import Path

import pytest

from tests.tools.unit.cli.checks.doctor_command import ANSWERING, OPEN, ServedAgents, doctor

FAILING = ANSWERING.replace("answer = lambda", "answer = lambda state: 1 / 0 #")
KEYS = "aion: {security: {schemes: {key: {type: api-key}}}, agents: {helper: {path: agent.py}}}"
SENT = ("blocking message", "streamed message")


def sent(url: str, *arguments: str) -> tuple[int, list[tuple[str, str]]]:
    """Run `aion doctor URL`. Return its exit code, and status and sentence of each message's check."""
    code, results = doctor({}, url, *arguments)
    return code, [(results[each]["status"], results[each]["message"]) for each in SENT if each in results]


def test_doctor_sends_blocking_and_streamed_message(tmp_path: Path) -> None:
    with ServedAgents(tmp_path, OPEN, ANSWERING) as url:
        code, [blocking, streamed] = sent(f"{url}/agents/helper", "--text", "good\x1b[31m day")
    assert (code, blocking[0], streamed[0]) == (0, "ok", "ok")
    assert blocking[1].startswith("The task is completed after ")
    assert " events, first words after " in streamed[1]
    assert blocking[1].endswith(" s: You said: good\\x1b[31m day")
    assert streamed[1].endswith(" s: You said: good\\x1b[31m day")


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        (OPEN, FAILING, " is failed: "),
        (KEYS, ANSWERING, "The agent doesn't accept the credentials (401). Set TOKEN, API_KEY, or BASIC"),
    ],
    ids=["failing agent", "no credentials"],
)
def test_doctor_fails_if_message_gets_no_answer(tmp_path: Path, text: str, code: str, told: str) -> None:
    with ServedAgents(tmp_path, text, code) as url:
        exit_code, [(status, message)] = sent(url)
    assert (exit_code, status) == (1, "FAILED")
    assert told in message


def test_doctor_sends_nothing_without_card(tmp_path: Path) -> None:
    with ServedAgents(tmp_path, OPEN, ANSWERING) as url:
        assert sent(f"{url}/agents/nobody") == (1, [])
