"""Console log of the development server: lines and tracebacks."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from aion_core import log
from aion_core.errors import StoreUnavailable
from aion_tools.dev.console_log import ConsoleFormatter, install, traceback_lines


def line_of(message: str, error: BaseException | None = None, *, colour: bool = False, **extra: object) -> str:
    exc_info = (type(error), error, error.__traceback__) if error else None
    record = logging.LogRecord("aion_core.engine", logging.INFO, "x.py", 1, message, (), exc_info)
    vars(record).update(extra)
    return ConsoleFormatter(colour=colour).format(record)[len("00:00:00  ") :]


def raised(code: str, file: Path) -> BaseException:
    """Run this code as the content of this file, and return the exception that it raises."""
    file.write_text(code)
    with pytest.raises(Exception) as caught:
        exec(compile(code, str(file), "exec"), {})  # noqa: S102
    return caught.value


def test_turn_and_request_are_one_console_line_each() -> None:
    assert line_of("A turn has ended.", state="completed", duration_ms=12, chunks=3) == "turn completed 12 ms, 3 chunks"
    said = line_of("request", operation="SendMessage", status="200", is_failure=False, duration_ms=7)
    assert said == "SendMessage 200 7 ms"


def test_foreign_text_cannot_control_the_terminal() -> None:
    foreign = "\x1b]0;owned\x07 \u202egnirts\nsecond line"
    assert line_of(foreign) == "\ufffd]0;owned\ufffd \ufffdgnirts\nsecond line"
    assert "\x1b]" not in line_of(foreign, colour=True)


def test_console_log_colour_is_off_by_default() -> None:
    said: dict[str, Any] = {"operation": "SendMessage", "status": "500", "is_failure": True, "duration_ms": 7}
    assert "\033[31m500\033[0m" in line_of("request", colour=True, **said)
    assert "\033" not in line_of("request", **said)


def test_console_log_line_ends_with_agent_task_and_context() -> None:
    """Of a UUID, the line has the end: it shall fit into 80 columns."""
    log.install()
    with log.about(task_id="01a22a28-a75d-7309-837f-96b3e12c8836", context_id="c-1", agent="mine", fence=3):
        record = logging.getLogger("aion_core.x").makeRecord("aion_core.x", logging.INFO, "x", 1, "words", (), None)
    assert ConsoleFormatter(colour=False).format(record).endswith("words  agent mine task e12c8836 context c-1")


def test_failed_turn_is_logged_with_its_console_address() -> None:
    log.install()
    with log.about(task_id="t-1", context_id="c-1", agent="mine"):
        record = logging.getLogger("aion_core.x").makeRecord("aion_core.x", logging.INFO, "x", 1, "ended", (), None)
    for state, lines in {"failed": 2, "completed": 1}.items():
        vars(record).update(state=state, duration_ms=12)
        said = ConsoleFormatter(colour=False, base_url="http://127.0.0.1:8000").format(record).splitlines()
        assert len(said) == lines
    vars(record).update(state="failed")
    said = ConsoleFormatter(colour=False, base_url="http://127.0.0.1:8000").format(record).splitlines()
    assert said[1].strip() == "http://127.0.0.1:8000/agents/mine/#context=c-1&task=t-1"
    assert len(ConsoleFormatter(colour=False).format(record).splitlines()) == 1, "without a server there is no console"


def test_log_line_from_agent_file_names_that_file() -> None:
    record = logging.LogRecord("aion_agent_agent_0eec69000766", logging.INFO, "/me/agent.py", 1, "ready", (), None)
    assert ConsoleFormatter(colour=False).format(record).endswith("  ready (agent)")


def test_traceback_shows_number_of_omitted_library_frames(tmp_path: Path) -> None:
    error = raised("import json\njson.loads('{')\n", tmp_path / "agent.py")
    story = traceback_lines(error)
    assert f'File "{tmp_path / "agent.py"}", line 2, in <module>' in story
    assert "… 3 frames of json" in story
    assert story[-1].startswith("json.decoder.JSONDecodeError: ")
    assert json.__file__ not in "".join(story)


def test_console_traceback_prints_causes_first(tmp_path: Path) -> None:
    code = "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise ValueError('no') from error\n"
    story = traceback_lines(raised(code, tmp_path / "agent.py"))
    division, led_to, value = (
        story.index(each) for each in ("ZeroDivisionError: division by zero", "which led to:", "ValueError: no")
    )
    assert division < led_to < value


def test_traceback_is_printed_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """ADK logs an exception at each node, and its runner logs it once more."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        install(colour=False)
        error = raised("def model():\n    raise ValueError('no model')\nmodel()\n", tmp_path / "agent.py")
        for name, words in (
            ("google_adk.node", "Node failed"),
            ("google_adk.runners", "Root failed"),
            ("aion_core.engine.runner.runner", "The agent failed."),
        ):
            logging.getLogger(name).error(words, exc_info=error)
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    said = capsys.readouterr().err
    assert "Root failed" not in said
    assert said.count(f'File "{tmp_path / "agent.py"}", line 2, in model') == 1
    assert said.splitlines()[-1] == "  ValueError: no model  (traceback above)"


def test_traceback_omits_exceptions_that_adk_adds(tmp_path: Path) -> None:
    code = (
        "class DynamicNodeFailError(Exception): __module__ = 'google.adk.workflow._errors'\n"
        "try:\n    raise ValueError('mine')\nexcept ValueError as error:\n    mine = error\n"
        "mine.__cause__ = DynamicNodeFailError('node failed')\nraise mine\n"
    )
    story = traceback_lines(raised(code, tmp_path / "agent.py"))
    assert story[-1] == "ValueError: mine"
    assert not [line for line in story if "DynamicNodeFailError" in line or line == "which led to:"]


def test_traceback_contains_errors_of_task_group(tmp_path: Path) -> None:
    code = (
        "import asyncio\n"
        "async def fetch(): raise KeyError('city')\n"
        "async def answer():\n    async with asyncio.TaskGroup() as group: group.create_task(fetch())\n"
        "asyncio.run(answer())\n"
    )
    story = traceback_lines(raised(code, tmp_path / "agent.py"))
    assert "KeyError: 'city'" in story
    assert f'File "{tmp_path / "agent.py"}", line 2, in fetch' in story
    assert story[-1].startswith("ExceptionGroup: unhandled errors in a TaskGroup")


def test_traceback_names_langgraph_node(tmp_path: Path) -> None:
    error = ValueError("no")
    error.add_note("During task with name 'answer' and id '6f1f'")
    assert traceback_lines(error) == ["ValueError: no  (in the node 'answer')"]


def test_control_characters_of_exception_are_escaped() -> None:
    assert traceback_lines(ValueError("no \x1b[2J\nmore")) == ["ValueError: no \\x1b[2J", "more"]


def test_aion_error_is_logged_without_traceback() -> None:
    """One line says enough about such an error, for example that of a sweep after the emulator has ended."""
    try:
        raise StoreUnavailable("ReadTimeoutError")
    except StoreUnavailable as error:
        unavailable = error
    unavailable.__traceback__ = None
    said = line_of("SweepFunction failed", unavailable)
    assert said.splitlines() == ["SweepFunction failed", "  aion_core.errors.StoreUnavailable: ReadTimeoutError"]
