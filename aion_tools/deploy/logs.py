"""Read the log groups of a deployment's functions, follow new log lines, and render them for people."""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from aion_core import log
from aion_core.errors import ConfigurationError
from aion_tools.deploy.aws import client_of, listed
from aion_tools.deploy.errors import AwsRefused

FUNCTIONS = ("api", "task", "push", "sweep")
PAUSE_SECONDS = 2.0
LATE_MS = 10_000
"""Longest delay, in milliseconds, until CloudWatch returns a new log line.

`follow` reads the lines of this period again, and drops those that it has already returned.
"""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True)
class LogLine:
    """A line in the log group of a function."""

    at: int
    """Time of the line, in milliseconds since 1970."""
    function: str
    text: str
    id: str

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of a line that is a JSON object, {} for any other line."""
        try:
            parsed = json.loads(self.text)
        except ValueError:
            return {}
        return parsed if isinstance(parsed, dict) else {}

    @property
    def killed_request(self) -> str:
        """Request id of the invocation if this line is Lambda's report of a failed invocation, else ""."""
        fields = self.fields
        record = fields.get("record") if fields.get("type") == "platform.report" else None
        is_killed = isinstance(record, dict) and record.get("status", "success") != "success"
        return str(record.get("requestId", "")) if is_killed and isinstance(record, dict) else ""


def group(stack: str, function: str) -> str:
    """Return the name of a function's log group, as in template.yaml and infra/roles.yaml."""
    return f"/aws/lambda/{stack}-{function}"


def seconds(text: str) -> int:
    """Parse a period such as `90s`, `15m`, `1h` or `2d` into seconds. Raises ValueError for any other text."""
    found = re.fullmatch(r"(\d+)([smhd])", text)
    if not found:
        raise ValueError(f"{text!r} has to be a number with s, m, h or d, such as 15m.")
    return int(found[1]) * _UNITS[found[2]]


def read(stack: str, functions: Sequence[str], *, since: int, task: str = "") -> list[LogLine]:
    """Return the functions' log lines from the time `since` (milliseconds) on, oldest first.

    With a task's id, return only its lines. Raises ConfigurationError if no function has a log group.
    """
    found = _read(stack, functions, since, f"{{ $.task_id = {json.dumps(task)} }}" if task else "")
    # Filter the lines here too, because an AWS emulator may ignore the JSON filter pattern of the request.
    return [line for line in found if not task or line.fields.get("task_id") == task]


def read_task(stack: str, task_id: str, context_id: str, *, since: int) -> list[LogLine]:
    """Return the log lines about a task, and Lambda's reports of its killed invocations, oldest first.

    Lambda's report names only the request id of its invocation, so it is found by the request ids in the task's log
    lines. Raises ConfigurationError if no function has a log group.
    """
    ids = json.dumps(task_id), json.dumps(context_id)
    pattern = f"{{ ($.task_id = {ids[0]}) || ($.context_id = {ids[1]}) }}"
    lines = about_task(_read(stack, FUNCTIONS, since, pattern), task_id, context_id)
    if requests := {line.fields.get("function_request_id") for line in lines} - {None, ""}:
        reports = '{ ($.type = "platform.report") && ($.record.status != "success") }'
        functions = sorted({line.function for line in lines})
        killed = _read(stack, functions, since, reports)
        lines += [line for line in killed if line.killed_request in requests]
    return sorted(lines, key=lambda line: line.at)


def about_task(lines: Sequence[LogLine], task_id: str, context_id: str) -> list[LogLine]:
    """Return a task's log lines. Include lines without a task id if their invocation and context id are the task's.

    Lines of other invocations are excluded even if they have this context id, because two owners may use the same
    context id.
    """
    own = {line.fields.get("correlation_id") for line in lines if line.fields.get("task_id") == task_id} - {None}
    return [
        line
        for line in lines
        if (fields := line.fields).get("task_id") == task_id
        or ("task_id" not in fields and fields.get("context_id") == context_id and fields.get("correlation_id") in own)
    ]


def _read(stack: str, functions: Sequence[str], since: int, pattern: str) -> list[LogLine]:
    """Return the functions' log lines that match the filter pattern, oldest first."""
    client = client_of("logs")
    found: list[LogLine] = []
    missing = 0
    for function in functions:
        try:
            found += _lines(client, stack, function, since, pattern)
        except AwsRefused as error:
            if error.code != "ResourceNotFoundException":
                raise
            missing += 1
    if missing == len(functions):
        raise ConfigurationError(
            f"There is no log group {group(stack, functions[0])} in this account and region. Check --stack, --region "
            "and --profile."
        )
    return sorted(found, key=lambda line: line.at)


def follow(
    stack: str,
    functions: Sequence[str],
    *,
    since: int,
    task: str = "",
    pause: Callable[[], None] = lambda: time.sleep(PAUSE_SECONDS),
) -> Iterator[LogLine]:
    """Yield the functions' log lines from the time `since` on, without end. `pause` is called between two reads."""
    yielded: dict[str, int] = {}
    newest = since
    while True:
        for line in read(stack, functions, since=max(since, newest - LATE_MS), task=task):
            if line.id not in yielded:
                yielded[line.id] = line.at
                newest = max(newest, line.at)
                yield line
        yielded = {line: at for line, at in yielded.items() if at >= newest - LATE_MS}
        pause()


def _lines(client: Any, stack: str, function: str, since: int, pattern: str) -> Iterator[LogLine]:
    parameters = {"logGroupName": group(stack, function), "startTime": since}
    if pattern:
        parameters["filterPattern"] = pattern
    for event in listed(client, "filter_log_events", "events", **parameters):
        yield LogLine(event["timestamp"], function, event["message"].rstrip(), event.get("eventId", ""))


SHOWN = ("task_id", "context_id", "agent")
"""Fields with ids printed after a line's message, in this order."""

# Fields of a log line that are not printed, because another part of the line shows them or because only programs need
# them.
_HIDDEN_FIELDS = frozenset(
    {
        "level", "message", "timestamp", "logger", "location", "service", "correlation_id", "function_request_id", "cold_start",
        "function_name", "function_memory_size", "function_arn", "exception", "exception_name", "stack_trace", "xray_trace_id",
        "queue_message_id", "traceparent", "taskName", "requestId", "errorType", "errorMessage", "stackTrace", *SHOWN,
    }
)  # fmt: skip


def rendered(line: LogLine) -> tuple[str, str]:
    """Return a log line's level and its text for people, or ("", "") for a hidden line.

    The text has time, function, message, ids and traceback. Metrics and Lambda's own reports are hidden, except reports
    of failed invocations.
    """
    fields = line.fields
    if not fields:
        return "INFO", _text(line, "", line.text, {}, "")
    if "_aws" in fields and "message" not in fields:
        return "", ""
    if str(fields.get("type", "")).startswith("platform."):
        return _platform(line, fields)
    level = str(fields.get("level", "INFO"))
    more = {name: value for name, value in fields.items() if name not in _HIDDEN_FIELDS and not name.startswith("_")}
    ids = {name: fields[name] for name in SHOWN if fields.get(name)}
    message = str(fields.get("message", fields.get("errorMessage", "")))
    traceback = fields.get("exception") or fields.get("stackTrace") or ""
    trace = "\n".join(map(str, traceback)) if isinstance(traceback, list) else str(traceback)
    return level, _text(line, level, message, {**ids, **more}, trace)


def _platform(line: LogLine, fields: Mapping[str, Any]) -> tuple[str, str]:
    record = fields.get("record") or {}
    status = record.get("status", "success") if isinstance(record, Mapping) else "success"
    if status == "success":
        return "", ""
    ids = {"request": record.get("requestId", "")}
    reason = record.get("errorType", "")
    return "ERROR", _text(line, "ERROR", f"Lambda ended an invocation: {status}{reason and f' ({reason})'}.", ids, "")


def _text(line: LogLine, level: str, message: str, more: Mapping[str, Any], traceback: str) -> str:
    # Print UTC, as the other commands of an operator do, so that their times can be compared.
    at = datetime.fromtimestamp(line.at / 1000, UTC)
    # Escape control characters, because texts of callers could otherwise control the terminal.
    texts = [*(message.splitlines() or [""]), *traceback.splitlines()]
    first, *others = map(log.one_line, texts)
    head = f"{at:%Y-%m-%d %H:%M:%S}.{line.at % 1000:03d} {line.function:5} {log.one_line(level):7} {first}"
    fields = " ".join(log.one_line(f"{name}={value}") for name, value in more.items())
    return "\n".join([f"{head}  {fields}" if fields else head, *(f"    {each}" for each in others)])
