"""Log handler for all loggers: writes records as JSON lines for CloudWatch Logs, with Powertools' formatter."""

import json
import logging
import sys
from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

from aion_core import log

_OMITTED = frozenset({"taskName", "name", "aion_labels"})
"""Powertools' fields to leave out of log lines. `name` is written as `logger`, Lambda's name for this field."""


def install(service: str, level: str) -> None:
    """Replace the root logger's handlers by one for JSON lines on standard output. A second call changes nothing.

    So records of libraries and agents have the same fields as aion's. Lambda's own handler would not add the labels,
    such as the task id.
    """
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(formatter(service))
    log.handle_records(handler, alone=True)
    # Use INFO if Lambda sets a level that Python does not have, such as TRACE.
    logging.getLogger().setLevel(logging.getLevelNamesMapping().get(level.upper(), logging.INFO))


def formatter(service: str) -> logging.Formatter:
    """Return a formatter to write each log record as one JSON line."""
    return _JSONFormatter(
        json_serializer=_line,
        # Keep a message that is JSON as text. Powertools would otherwise write it as an object.
        json_deserializer=str,
        # Write stack traces only as text, because the structured form would double the length of the line.
        serialize_stacktrace=False,
        use_rfc3339=True,
        utc=True,
        service=service,
        name="%(name)s",
    )


class _JSONFormatter(LambdaPowertoolsFormatter):
    """Powertools' formatter with the labels of `aion_core.log`."""

    def format(self, record: logging.LogRecord) -> str:
        # Do not replace a value from the record's `extra` by a label, because the value in `extra` describes this
        # record.
        for name, value in log.labels_of(record).items():
            record.__dict__.setdefault(name, value)
        return super().format(record)


def _line(fields: Mapping[str, Any]) -> str:
    line = {name: value for name, value in fields.items() if name not in _OMITTED} | {"logger": fields["name"]}
    line = log.without_secrets(line)
    try:
        return json.dumps(line, default=str, skipkeys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        # Log only texts and numbers, because some value in `extra` cannot be written as JSON: it contains itself or is
        # nested too deeply.
        texts = {name: value for name, value in line.items() if isinstance(value, str | int | float)}
        return json.dumps(texts, separators=(",", ":"))
