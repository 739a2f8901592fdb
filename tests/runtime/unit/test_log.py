"""Log lines on Lambda: ids, redaction of secrets, and one line for each record."""

import gc
import io
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Any

import pytest

from aion_core import log
from aion_core.aws import log_formatter
from aion_core.lambda_runtime import log as runtime_log
from tests.support.rows import each_row

HOSTILE = 'x\r\n{"level":"ERROR","task_id":"forged"}\u2028\x85\x1b[2J\x9b2J"'


QUOTING = "password=hunter2hunter"
"""Message of an exception that quotes a credential."""


class LogOutput:
    """Logger with the lines that it has written."""

    def __init__(self) -> None:
        self.written = io.StringIO()
        handler = logging.StreamHandler(self.written)
        handler.setFormatter(log_formatter.formatter("my-stack"))
        self.logger = logging.getLogger("an.authors.agent")
        self.logger.handlers[:], self.logger.propagate = [handler], False
        self.logger.setLevel(logging.DEBUG)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Return the parsed lines."""
        text = self.written.getvalue()
        assert text.endswith("\n")
        assert len(text.splitlines()) == text.count("\n"), "no other character ends a line"
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def said() -> Iterator[LogOutput]:
    log.install()
    said = LogOutput()
    yield said
    said.logger.handlers.clear()
    said.logger.propagate = True


def test_log_line_has_ids_service_and_logger(said: LogOutput) -> None:
    with log.request("r-1", function_request_id="r-1", cold_start=True), log.about(task_id="t-1", context_id="c-1"):
        said.logger.info("Said by %s.", "an agent", extra={"rung": 2})
    (line,) = said.lines
    assert line.pop("timestamp").endswith("+00:00")
    assert line.pop("location").startswith("test_log_line_has_ids_service_and_logger:")
    assert line == {
        "level": "INFO",
        "message": "Said by an agent.",
        "service": "my-stack",
        "correlation_id": "r-1",
        "function_request_id": "r-1",
        "cold_start": True,
        "task_id": "t-1",
        "context_id": "c-1",
        "rung": 2,
        "logger": "an.authors.agent",
    }


def test_log_fields_apply_only_within_their_with_block(said: LogOutput) -> None:
    with log.request("r-1"):
        log.note(task_id="t-1")
        with log.about(agent="a"):
            said.logger.info("in")
        said.logger.info("behind")
    said.logger.info("outside")
    with log.request("r-2"):
        said.logger.info("next")
    labels = [
        {name: line[name] for name in ("correlation_id", "task_id", "agent") if name in line} for line in said.lines
    ]
    assert labels[0] == {"correlation_id": "r-1", "task_id": "t-1", "agent": "a"}
    assert labels[1:] == [{"correlation_id": "r-1", "task_id": "t-1"}, {}, {"correlation_id": "r-2"}]


def test_log_fields_of_author_may_have_names_of_our_fields(said: LogOutput) -> None:
    """logging raises for an `extra` named like an attribute of its records; our labels may have such a name."""
    with log.request("r-1"), log.about(task_id="t-1"):
        said.logger.warning("Mine.", extra={"correlation_id": "mine", "task_id": "other"})
    assert (said.lines[0]["correlation_id"], said.lines[0]["task_id"]) == ("mine", "other")


def test_log_line_from_thread_started_in_turn_has_task_id(said: LogOutput) -> None:
    with log.request("r-1"), log.about(task_id="t-1"):
        thread = threading.Thread(target=copy_context().run, args=(said.logger.info, "beating"))
        thread.start()
        thread.join()
    assert said.lines[0]["task_id"] == "t-1"


@pytest.mark.parametrize("message", ["Said: %s", HOSTILE, '{"level": "ERROR", "task_id": "forged"}', "17", "null"])
def test_logged_text_cannot_add_lines(said: LogOutput, message: str) -> None:
    with log.about(task_id="t-1"):
        said.logger.info(message, *([HOSTILE] if "%s" in message else []), extra={"about": {HOSTILE: [HOSTILE]}})
        try:
            raise ValueError(HOSTILE)
        except ValueError:
            said.logger.exception("It failed.")
    lines = said.lines
    assert [(line["level"], line["task_id"]) for line in lines] == [("INFO", "t-1"), ("ERROR", "t-1")]
    assert isinstance(lines[0]["message"], str)
    assert (lines[1]["exception_name"], "ValueError: x" in lines[1]["exception"]) == ("ValueError", True)


def test_credentials_are_redacted_in_each_field(said: LogOutput) -> None:
    """Log secrets in the message and in `extra`, as an agent's author may do."""

    class Header:
        def __str__(self) -> str:
            return "Bearer hunter2hunter2"

    with log.request("r-1", ["hunter2hunter2"]):
        extra = {"headers": {"hunter2hunter2": ["x hunter2hunter2"]}, "header": Header(), "length": 14, "none": None}
        said.logger.info("Sent %s", "hunter2hunter2", extra=extra)
        said.logger.info({"token": "hunter2hunter2"})
        try:
            raise KeyError("hunter2hunter2")
        except KeyError:
            said.logger.exception("hunter2hunter2")
    assert "hunter2" not in said.written.getvalue()
    assert said.lines[0]["headers"] == {"[redacted]": ["x [redacted]"]}
    assert (said.lines[0]["header"], said.lines[0]["length"]) == ("Bearer [redacted]", 14)
    assert "KeyError" in json.dumps(said.lines[2])


def test_messages_of_exceptions_are_logged_without_their_credentials(said: LogOutput) -> None:
    """An author's exception may quote a password that this process does not know as a secret."""
    error = RuntimeError("cannot log in with password=hunter2hunter")
    said.logger.warning("Again: %s", error)
    try:
        raise ValueError("bad settings") from error
    except ValueError:
        said.logger.exception("The agent failed.")
    assert "hunter2" not in said.written.getvalue()
    assert said.lines[0]["message"] == "Again: cannot log in with password=[redacted]"
    assert said.lines[1]["exception_name"] == "ValueError"
    assert "RuntimeError: cannot log in with password=[redacted]" in json.dumps(said.lines[1])
    assert "test_log.py" in json.dumps(said.lines[1]), "the traceback is whole"


@each_row(
    ("message", "arguments"),
    [
        ("It has failed: %(error)s", ({"error": ValueError(QUOTING)},)),
        ("They have failed: %s", ([1, ValueError(QUOTING)],)),
        (f"An f-string quotes it: {ValueError(QUOTING)}", ()),
    ],
)
def test_quoted_messages_of_exceptions_are_redacted(said: LogOutput, message: str, arguments: tuple[Any, ...]) -> None:
    said.logger.warning(message, *arguments)
    assert "password=[redacted]" in said.lines[0]["message"]
    assert "hunter2" not in said.written.getvalue()


def test_many_lines_of_an_exception_in_a_group_are_redacted(said: LogOutput) -> None:
    try:
        raise ExceptionGroup("both", [ValueError(f"one\n{QUOTING}\nthree"), ValueError("another")])
    except ExceptionGroup:
        said.logger.exception("The agent failed.")
    assert "hunter2" not in said.written.getvalue()
    assert "password=[redacted]" in said.written.getvalue()


def test_collection_that_contains_itself_is_logged(said: LogOutput) -> None:
    endless: list[Any] = []
    endless.append(endless)
    said.logger.info("%s", endless)
    assert said.lines[0]["message"] == "[[...]]"


def test_exceptions_that_nobody_catches_are_redacted() -> None:
    """Run a process of its own, because pytest has hooks for these exceptions."""
    code = """
import asyncio, gc, logging, sys, threading
from aion_core import log

log.install()
logging.basicConfig(stream=sys.stdout)
message = "password" + "=hunter2hunter"

def fails():
    raise RuntimeError(message)

class Finalized:
    def __del__(self):
        fails()

async def forgets():
    async def work():
        fails()
    task = asyncio.ensure_future(work())
    await asyncio.sleep(0)
    del task

threading.Thread(target=fails, name="mine").start()
Finalized()
asyncio.run(forgets())
gc.collect()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    told = done.stdout + done.stderr
    assert told.count("password=[redacted]") >= 3
    assert "hunter2" not in told
    assert "The thread mine has failed." in told
    assert "An exception was ignored in a finalizer." in told
    assert "Task exception was never retrieved" in told


def test_hooks_of_other_libraries_are_called_too(said: LogOutput, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[type[BaseException] | None] = []
    monkeypatch.setattr(threading, "excepthook", lambda unhandled: called.append(unhandled.exc_type))
    monkeypatch.setattr(sys, "unraisablehook", lambda unhandled: called.append(unhandled.exc_type))
    monkeypatch.setattr(logging, "_logRecordFactory", logging.LogRecord)
    log.install()

    class Finalized:
        def __del__(self) -> None:
            raise KeyError

    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
    Finalized()
    gc.collect()
    assert called == [ZeroDivisionError, KeyError]


def test_unserializable_value_is_replaced(said: LogOutput) -> None:
    """Log a value that JSON cannot express: the line is written with its ids and a replacement."""
    knot: list[Any] = []
    knot.append(knot)
    with log.about(task_id="t-1"):
        said.logger.info("Tied.", extra={"knot": knot})
        said.logger.info("Odd.", extra={"odd": {("a", "b"): object(), "set": {1}}})
    assert [line["task_id"] for line in said.lines] == ["t-1", "t-1"]
    assert "knot" not in said.lines[0]


WORDS = [
    "Refused with",
    "Refused",
    "INVALID_PARAMS",
    "-32602 (INVALID_PARAMS)",
    "InvalidParamsError",
    "task-state",
    "400 Bad Request",
]
SECRETS = ["hunter2", "pl4nted-s3cret", "sk-live-51Hx", "aBcDeFgHiJ", "x" * 32, "Zm9vOmJhcg==", "aion_aaaa_b2_c"]


@pytest.mark.parametrize("word", WORDS)
def test_ordinary_words_are_not_redacted(said: LogOutput, word: str) -> None:
    with log.request("r-1", [word]):
        log.keep_out(word)
        said.logger.info("It says: %s.", word)
        log.keep_out(word, even_words=True)
        said.logger.info("It says: %s.", word)
    assert [line["message"] for line in said.lines] == [f"It says: {word}.", "It says: [redacted]."]


@pytest.mark.parametrize("secret", SECRETS)
def test_secret_of_random_characters_is_redacted(said: LogOutput, secret: str) -> None:
    with log.request("r-1", [secret]):
        said.logger.info("It says: %s.", secret)
    assert said.lines[0]["message"] == "It says: [redacted]."


@each_row("library", ["anthropic", "google_adk", "google_genai", "httpcore2", "httpx2", "openai"])
def test_log_level_of_model_libraries_is_warning(library: str) -> None:
    log.install()
    assert logging.getLogger(library).level == logging.WARNING


def with_powertools(level: str) -> None:
    log_formatter.install("my-stack", level)


@each_row("spelled", [str.lower, str.upper, str.title])
@each_row("level", ["debug", "info", "warning", "error"])
@each_row("configure", [with_powertools, runtime_log.configure])
def test_log_level_has_any_letter_case(
    configure: Callable[[str], None], level: str, spelled: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    configure(spelled(level))
    assert logging.getLevelName(logging.getLogger().level) == level.upper()
