"""A line of a function's log as people read it. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from aion_core.deploy.logs import Line

SHOWN = ("task_id", "context_id", "agent")
"""The ids of a line, in this order."""

# Fields that the rest of the line repeats, or that only programs need.
_PLUMBING = frozenset(
    {
        "level", "message", "timestamp", "logger", "location", "service", "correlation_id", "function_request_id", "cold_start",
        "function_name", "function_memory_size", "function_arn", "exception", "exception_name", "stack_trace", "xray_trace_id",
        "queue_message_id", "traceparent", "taskName", "requestId", "errorType", "errorMessage", "stackTrace", *SHOWN,
    }
)  # fmt: skip


def rendered(line: Line) -> tuple[str, str]:
    """Return the level of the line, and its text with time, function, ids and traceback; ("", "") for one not to show.

    Metrics and Lambda's own reports are not shown, except of an invocation that did not end well.
    """
    fields = line.fields
    if not fields:
        return "INFO", _text(line, "", line.text, {}, "")
    if "_aws" in fields and "message" not in fields:
        return "", ""
    if str(fields.get("type", "")).startswith("platform."):
        return _platform(line, fields)
    level = str(fields.get("level", "INFO"))
    more = {name: value for name, value in fields.items() if name not in _PLUMBING and not name.startswith("_")}
    ids = {name: fields[name] for name in SHOWN if fields.get(name)}
    message = str(fields.get("message", fields.get("errorMessage", "")))
    traceback = fields.get("exception") or fields.get("stackTrace") or ""
    said = "\n".join(map(str, traceback)) if isinstance(traceback, list) else str(traceback)
    return level, _text(line, level, message, {**ids, **more}, said)


def _platform(line: Line, fields: Mapping[str, Any]) -> tuple[str, str]:
    record = fields.get("record") or {}
    status = record.get("status", "success") if isinstance(record, Mapping) else "success"
    if status == "success":
        return "", ""
    ids = {"request": record.get("requestId", "")}
    reason = record.get("errorType", "")
    return "ERROR", _text(line, "ERROR", f"Lambda ended an invocation: {status}{reason and f' ({reason})'}.", ids, "")


def _text(line: Line, level: str, message: str, more: Mapping[str, Any], traceback: str) -> str:
    at = datetime.fromtimestamp(line.at / 1000).astimezone()
    head = f"{at:%Y-%m-%d %H:%M:%S}.{line.at % 1000:03d} {line.function:5} {level:7} {message}"
    said = " ".join(f"{name}={value}" for name, value in more.items())
    lines = [f"{head}  {said}" if said else head, *(f"    {each}" for each in traceback.splitlines())]
    return "\n".join(lines)
