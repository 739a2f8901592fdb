"""Read the log lines of a task from the log groups of a deployment's functions."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from aion_core.errors import ConfigurationError
from aion_core.table.times import milliseconds
from aion_tools.deploy.aws import client_of, listed
from aion_tools.deploy.errors import AwsRefused

FUNCTIONS = ("api", "task", "push", "sweep")


@dataclass(frozen=True)
class LogLine:
    """A line in the log group of a function."""

    at: int
    """Time of the line, in milliseconds since 1970: its own `timestamp` or, without one, that in the log group."""
    function: str
    text: str

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


def _lines(client: Any, stack: str, function: str, since: int, pattern: str) -> Iterator[LogLine]:
    parameters = {"logGroupName": group(stack, function), "startTime": since}
    if pattern:
        parameters["filterPattern"] = pattern
    for event in listed(client, "filter_log_events", "events", **parameters):
        yield _in_own_time(LogLine(event["timestamp"], function, event["message"].rstrip()))


def _in_own_time(line: LogLine) -> LogLine:
    """Return the line at the time that it names itself: the log group's may be that of the end of the invocation."""
    try:
        at = datetime.fromisoformat(str(line.fields.get("timestamp")))
    except ValueError:
        return line
    return replace(line, at=milliseconds(at)) if at.tzinfo else line
