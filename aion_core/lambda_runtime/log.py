"""Log records as lines of JSON, with tracebacks: one line is one event in CloudWatch Logs.

An app may replace the handler; its own format then applies to the loop's records too.
"""

import json
import logging
import sys
from datetime import UTC, datetime

REQUEST_ID = "function_request_id"
"""Field with the request id of the invocation, in `extra` and in the line; the name is that of Powertools."""


class JsonLine(logging.Formatter):
    """Formats a record with the names of Lambda's JSON log format."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        line = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
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
    """Write the records of all loggers without a handler to stdout."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonLine())
    # Ignore a level of Lambda that Python lacks (TRACE, FATAL).
    known = logging.getLevelNamesMapping()
    logging.basicConfig(handlers=[handler], level=known.get(level.upper(), logging.WARNING))
