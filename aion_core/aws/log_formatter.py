"""How a record becomes a line of CloudWatch Logs: one JSON object, by Powertools' formatter, for every logger (R13)."""

import json
import logging
import sys
from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

from aion_core import log

_UNSAID = frozenset({"taskName", "name", "aion_labels"})
"""What Powertools takes from a record and no operator looks for; `name` is said as `logger`, as Lambda calls it."""


def install(service: str, level: str) -> None:
    """Let every logger write such lines to the standard output, and nothing else write any; a repeat changes nothing.

    On the root logger: what libraries and agents log is found by the same names. Lambda's runtime has put a handler of
    its own there, which knows no task.
    """
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(formatter(service))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # A level that Lambda may add and Python does not know (TRACE, FATAL) is no reason not to start.
    root.setLevel(logging.getLevelNamesMapping().get(level.upper(), logging.INFO))


def formatter(service: str) -> logging.Formatter:
    """Return what writes a record as a line."""
    return _Lines(
        json_serializer=_line,
        # A message that happens to be JSON stays the text that it is.
        json_deserializer=str,
        # As text, and once: the same again in pieces would double each line that matters.
        serialize_stacktrace=False,
        use_rfc3339=True,
        utc=True,
        service=service,
        name="%(name)s",
    )


class _Lines(LambdaPowertoolsFormatter):
    """Powertools' formatter, which takes what a record is about from where `log` has put it."""

    def format(self, record: logging.LogRecord) -> str:
        # What the caller says of the line itself goes before what is said of all around it.
        for name, value in log.labels_of(record).items():
            record.__dict__.setdefault(name, value)
        return super().format(record)


def _line(said: Mapping[str, Any]) -> str:
    line = {name: value for name, value in said.items() if name not in _UNSAID} | {"logger": said["name"]}
    line = log.without_secrets(line)
    try:
        return json.dumps(line, default=str, skipkeys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        # Somebody has put into `extra` what holds itself; the rest of the line is told all the same.
        texts = {name: value for name, value in line.items() if isinstance(value, str | int | float)}
        return json.dumps(texts, separators=(",", ":"))
