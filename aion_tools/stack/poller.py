"""Protocol of the pollers, and the function that they invoke."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread
from typing import Any, Protocol

from aion_tools.stack.lambda_events import LambdaContext

Handler = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Function:
    """A Lambda function of the template, with its properties and its Python handler."""

    name: str
    arn: str
    timeout: int
    memory: int
    handler: Handler

    def invoke(self, event: Any) -> Any:
        """Call the handler with the event, and return its result as parsed JSON. Raises the handler's exceptions."""
        context = LambdaContext(self.name, self.arn, self.memory, self.timeout)
        return json.loads(json.dumps(self.handler(event, context)))


class Poller(Protocol):
    """Protocol for a poller: a thread that invokes one function of the template."""

    def start(self) -> None:
        """Start polling."""

    def stop(self) -> None:
        """Start no further invocation."""

    def join(self, deadline: float, *, polls: bool = True) -> list[str]:
        """Wait for running invocations until this monotonic time. Return the names of functions still running.

        With `polls=False`, do not wait for the end of a long poll. Messages that it receives become visible again.
        """


def has_ended(thread: Thread, deadline: float) -> bool:
    """Wait for the thread until this monotonic time, and return True if it has ended."""
    thread.join(seconds_until(deadline))
    return not thread.is_alive()


def seconds_until(deadline: float) -> float:
    """Return the number of seconds until this monotonic time, at least 0."""
    return max(0.0, deadline - time.monotonic())
