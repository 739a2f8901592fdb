"""Log lines of the Lambda functions, rendered for people."""

import json
import time

import pytest

from aion_tools.deploy.logs import LogLine, rendered, seconds


def shown(**fields: object) -> tuple[str, list[str]]:
    level, text = rendered(LogLine(1_780_000_000_123, "task", json.dumps(fields), "id"))
    return level, [line[24:] if place == 0 else line for place, line in enumerate(text.splitlines())]


def test_printed_log_line_has_level_message_and_ids() -> None:
    line = {"level": "INFO", "message": "A turn has ended.", "service": "aion-dev", "agent": "helper", "task_id": "t-1"}
    assert shown(**line, state="completed", duration_ms=12, location="run:1", timestamp="…") == (
        "INFO",
        ["task  INFO    A turn has ended.  task_id=t-1 agent=helper state=completed duration_ms=12"],
    )


def test_log_line_begins_with_time_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    _, text = rendered(LogLine(1_780_000_000_123, "task", "{}", "id"))
    monkeypatch.undo()
    time.tzset()
    assert text.startswith("2026-05-28 20:26:40.123 task")


def test_traceback_is_indented_below_its_line() -> None:
    level, lines = shown(level="ERROR", message="The agent failed.", exception="Traceback:\n  x\nValueError: no")
    assert (level, lines[1:]) == ("ERROR", ["    Traceback:", "      x", "    ValueError: no"])


def test_control_characters_of_log_lines_are_escaped() -> None:
    _, lines = shown(level="ERROR", message="one\n\x1b[2Jtwo", exception="ValueError: \x1b]52;c;eA==\x07")
    assert lines == ["task  ERROR   one", "    \\x1b[2Jtwo", "    ValueError: \\x1b]52;c;eA==\\x07"]


@pytest.mark.parametrize(
    "fields",
    [
        {"_aws": {"CloudWatchMetrics": []}, "Turns": 1},
        {"type": "platform.report", "record": {"status": "success", "requestId": "r-1"}},
        {"type": "platform.start", "record": {"requestId": "r-1"}},
    ],
    ids=["metrics", "report", "start"],
)
def test_log_output_omits_metrics_and_lambda_reports(fields: dict[str, object]) -> None:
    assert shown(**fields) == ("", [])


def test_killed_invocation_is_logged_as_error() -> None:
    record = {"status": "timeout", "errorType": "Sandbox.Timedout", "requestId": "r-1"}
    level, (line,) = shown(type="platform.report", record=record)
    assert (level, line) == (
        "ERROR",
        "task  ERROR   Lambda ended an invocation: timeout (Sandbox.Timedout).  request=r-1",
    )


def test_plain_text_log_line_is_shown_whole() -> None:
    level, text = rendered(LogLine(1_780_000_000_000, "api", "Illegal instruction", ""))
    assert (level, text[24:]) == ("INFO", "api           Illegal instruction")


@pytest.mark.parametrize(("text", "many"), [("90s", 90), ("15m", 900), ("1h", 3600), ("2d", 172_800)])
def test_log_time_spans_are_parsed(text: str, many: int) -> None:
    assert seconds(text) == many


@pytest.mark.parametrize("text", ["", "1", "h", "1 h", "-1h", "1w"])
def test_invalid_log_time_spans_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="such as 15m"):
        seconds(text)
