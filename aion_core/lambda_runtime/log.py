"""One line of JSON per log record, a traceback too: what CloudWatch keeps as one event.

An app that has lines of its own puts them in this one's place, for the loop's records too.
"""

import json
import logging
import sys
from datetime import UTC, datetime

REQUEST_ID = "function_request_id"
"""What a record of the loop carries, as `extra`, and its line says, under Powertools' name: which invocation it is of."""


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
        if isinstance(request_id := getattr(record, REQUEST_ID, None), str):
            line[REQUEST_ID] = request_id
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
