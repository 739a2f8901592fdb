"""Queue like an SQS standard queue: at least once, in any order, with a visibility timeout and a dead letter queue."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from aion_core.engine.queues import PushWakeUp, WakeUp, limited

VISIBILITY_SECONDS = 960.0
MAX_RECEIVES = 5


@dataclass
class Letter:
    """Wake-up message while it is in the simulated queue."""

    number: int
    wake_up: WakeUp | PushWakeUp
    received: int = 0
    gone: bool = False


class WakeUpQueue:
    """Queue that delivers each message until its deletion, or up to the maximum receive count."""

    def __init__(self, later: Callable[..., Any], random: Random, deliver: Callable[[Letter], None]) -> None:
        """Use `later(seconds, act, *arguments)` for timers outside of any process."""
        self._later, self._random, self._deliver = later, random, deliver
        self.letters: list[Letter] = []
        self.dead: list[Letter] = []
        self.backlog: list[Letter] | None = None
        """Visible messages that wait for a worker, while there are too few workers; otherwise None."""
        self._held: type[WakeUp | PushWakeUp] = WakeUp

    def hold(self, kind: type[WakeUp | PushWakeUp], seconds: float, pace: float) -> None:
        """Let the messages of a kind wait this long, then deliver one every `pace` seconds, until none waits."""
        self.backlog, self._held = [], kind
        self._later(seconds, self._work_off, pace)

    def _work_off(self, pace: float) -> None:
        while self.backlog and self.backlog[0].gone:
            del self.backlog[0]
        if not self.backlog:
            self.backlog = None
            return
        self._later(pace, self._work_off, pace)
        self._received(self.backlog.pop(0))

    def waiting(self, kind: type[WakeUp | PushWakeUp]) -> int:
        """Return the number of visible messages of a kind."""
        return sum(1 for letter in self.backlog or () if not letter.gone and isinstance(letter.wake_up, kind))

    def lose(self, count: int) -> None:
        """Lose this many of the visible messages."""
        for letter in self._random.sample(self.backlog or [], min(count, len(self.backlog or []))):
            letter.gone = True

    def put(self, wake_up: WakeUp | PushWakeUp, delay: float = 0.0) -> None:
        """Enqueue a wake-up message for delivery after the delay, or a little later."""
        letter = Letter(len(self.letters), wake_up)
        self.letters.append(letter)
        self.show(letter, limited(delay) + self._random.choice((0.01, 0.05, 0.3)))

    def show(self, letter: Letter, after: float) -> None:
        """Make the message visible after this number of seconds, unless it is deleted before."""
        self._later(after, self._receive, letter)

    def delete(self, letter: Letter) -> None:
        """Delete the handled message."""
        letter.gone = True

    def purge(self) -> None:
        """Delete all messages."""
        for letter in self.letters:
            letter.gone = True

    def open(self) -> list[Letter]:
        """Return the pending messages."""
        return [letter for letter in self.letters if not letter.gone]

    def _receive(self, letter: Letter) -> None:
        if letter.gone:
            return
        if self.backlog is not None and isinstance(letter.wake_up, self._held):
            self.backlog.append(letter)
            return
        self._received(letter)

    def _received(self, letter: Letter) -> None:
        if letter.received >= MAX_RECEIVES:
            letter.gone = True
            self.dead.append(letter)
            return
        letter.received += 1
        # Start the visibility timeout, after which the message is visible again.
        self.show(letter, VISIBILITY_SECONDS)
        self._deliver(letter)
