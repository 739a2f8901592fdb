"""Log file of the development server: log records as JSON lines in its data folder, as deployed functions write them.

`aion why` reads the file. A worker renames the file when it has reached LARGEST_BYTES, and so replaces the log file
renamed before.
"""

import contextlib
import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from aion_core import log
from aion_tools.dev.data_folder import LOG

if TYPE_CHECKING:
    from aion_tools.deploy.logs import LogLine

EARLIER = f"{LOG}.1"
"""Name of the previous log file, within the data folder."""

LARGEST_BYTES = 10 * 1024 * 1024

SERVICE = "dev"
"""Source of the log lines, as in a deployment the name of a function."""


def prepare(folder: Path, *, fresh: bool) -> Path:
    """Return the path of the log file in this data folder. With `fresh`, delete all log lines."""
    path = folder / LOG
    if fresh:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
            (folder / EARLIER).unlink(missing_ok=True)
    return path


class _LogFile(logging.Handler):
    """Log handler for a file. It warns once while the file cannot be written, such as on a full disk."""

    def __init__(self, path: Path) -> None:
        """Open the file, and create it if missing. Raises OSError."""
        super().__init__()
        self._path, self._descriptor, self._fails = path, _opened(path), False

    def emit(self, record: logging.LogRecord) -> None:
        """Append the record to the file."""
        try:
            if os.fstat(self._descriptor).st_size >= LARGEST_BYTES:
                self._rotate()
            # Append each record with a single `write` call, so that lines of two workers are not mixed.
            os.write(self._descriptor, f"{self.format(record)}\n".encode(errors="replace"))
            self._fails = False
        except OSError as error:
            if not self._fails:
                # Set the flag before logging the warning. This handler gets the warning too, and would otherwise warn
                # without end.
                self._fails = True
                logging.getLogger(__name__).warning("The log file cannot be written: %s", error.strerror)
        except Exception:  # report any other error as logging's own handlers do
            self.handleError(record)

    def _rotate(self) -> None:
        """Rename the file, unless another worker has renamed it, and continue in a new file."""
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(self._path.stat(), os.fstat(self._descriptor)):
                self._path.replace(self._path.with_name(EARLIER))
        new = _opened(self._path)
        os.dup2(new, self._descriptor, inheritable=False)
        os.close(new)


def _opened(path: Path) -> int:
    # Only this user may read the file, because log messages may quote data of the project.
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def install(path: Path) -> None:
    """Write this process's log records to the file as well, if the file is writable."""
    from aion_core.aws.log_formatter import formatter
    from aion_tools.dev.console_log import is_wanted

    try:
        handler = _LogFile(path)
    except OSError as error:
        logging.getLogger(__name__).warning("The log file cannot be written: %s", error.strerror)
        return
    handler.setFormatter(formatter(SERVICE))
    handler.addFilter(is_wanted)
    log.handle_records(handler)


def read(folder: Path, task_id: str, context_id: str) -> "list[LogLine]":
    """Return the log lines about a task (see `deploy.logs.about_task`), oldest first."""
    from aion_tools.deploy.logs import LogLine, about_task

    found = []
    for path in (folder / EARLIER, folder / LOG):
        for text in _texts(path):
            # Skip lines without the id of the task or context before parsing, because parsing is slow.
            if f'"{task_id}"' not in text and f'"{context_id}"' not in text:
                continue
            line = LogLine(0, SERVICE, text.rstrip())
            at = _milliseconds(str(line.fields.get("timestamp", "")))
            if at is not None:
                found.append(replace(line, at=at))
    return about_task(found, task_id, context_id)


def _milliseconds(timestamp: str) -> int | None:
    try:
        return int(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except ValueError:
        return None


def _texts(path: Path) -> Iterator[str]:
    with contextlib.suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
        yield from file
