"""Story of a task by the log lines about it: turns, notifications, and failures. Pure."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from aion_core.log import one_line
from aion_core.trace.line import duration_text
from aion_tools.cli.documents import time_text
from aion_tools.cli.story.event import StoryEvent

if TYPE_CHECKING:
    from aion_tools.deploy.logs import LogLine


_AWS_ERROR = re.compile(r"\b([A-Z][A-Za-z]+): ([A-Z][A-Za-z0-9.]+)\.?$")
"""Operation and error code of AWS at the end of a message, as in `PutItem: ThrottlingException`."""
_FUNCTIONS = {
    "api": "The API function",
    "task": "The task function",
    "push": "The push function",
    "sweep": "The sweep function",
    "dev": "A worker of `aion dev`",
}


def told_by_line(line: "LogLine") -> Iterator[StoryEvent]:
    """Yield the story event of a log line. Log lines about normal steps yield nothing."""
    fields, at = line.fields, datetime.fromtimestamp(line.at / 1000, UTC)
    if line.killed_request:
        record = fields["record"]
        reason = f" ({record['errorType']})" if record.get("errorType") else ""
        text = f"Lambda ended an invocation of the {line.function} function: {record['status']}{reason}."
        yield StoryEvent(at, "invocation", text, {"function": line.function, "request": line.killed_request})
        return
    message = str(fields.get("message", ""))
    if message == "A turn begins.":
        yield _begun(at, line.function, fields)
    elif message == "A turn has ended.":
        number = fields.get("chunks", 0)
        chunks = f" and {number} streamed {'chunk' if number == 1 else 'chunks'}" if number else ""
        state, took = fields.get("state", "unknown"), duration_text(fields.get("duration_ms", 0))
        text = f"The turn ended as {state} after {took}{chunks}."
        yield StoryEvent(at, "turn", text)
    elif "config_id" in fields:
        yield _pushed(at, message, fields)
    elif message == "The turn was canceled, or another worker took it over.":
        text = f"{_function(line.function)} stopped the turn: another worker took it over, or it was canceled."
        yield StoryEvent(at, "takeover", text)
    elif fields.get("level") in ("WARNING", "ERROR", "CRITICAL"):
        yield _failure(at, line.function, message, fields)


def _begun(at: datetime, function: str, fields: dict[str, Any]) -> StoryEvent:
    names = ("turn_id", "tries", "handoffs", "fence", "holder")
    details = {name: fields[name] for name in names if name in fields}
    tries, handoffs, who = fields.get("tries", 1), fields.get("handoffs", 0), _function(function)
    if tries > 1:
        text = f"{who} took over the turn (try {tries}), because the previous worker had not finished it."
        return StoryEvent(at, "takeover", text, details)
    if since := fields.get("waited_since"):
        text = f"{who} resumed the turn, which had been waiting since {_time(since)}."
        return StoryEvent(at, "turn", text, details)
    if handoffs:
        text = f"{who} resumed the turn after handoff {handoffs}, because the previous invocation was out of time."
        return StoryEvent(at, "handoff", text, details)
    return StoryEvent(at, "turn", f"{who} began the turn.", details)


def _time(since: Any) -> str:
    try:
        return time_text(datetime.fromisoformat(str(since)).astimezone(UTC))
    except ValueError:
        return one_line(str(since))


def _pushed(at: datetime, message: str, fields: dict[str, Any]) -> StoryEvent:
    config, number = one_line(str(fields["config_id"])), fields.get("generation")
    details = {"config": config, **({"event": number} if number else {})}
    event, (kind, _, reason) = f"event {number}" if number else "an event", message.partition(": ")
    match kind:
        case "A notification was delivered.":
            text = f"The webhook {config} accepted {event}."
        case "A notification failed":
            text = f"The webhook {config} did not accept {event}: {reason}."
        case "A notification is given up":
            text = f"Delivering {event} to the webhook {config} was given up: {reason}."
        case "A webhook is gone":
            text = f"The webhook {config} answered with 410 (Gone) and is disabled."
        case _:
            text = f"Webhook {config}: {message}"
    return StoryEvent(at, "push", text, details)


def _raised(fields: dict[str, Any]) -> str:
    """Return the line of a traceback that names the raised exception, or "" without a traceback."""
    lines = str(fields.get("exception") or "").strip().splitlines()
    name = re.escape(str(fields.get("exception_name") or ""))
    # Search backwards for the exception's name. The last lines may be notes, such as LangGraph's note with the node's
    # name.
    named = (line for line in reversed(lines) if name and re.match(rf"([\w.]+\.)?{name}(:|$)", line))
    return next(named, lines[-1] if lines else "")


def _failure(at: datetime, function: str, message: str, fields: dict[str, Any]) -> StoryEvent:
    """Return the story event of a logged warning or error, with its exception and AWS's error code."""
    raised = _raised(fields)
    cause = f" {one_line(raised)}" if raised else ""
    details: dict[str, Any] = {"function": function}
    # Look for AWS's error code at the end of the exception's text or, without an exception, of the log message.
    if found := _AWS_ERROR.search(cause or message):
        details |= {"operation": found[1], "code": found[2]}
        cause += f" (AWS's error code for {found[1]}: {found[2]})"
    if fields.get("exception_name"):
        details["exception"] = fields["exception_name"]
    kind = "warning" if fields.get("level") == "WARNING" else "error"
    return StoryEvent(at, kind, f"{_function(function)} logged: {message}{cause}", details)


def _function(name: str) -> str:
    return _FUNCTIONS.get(name, f"The function {name}")
