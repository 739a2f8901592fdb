"""Log format of the runtime loop: each record is a line of JSON, including its traceback.

CloudWatch Logs stores each line as an event. An app may replace the log handler. Then the app's format also applies to
the records of the runtime loop.
"""

import json
import logging
import sys
from datetime import UTC, datetime

REQUEST_ID = "function_request_id"
"""Name of the field with the invocation's request id, in `extra` and in the JSON line. Powertools uses the same name."""


class JsonLine(logging.Formatter):
    """Formatter of log records as JSON, with the field names of Lambda's JSON log format."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the log record as a line of JSON."""
        line = {
            "timestamp": datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            "level": record.levelname,
            "message": record.getMessage(),
            "logger": record.name,
        }
        if isinstance(request_id := getattr(record, REQUEST_ID, None), str):
            line[REQUEST_ID] = request_id
        if record.exc_info:
            line["stackTrace"] = self.formatException(record.exc_info)
        return json.dumps(line)


def configure(level: str) -> None:
    """Write log records from this level on to stdout as JSON lines, unless the root logger already has handlers."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonLine())
    # Use WARNING for a log level of Lambda that Python does not have, such as TRACE.
    known = logging.getLevelNamesMapping()
    logging.basicConfig(handlers=[handler], level=known.get(level.upper(), logging.WARNING))
