"""Poller that invokes a function at its schedule, as EventBridge does."""

import logging
import re
from collections.abc import Mapping
from functools import partial
from threading import Event, Thread
from typing import Any

from aion_tools.stack.lambda_events import schedule_event
from aion_tools.stack.poller import Function, has_ended
from aion_tools.template.reader import Place, TemplateError

logger = logging.getLogger(__name__)
_UNITS = {"minute": 60, "hour": 3600, "day": 86400}
_RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")


class SchedulePoller:
    """Poller that invokes a function at the rate of its Schedule or ScheduleV2 event."""

    def __init__(self, function: Function, kind: str, name: str, properties: Mapping[str, Any], place: Place) -> None:
        self.function = function
        self._event = partial(schedule_event, kind, name, properties, place)
        self._interval = interval(properties["Schedule" if kind == "Schedule" else "ScheduleExpression"])
        self._stopping = Event()
        self._thread = Thread(target=self._run, name=f"schedule-{function.name}", daemon=True)

    def start(self) -> None:
        """Start the schedule. The first invocation follows after one interval."""
        self._thread.start()

    def stop(self) -> None:
        """Start no further invocation."""
        self._stopping.set()

    def join(self, deadline: float, *, polls: bool = True) -> list[str]:
        """Wait for a running invocation until this monotonic time. Return the function's name if it still runs."""
        return [] if has_ended(self._thread, deadline) else [self.function.name]

    def call(self) -> Any:
        """Invoke the function now, in this thread."""
        return self.function.invoke(self._event())

    def _run(self) -> None:
        while not self._stopping.wait(self._interval):
            try:
                self.call()
            except (Exception, SystemExit):
                logger.exception("%s failed", self.function.name)


def interval(expression: str) -> int:
    """Return the number of seconds in a schedule expression such as rate(5 minutes)."""
    match = _RATE.fullmatch(expression)
    if match is None:
        raise TemplateError(f"the local stack supports rate(...) schedules only, not {expression!r}")
    return int(match[1]) * _UNITS[match[2]]
