"""One line of JSON per log record: what CloudWatch keeps as one event, a traceback too."""

import json
import logging
import sys
from datetime import UTC, datetime

LABELS = ("correlation_id", "task_id", "traceparent")
"""What a record may carry, by `extra`, and its line says: by these the lines of one request, task or trace are found."""


class JsonLine(logging.Formatter):
    """Writes a record under the names that Lambda's own JSON log format uses."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        line = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "message": record.getMessage(),
            "logger": record.name,
        }
        line |= {label: value for label in LABELS if isinstance(value := getattr(record, label, None), str)}
        if record.exc_info:
            line["stackTrace"] = self.formatException(record.exc_info)
        return json.dumps(line)


def configure(level: str) -> None:
    """Send every logger that has no handler of its own to stdout, a line at a time."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonLine())
    # A level that Lambda may add and Python does not know (TRACE, FATAL) is no reason not to start.
    known = logging.getLevelNamesMapping()
    logging.basicConfig(handlers=[handler], level=known.get(level.upper(), logging.WARNING))
